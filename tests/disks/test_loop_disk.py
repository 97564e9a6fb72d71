"""What the tests of power cuts rely on: a disk that comes back is another mount of what was written."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import waiting
from tests.support.loop_disk import KINDS, LoopDisk, why_not


@contextmanager
def holder() -> Iterator[subprocess.Popen[str]]:
    """Run a process that has a copy of all mounts until it is told to end."""
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo ready; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ready\n":
                pytest.skip("needs root, and a mount namespace of its own")
            yield process
        finally:
            process.kill()


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDisk]:
    reason = why_not(request.param)
    if reason is not None:
        pytest.skip(reason)
    with LoopDisk(request.param, tmp_path) as made:
        yield made


def test_a_disk_that_another_mount_namespace_holds_comes_back_only_once_it_is_let_go(
    disk: LoopDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (disk.mount_point / "kept").write_text("synced")
    subprocess.run(["sync", "--file-system", disk.mount_point], check=True)
    with holder() as process:
        disk.cut_power()
        disk.unmount()
        with monkeypatch.context() as once:
            once.setattr(waiting, "LOOKS", 1)
            with pytest.raises(OSError, match=rf"in another mount namespace.*\b{process.pid}\b"):
                disk.mount()
    disk.mount()

    assert (disk.mount_point / "kept").read_text() == "synced"
