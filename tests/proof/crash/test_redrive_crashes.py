"""Redrives keep their promises through power cuts, and through deaths at any step, alone and beside
others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.moves import Moves
from spoolrack_store.engine.redriver import Redriver
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.operations import Purge, Receive, Request
from spoolrack_store.model.redrive_requests import CancelRedrive, Redrive, RedriveState, StartRedrive
from spoolrack_store.model.settings import QueueSettings

from tests.proof.crash.stories import ALONE, SHARED, Bug, Run, expect_broken
from tests.support.cuts import Cut, Keep
from tests.support.engine_story import DEAD, GONE, Broken, Seen, Story

MOST_ROUNDS = 60


class RedriveStory(Story):
    """One history with redrives of the dead-letter queue."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.was_in: dict[str, list[tuple[int, str]]] = {}
        """Of each message that was redriven its queues, from the last that is durable on."""
        self.started: dict[str, tuple[int, Redrive]] = {}
        """Answered redrives, and the commit that makes each durable."""
        self.named: dict[str, Sequence[str]] = {}
        """Of each redrive the ids that it is about."""
        self.cancelled: dict[str, int] = {}
        self.durable: dict[str, RedriveState] = {}
        self.done: set[str] = set()
        self.owed: dict[str, set[str]] = {}
        """Of each redrive the messages that were ready when it began, and have been so since."""
        self.by: dict[str, set[str]] = {}
        """Of each redrive the messages that it has moved."""
        self.dying_requests: Sequence[Request[Any]] = ()
        self.redriven = 0
        super().__init__(*arguments, **options)

    def _end(self) -> None:
        super()._end()
        self._end_all()

    def _end_all(self) -> None:
        """Run the commits until every redrive ends."""
        (owner,) = self.engines
        for _ in range(MOST_ROUNDS):
            self.clock.now += 1_000
            self._commit_these(owner, [])
            while self.flying[owner]:
                self._sync(owner)
        for redrive in self.engines[owner].redrives.listed("", "", 1_000):
            if redrive.state is RedriveState.RUNNING:
                raise Broken(f"{redrive} doesn't end")
        self._power_cut(Cut(Keep.ALL))

    def _commit_these(self, owner: str, requests: list[Request[Any]]) -> None:
        self.at += 1
        self.told.append(f"{self.clock.now} {owner}, commit {self.at}")
        self._bring_back()
        work = self.engines[owner].apply(requests)
        assert work is not None
        self._take(self.engines[owner], requests, work.outcomes)
        self._look_for_dead_letters(self.engines[owner])
        self.flying[owner].append((self.at, work))

    # Requests and answers.

    def _request(self) -> Request[Any]:
        chance = self.random
        if chance.random() > 0.2:
            return super()._request()
        if chance.random() < 0.1 and self.started:
            return CancelRedrive(id=chance.choice(list(self.started)))
        dead_letters = [id for id, queue in self.queue_of.items() if queue == DEAD]
        ids = chance.sample(dead_letters, min(len(dead_letters), 3)) if chance.random() < 0.3 else []
        return StartRedrive(
            queue=DEAD,
            destination=chance.choice(("", "", "q")),
            message_ids=ids,
            source_queue=chance.choice(("", "", "r")),
            max_messages_per_second=chance.choice((0, 0, 2)),
        )

    def _take(self, engine: Engine, requests: list[Request[Any]], outcomes: Sequence[object]) -> None:
        self._look_for_redriven(engine)
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(request, StartRedrive):
                if isinstance(outcome, Redrive):
                    self.told.append(f"redrive {outcome.id} begins: {request}")
                    self._began(engine, outcome, request)
            elif isinstance(request, CancelRedrive):
                if isinstance(outcome, Redrive) and outcome.state is RedriveState.CANCELLED:
                    self.told.append(f"redrive {outcome.id} is cancelled")
                    self.cancelled.setdefault(outcome.id, self.at)
                elif isinstance(outcome, StoreError) and request.id in self.durable:
                    raise Broken(f"{request} was refused: {outcome!r}")
        super()._take(engine, requests, outcomes)
        self._look_at_redrives(engine)

    def _began(self, engine: Engine, redrive: Redrive, request: StartRedrive) -> None:
        self.started[redrive.id] = self.at, redrive
        self.named[redrive.id] = request.message_ids
        self.owed[redrive.id] = set()
        sent = self._sent_only()
        for id, queue in self.queue_of.items():
            if (
                id in sent
                or queue != DEAD
                or self.now(id)[0] != "ready"
                or (request.message_ids and id not in request.message_ids)
            ):
                continue
            found = engine.index.holder(id)
            is_dead = found is not None and found[0].name.death is not None
            is_sent_before = sent_at(id) <= redrive.started_at
            if is_dead or (request.destination and not request.source_queue and is_sent_before):
                self.owed[redrive.id].add(id)

    def _look_at_redrives(self, engine: Engine) -> None:
        for redrive in engine.redrives.listed("", "", 1_000):
            if redrive.state is RedriveState.DONE and redrive.id not in self.done:
                self.done.add(redrive.id)
                self.told.append(f"redrive {redrive.id} is done")
                left = self.owed.get(redrive.id, set())
                if redrive.failed_count == 0 and left:
                    raise Broken(f"{redrive.id} is done, and {left} are dead letters")

    def _become(self, id: str, now: Seen) -> None:
        for owed in self.owed.values():
            owed.discard(id)
        super()._become(id, now)

    def _may_be_redriven(self, id: str, queue: str) -> bool:
        return any(
            redrive.destination in ("", queue)
            and id not in self.by.get(key, ())
            and (not self.named.get(key) or id in self.named[key])
            for key, (_, redrive) in self.started.items()
            if key not in self.cancelled and key not in self.done
        ) or any(isinstance(request, StartRedrive) for request in self.dying_requests)

    def _look_for_redriven(self, engine: Engine) -> None:
        for id in list(self.may):
            found = engine.index.holder(id)
            if found is None:
                continue
            entry, now = found[0], self.now(id)
            queue = entry.name.queue
            if now[0] == "dying" and queue != DEAD and entry.name.death is not None:
                if self._came_back(engine, id):
                    self._is_dead_letter(id)
                    self._is_redriven(engine, id, queue)
            elif self.queue_of[id] == DEAD and queue != DEAD and now != GONE:
                self._is_redriven(engine, id, queue)

    def _came_back(self, engine: Engine, id: str) -> bool:
        """Return whether a message is where a redrive has moved it, and has not died since."""
        found = engine.index.holder(id)
        if found is None:
            return False
        name = found[0].name
        is_of_the_dead = name.queue != DEAD and name.death is not None
        return is_of_the_dead and name.receives < 2

    def _is_redriven(self, engine: Engine, id: str, queue: str) -> None:
        self.told.append(f"{id} is redriven to {queue}")
        if not self._may_be_redriven(id, queue):
            raise Broken(f"{id} was moved to {queue} once too often, or by no redrive")
        self.redriven += 1
        running = [
            each.id
            for each in engine.redrives.listed(DEAD, "", 1_000)
            if each.state is RedriveState.RUNNING
        ]
        for key in running:
            self.by.setdefault(key, set()).add(id)
        self.was_in.setdefault(id, [(0, DEAD)]).append((self.at, queue))
        self.queue_of[id] = queue
        self.receipts.pop(id, None)
        self._become(id, ("ready", 0))

    def _is_dead_letter(self, id: str) -> None:
        if id in self.was_in:
            self.was_in[id].append((self.at, DEAD))
        super()._is_dead_letter(id)

    # Durable state.

    def _histories(self) -> Iterable[list[tuple[int, Any]]]:
        return self.was_in.values()

    def _sync(self, owner: str) -> None:
        at, work = self.flying[owner][0]
        super()._sync(owner)
        if work.barrier is not None and owner in self.engines:
            for id, (when, _) in self.started.items():
                if when <= at:
                    self.durable.setdefault(id, RedriveState.RUNNING)
            for id, when in self.cancelled.items():
                if when <= at:
                    self.durable[id] = RedriveState.CANCELLED

    def _forgive(self, requests: list[Request[Any]]) -> dict[str, list[Seen]]:
        self.dying_requests = requests
        return super()._forgive(requests)

    def _adopt(self, maybe: dict[str, list[Seen]] | None) -> None:
        if maybe is None:
            self.done.clear()  # An end is no answer to a caller: a power cut may undo it.
        # The survivor has just made a commit, and knows what is there.
        last = {owner: max((at for at, _ in each), default=0) for owner, each in self.flying.items()}
        engine = self.engines[max(last, key=last.__getitem__)]
        if maybe is None:
            self.done.clear()  # The cut may have undone the end, and then the redrive went on.
        for id, (seen, queue) in self._found().items():
            if id not in self.may:
                continue
            was, now = self.queue_of[id], self.now(id)
            states = [state for _, state in self.may[id]]
            is_dying = now[0] == "dying" or any(state[0] == "dying" for state in states)
            is_back = is_dying and self._came_back(engine, id)
            if (was == queue and not is_back) or (seen == GONE and GONE in states):
                continue
            if (
                maybe is None
                and (0, queue) != (0, was)
                and any(each == queue for _, each in self.was_in.get(id, ()))
            ):
                # The cut has undone a move.
                self.queue_of[id] = queue
                for moved in self.by.values():
                    moved.discard(id)
                self.was_in[id] = [(0, queue)]
                self.owed = {key: owed - {id} for key, owed in self.owed.items()}
                continue
            if queue != DEAD and (was == DEAD or is_dying) and self._may_be_redriven(id, queue):
                if was != DEAD:
                    self._is_dead_letter(id)
                self._is_redriven(engine, id, queue)
                if maybe is not None:
                    maybe.setdefault(id, []).extend(self._maybe_after(queue, seen))
        self.dying_requests = ()
        super()._adopt(maybe)
        for owed in self.owed.values():
            owed.intersection_update(
                [id for id in owed if id in self.may and self.now(id)[0] == "ready"]
            )
        self._check_redrives(engine)

    def _maybe_after(self, queue: str, seen: Seen) -> list[Seen]:
        """Return what the dying commit may have done to a message that it had redriven."""
        maybe: list[Seen] = []
        for request in self.dying_requests:
            if isinstance(request, Purge) and request.queue == queue:
                maybe.append(GONE)
            if isinstance(request, Receive) and request.queue == queue:
                end = self.clock.now + (
                    request.visibility_timeout or QueueSettings().visibility_timeout
                )
                maybe.append(("leased", 1, end))
        return maybe

    def _check_redrives(self, engine: Engine) -> None:
        """Check that acknowledged redrives are there; others may be gone."""
        there = {each.id: each for each in engine.redrives.listed("", "", 1_000)}
        for id, state in self.durable.items():
            if id not in there:
                raise Broken(f"the redrive {id} is gone")
            if state is RedriveState.CANCELLED and there[id].state is not state:
                raise Broken(f"the redrive {id} was cancelled, and is {there[id].state}")
        for id, redrive in there.items():
            self.started.setdefault(id, (self.at, redrive))
            self.owed.setdefault(id, set())
            if redrive.state is RedriveState.CANCELLED:
                self.cancelled.setdefault(id, self.at)
            elif id in self.cancelled:
                del self.cancelled[id]
            if redrive.state is not RedriveState.DONE:
                self.done.discard(id)
        for id in self.started.keys() - there.keys():
            del self.started[id]
        self.cancelled = {id: when for id, when in self.cancelled.items() if id in there}


