"""Processes that share a root: messages of one are received by others, and to kill some of them loses
nothing.

`SPOOLRACK_KILLS` says how many are killed; a thousand take some minutes.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from random import Random

import pytest
from spoolrack_store.model.operations import CreateQueue, Delete, Receive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP, bodies_of, receipts_of
from tests.store.working_rig import Worker

pytestmark = pytest.mark.timeout(300)
KILLS = int(os.environ.get("SPOOLRACK_KILLS", "10"))
PROCESSES = 3


def test_processes_that_are_killed_lose_nothing_and_bring_nothing_back(tmp_path: Path) -> None:
    random = Random(KILLS)
    with Store.open(tmp_path) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result(GIVE_UP)
    workers: list[Worker] = []
    living: list[Worker] = []
    try:
        for number in range(KILLS + PROCESSES):
            worker = Worker(tmp_path, f"w{number}")
            workers.append(worker)
            living.append(worker)
            worker.has_told(1)
            if len(living) > PROCESSES:
                victim = living.pop(random.randrange(PROCESSES))
                victim.has_told(random.randrange(60))
                victim.kill()
    finally:
        for worker in living:
            worker.kill()
    left = _drained(tmp_path)
    told = [each for worker in workers for each in worker.told]
    by = {
        word: {body: at for each, at, body in told if each == word}
        for word in ("sends", "sent", "deletes", "deleted")
    }
    assert len(by["sent"]) > KILLS
    assert len(by["deleted"]) > KILLS
    assert by["sent"].keys() - by["deletes"].keys() - left.keys() == set(), "lost"
    assert by["deleted"].keys() & left.keys() == set(), "deleted messages are there again"
    assert left.keys() <= by["sends"].keys()
    assert set(left.values()) <= {1}, "doubled"
    late = [
        body
        for word, asked, body in told
        if word == "received" and asked > by["deleted"].get(body, asked)
    ]
    assert late == [], "received after their deletion was answered"


def _drained(root: Path) -> dict[str, int]:
    """Receive and delete all that is left; then no file is left either."""
    found: dict[str, int] = {}
    with Store.open(root) as store:
        while True:
            got = store.submit(Receive(queue="q", max_messages=100)).result(GIVE_UP)
            for body in bodies_of(got):
                found[body.decode()] = found.get(body.decode(), 0) + 1
            if got:
                request = Delete(queue="q", receipts=receipts_of(got))
                assert set(store.submit(request).result(GIVE_UP)) == {None}
                continue
            counts = store.queue("q").counts
            if counts.ready_count + counts.leased_count == 0:
                break
        pause = threading.Event()
        for _ in range(4_000):
            names = [
                path
                for folder in ("new", "queues/q", "delay", "remove", "quarantine")
                for path in (root / folder).iterdir()
            ]
            if not names:
                return found
            pause.wait(0.005)
        raise AssertionError(f"{names} stay")
