"""The rules of one batch keep every promise through every power cut, and each of them is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from spoolrack_store.engine import entries as rules
from spoolrack_store.engine.entries import BatchFile, Entry
from spoolrack_store.model.transitions import State

from tests.proof.crash.rule_explorer import Broken, Explorer

CORE = frozenset(["lease", "delete", "release", "extend", "reap"])


@pytest.mark.parametrize(
    ("messages", "menu", "depth", "limit"),
    [
        pytest.param(3, CORE, 6, 6_000, id="three-messages"),
        pytest.param(2, CORE, 8, 12_000, id="two-messages"),
        pytest.param(
            2, frozenset(["lease", "delete", "quarantine", "reap"]), 9, 6_000, id="quarantine"
        ),
        pytest.param(2, CORE | {"assign"}, 7, 8_000, id="leased-while-sent"),
    ],
)
def test_every_power_cut_leaves_what_was_promised(
    messages: int, menu: frozenset[str], depth: int, limit: int
) -> None:
    explorer = Explorer(messages, menu)
    explorer.run(depth, limit)
    assert explorer.states > limit / 4
    assert explorer.crashes > explorer.states


@pytest.mark.slow
@pytest.mark.parametrize("messages", [2, 3])
def test_every_power_cut_leaves_what_was_promised_also_after_many_moves(messages: int) -> None:
    Explorer(messages, CORE | {"assign"}).run(12, 150_000)


def _stale_at_once(batch: BatchFile, synced: int) -> Iterator[Entry]:
    yield from (e for e in batch.entries if not e.members and e.name.state is not State.REMOVED)


def _reaped_beside_what_holds_nothing(batch: BatchFile, synced: int) -> list[Entry]:
    if batch.changed > synced or any(
        e.members for e in batch.entries if e.name.state is not State.REMOVED
    ):
        return []
    return [e for e in batch.entries if e.name.state is State.REMOVED]


def _reaped_unsynced(batch: BatchFile, synced: int) -> list[Entry]:
    return [e for e in batch.entries if e.name.state is State.REMOVED] if batch.is_over else []


PLANTED: dict[str, tuple[object, str, Callable[..., object]]] = {
    "a rename although something was taken": (
        rules,
        "may_rename",
        lambda entry, members, synced: members == entry.members,
    ),
    "a stale name unlinked before that is durable": (BatchFile, "stale", _stale_at_once),
    "a deleted message reaped beside a stale name": (
        BatchFile,
        "reapable",
        _reaped_beside_what_holds_nothing,
    ),
    "a deleted message reaped before that is durable": (BatchFile, "reapable", _reaped_unsynced),
    "a torn send taken for a whole one": (BatchFile, "was_sent", property(lambda batch: True)),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_rule_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, broken = PLANTED[planted]
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(Broken):
        Explorer(2, CORE | {"assign"}).run(8, 60_000)


def test_a_version_above_all_others_is_needed() -> None:
    with pytest.raises(Broken):
        Explorer(2, CORE, same_version=True).run(8, 60_000)
