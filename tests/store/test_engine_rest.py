"""An engine without requests rests between the times at which work is due: due work that a commit
can't do would make the committer commit without end."""

from __future__ import annotations

import errno
import logging
from threading import RLock

import pytest
from spoolrack_store.committer import Committer
from spoolrack_store.engine.part import RETRY
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import DeleteQueue
from spoolrack_store.model.stage_requests import Stage
from spoolrack_store.thread_driver import ThreadDriver, run_whole

from tests.store.trouble_rig import Rig

SOON = Millis(4_000)


def _is_at_rest(rig: Rig) -> bool:
    due = rig.engine.next_work(rig.clock.monotonic())[1]
    return not rig.engine.wants_commit and (due is None or due > rig.clock.monotonic())


def _settle(rig: Rig) -> None:
    for _ in range(8):
        rig.commit()


def test_it_rests_after_a_file_could_not_be_read_once() -> None:
    rig = Rig()
    rig.send(b"a")
    rig.commit()
    rig.disk.fail(errno.EIO, "read")
    assert rig.receive() == {}
    rig.disk.heal()
    rig.advance(2_000)
    _settle(rig)
    assert _is_at_rest(rig)
    assert [body for _, body in rig.receive().values()] == [b"a"]


def test_a_stage_expires_on_time_without_a_tick() -> None:
    rig = Rig()
    rig.ask(Stage(stage="a", chunk_number=0, queue="q", bodies=[b"a"], time_to_live=SOON))
    rig.advance(SOON)
    _settle(rig)
    assert rig.paths("staged") == []
    assert _is_at_rest(rig)


def test_it_rests_while_an_expired_stage_can_not_be_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig = Rig()
    rig.ask(Stage(stage="a", chunk_number=0, queue="q", bodies=[b"a"], time_to_live=SOON))
    rig.disk.fail(errno.EACCES, "create", path="~dropped")
    rig.advance(SOON)
    _settle(rig)
    assert _is_at_rest(rig)
    assert "the stage a stays for now" in caplog.text
    rig.disk.heal()
    rig.advance(2_000)
    _settle(rig)
    assert "the stage a has expired" in caplog.text
    assert rig.paths("staged") == []


def test_commits_that_change_nothing_end_until_it_is_time_to_try_again() -> None:
    rig = Rig()
    rig.clock.ticks = False
    rig.ask(DeleteQueue(name="q"))
    rig.disk.fail(errno.EACCES, "remove_folder")
    committer = Committer(rig.engine, rig.clock, RLock(), ThreadDriver())
    for _ in range(10):
        run_whole(committer)
    assert committer.poll_work() == (False, rig.clock.monotonic() + RETRY)
    rig.disk.heal()
    rig.advance(RETRY)
    while committer.poll_work()[0]:
        run_whole(committer)
    assert rig.paths("config", "queues") == []


def test_a_deleted_queue_waits_for_a_folder_that_can_not_be_listed() -> None:
    rig = Rig()
    rig.clock.ticks = False
    rig.send(b"a")
    rig.ask(DeleteQueue(name="q"))
    rig.disk.fail(errno.EACCES, "scan")
    committer = Committer(rig.engine, rig.clock, RLock(), ThreadDriver())
    for _ in range(10):
        run_whole(committer)
    assert committer.poll_work() == (False, rig.clock.monotonic() + RETRY)
    rig.disk.heal()
    assert rig.paths("config") != []
    rig.advance(2_000)
    _settle(rig)
    assert rig.paths("config", "queues", "remove") == []
    assert _is_at_rest(rig)
