"""Planted bugs that break no promise about messages: the store only asks too much of the disk, or works
through what it need not."""

from __future__ import annotations

from typing import Final

from tests.proof.mutants.mutant import Mutant, edit

_BUDGET: Final = (
    "tests/budget/test_budget.py::test_each_operation_asks_of_the_system_what_the_budget_says",
)
_GROUPS: Final = ("tests/store/test_group_costs.py",)
_CALLS: Final = ("tests/budget/test_calls.py",)

COST_MUTANTS: Final = (
    Mutant(
        name="a-send-syncs-once-more",
        breaks="a send waits for the disk no more often than its promise needs",
        edits=edit(
            "engine/sender.py:Sender.send",
            "self._room.refresh()",
            'self._room.refresh()\nself._moves.disk.sync_folder("new")',
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="each-file-is-renamed-once-more",
        breaks="a file is written under the name that it is found by",
        edits=edit(
            "engine/moves.py:Moves.make",
            "partial(self.disk.create, path, parts, sync=False)",
            'lambda: [self.disk.create(f"{path}+", parts, sync=False),'
            ' self.disk.rename_new(f"{path}+", path)][0]',
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="a-receive-lists-its-queue",
        breaks="no operation lists a folder",
        edits=edit(
            "engine/leaser.py:Leaser.check",
            "visibility = request.visibility",
            'self._moves.disk.scan(f"queues/{record.name}")\nvisibility = request.visibility',
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="each-body-is-looked-at-before-it-is-read",
        breaks="a message's attributes are asked for once",
        edits=edit(
            "files/local_disk.py:LocalDisk._open_file",
            "file = self._calls.open(",
            "self.facts(path)\nfile = self._calls.open(",
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="a-snapshot-looks-at-each-file",
        breaks="a snapshot asks for one link for each file",
        edits=edit(
            "files/hard_links.py:Links._add", "linked += 1", "linked += entry.stat().st_nlink > 0"
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="a-linked-body-is-not-synced",
        breaks="the content of a linked file is on stable media when its send is answered",
        edits=edit("files/local_disk.py:LocalDisk.link_from", "os.fsync(file)", "pass"),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="a-snapshot-is-not-synced",
        breaks="a snapshot is on stable media when it is answered",
        edits=edit(
            "files/hard_links.py:Links.finish",
            "if disk.can_sync_all:\n    disk.sync_all()\nelse:",
            "if not disk.can_sync_all:",
        ),
        caught_by=_BUDGET,
    ),
)
"""The budget of system calls finds them."""

STEP_MUTANTS: Final = (
    Mutant(
        name="a-change-offers-every-group",
        breaks="a receive costs no more with more groups",
        edits=edit(
            "engine/index.py:GroupOrder.change",
            "groups = entry.batch.groups",
            "for group in self._groups.values():\n    self._offer(group)\ngroups = entry.batch.groups",
        ),
        caught_by=_GROUPS,
    ),
    Mutant(
        name="a-blocked-group-has-turns",
        breaks="a receive costs no more with more blocked messages",
        edits=edit("engine/index.py:GroupOrder._offer", "if not offered:", "if not group.waiting:"),
        caught_by=_GROUPS,
    ),
    Mutant(
        name="a-group-keeps-its-turn",
        breaks="small groups wait no longer beside a large one",
        edits=edit(
            "engine/index.py:GroupOrder.runs",
            "taken += got\nself._turns.move_to_end(group)",
            "taken += got",
        ),
        caught_by=_GROUPS,
    ),
    Mutant(
        name="every-part-is-asked",
        breaks="a send asks nothing of parts that have nothing pending",
        edits=edit(
            "engine/engine.py:Engine.next_work",
            "compress(self._parts, map(any, self._pending))",
            "self._parts",
        ),
        caught_by=_CALLS,
    ),
    Mutant(
        name="a-poll-asks-the-parts-twice",
        breaks="a lone operation calls no more functions of the store than its ceiling",
        edits=edit(
            "committer.py:Committer._next_own_work",
            "waits, due = self._engine.next_work(now)",
            "waits, _ = self._engine.next_work(now)\n_, due = self._engine.next_work(now)",
        ),
        caught_by=_CALLS,
    ),
    Mutant(
        name="a-receive-waits-by-a-commit",
        breaks="a receive of a queue without ready messages takes no commit to wait",
        edits=edit("committer.py:Committer.poll_work", "self._park_idle()", "pass"),
        caught_by=_CALLS,
    ),
    Mutant(
        name="an-invalid-receive-waits",
        breaks="an invalid receive is refused, and doesn't wait for a message",
        edits=edit("engine/engine.py:Engine.has_nothing_for", "self._leaser.check(request)", "pass"),
        caught_by=_CALLS,
    ),
    Mutant(
        name="all-waits-end-in-one-commit",
        breaks="waits that end together are answered in slices",
        edits=edit(
            "committer.py:Committer.cycle",
            "for waiter in islice(late, ENDED_WAITS):",
            "for waiter in late:",
        ),
        caught_by=_CALLS,
    ),
    Mutant(
        name="a-look-searches-the-room-of-old-changes",
        breaks="a look at waiting receives costs the same after thousands of queues have changed",
        edits=edit(
            "parking.py:Parking.worth_a_try",
            "looked_at, self._hopeful = self._hopeful, {}",
            "looked_at = self._hopeful",
        )
        + edit(
            "parking.py:Parking.worth_a_try",
            "if most is None or most > 0:\n    self._hopeful[queue] = None",
            "if most is not None and most <= 0:\n    self._hopeful.pop(queue, None)",
        ),
        caught_by=("tests/store/test_store_waiting.py",),
    ),
)
"""The counts of executed lines, of crossed modules and of calls find them."""
