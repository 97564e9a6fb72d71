"""SIGSTOP for longer than a visibility timeout: a stopped process loses its leases, no other loses
any."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Final

import pytest
import spoolrack

from tests.support.delivery_checker import Verdict, judge
from tests.support.ledger import read_ledgers
from tests.support.load import Load, check
from tests.support.run_processes import Crew, Member, Served

VISIBILITY: Final = 2.0
SLEEP: Final = 1.5 * VISIBILITY
QUEUE: Final = "sleepers"
MOST_LATE: Final = 100


class Stage:
    """Puppets at one queue."""

    def __init__(self, crew: Crew, served: Served) -> None:
        self._crew = crew
        self._where = (served.address, QUEUE, crew.ledgers)
        self._client = spoolrack.connect(served.address, timeout=120)
        self._client.create_queue(QUEUE, visibility_timeout=VISIBILITY)

    def puppet(self, name: str) -> Member:
        member = self._crew.start(name, "tests.proof.e2e.puppet", *self._where, name)
        self._crew.hear(member, "started")
        return member

    def ask(self, member: Member, command: str) -> list[str]:
        """Give a command; return the ids for which it worked."""
        self._crew.say(member, command)
        return self.answers(member)[0]

    def answers(self, *members: Member) -> list[list[str]]:
        """Return the next answer of each, in whichever order they come."""
        answers: dict[Member, list[str]] = {}
        for told in self._crew.told():
            if told.member in members and not told.is_log:
                assert told.line is not None, told.member.last_words
                answers[told.member] = told.line.split()[1:]
                if len(answers) == len(members):
                    break
        return [answers[member] for member in members]

    def receive(self, member: Member, count: int) -> list[str]:
        """Return so many messages, in as many receives as it takes."""
        ids: list[str] = []
        while len(ids) < count:
            ids += self.ask(member, f"receive {count - len(ids)}")
        return ids

    def end(self) -> Verdict:
        left = [message.id for message in self._client.queue(QUEUE).peek()]
        self._client.close()
        self._crew.end()
        verdict = judge(read_ledgers(self._crew.ledgers), left=left)
        check(verdict)
        assert not left
        return verdict


@pytest.fixture
def stage(crew: Crew, served: Served) -> Stage:
    return Stage(crew, served)


@pytest.mark.parametrize("rest", [0, 4], ids=["a whole batch", "a part of a batch"])
def test_the_messages_of_a_consumer_that_sleeps_go_to_another_and_stay_with_it(
    stage: Stage, crew: Crew, rest: int
) -> None:
    sleeper, other = stage.puppet("sleeper"), stage.puppet("other")
    sent = stage.ask(other, f"send {6 + rest}")
    held = stage.receive(sleeper, 6)
    assert held == sent[:6]
    assert stage.receive(other, rest) == stage.ask(other, f"delete {rest}") == sent[6:]
    crew.freeze(sleeper)
    assert set(stage.receive(other, 6)) == set(held)
    crew.thaw(sleeper)
    assert stage.ask(sleeper, "extend") == []
    assert stage.ask(sleeper, "delete 6") == []
    assert set(stage.ask(other, "delete 6")) == set(held), "the sleeper has taken none of them away"
    assert stage.end().redelivered == set(held)


def test_prefetched_messages_of_a_suspended_consumer_are_not_handed_out(
    stage: Stage, crew: Crew
) -> None:
    sleeper, other = stage.puppet("sleeper"), stage.puppet("other")
    sent = stage.ask(other, "send 5")
    assert stage.ask(sleeper, "next") == [sent[0], "1"], "the others wait beside it: they came together"
    crew.freeze(sleeper)
    assert set(stage.receive(other, 5)) == set(sent)
    assert set(stage.ask(other, "delete 5")) == set(sent)
    # A lease begins before its message arrives. By now it is over in the sleeper's eyes, too.
    sleep(crew)
    crew.thaw(sleeper)
    (last,) = stage.ask(other, "send 1")
    for _ in range(MOST_LATE):
        id, receives = stage.ask(sleeper, "next")
        if id == last:
            break
        # The server may have leased it to the sleeper once more. That is the end of it, too.
        assert receives != "1", "its first lease was over long ago"
    assert last in stage.ask(sleeper, "delete 100")
    stage.end()


def test_a_server_that_slept_has_undone_nothing_and_lets_the_leases_end(
    stage: Stage, crew: Crew, served: Served
) -> None:
    holder, sender = stage.puppet("holder"), stage.puppet("sender")
    sent = stage.ask(sender, "send 10")
    assert stage.receive(holder, 8) == sent[:8]
    deleted = stage.ask(holder, "delete 3")
    assert deleted == sent[:3]
    crew.freeze(served.member)
    crew.say(holder, "delete 3")
    crew.say(sender, "send 2")
    sleep(crew)
    crew.thaw(served.member)
    # The deletion has waited in the server's socket: only the server knows whether it came before the
    # end of the lease, and has to say so.
    deleted_late, sent_late = stage.answers(holder, sender)
    deleted += deleted_late
    sent += sent_late
    rest = set(sent) - set(deleted)
    assert set(stage.receive(sender, len(rest))) == rest
    assert stage.ask(holder, "delete 2") == [], "no message has two leases at once"
    assert set(stage.ask(sender, f"delete {len(rest)}")) == rest
    stage.end()


def test_sleepers_under_load_undo_nothing(crew: Crew, served: Served, random: Random) -> None:
    load = Load(crew, served, random, visibility=VISIBILITY)
    batches, contexts, calls = load.consumers
    many, single = load.senders
    shifts: Sequence[list[Member]] = (
        [batches.member, contexts.member, many.member],
        [calls.member, single.member],
        [served.member, batches.member, single.member],
    )
    for sleepers in shifts:
        load.advance(0.0, 0.2)
        for member in sleepers:
            crew.freeze(member)
        sleep(crew)
        for member in random.sample(sleepers, len(sleepers)):
            crew.thaw(member)
    check(load.finish())


def sleep(crew: Crew) -> None:
    """Let all who are awake go on for longer than a lease."""
    for _ in crew.told(time.monotonic() + SLEEP):
        pass
