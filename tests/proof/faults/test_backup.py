"""A copy of a root that is being served is a backup: a snapshot, and an archive."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import spoolrack

from tests.support import STUCK
from tests.support.real_server import MakeDisk, RealServer
from tests.support.serving import ANY_PORTS, serving

Serve = Callable[..., RealServer]
ENOUGH = 300


class Busy:
    """Sends and deletes, one after the other, until it is told to stop."""

    def __init__(self, server: RealServer) -> None:
        self.sent: list[str] = []
        """Acknowledged, in order."""
        self.deleted: list[str] = []
        self.has_worked = threading.Event()
        self._stopping = threading.Event()
        self._server = server
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._server.connect() as client:
            queue = client.queue("jobs")
            while not self._stopping.is_set():
                self.sent += [queue.send(b"a body") for _ in range(3)]
                (message,) = queue.receive(1)
                message.delete()
                self.deleted.append(message.id)
                if len(self.sent) >= ENOUGH:
                    self.has_worked.set()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def test_a_snapshot_under_load_has_what_was_acknowledged_and_nothing_that_was_deleted(
    disk: MakeDisk, serve: Serve, tmp_path: Path
) -> None:
    if shutil.which("fsfreeze") is None:
        pytest.skip("needs fsfreeze: make system-tools installs it")
    made = disk("ext4")
    server = serve(made.mount_point / "root")
    server.client.create_queue("jobs", visibility_timeout=600)
    busy = Busy(server)
    assert busy.has_worked.wait(STUCK)
    sent, deleted = list(busy.sent), list(busy.deleted)
    subprocess.run(["fsfreeze", "--freeze", str(made.mount_point)], check=True)
    try:
        shutil.copyfile(made.image, tmp_path / "snapshot.img")
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(made.mount_point)], check=True)
    busy.stop()

    place = tmp_path / "restored"
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", str(tmp_path / "snapshot.img"), str(place)], check=True)
    restored = RealServer(place / "root", tmp_path / "restored.log")
    try:
        restored.start()
        states = [message.id for message in restored.queue("jobs").peek()]
        # A message received as the snapshot was taken is leased in it.
        states += [message.id for message in restored.queue("jobs").peek(["leased"])]
    finally:
        restored.kill()
        subprocess.run(["umount", str(place)], check=True)
    assert set(sent) - set(busy.deleted) <= set(states), "a message that was sent is missing"
    assert not set(states) & set(deleted), "a message that was deleted is back"


@pytest.mark.parametrize("processes", [1, 2])
def test_probes_are_answered_while_the_file_system_is_frozen(
    disk: MakeDisk, tmp_path: Path, processes: int
) -> None:
    """A commit stands still in the event loop. A liveness probe that waits for it restarts the pod."""
    if shutil.which("fsfreeze") is None:
        pytest.skip("needs fsfreeze: make system-tools installs it")
    place = disk("ext4").mount_point
    options = ("--root", place / "root", "--processes", processes, "--health", "127.0.0.1:0")
    with serving(*options, *ANY_PORTS) as server, spoolrack.connect(server.grpc) as client:
        probes, queue = server.at("Probes"), client.create_queue("jobs")
        queue.send(b"a body")
        with ThreadPoolExecutor() as pool:
            subprocess.run(["fsfreeze", "--freeze", str(place)], check=True)
            try:
                sent = pool.submit(queue.send, b"a body")
                pause = threading.Event()
                while _probed(f"{probes}/-/health/ready") != ("NOT_READY", "stalled"):
                    pause.wait(0.05)
                assert _probed(f"{probes}/-/health/live") == ("LIVE", "")
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", str(place)], check=True)
            assert sent.result(STUCK)


def _probed(url: str) -> tuple[str, str]:
    try:
        with urllib.request.urlopen(url, timeout=STUCK) as response:
            found = json.load(response)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    return found["status"], found.get("why", "")


def test_an_archive_under_load_has_each_message_that_stayed_once(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    server.client.create_queue("jobs", visibility_timeout=600)
    kept = server.queue("jobs").send_many([b"kept %d" % n for n in range(200)])
    busy = Busy(server)
    assert busy.has_worked.wait(STUCK)
    archive = tmp_path / "jobs.archive"
    url = f"127.0.0.1:{server.port}"
    subprocess.run(
        [
            *(sys.executable, "-m", "spoolrack_server"),
            *("export", "jobs", "--output", str(archive), "--url", url),
        ],
        check=True,
        timeout=STUCK,
    )
    busy.stop()
    staying = {result.id for result in kept} - set(busy.deleted)
    text = archive.read_text()
    assert all(text.count(f'"{id}"') == 1 for id in staying)
