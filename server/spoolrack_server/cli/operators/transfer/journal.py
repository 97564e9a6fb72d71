"""Journal of an import: the file from which a later run continues.

A line of JSON is written, and synced, before each call and after it:

    {"journal": "spoolrack import 1", "source": "vsqs:///srv/queues/jobs"}
    {"queue": "jobs", "created": 1767225600000}
    {"sending": ["1767225600000000", ...], "to": "jobs"}
    {"sent": ["1767225600000000", ...]}

Messages that are `sending` and not `sent` are in doubt: the call may have been made, or not. A crash
tears the last line at most; no call was made for it yet. The file is locked as long as an import runs.
What can fail is the disk, and then nothing more is sent.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Container, Iterable
from types import TracebackType
from typing import Any, Final, Self

from ...kit.exit_codes import BAD_CONTENT, TRY_AGAIN, USAGE, Failed
from ...messages.body_files import sync_folder

_FORMAT: Final = "spoolrack import 1"
_HEAD: Final = b'{"journal":'
_TRIES: Final = 100


class Numbers(Container[str]):
    """A set of small numbers, in a bit each: an archive may have very many."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def __contains__(self, key: object) -> bool:
        place, bit = divmod(int(str(key)), 8)
        return place < len(self._bits) and bool(self._bits[place] >> bit & 1)

    def update(self, keys: Iterable[str]) -> None:
        for key in keys:
            place, bit = divmod(int(key), 8)
            if place >= len(self._bits):
                self._bits.extend(bytes(place + 1 - len(self._bits)))
            self._bits[place] |= 1 << bit


class Journal:
    """The journal of an import, as a context that locks its file. Not thread-safe."""

    def __init__(self, path: str, source: str, *, numbered: bool) -> None:
        """Open the journal of a source, or begin one. Raises `Failed` if it is another's, or is in use,
        and `OSError`."""
        self.path = path
        self.done_keys: set[str] | Numbers = Numbers() if numbered else set()
        """The keys of what is in its queue, or was."""
        self.doubtful: tuple[str, ...] = ()
        """The keys of what may be in its queue."""
        self.doubtful_queue = ""
        self._queues: dict[str, int] = {}
        self._is_removed = False
        self._file = _locked(path)
        try:
            self._read(source)
        except BaseException:
            os.close(self._file)
            raise

    def knows(self, queue: str) -> bool:
        """Return whether an earlier run has sent to the queue."""
        return queue in self._queues

    def note_queue(self, name: str, created: int) -> None:
        """Note the destination of messages; raises `Failed` if the name means another queue than
        before.

        `created` is the moment in Unix milliseconds: it tells a queue from one of the same name.
        """
        known = self._queues.get(name)
        if known is None:
            self._write({"queue": name, "created": created})
            self._queues[name] = created
        elif known != created:
            raise Failed(
                f"The queue {name} is not the one into which this import has begun: remove {self.path} "
                "to import everything again, or name another file with --state.",
                USAGE,
            )

    def sending(self, queue: str, keys: Iterable[str]) -> None:
        """Note durably that these messages are about to be sent."""
        self.doubtful, self.doubtful_queue = tuple(keys), queue
        self._write({"sending": self.doubtful, "to": queue})

    def sent(self, keys: Iterable[str]) -> None:
        """Note durably that these messages are in their queue, and that others about to be sent are
        not."""
        done = list(keys)
        self._write({"sent": done})
        self.done_keys.update(done)
        self.doubtful = ()

    @property
    def is_unused(self) -> bool:
        """Whether no message was ever about to be sent."""
        return not self._queues

    def remove(self) -> None:
        """Remove the journal: the source has nothing left to import again."""
        os.unlink(self.path)
        self._is_removed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.is_unused and not self._is_removed:
                self.remove()
        finally:
            os.close(self._file)

    def _read(self, source: str) -> None:
        with open(self._file, "rb", closefd=False) as file:
            whole = 0
            for number, line in enumerate(file, 1):
                entry = _entry(line)
                if entry is None:
                    if number == 1 and line[: len(_HEAD)] != _HEAD[: len(line)]:
                        raise self._no_journal()  # A file of another kind: it isn't truncated.
                    if file.read(1):
                        raise Failed(f"{self.path}: line {number} is damaged", BAD_CONTENT)
                    break
                if number == 1:
                    self._check(entry, source)
                self._apply(entry)
                whole += len(line)
        # The next line would be glued to it.
        os.ftruncate(self._file, whole)
        if not whole:
            self._write({"journal": _FORMAT, "source": source})
            sync_folder(os.path.dirname(os.path.abspath(self.path)))

    def _check(self, entry: dict[str, Any], source: str) -> None:
        if entry.get("journal") != _FORMAT:
            raise self._no_journal()
        if entry.get("source") != source:
            raise Failed(
                f"{self.path} belongs to the import of {entry.get('source')}, and this is {source}: "
                "name another file with --state.",
                USAGE,
            )

    def _no_journal(self) -> Failed:
        return Failed(
            f"{self.path} is not what an import has noted: name another file with --state.", USAGE
        )

    def _apply(self, entry: dict[str, Any]) -> None:
        match entry:
            case {"queue": str(name), "created": int(created)}:
                self._queues[name] = created
            case {"sending": list(keys), "to": str(queue)}:
                self.doubtful, self.doubtful_queue = tuple(keys), queue
            case {"sent": list(keys)}:
                self.done_keys.update(keys)
                self.doubtful = ()

    def _write(self, entry: dict[str, Any]) -> None:
        left = memoryview(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return the content of a line; None if it is not whole."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and line.endswith(b"\n") else None


def _locked(path: str) -> int:
    """Return the journal's file, open and locked."""
    for _ in range(_TRIES):
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(file)
            raise Failed(f"Another import is at work: it has {path} locked.", TRY_AGAIN) from error
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # The import that had it locked has just finished, and removed it.
    raise Failed(f"{path} is removed again and again", TRY_AGAIN)
