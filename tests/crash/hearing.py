"""Notes in `Promises` what is answered, and says which answers break a promise by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from acts import Plot
from heard_order import heard_at
from holding import Consumer, id_in, queue_of, token_in
from holds import Hold
from message_fate import Fate, Now
from pending import Open
from promises import Broken, Kind, Promises
from redrive_fates import Lead
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    DiskError,
    DiskFull,
    QueueNotFound,
    ReservationNotFound,
    StoreError,
)
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Message,
    Outgoing,
    Purge,
    Queue,
    Receive,
    Request,
    Send,
    Sent,
    UpdateQueue,
    VisibilityChange,
)
from spoolrack_store.model.redriving import CancelRedrive, Redrive, StartRedrive
from spoolrack_store.model.reservations import (
    CommitReservations,
    Committed,
    Confirm,
    MarkRead,
    Release,
    Reservation,
    Reserve,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.staging import Abort, Publish, Stage
from stage_hearing import StageHearing
from step_disk import Failing, Fault

Lying = Callable[[str, int], Mapping[str, Fate | None]]
"""Says how the messages of a set lie; None if one is gone."""


class Hearing:
    may_lag = False
    """Whether a set may be held for as long as nobody has noted that its hold is over."""

    def __init__(self, fates: Promises, plot: Plot, lying: Lying) -> None:
        self.fates = fates
        self.lying = lying
        self._plot = plot
        self._now = Now(0, 0)
        self._failed = False
        """Whether a call of the disk failed during the commit that is heard."""
        self._failing: Failing | None = None
        self.messages = 0
        """Acknowledged sends."""
        self.stages = StageHearing(fates)
        self.ended: set[str] = set()
        """Queues that were deleted since what is answered was done."""
        self.is_deaf = False
        """Whether the engine that answers isn't told what others do, and lists it every second."""

    def hear(
        self,
        told: Sequence[tuple[Request[object], Consumer | None, object]],
        *,
        before: Open,
        now: Now,
        failed: bool,
        failing: Failing | None,
    ) -> None:
        """Take in the answers of one commit; `before` is what was open before it.

        What it opened is closed by that, unless a call of the disk has `failed`.
        """
        asked, self.fates.open = self.fates.open, before
        self._now, self._failed, self._failing = now, failed, failing
        for request, who, outcome in sorted(told, key=heard_at):
            self._check_error(request, outcome)
            self._hear(request, who, outcome)
        if failed:
            before.changing |= asked.changing
            before.receiving |= asked.receiving

    def _hear(self, request: Request[object], who: Consumer | None, outcome: object) -> None:
        match request:
            case Send(queue=queue, messages=messages):
                self._sent(queue, messages, outcome)
            case Receive():
                if isinstance(outcome, list):
                    assert who is not None
                    for message in outcome:
                        self._received(message, who)
            case Delete(queue=queue, targets=targets):
                if isinstance(outcome, list):
                    for target, result in zip(targets, outcome, strict=True):
                        if isinstance(target, ByReceipt):
                            self._deleted_by_receipt(target, result, who)
                        else:
                            self._deleted_by_id(queue, target, result)
            case ChangeVisibility(changes=changes):
                if isinstance(outcome, list):
                    for change, result in zip(changes, outcome, strict=True):
                        self._changed(change, result, who)
            case GiveBack(receipts=receipts):
                if outcome is None:
                    for receipt in receipts:
                        self._given_back(receipt, who)
            case Reserve() | Confirm() | Release() | MarkRead():
                self._about_set(request, outcome)
            case CommitReservations():
                self._committed(request, outcome)
            case CreateQueue(name=queue) | UpdateQueue(name=queue):
                if isinstance(outcome, Queue):
                    self._set(queue, outcome.settings, request)
            case Stage():
                self.stages.staged(request, outcome, self._now)
            case Publish():
                is_failing = self._failing is not None
                sent = self.stages.published(request, outcome, self._now, is_failing=is_failing)
                self.messages += sent
            case Abort(stage=stage):
                self.stages.aborted(stage, outcome)
            case StartRedrive(queue=queue, destination=destination):
                if isinstance(outcome, Redrive):
                    self.fates.redrives.began(outcome.id, Lead(queue, destination))
            case CancelRedrive(id=id):
                if isinstance(outcome, Redrive):
                    self.fates.redrives.ended(id, outcome.state)
            case DeleteQueue(name=queue):
                if not isinstance(outcome, StoreError):
                    self.fates.emptied(queue, is_sure=self._failing is None)
                    self.fates.queues.pop(queue, None)
                    self.fates.ids.forget(queue)
            case Purge(queue=queue):
                if not isinstance(outcome, StoreError):
                    self.fates.emptied(queue, is_sure=self._failing is None)
                elif self._failed:
                    # It leaves the rest in place.
                    self.fates.open.emptied.add(queue)
            case _:
                raise AssertionError(request)

    def _check_error(self, request: Request[object], outcome: object) -> None:
        outcomes = outcome if isinstance(outcome, list) else [outcome]
        errors = [each for each in outcomes if isinstance(each, DiskError | DiskFull)]
        errors = [each for each in errors if not self.is_excused(each)]
        if errors and not self._failed:
            raise Broken(Kind.OTHER, f"{request} met {errors[0]}, and nothing failed")
        if errors and self._is_full and isinstance(request, Delete | Receive):
            raise Broken(Kind.OTHER, f"on a full disk, {request} met {errors[0]}")

    def is_excused(self, error: object) -> bool:
        """Whether the disk may seem to refuse this, though no call of it has failed."""
        return False

    def is_being_ended(self, key: tuple[str, int]) -> bool:
        """Whether a release or a commit of the set is done, and not answered yet."""
        return False

    def _sent(self, queue: str, messages: Sequence[Outgoing], outcome: object) -> None:
        results = outcome if isinstance(outcome, list) else [outcome] * len(messages)
        for message, result in zip(messages, results, strict=True):
            if not isinstance(result, Sent):
                self.fates.refused.add(message.body)
                continue
            if result.is_duplicate:
                self.fates.refused.add(message.body)
                if queue not in self.ended:
                    self.fates.repeated(queue, message.deduplication_id, result.id, self._now)
                continue
            if message.deduplication_id and queue not in self.ended:
                self.fates.took(queue, message.deduplication_id, result.id)
            self.messages += 1
            fate = Fate(body=message.body, queue=queue)
            if message.delay:
                ends = self._now.monotonic + message.delay
                fate = replace(fate, due=self._now.wall + message.delay, ends=ends)
            self.fates.sent(result.id, fate)

    def _received(self, message: Message, who: Consumer) -> None:
        assert message.receipt is not None
        assert message.due is not None
        lease = Fate(
            body=message.body,
            queue=message.queue,
            receives=message.receives,
            token=token_in(message.receipt),
            due=message.due,
            ends=self._now.monotonic + message.due - self._now.wall,
        )
        self.fates.leased(message.id, lease, self._now)
        who.take(message.receipt)

    @property
    def _is_full(self) -> bool:
        return self._failing is not None and self._failing.fault is Fault.FULL

    def _holds(self, receipt: str) -> bool | None:
        """Whether the receipt is good; None if that isn't known."""
        id, token = id_in(receipt), token_in(receipt)
        holds = self.fates.holds(id, token, self._now)
        fate = self.fates.alive.get(id)
        if holds is False and self._failing is not None and fate is not None and fate.token == token:
            # The lease is over, but the disk may have refused to bring the message back.
            return None
        return holds

    def _deleted_by_receipt(
        self, target: ByReceipt, result: StoreError | None, who: Consumer | None
    ) -> None:
        id, holds = id_in(target.receipt), self._holds(target.receipt)
        if result is None:
            if holds is False and id in self.fates.alive:
                raise Broken(Kind.OTHER, f"the receipt of an old lease deleted {id}")
            self.fates.deleted(id)
        elif holds and not self._failed:
            raise Broken(Kind.OTHER, f"a good receipt didn't delete {id}: {result}")
        if who is not None and not isinstance(result, DiskError | DiskFull):
            who.use_up(target.receipt)

    def _deleted_by_id(self, queue: str, target: ById, result: StoreError | None) -> None:
        is_refused = self._failed and isinstance(result, DiskError)
        if result is None:
            self.fates.deleted(target.id)
        elif self._failing is not None or is_refused or self.is_excused(result):
            pass
        elif self.fates.must_be_in(queue, target.id, self._now):
            raise Broken(Kind.OTHER, f"{target.id} wasn't found to be deleted: {result}")

    def _changed(
        self, change: VisibilityChange, result: Millis | StoreError | None, who: Consumer | None
    ) -> None:
        id, holds = id_in(change.receipt), self._holds(change.receipt)
        if isinstance(result, StoreError):
            if holds and not self._failed:
                raise Broken(Kind.OTHER, f"a good receipt can't change {id}: {result}")
        elif holds is False or id in self.fates.dead:
            # Whoever answered may not know yet that the message, or its queue, is deleted.
            if not self.is_deaf and queue_of(change.receipt) in self.fates.queues:
                raise Broken(Kind.OTHER, f"the receipt of an old lease changed {id}")
        elif result is None:
            self.fates.released(id, undo=False)
        else:
            self.fates.extended(id, result, self._now)
        if who is not None and not isinstance(result, int | DiskError | DiskFull):
            who.use_up(change.receipt)

    def _given_back(self, receipt: str, who: Consumer | None) -> None:
        holds = self._holds(receipt)
        if holds:
            self.fates.released(id_in(receipt), undo=True)
        elif holds is None:
            self.fates.open.changing.add(id_in(receipt))
        if who is not None:
            who.use_up(receipt)

    def _about_set(self, request: Reserve | Confirm | Release | MarkRead, outcome: object) -> None:
        key, fates, holds = (request.stream, request.seq), self.fates, self.fates.reserved
        was, is_held = holds.sets.get(key), holds.is_held(key, self._now.monotonic)
        if isinstance(request, Release) and isinstance(outcome, ReservationNotFound):
            return  # It may have been made after that; whether it is there is judged by itself.
        is_lost = was is not None and not is_held and not (self.may_lag and not was.is_lost)
        if isinstance(outcome, StoreError):
            is_sure = is_held and not self._failed and not self.is_being_ended(key)
            if is_sure and not isinstance(outcome, QueueNotFound):
                raise Broken(Kind.OTHER, f"{request} of a set that is held: {outcome}")
            return
        if is_lost and not isinstance(request, Release):
            raise Broken(Kind.OTHER, f"{request} of a set that isn't held: {outcome}")
        if isinstance(request, Release):
            for id in holds.ids_of(key):
                fates.released(id, undo=False)
            if was is not None:
                holds.sets[key] = replace(was, is_lost=True)
        elif isinstance(request, MarkRead):
            if was is not None:
                holds.sets[key] = replace(was, is_read=True)
        elif isinstance(outcome, Reservation):
            ends = self._now.monotonic + outcome.expires_at - self._now.wall
            lying = self.lying(*key)
            if was is None:
                for id, lease in lying.items():
                    if lease is not None:
                        fates.leased(id, lease, self._now)
            elif isinstance(request, Confirm):
                for id in lying:
                    fates.extended(id, outcome.expires_at, self._now)
            else:
                if outcome.expires_at != was.due or any(id not in was.ids for id in lying):
                    raise Broken(Kind.OTHER, f"another set under the name {key}")
                return
            ids = tuple(lying) if was is None else was.ids
            is_read = was is not None and was.is_read
            holds.sets[key] = Hold(outcome.queue, ids, outcome.expires_at, ends, is_read=is_read)

    def _committed(self, request: CommitReservations, outcome: object) -> None:
        fates, holds, stream = self.fates, self.fates.reserved, request.stream
        keys = holds.up_to(stream, request.up_to)
        if not isinstance(outcome, Committed):
            if self._failed:
                # What was begun is finished sooner or later.
                for key in keys:
                    fates.open.dying.update(holds.ids_of(key))
            return
        for key in keys:
            is_held = holds.is_held(key, self._now.monotonic)
            is_sure = is_held and not self._failing and not self.is_being_ended(key)
            if is_sure and key[1] in outcome.lost:
                raise Broken(Kind.OTHER, f"the set {key} is held, and was said to be lost")
            if key[1] in outcome.lost:
                continue
            if not is_held and not (self.may_lag and not holds.sets[key].is_lost):
                raise Broken(Kind.OTHER, f"the set {key} was lost, and is committed")
            for id in holds.ids_of(key):
                self.deleted_with_its_set(id)
        holds.committed[stream] = max(request.up_to, holds.committed.get(stream, -1))

    def deleted_with_its_set(self, id: str) -> None:
        """A commit has deleted it, which is durable."""
        self.fates.deleted(id)

    def _set(self, queue: str, settings: QueueSettings, request: Request[object]) -> None:
        if queue not in self.fates.queues and any(
            fate.queue == queue for fate in self.fates.alive.values()
        ):
            raise Broken(Kind.OTHER, f"the queue {queue} is new, and messages of it are owed")
        self.fates.queues[queue] = settings
        self.fates.ids.are(self.fates.queues)
