"""The cost of sends that one commit writes, counted as lines of the store that run."""

from __future__ import annotations

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Send
from spoolrack_store.model.settings import QueueSettings

from tests.support.dead_letter_rig import Rig
from tests.support.steps import steps_of


def _steps_of_sends(callers: int, delays: int) -> int:
    rig = Rig()
    rig.ask()
    sends = [
        Send(queue="third", bodies=[b"x"] * delays, delays={at: Millis(at + 1) for at in range(delays)})
        for _ in range(callers)
    ]
    return steps_of(lambda: rig.engine.apply(sends))


def test_sends_with_many_delays_cost_the_same_for_each_message() -> None:
    few = _steps_of_sends(2, 25) / (2 * 25)
    assert _steps_of_sends(8, 200) / (8 * 200) <= 1.2 * few


def test_a_full_queue_is_counted_once_a_commit() -> None:
    def steps(sends: int) -> int:
        rig = Rig({"q": QueueSettings(max_messages=10_000)})
        rig.ask()
        work = rig.engine.apply(
            [Send(queue="q", bodies=[b"x"], delays={0: Millis(at + 1)}) for at in range(100)]
        )
        assert work is not None  # Its files stay in `new/`: it isn't synced.
        return steps_of(lambda: rig.engine.apply([Send(queue="q", bodies=[b"x"] * sends)]))

    assert steps(200) - steps(100) <= 100 * 60
