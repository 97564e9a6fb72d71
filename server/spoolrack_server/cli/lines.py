"""Lines of a file or a pipe as they come, in chunks that one call can carry.

A chunk is cut when it is full, and also when the input pauses: what somebody has typed, or a program
has logged, is sent at once and doesn't wait for a thousand lines to come together.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click
from spoolrack.values import MAX_BATCH, MAX_BATCH_BYTES

from .exits import BAD_CONTENT, USAGE, Failed
from .units import Text

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of the largest message that any queue takes."""
_AT_ONCE: Final = 256 * 1024


def named_in(arguments: Sequence[str]) -> list[str]:
    """Ids or receipts: those of the command line, and, where "-" stands, those of standard input."""
    named: list[str] = []
    for argument in arguments:
        if argument != "-":
            named.append(argument)
            continue
        for word in sys.stdin.buffer.read().split():
            text = os.fsdecode(word)
            try:
                named.append(Text().convert(text, None, None))
            except click.BadParameter as error:
                raise Failed(f"Standard input: {error.message}", USAGE) from error
    return named


class Lines:
    """An open file, line by line. A line ends at a line feed, which isn't part of it."""

    Advance = Callable[[int, int], None]
    """Told of lines and bytes."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._parts: list[bytes] = []
        """The line that has begun and not ended."""
        self._held = 0

    def chunks(self) -> Iterator[list[bytes]]:
        """All lines in order, never an empty chunk; raises `Failed` for a line that is too long."""
        chunk: list[bytes] = []
        size = 0
        read = 0
        while True:
            if chunk and not self._has_more_now():
                yield chunk
                chunk, size = [], 0
            content = os.read(self._file, _AT_ONCE)
            for line in self._split(content, read):
                if chunk and (len(chunk) >= MAX_BATCH or size + len(line) > MAX_BATCH_BYTES):
                    yield chunk
                    chunk, size = [], 0
                chunk.append(line)
                size += len(line)
                read += 1
            if not content:
                break
        if chunk:
            yield chunk

    def _has_more_now(self) -> bool:
        return bool(select.select([self._file], [], [], 0)[0])

    def _split(self, content: bytes, read: int) -> list[bytes]:
        """The lines that `content` ends; no `content` at all ends the last one."""
        if not content:
            last = b"".join(self._parts)
            self._parts.clear()
            return [last] if last else []
        first, *others = content.split(b"\n")
        self._parts.append(first)
        self._held += len(first)
        if self._held > LARGEST:
            raise Failed(
                f"Line {read + 1} has more than 64 MiB, and no message may: the lines before it "
                "are being sent.",
                BAD_CONTENT,
            )
        if not others:
            return []
        whole = b"".join(self._parts)
        self._parts = [others[-1]]
        self._held = len(others[-1])
        return [whole, *others[:-1]]
