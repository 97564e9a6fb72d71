"""The table of legal moves: its properties as a whole."""

from __future__ import annotations

import pytest
from spoolrack_store.model.transitions import CHANGES, LEGAL, Move, State

LIFE = {
    State.SENT: set(State),
    State.READY: {State.READY, State.LEASED, State.REMOVED, State.QUARANTINED},
    State.DELAYED: {State.READY, State.LEASED, State.REMOVED, State.QUARANTINED},
    State.LEASED: {State.LEASED, State.READY, State.DELAYED, State.REMOVED, State.QUARANTINED},
    State.REMOVED: set(),
    State.QUARANTINED: {State.READY},
}


@pytest.mark.parametrize("state", State)
def test_from_each_state_only_these_can_be_reached(state: State) -> None:
    assert {target for _, source, target in LEGAL if source is state} == LIFE[state]


def test_a_change_of_state_is_legal_if_a_move_makes_it() -> None:
    assert {(source, target) for source in LIFE for target in LIFE[source]} == CHANGES


def test_a_deleted_message_never_comes_back() -> None:
    reached = {State.REMOVED}
    for _ in State:
        reached |= {target for _, source, target in LEGAL if source in reached}
    assert reached == {State.REMOVED}


def test_only_a_restore_takes_a_message_out_of_quarantine() -> None:
    assert {move for move, source, _ in LEGAL if source is State.QUARANTINED} == {Move.RESTORE}


def test_a_message_can_be_deleted_in_every_state_that_a_user_can_see() -> None:
    deletable = {source for move, source, _ in LEGAL if move is Move.DELETE}
    assert deletable == {State.SENT, State.READY, State.DELAYED, State.LEASED}
    assert {target for move, _, target in LEGAL if move is Move.DELETE} == {State.REMOVED}


def test_damage_can_be_put_aside_in_every_state_before_the_message_is_deleted() -> None:
    assert {source for move, source, _ in LEGAL if move is Move.QUARANTINE} == set(State) - {
        State.QUARANTINED,
        State.REMOVED,
    }


def test_only_what_is_ready_is_leased_or_was_assigned_when_it_was_sent() -> None:
    entries = {(move, source) for move, source, target in LEGAL if target is State.LEASED}
    assert entries == {
        (Move.LEASE, State.READY),
        (Move.DELIVER, State.SENT),
        (Move.EXTEND, State.LEASED),
        # By its last receive: see `LastReceive`.
        (Move.EXTEND, State.DELAYED),
    }


def test_every_move_is_legal_somewhere() -> None:
    assert {move for move, _, _ in LEGAL} == set(Move)


def test_a_move_from_one_state_has_one_outcome() -> None:
    assert len({(move, source) for move, source, _ in LEGAL}) == len(LEGAL)
