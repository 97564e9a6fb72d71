"""The access files of a server: loaded at the start, and reloaded while it runs.

Starting raises `AccessUnusable` for a file that can't be used, or options that make no sense together,
and `Insecure` for an address that the network can reach without TLS.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..system.addresses import address_text
from ..system.logs import Log
from .access_control import AccessControl
from .permissions_file import Rules
from .sqs_keys import SqsKeys
from .tls import Tls, TlsFiles
from .tokens import Tokens
from .watched_files import FIXED, SECRET, AccessUnusable, WatchedFiles

T = TypeVar("T")

RELOAD_INTERVAL: Final = 1.0
"""Seconds between two looks at the files."""
STALE: Final = 10.0
"""Seconds after which files that differ from what is in force, or can't be read, are told."""


class Insecure(Exception):
    """An address that other machines can reach would be served without TLS."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"{address} can be reached from elsewhere, and what travels there could be read and "
            "changed: give --tls-certificate and --tls-key, or listen at 127.0.0.1, or say --insecure"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The paths of the access files, as given."""

    tls: TlsFiles | None = None
    tokens: str | None = None
    permissions: str | None = None
    sqs_keys: str | None = None
    insecure: bool = False
    """Whether others than this machine are served without TLS."""

    def check(self, *addresses: tuple[str, int]) -> None:
        """Raise `Insecure` for an address that must not be listened on."""
        if self.tls is not None or self.insecure:
            return
        for host, port in addresses:
            if not is_loopback(host):
                raise Insecure(address_text(host, port))

    def load(self, log: Log) -> AccessFiles:
        """Load the files of tokens, permissions and certificates; raise `AccessUnusable`."""
        asks = self.tls is not None and self.tls.client_ca is not None
        if self.permissions is not None and not (self.tokens or self.sqs_keys or asks):
            raise AccessUnusable(
                f"the permissions {self.permissions}",
                "no caller can show an identity: give --tokens, --tls-client-ca or --sqs-keys, too",
            )
        tls = None if self.tls is None else Tls(self.tls, log)
        tokens = _watched("tokens", self.tokens, SECRET, Tokens.parsed, log)
        rules = _watched("permissions", self.permissions, FIXED, Rules.parsed, log)
        sqs_keys = _watched("keys of SQS", self.sqs_keys, SECRET, SqsKeys.parsed, log)
        watched: list[WatchedFiles[Any]] = [] if tls is None else [tls.files]
        watched += [each for each in (tokens, rules, sqs_keys) if each is not None]
        access_control = AccessControl(
            tokens=tokens, rules=rules, sqs_keys=sqs_keys, asks_for_certificates=asks
        )
        return AccessFiles(access_control, tls, watched, log, sqs_keys)

    def check_sqs(self, host: str, port: int) -> None:
        """Raise `AccessUnusable` if clients of SQS can't be identified at this address, and must be."""
        if self.sqs_keys is not None:
            return
        asks = self.tokens is not None or (self.tls is not None and self.tls.client_ca is not None)
        if asks or not (self.insecure or is_loopback(host)):
            raise AccessUnusable(
                f"--sqs {address_text(host, port)}",
                "its callers can't be identified: give --sqs-keys; `spoolrack tokens sqs-key` makes "
                "the file",
            )


class AccessFiles:
    """The opened files: access control, and the server's certificates."""

    def __init__(
        self,
        access_control: AccessControl,
        tls: Tls | None,
        watched: Sequence[WatchedFiles[Any]],
        log: Log,
        sqs_keys: WatchedFiles[SqsKeys] | None = None,
    ) -> None:
        self._log = log
        self.sqs_keys = sqs_keys
        self.access_control = access_control
        self.tls = tls
        self._watched = watched

    @property
    def is_watching(self) -> bool:
        """Whether there are files that may change."""
        return bool(self._watched)

    @property
    def ages(self) -> dict[str, float]:
        """Seconds since what is in force was last found to be what the files say, by kind of file."""
        return {each.what: each.age for each in self._watched}

    @property
    def stale(self) -> list[str]:
        """The kinds of files of which something else is in force than they say, for a while."""
        return [what for what, age in self.ages.items() if age > STALE]

    async def look(self) -> None:
        """Reload changed files once, after a pause, and end the calls that may not go on."""
        await asyncio.sleep(RELOAD_INTERVAL)
        if await _in_daemon_thread(self.reload):
            self.access_control.recheck()

    def reload(self) -> bool:
        """Reload changed files; return whether something has changed."""
        changes = [each.reload() for each in self._watched]
        return any(changes)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host, without asking the resolver."""
    try:
        found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return True  # Then nothing can listen there: the bind says why.
    addresses = (ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found)
    return all((getattr(address, "ipv4_mapped", None) or address).is_loopback for address in addresses)


def _watched(what: str, path: str | None, forbidden: int, parse: Callable[[str], Any], log: Log) -> Any:
    if path is None:
        return None
    return WatchedFiles(
        what, [(path, forbidden)], lambda contents: parse(contents[0].decode()), log, entries=len
    )


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, run in a thread that the end of the process doesn't wait for: a file
    of a network file system may not answer for ever."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as caught:  # noqa: BLE001 - for the caller
            error = caught
        with suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name="spoolrack-access", daemon=True).start()
    return await future
