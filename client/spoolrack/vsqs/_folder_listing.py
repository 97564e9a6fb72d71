"""Lists a vsqs folder for an import; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ._file_names import FileState, in_micros, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A message as a listing found it. Others may have moved it since."""

    id: str
    state: FileState
    path: str
    size: int
    """Bytes; of a message that is being written, so far."""
    published: int
    """Unix time in microseconds, from the name."""
    expiration: int | None
    """Of a leased one: Unix time in microseconds."""

    def read(self) -> bytes:
        """Return the content; raise `FileNotFoundError` if the message is no longer in this state."""
        with open(self.path, "rb") as file:
            return file.read()


def stored_messages(folder: str | os.PathLike[str]) -> Iterator[ListedMessage]:
    """Return all messages in order, in any state, also those being written, which aren't acknowledged.

    Other files are left out, and so is what vanishes meanwhile. Raises `FileNotFoundError`.
    """
    with os.scandir(folder) as entries:
        found = [
            (name.number, name.text, name, entry)
            for entry in entries
            if (name := parse(entry.name)) is not None and entry.is_file(follow_symlinks=False)
        ]
    for number, _, name, entry in sorted(found, key=lambda item: item[:2]):
        try:
            size = entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
        yield ListedMessage(
            id=str(number),
            state=name.state,
            path=entry.path,
            size=size,
            published=in_micros(number),
            expiration=name.expiration,
        )
