"""Planted bugs in what is leased by the commit that sends it."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_AWAITED: Final = "tests/store/test_store_awaited.py"
_ENDS: Final = "tests/store/test_store_awaited_ends.py"
_CRASHES: Final = "tests/crash/test_awaited_crashes.py"

AWAITED_MUTANTS: Final = (
    Mutant(
        name="what-is-leased-at-once-is-not-synced",
        breaks="a message that somebody waited for is on stable media before anybody has it",
        edits=edit(
            "files/folders.py",
            "            self._syncer.lone_file_written(path)\n",
            "            pass\n",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="a-lone-file-is-synced-where-it-no-longer-is",
        breaks="a receive that waits is answered with the syncs of the send",
        edits=edit(
            "files/folders.py",
            "            self._syncer.file_moved(source, target)\n",
            "            pass\n",
        ),
        caught_by=(_AWAITED,),
    ),
    Mutant(
        name="a-lone-file-waits-where-others-cannot-sync-it",
        breaks="a repetition is answered when the first message is on stable media, whoever wrote it",
        edits=edit("files/folders.py", "        is_lone = is_lone and self._disk.can_sync_all\n", ""),
        caught_by=("tests/crash/test_shared_known.py",),
    ),
    Mutant(
        name="a-lease-in-new-is-not-synced",
        breaks="a receive is answered when its lease is on stable media, also where that is in new/",
        edits=edit(
            "engine/arrivals.py",
            "            if not root.folders.move(\n                Move.ASSIGN,\n"
            "                State.SENT,\n                written.path,\n"
            "                State.SENT,\n                target,\n"
            "                is_folder=written.is_folder,\n            ):\n"
            "                return False\n",
            "            path = written.path\n"
            "            root.after_sync.insert(0, lambda: root.disk.rename(path, target))\n",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="an-heir-forgets-the-token",
        breaks="a receipt of what was leased by the commit that sent it is good after a restart",
        edits=edit(
            "engine/heir.py",
            "        if filed.token is not None:\n            written.lease",
            "        if filed.token is None and filed.due is not None:\n            written.lease",
        ),
        caught_by=(_ENDS,),
    ),
    Mutant(
        name="an-heir-ends-leases-by-its-own-clock",
        breaks="a lease that another's clock has begun is not ended before that clock would do so",
        edits=edit("engine/heir.py", "            left += MARGIN  #", "            left += 0  #"),
        caught_by=(_ENDS,),
    ),
    Mutant(
        name="a-lease-that-could-not-be-made-good-is-answered",
        breaks="nobody has a receipt that leads nowhere",
        edits=edit(
            "engine/publisher.py", "            written.give_up_lease()\n", "            pass\n"
        ),
        caught_by=(_ENDS,),
    ),
    Mutant(
        name="a-lease-at-once-is-not-counted",
        breaks="each receive of a message counts, and too many make a dead letter",
        edits=edit(
            "engine/arrivals.py",
            "            lease = terms.lease(str(leased(written.item, now)))\n",
            "            lease = terms.lease(str(written.item))\n",
        ),
        caught_by=(_AWAITED,),
    ),
    Mutant(
        name="a-credit-is-spent-twice",
        breaks="a consumer never holds more messages than its credits allow",
        edits=edit(
            "engine/arrivals.py",
            "            lease.credits.charge(len(written.names))\n",
            "            pass\n",
        ),
        caught_by=(_AWAITED,),
    ),
    Mutant(
        name="what-is-just-sent-overtakes-what-is-ready",
        breaks="messages come in the order in which they were sent",
        edits=edit(
            "engine/arrivals.py",
            "        if queue not in self._written or self._root.index.queues[queue].ready.count:\n",
            "        if queue not in self._written:\n",
        ),
        caught_by=(_AWAITED,),
    ),
    Mutant(
        name="whoever-has-more-room-overtakes",
        breaks="receives that wait are served in the order in which they came",
        edits=edit(
            "engine/arrivals.py",
            "                written.clear()\n                return\n",
            "                return\n",
        ),
        caught_by=(_AWAITED,),
    ),
    Mutant(
        name="a-delay-is-cut-short-by-who-waits",
        breaks="a message with a delay is delivered when it is over",
        edits=edit(
            "engine/arrivals.py", "        if written.due is None and written", "        if written"
        ),
        caught_by=(_AWAITED,),
    ),
    Mutant(
        name="nobody-who-waits-is-asked",
        breaks="a receive that waits is answered with the syncs of the send",
        edits=edit(
            "parking.py",
            "                sent[request.queue] += len(request.messages)\n",
            "                pass\n",
        ),
        caught_by=(_AWAITED,),
    ),
    Mutant(
        name="what-is-leased-while-it-is-looked-for-is-missed",
        breaks="a deduplication id is stored once, whoever dies over it",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "            return None if renamed is None else self._reads_whole(renamed)\n",
            "            return renamed is None\n",
        ),
        caught_by=(_ENDS,),
    ),
)
