"""A commit costs the same however many sets are held."""

from __future__ import annotations

from spoolrack_store.model.operations import Send

from tests.support.set_rig import SetRig
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
