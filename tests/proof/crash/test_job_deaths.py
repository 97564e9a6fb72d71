"""A process dies between any two steps of work that takes many commits: the next process does what was
decided, and each message is as before, or as after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from spoolrack_store.model.clock import DAY, MINUTE, Millis
from spoolrack_store.model.operations import UNFINISHED, DeleteQueue, Purge, UpdateQueue
from spoolrack_store.model.stage_requests import Abort, Publish, Stage

from tests.proof.crash.test_act_deaths import HOLD, Scene
from tests.support.linked_disk import Died

FILES = 2
"""The effort of a commit: a part moves one file of the scene, and the rest in the commits after it."""
MOST_STEPS = 400


def _ask(scene: Scene, request: Any) -> None:
    while scene.rig.ask(request) is UNFINISHED:
        pass


def _work(scene: Scene) -> None:
    """Commit until no work is due."""
    for _ in range(60):
        now = scene.rig.clock.monotonic()
        waits, due = scene.rig.engine.next_work(now)
        if not waits and (due is None or due > now):
            return
        scene.rig.ask()
    raise AssertionError("the engine doesn't come to rest")


def _stage(scene: Scene) -> None:
    for number in range(5):
        scene.rig.ask(Stage(stage="s", chunk=number, queue="third", bodies=[b"staged"]))
        scene.rig.ask(Stage(stage=f"s{number}", chunk=0, queue="third", bodies=[b"staged"]))
    _work(scene)


def _put(scene: Scene) -> None:
    for number in range(3):
        path = f"new/third:018bcfe5-6800-76c6-91b7-584a2265b00{number}"
        scene.rig.disk.create(path, [b"put"], sync=True)
    scene.rig.disk.sync_folder("new")
    scene.rig.ask(tick=True)


def _retain(scene: Scene) -> None:
    scene.rig.ask(UpdateQueue(name="q", changes={"retention": Millis(MINUTE)}))
    _work(scene)


@dataclass(frozen=True)
class Job:
    act: Callable[[Scene], None]
    before: Callable[[Scene], None] = lambda scene: None
    is_decided: bool = False
    """Whether the work is done to its end whenever the process dies."""
    is_whole: bool = False
    """Whether all messages appear, or none."""


def _after(millis: int) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        scene.rig.after(millis)
        scene.rig.ask(tick=True)
        _work(scene)

    return act


JOBS = {
    "a purge": Job(lambda scene: _ask(scene, Purge(queue="q"))),
    "the deletion of a queue": Job(lambda scene: _ask(scene, DeleteQueue(name="q"))),
    "leases and delays that end": Job(_after(HOLD), is_decided=True),
    "a retention": Job(_after(MINUTE), _retain, is_decided=True),
    "a publication": Job(
        lambda scene: _ask(scene, Publish(writer="w", epoch=1, stages=["s"])), _stage, is_whole=True
    ),
    "the drop of a stage": Job(lambda scene: _ask(scene, Abort(stage="s")), _stage),
    "stages that expire": Job(_after(30 * DAY), _stage),
    "an adoption": Job(_after(2_000), _put, is_decided=True),
}


def _made(job: Job, beside: bool) -> Scene:
    scene = Scene(beside)
    job.before(scene)
    scene.rig.engine.moves.effort.files = FILES
    return scene


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another process"])
@pytest.mark.parametrize("name", JOBS)
def test_a_death_between_any_two_steps_of_a_job_leaves_each_message_as_before_or_as_after(
    name: str, beside: bool
) -> None:
    job = JOBS[name]
    before, after = _made(job, beside), _made(job, beside)
    job.act(after)
    _work(after)
    found, wanted = _end(before), _end(after)
    for steps in range(MOST_STEPS):
        scene = _made(job, beside)
        scene.rig.disk.steps_left = steps
        try:
            job.act(scene)
            _work(scene)
            has_died = False
        except Died:
            has_died = True
        scene.rig.disk.steps_left = None
        now = _end(scene)
        if job.is_decided:
            # The id of a file that was put in is of its adoption.
            assert sorted(map(str, now.values())) == sorted(map(str, wanted.values()))
        elif job.is_whole:
            assert now in (found, wanted)
        else:
            for id in found.keys() | wanted.keys() | now.keys():
                assert now.get(id) in (found.get(id), wanted.get(id)), id
        if not has_died:
            break
    else:
        raise AssertionError("it never came to its end")
    assert steps > 5


def _end(scene: Scene) -> dict[str, object]:
    """Let the other process go on, or the next one start; return where each message is then."""
    scene.die()
    for _ in range(3):
        _after(2_000)(scene)  # A file that was put in is looked at twice.
    return dict(scene.states())
