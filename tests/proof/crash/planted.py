"""Conditions that are taken back one by one: without one of them, some story ends badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from spoolrack_store.engine import sharing
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files import changes

from tests.support.engine_story import Broken, History, seeds_from, tell
from tests.support.power_disk import Model


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
    most: int,
    *,
    match: str | None = None,
    **rest: Any,
) -> None:
    """Plant a bug, and tell up to `most` stories until one breaks a promise."""
    patched.setattr(bug.owner, bug.name, bug.broken)
    if bug.is_alone:
        rest |= {"processes": 1, "can_sync_all": False}
    with pytest.raises(Broken, match=match):
        tell(kind, seeds_from(bug.first, most), Model.ANY_SUBSET, **rest)


def expect_relisted(patched: pytest.MonkeyPatch, kind: Callable[..., History], ring: int) -> None:
    """Tell stories with a log of `ring` bytes: a process that others overtake lists the root anew."""
    relisted: list[bool] = []
    relist = sharing.list_root

    def counted(moves: Moves, follow: Callable[[], None]) -> object:
        relisted.append(bool(moves.index.batches))
        return relist(moves, follow)

    patched.setattr(changes, "RING", ring)
    patched.setattr(sharing, "list_root", counted)
    tell(kind, range(20), Model.ANY_SUBSET, processes=3)
    assert any(relisted)
