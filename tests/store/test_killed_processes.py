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
from spoolrack_store.model.operations import CreateQueue, Delete, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP, bodies_of, receipts_of
from tests.store.working_rig import Worker, ended, started

pytestmark = pytest.mark.timeout(300)
KILLS = int(os.environ.get("SPOOLRACK_KILLS", "10"))
PROCESSES = 3
ECHO = """
import sys
from spoolrack_store.model.operations import Delete, Receive, Send
from spoolrack_store.store import Store
with Store.open(sys.argv[1]) as store:
    print("open", flush=True)
    for _ in range(int(sys.argv[2])):
        (got,) = store.submit(Receive(queue="there", wait=None)).result()
        store.submit(Delete(queue="there", receipts=got.receipts)).result()
        store.submit(Send(queue="back", bodies=got.bodies)).result()
"""


def test_messages_pass_from_one_process_to_another_and_back(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for queue in ("there", "back"):
            store.submit(CreateQueue(name=queue, settings=QueueSettings())).result(GIVE_UP)
        echo = started("-c", ECHO, str(tmp_path), "50")
        try:
            assert echo.stdout is not None
            assert echo.stdout.readline() == "open\n"
            for number in range(50):
                store.submit(Send(queue="there", bodies=[b"%d" % number])).result(GIVE_UP)
                back = store.submit(Receive(queue="back", wait=None)).result(GIVE_UP)
                assert bodies_of(back) == [b"%d" % number]
                store.submit(Delete(queue="back", receipts=receipts_of(back))).result(GIVE_UP)
            assert echo.wait(GIVE_UP) == 0
        finally:
            ended(echo)


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
