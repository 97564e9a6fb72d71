"""`spoolrack fsck` knows redrives: it finds what is damaged in `redrives/`, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.redrive_requests import RedriveState, StartRedrive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One redrive is done, another one goes on slowly: three dead letters wait for it."""
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.submit(CreateQueue(name="dead", settings=QueueSettings())).result()
        settings = QueueSettings(max_receives=3, dead_letter_queue="dead")
        store.submit(CreateQueue(name="q", settings=settings)).result()
        done = store.submit(StartRedrive(queue="dead")).result()
        while store.redrive(done.id).state is RedriveState.RUNNING:
            store.queues()
        for body in (b"a", b"b", b"c"):
            store.submit(Send(queue="dead", bodies=[body])).result()
        store.submit(StartRedrive(queue="dead", destination="q", rate=1)).result()
    return root


def running(root: Path) -> Path:
    (path,) = (path for path in (root / "redrives").iterdir() if "@" not in path.name)
    return path


def test_a_root_with_redrives_is_clean_and_what_goes_on_is_told(root: Path) -> None:
    report = fsck.check(root)
    assert not report.problems
    (leftover,) = report.leftovers
    assert leftover.path == f"redrives/{running(root).name}"
    assert "goes on" in leftover.why


@pytest.mark.parametrize("damage", ["content", "name", "folder"])
def test_a_damaged_redrive_is_found_and_put_aside(root: Path, damage: str) -> None:
    path = running(root)
    match damage:
        case "content":
            path.write_bytes(path.read_bytes().replace(b'"rate":1', b'"rate":2'))
        case "name":
            path = path.rename(path.with_name("notes"))
        case "folder":
            path.unlink()
            path.mkdir()
    report = fsck.check(root)
    assert [problem.path for problem in report.problems] == [f"redrives/{path.name}"]
    fsck.repair(root)
    assert not fsck.check(root).problems
    with Store.open(root) as store:
        assert len(store.redrives()) == 1
        assert store.quarantined == 0


@pytest.mark.parametrize("left", [0, 1, 40])
def test_one_that_was_not_written_to_its_end_is_unfinished_and_no_damage(root: Path, left: int) -> None:
    path = running(root)
    path.write_bytes(path.read_bytes()[:left])
    report = fsck.check(root)
    assert not report.problems
    assert [leftover.path for leftover in report.leftovers] == [f"redrives/{path.name}"]
