"""Folders of the ancestors, and what became of their messages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from spoolrack import Message, connect

FIRST = 1_700_000_000_000_000
"""Microseconds: the id of the first message of a vsqs folder."""
HOUR = 3_600_000_000
BODIES = (b"", b"text\n", b"\xff\xfe\x00 not UTF-8", "ö".encode(), b"\x00" * 100, b'"\\\n' * 50)


def in_an_hour() -> int:
    return time.time_ns() // 1_000 + HOUR


def vsqs_folder(
    folder: Path, bodies: Sequence[bytes], *, leased: Sequence[int] = ()
) -> dict[str, bytes]:
    """Return a folder with these messages, some of them leased for an hour; answers with what is in
    it."""
    folder.mkdir(parents=True)
    for number, body in enumerate(bodies):
        ending = f".{in_an_hour()}" if number in leased else ""
        (folder / f"{FIRST + number}{ending}").write_bytes(body)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def held(url: str, queue: str) -> list[Message]:
    """Return all messages of a queue, in order."""
    with connect(url) as client:
        return list(client.queue(queue).peek())


def bodies_in(url: str, queue: str) -> list[bytes]:
    return [message.body for message in held(url, queue)]
