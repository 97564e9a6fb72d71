"""Reserved sets keep their promises through power cuts, and through deaths at any step, alone and
beside other processes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import pytest
from spoolrack_store.engine import leaser, reserver
from spoolrack_store.engine.entries import Entry
from spoolrack_store.engine.reservation_index import (
    ReservationIndex,
    ReservedSet,
    SetState,
    StreamCommit,
)
from spoolrack_store.engine.reserver import Reserver
from spoolrack_store.model.reservation_names import ReservationName
from spoolrack_store.model.reservation_requests import CommitReservations, MarkRead
from spoolrack_store.model.transitions import Move

from tests.proof.crash.set_story import SetStory
from tests.proof.crash.stories import (
    ALONE,
    ALONE_AND_SHARED,
    SHARED,
    Bug,
    Run,
    expect_broken,
    expect_relisted,
)
from tests.support.cuts import Cut, Keep
from tests.support.engine_story import caching
from tests.support.engines import applied
from tests.support.power_disk import Model
from tests.support.set_rig import HOLD, SetRig


@ALONE
def test_a_set_is_whole_until_it_is_lost_or_committed(run: Run) -> None:
    told = run.tell(caching(SetStory), 24, steps=80)
    assert told["made"] > told["stories"]
    assert told.least("lost", "done") > told["stories"] // 10
    assert told["taken_back"]


@SHARED
def test_a_reservation_of_one_process_is_ended_or_finished_by_any_other(run: Run) -> None:
    told = run.tell(caching(SetStory), 24)
    assert told["made"] > told["stories"]
    assert told.least("lost", "done") > told["stories"] // 10
    assert told["taken_back"]


@ALONE_AND_SHARED
def test_a_crash_between_two_slices_of_a_set_leaves_all_of_it_or_undoes_it(run: Run) -> None:
    told = run.tell(lambda seed, *of, **rest: SetStory(seed, *of, effort=1 + seed % 3, **rest), 14)
    assert told.least("made", "slices", "cut_short") > told["stories"]
    assert told.least("lost", "done") >= told["stories"] // 10


_mark = ReservationIndex.mark
_finish = Reserver._finish
_lease_again = Reserver._lease_again
_rename = Reserver._rename
_unlink_stale = Reserver._unlink_stale


def _as_if_synced(self: Reserver, step: Callable[[], None]) -> None:
    synced, self._moves.synced = self._moves.synced, self._moves.commit
    step()
    self._moves.synced = synced


def _back_before_the_loss_is_durable(self: Reserver, held: ReservedSet) -> None:
    if held.state is not SetState.COMMITTED:
        held.changed = 0
    _finish(self, held)


def _deleted_before_the_marker_is_durable(self: Reserver, held: ReservedSet) -> None:
    leases = list(self._moves.index.leases_of.get(held.record.token, ()))
    if held.state is not SetState.COMMITTED or not leases:
        _finish(self, held)
        return
    for entry in leases:
        self._moves.delete(entry, entry.members)


def _record_unlinked_with_the_deletes(self: Reserver, held: ReservedSet) -> None:
    if held.state is not SetState.COMMITTED:
        _finish(self, held)
        return
    if self._is_durable(held):
        _as_if_synced(self, lambda: _finish(self, held))


def _record_unlinked_after_the_first_slice(self: Reserver, held: ReservedSet) -> None:
    _finish(self, held)
    if held.state is SetState.COMMITTED and self._is_durable(held):
        self._moves.unlink_file(held.path)
        self.index.drop(held)


def _markers_unlinked_too_early(self: Reserver) -> None:
    _as_if_synced(self, lambda: _unlink_stale(self))


def _leased_again_but_not_after_a_cut(self: Reserver, held: ReservedSet) -> None:
    if held.state is not SetState.COMMITTED:
        _lease_again(self, held)


def _renamed_before_it_is_durable(self: Reserver, held: ReservedSet, name: ReservationName) -> None:
    held.changed = 0
    _rename(self, held, name)


def _mark_with_the_lost_ones(self: ReservationIndex, stream: str, commit: StreamCommit) -> None:
    _mark(self, stream, commit)
    for number, held in self.of_stream(stream).items():
        if number <= commit.sequence_number:
            self.change(held, SetState.COMMITTED)


def _counted(self: Reserver, entry: Entry) -> None:
    self._moves.move(entry, entry.members, Move.REQUEUE)


PLANTED: Final[dict[str, Bug]] = {
    "a set's leases that end by the due in their names": Bug(
        leaser, "is_set_token", lambda token: False
    ),
    "messages that come back before the loss is durable": Bug(
        Reserver, "_finish", _back_before_the_loss_is_durable
    ),
    "messages deleted before the marker is durable": Bug(
        Reserver, "_finish", _deleted_before_the_marker_is_durable, first=8
    ),
    "a record unlinked with the deletes of its messages": Bug(
        Reserver, "_finish", _record_unlinked_with_the_deletes, first=38
    ),
    "an old marker unlinked before the new one is durable": Bug(
        Reserver, "_unlink_stale", _markers_unlinked_too_early, first=17
    ),
    "a part of a set taken for the set": Bug(Reserver, "_has_slipped", lambda self, held: False),
    "leases without a record that stay": Bug(Reserver, "_undo_unnamed", lambda self: None, first=5),
    "an undone set that is counted": Bug(Reserver, "_unlease", _counted),
    "a lost set that is committed with the others": Bug(
        ReservationIndex, "mark", _mark_with_the_lost_ones, first=11
    ),
    "messages of a lost set that stay ready while its commit is written": Bug(
        Reserver, "_lease_again", lambda self, held: None, first=9
    ),
    "messages of a committed set that a power cut has made ready": Bug(
        Reserver, "_lease_again", _leased_again_but_not_after_a_cut, first=358
    ),
    "records of other processes that are not read": Bug(
        Reserver, "path_changed", lambda self, path: None
    ),
    "a record renamed before it is durable, without syncfs": Bug(
        Reserver, "_rename", _renamed_before_it_is_durable, is_alone=True
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], SetStory, processes=2)


PLANTED_IN_SLICES: Final[dict[str, Bug]] = {
    "slices of a living process that another one undoes": Bug(reserver, "mark_in", lambda token: ""),
    "a set that has what was deleted between its slices": Bug(
        Reserver, "_leave_out_unleased", lambda self, partial_set: None, first=11
    ),
    "slices that are counted as receives when they are undone": Bug(Reserver, "_unlease", _counted),
    "a record unlinked while messages of its set are to be deleted": Bug(
        Reserver, "_finish", _record_unlinked_after_the_first_slice
    ),
    "messages of a set that come back before its loss is durable": Bug(
        Reserver, "_finish", _back_before_the_loss_is_durable
    ),
}


@pytest.mark.parametrize("planted", PLANTED_IN_SLICES)
def test_each_condition_of_the_slices_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = PLANTED_IN_SLICES[planted]
    expect_broken(monkeypatch, bug, SetStory, processes=2, effort=1)


def test_a_process_that_others_overtook_reads_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    expect_relisted(monkeypatch, SetStory, 2_000)


@pytest.mark.parametrize("is_batch", [False, True], ids=["two files", "one file"])
def test_a_lost_set_that_is_committed_stays_committed_if_a_power_cut_keeps_its_marker_alone(
    is_batch: bool,
) -> None:
    """The marker is the promise: it may be on the disk without the leases that came before it. Then the
    messages, which a loss had made ready, must not come again."""
    kept = 0
    for number in count():
        rig = SetRig(Model.ANY_SUBSET)
        ids = rig.send(b"1", b"2") if is_batch else [*rig.send(b"1"), *rig.send(b"2")]
        rig.reserve()
        rig.ask(MarkRead(stream="s", sequence_number=0))
        rig.advance(2 * HOLD)
        (lost,) = rig.names("reserved")
        assert lost.endswith("~lost")
        rig.disk.sync_all()
        applied(rig.engine, CommitReservations(stream="s", last_sequence_number=0, only_read=True))
        if number >= rig.disk.pending:
            break
        found = SetRig(disk=rig.disk.cut(Cut(Keep.ONLY, (number,))))
        found.clock.now = rig.clock.now
        found.settle()
        if "s.0" in found.names("reserved"):
            kept += 1
            assert found.receive() == []
        else:
            assert [id for id, _ in found.receive()] == ids
    assert kept == 1
