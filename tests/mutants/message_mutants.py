"""Planted bugs in what becomes of messages: recovery, leases, deletes and queues."""

from __future__ import annotations

from typing import Final

from mutant import Edit, Mutant, edit

_STEPS: Final = "tests/store/test_store_order_of_steps.py"
_ENDS: Final = "tests/store/test_store_ends.py"
_RECOVERY: Final = "tests/store/test_store_recovery.py"
_LOST: Final = "tests/store/test_store_lost_settings.py"
_MQ: Final = "softlayer/mq"
_VSQS: Final = "vsqs"

MESSAGE_MUTANTS: Final = (
    # What a restart finds.
    Mutant(
        name="a-start-believes-what-memory-shows-of-a-message",
        breaks="what a start takes for whole is what the disk has, also after a sync that failed",
        edits=edit("engine/heir.py", "path, entry, afresh=True)", "path, entry)"),
        caught_by=("tests/crash/test_crashes.py",),
    ),
    Mutant(
        name="new-is-not-checked",
        breaks="what was not written whole is never delivered",
        edits=edit("engine/heir.py", "        read_message(disk, path, entry, afresh=True)\n", ""),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="half-a-batch-is-delivered",
        breaks="the messages of one send appear all or not at all",
        edits=edit("engine/heir.py", "        if there < item.count:", "        if there == 0:"),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="new-is-stranded-by-a-restart",
        breaks="what was sent and not yet in its queue is delivered after a restart",
        edits=edit("engine/recovery.py", "        self._read_sent()\n\n", "\n"),
        caught_by=(_RECOVERY,),
        ancestor=_MQ,
    ),
    Mutant(
        name="delay-is-stranded-by-a-restart",
        breaks="what was leased or delayed comes back when it is due, also after a restart",
        edits=edit(
            "engine/recovery.py",
            "        self._read_hidden()\n        self._read_ready()\n",
            "        self._read_ready()\n",
        ),
        caught_by=(_RECOVERY,),
        ancestor=_MQ,
    ),
    Mutant(
        name="a-queue-without-settings-is-put-aside",
        breaks="a queue whose settings are lost keeps its messages",
        edits=edit(
            "engine/recovery.py",
            "                if is_queue_name(found.name) and any(map(is_entry_or_batch, listed)):\n",
            "                if not listed:\n",
        ),
        caught_by=(_LOST,),
    ),
    Mutant(
        name="an-empty-batch-folder-makes-a-queue",
        breaks="what a deleted queue leaves behind doesn't bring it back",
        edits=edit(
            "engine/recovery.py",
            "found.kind is Kind.FOLDER and any(map(is_entry, self._scan(path) or ()))\n",
            "found.kind is Kind.FOLDER\n",
        ),
        caught_by=(_LOST,),
    ),
    Mutant(
        name="a-send-that-was-never-answered-brings-a-queue-back",
        breaks="a deleted queue doesn't come back by a send that came later",
        edits=edit(
            "engine/recovery.py",
            "            index = self._index_of(filed.queue, path)\n            if index is None:\n",
            "            if filed.queue not in self._root.index.queues:\n"
            "                self._catalog.use_defaults(filed.queue)\n"
            "            index = self._index_of(filed.queue, path)\n            if index is None:\n",
        ),
        caught_by=(_LOST,),
    ),
    Mutant(
        name="settings-that-are-unlinked-by-hand-end-a-queue",
        breaks="a running process serves a queue on whose settings are lost",
        edits=edit(
            "engine/catalog.py",
            "            if name in self.queues and self._write_again(self.queues[name]):\n"
            "                continue\n",
            "",
        ),
        caught_by=(_LOST,),
    ),
    Mutant(
        name="dues-are-forgotten-by-a-restart",
        breaks="a lease stands until it is due, also after a restart",
        edits=edit(
            "engine/recovery.py",
            "        left = max(min(filed.due - clock.wall(), most), self._root.chores.wait)\n",
            "        left = 0\n",
        ),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="dues-in-new-are-forgotten-by-a-restart",
        breaks="a delayed send that a crash has stopped in new/ is still delayed",
        edits=edit(
            "engine/heir.py",
            "            due=filed.due,\n            due_monotonic=Millis(self",
            "            due=None,\n            due_monotonic=Millis(self",
        ),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="dues-are-not-clamped",
        breaks="a due beyond the maximum counts as the maximum",
        edits=edit(
            "engine/recovery.py",
            "        left = max(min(filed.due - clock.wall(), most), self._root.chores.wait)\n",
            "        left = filed.due - clock.wall()\n",
        ),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="what-is-in-remove-comes-back",
        breaks="where a crash left one id in two places, the later state wins",
        edits=edit(
            "engine/recovery.py",
            "            id in self._removed\n            or index",
            "            index",
        ),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="ids-start-anew",
        breaks="new messages stand behind old ones after a restart, whatever the clock did",
        edits=edit("model/ids.py", "        if id <= self._seen:\n", "        if id:\n"),
        caught_by=(_RECOVERY,),
    ),
    # Order and content.
    Mutant(
        name="ids-fall-with-the-clock",
        breaks="ids rise, also when the clock steps back",
        edits=edit("model/ids.py", "        if now > self._millis:", "        if now != self._millis:"),
        caught_by=("tests/unit/test_ids.py",),
    ),
    Mutant(
        name="requeued-at-the-end",
        breaks="what is due comes back at its old place",
        edits=edit("index/order.py", "        insort(chunk, name)\n", "        chunk.append(name)\n"),
        caught_by=("tests/store/test_store_order.py", "tests/store/test_store_ready.py"),
    ),
    Mutant(
        name="checksums-are-not-compared",
        breaks="bit rot is detected on every read",
        edits=edit(
            "model/content.py",
            '        raise NotTheContent("its checksum differs")\n',
            "        return\n",
        ),
        caught_by=("tests/unit/test_content.py",),
    ),
    Mutant(
        name="quarantine-replaces",
        breaks="what is put aside is never destroyed",
        edits=edit(
            "files/folders.py",
            '        place = f"{layout.QUARANTINE}/{self._ids.make()}"\n',
            '        place = f"{layout.QUARANTINE}/{self._ids.make()[:0]}aside"\n',
        ),
        caught_by=(_STEPS,),
    ),
    # Leases.
    Mutant(
        name="any-receipt-of-the-message-will-do",
        breaks="a receipt of an older lease touches nothing",
        edits=edit("engine/receipts.py", " or hidden.token != receipt.token", ""),
        caught_by=("tests/store/test_store_requests.py",),
    ),
    Mutant(
        name="memory-is-delivered-for-files-that-are-gone",
        breaks="what somebody took out of a batch folder by hand is not delivered",
        edits=(
            Edit(
                file="engine/delivery.py",
                old="for name, content in found.items() if name in there}",
                new="for name, content in found.items()}",
            ),
        ),
        caught_by=("tests/store/test_store_recent.py",),
    ),
    Mutant(
        name="a-lost-claim-is-returned",
        breaks="what somebody else has taken is not delivered",
        edits=(
            Edit(
                file="engine/leaser.py",
                old="            return None\n        root.index.hide(queue, hidden)\n"
                "        return hidden\n\n    def _lease_folder(",
                new="        root.index.hide(queue, hidden)\n"
                "        return hidden\n\n    def _lease_folder(",
            ),
            Edit(
                file="engine/delivery.py",
                old="            self._root.was_faster(path)\n"
                "            self._requeuer.forget(queue, hidden, name)\n"
                "            return None\n",
                new='            return Content(b"")\n',
            ),
        ),
        caught_by=("tests/store/test_store_faults.py",),
        ancestor=_MQ,
    ),
    Mutant(
        name="leases-end-with-the-wall-clock",
        breaks="a step of the clock neither expires nor freezes a lease",
        edits=edit(
            "engine/requeuer.py",
            "        now = root.clock.monotonic()\n"
            "        while (found := root.index.pop_due(now)) is not None:\n"
            "            queue, hidden = found\n",
            "        now = root.clock.wall()\n"
            "        while (found := root.index.pop_due(now)) is not None:\n"
            "            queue, hidden = found\n            if hidden.due > now:\n"
            "                root.index.reschedule(queue, hidden)\n                break\n",
        ),
        caught_by=(_RECOVERY,),
    ),
    # Deletes.
    Mutant(
        name="a-delete-that-finds-no-lease-does-nothing",
        breaks="a delete that has not deleted says so",
        edits=edit(
            "engine/remover.py",
            "                return receipts.find_lease(index, receipt)\n",
            "                try:\n                    return receipts.find_lease(index, receipt)\n"
            "                except StaleReceipt:\n                    return None\n",
        ),
        caught_by=("tests/store/test_store_requests.py",),
        ancestor=_VSQS,
    ),
    Mutant(
        name="delete-by-id-forgets-what-is-hidden",
        breaks="a message is deleted by its id in any state",
        edits=edit(
            "engine/remover.py",
            "        hidden = index.find_hidden(target.id)\n        if hidden is not None:\n",
            "        hidden = index.find_hidden(target.id)\n"
            "        if hidden is not None and hidden.token is not None:\n",
        ),
        caught_by=(_ENDS,),
    ),
    Mutant(
        name="purge-forgets-what-is-hidden",
        breaks="a purge takes leased and delayed messages, too",
        edits=edit(
            "engine/clearance.py",
            "        self._remove_hidden(queue, index)\n        if not knows_all:",
            "        if not knows_all:",
        ),
        caught_by=(_ENDS,),
    ),
    Mutant(
        name="a-change-that-was-refused-in-part-was-refused",
        breaks="an error says that nothing has happened, and of which message",
        edits=edit(
            "engine/leaser.py",
            "        return [names] if is_whole else [[name] for name in names]\n",
            "        return [names] if is_whole or visibility == 0 else [[name] for name in names]\n",
        ),
        caught_by=("tests/store/test_store_requests.py",),
    ),
    # Queues.
    Mutant(
        name="a-queue-made-again-finds-old-leases",
        breaks="what is in delay/ goes with its queue; one made again is empty",
        edits=edit(
            "engine/clearance.py",
            "            self._remove_hidden(queue, index)\n            if queue in",
            "            if queue in",
        ),
        caught_by=(_ENDS, _RECOVERY),
    ),
    Mutant(
        name="a-queue-is-made-again-too-early",
        breaks="create says retry until a deleted queue's messages are put away",
        edits=edit(
            "engine/catalog.py",
            "        if name in self.doomed:\n"
            "            raise QueueBeingDeleted(queue=name)\n"
            "        there =",
            "        there =",
        ),
        caught_by=(_ENDS,),
    ),
    Mutant(
        name="a-send-to-no-queue-is-stranded",
        breaks="a send to a queue that isn't there is refused",
        edits=(
            Edit(
                file="engine/sender.py",
                old="            except StoreError as error:\n                outcomes.append(error)\n",
                new="            except StoreError:\n"
                "                lost = Entry(id=self._root.ids.make(), size=0, crc=0)\n"
                "                path = layout.sent(request.queue, lost)\n"
                '                self._root.folders.write(path, [b""], sync=True)\n'
                "                sent = Sent(id=lost.id, sent_at=sent_at(lost.id))\n"
                "                outcomes.append([sent for _ in request.messages])\n",
            ),
        ),
        caught_by=(_ENDS,),
        ancestor=_MQ,
    ),
    Mutant(
        name="every-receive-lists-its-queue",
        breaks="a receive costs the same with one message waiting and with a million",
        edits=edit(
            "engine/leaser.py",
            "        visibility = visibility_of(request, live)\n",
            "        visibility = visibility_of(request, live)\n"
            "        self._root.folders.scan(layout.queue_folder(live.name))\n",
        ),
        caught_by=("tests/store/test_store_cost.py",),
        ancestor=_VSQS,
    ),
    Mutant(
        name="every-publish-lists-its-queue",
        breaks="a send costs the same with one message waiting and with a million",
        edits=edit(
            "engine/publisher.py",
            "        move, state, target = _way_of(written)\n",
            "        move, state, target = _way_of(written)\n"
            "        root.folders.scan(layout.queue_folder(queue))\n",
        ),
        caught_by=("tests/store/test_store_cost.py",),
        ancestor=_VSQS,
    ),
)
