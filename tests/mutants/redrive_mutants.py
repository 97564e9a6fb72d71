"""Planted bugs in dead letters and redrives."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_DRIVE: Final = "engine/redriving/drive.py"
_CRASHES: Final = "tests/crash/test_redrive_crashes.py"
_REDRIVE: Final = "tests/store/test_redrive.py"
_ENDS: Final = "tests/store/test_redrive_ends.py"
_CUTS: Final = "tests/crash/test_redrive_cuts.py"
_RESTARTS: Final = "tests/store/test_redrive_restarts.py"

REDRIVE_MUTANTS: Final = (
    Mutant(
        name="who-died-unheard-has-begun-no-redrive",
        breaks="a redrive that was answered is found by any process",
        edits=edit(
            "engine/redriving/redriving.py",
            "            self._redrives.forget()\n            kept = ",
            "            kept = ",
        ),
        caught_by=("tests/store/test_redrive_peers.py",),
    ),
    Mutant(
        name="redrives-move-before-the-history-is-durable",
        breaks="a dead letter goes back only when the history that it takes along is durable",
        edits=edit(
            _DRIVE,
            "            root.after_sync.append(partial(self._move, picks))\n",
            "            self._move(picks)\n",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="redriven-in-two-queues-after-a-power-cut",
        breaks="after any crash a message is in exactly one of the two queues",
        edits=edit(
            "engine/redriving/redriving.py",
            "        drop_doubles(self._root, self._redrives.every().values())\n",
            "",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="a-cancelled-redrive-moves-on",
        breaks="a redrive that was cancelled moves nothing more",
        edits=edit(
            _DRIVE,
            "                if self.is_over or not self._redrives.is_there(self.kept):\n",
            "                if not picks:\n",
        ),
        caught_by=(_ENDS,),
    ),
    Mutant(
        name="a-deleted-queue-is-redriven",
        breaks="what was deleted with its queue never comes back",
        edits=edit(
            _DRIVE,
            "        is_there = live is not None and live.created_at == order.queue_created_at\n",
            "        is_there = live is None or live.created_at == order.queue_created_at\n",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="dead-letters-go-round-in-circles",
        breaks="a redrive moves a message once",
        edits=edit(
            "engine/redriving/selection.py",
            "        if order.started_at < since <= self._root.clock.wall():\n",
            "        if not chapters and order.started_at < since <= self._root.clock.wall():\n",
        ),
        caught_by=(_REDRIVE,),
    ),
    Mutant(
        name="a-restart-forgets-redrives",
        breaks="a redrive goes on after a restart",
        edits=edit(
            "engine/redriving/redriving.py",
            "            if drive is None and root.chores.ticks and not self._is_driven(owner):\n",
            "            if drive is None and root.chores.ticks and owner is None:\n",
        ),
        caught_by=(_RESTARTS,),
    ),
    Mutant(
        name="a-redrive-ends-before-its-moves-are-durable",
        breaks="a redrive without an owner has no moves that a power cut may undo",
        edits=edit(_DRIVE, "        if self._under_way:\n            return\n", ""),
        caught_by=(_CUTS,),
    ),
    Mutant(
        name="a-history-that-is-there-is-taken-for-durable",
        breaks="a dead letter moves to its queue only when its history is durable",
        edits=edit(
            "engine/histories.py",
            "        self._root.syncer.lone_file_written(path)\n",
            "",
        ),
        caught_by=("tests/crash/test_crashes.py",),
    ),
    Mutant(
        name="who-is-alone-again-trusts-an-old-look-at-redrives",
        breaks="a redrive that one begins, and dies, is known to those that stay",
        edits=edit(
            "engine/redriving/redrives.py",
            "self._must_look = self._root.is_shared  # Others may begin one at any time.\n",
            "self._must_look = False\n",
        ),
        caught_by=("tests/crash/test_shared_known.py",),
    ),
    Mutant(
        name="an-older-history-takes-the-new-one-with-it",
        breaks="a message that is taken back keeps the history of its deaths",
        edits=edit(
            "engine/letters.py",
            "        if self._chapters(queue, id) == older:\n",
            "        if older is not None:\n",
        ),
        caught_by=("tests/crash/test_crashes.py",),
    ),
)
