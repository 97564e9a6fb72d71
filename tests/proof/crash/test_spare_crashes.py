"""What was sent in spare files is found as it was promised, whatever of their data, names and lengths a
power cut leaves; and each condition of that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files.disk import unlink_or_leave
from spoolrack_store.files.spares import Spare, Spares
from spoolrack_store.model.operations import Request, Send

from tests.proof.crash.everything_story import EverythingStory
from tests.proof.crash.stories import ALONE, ALONE_AND_SHARED, Bug, Run, expect_broken
from tests.proof.crash.test_snapshot_crashes import SnapshotStory
from tests.support.engine_story import Story, sparing
from tests.support.memory_disk import MemoryOpenFile


class SpareStory(Story):
    """Half of the commits have one send and nothing else."""

    def _requests(self, owner: str) -> list[Request[Any]]:
        if self.making.random() < 0.5:
            return super()._requests(owner)
        while not isinstance(request := self._request(), Send):
            pass
        return [request]


@ALONE_AND_SHARED
def test_what_is_sent_in_a_spare_is_found_as_it_was_promised(run: Run) -> None:
    told = run.tell(sparing(SpareStory), 8)
    assert told["crashes"] > told["stories"]
    if run.can_sync_all and run.processes == 1:
        assert told["in_spares"] > 2 * told["stories"]


@ALONE
def test_a_snapshot_has_what_is_in_a_spare_still(run: Run) -> None:
    assert run.tell(sparing(SnapshotStory), 3)["taken"] > 0


@ALONE_AND_SHARED
def test_all_features_keep_their_promises_beside_spares(run: Run) -> None:
    assert run.tell(sparing(EverythingStory), 2)["crashes"] > 0


_begin_data_sync, _named, _sync = Moves.begin_data_sync, Spares.named, Spare.sync


def _data_taken_for_names(self: Moves) -> object:
    commit = _begin_data_sync(self)
    self.synced = self.commit - 1
    return commit


def _cut_off_at_once(self: Spares, spare: Spare) -> None:
    spare.file.truncate(spare.length)
    _named(self, spare)


def _cut_off_before_its_name(self: Spare, path: str) -> None:
    _sync(self, path)
    self.file.truncate(self.length)


def _any_request(self: Engine, requests: Sequence[Any], outcomes: Sequence[Any]) -> object:
    return self._sender.written_in_spares()


def _left_in_a_spare(moves: Moves, path: str, owner: str) -> None:
    if owner != moves.owner and not moves.is_living(owner):
        unlink_or_leave(moves.disk, path)


PLANTED: Final[dict[str, Bug]] = {
    "an answer before the sync of its data": Bug(Spare, "sync", lambda self, path: None),
    "a sync of data taken for one of names": Bug(Moves, "begin_data_sync", _data_taken_for_names),
    "a spare used before it is durable": Bug(MemoryOpenFile, "sync_all", lambda self: None),
    "an end cut off before the name is durable": Bug(Spares, "named", _cut_off_at_once),
    "an end cut off before the file has its name": Bug(Spare, "sync", _cut_off_before_its_name),
    "spares of the dead not looked at": Bug(recovery, "_name_of_spare", _left_in_a_spare),
    "a torn message in a spare published": Bug(recovery, "_is_whole", lambda moves, batch: True),
    "answers to other requests that wait for data alone": Bug(
        Engine, "_written_in_spares", _any_request
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_spares_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], sparing(SpareStory), processes=1)
