"""A root as a power cut leaves it reads the same in the second reader and in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from spoolrack_store.files.disk import FileKind
from spoolrack_store.manual_clock import ManualClock

from tests.proof.crash.test_body_crashes import BodyStory
from tests.proof.crash.test_deduplication_crashes import KeyedStory
from tests.proof.crash.test_group_crashes import GroupStory
from tests.proof.crash.test_redrive_crashes import RedriveStory
from tests.proof.format.histories import OpenStore
from tests.proof.format.second_reader import Root
from tests.proof.format.test_second_reader import SEEDS, require_alike
from tests.support.cuts import Cut
from tests.support.engine_story import Story
from tests.support.linked_disk import LinkedDisk
from tests.support.power_disk import Model

STEPS: Final = 60


@pytest.mark.parametrize("kind", [BodyStory, GroupStory, KeyedStory, RedriveStory])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_root_after_a_power_cut_reads_as_the_store_opens_it(
    seed: int, kind: type[Story], tmp_path: Path
) -> None:
    roots: list[Path] = []

    class CutDisk(LinkedDisk):
        def cut(self, cut: Cut) -> LinkedDisk:
            found = super().cut(cut)
            assert isinstance(found, LinkedDisk)
            roots.append(tmp_path / str(len(roots)))
            write_out(found, ".", roots[-1])
            return found

    class CutStory(kind):  # type: ignore[valid-type, misc]
        disk_kind = CutDisk

    CutStory(seed, list(Model)[seed % len(Model)], processes=1 + seed % 2).run(STEPS)
    for root in roots:
        require_alike(Root(root), OpenStore(root, ManualClock(), seed).store)


def write_out(disk: LinkedDisk, folder: str, target: Path) -> None:
    """Write a folder of a disk in memory to the real one."""
    target.mkdir(mode=0o700)
    for found in disk.scan(folder):
        path = found.name if folder == "." else f"{folder}/{found.name}"
        if found.kind is FileKind.FOLDER:
            write_out(disk, path, target / found.name)
        else:
            (target / found.name).write_bytes(disk.read(path))
