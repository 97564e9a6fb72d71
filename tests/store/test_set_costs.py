"""A commit costs the same however many sets are held."""

from __future__ import annotations

from itertools import pairwise

from spoolrack_store.model.operations import Send
from spoolrack_store.model.reservation_requests import CommitReservations

from tests.support.set_rig import HOLD, SetRig
from tests.support.steps import steps_of

FEW, MANY = 2, 200


def steps_of_a_message(rig: SetRig) -> int:
    """Return the steps of a send, a receive, and of the question when there is work again."""

    def once() -> None:
        rig.ask(Send(queue="other", bodies=[b"x"]))
        assert len(rig.receive("other")) == 1
        # A receive that finds nothing asks whether a hold is over.
        assert rig.receive("other") == []
        assert not rig.engine.is_coming_back("other")
        rig.engine.next_work(rig.clock.monotonic())[1]

    once()
    return steps_of(once)


def hold(rig: SetRig, numbers: range) -> None:
    for number in numbers:
        rig.send(b"x")
        rig.reserve(stream=f"s{number}")
    rig.settle()


def test_a_message_costs_the_same_beside_few_and_many_held_sets() -> None:
    rig = SetRig()
    hold(rig, range(FEW))
    few = steps_of_a_message(rig)

    hold(rig, range(FEW, MANY))

    assert steps_of_a_message(rig) <= few * 1.2


def steps_of_the_sets(rig: SetRig) -> dict[str, int]:
    """Return the steps of what is asked of one set and of one stream."""
    reservations = rig.engine.reservations

    def commit() -> None:
        rig.send(b"x")
        rig.reserve(stream="mine")
        rig.ask(CommitReservations(stream="mine", last_sequence_number=0))

    def allowed(queue: str) -> bool:
        return True

    return {
        "count": steps_of(reservations.count),
        "held in": steps_of(lambda: reservations.held_in("other")),
        "listed": steps_of(lambda: reservations.shown("", "s1", ("", -1), 3)),
        "due of": steps_of(lambda: reservations.due_of("none")),
        "read": steps_of(lambda: reservations.begin_reading("s1", 0, 0, 0, allowed)),
        "commit": steps_of(commit),
        "rest": steps_of(lambda: rig.settle()),
    }


def test_what_is_asked_of_a_stream_costs_the_same_beside_few_and_many_sets() -> None:
    few, many = SetRig(), SetRig()
    hold(few, range(FEW))
    hold(many, range(MANY))
    cheap, dear = steps_of_the_sets(few), steps_of_the_sets(many)
    assert {what: steps for what, steps in dear.items() if steps > 1.2 * cheap[what] + 20} == {}


def test_holds_that_end_together_are_noted_in_slices() -> None:
    rig = SetRig()
    hold(rig, range(MANY))
    rig.engine.moves.effort.files = 20
    rig.clock.now += HOLD
    lost = [0]
    while lost[-1] < MANY:
        rig.commit()
        lost.append(sum(held.name.is_lost for held in rig.engine.reservations.sets.values()))
        assert len(lost) < MANY
    assert max(after - before for before, after in pairwise(lost)) <= 10
    rig.settle()
