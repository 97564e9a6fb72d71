"""A folder of links follows its source: what it has at the last call, it has."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from spoolrack_store.files import hard_links
from spoolrack_store.files.hard_links import Links


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return the content of each file below a folder, None for a folder."""
    return {
        os.fspath(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
        if path.name != "FORMAT"
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source/queues/q").mkdir(parents=True)
    return tmp_path / "source"


@pytest.fixture
def queue(source: Path) -> Path:
    return source / "queues/q"


def test_what_changed_since_the_last_call_is_linked_and_what_is_gone_is_unlinked(
    source: Path, queue: Path, tmp_path: Path
) -> None:
    for name in ("stays", "goes", "moves", "is replaced", "becomes a folder"):
        (queue / name).write_bytes(name.encode())
    (queue.parent / "goes").mkdir()
    (queue.parent / "goes/with it").write_bytes(b"")
    (queue.parent / "becomes a file/below").mkdir(parents=True)

    with Links(source, tmp_path / "target") as links:
        assert links.follow("queues") == 6
        (queue / "goes").unlink()
        (queue / "moves").rename(queue / "moved")
        (queue / "comes").write_bytes(b"comes")
        (queue / "other").write_bytes(b"the other file")
        (queue / "other").rename(queue / "is replaced")
        (queue / "becomes a folder").unlink()
        (queue / "becomes a folder").mkdir()
        (queue / "becomes a folder/below").write_bytes(b"below")
        (queue.parent / "goes/with it").unlink()
        (queue.parent / "goes").rmdir()
        (queue.parent / "becomes a file/below").rmdir()
        (queue.parent / "becomes a file").rmdir()
        (queue.parent / "becomes a file").write_bytes(b"a file")
        assert links.follow("queues") == 5
        assert links.follow("queues") == 0
        assert links.files == 6
        links.finish({"FORMAT": b""})

    assert tree(tmp_path / "target") == tree(source)
    assert (tmp_path / "target/queues/q/stays").samefile(queue / "stays")


def test_a_copy_whose_first_name_is_gone_is_made_again(
    source: Path, queue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def linked(path: str | Path, target: Path, *, follow_symlinks: bool) -> None:
        if Path(path).is_relative_to(source):
            raise OSError(errno.EMLINK, "Too many links", os.fspath(path))
        link(path, target, follow_symlinks=follow_symlinks)

    (queue / "1").write_bytes(b"file")
    with Links(source, tmp_path / "target") as links:
        monkeypatch.setattr(hard_links.os, "link", linked)
        links.follow("queues")
        (queue / "1").rename(queue / "2")
        links.follow("queues")
        link(queue / "2", queue / "3")
        links.follow("queues")
        links.finish({"FORMAT": b""})
    assert tree(tmp_path / "target") == tree(source)
    assert links.copied == 2


def test_a_folder_that_goes_while_it_is_read_is_left_out(
    source: Path, queue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (queue / "1").write_bytes(b"file")
    scandir = os.scandir

    def vanishing(path: Path) -> object:
        if path == queue:
            (queue / "1").unlink()
            queue.rmdir()
        return scandir(path)

    with Links(source, tmp_path / "target") as links:
        monkeypatch.setattr(hard_links.os, "scandir", vanishing)
        assert links.follow("queues") == 0
        assert links.files == 0
        links.finish({"FORMAT": b""})
    assert tree(tmp_path / "target") == {"queues": None}
