"""The engine makes no change of state that the table of moves doesn't hold."""

from __future__ import annotations

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.transitions import State

from tests.store.trouble_rig import Rig


@pytest.mark.parametrize("state", [State.SENT, State.DELAYED])
def test_a_ready_message_is_neither_sent_nor_delayed_again(state: State) -> None:
    rig = Rig()
    rig.send(b"a")
    rig.commit()
    (entry,) = rig.engine.index.queue("q").entries
    before = rig.paths("queues/q")

    with pytest.raises(AssertionError, match="no move leads"):
        rig.engine.moves.move(entry, entry.members, state, until=(Millis(1), 1))

    assert rig.paths("queues/q") == before != []
