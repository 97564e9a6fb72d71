"""What the system refuses is raised, whether or not a call keeps the interpreter's lock."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack_store.files.local_disk import LocalDisk, SharedBytes, SystemCalls

CLOSED = 2**31 - 1
"""A number that no open file has."""


@pytest.mark.parametrize("keeps_lock", [False, True])
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda calls, _: calls.open("absent", os.O_RDONLY), errno.ENOENT),
        (lambda calls, _: calls.make_folder(".", 0o700), errno.EEXIST),
        (lambda calls, _: calls.write_all(CLOSED, b"a"), errno.EBADF),
        (lambda calls, folder: calls.read(folder, 1), errno.EISDIR),
        (lambda calls, _: calls.mode_and_size(CLOSED), errno.EBADF),
        (lambda calls, _: calls.close(CLOSED), errno.EBADF),
    ],
)
def test_a_call_that_the_system_refuses_raises_its_error(
    tmp_path: Path, keeps_lock: bool, call: Callable[[SystemCalls, int], object], code: int
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=os.strerror(code)):
            call(SystemCalls(folder, keeps_lock=keeps_lock), folder)
    finally:
        os.close(folder)


def test_a_link_or_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    disk = LocalDisk(tmp_path)
    for name, code in (("link", errno.ELOOP), ("pipe", errno.EINVAL)):
        with pytest.raises(OSError, match=f"Errno {code}"):
            disk.open(name)
        with pytest.raises(OSError, match=f"Errno {code}"):
            disk.read(name)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda disk: disk.rename("absent", "other"), errno.ENOENT),
        (lambda disk: disk.rename_new("absent", "other"), errno.ENOENT),
        (lambda disk: disk.rename_new("file", "folder"), errno.EEXIST),
        (lambda disk: disk.link("folder", "other"), errno.EPERM),
        (lambda disk: disk.lock("absent"), errno.ENOENT),
    ],
)
def test_a_move_that_the_system_refuses_raises_its_error(
    tmp_path: Path, act: Callable[[LocalDisk], object], code: int
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=os.strerror(code)):
        act(LocalDisk(tmp_path))


def test_a_write_to_shared_bytes_that_the_system_refuses_raises_its_error(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(8))
    calls = SystemCalls(os.open(tmp_path, os.O_RDONLY), keeps_lock=True)
    shared = SharedBytes(os.open(path, os.O_RDONLY), 8, calls)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        shared.write(0, b"a")
    shared.close()


def test_a_lock_that_the_system_could_not_be_asked_about_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "LOCK").touch()
    disk, other = LocalDisk(tmp_path), LocalDisk(tmp_path)
    lock = disk.lock("LOCK")
    assert lock is not None
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            lock.is_held()

    assert other.lock("LOCK") is None
    lock.release()

    assert other.lock("LOCK") is not None
