"""Planted bugs in what several processes on one root owe each other."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_PEERS: Final = "tests/store/test_store_peers.py"

PEER_MUTANTS: Final = (
    Mutant(
        name="the-living-are-taken-for-dead",
        breaks="what belongs to a writer is touched by others only when its lock is free",
        edits=edit(
            "files/owners.py",
            "    if lock is None:\n        return True\n    lock.release()\n",
            "    if lock is not None:\n        lock.release()\n",
        ),
        caught_by=(_PEERS,),
    ),
    Mutant(
        name="what-the-dead-had-sent-is-stranded",
        breaks="what a dead process had sent is delivered by the living",
        edits=edit(
            "engine/succession.py",
            "            if filed.queue in self._catalog.queues:\n",
            "            if filed.queue not in self._catalog.queues:\n",
        ),
        caught_by=(_PEERS,),
    ),
    Mutant(
        name="foreign-leases-end-on-time",
        breaks="a lease of another process is brought back only a margin after it is due",
        edits=edit(
            "engine/beliefs.py",
            "        left = max(min(due - root.clock.wall(), most) + MARGIN, root.chores.wait)\n",
            "        left = max(min(due - root.clock.wall(), most), root.chores.wait)\n",
        ),
        caught_by=(_PEERS,),
    ),
    Mutant(
        name="who-sends-does-not-ask-again",
        breaks="a queue that is made again starts empty, whoever had not heard of its end",
        edits=edit(
            "engine/sender.py",
            "                self._require_queue(group, written)\n",
            "                assert written\n",
        ),
        caught_by=(_PEERS,),
    ),
    Mutant(
        name="old-news-undo-what-was-done-since",
        breaks="after all that was heard, the last change of each name says where it is",
        edits=edit(
            "engine/peers.py",
            "            last[change.folder, change.name] = change.appeared\n",
            "            last.setdefault((change.folder, change.name), change.appeared)\n",
        ),
        caught_by=(_PEERS,),
    ),
    Mutant(
        name="what-left-its-batch-is-believed-in-it",
        breaks="an id is believed to be in one place only",
        edits=edit(
            "engine/peers.py",
            "                self._hear_alone(change.folder, change.name)\n",
            "                assert change.name\n",
        ),
        caught_by=(_PEERS,),
    ),
    Mutant(
        name="a-message-that-others-took-is-called-deleted",
        breaks="a delete that has not deleted says so, or finds out where the message went",
        edits=edit(
            "engine/remover.py",
            "        return missed if self._root.is_shared else []\n",
            "        return []\n",
        ),
        caught_by=(_PEERS,),
    ),
)
