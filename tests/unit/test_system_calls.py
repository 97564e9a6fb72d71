"""What the system refuses is raised, whether or not a call keeps the interpreter's lock."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack_store.files.local_disk import SystemCalls

CLOSED = 2**31 - 1
"""A number that no open file has."""


@pytest.mark.parametrize("keeps_lock", [False, True])
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda calls, _: calls.open("absent", os.O_RDONLY), errno.ENOENT),
        (lambda calls, _: calls.make_folder(".", 0o700), errno.EEXIST),
        (lambda calls, _: calls.rename("absent", "other"), errno.ENOENT),
        (lambda calls, _: calls.rename("absent", "other", 1), errno.ENOENT),
        (lambda calls, _: calls.link(".", "other"), errno.EPERM),
        (lambda calls, _: calls.write_all(CLOSED, b"a"), errno.EBADF),
        (lambda calls, _: calls.write_at(CLOSED, 0, b"a"), errno.EBADF),
        (lambda calls, folder: calls.read(folder, 1), errno.EISDIR),
        (lambda calls, _: calls.mode_and_size(CLOSED), errno.EBADF),
        (lambda calls, _: calls.lock(CLOSED), errno.EBADF),
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
