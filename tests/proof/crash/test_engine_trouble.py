"""The engine goes on when the disk refuses calls: each answer is right, nothing is lost, and the index
is what the folders are."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.moves import Moves
from spoolrack_store.engine.part import RETRY
from spoolrack_store.engine.sharing import Sharing
from spoolrack_store.model.errors import DiskError, DiskFull, StoreError
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    Purge,
    Request,
    Send,
    SendResults,
)

from tests.proof.crash.stories import ALONE_AND_SHARED, Bug, Run, expect_broken
from tests.support.engine_story import GONE, Broken, Seen, Story, caching, id_of
from tests.support.linked_disk import LinkedDisk
from tests.support.memory_disk import fails
from tests.support.power_disk import Model
from tests.support.recount import drifts, paths_in

CODES = (
    *(errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EACCES, errno.ENOMEM),
    *(errno.EMLINK, errno.EPERM),
)


class TroubledDisk(LinkedDisk):
    """Refuses calls: `times` of them, after so many more."""

    code = 0
    times = 0
    calls_left = 0
    refused = 0

    def trouble(self, code: int, skip: int, times: int) -> None:
        self.code, self.calls_left, self.times, self.refused = code, skip, times, 0

    def heal(self) -> None:
        self.times = 0

    def _may_fail(self, path: str) -> None:
        if self.calls_left:
            self.calls_left -= 1
            return
        self.times -= 1
        self.refused += 1
        raise fails(self.code, path)


def _fails_first(name: str) -> Callable[..., Any]:
    honest = getattr(LinkedDisk, name)

    def call(self: TroubledDisk, *arguments: Any, **named: Any) -> Any:
        if self.times:
            self._may_fail(next((each for each in arguments[1::-1] if isinstance(each, str)), "."))
        return honest(self, *arguments, **named)

    return call


for _name in (
    *("link", "rename_new", "create", "write_at", "unlink", "read", "open", "scan", "facts"),
    *("make_folder", "space", "set_aside", "lock"),
):
    setattr(TroubledDisk, _name, _fails_first(_name))


class TroubledStory(Story):
    """A third of the commits are troubled."""

    disk_kind = TroubledDisk
    disk: TroubledDisk  # type: ignore[assignment]
    start_deaths = 0.0
    refused = 0
    """Calls that the disk has refused."""
    taken: frozenset[str] = frozenset()
    """The names that were moved away by hand."""

    def __init__(self, *of: Any, has_hands: bool = False, **rest: Any) -> None:
        self.has_hands = has_hands
        super().__init__(*of, **rest)

    def _step(self) -> None:
        if self.has_hands and self.random.random() < 0.06:
            self._take_away()
        super()._step()

    def _take_away(self) -> None:
        """Move the only name of a file out of the root, as a person might."""
        paths = self._paths()
        path = self.random.choice([*paths, ""])
        id = path.rpartition("/")[2].rpartition(":")[2][:36]
        alone = sum(id[:-3] in other for other in paths) == 1
        if not alone or not path.startswith(("queues/", "delay/")):
            return
        self.told.append(f"{path} is moved away")
        self.disk.unlink(path)
        self.disk.sync_folder(path.rpartition("/")[0])
        self.taken |= {path}
        self.may_lack = True
        for id in [id for id in self.may if self.now(id) != GONE and id not in self._found()]:
            for kept in (self.may, self.queue_of, self.bodies, self.receipts, self.later):
                kept.pop(id, None)  # type: ignore[attr-defined]

    def _check(self, engine: Engine) -> None:
        if not paths_in(engine.index) & self.taken:
            super()._check(engine)

    def _trouble(self) -> None:
        chance = self.random
        code, skip = chance.choice(CODES), chance.randint(0, 12)
        times = chance.choice((1, 1, 1, 2, 1_000))
        self.told.append(f"trouble: {errno.errorcode[code]}, {times} calls after {skip}")
        self.disk.trouble(code, skip, times)

    def _heal(self) -> None:
        self.refused += self.disk.refused
        self.disk.refused = 0
        self.disk.heal()

    def _bury(self, owner: str, maybe: dict[str, list[Seen]]) -> None:
        self._heal()
        super()._bury(owner, maybe)

    def _commit(self, owner: str) -> None:
        if self.random.random() < 0.67:
            super()._commit(owner)
            return
        requests = [self._request() for _ in range(self.random.randint(0, 3))]
        self.at += 1
        names = [type(request).__name__ for request in requests]
        self.told.append(f"{self.clock.now} {owner}, commit {self.at}: {names}")
        engine = self.engines[owner]
        self._trouble()
        try:
            work = engine.apply(requests, tick=self.random.random() < 0.3)
        except (DiskError, DiskFull) as error:
            self.told.append(f"not begun: {error}")
            work = None
        self._heal()
        if work is not None:
            self.may_lack = True
            self._check(engine)
            self._take_troubled(engine, requests, work.outcomes)
            self.flying[owner].append((self.at, work))
            self.may_lack = bool(self.taken)
        self._check_figures(engine)
        self.clock.now += RETRY + 1  # A refused operation is tried again by the next commit.

    def _sync(self, owner: str) -> None:
        known = dict(self.receipts)
        _, work = self.flying[owner][0]
        if self.random.random() < 0.3:
            self._trouble_finish(owner)
        super()._sync(owner)
        self._heal()
        told = {
            receipt
            for outcome in work.outcomes
            if isinstance(outcome, list)
            for each in outcome
            if isinstance(each, Delivery)
            for receipt in each.receipts
        }
        for id, receipt in list(self.receipts.items()):
            if known.get(id) != receipt and receipt not in told:
                del self.receipts[id]

    def _trouble_finish(self, owner: str) -> None:
        code, times = self.random.choice(CODES), self.random.choice((1, 2, 1_000))
        self.told.append(f"trouble before {owner} answers: {errno.errorcode[code]}, {times} calls")
        self.disk.trouble(code, self.random.randint(0, 2), times)

    def _take_troubled(
        self, engine: Engine, requests: Sequence[Request[Any]], outcomes: Sequence[object]
    ) -> None:
        """Take in what holds of the answers, and then what came back without being asked for."""
        held: list[Request[Any]] = []
        answers: list[object] = []
        purged: set[str] = set()
        for request, outcome in zip(requests, outcomes, strict=True):
            self.told.append(f"  {outcome!r:.300}")
            if isinstance(outcome, StoreError):
                if not isinstance(outcome, DiskError | DiskFull):
                    raise Broken(f"{request} was answered {outcome!r}")
                if isinstance(request, Purge):
                    purged.add(request.queue)
                continue
            match request:
                case Send():
                    stored = [
                        (place, result)
                        for place, result in enumerate(outcome.results)
                        if not isinstance(result, DiskError | DiskFull)
                    ]
                    request = Send(
                        queue=request.queue,
                        bodies=[request.bodies[place] for place, _ in stored],
                        delays={
                            at: request.delays[place]
                            for at, (place, _) in enumerate(stored)
                            if place in request.delays
                        },
                        deliver_at={
                            at: request.deliver_at[place]
                            for at, (place, _) in enumerate(stored)
                            if place in request.deliver_at
                        },
                    )
                    outcome = SendResults(
                        results=[result for _, result in stored], sent_at=outcome.sent_at
                    )
                case Delete():
                    named = [*request.receipts, *request.ids]
                    kept = [
                        (name, result)
                        for name, result in zip(named, outcome, strict=True)
                        if not self._has_failed(name, result)
                    ]
                    request = Delete(
                        queue=request.queue,
                        receipts=[name for name, _ in kept if ":" in name],
                        ids=[name for name, _ in kept if ":" not in name],
                    )
                    outcome = [result for _, result in kept]
                case ChangeVisibility():
                    kept = [
                        (name, result)
                        for name, result in zip(request.receipts, outcome, strict=True)
                        if not self._has_failed(name, result)
                    ]
                    request = ChangeVisibility(
                        queue=request.queue,
                        receipts=[name for name, _ in kept],
                        visibility_timeout=request.visibility_timeout,
                    )
                    outcome = [result for _, result in kept]
                case _:
                    pass
            held.append(request)
            answers.append(outcome)
        self._take(engine, held, answers)
        self._look_for_dead_letters(engine)
        self._see_what_came_back(purged)

    def _has_failed(self, named: str, result: object) -> bool:
        """Return whether a message's own answer is that the disk refused it, or that its lease is
        over."""
        if isinstance(result, DiskError | DiskFull):
            return True
        id = id_of(named)
        return isinstance(result, StoreError) and self._by_now(id, self.now(id)) != self.now(id)

    def _see_what_came_back(self, purged: set[str]) -> None:
        found = self._found()
        sent = self._sent_only()
        for id in list(self.may):
            now = self.now(id)
            there = found[id][0] if id in found else GONE
            if id in sent and (there[0], now[0]) != ("leased", "ready"):
                continue
            states = [now, self._by_now(id, now)]
            if there == GONE and self.queue_of[id] in purged:
                states.append(GONE)
            if there in states:
                if there != now:
                    self._become(id, there)
                if there[0] != "leased":
                    self.receipts.pop(id, None)
            elif there[0] == "leased" and ("ready", int(str(there[1])) - 1) in states:
                self._become(id, there)  # Leased, and then its file couldn't be read.
                self.receipts.pop(id, None)
            elif any(state[0] == "dying" for state in states):
                if now[0] != "dying":
                    self._become(id, states[1])
                    self.receipts.pop(id, None)
            else:
                raise Broken(f"{id} is {there}, and should be one of {states}")

    def _check_figures(self, engine: Engine) -> None:
        if drifted := drifts(engine.index, self.clock.monotonic()):
            raise Broken(f"{engine.moves.owner}: {drifted}")


@ALONE_AND_SHARED
def test_a_request_that_the_disk_refuses_has_no_effect_and_stops_no_other(run: Run) -> None:
    def of(seed: int, model: Model, **rest: Any) -> TroubledStory:
        return TroubledStory(seed, model, has_hands=seed % 2 == 1, **rest)

    told = run.tell(caching(of), 5, steps=100)
    assert told["refused"] > told["stories"]


# Each condition is needed.


PLANTED: Final[dict[str, Bug]] = {
    "a refused move that other processes take for made": Bug(Moves, "_give_up", lambda self: None),
    "a name listed and replayed taken for two": Bug(
        recovery,
        "appear",
        lambda moves, name: moves.index.appear(
            name,
            moves.commit,
            due=0
            if name.due is None
            else moves.clock.monotonic() + max(0, name.due - moves.clock.wall()),
        ),
        first=307,
    ),
    "a lease delivered that was not handed out": Bug(
        Engine, "_leave_unpublished", lambda self, outcomes, refused: None, first=33
    ),
    "a move in doubt marked as made, as the lock can't be kept": Bug(
        Sharing, "_release", lambda self: (self._changes.finish(), _release(self)), first=307
    ),
}
_release = Sharing._release


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed_on_a_disk_that_refuses(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(seed: int, model: Model) -> TroubledStory:
        return TroubledStory(seed, model, processes=1 + seed % 2)

    expect_broken(monkeypatch, PLANTED[planted], of)
