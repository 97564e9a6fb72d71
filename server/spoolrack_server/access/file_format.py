"""The lines of the token and permission files, and the names in both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

ANY_IDENTITY: Final = "*"
_IDENTITY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=,%-]{0,254}")


class UnreadableAccessFile(Exception):
    """A file of tokens, of permissions or of certificates is invalid."""

    def __init__(self, line: int | None, why: str) -> None:
        super().__init__(why if line is None else f"line {line}: {why}")


def lines_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line that isn't empty; `#` begins a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            yield number, words


def require_identity(name: str, line: int) -> None:
    """Raise `UnreadableAccessFile` for a name that no token or rule of a `line` can have."""
    if not is_identity(name):
        raise UnreadableAccessFile(line, f"{name[:80]!r} can't be the name of an identity")


def require_new_identity(name: str) -> None:
    """Raise `ValueError` for a name that no token or key can be made for."""
    if not is_identity(name):
        raise ValueError(
            f"{name!r} can't be the name of an identity: use up to 255 letters, digits and the signs "
            ". _ - : / @ + = , %"
        )


def is_identity(name: str) -> bool:
    """Return whether a token or a rule can have this name; a certificate may have any."""
    return _IDENTITY.fullmatch(name) is not None
