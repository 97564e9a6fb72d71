"""Planted bugs that break no promise about messages: the store only asks too much of the disk."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_BUDGET: Final = (
    "tests/budget/test_budget.py::test_each_operation_asks_of_the_system_what_the_budget_says",
)

COST_MUTANTS: Final = (
    Mutant(
        name="a-send-syncs-once-more",
        breaks="a send waits for the disk no more often than its promise needs",
        edits=edit(
            "engine/sender.py",
            "        self._space = None\n        try:",
            "        self._space = None\n        self._root.disk.sync_folder(layout.NEW)\n        try:",
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="each-message-is-renamed-once-more",
        breaks="messages that are sent together are published by one rename",
        edits=edit(
            "files/folders.py",
            "lambda: self._disk.create(path, parts, sync=sync)",
            'lambda: [self._disk.create(f"{path}+", parts, sync=sync), '
            'self._disk.rename(f"{path}+", path)][0]',
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="a-receive-lists-its-queue",
        breaks="no operation lists a folder",
        edits=edit(
            "engine/leaser.py",
            '        """Lease what is next; empty if nothing is ready, or no credit is free."""\n',
            '        """Lease what is next."""\n'
            "        self._root.disk.scan(layout.folder_of(layout.ready(request.queue, None)))\n",
        ),
        caught_by=_BUDGET,
    ),
    Mutant(
        name="each-body-is-looked-at-before-it-is-read",
        breaks="a message's attributes are asked for once",
        edits=edit(
            "files/disk.py",
            '        """A regular file\'s descriptor and size."""\n',
            '        """A regular file\'s descriptor and size."""\n        self.facts(path)\n',
        ),
        caught_by=_BUDGET,
    ),
)
