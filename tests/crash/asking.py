"""Makes requests of acts, and notes in `Promises` what they may do, before they are made."""

from __future__ import annotations

from acts import Act, Plot
from holding import Consumer, id_in, round_from
from promises import Promises
from redrive_fates import Lead
from spoolrack_store.model.clock import HOUR, MINUTE, Millis
from spoolrack_store.model.errors import InvalidSetting
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
    UpdateQueue,
    VisibilityChange,
)
from spoolrack_store.model.redriving import CancelRedrive, StartRedrive
from spoolrack_store.model.reservations import CommitReservations, Confirm, MarkRead, Release, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.staging import Abort, Publish, Stage
from stage_fates import Attempt, Kept

QUEUES = ("r", "q", "d")
GRAVES = {"q": "d"}
"""The dead-letter queue of each queue that has one."""
RETENTION = Millis(90 * MINUTE)
"""Of the queue `r`; `q` keeps its messages for a day."""
CONSUMERS = 3
TIME_TO_LIVE = Millis(100_000)
"""Of each stage."""
FEW_IDS = 4
"""So many deduplication ids are used over and over."""
ALL_IDS = tuple(f"id {number}" for number in range(FEW_IDS))
WINDOW = Millis(MINUTE)
"""Of the queue `q`, in which an id isn't stored twice."""


def settings_of(queue: str, plot: Plot) -> QueueSettings:
    changes: dict[str, object] = {"relaxed_leases": plot.relaxed}
    if queue in GRAVES:
        changes |= {"max_receives": plot.max_receives, "dead_letter_queue": GRAVES[queue]}
        changes |= {"retention": Millis(24 * HOUR), "deduplication_window": WINDOW}
    if queue == "r":
        changes |= {"retention": RETENTION}
    return QueueSettings().changed(changes)


