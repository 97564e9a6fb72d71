"""Planted bugs in what becomes of what can't be listed, and of what is no folder."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_UNLISTABLE: Final = "tests/store/test_store_unlistable.py"
_STARTS: Final = "tests/store/test_store_unlistable_starts.py"

UNLISTABLE_MUTANTS: Final = (
    Mutant(
        name="what-is-no-folder-is-waited-for",
        breaks="what has the name of a batch and is none costs nothing",
        edits=edit(
            "engine/beliefs.py",
            "            if self._root.folders.is_folder(path):\n",
            "            if path:\n",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="what-is-no-folder-is-found-again-and-again",
        breaks="what has the name of a batch and is none is not counted",
        edits=edit(
            "engine/peers.py",
            "            if found.kind is Kind.FOLDER or not is_of_batch(found.name):\n",
            "            if found.kind is Kind.FOLDER or found.name:\n",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="one-batch-stands-in-the-way-of-all-news",
        breaks="a batch that can't be listed holds nobody up",
        edits=edit(
            "engine/beliefs.py",
            "            except StoreError as error:\n"
            "                # It must not stand in the way of the others.\n",
            "            except NotAName as error:\n",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="a-known-batch-stands-in-the-way-of-all-news",
        breaks="a batch that can't be listed any more holds nobody up",
        edits=edit(
            "engine/contents.py",
            "            return {found.name for found in self._root.folders.scan(path)}\n"
            "        except StoreError as error:\n",
            "            return {found.name for found in self._root.folders.scan(path)}\n"
            "        except AssertionError as error:\n",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="a-set-is-committed-without-what-can-not-be-listed",
        breaks="what a commit was acknowledged for is never delivered again",
        edits=edit(
            "engine/reserving/set_leases.py",
            "        self._require_known(manifest, ids)\n",
            "",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="a-commit-ends-without-what-can-not-be-listed",
        breaks="what of a committed set is left is deleted, whoever finishes it",
        edits=edit(
            "engine/reserving/set_leases.py",
            "        self._require_known(manifest, manifest.ids)\n",
            "",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="news-that-were-missed-do-not-matter-to-a-set",
        breaks="a set is committed only where all of its leases are known",
        edits=edit(
            "engine/peers.py",
            '        if self._has_missed:\n            raise DiskError(detail=f"what others',
            '        if not queue:\n            raise DiskError(detail=f"what others',
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="what-can-not-be-listed-is-undone-already",
        breaks="leases of a set that was never made are undone",
        edits=edit(
            "engine/reserving/set_leases.py",
            "            is_done &= not any(map(is_unnamed, index.unlisted()))\n",
            "",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="a-lost-set-is-forgotten-with-what-can-not-be-listed",
        breaks="leases of a lost set are counted",
        edits=edit(
            "engine/reserving/set_leases.py",
            "        return not self.of(manifest) and not self._unlisted(manifest)\n",
            "        return not self.of(manifest)\n",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="what-a-start-could-not-list-is-taken-for-gone",
        breaks="no delete succeeds for a message that is there",
        edits=edit(
            "engine/recovery.py",
            "            self._root.unread.add(layout.queue_of(path))\n",
            "",
        ),
        caught_by=(_STARTS,),
    ),
    Mutant(
        name="a-delete-does-not-ask-what-the-start-could-read",
        breaks="no delete succeeds for a message that is there",
        edits=edit(
            "engine/remover.py",
            "        if self._root.is_shared or self._root.unread:\n",
            "        if self._root.is_shared:\n",
        ),
        caught_by=(_STARTS,),
    ),
    Mutant(
        name="what-a-start-could-not-list-is-never-known",
        breaks="who has looked at everything refuses nothing for what a start could not read",
        edits=edit("engine/peers.py", "        self._root.unread.clear()\n", ""),
        caught_by=(_STARTS,),
    ),
    Mutant(
        name="a-purge-leaves-a-ready-batch-that-can-not-be-listed",
        breaks="what was there before a purge is never delivered after it",
        edits=edit(
            "engine/clearance.py",
            "        is_empty = knows_all and not index.ready.count\n",
            "        is_empty = not index.ready.count\n",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="a-purge-beside-others-takes-what-it-could-not-list-for-gone",
        breaks="what was there before a purge is never delivered after it",
        edits=edit(
            "engine/queue_turns.py",
            "        has_unread = queue in self._root.unread or ",
            "        has_unread = queue in self._root.unread\n        assert queue or ",
        ),
        caught_by=(_UNLISTABLE,),
    ),
    Mutant(
        name="a-queue-leaves-its-leases-that-can-not-be-listed",
        breaks="a queue that is deleted and made again is empty",
        edits=edit(
            "engine/clearance.py",
            "            if queue in root.unread:\n                self._sweep(queue)\n",
            "",
        ),
        caught_by=(_STARTS,),
    ),
    Mutant(
        name="a-purge-leaves-what-the-dead-had-sent-and-nobody-can-list",
        breaks="what was there before a purge is never delivered after it",
        edits=edit(
            "engine/clearance.py",
            "        self._remove_stranded(queue)\n",
            "",
        ),
        caught_by=(_UNLISTABLE,),
    ),
)
