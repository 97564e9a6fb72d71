"""A process dies between any two steps of one request about a set, alone and beside another one."""

from __future__ import annotations

import pytest
from spoolrack_store.engine import part
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.errors import ReservationCommitted, ReservationLost
from spoolrack_store.model.operations import UNFINISHED, Request
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    Release,
    Reserve,
)

from tests.support.linked_disk import Died
from tests.support.set_rig import HOLD, SetRig

MOST_STEPS = 80


def reserve_all() -> Reserve:
    return Reserve(queue="q", stream="s", sequence_number=0, visibility_timeout=HOLD)


COMMIT = CommitReservations(stream="s", last_sequence_number=0)


class Deaths:
    """One process and messages of a lone send and of batches; or two, of which one is to die."""

    def __init__(self, *, beside: bool) -> None:
        self.rig = SetRig()
        self.ids = [*self.rig.send(b"1"), *self.rig.send(b"2", b"3", b"4"), *self.rig.send(b"5")]
        self.living: Engine | None = self.rig.join() if beside else None
        if self.living is not None:
            self.rig.settle(engine=self.living)

    def die(self, request: Request[object], steps: int) -> bool:
        """Ask, and die after so many steps; return False if the request was done before. Another
        process, or the next one, takes over."""
        rig = self.rig
        rig.disk.steps_left = steps
        try:
            while rig.ask(request) is UNFINISHED:
                pass
            rig.settle()
            has_died = False
        except Died:
            has_died = True
        rig.disk.steps_left = None
        if not has_died:
            return False
        rig.disk.free_locks()
        if self.living is None:
            rig.restart()
        else:
            rig.living.remove("p0")
            rig.engine = self.living
            rig.settle()
        return True

    @property
    def receives(self) -> set[int]:
        """How often the messages that are there were received, by what their names say."""
        index = self.rig.engine.index
        holders = [found for id in self.ids if (found := index.holder(id)) is not None]
        return {entry.name.receives for entry, _ in holders}

    def reserve(self) -> None:
        while self.rig.ask(reserve_all()) is UNFINISHED:
            pass


@pytest.fixture(autouse=True, params=[part.FILES, 1], ids=["at once", "in slices"])
def effort(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "FILES", request.param)


BESIDE = pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another process"])


@BESIDE
@pytest.mark.parametrize("later", [0, HOLD])
def test_a_death_in_a_reserve_leaves_all_of_the_set_or_nothing(later: int, beside: bool) -> None:
    made = []
    for steps in range(MOST_STEPS):
        deaths = Deaths(beside=beside)
        rig = deaths.rig
        if not deaths.die(reserve_all(), steps):
            break
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
            assert rig.ask(COMMIT).messages == len(deaths.ids)
    else:
        raise AssertionError("it never came to its end")
    assert set(made) == {False, True}


@BESIDE
def test_a_death_in_a_release_leaves_the_set_or_ready_messages_that_were_counted(beside: bool) -> None:
    held = []
    for steps in range(MOST_STEPS):
        deaths = Deaths(beside=beside)
        rig = deaths.rig
        deaths.reserve()
        if not deaths.die(Release(stream="s", sequence_number=0), steps):
            break
        assert deaths.receives == {1}
        try:
            rig.ask(ExtendReservation(stream="s", sequence_number=0))
            held.append(True)
            assert rig.ids_in() == deaths.ids
        except ReservationLost:
            held.append(False)
            rig.settle()
            assert rig.receive() == [(id, 2) for id in deaths.ids]
    else:
        raise AssertionError("it never came to its end")
    assert set(held) == {False, True}


@BESIDE
def test_a_death_in_a_commit_of_a_set_leaves_all_of_it_or_nothing(beside: bool) -> None:
    held = []
    for steps in range(MOST_STEPS):
        deaths = Deaths(beside=beside)
        rig = deaths.rig
        deaths.reserve()
        if not deaths.die(COMMIT, steps):
            break
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
    else:
        raise AssertionError("it never came to its end")
    assert set(held) == {False, True}
