"""`spoolrack fsck` knows stages and publications: it finds what is damaged, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.fsck.findings import Remedy
from spoolrack_store.model.operations import CreateQueue, Outgoing, Receive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.staging import Publish, Stage
from spoolrack_store.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A stage `s` of two chunks waits; another one was published."""
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        for stage, chunk in (("t", 0), ("s", 0), ("s", 1)):
            messages = [Outgoing(body=f"{stage}{chunk}{at}".encode()) for at in range(3)]
            store.submit(Stage(stage=stage, chunk=chunk, queue="q", messages=messages)).result()
        store.submit(Publish(writer="w", epoch=4, stages=["t"])).result()
    return root


def stage_in(root: Path) -> Path:
    (stage,) = (root / "staged").iterdir()
    return stage


def publish(root: Path) -> int:
    """How many messages a store then publishes of the stage."""
    with Store.open(root) as store:
        messages = store.submit(Publish(writer="w", epoch=5, stages=["s"])).result().messages
        assert len(store.submit(Receive(queue="q", max_messages=100)).result()) == messages + 3
    return messages


def test_stages_and_publications_are_no_problem(root: Path) -> None:
    report = fsck.check(root)
    assert (report.problems, report.leftovers) == ([], [])
    assert (report.staged, report.published) == (1, 1)
    fsck.repair(root)
    assert publish(root) == 6


def test_a_damaged_message_of_a_stage_is_found_and_the_others_are_published(root: Path) -> None:
    chunk = min(stage_in(root).iterdir())
    message = min(chunk.iterdir())
    message.write_bytes(b"xxx")
    (problem,) = fsck.check(root).problems
    assert problem.path == str(message.relative_to(root))
    fsck.repair(root)
    (leftover,) = fsck.check(root).leftovers
    assert "2 of its 3 messages" in leftover.why
    with Store.open(root) as store:
        store.submit(Publish(writer="w", epoch=5, stages=["s"])).result()
        assert len(store.submit(Receive(queue="q", max_messages=100)).result()) == 3 + 5


def test_a_damaged_manifest_is_put_aside(root: Path) -> None:
    manifest = root / "published" / "w.4"
    manifest.write_text(manifest.read_text().replace('"messages":3', '"messages":4'))
    (problem,) = fsck.check(root).problems
    assert (problem.path, problem.remedy) == ("published/w.4", Remedy.QUARANTINE)
    fsck.repair(root)
    assert fsck.check(root).is_clean


@pytest.mark.parametrize(
    "name", ["staged/x", "staged/a.b@1700000000000", "published/w", "published/w.1.s@17"]
)
def test_strangers_are_found(root: Path, name: str) -> None:
    (root / name).mkdir()
    (problem,) = fsck.check(root).problems
    assert problem.path == name


def test_a_torn_chunk_a_claim_and_a_dropped_stage_are_unfinished_and_no_damage(root: Path) -> None:
    stage = stage_in(root)
    first, second = sorted(stage.iterdir())
    torn = first.rename(f"{first},osomebody")
    min(torn.iterdir()).write_bytes(b"")
    report = fsck.check(root)
    assert report.is_clean
    assert [leftover.path for leftover in report.leftovers] == [
        str(min(torn.iterdir()).relative_to(root))
    ]
    dropped = stage.rename(f"{stage}~dropped")
    assert "dropped" in fsck.check(root).leftovers[0].why
    claim = dropped.rename(root / "published" / f"w.5.{stage.name}")
    assert "staged again" in fsck.check(root).leftovers[0].why
    assert fsck.check(root).is_clean
    assert second.name in {path.name for path in claim.iterdir()}
    assert publish(root) == 3
