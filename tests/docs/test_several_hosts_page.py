"""The scripts of docs/how-to/several-hosts.md ship snapshots of a root, and take over from the last."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import spoolrack

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.real_server import RealServer

PAGE: Final = (CHECKOUT / "docs/how-to/several-hosts.md").read_text()
SHIP, TAKE_OVER = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
SSH: Final = """#!/bin/sh
shift
if [ -e "$CUT" ]; then dd bs=1 count=20000 status=none | sh -c "$*"; else exec sh -c "$*"; fi
"""
"""Runs a command of the other host here. With the file $CUT the connection ends amid what is sent."""


class TwoHosts:
    """Folders of this machine in place of two hosts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.root, self.other = folder / "first/queues/root", folder / "other"
        self.copies, self.taken = self.other / "copies", self.other / "queues/root"
        for made in (self.root.parent, self.copies, self.taken.parent, folder / "bin"):
            made.mkdir(parents=True)
        (folder / "bin/ssh").write_text(SSH)
        (folder / "bin/ssh").chmod(0o755)
        self.cut = folder / "cut"

    def ship(self) -> subprocess.CompletedProcess[str]:
        return self._typed(SHIP.replace("/srv/queues/root", str(self.root)))

    def take_over(self) -> subprocess.CompletedProcess[str]:
        return self._typed(TAKE_OVER.replace("/srv/queues/root", str(self.taken)))

    def serves(self, root: Path) -> RealServer:
        return RealServer(root, self._folder / f"{root.parts[-3]}.log")

    def _typed(self, script: str) -> subprocess.CompletedProcess[str]:
        found = os.pathsep.join([f"{self._folder}/bin", str(Path(sys.executable).parent)])
        return subprocess.run(
            ["sh", "-c", script.replace("/srv/copies", str(self.copies))],
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("SPOOLRACK_")},
                "PATH": f"{found}{os.pathsep}{os.environ['PATH']}",
                "CUT": str(self.cut),
            },
            capture_output=True,
            text=True,
            timeout=STUCK,
            check=False,
        )


@pytest.fixture
def hosts(tmp_path: Path) -> TwoHosts:
    if shutil.which("rsync") is None:
        pytest.skip("needs rsync: make system-tools installs it")
    return TwoHosts(tmp_path)


def bodies(queue: spoolrack.Queue) -> dict[str, spoolrack.Message]:
    return {each.text[:40]: each for each in queue.receive(100)}


def test_a_takeover_loses_what_was_sent_and_returns_what_was_deleted_after_the_last_copy(
    hosts: TwoHosts,
) -> None:
    first, second = hosts.serves(hosts.root), hosts.serves(hosts.taken)
    try:
        first.start()
        jobs = first.client.create_queue("jobs", visibility_timeout=3_600)
        jobs.send_many(["deleted before", "deleted after"])
        bodies(jobs)["deleted before"].delete()
        jobs.send("of the first copy")
        shipped = hosts.ship()
        assert shipped.returncode == 0, shipped.stderr
        jobs.send("of the second copy")
        shipped = hosts.ship()
        assert shipped.returncode == 0, shipped.stderr
        (last,) = [each for each in hosts.copies.iterdir() if not each.is_symlink()]
        assert (hosts.copies / "last").resolve() == last

        jobs.send(os.urandom(100_000).hex())
        leased = bodies(jobs)
        leased["of the first copy"].delete()
        hosts.cut.touch()
        assert hosts.ship().returncode != 0
        assert (hosts.copies / "last").resolve() == last
        first.kill()

        taken = hosts.take_over()
        assert taken.returncode == 0, taken.stderr
        second.start()
        found = bodies(second.client.queue("jobs"))
        # The lease of "deleted after" goes on.
        assert found.keys() == {"of the first copy", "of the second copy"}
        assert second.client.queue("jobs").info().counts.leased_count == 3
    finally:
        first.kill()
        second.kill()


def test_a_copy_that_was_cut_off_is_removed_by_the_next_one(hosts: TwoHosts) -> None:
    server = hosts.serves(hosts.root)
    try:
        server.start()
        jobs = server.client.create_queue("jobs")
        jobs.send(os.urandom(100_000))
        hosts.cut.touch()
        assert hosts.ship().returncode != 0
        assert not (hosts.copies / "last").exists()
        hosts.cut.unlink()
        shipped = hosts.ship()
        assert shipped.returncode == 0, shipped.stderr
        assert len(list(hosts.copies.iterdir())) == 2
        assert not (hosts.root.parent / "root-snapshot").exists()
    finally:
        server.kill()
