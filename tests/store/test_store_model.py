"""Random stories of the whole store, told to the engine and to a model of a few dictionaries.

After every commit both must say the same about every message; the index must be what the folders say;
and all of it must survive a kill at any seam of a commit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from engine_rig import EngineRig
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from memory_disk import MemoryDisk
from spoolrack_store.engine.order import Work
from spoolrack_store.files.disk import Disk, LocalDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Outgoing,
    Purge,
    Receive,
    Request,
    Send,
    Target,
    UpdateQueue,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings
from store_model import StoreModel
from story_requests import (
    CONSUMERS,
    NEVER_MADE,
    QUEUES,
    all_settings,
    names,
    outgoing,
    picks,
    soon,
    visibilities,
)


class StoreStory(RuleBasedStateMachine):
    """Requests gather until a commit, as they do before the committer's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = EngineRig(self.disk())
        self.model = StoreModel()
        self.requests: list[Request[Any]] = []
        self.receipts: list[str] = []
        self.ids: list[str] = [NEVER_MADE]
        self.credits: dict[str, Credits] = {}
        self._renew_credits()

    def disk(self) -> Disk:
        return MemoryDisk()

    def _renew_credits(self) -> None:
        self.credits = {name: Credits(limit, lambda: None) for name, limit in CONSUMERS.items()}
        self.model.limits = dict(CONSUMERS)

    # What is asked.

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
        changes = {field: getattr(wanted, field) for field in wanted.__dataclass_fields__}
        self._ask(UpdateQueue(name=name, changes=changes), now)

    @rule(name=names, really=st.integers(0, 7), now=soon)
    def delete_queue(self, name: str, really: int, now: bool) -> None:
        if really == 0:
            self._ask(DeleteQueue(name=name), now)

    @rule(name=names, really=st.integers(0, 5), now=soon)
    def purge(self, name: str, really: int, now: bool) -> None:
        if really == 0:
            self._ask(Purge(queue=name), now)

    @rule(name=names, messages=st.lists(outgoing, min_size=1, max_size=6), now=soon)
    def send(self, name: str, messages: list[Outgoing], now: bool) -> None:
        self._ask(Send(queue=name, messages=messages), now)

    @rule(name=names, count=st.integers(1, 4), now=soon)
    def send_plainly(self, name: str, count: int, now: bool) -> None:
        self._ask(Send(queue=name, messages=[Outgoing(body=b"p")] * count), now)

    @rule(
        name=names,
        most=st.sampled_from([0, 1, 2, 3, 10, 10]),
        bytes=st.sampled_from([1, 12, 1_000, 1_000]),
        visibility=visibilities,
        consumer=st.sampled_from([None, *CONSUMERS]),
        now=soon,
    )
    def receive(
        self,
        name: str,
        most: int,
        bytes: int,
        visibility: int | None,
        consumer: str | None,
        now: bool,
    ) -> None:
        self._ask(
            Receive(
                queue=name,
                max_messages=most,
                max_bytes=bytes,
                visibility=None if visibility is None else Millis(visibility),
                credits=None if consumer is None else self.credits[consumer],
            ),
            now,
        )

    @rule(name=names, picks=picks, by_id=st.booleans(), now=soon)
    def delete(self, name: str, picks: list[int], by_id: bool, now: bool) -> None:
        targets: list[Target] = []
        for pick in picks:
            receipt = self._receipt(name, pick)
            if by_id or receipt is None:
                targets.append(ById(self._id(name, pick)))
            else:
                targets.append(ByReceipt(receipt))
        self._ask(Delete(queue=name, targets=targets), now)

    @rule(
        name=names,
        picks=picks,
        visibility=st.sampled_from([0, 0, 1, 2_000, 40_000, -1]),
        other=st.sampled_from([0, 2_000]),
        now=soon,
    )
    def change(self, name: str, picks: list[int], visibility: int, other: int, now: bool) -> None:
        changes = []
        for pick in picks:
            receipt = self._receipt(name, pick)
            if receipt is not None:
                span = other if pick % 5 == 0 else visibility
                changes.append(VisibilityChange(receipt, Millis(span)))
        self._ask(ChangeVisibility(queue=name, changes=changes), now)

    @rule(name=names, picks=picks, now=soon)
    def give_back(self, name: str, picks: list[int], now: bool) -> None:
        receipts = [self._receipt(name, pick) for pick in picks]
        self._ask(GiveBack(queue=name, receipts=[each for each in receipts if each]), now)

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

    def commit(self) -> None:
        work, told = self._apply()
        outcomes = self.rig.complete(work)
        self.model.finish()
        self._after()
        assert outcomes is work.outcomes
        self._compare(told, work)

    @rule()
    def tick(self) -> None:
        self.model.begin(self.rig.clock.wall(), self.rig.clock.monotonic())
        self.rig.engine.tick()
        self.model.tick()
        work, told = self._apply()
        self.rig.complete(work)
        self.model.finish()
        self._after()
        self._compare(told, work)

    @rule(synced=st.booleans())
    def die_in_a_commit(self, synced: bool) -> None:
        """After `apply`, or after `sync`: nobody has heard an answer, and all of it took place."""
        work, told = self._apply()
        if synced:
            self.rig.engine.sync(work)
        self._compare(told, work)
        self._restart()

    @rule()
    def die(self) -> None:
        self.requests = []
        self._restart()

    def _restart(self) -> None:
        self.rig.restart()
        self._renew_credits()
        self.model.die(self.rig.clock.wall(), self.rig.clock.monotonic())
        self._after()
        assert self.rig.engine.quarantined == 0
        assert self.rig.recovery.undone == 0

    def _after(self) -> None:
        """What a commit that nobody asked for brings about."""
        self.model.begin(self.rig.clock.wall(), self.rig.clock.monotonic())
        self.rig.commit()
        self.model.finish()

    @rule(most=st.integers(1, 100))
    def reap(self, most: int) -> None:
        self.rig.engine.reaper.reap(most)
        assert not self.rig.engine.reaper.refused

    @rule(millis=st.sampled_from([1, 500, 1_000, 5_000, 30_000]))
    def go_by(self, millis: int) -> None:
        self.rig.clock.advance(millis)

    @rule(millis=st.sampled_from([-3_600_000, -1_000, 1_000, 15_000]))
    def step_wall(self, millis: int) -> None:
        self.rig.clock.step_wall(millis)

    def _apply(self) -> tuple[Work, list[object]]:
        """Apply what has gathered, to the engine and to the model."""
        requests, self.requests = self.requests, []
        self.model.begin(self.rig.clock.wall(), self.rig.clock.monotonic())
        work = self.rig.engine.apply(requests)
        outcomes = work.outcomes
        told: list[object] = [None] * len(requests)
        model = self.model
        for kind in (CreateQueue, UpdateQueue, DeleteQueue, Purge, Send):
            for at, request in enumerate(requests):
                if not isinstance(request, kind):
                    continue
                match request:
                    case CreateQueue():
                        told[at] = model.create(request.name, request.settings)
                    case UpdateQueue():
                        wanted = QueueSettings().changed(request.changes)
                        told[at] = model.update(request.name, wanted)
                    case DeleteQueue():
                        told[at] = model.delete_queue(request.name)
                    case Purge():
                        told[at] = model.purge(request.queue)
                    case Send():
                        results = outcomes[at] if isinstance(outcomes[at], list) else []
                        told[at] = model.send(request.queue, request.messages, results)
                        self.ids += [r.id for r in results if not isinstance(r, StoreError)]
        deletes = [(at, each) for at, each in enumerate(requests) if isinstance(each, Delete)]
        answers = model.delete([(each.queue, each.targets) for _, each in deletes])
        for (at, _), answer in zip(deletes, answers, strict=True):
            told[at] = answer
        for at, request in enumerate(requests):
            if isinstance(request, ChangeVisibility):
                told[at] = model.change(request.queue, request.changes)
        for at, request in enumerate(requests):
            if isinstance(request, GiveBack):
                told[at] = model.give_back(request.queue, request.receipts)
        for at, request in enumerate(requests):
            if isinstance(request, Receive):
                consumer = next((n for n, c in self.credits.items() if c is request.credits), None)
                wanted_messages = model.receive(request, consumer)
                if isinstance(wanted_messages, str):
                    told[at] = wanted_messages
                    continue
                told[at] = [(m.id, m.body, m.receives, m.first_receive, m.due) for m in wanted_messages]
                got = outcomes[at]
                assert isinstance(got, list), got
                assert [m.id for m in got] == [m.id for m in wanted_messages]
                model.leased(got)
                self.receipts += [message.receipt for message in got]
        return work, told

    def _compare(self, told: list[object], work: Work) -> None:
        for wanted, outcome in zip(told, work.outcomes, strict=True):
            if isinstance(wanted, str):
                assert type(outcome).__name__ == wanted
            elif isinstance(wanted, list) and wanted and isinstance(wanted[0], tuple):
                assert wanted == [(m.id, m.body, m.receives, m.first_receive, m.due) for m in outcome]
            elif isinstance(wanted, list):
                assert len(wanted) == len(outcome)
                for one, other in zip(wanted, outcome, strict=True):
                    self._compare_one(one, other)
            elif wanted is not None:
                assert wanted == outcome
            else:
                assert not isinstance(outcome, StoreError), outcome

    def _compare_one(self, wanted: object, outcome: object) -> None:
        if isinstance(wanted, str):
            assert type(outcome).__name__ == wanted
        else:
            assert wanted == outcome

    # What always holds.

    @invariant()
    def the_engine_and_the_model_say_the_same(self) -> None:
        known = {
            (each.queue, each.id): (each.state, each.receives, each.first_receive, each.due)
            for each in self.rig.known()
        }
        modelled = {
            (name, m.id): (m.state, m.receives, m.first_receive, m.due)
            for name, queue in self.model.queues.items()
            for m in queue.messages.values()
        }
        assert known == modelled
        living = {name: live.settings for name, live in self.rig.engine.catalog.queues.items()}
        assert living == {name: queue.settings for name, queue in self.model.queues.items()}

    @invariant()
    def the_index_is_what_the_folders_say(self) -> None:
        self.rig.check()

    @invariant()
    def credits_are_the_leases_outstanding(self) -> None:
        for name, credit in self.credits.items():
            assert credit.in_flight == self.model.in_flight(name)

    @invariant()
    def nothing_is_left_where_it_does_not_belong(self) -> None:
        disk = self.rig.disk
        assert disk.scan("new") == []
        assert disk.scan("quarantine") == []
        assert len(disk.scan("config")) == len(self.model.queues)
        assert {each.name for each in disk.scan("queues")} == set(self.model.queues)
        assert not self.model.gone & {each.id for each in self.rig.known()}

    @invariant()
    def what_is_due_next_is_not_later_than_anything_hidden(self) -> None:
        dues = [
            message.due_monotonic
            for queue in self.model.queues.values()
            for message in queue.messages.values()
            if message.state != "ready"
        ]
        assert self.rig.engine.next_due() == min(dues, default=None)


class StoryOnRealFolders(StoreStory):
    def disk(self) -> Disk:
        self._folder = tempfile.TemporaryDirectory()
        return LocalDisk(Path(self._folder.name))

    def teardown(self) -> None:
        assert isinstance(self.rig.disk, LocalDisk)
        self.rig.die()
        self.rig.disk.close()
        self._folder.cleanup()


TestTheStoreIsWhatTheModelSays = StoreStory.TestCase
TestTheStoreIsWhatTheModelSays.settings = settings(max_examples=150, stateful_step_count=40)
TestTheStoreOnRealFoldersIsWhatTheModelSays = StoryOnRealFolders.TestCase
TestTheStoreOnRealFoldersIsWhatTheModelSays.settings = settings(max_examples=15, stateful_step_count=30)
