"""Lines of a file or a pipe as they arrive, in chunks that fit into one call.

A chunk is cut when it is full, and also when the input pauses: a line that a user has typed, or a
program has logged, is sent at once and doesn't wait for a thousand others.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from spoolrack._values import MAX_BATCH, MAX_BATCH_BYTES, MAX_BODY_IN_MEMORY

from ..kit.exit_codes import USAGE, Failed
from ..kit.output import announce_stdin
from ..kit.units import Text

TOO_LONG: Final = "it has more than 64 MiB, and no line may: send it with --file"
"""The error of a longer line."""
_AT_ONCE: Final = 256 * 1024


def named_in(arguments: Sequence[str]) -> list[str]:
    """Return ids or receipts: those of the command line, and for "-" those of standard input."""
    named: list[str] = []
    for argument in arguments:
        if argument != "-":
            named.append(argument)
            continue
        announce_stdin("ids and receipts")
        for word in sys.stdin.buffer.read().split():
            text = os.fsdecode(word)
            try:
                named.append(Text().read(text))
            except ValueError as error:
                raise Failed(f"Standard input: {error}", USAGE) from error
    return named


@dataclass(slots=True)
class LineChunk:
    """Lines that fit into one call."""

    first: int
    """The number of the first one, counted from 1."""
    lines: list[bytes] = field(default_factory=list)
    is_too_long: bool = False
    """Whether this is one line, without its content, that no message has room for."""


class Lines:
    """An open file, line by line. A line ends at a line feed, which isn't part of it."""

    Advance = Callable[[int, int], None]
    """Called with lines and bytes."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._parts: list[bytes] = []
        """The line that has begun and not ended; empty where it is too long to be kept."""
        self._part_size = 0

    def chunks(self) -> Iterator[LineChunk]:
        """Yield all lines in order, without those that are too long."""
        chunk = LineChunk(1)
        read = size = 0
        while True:
            if chunk.lines and not self._has_more_now():
                yield chunk
                chunk, size = LineChunk(read + 1), 0
            content = os.read(self._file, _AT_ONCE)
            for line in self._split(content):
                is_full = len(chunk.lines) >= MAX_BATCH or size + len(line or b"") > MAX_BATCH_BYTES
                if chunk.lines and (line is None or is_full):
                    yield chunk
                    chunk, size = LineChunk(read + 1), 0
                read += 1
                if line is None:
                    yield LineChunk(read, is_too_long=True)
                    chunk = LineChunk(read + 1)
                    continue
                chunk.lines.append(line)
                size += len(line)
            if not content:
                break
        if chunk.lines:
            yield chunk

    def _has_more_now(self) -> bool:
        return bool(select.select([self._file], [], [], 0)[0])

    def _split(self, content: bytes) -> list[bytes | None]:
        """Return the lines that `content` ends; no `content` at all ends the last one. None: one is too
        long."""
        first, *others = content.split(b"\n")
        self._part_size += len(first)
        if self._part_size > MAX_BODY_IN_MEMORY:
            self._parts.clear()  # Of what can't be sent, nothing is kept.
        else:
            self._parts.append(first)
        if content and not others:
            return []
        if not self._part_size and not content:
            return []
        whole = None if self._part_size > MAX_BODY_IN_MEMORY else b"".join(self._parts)
        self._parts, self._part_size = others[-1:], sum(map(len, others[-1:]))
        return [whole, *others[:-1]]
