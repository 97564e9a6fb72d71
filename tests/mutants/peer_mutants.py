"""Planted bugs in what several processes on one root owe each other."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_PEERS: Final = "tests/store/test_store_peers.py"
_VISITORS: Final = "tests/store/test_store_visitors.py"
_STORIES: Final = "tests/crash/test_shared_crashes.py"
_KNOWN: Final = "tests/crash/test_shared_known.py"
_UNLISTED: Final = "tests/store/test_store_unlisted.py"
_PLANTED: Final = "tests/crash/test_shared_planted.py"

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
        name="a-folder-goes-with-what-nobody-knew",
        breaks="a message that is not deleted stays, whatever a server believes of its folder",
        edits=(
            *edit(
                "engine/leaser.py",
                "                index.ready.doubt(folder)  #",
                "                pass  #",
            ),
            *edit(
                "engine/remover.py",
                "        known = set(folder.names)\n",
                "        return False\n        known = set(folder.names)\n",
            ),
        ),
        caught_by=(_VISITORS,),
    ),
    Mutant(
        name="a-set-names-what-others-have-taken",
        breaks="a set that was answered is there after a crash",
        edits=edit("engine/leaser.py", "            self._delivery.confirm(live, hidden)\n", ""),
        caught_by=(_KNOWN,),
    ),
    Mutant(
        name="older-settings-outlive-the-tombstone",
        breaks="a deleted queue stays deleted, whoever died over a change of it",
        edits=edit(
            "engine/catalog.py",
            "            self._versions.leave_older(name, self.doomed[name])\n",
            "            pass\n",
        ),
        caught_by=(_KNOWN,),
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
    Mutant(
        name="a-take-over-makes-nothing-durable",
        breaks="what a dead process had written is published only when it is durable",
        edits=edit(
            "engine/succession.py",
            "        root.everything_changed()\n        heir = Heir(root, self._sender)\n",
            "        heir = Heir(root, self._sender)\n",
        ),
        caught_by=(_KNOWN, _STORIES),
    ),
    Mutant(
        name="what-others-deleted-is-promised-at-once",
        breaks="a message that is said to be deleted stays so, whoever deleted it",
        edits=edit(
            "engine/remover.py",
            "        self._promise_gone(gone)\n",
            "        assert gone is not None\n",
        ),
        caught_by=(_KNOWN,),
    ),
    Mutant(
        name="queues-of-others-are-taken-for-durable",
        breaks="a message that is sent outlives a power cut, with its queue",
        edits=edit(
            "engine/catalog.py",
            "        root.syncer.folder_changed(layout.CONFIG)\n",
            "        assert root.syncer\n",
        ),
        caught_by=(_KNOWN, _STORIES),
    ),
    Mutant(
        name="moves-of-others-out-of-a-batch-are-taken-for-durable",
        breaks="no folder moves to remove/ before every move out of it is durable",
        edits=edit(
            "engine/beliefs.py",
            "        self._doubt(folder)\n        if not left:\n",
            "        if not left:\n",
        ),
        caught_by=(_KNOWN,),
    ),
    Mutant(
        name="a-batch-is-deleted-with-what-has-left-it",
        breaks="a delete says so only of what lies in the folder that it moved",
        edits=edit(
            "engine/remover.py",
            "                    missed += [one for name in names if name not in there for",
            "                    missed += [one for name in names if name is None for",
        ),
        caught_by=(_KNOWN,),
    ),
    Mutant(
        name="an-old-version-of-a-queue-made-again-is-unlinked",
        breaks="who unlinks superseded settings looks whether they are still the same",
        edits=edit(
            "engine/versions.py",
            "            if written_ns and self.written_ns(name, version) not in (written_ns, None):\n"
            "                return\n",
            "            assert written_ns is not None\n",
        ),
        caught_by=(_KNOWN,),
    ),
    Mutant(
        name="a-purge-overlooks-what-the-dead-had-sent",
        breaks="what was answered for before a purge is never delivered after it",
        edits=edit(
            "engine/queue_turns.py",
            "                self._take_over()\n",
            "                assert self._take_over\n",
        ),
        caught_by=(_KNOWN,),
    ),
    Mutant(
        name="a-release-answers-for-what-has-gone",
        breaks="who is told that a lease was released held it until then",
        edits=edit(
            "engine/leaser.py",
            "[None if name in released else StaleReceipt(id=id_of(name)) for name in names]",
            "[None for name in names if released or True]",
        ),
        caught_by=("tests/store/test_store_unheard.py",),
    ),
    Mutant(
        name="a-batch-is-released-whole-beside-others",
        breaks="a release answers for no message that another has taken out of its batch",
        edits=edit(
            "engine/requeuer.py",
            "        if not self._root.is_shared:\n            self.requeue(live",
            "        if live:\n            self.requeue(live",
        ),
        caught_by=("tests/store/test_store_unheard.py", _KNOWN),
    ),
    Mutant(
        name="an-extension-answers-for-what-has-gone",
        breaks="who is told that a lease was extended holds it until then",
        edits=edit(
            "engine/leaser.py",
            "        if not self._root.is_shared or not hidden.is_folder:\n",
            "        if hidden:\n",
        ),
        caught_by=("tests/store/test_store_unheard.py",),
    ),
    Mutant(
        name="a-look-leaves-out-what-others-have-leased",
        breaks="a receipt works with every process, whoever has leased the message",
        edits=edit(
            "engine/contents.py",
            "            self.look_into_lease(queue, lease)\n",
            "            assert lease\n",
        ),
        caught_by=(_UNLISTED,),
    ),
    Mutant(
        name="nobody-brings-back-what-the-dead-have-leased-whole",
        breaks="what a dead process had leased comes back when it is due",
        edits=edit(
            "engine/requeuer.py",
            "                self._look_into(queue, hidden)  # It is due still.\n",
            "                assert self._look_into\n",
        ),
        caught_by=(_UNLISTED,),
    ),
    Mutant(
        name="a-lease-of-another-is-counted-after-its-end",
        breaks="what others have deleted is gone from what a process knows",
        edits=edit(
            "engine/beliefs.py",
            "            index.forget_unlisted(hidden.item.id)\n            return\n",
            "            return\n",
        ),
        caught_by=(_UNLISTED,),
    ),
    Mutant(
        name="ones-own-goes-first-for-ever",
        breaks="a message waits for those alone that were sent hardly later",
        edits=edit(
            "engine/leaser.py",
            "            if sent_at(id_of(name)) > latest:\n",
            "            if sent_at(id_of(name)) > latest and not name:\n",
        ),
        caught_by=(_UNLISTED,),
    ),
    Mutant(
        name="who-is-alone-does-not-know-all",
        breaks="a delete that was acknowledged is never delivered again, whoever has left",
        edits=edit(
            "engine/peers.py",
            "        if any(map(self.contents.has_unread, self._root.index.queues)):\n",
            "        if not self._root.index:\n",
        ),
        caught_by=(_UNLISTED,),
    ),
    Mutant(
        name="what-can-not-be-looked-into-is-taken-for-gone",
        breaks="no delete succeeds for a message that is there",
        edits=edit(
            "engine/contents.py",
            "        return bool(index.unlisted()) or any(",
            "        return index is None or any(",
        ),
        caught_by=(_UNLISTED,),
    ),
    Mutant(
        name="a-purge-leaves-what-can-not-be-looked-into",
        breaks="what was there before a purge is never delivered after it",
        edits=edit(
            "engine/clearance.py",
            "            self._remove(queue, lease, is_folder=True)\n",
            "            assert lease\n",
        ),
        caught_by=(_UNLISTED,),
    ),
)