@ALONE
def test_a_redrive_moves_each_message_once_wherever_it_is_cut(run: Run) -> None:
    told = run.tell(RedriveStory, 15, steps=80)
    assert told["redriven"] > told["stories"]


@SHARED
def test_any_process_goes_on_with_a_redrive(run: Run) -> None:
    told = run.tell(RedriveStory, 7)
    assert told["redriven"] > told["stories"]


def _created_unsynced(self: Moves, path: str, content: bytes, *, sync: bool = False) -> None:
    _create_file(self, path, content)


_create_file = Moves.create_file


def _ended_early(self: Redriver, drive: object, most: int, allowed: int) -> object:
    looked, picks, _ = _pick(self, drive, 1, allowed)  # type: ignore[arg-type]
    return looked, picks, True


_pick = Redriver._pick
_candidates = Redriver._candidates

PLANTED: Final[dict[str, Bug]] = {
    "a record that is renamed before its content is durable": Bug(
        Moves, "create_file", _created_unsynced, first=71, is_alone=True
    ),
    "a redrive of another process not heard of": Bug(
        Redriver, "path_changed", lambda self, path: None, first=4
    ),
    "a redrive that no start knows": Bug(Redriver, "recover", lambda self: None),
    "all messages of a file moved, whichever are selected": Bug(
        Redriver,
        "_candidates",
        lambda self, drive: (
            (entry, entry.members, at + 1, after)
            for entry, _, at, after in _candidates(self, drive)
            if entry.name.queue == drive.order.queue
        ),
    ),
    "a pass that ends with its first portion": Bug(Redriver, "_pick", _ended_early),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_redrive_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], RedriveStory, processes=2)
