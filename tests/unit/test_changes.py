"""`Changes` over memory of a test: what one process writes another one reads."""

from __future__ import annotations

import pytest
from spoolrack_store.files import changes
from spoolrack_store.files.changes import Change, ChangeKind, Changes

RING = 2_000


class Bytes:
    def __init__(self) -> None:
        self._content = bytearray(changes._START + RING)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._content[offset : offset + length])

    def write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        assert offset + len(content) <= len(self._content)
        self._content[offset : offset + len(content)] = content

    def close(self) -> None:
        pass


def test_a_record_is_read_as_it_was_written_wherever_the_ring_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "RING", RING)
    memory = Bytes()
    writer, reader = Changes(memory, "writer"), Changes(memory, "reader")
    writer.begin_anew()
    reader.read_header()
    reader.join()
    writer.read_header()
    for number in range(2_000):
        made = Change(ChangeKind.RENAME, f"new/{number}", "ready/" + "x" * (number % 53), number)
        writer.intend(made)
        writer.finish()
        assert reader.read_header()
        assert list(reader.news()) == [made]
