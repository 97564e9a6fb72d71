"""Runs of stories, and conditions that are taken back one by one: without one of them, some story ends
badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from spoolrack_store.engine import sharing
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files import changes

from tests.support.engine_story import Broken, History, Sums, seeds_from, seeds_of_run, tell
from tests.support.power_disk import Model


class Run(NamedTuple):
    """Where stories are told."""

    model: Model
    processes: int
    can_sync_all: bool

    def __str__(self) -> str:
        how = "syncfs" if self.can_sync_all else "fsync"
        return f"{self.model.value}-{self.processes}-{how}"

    def tell(self, kind: Callable[..., History], count: int, **rest: Any) -> Sums:
        """Tell `count` stories, or as many as the environment says; return the sums of their counts."""
        where = {"processes": self.processes, "can_sync_all": self.can_sync_all}
        return tell(kind, seeds_of_run(count), self.model, **where, **rest)


def runs(*where: tuple[int, bool]) -> pytest.MarkDecorator:
    """Run a test with so many processes, with or without syncfs(2), and each model of a power cut."""
    return pytest.mark.parametrize(
        "run", [Run(model, *each) for each in where for model in Model], ids=str
    )


ALONE: Final = runs((1, True), (1, False))
SHARED: Final = runs((2, True), (3, True))
ALONE_AND_SHARED: Final = runs((1, True), (1, False), (2, True), (3, True))


MOST_STORIES: Final = 2_000


class Bug(NamedTuple):
    """An attribute of the store, and what stands in its place."""

    owner: object
    name: str
    broken: object
    first: int = 0
    """The story that found it. After a change of the engine another may: this one is told first."""
    is_alone: bool = False
    """Whether one process meets it, on a system without syncfs(2)."""


def expect_broken(
    patched: pytest.MonkeyPatch,
    bug: Bug,
    kind: Callable[..., History],
    *,
    match: str | None = None,
    **rest: Any,
) -> None:
    """Plant a bug, and tell stories until one breaks a promise, up to MOST_STORIES."""
    patched.setattr(bug.owner, bug.name, bug.broken)
    if bug.is_alone:
        rest |= {"processes": 1, "can_sync_all": False}
    with pytest.raises(Broken, match=match):
        tell(kind, seeds_from(bug.first, MOST_STORIES), Model.ANY_SUBSET, **rest)


def expect_relisted(patched: pytest.MonkeyPatch, kind: Callable[..., History], ring: int) -> None:
    """Tell stories with a log of `ring` bytes: a process that others overtake lists the root anew."""
    relisted: list[bool] = []
    relist = sharing.list_root

    def counted(moves: Moves, follow: Callable[[], None]) -> object:
        relisted.append(bool(moves.index.batches))
        return relist(moves, follow)

    patched.setattr(changes, "RING", ring)
    patched.setattr(sharing, "list_root", counted)
    tell(kind, seeds_of_run(7), Model.ANY_SUBSET, processes=3)
    assert any(relisted)
