"""`spoolrack fsck` knows reservations: it finds what is damaged in `reserved/`, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.fsck.findings import Remedy
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import ReservationLost
from spoolrack_store.model.operations import CreateQueue, Purge, Receive, Send, messages_of
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    Committed,
    Release,
    Reservation,
    Reserve,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.cli.cli_rig import Spoolrack

HOLD = Millis(12 * HOUR)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of eight messages one was committed, one was in a set that was released; three are in a set."""
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        for body in (b"committed", b"released"):
            store.submit(Send(queue="q", bodies=[body])).result()
        for sequence_number in range(2):
            assert reserve(store, sequence_number, most=1)
        store.submit(CommitReservations(stream="s", last_sequence_number=0)).result()
        store.submit(Release(stream="s", sequence_number=1)).result()
        store.submit(Send(queue="q", bodies=[b"%d" % number for number in range(6)])).result()
        assert reserve(store, 2, most=3)
    return root


def reserve(store: Store, sequence_number: int, most: int = 100) -> Reservation | None:
    request = Reserve(
        queue="q",
        stream="s",
        sequence_number=sequence_number,
        visibility_timeout=HOLD,
        max_messages=most,
    )
    return store.submit(request).result()


def manifest_of(root: Path, sequence_number: int = 2) -> Path:
    (path,) = (root / "reserved").glob(f"s.{sequence_number}@*")
    return path


def receives(root: Path) -> list[int]:
    """Return how often each message that is ready was received before this, in order."""
    with Store.open(root) as store:
        messages = messages_of(store.submit(Receive(queue="q", max_messages=100)).result())
    return [message.receives - 1 for message in messages]


def test_sets_and_how_far_streams_are_committed_are_no_problem(root: Path) -> None:
    report = fsck.check(root)
    assert (report.problems, report.leftovers, report.reserved) == ([], [], 1)
    before = sorted(path.name for path in (root / "reserved").iterdir())
    fsck.repair(root)
    assert sorted(path.name for path in (root / "reserved").iterdir()) == before
    with Store.open(root) as store:
        answer = store.submit(CommitReservations(stream="s", last_sequence_number=2)).result()
    assert answer == Committed(messages=3, lost=[1])


def test_the_report_says_how_many_sets_are_reserved(offline: Spoolrack, root: Path) -> None:
    assert json.loads(offline("fsck", str(root), "--json").out)["reserved"] == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [('"messages":3', '"messages":4'), ('"queue":"q"', '"queue":"/"'), ('"token"', '"other"')],
)
def test_a_damaged_manifest_is_put_aside_and_its_messages_are_ready_again(
    root: Path, old: str, new: str
) -> None:
    manifest = manifest_of(root)
    text = manifest.read_text()
    assert old in text
    manifest.write_text(text.replace(old, new))
    report = fsck.check(root)
    (problem,) = report.problems
    assert (problem.path, problem.remedy) == (f"reserved/{manifest.name}", Remedy.QUARANTINE)
    # Its three messages are in two files, and so under two names.
    assert (len(report.leftovers), report.reserved) == (2, 0)
    fsck.repair(root)
    assert not fsck.check(root).problems
    assert receives(root) == [1, *[0] * 6]


def test_a_damaged_marker_is_put_aside(root: Path) -> None:
    marker = root / "reserved" / "s.0"
    marker.write_text(marker.read_text().replace('"sets":[0]', '"sets":[9]'))
    (problem,) = fsck.check(root).problems
    assert (problem.path, problem.remedy) == ("reserved/s.0", Remedy.QUARANTINE)
    fsck.repair(root)
    assert not fsck.check(root).problems
    with Store.open(root) as store:
        assert (
            store.submit(CommitReservations(stream="s", last_sequence_number=2)).result().messages == 3
        )


@pytest.mark.parametrize("left", [0, 1, 40])
def test_a_manifest_that_was_not_written_to_its_end_is_unfinished_and_no_damage(
    root: Path, left: int
) -> None:
    manifest = manifest_of(root)
    manifest.write_bytes(manifest.read_bytes()[:left])
    report = fsck.check(root)
    assert not report.problems
    about = {leftover.path.partition("/")[0]: leftover.why for leftover in report.leftovers}
    assert "never written whole" in about["reserved"]
    assert "never made" in about["delay"]
    assert receives(root) == [1, *[0] * 6]
    report = fsck.check(root)
    assert (report.problems, report.leftovers, report.reserved) == ([], [], 0)


def test_leases_that_no_set_names_are_unfinished_and_those_of_others_are_not(root: Path) -> None:
    with Store.open(root) as store:
        assert len(messages_of(store.submit(Receive(queue="q", max_messages=2)).result())) == 2
        assert store.submit(Receive(queue="q", max_messages=1)).result()
    manifest_of(root).unlink()
    report = fsck.check(root)
    assert not report.problems
    assert len(report.leftovers) == 2, "its three messages are under two names"
    assert all("never made" in leftover.why for leftover in report.leftovers)


def test_a_set_whose_messages_are_gone_is_no_problem(root: Path) -> None:
    with Store.open(root) as store:
        store.submit(Purge(queue="q")).result()
    report = fsck.check(root)
    assert (report.problems, report.reserved) == ([], 1)
    fsck.repair(root)
    with Store.open(root) as store:
        made = reserve(store, 2)
        assert made is not None
        assert (made.messages, made.is_new) == (3, False)
        assert (
            store.submit(CommitReservations(stream="s", last_sequence_number=2)).result().messages == 0
        )


def test_a_set_of_which_messages_were_moved_out_by_hand_is_found_lost_by_the_next_start(
    root: Path,
) -> None:
    lease = min(path for path in (root / "delay").iterdir())
    lease.rename(root / "queues" / "q" / lease.name.partition(":")[2].partition("@")[0])
    assert not fsck.check(root).problems
    with Store.open(root) as store:
        made = reserve(store, 2)
        assert made is not None
        assert made.is_new
        assert made.messages == 7
        with pytest.raises(ReservationLost):
            reserve(store, 1)


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "s",
        "s.",
        "s.01",
        ".hidden",
        "s.3@17",
        "s.3@1700000000000~los",
        f"s.{2**63}",
        "a.b.3",
        "ä.1",
    ],
)
def test_wrong_names_are_found_and_put_aside(root: Path, name: str) -> None:
    (root / "reserved" / name).write_bytes(manifest_of(root).read_bytes())
    (problem,) = fsck.check(root).problems
    assert (problem.path, problem.remedy) == (f"reserved/{name}", Remedy.QUARANTINE)
    fsck.repair(root)
    assert not fsck.check(root).problems
    assert manifest_of(root).exists()


@pytest.mark.parametrize("name", ["s.3", "s.3@1700000000000", "s.3@1700000000000~lost"])
def test_a_folder_in_the_place_of_a_record_is_found(root: Path, name: str) -> None:
    (root / "reserved" / name).mkdir()
    (problem,) = fsck.check(root).problems
    assert (problem.path, problem.remedy) == (f"reserved/{name}", Remedy.QUARANTINE)
    fsck.repair(root)
    assert not fsck.check(root).problems
