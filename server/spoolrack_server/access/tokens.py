"""Tokens: making one, and finding the identity of one.

The file holds the SHA-256 of each token, and no token: a reader of the file can't authenticate with it.
A token is 256 random bits, which can't be guessed, so that a slow hash adds nothing. One unreadable
line makes the whole file unreadable (`UnreadableAccessFile`): half a list would refuse the other half.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from typing import Final

from ..app.caller import Identity
from .file_format import UnreadableAccessFile, lines_of, require_identity, require_new_identity

PREFIX: Final = "srk_"
"""Marks a token as one of Spoolrack's, for scanners of leaked secrets too."""
LONGEST: Final = 1_024
"""Characters of a token that are hashed; the rest is ignored."""
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")


class Tokens:
    """The tokens of one version of the file. Immutable; safe in any thread."""

    def __init__(self, identities: dict[bytes, Identity]) -> None:
        """`identities` by the SHA-256 of their tokens."""
        self._identities = identities
        self.names = frozenset(each.name for each in identities.values())

    @classmethod
    def parsed(cls, text: str) -> Tokens:
        """Parse the text of a file; raises `UnreadableAccessFile`."""
        identities: dict[bytes, Identity] = {}
        for number, words in lines_of(text):
            if len(words) != 2:
                raise UnreadableAccessFile(
                    number, "has not two words: an identity, and sha256:<64 hex digits>"
                )
            name, hashed = words
            require_identity(name, number)
            match = _HASH.fullmatch(hashed)
            if match is None:
                # Not shown: it may be the token itself.
                raise UnreadableAccessFile(number, "the second word is not sha256:<64 hex digits>")
            digest = bytes.fromhex(match[1])
            if digest in identities:
                raise UnreadableAccessFile(number, "repeats the token of another line")
            identities[digest] = Identity(name)
        return cls(identities)

    def __len__(self) -> int:
        return len(self._identities)

    def __iter__(self) -> Iterator[Identity]:
        return iter(self._identities.values())

    def identity_of(self, token: str) -> Identity | None:
        """Return the identity of a token, or None for an unknown one.

        The lookup's time tells at most how much of the hash agrees with a known one. The token can't be
        computed from its hash, so that this helps no caller.
        """
        digest = hashlib.sha256(token[:LONGEST].encode(errors="replace")).digest()
        return self._identities.get(digest)


def new_token() -> str:
    """Return a token of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def line_of(identity: str, token: str) -> str:
    """Return the token's line in the file. Raises `ValueError` for an invalid name."""
    require_new_identity(identity)
    return f"{identity} sha256:{hashlib.sha256(token.encode()).hexdigest()}"
