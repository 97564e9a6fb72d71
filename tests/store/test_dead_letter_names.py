"""A message dies by a name in its dead-letter queue. The name says how, or a file if it has no room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.names import parse
from spoolrack_store.model.operations import (
    Delete,
    DeleteQueue,
    Purge,
    RejectMessages,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.dead_letter_rig import DYING, Rig, is_done
from tests.support.linked_disk import reap

LONG = "q" * 80
KEPT = QueueSettings(archive_retention=Millis(DAY))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def names(rig: Rig, folder: str) -> list[str]:
    return [each.name for each in rig.disk.scan(folder)]


def rest(rig: Rig) -> None:
    """Commit until nothing waits for a sync, and unlink what the reaper has."""
    for _ in range(8):
        rig.ask()
        reap(rig.engine)


def reject(rig: Rig, why: str, queue: str = "q", most: int = 10) -> Sequence[object]:
    receipts = [each for lease in rig.receive(queue, most) for each in lease.receipts]
    found: Sequence[object] = rig.ask(RejectMessages(queue=queue, receipts=receipts, reason=why))
    return found


def test_of_a_batch_some_may_be_dead_and_the_others_go_on(rig: Rig) -> None:
    ids = rig.send(b"a", b"b", b"c", b"d")
    (lease,) = rig.receive(most=2)
    assert rig.ask(RejectMessages(queue="q", receipts=lease.receipts[:1])) == [None]
    assert (rig.ids("dead"), rig.ids("q")) == (ids[:1], ids[2:])
    assert rig.ask(Delete(queue="q", receipts=lease.receipts)) is not None
    rest(rig)
    assert (rig.restart().ids("dead"), rig.ids("q")) == (ids[:1], ids[2:])


def test_a_second_death_is_told_after_the_first_by_one_file(rig: Rig) -> None:
    (id,) = rig.send(b"a")
    reject(rig, "once")
    (first,) = names(rig, "dead_letters")
    rig.redrive()
    rig.fail_all()
    rest(rig)
    assert [(each.explanation, each.reason) for each in rig.deaths(id)] == [
        ("once", "rejected"),
        ("", "max_receives"),
    ]
    assert [each.redrive_queue for each in rig.deaths(id)] == ["q", ""]
    (second,) = names(rig, "dead_letters")
    assert second != first


def test_a_death_without_room_in_a_name_is_in_a_file() -> None:
    rig = Rig({LONG: QueueSettings(max_receives=1, dead_letter_queue="d" * 80), "d" * 80: DYING})
    rig.set("d" * 80, QueueSettings())
    ids = rig.bury(b"a", b"b", queue=LONG)
    assert len(names(rig, "dead_letters")) == 1
    assert [each.source_queue for each in rig.deaths(ids[0])] == [LONG]
    assert is_done(rig.redrive("d" * 80))
    assert rig.ids(LONG) == ids
    assert len(rig.receive(LONG)[0].ids) == 2


def test_a_redrive_to_a_queue_whose_name_leaves_no_room_writes_a_file() -> None:
    rig = Rig({"q": DYING, "dead": QueueSettings(), LONG: QueueSettings()})
    ids = rig.bury(b"a", b"b")
    assert names(rig, "dead_letters") == []
    assert is_done(rig.redrive(destination=LONG))
    assert len(names(rig, "dead_letters")) == 1
    (lease,) = rig.receive(LONG)
    assert lease.ids == ids
    assert [each.redrive_queue for each in lease.dead_letter_records] == [LONG]


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("queue", ["q", "dead"])
def test_a_purge_or_deletion_of_one_queue_leaves_the_other_its_part(
    rig: Rig, queue: str, is_deleted: bool
) -> None:
    ids = rig.send(b"a", b"b", b"c")
    reject(rig, "why", most=1)
    assert (rig.ids("dead"), rig.ids("q")) == (ids[:1], ids[1:])
    rig.ask(DeleteQueue(name=queue) if is_deleted else Purge(queue=queue))
    rest(rig)
    if is_deleted:
        assert queue not in rig.engine.catalog.records
        assert queue not in names(rig, "queues")
    else:
        rig = rig.restart()
    left = {"q": ids[:1], "dead": ids[1:]}[queue]
    assert rig.ids("dead") + rig.ids("q") == left
    other = "dead" if queue == "q" else "q"
    rig.ask(Purge(queue=other))
    rest(rig)
    assert names(rig, "remove") == names(rig, "dead_letters") == []


def test_a_dead_letter_file_without_a_name_goes_with_a_start_and_a_foreign_file_is_put_aside(
    rig: Rig,
) -> None:
    (id,) = rig.send(b"a")
    reject(rig, "why")
    (told,) = names(rig, "dead_letters")
    for other in (f"{id}.aaaaaa", "notes.txt"):
        rig.disk.create(f"dead_letters/{other}", [b"x"], sync=True)
    rig = rig.restart()
    rest(rig)
    assert names(rig, "dead_letters") == [told]
    assert len(names(rig, "quarantine")) == 1


def test_each_archive_lists_what_has_left_its_queue() -> None:
    dying = QueueSettings(max_receives=1, dead_letter_queue="dead", archive_retention=Millis(DAY))
    rig = Rig({"q": dying, "dead": KEPT})
    ids = rig.send(b"a", b"b", b"c")
    (lease,) = rig.receive(most=1)
    rig.ask(RejectMessages(queue="q", receipts=lease.receipts))
    rig.ask(Delete(queue="q", ids=ids[1:]))
    rig.ask(Delete(queue="dead", ids=ids[:1]))
    rest(rig)
    found = {}
    for queue in ("q", "dead"):
        (day,) = names(rig, f"archive/{queue}")
        (text,) = names(rig, f"archive/{queue}/{day}")
        found[queue] = parse(f"queues/{queue}/{text}").members
    assert found == {"q": 0b111, "dead": 0b001}
    assert names(rig, "remove") == []
