"""Releases, rejections and back-offs keep their promises through power cuts and deaths, and planted
bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from spoolrack_store.engine.dead_letters import DeadLetters
from spoolrack_store.engine.leaser import Leaser
from spoolrack_store.engine.moves import Moves

from tests.proof.crash.retry_story import RetryStory
from tests.support.engine_story import Broken, seeds_of_run, tell
from tests.support.power_disk import Model

SEEDS: Final = seeds_of_run(10)


@pytest.mark.parametrize(("processes", "can_sync_all"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_released_and_rejected_messages_stay_as_answered_through_crashes(
    model: Model, can_sync_all: bool, processes: int
) -> None:
    told = tell(RetryStory, SEEDS, model, can_sync_all=can_sync_all, processes=processes)
    assert told.least("hidden", "rejected", "crashes") > len(SEEDS)
    assert told["told_why"]


def _draws(patched: pytest.MonkeyPatch) -> None:
    """Count a back-off from when the first process sees that the lease is over."""
    honest = Leaser._postpone

    def late(self: Leaser, entry: object, members: int, until: object, receives: int) -> None:
        honest(self, entry, members, (until[0] + 1, until[1] + 1), receives)  # type: ignore

    patched.setattr(Leaser, "_postpone", late)


def _skips_the_content(patched: pytest.MonkeyPatch) -> None:
    """Refer to a dead-letter file before its content is on stable media."""
    patched.setattr(
        Moves, "sync_now", lambda self, _, folders: list(map(self.disk.sync_folder, folders))
    )


def _waits(patched: pytest.MonkeyPatch) -> None:
    """Answer a rejection, and leave the message to the end of its lease."""
    honest = DeadLetters.bury

    def later(self: DeadLetters, wanted: Any, **how: Any) -> list[Any]:
        return [None for _ in wanted] if how else honest(self, wanted, **how)

    patched.setattr(DeadLetters, "bury", later)


def _counts(patched: pytest.MonkeyPatch) -> None:
    """Count a receive that was released as uncounted."""
    honest = Leaser._postpone

    def counting(self: Leaser, entry: object, members: int, until: object, receives: int) -> None:
        honest(self, entry, members, until, entry.name.receives)  # type: ignore

    patched.setattr(Leaser, "_postpone", counting)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a back-off ends later than its name says": _draws,
    "content is not synced": _skips_the_content,
    "a rejection is answered too early": _waits,
    "every receive counts": _counts,
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[planted](monkeypatch)
    with pytest.raises(Broken):
        tell(RetryStory, range(100), Model.ANY_SUBSET)
