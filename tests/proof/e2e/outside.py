"""Foreign things for the folders of a root, and what lies outside and must stay as it is."""

from __future__ import annotations

import os
import socket
import zlib
from pathlib import Path
from typing import Final
from uuid import UUID

SECRET: Final = b"what lies outside the root"
FOLDERS: Final = ("new", "queues", "delay", "remove", "config", "owners", "quarantine")


class Outside:
    """A folder beside the root, with files that no process must read, change, move or remove."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret = folder / "secret"
        self.settings = folder / "settings.json"
        self.batch = folder / "batch"
        self.batch.mkdir(parents=True)
        self.secret.write_bytes(SECRET)
        self.settings.write_text('{"created_at": 1}')
        (self.batch / tagged(99)).write_bytes(SECRET)
        self._before = self._look()

    def is_untouched(self) -> bool:
        return self._look() == self._before

    def _look(self) -> dict[str, tuple[object, ...]]:
        """Return all but the number of links and what depends on it: some are made into the root."""
        looks: dict[str, tuple[object, ...]] = {}
        for path in [self.folder, *self.folder.rglob("*")]:
            facts = path.lstat()
            content = path.read_bytes() if path.is_file() else None
            looks[str(path)] = (facts.st_ino, facts.st_mode, facts.st_mtime_ns, content)
        return looks


def uuid(number: int) -> str:
    """Return an id that sorts before all of ours, and says the year 1970."""
    return str(UUID(int=number | 7 << 76 | 2 << 62))


def tagged(number: int) -> str:
    """Return the name of a message whose body is the secret."""
    return f"{uuid(number)},s{len(SECRET)},c{zlib.crc32(SECRET):08x}"


def litter(root: Path, queue: str, outside: Outside) -> None:
    """Put foreign things into every folder, under names that mean something there and that don't."""
    due = "@0000000000001"
    places = (
        ("new", f"{queue}:", ""),
        (f"queues/{queue}", "", ""),
        ("delay", f"{queue}:", due),
        ("delay", f"{queue}:", f"{due}~0000000000000"),
        ("remove", f"{queue}:", ""),
    )
    for number, (where, prefix, suffix) in enumerate(places):
        names = (f"{prefix}{name}{suffix}" for name in _names(10 * number))
        _links_and_worse(root / where, outside, *names)
    for where in FOLDERS:
        _nonsense(root / where, outside)
    _nonsense(root / "queues" / queue, outside)
    (root / "new" / f"missing:{uuid(700)}").write_bytes(b"for a queue that isn't there")
    (root / "config" / "linked.1.json").symlink_to(outside.settings)
    (root / "config" / "broken.1.json").write_bytes(b"{")
    (root / "queues" / "elsewhere").symlink_to(outside.folder)
    (root / "owners" / "abc").symlink_to(outside.secret)


def litter_pipelines(root: Path, queue: str, outside: Outside) -> None:
    """Litter the folders of stages, reservations and deduplication ids."""
    due = "@9999999999999"
    chunk = f"0:{queue}:{uuid(800)},n1"
    for where in ("staged", "published", "reserved", "keys"):
        _nonsense(root / where, outside)
    staged = root / "staged"
    (staged / f"linked{due}").symlink_to(outside.folder)
    (staged / f"file{due}").write_bytes(b"no folder")
    os.mkfifo(staged / f"pipe{due}")
    (staged / f"empty{due}").mkdir()
    (staged / f"within{due}").mkdir()
    _nonsense(staged / f"within{due}", outside)
    (staged / f"within{due}" / chunk).symlink_to(outside.batch)
    (staged / f"deep{due}" / chunk).mkdir(parents=True)
    (staged / f"deep{due}" / chunk / tagged(801)).symlink_to(outside.secret)
    published = root / "published"
    for number, stage in enumerate(("", f".claimed{due}")):
        (published / f"linked.{number}{stage}").symlink_to(outside.folder if stage else outside.secret)
        (published / f"text.{number}{stage}").write_bytes(b"{}\n")
        os.mkfifo(published / f"pipe.{number}{stage}")
        (published / f"folder.{number}{stage}").mkdir()
    for end in ("", due):
        (root / "reserved" / f"linked.0{end}").symlink_to(outside.secret)
        (root / "reserved" / f"text.0{end}").write_bytes(b"[1, 2")
        os.mkfifo(root / "reserved" / f"pipe.0{end}")
        (root / "reserved" / f"folder.0{end}").mkdir()
    (root / "keys" / "linked.1").symlink_to(outside.secret)
    (root / "keys" / "text.1").write_bytes(b"\xff" * 1_000_000 + b"\n../../outside:x,k\n\0\n")
    os.mkfifo(root / "keys" / "pipe.1")
    (root / "keys" / "folder.1").mkdir()


def _names(start: int) -> list[str]:
    return [
        *(tagged(start + 1), uuid(start + 2), f"{uuid(start + 3)},n1", uuid(start + 4)),
        *(uuid(start + 5), tagged(start + 6), f"{uuid(start + 7)},n1"),
    ]


def _links_and_worse(
    folder: Path,
    outside: Outside,
    link: str,
    untagged_link: str,
    link_to_folder: str,
    pipe: str,
    door: str,
    directory: str,
    file: str,
) -> None:
    """Make entries with the name of a message, or of a batch, that are none."""
    (folder / link).symlink_to(outside.secret)
    (folder / untagged_link).symlink_to(outside.secret)
    (folder / link_to_folder).symlink_to(outside.batch)
    os.mkfifo(folder / pipe)
    _listen_at(folder, door)
    (folder / directory).mkdir()
    (folder / directory / "within").symlink_to(outside.secret)
    (folder / file).write_bytes(b"a batch that is a file")


def _listen_at(folder: Path, name: str) -> None:
    """Leave a socket behind. Its path may be too long for one; from within the folder it isn't."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(f"/proc/self/fd/{handle}/{name}")
    finally:
        os.close(handle)


def _nonsense(folder: Path, outside: Outside) -> None:
    """Make entries that can't be meant as anything."""
    (folder / "README").write_text("an operator's notes")
    (folder / os.fsdecode(b"\xff\xfe")).write_bytes(b"no text")
    (folder / "two\nlines").write_bytes(b"")
    (folder / ("n" * 255)).write_bytes(b"as long as a name can be")
    (folder / "loop").symlink_to("loop")
    (folder / "broken link").symlink_to(outside.folder / "nothing")
    (folder / "link to outside").symlink_to(outside.folder)
    (folder / "a folder").mkdir()
    (folder / "a folder" / "with a file").write_bytes(b"in it")
