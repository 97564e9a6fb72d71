"""What the system refuses is raised, by Python's calls and by the C library's alike."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack_store.files.local_disk import Kept, Released

CLOSED = 2**31 - 1
"""A number that no open file has."""


@pytest.mark.parametrize("calls", [Released(), Kept()], ids=["Python", "C library"])
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda calls, folder: calls.open(folder, "absent", os.O_RDONLY), errno.ENOENT),
        (lambda calls, folder: calls.make_folder(folder, ".", 0o700), errno.EEXIST),
        (lambda calls, folder: calls.rename(folder, "absent", "other"), errno.ENOENT),
        (lambda calls, folder: calls.write_all(CLOSED, b"a"), errno.EBADF),
        (lambda calls, folder: calls.read(folder, 1), errno.EISDIR),
        (lambda calls, folder: calls.mode_and_size(CLOSED), errno.EBADF),
        (lambda calls, folder: calls.lock(CLOSED), errno.EBADF),
        (lambda calls, folder: calls.close(CLOSED), errno.EBADF),
    ],
)
def test_a_call_that_the_system_refuses_raises_its_error(
    tmp_path: Path, calls: Released, call: Callable[[Released, int], object], code: int
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=os.strerror(code)):
            call(calls, folder)
    finally:
        os.close(folder)
