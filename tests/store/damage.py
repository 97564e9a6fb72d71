"""Bit rot."""

from __future__ import annotations

from engine_rig import EngineRig
from memory_disk import File, MemoryDisk


def rot(rig: EngineRig, memory: MemoryDisk, id: str) -> None:
    path = next(sight.path for sight in rig.sights() if sight.entry.id == id)
    node = memory.node(path)
    assert isinstance(node, File)
    node.content = b"#" * len(node.content)
