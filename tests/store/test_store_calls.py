"""The short system calls do the same whether or not they keep the interpreter's lock."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_store.files.calls import Calls, Kept, Released, calls_for

MADE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


@pytest.fixture(params=[Released, Kept])
def calls(request: pytest.FixtureRequest) -> Calls:
    made: Calls = request.param()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_a_file_is_written_whole(calls: Calls, folder: int, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    file = calls.open(folder, "né", MADE, 0o640)
    calls.write_all(file, content)
    calls.close(file)
    assert (tmp_path / "né").read_bytes() == content
    assert (tmp_path / "né").stat().st_mode & 0o777 == 0o640
    again = calls.open(folder, "né", os.O_RDONLY)
    facts = (tmp_path / "né").stat()
    assert calls.mode_and_size(again) == (facts.st_mode, facts.st_size)
    assert calls.read(again, 100) == content[:100]
    rest = b""
    while piece := calls.read(again, 70_000):
        rest += piece
    assert rest == content[100:]
    calls.close(again)
    with pytest.raises(OSError, match="Bad file descriptor"):
        calls.close(file)


def test_folders_are_made_and_things_renamed(calls: Calls, folder: int, tmp_path: Path) -> None:
    calls.make_folder(folder, "a", 0o700)
    calls.rename(folder, "a", "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700


def test_a_lock_is_one_descriptors_alone(calls: Calls, folder: int, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    one, other = (calls.open(folder, "x", os.O_RDWR) for _ in range(2))
    assert calls.lock(one)
    assert not calls.lock(other)
    calls.close(one)
    assert calls.lock(other)
    calls.close(other)


def test_errors_are_the_systems_and_name_what_they_are_about(
    calls: Calls, folder: int, tmp_path: Path
) -> None:
    (tmp_path / "there").touch()
    with pytest.raises(FileNotFoundError) as missing:
        calls.open(folder, "gone", os.O_RDONLY)
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, "gone")
    with pytest.raises(FileExistsError):
        calls.open(folder, "there", MADE)
    with pytest.raises(FileExistsError):
        calls.make_folder(folder, "there", 0o700)
    with pytest.raises(FileNotFoundError) as lost:
        calls.rename(folder, "gone", "elsewhere")
    assert (lost.value.filename, lost.value.filename2) == ("gone", "elsewhere")
    with pytest.raises(ValueError, match="null"):
        calls.open(folder, "a\0b", os.O_RDONLY)
    reading = calls.open(folder, "there", os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        calls.write_all(reading, b"x")
    calls.close(reading)


def test_the_lock_is_kept_where_no_other_host_can_make_us_wait() -> None:
    assert type(calls_for(is_local=True)) is Kept
    assert type(calls_for(is_local=False)) is Released
