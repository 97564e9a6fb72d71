"""The engine answers every request as the model does, and leaves the same state.

Hypothesis makes up the story and shrinks it. After each step the index must be what the model says and
what the folders say; and all of it must survive a kill at any seam of a commit.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from spoolrack_store.credits import Credits
from spoolrack_store.engine.engine import Engine, Work
from spoolrack_store.engine.entries import resolve
from spoolrack_store.files import changes
from spoolrack_store.files.disk import Disk
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.files.root import FOLDERS
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.members import indexes
from spoolrack_store.model.names import parse
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Purge,
    Receive,
    ReleaseMessages,
    Request,
    Send,
    SendResults,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import COUNTED, State

from tests.store.store_model import StoreModel
from tests.support.engine_story import StillClock
from tests.support.engines import applied
from tests.support.linked_disk import LinkedDisk, Memory, made, reap
from tests.support.power_disk import Model
from tests.support.recount import drifts, names_in

pytestmark = pytest.mark.timeout(300)

QUEUES = ("a", "b", "c")
NEVER_MADE = "00000000-0000-7000-8000-000000000000"
CONSUMERS = {"one": 1, "few": 3, "many": 50}
SETTLED_AFTER = 12
"""Commits after which nothing waits for a sync any more."""

names = st.sampled_from(["a", "a", "a", "b", "c"])
soon = st.sampled_from([True, True, False])
"""Whether a request is committed at once, or with those that follow."""
picks = st.lists(st.integers(0, 1 << 16), min_size=1, max_size=6)
bodies = st.sampled_from([b"", b"x", b"0123456789", b"y" * 21])
delays = st.sampled_from([None, None, None, 0, 1, 1_000, 5_000, -1, 10**12])
visibilities = st.sampled_from([None, 1, 500, 5_000, 30_000])


@st.composite
def all_settings(draw: Any, name: str) -> QueueSettings:
    """Return a queue's dead letters go to the next one, so that nothing leads back."""
    dead = {"a": ["", "b", "c"], "b": ["", "c"], "c": [""]}[name]
    target = draw(st.sampled_from(dead))
    return QueueSettings(
        visibility_timeout=Millis(draw(st.sampled_from([1_000, 30_000]))),
        delivery_delay=Millis(draw(st.sampled_from([0, 0, 2_000]))),
        dead_letter_queue=target,
        max_receives=draw(st.integers(1, 3)) if target else 0,
        retention=Millis(draw(st.sampled_from([0, 0, 20_000]))),
        max_messages=draw(st.sampled_from([0, 0, 7])),
        max_bytes=draw(st.sampled_from([0, 0, 60])),
        max_message_size=draw(st.sampled_from([20, 1_000])),
        lease_durability=draw(st.sampled_from(["strict", "relaxed"])),
    )


class SteppedClock(StillClock):
    """Its wall clock may be stepped by itself."""

    step = 0

    def wall(self) -> Millis:
        return Millis(self.now + self.step)


class EngineOnDisk:
    """One engine at a time, on a disk that outlives it."""

    def __init__(self) -> None:
        self.disk = self.make()
        self.clock = SteppedClock()
        self.starts = 0
        self.start()

    def make(self) -> Disk:
        return made((), can_sync_all=True, model=Model.ORDERED)

    def memory(self) -> changes.Memory:
        assert isinstance(self.disk, LinkedDisk)
        return Memory(self.disk)

    def free_locks(self) -> None:
        assert isinstance(self.disk, LinkedDisk)
        self.disk.free_locks()

    def start(self) -> None:
        self.starts += 1
        owner = f"p{self.starts}"
        self.engine = Engine(
            self.disk,
            self.memory(),
            clock=self.clock,
            random=Random(self.starts),
            owner=owner,
            is_living=lambda other: other == owner,
        )
        assert self.engine.open()

    def restart(self) -> None:
        self.free_locks()
        self.start()

    def complete(self, work: Work) -> list[Any]:
        if work.barrier is not None:
            work.barrier.sync()
        outcomes = self.engine.finish(work)
        assert outcomes is not None
        return outcomes

    def settle(self) -> None:
        for _ in range(SETTLED_AFTER):
            if not self.engine.wants_commit:
                return
            work = applied(self.engine)
            self.complete(work)
        raise AssertionError("it never settles")

    def read_all(self) -> None:
        """Read what files say of their messages: until then the bytes of a part are estimated."""
        for queue in self.engine.index.queues.values():
            for entry in list(queue.entries):
                self.engine.reader.line(entry)

    def paths(self) -> list[str]:
        folders = ["new", "delay", "remove", "quarantine"]
        folders += [f"queues/{each.name}" for each in self.disk.scan("queues")]
        return [f"{folder}/{each.name}" for folder in folders for each in self.disk.scan(folder)]

    def close(self) -> None:
        pass


