"""Asks for and hears a commit where several engines share a disk: in two parts, as it is done.

What it leased, released or deleted the others see as soon as it is applied. What it sent, leased by the
same commit or not, and that a queue is deleted, they see only when it is durable; and only then do a
committed set's messages go. It is answered then, and what it promises is sealed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from acts import Act, Plot
from asking import Asking
from hearing import Hearing, Lying
from holding import Consumer
from holds import Holds
from message_fate import Now
from pending import Open
from shared_promises import SharedPromises, Touched
from spoolrack_store.engine.order import Work
from spoolrack_store.files.folders import NameTaken
from spoolrack_store.model.operations import (
    CreateQueue,
    DeleteQueue,
    Queue,
    Receive,
    Request,
    Send,
    Sent,
    UpdateQueue,
)
from spoolrack_store.model.redriving import CancelRedrive, StartRedrive
from spoolrack_store.model.reservations import CommitReservations, Confirm, MarkRead, Release, Reserve
from step_disk import Failing

Asked = tuple[Request[object], Consumer | None]
_LATE = Send | DeleteQueue | Release | StartRedrive | CancelRedrive
_SETS = Reserve | Confirm | Release | MarkRead | CommitReservations


@dataclass(slots=True)
class UnderWay:
    """A commit that is applied, and isn't answered."""

    asked: list[Asked]
    work: Work
    now: Now
    order: int
    """How many had been applied before it."""
    touched: Touched
    handed: list[tuple[Consumer, Consumer]]
    """Who will hold what, once it is answered."""
    failed: bool
    """Whether a call of the disk failed while it was applied."""
    born: set[str]
    """What it has both sent and leased."""
    sets: Holds
    """What there was of reservations when it had been applied."""
    doomed: list[str]
    """Ids in sets that it has committed."""
    is_synced: bool = False


class _Hearing(Hearing):
    may_lag = True

    def __init__(self, fates: SharedPromises, plot: Plot, lying: Lying) -> None:
        super().__init__(fates, plot, lying)
        self.doomed: list[str] = []

    def deleted_with_its_set(self, id: str) -> None:
        """A commit deletes it before it is answered; until then others may see it, or not."""
        self.doomed.append(id)
        self.fates.open.doomed.add(id)

    def is_excused(self, error: object) -> bool:
        """What one that died has left unfinished is in the way until another takes it over."""
        return isinstance(error, NameTaken) or "not in its queue yet" in str(error)

    def is_being_ended(self, key: tuple[str, int]) -> bool:
        assert isinstance(self.fates, SharedPromises)
        stream, seq = key
        return any(
            key in opened.releasing or seq <= opened.committing.get(stream, -1)
            for opened in self.fates.sets_under_way.values()
        )


