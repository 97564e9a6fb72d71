"""Planted bugs in what stages and publications promise."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_STAGES: Final = "tests/store/test_store_stages.py"
_ENDS: Final = "tests/store/test_store_stages_ends.py"
_RECOVERY: Final = "tests/store/test_store_stages_recovery.py"
_EVERY: Final = (
    "tests/crash/test_every_crash.py::test_no_operation_breaks_a_promise_wherever_the_process_dies"
)
_SHARED: Final = "tests/crash/test_shared_stages.py"

STAGING_MUTANTS: Final = (
    Mutant(
        name="a-start-believes-what-memory-shows-of-a-chunk",
        breaks="what a start takes for whole is what the disk has, also after a sync that failed",
        edits=edit(
            "engine/staging/stages.py",
            "parse_entry(name), afresh=True)",
            "parse_entry(name))",
        ),
        caught_by=("tests/crash/test_crashes.py",),
    ),
    Mutant(
        name="the-manifest-is-written-before-the-stages-are-claimed",
        breaks="a publication that is refused has published nothing",
        edits=edit(
            "engine/staging/publications.py",
            "            self._require_room(draft)\n",
            "            self.manifests.write(draft.name, self._manifest(draft, request.memory))\n"
            "            self._require_room(draft)\n"
            "            self.manifests.drop(draft.name)\n",
        ),
        caught_by=(_STAGES, _EVERY),
    ),
    Mutant(
        name="what-was-published-is-not-moved-by-a-start",
        breaks="what is published is moved to its queues, whoever died over it",
        edits=edit(
            "engine/staging/recovery.py",
            "        self._publications.redo(unfinished)\n",
            "        assert unfinished is not None\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-claim-without-a-manifest-is-left-alone",
        breaks="a stage whose publication came to nothing can be published again",
        edits=edit(
            "engine/staging/recovery.py",
            "                self._root.folders.shift(path, layout.staged(folder))\n",
            "                assert path\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-stage-that-a-manifest-names-is-left-staged",
        breaks="a manifest publishes also what it had claimed and a crash has given back",
        edits=edit(
            "engine/staging/recovery.py",
            "            if by is not None:\n",
            "            if by is not None and folder.is_dropped:\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="a-torn-manifest-is-believed",
        breaks="a manifest that isn't whole publishes nothing, and remembers nothing",
        edits=edit(
            "engine/staging/manifests.py",
            "        except NotWhole as error:\n"
            '            self._root.folders.quarantine(path, f"no manifest: {error}")\n'
            "            return None\n",
            "        except NotWhole:\n"
            "            return Manifest(\n"
            "                stages={}, queues={}, messages=0, digest='', memory=10**10,\n"
            "                published_at=self._root.clock.wall(),\n"
            "            )\n",
        ),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="an-epoch-with-other-messages-counts-as-done",
        breaks="an epoch that was published with other messages is refused",
        edits=edit(
            "engine/staging/publications.py",
            "        if digest and request.digest and digest != request.digest:\n",
            "        if False:\n",
        ),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="a-digest-is-forgotten-by-a-start",
        breaks="the digest of an epoch is remembered as long as the epoch",
        edits=edit(
            "model/manifest.py",
            '            digest=str(parts["digest"]),\n',
            '            digest="",\n',
        ),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="a-chunk-is-stored-as-often-as-it-comes",
        breaks="a chunk that is there already is not stored again",
        edits=edit(
            "engine/staging/stager.py",
            "        if there is None:\n            self._write(held, request)\n",
            "        if there is None or request.chunk:\n            self._write(held, request)\n",
        ),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="an-older-epoch-is-published-again",
        breaks="an epoch that is not above the writer's last publishes nothing",
        edits=edit(
            "engine/staging/publications.py",
            "            if last is not None and request.epoch <= last:\n",
            "            if last is not None and request.epoch == last:\n",
        ),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="an-expired-stage-is-emptied-while-it-can-be-published",
        breaks="a stage is published whole, or dropped whole",
        edits=edit(
            "engine/staging/stages.py",
            "        self.leave(held)\n"
            "        self._ends.pop(held.folder, None)\n"
            "        self._root.after_sync.append(partial(self.empty, target))\n",
            "        self.leave(held)\n"
            "        self._ends.pop(held.folder, None)\n"
            "        self.empty(target)\n",
        ),
        caught_by=(_EVERY, _SHARED),
    ),
    Mutant(
        name="a-torn-chunk-is-kept",
        breaks="a chunk is stored whole or not at all",
        edits=edit(
            "engine/staging/stages.py",
            "            if chunk.number not in held.chunks and self.is_whole(held.path, chunk):\n",
            "            if chunk.number not in held.chunks:\n",
        ),
        caught_by=(_EVERY,),
    ),
    Mutant(
        name="the-memory-of-an-epoch-goes-before-its-moves-are-durable",
        breaks="a claim that a crash brings back finds its manifest",
        edits=edit(
            "engine/staging/publications.py",
            "        self._root.after_sync.append(partial(self._drop_all, names))\n",
            "        self._drop_all(names)\n",
        ),
        caught_by=(_ENDS, _EVERY, _SHARED),
    ),
    Mutant(
        name="what-others-staged-is-published-undurable",
        breaks="a manifest is written only once all that it publishes is durable",
        edits=edit(
            "engine/staging/publications.py",
            "            must_sync = self._root.folders.is_contended\n",
            "            must_sync = False\n",
        ),
        caught_by=(_SHARED,),
    ),
    Mutant(
        name="a-manifest-names-queues-that-a-crash-takes",
        breaks="a manifest is written only once all that it publishes to is durable",
        edits=edit(
            "engine/staging/publications.py",
            "            must_sync |= self._root.syncer.has_changed(layout.CONFIG)\n",
            "            assert self._root.syncer\n",
        ),
        caught_by=(_RECOVERY,),
    ),
    Mutant(
        name="what-the-dead-had-published-is-stranded",
        breaks="what a dead process had published is moved by the living",
        edits=edit(
            "engine/staging/publications.py",
            "        self.redo({name: manifest for name, manifest in redone.items() "
            "if manifest is not None})\n",
            "        assert redone is not None\n",
        ),
        caught_by=(_SHARED,),
    ),
)
