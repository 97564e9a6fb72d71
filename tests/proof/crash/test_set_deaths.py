"""A process dies between any two steps of one request about a set, alone and beside another one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from spoolrack_store.engine import effort as efforts
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.errors import ReservationCommitted, ReservationLost
from spoolrack_store.model.operations import UNFINISHED, Request
from spoolrack_store.model.reservation_requests import (
    MEMORY,
    CommitReservations,
    Committed,
    ExtendReservation,
    Release,
    Reserve,
)

from tests.support.cuts import Bytes, Cut, Keep
from tests.support.linked_disk import each_death
from tests.support.set_rig import HOLD, SetRig

RESERVE = Reserve(queue="q", stream="s", sequence_number=0, visibility_timeout=HOLD)
COMMIT = CommitReservations(stream="s", last_sequence_number=0)


class Deaths:
    """One process and messages of a lone send and of batches; or two, of which one is to die."""

    def __init__(self, *, beside: bool) -> None:
        self.rig = SetRig()
        self.ids = [*self.rig.send(b"1"), *self.rig.send(b"2", b"3", b"4"), *self.rig.send(b"5")]
        self.living: Engine | None = self.rig.join() if beside else None
        if self.living is not None:
            self.rig.settle(engine=self.living)

    def take_over(self) -> None:
        """Let the other process go on, or the next one start."""
        rig = self.rig
        rig.disk.free_locks()
        if self.living is None:
            rig.restart()
        else:
            rig.living.remove("p1")
            rig.engine = self.living
            rig.settle()

    @property
    def receives(self) -> set[int]:
        """How often the messages that are there were received, by what their names say."""
        index = self.rig.engine.index
        holders = [found for id in self.ids if (found := index.holder(id)) is not None]
        return {entry.name.receives for entry, _ in holders}

    def ask(self, request: Request[object]) -> None:
        while self.rig.ask(request) is UNFINISHED:
            pass


def deaths_in(request: Request[object], *, beside: bool, is_reserved: bool = True) -> Iterator[Deaths]:
    """Yield what each death in a request has left, as another process, or the next one, finds it."""

    def make() -> Deaths:
        deaths = Deaths(beside=beside)
        if is_reserved:
            deaths.ask(RESERVE)
        return deaths

    def act(deaths: Deaths) -> None:
        deaths.ask(request)
        deaths.rig.settle()

    for deaths in each_death(make, act):
        deaths.take_over()
        yield deaths


@pytest.fixture(autouse=True, params=[efforts.FILES, 1], ids=["at once", "in slices"])
def effort(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efforts, "FILES", request.param)


BESIDE = pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another process"])


@BESIDE
@pytest.mark.parametrize("later", [0, HOLD])
def test_a_death_in_a_reserve_leaves_all_of_the_set_or_nothing(later: int, beside: bool) -> None:
    made = []
    for deaths in deaths_in(RESERVE, beside=beside, is_reserved=False):
        rig = deaths.rig
        made.append(bool(rig.names("reserved")))
        if not rig.names("reserved"):
            assert rig.receive() == [(id, 1) for id in deaths.ids]
            continue
        assert rig.ids_in() == deaths.ids
        rig.advance(later)
        if later:
            with pytest.raises(ReservationLost):
                rig.ask(ExtendReservation(stream="s", sequence_number=0))
            assert rig.receive() == [(id, 2) for id in deaths.ids]
        else:
            assert rig.receive() == []
            assert rig.ask(COMMIT).deleted_count == len(deaths.ids)
    assert set(made) == {False, True}


@BESIDE
def test_a_death_in_a_release_leaves_the_set_or_ready_messages_that_were_counted(beside: bool) -> None:
    held = []
    for deaths in deaths_in(Release(stream="s", sequence_number=0), beside=beside):
        rig = deaths.rig
        assert deaths.receives == {1}
        try:
            rig.ask(ExtendReservation(stream="s", sequence_number=0))
            held.append(True)
            assert rig.ids_in() == deaths.ids
        except ReservationLost:
            held.append(False)
            rig.settle()
            assert rig.receive() == [(id, 2) for id in deaths.ids]
    assert set(held) == {False, True}


@BESIDE
def test_a_death_in_a_commit_of_a_set_leaves_all_of_it_or_nothing(beside: bool) -> None:
    held = []
    for deaths in deaths_in(COMMIT, beside=beside):
        rig = deaths.rig
        try:
            found = rig.ids_in()
        except ReservationCommitted:
            found = []
        held.append(bool(found))
        assert found in ([], deaths.ids)
        rig.ask(COMMIT)
        rig.settle()
        rig.advance(HOLD)
        assert rig.receive() == []
    assert set(held) == {False, True}


@BESIDE
def test_a_death_or_a_power_cut_in_the_renewal_of_a_marker_leaves_a_commit_that_can_be_repeated(
    beside: bool,
) -> None:
    def make() -> Deaths:
        deaths = Deaths(beside=beside)
        deaths.ask(RESERVE)
        deaths.ask(COMMIT)
        deaths.rig.advance(MEMORY * 2 // 3)
        return deaths

    for deaths in each_death(make, lambda deaths: deaths.ask(COMMIT)):
        disk = deaths.rig.disk
        found = [disk.copy().cut(Cut(keep, bytes=(Bytes.HALF,))) for keep in (Keep.ALL, Keep.NONE)]
        deaths.take_over()
        for rig in (deaths.rig, *(SetRig(disk=each) for each in found)):
            assert rig.ask(COMMIT) == Committed(deleted_count=0, lost_sequence_numbers=[])
            assert rig.names("reserved") == ["s.0"]
