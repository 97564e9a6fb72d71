"""Planted bugs in what a reservation promises."""

from __future__ import annotations

from typing import Final

from mutant import Edit, Mutant, edit

_RESERVATIONS: Final = "tests/store/test_store_reservations.py"
_MARKS: Final = "tests/store/test_store_reservation_marks.py"
_CRASHES: Final = "tests/store/test_store_reservation_crashes.py"
_EVERY: Final = (
    "tests/crash/test_every_crash.py::test_no_operation_breaks_a_promise_wherever_the_process_dies"
)
_KNOWN: Final = "tests/crash/test_crashes.py::test_what_broke_a_promise_once_breaks_none_any_more"
_SHARED: Final = "tests/store/test_store_reservation_peers.py"

RESERVATION_MUTANTS: Final = (
    Mutant(
        name="a-manifest-after-the-answer",
        breaks="a reservation that was answered is found again after a crash",
        edits=edit(
            "engine/reserving/holdings.py",
            "        self._write(layout.reserved(name), manifest.encode(), urgent=False)\n",
            "        self._root.after_sync.append(\n"
            "            lambda: self._write(layout.reserved(name), manifest.encode(), urgent=False)\n"
            "        )\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-reserve-half-durable-is-believed",
        breaks="a set of which nobody was told is there whole after a crash, or not at all",
        edits=edit(
            "engine/reserving/upkeep.py",
            "        elif leases.have_slipped(held.manifest):\n            if held.due > wall:",
            "        elif False:\n            if held.due > wall:",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-commit-is-not-finished",
        breaks="a stream that is committed has no messages left, wherever the process died",
        edits=edit(
            "engine/reserving/upkeep.py",
            "        self._finish_found()\n        self._undo_all_unnamed()\n",
            "        self._undo_all_unnamed()\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-marker-after-the-sync",
        breaks="how far a stream is committed is durable when it is answered",
        edits=edit(
            "engine/reserving/holdings.py",
            "        self._write(path, marker.encode(), urgent=True)\n",
            "        self._root.after_sync.append(\n"
            "            lambda: self._write(path, marker.encode(), urgent=True)\n"
            "        )\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-set-is-deleted-before-its-commit-is-durable",
        breaks="of a set that is told to be lost, nothing was deleted",
        edits=edit(
            "engine/reserving/upkeep.py",
            "            self._root.after_sync.append(finish)\n",
            "            finish()\n",
        ),
        caught_by=(_EVERY, _KNOWN),
    ),
    Mutant(
        name="a-start-believes-a-commit-that-may-not-be-durable",
        breaks="of a set that is told to be lost, nothing was deleted, however often the process died",
        edits=edit(
            "engine/reserving/upkeep.py",
            "            self._root.folders.settle(layout.RESERVED)\n            self._unfinished |=",
            "            self._unfinished |=",
        ),
        caught_by=(_KNOWN,),
    ),
    Mutant(
        name="what-another-has-finished-is-finished-again",
        breaks="a commit that two processes finish at once stops neither",
        edits=edit(
            "engine/reserving/set_leases.py",
            "                if not self._is_known(queue, hidden):\n                    continue\n",
            "",
        ),
        caught_by=("tests/crash/test_shared_known.py",),
    ),
    Mutant(
        name="a-confirmation-takes-the-mark-of-a-read",
        breaks="a set that was marked as read stays so as long as it is held",
        edits=edit(
            "engine/reserving/holdings.py",
            "replace(held.name, due=due, is_lost=False)",
            "replace(held.name, due=due, is_lost=False, is_read=False)",
        ),
        caught_by=(_MARKS, _EVERY),
    ),
    Mutant(
        name="a-mark-is-in-memory-alone",
        breaks="a set that was marked as read is so after a crash",
        edits=edit(
            "engine/reserving/holdings.py",
            "        return self._rename(held, replace(held.name, is_read=True), held.ends)\n",
            "        held.name = replace(held.name, is_read=True)\n        return True\n",
        ),
        caught_by=(_MARKS,),
    ),
    Mutant(
        name="an-unread-set-is-deleted",
        breaks="a commit that asks for it deletes no set that was never read",
        edits=edit(
            "engine/reserving/reservations.py",
            "                if request.only_read:\n                    _refuse_unread(done)\n",
            "",
        ),
        caught_by=(_MARKS,),
    ),
    Mutant(
        name="a-lost-set-is-held-again",
        breaks="a set that is lost is never held again",
        edits=edit(
            "engine/reserving/holdings.py",
            "        return self.name.is_lost or self.ends <= now",
            "        return self.ends <= now",
        ),
        caught_by=(_RESERVATIONS, _EVERY),
    ),
    Mutant(
        name="a-hold-that-is-over-is-not-noted",
        breaks="a set that is lost is not held again after a start, whatever the clock says",
        edits=edit(
            "engine/reserving/upkeep.py",
            "                self._holdings.lose(held)\n        self._settle()\n",
            "                held.name = held.name\n",
        ),
        caught_by=(_RESERVATIONS,),
    ),
    Mutant(
        name="a-confirmation-of-the-manifest-alone",
        breaks="a manifest never promises longer than its leases hold",
        edits=edit(
            "engine/reserving/reservations.py",
            "                self._leases.end_at(held.manifest, due, ends)\n"
            "                self._end_at",
            "                self._end_at",
        ),
        caught_by=(_RESERVATIONS, _EVERY),
    ),
    Mutant(
        name="a-refused-confirmation-shortens-the-hold",
        breaks="what was refused has changed nothing that its caller relies on",
        edits=edit(
            "engine/reserving/reservations.py",
            'log.warning("%s ends sooner, and not all leases with it: %s", held.name, error)',
            "raise",
        ),
        caught_by=("tests/crash/test_crashes.py",),
    ),
    Mutant(
        name="half-a-confirmation-is-believed",
        breaks="after a crash a manifest promises no longer than its leases hold",
        edits=(
            Edit(
                file="engine/reserving/upkeep.py",
                old="            due = min(held.due, *dues) if dues else held.due\n",
                new="            due = max(held.due, *dues) if dues else held.due\n",
            ),
            Edit(
                file="engine/reserving/upkeep.py",
                old="            leases.end_at(held.manifest, due, ends)\n",
                new="",
            ),
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-release-before-it-is-durable",
        breaks="a message that others may have is never shown as held, wherever the process died",
        edits=edit(
            "engine/reserving/upkeep.py",
            "        self._root.after_sync.append(partial(self._leases.give_back, held.manifest,"
            " undo=False))\n",
            "        self._leases.give_back(held.manifest, undo=False)\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-commit-deletes-what-is-lost",
        breaks="a commit leaves the messages of lost sets alone",
        edits=edit(
            "engine/reserving/reservations.py",
            "                done = [held for held in mine if held not in lost]",
            "                done = mine",
        ),
        caught_by=(_RESERVATIONS,),
    ),
    Mutant(
        name="a-refused-reservation-keeps-its-leases",
        breaks="a reservation that fails has leased nothing",
        edits=edit(
            "engine/reserving/reservations.py",
            "            self._leases.give_back(manifest, undo=True)\n",
            "",
        ),
        caught_by=(_RESERVATIONS,),
    ),
    Mutant(
        name="a-lease-that-no-set-names-waits-until-it-is-due",
        breaks="what was leased for a reservation that nobody was told of is ready after a start",
        edits=edit(
            "engine/reserving/upkeep.py",
            "        self._undo_all_unnamed()\n        self._knows_all = True\n",
            "        self._next_undo = None\n        self._knows_all = True\n",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="nobody-undoes-what-the-dead-have-leased",
        breaks="what a process that died has leased for a set never made, the others give back",
        edits=edit("engine/succession.py", "            self._died()\n", ""),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="a-set-that-is-being-made-is-undone",
        breaks="a set that somebody is just making isn't taken for what the dead have left",
        edits=edit(
            "engine/reserving/upkeep.py",
            "                if are_out:\n                    self._undo",
            "                if True:\n                    self._undo",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="what-cannot-be-read-names-nothing",
        breaks="leases of a set whose manifest can't be read for now stay",
        edits=edit("engine/reserving/upkeep.py", "if holdings.unread:", "if False:"),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="a-lost-set-is-forgotten-with-its-leases",
        breaks="leases of a lost set are counted",
        edits=edit(
            "engine/reserving/upkeep.py",
            "[held for held in lost if self._leases.have_left(held.manifest)]",
            "list(lost)",
        ),
        caught_by=(_CRASHES,),
    ),
    Mutant(
        name="the-others-sets-are-not-looked-at",
        breaks="what one process has reserved another one knows",
        edits=edit(
            "engine/reserving/upkeep.py",
            "        return self._root.folders.is_contended or not known",
            "        return not known",
        )
        + edit(
            "engine/reserving/upkeep.py",
            "        self._knows_all = not self._root.folders.is_contended",
            "        self._knows_all = True",
        ),
        caught_by=(_SHARED,),
    ),
    Mutant(
        name="a-read-leaves-out-what-is-not-put-aside",
        breaks="a reader commits no message that it could have been given",
        edits=edit(
            "rereading.py",
            "id=sight.entry.id, why=why)).result()",
            "id=sight.entry.id, why=why))",
        ),
        caught_by=("tests/store/test_store_reservation_reads.py",),
    ),
)