class EngineOnFolders(EngineOnDisk):
    def make(self) -> Disk:
        self._folder = tempfile.TemporaryDirectory()
        disk = LocalDisk(Path(self._folder.name))
        for folder in FOLDERS:
            disk.make_folder(folder)
        for path in ("FORMAT", changes.LOCK):
            disk.create(path, [b"spoolrack 4\n"], sync=True)
        disk.set_aside(changes.PATH, changes.SIZE)
        return disk

    def memory(self) -> changes.Memory:
        assert isinstance(self.disk, LocalDisk)
        return self.disk.map(changes.PATH, changes.SIZE)

    def free_locks(self) -> None:
        pass  # An engine holds none between two calls.

    def close(self) -> None:
        assert isinstance(self.disk, LocalDisk)
        self.disk.close()
        self._folder.cleanup()


class StoreStory(RuleBasedStateMachine):
    """Requests gather until a commit, as they do before the committer's thread."""

    rig_type: type[EngineOnDisk] = EngineOnDisk

    def __init__(self) -> None:
        super().__init__()
        self.rig = self.rig_type()
        self.model = StoreModel()
        self.requests: list[Request[Any]] = []
        self.receipts: list[str] = []
        self.ids: list[str] = [NEVER_MADE]
        self.credits: dict[str, Credits] = {}
        self._renew_credits()

    def teardown(self) -> None:
        self.rig.close()

    def _renew_credits(self) -> None:
        self.credits = {name: Credits(limit, lambda: None) for name, limit in CONSUMERS.items()}
        self.model.limits = dict(CONSUMERS)

    # Requests.

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for name in reversed(QUEUES):
            self.requests = [CreateQueue(name=name, settings=data.draw(all_settings(name)))]
            self.commit()

    @rule(name=names, data=st.data(), now=soon)
    def create(self, name: str, data: st.DataObject, now: bool) -> None:
        self._ask(CreateQueue(name=name, settings=data.draw(all_settings(name))), now)

    @rule(name=names, data=st.data(), now=soon)
    def update(self, name: str, data: st.DataObject, now: bool) -> None:
        wanted = data.draw(all_settings(name))
        found = {field: getattr(wanted, field) for field in wanted.__dataclass_fields__}
        self._ask(UpdateQueue(name=name, changes=found), now)

    @rule(name=names, really=st.integers(0, 7), now=soon)
    def delete_queue(self, name: str, really: int, now: bool) -> None:
        if really == 0:
            self._ask(DeleteQueue(name=name), now)

    @rule(name=names, really=st.integers(0, 5), now=soon)
    def purge(self, name: str, really: int, now: bool) -> None:
        if really == 0:
            self._ask(Purge(queue=name), now)

    @rule(name=names, messages=st.lists(st.tuples(bodies, delays), min_size=1, max_size=6), now=soon)
    def send(self, name: str, messages: list[tuple[bytes, int | None]], now: bool) -> None:
        named = {at: Millis(delay) for at, (_, delay) in enumerate(messages) if delay is not None}
        self._ask(Send(queue=name, bodies=[body for body, _ in messages], delays=named), now)

    @rule(name=names, count=st.integers(1, 4), now=soon)
    def send_plainly(self, name: str, count: int, now: bool) -> None:
        self._ask(Send(queue=name, bodies=[b"p"] * count), now)

    @rule(
        name=names,
        most=st.sampled_from([0, 1, 2, 3, 10, 10]),
        bytes=st.sampled_from([1, 12, 1_000, 1_000]),
        visibility=visibilities,
        consumer=st.sampled_from([None, *CONSUMERS]),
        now=soon,
    )
    def receive(
        self, name: str, most: int, bytes: int, visibility: int | None, consumer: str | None, now: bool
    ) -> None:
        request = Receive(
            queue=name,
            max_messages=most,
            max_bytes=bytes,
            visibility_timeout=None if visibility is None else Millis(visibility),
            credits=None if consumer is None else self.credits[consumer],
        )
        self._ask(request, now)

    @rule(name=names, picks=picks, by_id=st.booleans(), now=soon)
    def delete(self, name: str, picks: list[int], by_id: bool, now: bool) -> None:
        receipts: list[str] = []
        ids: list[str] = []
        for pick in picks:
            receipt = self._receipt(name, pick)
            if by_id or receipt is None:
                ids.append(self._id(name, pick))
            else:
                receipts.append(receipt)
        self._ask(Delete(queue=name, receipts=receipts, ids=ids), now)

    @rule(name=names, picks=picks, visibility=st.sampled_from([0, 0, 1, 2_000, 40_000, -1]), now=soon)
    def change(self, name: str, picks: list[int], visibility: int, now: bool) -> None:
        receipts = [each for each in (self._receipt(name, pick) for pick in picks) if each]
        self._ask(
            ChangeVisibility(queue=name, receipts=receipts, visibility_timeout=Millis(visibility)), now
        )

    @rule(name=names, picks=picks, now=soon)
    def give_back(self, name: str, picks: list[int], now: bool) -> None:
        receipts = [each for each in (self._receipt(name, pick) for pick in picks) if each]
        self._ask(GiveBack(queue=name, receipts=receipts), now)

    @rule(
        name=names,
        picks=picks,
        delay=st.sampled_from([0, 1, 2_000]),
        uncounted=st.booleans(),
        now=soon,
    )
    def release(self, name: str, picks: list[int], delay: int, uncounted: bool, now: bool) -> None:
        receipts = [each for each in (self._receipt(name, pick) for pick in picks) if each]
        request = ReleaseMessages(
            queue=name, receipts=receipts, delay=Millis(delay), uncounted=uncounted
        )
        self._ask(request, now)

    def _ask(self, request: Request[Any], now: bool) -> None:
        self.requests.append(request)
        if now:
            self.commit()

    def _receipt(self, name: str, pick: int) -> str | None:
        """Mostly of the present leases, now and then any that ever was."""
        ours = [each for each in self.receipts if each.startswith(f"{name}:")]
        if pick % 4:
            queue = self.model.queues.get(name)
            messages = queue.in_order("leased") if queue is not None else []
            ours = [each.receipt for each in messages if each.receipt] or ours
        return ours[pick % len(ours)] if ours else None

    def _id(self, name: str, pick: int) -> str:
        queue = self.model.queues.get(name)
        ids = sorted(queue.messages) if queue is not None and pick % 4 else self.ids
        return ids[pick % len(ids)] if ids else NEVER_MADE

    # Commits.

    @precondition(lambda self: self.requests)
    @rule()
    def commit_what_waits(self) -> None:
        self.commit()

    @rule()
    def tick(self) -> None:
        self.model.tick(self.rig.clock.wall())
        self.commit(tick=True)

    def commit(self, *, tick: bool = False) -> None:
        work, told = self._apply(tick=tick)
        self._compare(told, self.rig.complete(work))
        self.model.finish()
        self._settle()

    @rule(synced=st.booleans())
    def die_in_a_commit(self, synced: bool) -> None:
        """After `apply`, or after the sync: no caller has an answer, and all of it took place."""
        work, told = self._apply()
        if synced and work.barrier is not None:
            work.barrier.sync()
        self._compare(told, work.outcomes)
        self._restart()

    @rule()
    def die(self) -> None:
        self.requests = []
        self._restart()

    def _restart(self) -> None:
        self.rig.restart()
        self._renew_credits()
        self.model.die(self.rig.clock.wall(), self.rig.clock.monotonic())
        self._settle()
        self.rig.read_all()
        self.rig.engine.update_metrics()
        assert self.rig.engine.moves.quarantined == 0

    def _settle(self) -> None:
        """Do the work of commits without requests. A message dead-lettered once may be again."""
        for _ in QUEUES:
            self.model.begin(self.rig.clock.wall(), self.rig.clock.monotonic())
            self.model.finish()
        self.rig.settle()

    @rule(millis=st.sampled_from([1, 500, 1_000, 5_000, 30_000]))
    def go_by(self, millis: int) -> None:
        self.rig.clock.now += millis

    @rule(millis=st.sampled_from([-3_600_000, -1_000, 1_000, 15_000]))
    def step_wall(self, millis: int) -> None:
        self.rig.clock.step += millis

    def _apply(self, *, tick: bool = False) -> tuple[Work, list[object]]:
        """Apply what has gathered, to the engine and to the model."""
        requests, self.requests = self.requests, []
        model = self.model
        model.begin(self.rig.clock.wall(), self.rig.clock.monotonic())
        work = applied(self.rig.engine, *requests, tick=tick)
        outcomes = work.outcomes
        told: list[object] = [None] * len(requests)

        def of(kind: type[Any]) -> list[tuple[int, Any]]:
            return [(at, each) for at, each in enumerate(requests) if isinstance(each, kind)]

        for at, request in of(CreateQueue):
            told[at] = model.create(request.name, request.settings)
        for at, request in of(UpdateQueue):
            told[at] = model.update(request.name, QueueSettings().changed(request.changes))
        for at, request in of(DeleteQueue):
            told[at] = model.delete_queue(request.name)
        for at, request in of(Send):
            told[at] = model.send(request, outcomes[at])
            if isinstance(outcomes[at], SendResults):
                self.ids += [each for each in outcomes[at].results if isinstance(each, str)]
        deletes = of(Delete)
        answers = model.delete([request for _, request in deletes])
        for (at, _), answer in zip(deletes, answers, strict=True):
            told[at] = answer
        for at, request in of(ChangeVisibility):
            told[at] = model.change(request)
        for at, request in of(ReleaseMessages):
            told[at] = model.release(request)
        for at, request in of(GiveBack):
            told[at] = model.give_back(request.queue, request.receipts)
        for at, request in of(Purge):
            told[at] = model.purge(request.queue)
        receives = of(Receive)
        for name in {request.queue for _, request in receives} & model.queues.keys():
            model.expire(model.queues[name])
        for at, request in receives:
            consumer = next((n for n, c in self.credits.items() if c is request.credits), None)
            wanted = model.receive(request, consumer)
            if isinstance(wanted, str):
                told[at] = wanted
                continue
            told[at] = [(m.id, m.body, m.receives, m.first_receive, m.due) for m in wanted]
            assert not isinstance(outcomes[at], StoreError), outcomes[at]
            assert [id for each in outcomes[at] for id in each.ids] == [m.id for m in wanted]
            model.leased(outcomes[at])
            self.receipts += [receipt for each in outcomes[at] for receipt in each.receipts]
        return work, told

    def _compare(self, told: list[object], outcomes: list[Any]) -> None:
        for wanted, outcome in zip(told, outcomes, strict=True):
            if isinstance(outcome, SendResults):
                outcome = outcome.results
            elif isinstance(wanted, list) and wanted and isinstance(wanted[0], tuple):
                outcome = [
                    (m.id, m.body, m.receive_count, m.first_received_at, m.due)
                    for each in outcome
                    for m in each.messages()
                ]
            if isinstance(wanted, str):
                assert type(outcome).__name__ == wanted
            elif isinstance(wanted, list):
                assert len(wanted) == len(outcome)
                for one, other in zip(wanted, outcome, strict=True):
                    is_error = isinstance(other, StoreError)
                    assert one == (type(other).__name__ if is_error else other)
            elif wanted is not None:
                assert wanted == outcome
            else:
                assert not isinstance(outcome, StoreError), outcome

    # Invariants.

    @invariant()
    def the_engine_and_the_model_say_the_same(self) -> None:
        engine = self.rig.engine
        known = {}
        for name in engine.catalog.records:
            for of, held in names_in(engine.index):
                if of.queue != name or of.state not in COUNTED:
                    continue
                for index in indexes(held):
                    id = of.stem.message_id(index)
                    assert (name, id) not in known
                    known[name, id] = (of.state.value, of.receives, of.first, of.due)
        modelled = {
            (name, m.id): (m.state, m.receives, m.first_receive, m.due)
            for name, queue in self.model.queues.items()
            for m in queue.messages.values()
        }
        assert known == modelled
        assert not self.model.gone & {id for _, id in known}
        living = {name: record.settings for name, record in engine.catalog.records.items()}
        assert living == {name: queue.settings for name, queue in self.model.queues.items()}

    @invariant()
    def counts_are_the_sums_of_what_is_there(self) -> None:
        views = self.rig.engine.views
        for name, queue in self.model.queues.items():
            found = views.queue(self.rig.engine.catalog.records[name]).counts
            states = Counter(message.state for message in queue.messages.values())
            wanted = [states[each] for each in ("ready", "leased", "delayed")]
            assert [found.ready_count, found.leased_count, found.delayed_count] == wanted
            figures = views.metrics(name)
            ready = queue.in_order("ready")
            assert figures.oldest_ready_receives == (ready[0].receives if ready else 0)
            assert found.byte_count == sum(len(each.body) for each in queue.messages.values())

    @invariant()
    def the_index_is_what_the_folders_say(self) -> None:
        reap(self.rig.engine)
        paths = self.rig.paths()
        there = {
            (entry.name.state, entry.name.path, entry.members)
            for batch in resolve(map(parse, paths)).values()
            for entry in batch.entries
        }
        known = {(name.state, name.path, held) for name, held in names_in(self.rig.engine.index)}
        assert drifts(self.rig.engine.index, self.rig.clock.monotonic()) == []
        assert known == there
        assert not {state for state, _, _ in there} & {State.SENT, State.QUARANTINED}

    @invariant()
    def credits_are_the_leases_outstanding(self) -> None:
        for name, credit in self.credits.items():
            assert credit.in_flight == self.model.in_flight(name)

    @invariant()
    def nothing_is_left_where_it_does_not_belong(self) -> None:
        disk = self.rig.disk
        assert disk.scan("new") == disk.scan("quarantine") == []
        assert len(disk.scan("config")) == len(self.model.queues)
        assert {each.name for each in disk.scan("queues")} == set(self.model.queues)

    @invariant()
    def what_is_due_next_is_not_later_than_anything_hidden(self) -> None:
        dues = [
            message.due_monotonic
            for queue in self.model.queues.values()
            for message in queue.messages.values()
            if message.state != "ready"
        ]
        assert self.rig.engine.index.dues.next() == min(dues, default=None)


class StoreStoryOnFolders(StoreStory):
    rig_type = EngineOnFolders


TestTheStoreIsWhatTheModelSays = StoreStory.TestCase
TestTheStoreIsWhatTheModelSays.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None
)
TestTheStoreOnFoldersIsWhatTheModelSays = StoreStoryOnFolders.TestCase
TestTheStoreOnFoldersIsWhatTheModelSays.settings = settings(
    max_examples=10, stateful_step_count=30, deadline=None
)