class SharedHearing:
    def __init__(
        self, plot: Plot, fates: SharedPromises, asking: Asking, lying: Callable[[str], Lying]
    ) -> None:
        """`lying` says how the messages of sets lie that an engine knows."""
        self._fates = fates
        self._asking = asking
        self._lying = lying
        self._hearing = _Hearing(fates, plot, lying(""))
        self._applied = 0
        self._ended: dict[str, int] = {}
        """By queue: how many commits had been applied when its last deletion was."""

    def answers_deaf(self, is_deaf: bool) -> None:
        """Whether the engine that answers next isn't told what others do."""
        self._hearing.is_deaf = is_deaf

    @property
    def messages(self) -> int:
        """Acknowledged sends."""
        return self._hearing.messages

    def ask(self, name: str, acts: list[Act]) -> list[Asked]:
        """The requests of the engine's next commit; from now on it may have done them, or not."""
        fates = self._fates
        opened = fates.under_way.get(name, Open()).copy()
        opened.calls, opened.settings, opened.redriving = [], {}, []
        fates.open = fates.under_way[name] = opened
        fates.reserved.open = fates.begin_sets(name)
        asked = [each for act in acts if (each := self._asking.request(act)) is not None]
        fates.reopen()
        return asked

    def applied(
        self,
        name: str,
        asked: list[Asked],
        work: Work,
        now: Now,
        *,
        failed: bool,
        failing: Failing | None,
    ) -> UnderWay:
        """Hear what everybody can see now."""
        fates = self._fates
        own, before = fates.under_way[name], fates.without(name)
        born = _sent_by(asked, work) & _leased_by(asked, work)
        commit = UnderWay(asked, work, now, self._applied, {}, [], failed, born, Holds(), [])
        self._applied += 1
        fates.assigned |= born
        told: list[tuple[Request[object], Consumer | None, object]] = []
        deleted = set()
        for (request, who), outcome in zip(asked, work.outcomes, strict=True):
            if isinstance(request, DeleteQueue):
                deleted.add(request.name)
            elif isinstance(request, Receive):
                assert who is not None
                hand = Consumer()
                commit.handed.append((who, hand))
                told.append((request, hand, _only(outcome, lambda each: each not in born)))
            elif not isinstance(request, _LATE):
                told.append((request, who, outcome))
        own.emptied &= deleted
        before.emptied |= deleted
        before.calls += own.calls
        before.redriving += own.redriving
        for queue, settings in own.settings.items():
            before.settings.setdefault(queue, []).extend(settings)
        queues = dict(fates.queues)
        fates.open, fates.touched = own.copy(), {}
        self._hearing.lying, self._hearing.doomed = self._lying(name), commit.doomed
        self._hearing.hear(told, before=before, now=now, failed=failed, failing=failing)
        commit.touched = fates.touched
        commit.sets = fates.reserved.copy()
        now_are, fates.queues = fates.queues, queues
        fates.note_queues(now_are)
        own.changing |= born
        fates.open.changing |= born
        return commit

    def answered(self, name: str, commit: UnderWay, *, failed: bool, failing: Failing | None) -> None:
        """All of it is durable, and its answers are out."""
        fates = self._fates
        for who, hand in commit.handed:
            for receipt in reversed(hand.held):
                who.take(receipt)
        fates.seal(
            {
                id: fate
                for id, fate in commit.touched.items()
                if fate is None or not self._is_relaxed(fate.queue)
            }
        )
        late = [
            (request, who, outcome)
            for (request, who), outcome in zip(commit.asked, commit.work.outcomes, strict=True)
            if isinstance(request, _LATE) and not self._is_made_again(request)
        ]
        # What couldn't be moved to its lease is told to nobody, and comes to its queue one day.
        told = commit.born & _leased_by(commit.asked, commit.work)
        fates.assigned -= told
        fates.under_way[name].changing -= told
        for (request, who), outcome in zip(commit.asked, commit.work.outcomes, strict=True):
            if isinstance(request, Receive):
                late.append((request, who, _only(outcome, told.__contains__)))
        fates.touched = {}
        fates.open = fates.under_way[name]
        if failed:
            fates.open.dying.update(commit.doomed)
        else:
            for id in commit.doomed:
                fates.deleted(id)
        others = fates.without(name)
        self._hearing.ended = {
            queue
            for queue in {request.queue for request, _ in commit.asked if isinstance(request, Send)}
            if self._ended.get(queue, -1) > commit.order
            or queue not in fates.queues
            or None in others.settings.get(queue, ())
        }
        self._hearing.hear(
            late,
            before=fates.without(name),
            now=commit.now,
            failed=failed or commit.failed,
            failing=failing,
        )
        for (request, _), outcome in zip(commit.asked, commit.work.outcomes, strict=True):
            if isinstance(request, CreateQueue | UpdateQueue | DeleteQueue):
                answered = outcome.settings if isinstance(outcome, Queue) else outcome
                if answered == fates.queues.get(request.name):
                    fates.seal_queue(request.name)
        for request, _, outcome in late:
            if isinstance(request, DeleteQueue):
                self._ended[request.name] = max(commit.order, self._ended.get(request.name, 0))
            elif isinstance(request, Send) and isinstance(outcome, list):
                self._forget_if_ended(request.queue, commit, outcome)
        fates.seal(fates.touched)
        if any(isinstance(request, _SETS) for request, _ in commit.asked):
            self._seal_sets(name, commit)
        # Of what was just becoming a dead letter in a deleted queue, the next look tells.
        fates.under_way[name].dying |= fates.open.dying
        fates.under_way[name].calls = []
        fates.under_way[name].settings = {}
        fates.under_way[name].redriving = []
        fates.under_way[name].emptied = set()
        fates.reopen()

    def _seal_sets(self, name: str, commit: UnderWay) -> None:
        """Who has reserved nothing, since nothing was ready, has made nothing durable: nor what one who
        died under this name has left."""
        if commit.work.commit is None:
            return
        self._fates.seal_sets(name, commit.sets, commit.order)

    def _is_made_again(self, request: Request[object]) -> bool:
        """Others have emptied the queue that is deleted, and made another, before that was answered."""
        return isinstance(request, DeleteQueue) and request.name in self._fates.queues

    def _forget_if_ended(self, queue: str, commit: UnderWay, results: list[object]) -> None:
        """What was sent before the queue was deleted, and answered afterwards, went with it."""
        if self._ended.get(queue, -1) > commit.order:
            for result in results:
                if isinstance(result, Sent):
                    self._fates.deleted(result.id)

    def _is_relaxed(self, queue: str) -> bool:
        settings = self._fates.queues.get(queue)
        return settings is not None and settings.relaxed_leases


def _sent_by(asked: list[Asked], work: Work) -> set[str]:
    return {
        result.id
        for (request, _), outcome in zip(asked, work.outcomes, strict=True)
        if isinstance(request, Send) and isinstance(outcome, list)
        for result in outcome
        if isinstance(result, Sent) and not result.is_duplicate
    }


def _leased_by(asked: list[Asked], work: Work) -> set[str]:
    return {
        message.id
        for (request, _), outcome in zip(asked, work.outcomes, strict=True)
        if isinstance(request, Receive) and isinstance(outcome, list)
        for message in outcome
    }


def _only(outcome: object, is_meant: Callable[[str], bool]) -> object:
    """Of what a receive has leased."""
    if not isinstance(outcome, list):
        return outcome
    return [message for message in outcome if is_meant(message.id)]
