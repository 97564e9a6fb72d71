"""Bodies that are written before they are sent survive power cuts and deaths once they are answered,
and leave nothing behind when they aren't sent; and each condition of that is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from spoolrack_store.engine import adoption, recovery
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files.layout import BODY
from spoolrack_store.model.operations import WrittenBody

from tests.proof.crash.body_story import BodyStory
from tests.support.engine_story import Broken, seeds_from, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_written_bodies_are_sent_whole_or_leave_nothing_behind(
    model: Model, can_sync_all: bool, processes: int
) -> None:
    found = tell(BodyStory, SEEDS, model, can_sync_all=can_sync_all, processes=processes)
    assert found.least("written", "unsent", "crashes") > len(SEEDS) // 2


def _unlinks_bodies_of_the_living(patched: pytest.MonkeyPatch) -> None:
    """Let a start take every body for one of a dead process."""
    patched.setattr(recovery, "body_owner", lambda name: "")


def _puts_bodies_of_the_dead_aside(patched: pytest.MonkeyPatch) -> None:
    """Let a start take the body of a dead process for a foreign file."""
    patched.setattr(adoption, "body_owner", lambda name: "")


def _keeps_bodies_of_the_dead(patched: pytest.MonkeyPatch) -> None:
    """Take the unfinished body of a dead process for unlinked."""
    honest = Moves.unlink_file

    def unlink_file(self: Moves, path: str) -> None:
        if not path.endswith(BODY):
            honest(self, path)

    patched.setattr(Moves, "unlink_file", unlink_file)


def _syncs_only_what_was_written_before(patched: pytest.MonkeyPatch) -> None:
    """Let the commit not sync the file that it writes beside a body."""
    honest = Moves.make

    def make(
        self: Moves, *arguments: object, written: WrittenBody | None = None, **more: object
    ) -> object:
        entry = honest(self, *arguments, written=written, **more)
        if written is not None:
            self.syncer._files.pop(entry.name.path, None)
            self.syncer._files_unsynced = False
        return entry

    patched.setattr(Moves, "make", make)


def _syncs_no_names_of_bodies(patched: pytest.MonkeyPatch) -> None:
    """Let the commit not sync the folder of the bodies."""

    def place_body(self: Moves, source: str, target: str) -> None:
        self.disk.rename_new(source, target)

    patched.setattr(Moves, "_place_body", place_body)


def _publishes_without_a_body(patched: pytest.MonkeyPatch) -> None:
    """Let a start take a file for sent whose body has no name yet."""
    patched.setattr(recovery, "_has_body", lambda moves, stem: True)


def _keeps_bodies_without_a_message(patched: pytest.MonkeyPatch) -> None:
    """Let a start leave a body for which its process had not made a message."""
    patched.setattr(recovery, "_remove_bodies_left", lambda moves, sent_by_others: None)


def _takes_unpublished_messages_for_none(patched: pytest.MonkeyPatch) -> None:
    """Let a start unlink the bodies of messages that a living process has in `new/`."""
    honest = recovery._remove_bodies_left
    patched.setattr(recovery, "_remove_bodies_left", lambda moves, sent_by_others: honest(moves, set()))


def _unlinks_bodies_with_the_first_file(patched: pytest.MonkeyPatch) -> None:
    """Unlink the body with the file that a dead letter was copied from."""
    patched.setattr(Moves, "is_body_left", lambda self, entry: entry.batch.stem.is_external)


def _keeps_bodies_of_the_deleted(patched: pytest.MonkeyPatch) -> None:
    """Keep the body when its message is gone."""
    patched.setattr(Moves, "is_body_left", lambda self, entry: False)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "bodies of the living are unlinked": _unlinks_bodies_of_the_living,
    "bodies of the dead are put aside": _puts_bodies_of_the_dead_aside,
    "bodies of the dead stay": _keeps_bodies_of_the_dead,
    "the file beside a body is not synced": _syncs_only_what_was_written_before,
    "the folder of the bodies is not synced": _syncs_no_names_of_bodies,
    "a message without a body is published": _publishes_without_a_body,
    "bodies without a message stay": _keeps_bodies_without_a_message,
    "bodies of what is being published are unlinked": _takes_unpublished_messages_for_none,
    "a body goes with the first of its files": _unlinks_bodies_with_the_first_file,
    "bodies of the deleted stay": _keeps_bodies_of_the_deleted,
}


MOST_STORIES: Final = 200
STARTS: Final = {
    "the folder of the bodies is not synced": 17,
    "a message without a body is published": 117,
    "bodies without a message stay": 11,
    "bodies of what is being published are unlinked": 28,
    "bodies of the living are unlinked": 7,
}
"""The stories that found them. After a change of the engine others may: all are told, these first."""


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[planted](monkeypatch)
    with pytest.raises(Broken):
        _tell_both(STARTS.get(planted, 0))


def _tell_both(first: int) -> None:
    for seed in seeds_from(first, MOST_STORIES):
        for can_sync_all in (True, False):
            processes = 2 if can_sync_all else 1
            tell(BodyStory, [seed], Model.ANY_SUBSET, processes=processes, can_sync_all=can_sync_all)
