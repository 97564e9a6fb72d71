"""Tokens: how they are made, and whose one is.

The file holds no token, only the SHA-256 of each: who reads the file can't use what he finds. A token
is 256 random bits, so that nobody finds it by trying, and no slow hash is needed. A line of the file
that can't be read makes all of it unreadable (`UnreadableFile`): half a list would shut out the rest.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from typing import Final

from .file_format import UnreadableFile, is_identity, lines_of
from .permissions import Identity

PREFIX: Final = "srk_"
"""Tells whoever finds a token somewhere, or searches for lost ones, what it is."""
LONGEST: Final = 1_024
"""Characters of a token that is looked at at all."""
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")


class Tokens:
    """Those of one version of the file. Immutable, for any thread."""

    def __init__(self, identities: dict[bytes, Identity]) -> None:
        """`identities` by the SHA-256 of their tokens."""
        self._key = secrets.token_bytes(32)
        self._found = {
            self._place(digest): (digest, identity) for digest, identity in identities.items()
        }

    @classmethod
    def parsed(cls, text: str) -> Tokens:
        """Those of a file; raises `UnreadableFile`."""
        identities: dict[bytes, Identity] = {}
        for number, words in lines_of(text):
            if len(words) != 2:
                raise UnreadableFile(
                    number, "has not two words: an identity, and sha256:<64 hex digits>"
                )
            name, hashed = words
            if not is_identity(name):
                raise UnreadableFile(number, f"{name[:80]!r} can't be the name of an identity")
            match = _HASH.fullmatch(hashed)
            if match is None:
                # Not shown: it may be the token itself.
                raise UnreadableFile(number, "the second word is not sha256:<64 hex digits>")
            digest = bytes.fromhex(match[1])
            if digest in identities:
                raise UnreadableFile(number, "repeats the token of another line")
            identities[digest] = Identity(name)
        return cls(identities)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Identity]:
        return (identity for _, identity in self._found.values())

    def identity_of(self, token: str) -> Identity | None:
        """Whose token it is; None if it is nobody's.

        How long this takes says nothing about the tokens that there are. What is looked up is not the
        token but an HMAC of its hash, under a key that this process made and tells nobody: where the
        search of a table stops, and how many bytes two keys of it share, depends on that HMAC, which
        a caller can neither choose nor compute. What is found is compared with `hmac.compare_digest`,
        which looks at all bytes in any case, and so is what isn't found, with something else. The
        time depends on the token's length alone, which whoever asks has chosen.
        """
        digest = hashlib.sha256(token[:LONGEST].encode(errors="replace")).digest()
        place = self._place(digest)
        kept, identity = self._found.get(place, (place, None))
        return identity if hmac.compare_digest(kept, digest) else None

    def _place(self, digest: bytes) -> bytes:
        return hmac.digest(self._key, digest, "sha256")


def new_token() -> str:
    """256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def line_of(identity: str, token: str) -> str:
    """What the file says of a token. Raises `ValueError` for what can't be an identity."""
    if not is_identity(identity):
        raise ValueError(
            f"{identity!r} can't be the name of an identity: use up to 255 letters, digits and the "
            "signs . _ - : / @ + = , %"
        )
    return f"{identity} sha256:{hashlib.sha256(token.encode()).hexdigest()}"
