"""The option `credentials`: a query's identity, as text, and as its processes use it.

The driver reads the files that the text names, once, and hands their content to the executors with the
tasks: none of them needs the files. No plan, log, offset or error of ours shows it; Spark may show the
option's own text, so a token is better kept in a file that the option names. What can fail:
`InvalidOption`, which names a part and never shows one.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any, Final

from .._credentials import Credentials, credentials_for
from ..errors import InvalidCredentials
from ._option_fields import InvalidOption

PARTS: Final = ("token", "token-file", "token-variable", "ca", "certificate", "key", "insecure")
_BETWEEN: Final = re.compile(r"[;\n]")


def credentials_in(text: str, address: str, host: str, *, is_secure: bool) -> Credentials:
    """Return the credentials of `text`: `token=...`, `token-file=PATH`, `token-variable=NAME` of the
    environment, `ca=PATH`, `certificate=PATH`, `key=PATH`, `insecure=true`, with `;` between them; or
    `file=PATH`, a file that holds them, one in a line."""
    parts = _parts(text)
    if "file" in parts:
        if len(parts) > 1:
            raise InvalidOption("credentials: file stands alone, the other parts are in that file.")
        parts = _parts(_content(parts["file"]))
    if unknown := parts.keys() - set(PARTS):
        raise InvalidOption(
            f"credentials: there is no part {sorted(unknown)[0][:20]!r}: there are {', '.join(PARTS)}, "
            "or file alone."
        )
    if parts.get("insecure", "true") != "true":
        raise InvalidOption("credentials: insecure is 'true', or left out.")
    options: dict[str, Any] = {name: parts.get(name) for name in ("token", "ca", "certificate", "key")}
    if len(parts.keys() & {"token", "token-file", "token-variable"}) > 1:
        raise InvalidOption("credentials: choose one of token, token-file and token-variable.")
    if "token-file" in parts:
        options["token"] = partial(_token_in, parts["token-file"])
    elif "token-variable" in parts:
        name = parts["token-variable"]
        options["token"] = os.environ.get(name, "").strip()
        if not options["token"]:
            raise InvalidOption(f"credentials: the driver's environment has no variable {name}.")
    try:
        return credentials_for(
            address, host, is_secure=is_secure, insecure="insecure" in parts, **options
        )
    except InvalidCredentials as error:
        raise InvalidOption(f"credentials: {error}") from None


def _parts(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in _BETWEEN.split(text):
        if not part.strip() or part.lstrip().startswith("#"):
            continue
        name, separator, value = part.partition("=")
        name = name.strip()
        if not separator or not value.strip() or name in values:
            # Not shown: it may be a token that lacks its name.
            raise InvalidOption(
                "credentials must be parts NAME=VALUE with ';' between them, each once."
            )
        values[name] = value.strip()
    return values


def _token_in(path: str) -> str:
    return _content(path).strip()


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read(65_536)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise InvalidOption(
            f"credentials: {os.fspath(path)} can't be read ({why}). The driver reads it."
        ) from None
