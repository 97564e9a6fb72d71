"""A strict group has the order of the sends that were answered, whichever processes answered them."""

from __future__ import annotations

import errno

import pytest
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import OutcomeUnknown
from spoolrack_store.model.operations import Receive, Send

from tests.store.trouble_rig import TwoProcesses
from tests.support.engines import commit

GROUP = {0: "g"}


@pytest.fixture
def both() -> TwoProcesses:
    return TwoProcesses(group_order="strict", deduplication_window=Millis(HOUR))


def sent(body: bytes, **more: object) -> Send:
    return Send(queue="q", bodies=[body], groups=GROUP, **more)  # type: ignore[arg-type]


def test_messages_that_another_process_answered_before_are_received_before(both: TwoProcesses) -> None:
    for number in range(9):
        commit((both.first, both.second)[number % 2], sent(b"%d" % number))
    commit(both.second)
    assert both.received() == [b"%d" % number for number in range(9)]


def test_a_process_that_dies_once_it_has_answered_holds_up_nothing(both: TwoProcesses) -> None:
    commit(both.first, sent(b"first"))
    both.living.discard("p1")
    commit(both.second, sent(b"second"))
    commit(both.second)
    assert both.received() == [b"first", b"second"]


def test_a_delay_that_another_process_has_answered_holds_up_its_group(both: TwoProcesses) -> None:
    commit(both.first, sent(b"late", delays={0: Millis(HOUR)}))
    commit(both.second, sent(b"second"))
    commit(both.second)
    assert both.received() == []


@pytest.mark.parametrize("is_dead", [True, False], ids=["dead", "slow"])
def test_a_repeated_send_is_in_its_place_once_another_process_answers_it(
    both: TwoProcesses, is_dead: bool
) -> None:
    repeated = sent(b"first", deduplication_ids={0: "once"})
    assert both.first.apply([repeated]) is not None
    if is_dead:
        both.living.discard("p1")
    (stored,) = commit(both.second, repeated)
    assert stored.duplicates == {0}
    commit(both.second, sent(b"second"))
    commit(both.second)
    assert both.received() == [b"first", b"second"]


def test_a_send_that_cannot_be_put_in_its_place_is_not_answered_as_sent(both: TwoProcesses) -> None:
    both.disk.fail(errno.EDQUOT, "rename_new", path="queues/q/")
    (stored,) = commit(both.first, sent(b"first", deduplication_ids={0: "once"}))
    (repeated,) = commit(both.second, sent(b"first", deduplication_ids={0: "once"}))
    (batch,) = commit(both.first, Send(queue="q", bodies=[b"1", b"2"], groups=GROUP))
    for outcome in (stored, repeated, batch):
        assert {type(each) for each in outcome.results} == {OutcomeUnknown}
    both.disk.heal()
    commit(both.first)
    (found,) = commit(both.second, Receive(queue="q", max_messages=9))
    assert sorted(body for each in found for body in each.bodies) == [b"1", b"2", b"first"]


def test_only_messages_of_strict_groups_are_published_before_the_answer(both: TwoProcesses) -> None:
    (stored,) = commit(both.first, Send(queue="q", bodies=[b"alone"]))
    assert isinstance(stored.results[0], str)
    assert both.received() == []
