"""A process dies between any two steps of a request, or of work that takes many commits: the next
process does what was decided, and each message is as before, or as after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from spoolrack_store.engine.effort import FILES
from spoolrack_store.model.clock import DAY, MINUTE, Millis
from spoolrack_store.model.members import indexes
from spoolrack_store.model.operations import (
    UNFINISHED,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Purge,
    Receive,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Abort, Publish, Stage

from tests.support.dead_letter_rig import Rig
from tests.support.linked_disk import each_death, reap

HOLD = Millis(60_000)
State = tuple[object, ...]


@dataclass
class Scene:
    """Messages in all states, alone and in batches, and a request about them."""

    beside: bool
    """Whether another process has the root open, and goes on."""
    rig: Rig = field(default_factory=Rig)
    receipts: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rig = self.rig
        self.other = rig.join("p2") if self.beside else None
        self.ids += rig.send(b"alone")
        self.ids += rig.send(*(b"batch %d" % number for number in range(6)))
        later = rig.ask(Send(queue="q", bodies=[b"later"] * 2, delays={0: HOLD, 1: HOLD}))
        self.ids += later.results
        rig.settle()
        for most in (1, 3):
            for delivery in rig.ask(Receive(queue="q", max_messages=most, visibility_timeout=HOLD)):
                self.receipts += delivery.receipts
        rig.settle()

    def states(self) -> dict[str, State]:
        index = self.rig.engine.index
        return {
            entry.batch.stem.message_id(place): (
                entry.name.state,
                entry.name.queue,
                entry.name.receives,
                entry.name.due,
            )
            for queue in index.queues.values()
            for entry in queue.entries
            for place in indexes(entry.members)
        }

    def settings(self) -> dict[str, QueueSettings]:
        return {name: each.settings for name, each in self.rig.engine.catalog.records.items()}

    def die(self) -> None:
        """Let the other process go on, or the next one start."""
        self.rig.disk.free_locks()
        if self.other is not None:
            self.rig.living.discard("p1")
            self.rig = self.other
        else:
            self.rig.queues = {}  # Queues without a file in config/ are not made again.
            self.rig = self.rig.restart()
        self.settle()

    def settle(self) -> None:
        for _ in range(6):
            self.rig.ask(tick=True)
            reap(self.rig.engine)

    def ask(self, request: Any) -> None:
        while self.rig.ask(request) is UNFINISHED:
            pass

    def work(self) -> None:
        """Commit until no work is due."""
        for _ in range(60):
            now = self.rig.clock.monotonic()
            waits, due = self.rig.engine.next_work(now)
            if not waits and (due is None or due > now):
                return
            self.rig.ask()
        raise AssertionError("the engine doesn't come to rest")

    def advance(self, millis: int) -> None:
        self.rig.after(millis)
        self.rig.ask(tick=True)
        self.work()

    def end(self) -> dict[str, State]:
        """Let the other process go on, or the next one start; return where each message is then."""
        self.die()
        for _ in range(3):
            self.advance(2_000)  # A file that was put in is looked at twice.
        return self.states()


def _stage(scene: Scene) -> None:
    for number in range(5):
        scene.rig.ask(Stage(stage="s", chunk_number=number, queue="third", bodies=[b"staged"]))
        scene.rig.ask(Stage(stage=f"s{number}", chunk_number=0, queue="third", bodies=[b"staged"]))
    scene.work()


def _put(scene: Scene) -> None:
    for number in range(3):
        path = f"new/third:018bcfe5-6800-76c6-91b7-584a2265b00{number}"
        scene.rig.disk.create(path, [b"put"], sync=True)
    scene.rig.disk.sync_folder("new")
    scene.rig.ask(tick=True)


def _retain(scene: Scene) -> None:
    scene.rig.ask(UpdateQueue(name="q", changes={"retention": Millis(MINUTE)}))
    scene.work()


@dataclass(frozen=True)
class Job:
    act: Callable[[Scene], None]
    before: Callable[[Scene], None] = lambda scene: None
    files: int = FILES
    """The effort of a commit: with 2 a part moves one file of the scene, and the rest in later ones."""
    is_decided: bool = False
    """Whether the work is done to its end whenever the process dies."""
    is_whole: bool = False
    """Whether all messages appear, or none."""


def _asked(ask: Callable[[Scene], Any], *prepared: Callable[[Scene], None], **how: Any) -> Job:
    return Job(lambda scene: scene.ask(ask(scene)), *prepared, **how)


def _later(millis: int, *prepared: Callable[[Scene], None], **how: Any) -> Job:
    return Job(lambda scene: scene.advance(millis), *prepared, files=2, **how)


LATER = dict.fromkeys(range(3), HOLD)
JOBS = {
    "send one": _asked(lambda _: Send(queue="q", bodies=[b"new"]), is_whole=True),
    "send many": _asked(lambda _: Send(queue="q", bodies=[b"new"] * 5), is_whole=True),
    "send later": _asked(lambda _: Send(queue="q", bodies=[b"new"] * 3, delays=LATER), is_whole=True),
    "receive one": _asked(lambda _: Receive(queue="q", visibility_timeout=HOLD)),
    "receive all": _asked(lambda _: Receive(queue="q", max_messages=50, visibility_timeout=HOLD)),
    "delete a lease": _asked(lambda scene: Delete(queue="q", receipts=scene.receipts[1:])),
    "delete out of leases": _asked(lambda scene: Delete(queue="q", receipts=scene.receipts[::2])),
    "delete in any state": _asked(lambda scene: Delete(queue="q", ids=scene.ids[::2])),
    "delete all": _asked(lambda scene: Delete(queue="q", ids=scene.ids)),
    "extend": _asked(
        lambda scene: ChangeVisibility(
            queue="q", receipts=scene.receipts[1:3], visibility_timeout=Millis(2 * HOLD)
        )
    ),
    "give back": _asked(lambda scene: GiveBack(queue="q", receipts=scene.receipts)),
    "create a queue": _asked(lambda _: CreateQueue(name="fresh", settings=QueueSettings())),
    "update a queue": _asked(lambda _: UpdateQueue(name="q", changes={"max_message_size": 77})),
    "purge": _asked(lambda _: Purge(queue="q")),
    "purge by and by": _asked(lambda _: Purge(queue="q"), files=2),
    "delete a queue": _asked(lambda _: DeleteQueue(name="q")),
    "delete a queue by and by": _asked(lambda _: DeleteQueue(name="q"), files=2),
    "leases and delays that end": _later(HOLD, is_decided=True),
    "a retention": _later(MINUTE, _retain, is_decided=True),
    "a publication": _asked(
        lambda _: Publish(writer="w", epoch=1, stages=["s"]), _stage, files=2, is_whole=True
    ),
    "the drop of a stage": _asked(lambda _: Abort(stage="s"), _stage, files=2),
    "stages that expire": _later(30 * DAY, _stage),
    "an adoption": _later(2_000, _put, is_decided=True),
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another process"])
@pytest.mark.parametrize("name", JOBS)
def test_a_death_between_any_two_steps_of_a_job_leaves_each_message_as_before_or_as_after(
    name: str, beside: bool
) -> None:
    job = JOBS[name]

    def made() -> Scene:
        scene = Scene(beside)
        job.before(scene)
        scene.rig.engine.moves.effort.files = job.files
        return scene

    def act(scene: Scene) -> None:
        job.act(scene)
        scene.work()
        scene.settle()

    before, after = made(), made()
    act(after)
    found, wanted = before.end(), after.end()
    settings = before.settings(), after.settings()
    deaths = 0
    for scene in each_death(made, act):
        now = scene.end()
        deaths += 1
        assert scene.settings() in settings
        if job.is_decided:
            # The id of a file that was put in is of its adoption.
            assert sorted(map(str, now.values())) == sorted(map(str, wanted.values()))
        elif job.is_whole:
            assert now in (found, wanted)
        else:
            for id in found.keys() | wanted.keys() | now.keys():
                assert now.get(id) in (found.get(id), wanted.get(id)), id
    assert deaths > 1
    assert job.is_decided or (found, settings[0]) != (wanted, settings[1]) or job.before is _stage
