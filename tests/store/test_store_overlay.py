"""A disk whose changes stay in memory: it answers as a disk would, and the one below never changes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from memory_disk import MemoryDisk
from spoolrack_store.files.disk import Disk, Found, Kind
from spoolrack_store.files.overlay import OverlayDisk

NAMES = ("a", "b", "c")


def made(random: Random) -> MemoryDisk:
    disk = MemoryDisk()
    for folder in NAMES[:2]:
        disk.make_folder(folder)
        for name in NAMES:
            if random.random() < 0.5:
                disk.create(f"{folder}/{name}", [folder.encode(), name.encode()], sync=False)
    disk.make_folder("a/deep")
    disk.create("a/deep/a", [b"deep"], sync=False)
    return disk


def path(random: Random) -> str:
    return "/".join(random.choices((*NAMES, "deep"), k=random.randint(1, 3)))


def act(random: Random) -> Callable[[Disk], object]:
    one, other = path(random), path(random)
    acts: list[Callable[[Disk], object]] = [
        lambda disk: disk.make_folder(one),
        lambda disk: disk.create(one, [b"new"], sync=False),
        lambda disk: disk.append(one, b"more", sync=False),
        lambda disk: disk.unlink(one),
        lambda disk: disk.remove_folder(one),
    ]
    # A file over a folder, or a folder into itself, is nothing that the store asks for.
    if not (other + "/").startswith(one + "/"):
        acts += [lambda disk: _move(disk, one, other)] * 4
    return random.choice(acts)


def _move(disk: Disk, source: str, target: str) -> None:
    kind = disk.facts(source).kind
    try:
        there = disk.facts(target).kind
    except FileNotFoundError:
        there = kind
    if there is kind:
        disk.rename(source, target)


def tree(disk: Disk, folder: str = ".") -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for each in sorted(disk.scan(folder), key=lambda each: each.name):
        inside = each.name if folder == "." else f"{folder}/{each.name}"
        found[inside] = None if each.kind is Kind.FOLDER else disk.read(inside)
        assert disk.facts(inside).kind is each.kind
        if each.kind is Kind.FOLDER:
            found |= tree(disk, inside)
    return found


def outcome(act: Callable[[Disk], object], disk: Disk) -> bool:
    try:
        act(disk)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("seed", range(200))
def test_it_is_as_the_disk_would_be_and_the_disk_stays_as_it_was(seed: int) -> None:
    random = Random(seed)
    below, model = made(Random(seed)), made(Random(seed))
    before = tree(below)
    overlay = OverlayDisk(below)
    for _ in range(40):
        step = act(random)
        assert outcome(step, overlay) == outcome(step, model)
        assert tree(overlay) == tree(model)
    assert tree(below) == before


def test_a_name_is_told_with_its_kind_after_a_move() -> None:
    below = made(Random(1))
    overlay = OverlayDisk(below)
    overlay.rename("a/deep", "moved")
    assert Found("moved", Kind.FOLDER) in overlay.scan(".")
    assert overlay.read("moved/a") == b"deep"
    with overlay.open("moved/a") as file:
        assert file.read() == b"deep"
    with pytest.raises(FileNotFoundError):
        overlay.read("a/deep/a")