class Asking:
    def __init__(self, plot: Plot, fates: Promises) -> None:
        self.plot = plot
        self.fates = fates
        self.consumers = [Consumer() for _ in range(CONSUMERS)]
        self.bodies = 0

    def body(self, size: int) -> bytes:
        """A body of its own, of `size` bytes and a few."""
        self.bodies += 1
        body = f"{self.bodies}:".encode() + b"x" * size
        self.fates.bodies.add(body)
        return body

    def request(self, act: Act) -> tuple[Request[object], Consumer | None] | None:
        """The request, and who makes it; None if there is nothing to ask for."""
        if act.word in ("reserve", "confirm", "release", "mark-read", "commit"):
            return self._about_set(act), None
        if act.word in ("stage", "publish", "abort"):
            return self._about_stage(act), None
        if act.word in ("redrive", "end-redrive"):
            return self._about_redrive(act)
        match act.args:
            case (str(queue), int(count), int(size), int(delay)) if act.word == "send":
                return self._send(queue, count, size, Millis(delay)), None
            case (str(queue), int(count), int(size), int(first)) if act.word == "send-id":
                return self._send_ids(queue, count, size, first), None
            case (int(who), str(queue), int(most), int(visibility)) if act.word == "receive":
                timeout = Millis(visibility) if visibility else None
                self.fates.open.receiving.add(queue)
                request = Receive(queue=queue, max_messages=most, visibility=timeout)
                return request, self.consumers[who % CONSUMERS]
            case (int(who), str(whose), int(pick), int(count), *rest):
                consumer = self.consumers[who % CONSUMERS]
                picked = consumer.pick(whose, pick, count)
                if picked is None:
                    return None
                visibility = int(rest[0]) if rest else 0
                return self._by_receipt(act.word, *picked, Millis(visibility)), consumer
            case (str(queue), int(pick), int(count)):
                return self._delete_by_id(queue, pick, count)
            case (str(queue),):
                return self._about_queue(act.word, queue), None
            case (str(queue), int(timeout)):
                return self._update(queue, timeout), None
            case _:
                raise ValueError(f"no request: {act}")

    def _about_set(self, act: Act) -> Request[object]:
        opened, holds = self.fates.open, self.fates.reserved
        match act.word, act.args:
            case "reserve", (str(stream), str(queue), int(seq), int(most), int(hold)):
                opened.receiving.add(queue)
                holds.open.reserving.add((stream, seq))
                span = Millis(hold) if hold else None
                return Reserve(queue=queue, stream=stream, seq=seq, max_messages=most, hold=span)
            case "confirm", (str(stream), int(seq), int(hold)):
                opened.changing.update(holds.ids_of((stream, seq)))
                holds.open.confirming.add((stream, seq))
                return Confirm(stream=stream, seq=seq, hold=Millis(hold) if hold else None)
            case "release", (str(stream), int(seq)):
                opened.changing.update(holds.ids_of((stream, seq)))
                holds.open.releasing.add((stream, seq))
                return Release(stream=stream, seq=seq)
            case "mark-read", (str(stream), int(seq)):
                holds.open.marking.add((stream, seq))
                return MarkRead(stream=stream, seq=seq)
            case "commit", (str(stream), int(up_to)):
                for key in holds.up_to(stream, up_to):
                    opened.doomed.update(holds.ids_of(key))
                holds.open.committing[stream] = max(up_to, holds.open.committing.get(stream, -1))
                return CommitReservations(stream=stream, up_to=up_to)
            case _:
                raise ValueError(f"no request: {act}")

    def _about_redrive(self, act: Act) -> tuple[Request[object], None] | None:
        opened, redrives = self.fates.open, self.fates.redrives
        match act.args:
            case (str(queue), str(destination), int(rate)):
                lead = Lead(queue, "" if destination == "-" else destination)
                opened.redriving.append(lead)
                return StartRedrive(queue=queue, destination=lead.destination, rate=rate), None
            case (str(queue),):
                ids = [id for id, lead in redrives.going_on.items() if lead.queue == queue]
                return (CancelRedrive(id=ids[-1]), None) if ids else None
            case _:
                raise ValueError(f"no request about a redrive: {act}")

    def _send(self, queue: str, count: int, size: int, delay: Millis) -> Request[object]:
        bodies = [self.body(size) for _ in range(count)]
        self.fates.open.calls.append(bodies)
        # Now and then, the last one has attributes.
        attributes: dict[str, str | bytes] = (
            {"name": "value", "raw": b"\0\xff"} if self.bodies % 4 == 0 else {}
        )
        messages = [Outgoing(body=body, delay=delay) for body in bodies[:-1]]
        messages += [Outgoing(body=body, delay=delay, attributes=attributes) for body in bodies[-1:]]
        return Send(queue=queue, messages=messages)

    def _about_stage(self, act: Act) -> Request[object]:
        stages, opened = self.fates.stages, self.fates.open
        match act.args:
            case (str(stage), int(chunk), str(queue), int(count), int(delay)):
                bodies = [self.body(5) for _ in range(count)]
                stages.writing.append((stage, chunk, Kept(queue, tuple(bodies), delay)))
                if any(stage in attempt.stages for attempt in stages.publishing):
                    opened.calls.append(bodies)
                late = Millis(delay) if delay else None
                messages = [Outgoing(body=body, delay=late) for body in bodies]
                return Stage(
                    stage=stage, chunk=chunk, queue=queue, messages=messages, time_to_live=TIME_TO_LIVE
                )
            case (int(number), int(step), str(letters)):
                writer = f"w{number}"
                epoch = max(0, stages.epochs.get(writer, -1) + step)
                known = [body for stage in letters for body in stages.bodies_of(stage)]
                if any(not set(letters).isdisjoint(each.stages) for each in stages.publishing):
                    # Only one of them can: of the other nothing is published, or what was left.
                    stages.publishing.append(Attempt(writer, epoch, tuple(letters)))
                    opened.calls = [call for call in opened.calls if set(call).isdisjoint(known)]
                    each_stage = {stage for each in stages.publishing for stage in each.stages}
                    opened.calls += [stages.bodies_of(stage) for stage in sorted(each_stage)]
                else:
                    stages.publishing.append(Attempt(writer, epoch, tuple(letters)))
                    opened.calls.append(known)
                opened.calls += [
                    list(kept.bodies) for stage, _, kept in stages.writing if stage in letters
                ]
                return Publish(writer=writer, epoch=epoch, stages=list(letters))
            case (str(stage),):
                stages.aborting.add(stage)
                return Abort(stage=stage)
            case _:
                raise ValueError(f"no request: {act}")

    def _send_ids(self, queue: str, count: int, size: int, first: int) -> Request[object]:
        messages = []
        for at in range(count):
            body, id = self.body(size), ALL_IDS[(first + at) % FEW_IDS]
            self.fates.ids.labels[body] = queue, id
            # Some of them may be stored already, so they need not appear together.
            self.fates.open.calls.append([body])
            messages.append(Outgoing(body=body, deduplication_id=id))
        return Send(queue=queue, messages=messages)

    def _by_receipt(
        self, word: str, queue: str, receipts: list[str], visibility: Millis
    ) -> Request[object]:
        opened = self.fates.open
        match word:
            case "delete":
                opened.dying.update(map(id_in, receipts))
                return Delete(queue=queue, targets=[ByReceipt(receipt) for receipt in receipts])
            case "change":
                opened.changing.update(map(id_in, receipts))
                changes = [VisibilityChange(receipt, visibility) for receipt in receipts]
                return ChangeVisibility(queue=queue, changes=changes)
            case "give-back":
                opened.changing.update(map(id_in, receipts))
                return GiveBack(queue=queue, receipts=receipts)
            case _:
                raise ValueError(f"no request by receipt: {word}")

    def _delete_by_id(
        self, queue: str, pick: int, count: int
    ) -> tuple[Request[object], Consumer | None] | None:
        alive = sorted(id for id, fate in self.fates.alive.items() if fate.queue == queue)
        if not alive:
            return None
        # Neighbours, so that it happens that they are all that is left in their batch folder.
        ids = round_from(alive, pick % len(alive), count)
        self.fates.open.dying.update(ids)
        return Delete(queue=queue, targets=[ById(id) for id in ids]), None

    def _about_queue(self, word: str, queue: str) -> Request[object]:
        opened = self.fates.open
        match word:
            case "purge":
                opened.emptied.add(queue)
                return Purge(queue=queue)
            case "delete-queue":
                opened.emptied.add(queue)
                opened.settings.setdefault(queue, []).append(None)
                return DeleteQueue(name=queue)
            case "create":
                settings = settings_of(queue, self.plot)
                if queue not in self.fates.queues:
                    opened.settings.setdefault(queue, []).append(settings)
                return CreateQueue(name=queue, settings=settings)
            case _:
                raise ValueError(f"no request about a queue: {word}")

    def _update(self, queue: str, timeout: int) -> Request[object]:
        changes: dict[str, object] = {"visibility_timeout": Millis(timeout)}
        for there in (self.fates.queues.get(queue), settings_of(queue, self.plot)):
            if there is not None:
                try:
                    changed = there.changed(changes)
                except InvalidSetting:
                    continue
                self.fates.open.settings.setdefault(queue, []).append(changed)
        return UpdateQueue(name=queue, changes=changes)
