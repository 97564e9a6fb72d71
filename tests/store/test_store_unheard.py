"""A lease that another process has moved, and this one hasn't heard of it yet: it is looked for."""

from __future__ import annotations

import pytest
from engine_rig import EngineRig
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StaleReceipt
from spoolrack_store.model.operations import ChangeVisibility, Delete, Message, VisibilityChange
from test_store_peers import Several, receipts


@pytest.fixture
def several() -> Several:
    several = Several()
    several.rigs[0].create("q")
    return several


def deafened(rig: EngineRig) -> None:
    """It hears nothing of the others any more, unless it looks."""
    rig.engine.peers.listen = lambda: None  # type: ignore[method-assign]


def test_a_delete_finds_the_lease_that_another_has_moved_in_the_meantime(several: Several) -> None:
    one, other = several.rigs
    one.send(b"a")
    (message,) = one.receive()
    deafened(one)
    longer = [VisibilityChange(str(message.receipt), Millis(90_000))]
    other.ask(ChangeVisibility(queue="q", changes=longer))

    assert one.ask(Delete(queue="q", targets=receipts([message]))) == [None]

    other.commit()
    assert other.sights() == []


@pytest.mark.parametrize("span", [0, 60_000])
def test_a_change_finds_the_lease_that_another_has_moved_in_the_meantime(
    several: Several, span: int
) -> None:
    one, other = several.rigs
    leased = changed_unheard(several, 90_000)

    ends = one.ask(changes(leased, span))

    now = several.clock.wall()
    assert ends == [now + span if span else None] * 2
    other.commit()
    assert [(seen.due or now) - now for seen in other.sights()] == [span, span]
    other.check()


@pytest.mark.parametrize("span", [0, 60_000])
def test_what_another_has_released_in_the_meantime_is_not_leased_any_more(
    several: Several, span: int
) -> None:
    one, other = several.rigs
    leased = changed_unheard(several, 0)

    first, second = one.ask(changes(leased, span))

    assert isinstance(first, StaleReceipt)
    assert second == (several.clock.wall() + span if span else None)
    other.commit()
    other.check()


def changes(leased: list[Message], span: int) -> ChangeVisibility:
    asked = [VisibilityChange(str(message.receipt), Millis(span)) for message in leased]
    return ChangeVisibility(queue="q", changes=asked)


def changed_unheard(several: Several, span: int) -> list[Message]:
    """Two messages that one has leased together, and another has changed the first's lease since."""
    one, other = several.rigs
    one.send(b"a", b"b")
    leased = one.receive(2)
    deafened(one)
    other.ask(changes(leased[:1], span))
    return leased
