"""Conditions that are taken back one by one: without one of them, some story ends badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

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
    with pytest.raises(Broken, match=match):
        tell(kind, seeds_from(bug.first, most), Model.ANY_SUBSET, **rest)
