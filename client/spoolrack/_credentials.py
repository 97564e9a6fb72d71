"""Credentials of a client, and its trust in the server: a token, certificates, or both.

Certificates and tokens may expire within hours: after a lost connection, and after a refusal, files are
read again, and a function for the token is called again. What can fail: a file that is no certificate,
and a token that would be sent where every host on the way could read it. Both are an
`InvalidCredentials` before any connection is made; later the former credentials stay in use. A token is
in no `repr`, no error and no log.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import ssl
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypedDict

from .errors import InvalidCredentials, SpoolrackError

log = logging.getLogger("spoolrack")

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1024}")


class CredentialOptions(TypedDict, total=False):
    """The credential options of `connect`."""

    token: str | Callable[[], str] | None
    """Made by `spoolrack tokens new`, for a server that asks for one. A function returns the token of
    now: it is called at once, after a lost connection, and after a refusal. In the client of an event
    loop it must not wait."""
    ca: str | os.PathLike[str] | None
    """A file of the CAs that may have signed the server's certificate. None: the public ones that gRPC
    brings along."""
    certificate: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    """Files of this client's own certificate, for a server that asks for one. All files are read again
    after a lost connection, and after a refusal."""
    insecure: bool
    """Send the token without TLS, too, to whatever machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials, checked and read, and their origin, from which they are read again."""

    token: str = field(default="", repr=False)
    is_secure: bool = False
    """Whether the connection is one of TLS."""
    ca: bytes | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    origin: Callable[[], Credentials] | None = field(default=None, repr=False, compare=False)
    """Reads them again; raises `InvalidCredentials` or `OSError`. None: they never change."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the credentials of now: another process may not have the files."""
        now = self.renewed()
        values = now.token, now.is_secure, now.ca, now.certificate, now.key, self.origin
        return _credentials_of, values

    def renewed(self) -> Credentials:
        """Return the credentials of now; these, if there are none, or none that can be used."""
        if self.origin is None:
            return self
        try:
            found = self.origin()
        except (SpoolrackError, OSError) as error:
            log.warning("the credentials can't be read again, and stay as they are: %s", error)
            return self
        except Exception:
            log.exception("the function for the token has failed, and the token stays as it is")
            return self
        return self if found == self else found

    @property
    def metadata(self) -> tuple[tuple[str, str], ...] | None:
        """Return the metadata of each call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else None


def _credentials_of(
    token: str,
    is_secure: bool,
    ca: bytes | None,
    certificate: bytes | None,
    key: bytes | None,
    origin: Callable[[], Credentials] | None,
) -> Credentials:
    return Credentials(
        token=token, is_secure=is_secure, ca=ca, certificate=certificate, key=key, origin=origin
    )


NONE: Final = Credentials()


def credentials_for(
    target: str,
    host: str,
    *,
    is_secure: bool,
    token: str | Callable[[], str] | None = None,
    ca: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    insecure: bool = False,
) -> Credentials:
    """Return the credentials for the server `target` at `host`. Raises `InvalidCredentials`."""
    origin = partial(
        credentials_for,
        *(target, host),
        is_secure=is_secure,
        token=token,
        ca=ca,
        certificate=certificate,
        key=key,
        insecure=insecure,
    )
    can_change = callable(token) or ca is not None or certificate is not None
    if callable(token):
        token = token()
        if token is None:
            raise InvalidCredentials("The function for the token returned None.")
    if token is not None:
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise InvalidCredentials("The token is not one: it has spaces, is empty or too long.")
        if not is_secure and not insecure and not is_loopback(host):
            raise InvalidCredentials(
                f"The token would be sent to {target} in clear, readable for every host on the way: "
                "use grpcs://, or say insecure."
            )
    files = {"ca": ca, "certificate": certificate, "key": key}
    if not is_secure and any(path is not None for path in files.values()):
        raise InvalidCredentials(f"Certificates go with grpcs://, and {target} has no TLS.")
    if (certificate is None) != (key is None):
        raise InvalidCredentials("A certificate goes with its key: give both or neither.")
    if ca is not None or certificate is not None:
        _check(ca, certificate, key)
    return Credentials(
        token=token or "",
        is_secure=is_secure,
        origin=origin if can_change else None,
        **{name: None if path is None else _content(path) for name, path in files.items()},
    )


def refuse_credentials(target: str, options: CredentialOptions) -> None:
    """Raise `InvalidCredentials` if credentials are given for a target that takes none."""
    given = [name for name, value in options.items() if value not in (None, False)]
    if given:
        raise InvalidCredentials(f"{target} is a folder, not a server: leave out {', '.join(given)}.")


def is_loopback(host: str) -> bool:
    """Return whether this host name is a loopback name, without asking the resolver."""
    host = host.strip("[]").partition("%")[0]
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(ca: Any, certificate: Any, key: Any) -> None:
    """gRPC would only fail to connect."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca is not None:
            context.load_verify_locations(ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password=_no_password)
    except OSError as error:
        paths = [os.fspath(path) for path in (ca, certificate, key) if path is not None]
        why = error.strerror or str(error)
        raise InvalidCredentials(f"{', '.join(paths)} can't be used as certificates: {why}") from error


def _no_password() -> str:
    # Otherwise OpenSSL would ask a terminal for one.
    return ""


def _content(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        # OpenSSL passes over the mark that editors of Windows write, and gRPC would not connect.
        return file.read().removeprefix(BOM_UTF8)
