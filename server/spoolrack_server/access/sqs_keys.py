"""Access keys for clients of Amazon SQS, and the identities that they belong to.

The file holds one master key, and a line for each access key: no secret of a client. The secret of an
access key is derived from both, so that the file alone gives it out again. A reader of the file can
sign as every identity in it: its mode must keep others out. One unreadable line makes the whole file
unreadable (`UnreadableAccessFile`).
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
from typing import Final

from ..app.caller import Identity
from .file_format import UnreadableAccessFile, lines_of, require_identity, require_new_identity

MASTER: Final = "master"
_MASTER: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_ACCESS_KEY: Final = re.compile(r"SRAK[A-Z2-7]{16}")


class SqsKeys:
    """The access keys of one version of the file. Immutable; safe in any thread."""

    def __init__(self, master: str, identities: dict[str, Identity]) -> None:
        """`identities` by their access keys."""
        self.master = master
        self.identities = identities
        self.names = frozenset(each.name for each in identities.values())

    def __len__(self) -> int:
        return len(self.identities)

    @classmethod
    def parsed(cls, text: str) -> SqsKeys:
        """Parse the text of a file; raise `UnreadableAccessFile`."""
        master = ""
        identities: dict[str, Identity] = {}
        for number, words in lines_of(text):
            if len(words) != 2:
                raise UnreadableAccessFile(number, "has not two words: an identity and an access key")
            name, key = words
            if not master:
                if name != MASTER or not _MASTER.fullmatch(key):
                    # Not shown: it may be the master key.
                    raise UnreadableAccessFile(number, "the first line is not the master key")
                master = key
                continue
            require_identity(name, number)
            if not _ACCESS_KEY.fullmatch(key) or key in identities:
                raise UnreadableAccessFile(number, "the second word is no access key, or repeats one")
            identities[key] = Identity(name)
        if not master:
            raise UnreadableAccessFile(None, "it has no master key")
        return cls(master, identities)

    def secret_of(self, access_key: str) -> str:
        """Return the secret that requests are signed with: 40 characters."""
        digest = hmac.digest(self.master.encode(), f"sqs:{access_key}".encode(), "sha256")
        return base64.b64encode(digest).decode()[:40]

    def access_key_of(self, identity: str) -> str | None:
        """Return the last access key of an identity, or None."""
        found = [key for key, owner in self.identities.items() if owner.name == identity]
        return found[-1] if found else None


def issue(path: str, identity: str, *, another: bool = False) -> tuple[str, str]:
    """Issue the access key and the secret of an identity, and add its line to the file.

    An identity that has a key gets the same again, unless it is to have `another`. A file that isn't
    there is made, with a new master key and mode 0600. Raise `ValueError` for a name that no identity
    can have, `UnreadableAccessFile`, `OSError`.
    """
    require_new_identity(identity)
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except FileNotFoundError:
        text = f"{MASTER} {secrets.token_urlsafe(32)}\n"
    keys = SqsKeys.parsed(text)
    key = None if another else keys.access_key_of(identity)
    if key is None:
        key = "SRAK" + base64.b32encode(secrets.token_bytes(10)).decode()
        if not text.endswith("\n"):
            text += "\n"
        _replace(path, f"{text}{identity} {key}\n")
    return key, keys.secret_of(key)


def _replace(path: str, text: str) -> None:
    """Write a file whole: a running server reads the old one or the new one."""
    fresh = f"{path}.{secrets.token_hex(4)}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
