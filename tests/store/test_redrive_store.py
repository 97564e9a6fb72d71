"""Redrives of a store with its threads, on real folders."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_store.model.chores import Chores
from spoolrack_store.model.operations import CreateQueue, Outgoing, Receive, Request, Send
from spoolrack_store.model.redriving import CancelRedrive, Redrive, RedriveState, StartRedrive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from store_rig import GIVE_UP, until


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with Store.open(root) as store:
        prepare(store)
        yield store


def ask(store: Store, request: Request[object]) -> object:
    return store.submit(request).result(GIVE_UP)


def prepare(store: Store, messages: int = 250) -> None:
    for queue in ("dead", "q"):
        ask(store, CreateQueue(name=queue, settings=QueueSettings()))
    for _ in range(messages // 50):
        ask(store, Send(queue="dead", messages=[Outgoing(body=b"x")] * 50))


def start(store: Store, rate: int = 0) -> Redrive:
    return store.submit(StartRedrive(queue="dead", destination="q", rate=rate)).result(GIVE_UP)


def ready(store: Store, queue: str) -> int:
    return store.queue(queue).counts.ready


def test_a_redrive_goes_on_without_any_request(store: Store) -> None:
    redrive = start(store)
    until(lambda: store.redrive(redrive.id).state is RedriveState.DONE)
    assert store.redrive(redrive.id).moved == 250
    assert (ready(store, "q"), ready(store, "dead")) == (250, 0)
    assert [each.id for each in store.redrives(queue="dead")] == [redrive.id]


def test_a_receive_that_waits_gets_what_comes_back(store: Store) -> None:
    waiting = store.submit(Receive(queue="q", wait=None))
    start(store)
    (message,) = waiting.result(GIVE_UP)
    assert message.body == b"x"


def test_a_slow_redrive_goes_on_after_the_next_start_and_is_cancelled(root: Path) -> None:
    with Store.open(root) as store:
        prepare(store, 50)
        redrive = start(store, rate=20)
        until(lambda: ready(store, "q") > 1)
    with Store.open(root) as again:
        before = ready(again, "q")
        until(lambda: ready(again, "q") > before)
        cancelled = again.submit(CancelRedrive(id=redrive.id)).result(GIVE_UP)
        assert cancelled.state is RedriveState.CANCELLED
        left = ready(again, "dead")
        assert left + ready(again, "q") == 50
    with Store.open(root) as last:
        assert last.redrive(redrive.id).state is RedriveState.CANCELLED
        assert ready(last, "dead") == left


def test_whoever_has_the_chores_drives_what_another_process_has_begun(root: Path) -> None:
    lazy = Chores(adopts=False, brings_back=False, unlinks=False, ticks=False)
    with Store.open(root, chores=lazy) as store:
        prepare(store, 50)
        redrive = start(store)
        assert store.redrive(redrive.id).remaining == 50
        with Store.open(root) as mover:
            until(lambda: mover.redrive(redrive.id).state is RedriveState.DONE)
            until(lambda: ready(store, "q") == 50)
            assert store.redrive(redrive.id).moved == 50


@pytest.mark.parametrize(("group", "mode"), [(False, 0o600), (True, 0o660)])
def test_a_redrives_file_has_the_access_that_the_root_has(root: Path, group: bool, mode: int) -> None:
    with Store.open(root, group_access=group) as store:
        prepare(store, 0)
        start(store)
    # Looked at when nobody renames the file any more: its name says how far the redrive is.
    (file,) = (root / "redrives").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == mode
    folder = (root / "redrives").stat().st_mode
    assert stat.S_IMODE(folder) & 0o777 == (0o770 if group else 0o700)
