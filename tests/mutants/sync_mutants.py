"""Planted bugs in what is made durable, and in what waits for that."""

from __future__ import annotations

from typing import Final

from mutant import AUDIT, Edit, Mutant, edit

_STEPS: Final = "tests/store/test_store_order_of_steps.py"
_MQ: Final = "softlayer/mq"
_BOTH: Final = "softlayer/mq and vsqs"

SYNC_MUTANTS: Final = (
    Mutant(
        name="sources-are-not-synced",
        breaks="a move is durable only when the folder that it led out of is synced",
        edits=edit(
            "files/folders.py",
            "        self._syncer.folder_changed(layout.folder_of(source))\n"
            "        self._syncer.folder_changed(layout.folder_of(target))\n",
            "        self._syncer.folder_changed(layout.folder_of(target))\n",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="targets-are-not-synced",
        breaks="a move is durable only when the folder that it led to is synced",
        edits=edit(
            "files/folders.py",
            "        self._syncer.folder_changed(layout.folder_of(source))\n"
            "        self._syncer.folder_changed(layout.folder_of(target))\n",
            "        self._syncer.folder_changed(layout.folder_of(source))\n",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="no-folder-is-ever-synced",
        breaks="what is acknowledged is found by its name after power loss",
        edits=edit(
            "files/syncer.py",
            "                self._sync_path(folder, self._disk.sync_folder)\n",
            "                pass\n",
        ),
        caught_by=("tests/store/test_store_failure.py", AUDIT),
        ancestor=_BOTH,
    ),
    Mutant(
        name="new-files-are-not-synced",
        breaks="a send's success means that its bodies are on stable media",
        edits=edit(
            "files/folders.py",
            "        else:\n            self._syncer.file_written()\n",
            "",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="new-names-are-not-synced",
        breaks="a send's success means that the folder entry is on stable media",
        edits=edit(
            "files/folders.py",
            "        self._syncer.folder_changed(layout.folder_of(path))\n        if is_lone:\n",
            "        if is_lone:\n",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="answers-before-the-sync",
        breaks="success is answered after the commit is on stable media",
        edits=edit(
            "engine/engine.py",
            "        if work.commit is not None:\n            work.commit.sync()",
            "        return",
        ),
        caught_by=("tests/store/test_store_faults.py", AUDIT),
    ),
    Mutant(
        name="all-leases-are-relaxed",
        breaks="a strict receive, extension or release is durable when it is answered",
        edits=edit(
            "engine/promised.py",
            "        return live is not None and not live.settings.relaxed_leases",
            "        return False",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="a-failed-sync-is-swallowed",
        breaks="a sync that fails is never called a success",
        edits=edit(
            "files/syncer.py",
            "            raise SyncFailed(str(error)) from error",
            "            del error",
        ),
        caught_by=("tests/store/test_store_failure.py",),
        ancestor=_MQ,
    ),
    Mutant(
        name="a-failed-sync-is-repeated",
        breaks="after a failed sync a second one that succeeds proves nothing",
        edits=edit(
            "files/syncer.py",
            "            raise SyncFailed(str(error)) from error",
            "            self._disk.sync_all()",
        ),
        caught_by=("tests/store/test_store_failure.py", "tests/store/test_store_faults.py"),
    ),
    Mutant(
        name="a-failed-store-takes-more",
        breaks="after a failed sync the store refuses everything until a restart",
        edits=edit(
            "committer.py",
            "        if self._failure is not None:\n            return self._failure\n"
            "        if self._stopped",
            "        if self._stopped",
        ),
        caught_by=("tests/store/test_store_failure.py",),
    ),
    Mutant(
        name="published-before-the-sync",
        breaks="a message is moved into its queue only when it is durable",
        edits=edit(
            "engine/sender.py",
            "        self._root.after_sync.append(lambda: self._entered(group, written))",
            "        self._entered(group, written)",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="a-folder-goes-with-what-left-it",
        breaks="no batch moves to remove/ before every move out of it is durable",
        edits=edit(
            "files/folders.py",
            "        if is_folder and target_state is State.REMOVED:\n"
            "            self.settle(source)\n",
            "",
        ),
        caught_by=("tests/store/test_store_batches.py",),
    ),
    Mutant(
        name="an-emptied-folder-goes-at-once",
        breaks="no batch folder is removed before every move out of it is durable",
        edits=edit(
            "files/folders.py",
            "        self.settle(path)\n        try:\n            self._disk.remove_folder(path)",
            "        try:\n            self._disk.remove_folder(path)",
        ),
        caught_by=(_STEPS,),
    ),
    Mutant(
        name="entries-leave-an-unsettled-batch",
        breaks="nothing leaves a batch before it has durably left new/",
        edits=edit(
            "files/folders.py",
            "        self._syncer.settle_publication(layout.folder_of(source))\n",
            "",
        ),
        caught_by=("tests/store/test_store_batches.py",),
    ),
    Mutant(
        name="emptied-before-the-tombstone-is-durable",
        breaks="the tombstone is the commit point of a queue's end",
        edits=edit(
            "engine/queue_turns.py",
            "        self._root.after_sync.append(lambda: self.empty(request.name))",
            "        self.empty(request.name)",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="old-settings-go-at-once",
        breaks="an older version of the settings goes when the newer is durable",
        edits=edit(
            "engine/catalog.py",
            "        self._root.after_sync.append(drop)\n",
            "        drop()\n",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="dead-letters-without-a-durable-history",
        breaks="a dead letter's history is durable before the message moves",
        edits=edit(
            "engine/letters.py",
            "        root.after_sync.append(lambda: self._move("
            "live.name, alone, str(entry), target_queue, buried))",
            "        self._move(live.name, alone, str(entry), target_queue, buried)",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="unlinked-before-the-delete-is-durable",
        breaks="the reaper unlinks only what is durably in remove/",
        edits=(
            Edit(
                file="engine/engine.py",
                old="        removed = root.folders.take_removed()\n",
                new="        removed = root.folders.take_removed()\n"
                "        self.reaper.give(removed)\n",
            ),
            Edit(
                file="engine/engine.py",
                old="        self.reaper.give(work.removed)\n",
                new="",
            ),
        ),
        caught_by=(_STEPS, AUDIT),
    ),
    Mutant(
        name="adopted-without-a-sync",
        breaks="from its adoption on the promises hold for a file that was moved in by hand",
        edits=edit("engine/adoption.py", "            self._sync(path)\n", ""),
        caught_by=(_STEPS, "tests/store/test_store_adoption.py"),
    ),
    Mutant(
        name="a-restart-trusts-what-it-reads",
        breaks="what a killed process did is made durable before anything is built on it",
        edits=edit("engine/engine.py", "        self._root.everything_changed()\n", ""),
        caught_by=(_STEPS,),
    ),
    Mutant(
        name="bodies-are-written-twice",
        breaks="a file is written once and unlinked once",
        edits=edit(
            "files/disk.py",
            "                for part in parts:\n"
            "                    self._calls.write_all(file, part)\n",
            "                for _ in range(2):\n                    os.lseek(file, 0, os.SEEK_SET)\n"
            "                    for part in parts:\n"
            "                        self._calls.write_all(file, part)\n",
        ),
        caught_by=(AUDIT,),
    ),
    Mutant(
        name="files-are-replaced",
        breaks="nothing is replaced by accident",
        edits=edit("files/disk.py", "os.O_CREAT | os.O_EXCL |", "os.O_CREAT | os.O_TRUNC |"),
        caught_by=(AUDIT,),
    ),
)
