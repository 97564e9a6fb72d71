"""The engine makes no change of state that the table of moves doesn't hold."""

from __future__ import annotations

import pytest
from spoolrack_store.model.transitions import Move

from tests.store.trouble_rig import Rig


@pytest.mark.parametrize("move", [Move.ASSIGN, Move.HIDE, Move.REQUEUE])
def test_a_ready_message_makes_no_move_of_another_state(move: Move) -> None:
    rig = Rig()
    rig.send(b"a")
    rig.commit()
    (entry,) = rig.engine.index.queue("q").entries
    before = rig.paths("queues/q")

    with pytest.raises(AssertionError, match=f"no {move.name} of queues/q/"):
        rig.engine.moves.move(entry, entry.members, move)

    assert rig.paths("queues/q") == before != []
