"""A reservation through the new store's front: it waits as a receive does, and is read by pages."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from spoolrack_store import questions
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    DiskError,
    Draining,
    InvalidRequest,
    ReservationLost,
    ReservationUnread,
    RootInUse,
)
from spoolrack_store.model.operations import Delete, Message, Send
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    Page,
    Release,
    Reserve,
)

from tests.store.front_rig import GIVE_UP, FrontRig, opened, taken_lock

HOLD = Millis(60_000)


def asked(sequence_number: int = 0, wait: int | None = 0, most: int = 1_000) -> Reserve:
    span = None if wait is None else Millis(wait)
    return Reserve(
        queue="q",
        stream="s",
        sequence_number=sequence_number,
        visibility_timeout=HOLD,
        wait=span,
        max_messages=most,
    )


def read(rig: FrontRig, sequence_number: int = 0, begin: int = 0, end: int = 0) -> list[Message]:
    pages = rig.store.read_reservation("s", sequence_number, begin=begin, end=end)
    return messages_of(pages)


def messages_of(pages: Iterable[Page]) -> list[Message]:
    return [message for page in pages for message in page.messages]


def reserved(rig: FrontRig) -> list[Path]:
    return list((rig.path / "reserved").iterdir())


def receives(rig: FrontRig) -> list[int]:
    return [each.receive_count for each in rig.receive(10) for _ in each.ids]


def test_a_read_ends_where_the_hold_does(rig: FrontRig) -> None:
    for _ in range(10):
        rig.send(b"x" * 1_000_000)
    rig.ask(asked())
    pages = rig.store.read_reservation("s", 0)
    next(pages)
    rig.ask(Release(stream="s", sequence_number=0))

    with pytest.raises(ReservationLost):
        list(pages)


def test_a_read_goes_on_while_the_hold_is_extended_and_a_message_deleted(rig: FrontRig) -> None:
    ids = [id for _ in range(10) for id in rig.send(b"x" * 1_000_000)]
    rig.ask(asked())
    pages = rig.store.read_reservation("s", 0)
    first = next(pages)
    rig.manual_clock.advance(1_000)
    rig.ask(ExtendReservation(stream="s", sequence_number=0))
    rig.ask(Delete(queue="q", ids=ids[-1:]))

    assert [m.id for m in messages_of([first, *pages])] == ids[:-1]


def test_a_file_whose_messages_are_all_there_is_read_as_one_run(rig: FrontRig) -> None:
    ids = rig.ask(Send(queue="q", bodies=[b"a", b"", b"ccc"], attributes={1: {"n": "v"}})).results
    rig.ask(asked())

    (page,) = rig.store.read_reservation("s", 0)

    (run,) = page.runs
    assert (run.first.id, run.bodies, list(run.body_sizes)) == (ids[0], b"accc", [1, 0, 3])
    assert (dict(run.attributes), dict(run.groups)) == ({1: {"n": "v"}}, {})
    assert [(message.id, message.body_size) for message in page.messages] == list(
        zip(ids, run.body_sizes, strict=True)
    )


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (1, 0), (2, 5), (5, 6), (3, 3)])
def test_a_read_by_runs_leaves_out_what_is_deleted_and_keeps_all_places(
    rig: FrontRig, begin: int, end: int
) -> None:
    bodies = [b"%d" % number for number in range(8)]
    ids = [*rig.send(*bodies[:4]), *rig.send(*bodies[4:])]
    rig.ask(asked())
    rig.ask(Delete(queue="q", ids=[ids[2], ids[5]]))
    there = [place for place in range(8) if place not in (2, 5)]

    pages = list(rig.store.read_reservation("s", 0, begin=begin, end=end))

    found = [(message.id, message.body) for message in messages_of(pages)]
    assert found == [(ids[at], bodies[at]) for at in there if begin <= at < (end or 8)]


def test_a_page_says_where_the_next_one_begins_whatever_was_deleted(rig: FrontRig) -> None:
    ids = rig.send(*[b"x" * 900_000] * 4)
    rig.ask(asked())
    rig.ask(Delete(queue="q", ids=[ids[1]]))

    pages = list(rig.store.read_reservation("s", 0))

    assert [page.next_index for page in pages] == [3, 4]
    assert [len(page.runs) for page in pages] == [2, 1]
    assert messages_of(rig.store.read_reservation("s", 0, begin=3))[0].id == ids[3]


def test_a_set_is_marked_before_it_is_read_unless_the_read_is_refused(rig: FrontRig) -> None:
    rig.send(b"1")
    rig.ask(asked())
    with pytest.raises(InvalidRequest):
        rig.store.read_reservation("s", 0, begin=-1, mark_read=True)
    with pytest.raises(ReservationUnread):
        rig.ask(CommitReservations(stream="s", last_sequence_number=0, only_read=True))

    rig.store.read_reservation("s", 0, mark_read=True)

    assert (
        rig.ask(CommitReservations(stream="s", last_sequence_number=0, only_read=True)).deleted_count
        == 1
    )


def test_a_damaged_message_is_put_aside_and_costs_itself_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as rig:
        ids = rig.send(b"1", b"2", b"3")
        rig.ask(asked())
        clock = rig.clock
    (path,) = tmp_path.glob("delay/q:*")
    path.write_bytes(path.read_bytes().replace(b"123", b"1!3"))
    with opened(tmp_path, clock) as rig:
        assert [m.id for m in read(rig)] == [ids[0], ids[2]]
        assert f"message {ids[1]} goes to quarantine" in caplog.text

        assert rig.store.metrics.quarantined_count == 1
        assert rig.ask(CommitReservations(stream="s", last_sequence_number=0)).deleted_count == 2
        assert len(list(rig.path.glob("quarantine/q:*"))) == 1


def test_a_message_neither_readable_nor_quarantined_ends_the_read(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        ids = rig.send(b"1", b"2", b"3")
        rig.ask(asked())
        clock = rig.clock
    with opened(tmp_path, clock) as rig:
        reading = rig.disk.read

        def refusing(path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
            if path.startswith("delay"):
                raise OSError(5, "Input/output error", path)
            return reading(path, limit, afresh=afresh)

        rig.disk.read = refusing  # type: ignore[method-assign]
        # A read without them would have its reader commit, and so delete, what is whole.
        with pytest.raises(DiskError):
            read(rig)
        rig.disk.read = reading  # type: ignore[method-assign]

        assert [m.id for m in read(rig)] == ids
        assert rig.store.metrics.quarantined_count == 0


def test_a_read_waits_for_a_lock_that_another_process_holds(
    rig: FrontRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = rig.send(b"1")
    rig.ask(asked())
    held = taken_lock(rig.path)
    monkeypatch.setattr(questions, "_EXACT_TRIES", 2)
    with pytest.raises(RootInUse, match="lock"):
        read(rig)

    monkeypatch.undo()
    found: list[Message] = []
    reader = threading.Thread(target=lambda: found.extend(read(rig)))
    reader.start()
    held.release()
    reader.join(GIVE_UP)
    assert [m.id for m in found] == ids


def test_a_reserve_that_waits_and_is_cancelled_takes_nothing(rig: FrontRig) -> None:
    future = rig.store.submit(asked(wait=None))
    rig.in_turn()
    assert future.cancel()

    rig.send(b"1", b"2")
    rig.in_turn()

    assert not reserved(rig)
    assert receives(rig) == [1, 1]


def test_a_reserve_that_is_cancelled_while_it_is_synced_is_undone(rig: FrontRig) -> None:
    rig.send(b"1", b"2")
    rig.in_turn()
    syncing, advance = threading.Event(), threading.Event()

    def wait() -> None:
        syncing.set()
        assert advance.wait(GIVE_UP)

    rig.disk.before_sync = wait
    future = rig.store.submit(asked())
    assert syncing.wait(GIVE_UP)
    assert future.cancel()
    rig.disk.before_sync = None
    advance.set()
    rig.in_turn()

    assert not reserved(rig)
    assert receives(rig) == [1, 1]


def test_a_draining_store_reserves_nothing_and_commits_still(rig: FrontRig) -> None:
    rig.send(b"1", b"2")
    rig.ask(asked(most=1))
    assert rig.store.submit(asked(1, wait=None, most=1)).result(GIVE_UP) is not None
    parked = rig.store.submit(asked(2, wait=None))
    rig.in_turn()
    rig.store.drain()

    with pytest.raises(Draining):
        parked.result(GIVE_UP)
    with pytest.raises(Draining):
        rig.ask(asked(3))
    assert rig.ask(CommitReservations(stream="s", last_sequence_number=1)).deleted_count == 2
