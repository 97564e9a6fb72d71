"""Permissions file: identities, permissions and the queues that they apply to.

A line is `<identity or *> <permission>[,<permission>...] <queue pattern> [...]`. Anything that no line
allows is refused; no line takes anything away, so their order means nothing. A line that can't be read
makes all of the file unreadable (`UnreadableAccessFile`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ..app.caller import ALL_QUEUES, Identity, Permission
from .file_format import ANY_IDENTITY, UnreadableAccessFile, lines_of, require_identity

_ALL: Final = "all"
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.*?-]{1,80}")
_REMEMBERED: Final = 10_000
"""Answers, so that a call doesn't cost what a long list of patterns costs. No bound but of memory."""


class Rules:
    """The rules of one version of the file. Immutable, for any thread."""

    def __init__(self, rules: Iterable[tuple[str, frozenset[Permission], str]]) -> None:
        """Each is who, what, and a pattern of queues."""
        self._patterns: dict[tuple[str, Permission], list[re.Pattern[str]]] = {}
        self._everywhere: set[tuple[str, Permission]] = set()
        for name, permissions, pattern in rules:
            for permission in permissions:
                key = (name, permission)
                self._patterns.setdefault(key, []).append(_compiled(pattern))
                if not pattern.strip(ALL_QUEUES):
                    self._everywhere.add(key)
        self.allows = lru_cache(_REMEMBERED)(self._allows)
        """Return whether an identity may do it to a queue; "*": to all queues, also those to come."""

    def __len__(self) -> int:
        return sum(map(len, self._patterns.values()))

    @classmethod
    def parsed(cls, text: str) -> Rules:
        """Parse a file; raise `UnreadableAccessFile`."""
        rules: list[tuple[str, frozenset[Permission], str]] = []
        for number, words in lines_of(text):
            if len(words) < 3:
                raise UnreadableAccessFile(
                    number, "has not three words: an identity, permissions, and a pattern of queues"
                )
            name, what, *patterns = words
            if name != ANY_IDENTITY:
                require_identity(name, number)
            for pattern in patterns:
                if not _PATTERN.fullmatch(pattern):
                    raise UnreadableAccessFile(
                        number, f"{pattern[:80]!r} can't be a pattern of queue names"
                    )
                rules.append((name, _permissions(number, what), pattern))
        return cls(rules)

    def _allows(self, identity: Identity, permission: Permission, queue: str) -> bool:
        keys = ((identity.name, permission), (ANY_IDENTITY, permission))
        if queue == ALL_QUEUES:
            return any(key in self._everywhere for key in keys)
        return any(
            pattern.match(queue) is not None for key in keys for pattern in self._patterns.get(key, ())
        )

    def allows_somewhere(self, identity: Identity, permission: Permission) -> bool:
        """Return whether an identity can have the permission on any queue."""
        keys = ((identity.name, permission), (ANY_IDENTITY, permission))
        return any(key in self._patterns for key in keys)


def _permissions(line: int, what: str) -> frozenset[Permission]:
    permissions: set[Permission] = set()
    for word in what.split(","):
        if word == _ALL:
            permissions.update(Permission)
            continue
        try:
            permissions.add(Permission(word))
        except ValueError as error:
            known = ", ".join([*(permission.value for permission in Permission), _ALL])
            raise UnreadableAccessFile(
                line, f"{word[:80]!r} is no permission: there are {known}"
            ) from error
    return frozenset(permissions)


def _compiled(pattern: str) -> re.Pattern[str]:
    # Python's own, because a plain ".*" for each star takes ages where there are many of them.
    return re.compile(fnmatch.translate(pattern))
