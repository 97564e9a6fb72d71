"""A server that drains, dies and comes back loses nothing of what a language's programs send and do."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
import spoolrack
from spoolrack import Outgoing

from tests.interop.interop_driver import Driver, Refused, outgoing, raw
from tests.interop.interop_languages import Language
from tests.interop.interop_programs import Programs
from tests.interop.reasons_server import breaking_server
from tests.support import STUCK
from tests.support.run_processes import Served
from tests.support.scrape import scrape_at

UNAVAILABLE = 14
TRIES = 1_000_000
JOBS = 150


@pytest.fixture
def programs(language: Language) -> Iterator[Programs]:
    programs = Programs(language)
    yield programs
    programs.end()


def until_it_works(driver: Driver, op: str, **fields: object) -> dict[str, object]:
    """Repeat it while the server is unreachable: the language connects again by itself."""
    until = time.monotonic() + STUCK
    for _ in range(TRIES):
        try:
            return driver.do(op, **fields)
        except Refused as refused:
            if refused.code != UNAVAILABLE or time.monotonic() > until:
                raise
    raise AssertionError("still unreachable")


def until_somebody_waits(served: Served) -> None:
    """Until a receive waits in the server for a message: its figures say so."""
    until = time.monotonic() + STUCK
    for _ in range(TRIES):
        if asyncio.run(scrape_at(f"http://127.0.0.1:{served.http_port}")).value(
            "spoolrack_waiting_receives"
        ):
            return
        assert time.monotonic() < until, "no receive waits"


def test_a_drain_ends_a_stream_and_the_same_connection_serves_again(
    drivers: Callable[[str], Driver], served: Served
) -> None:
    with spoolrack.connect(served.address) as python:
        python.create_queue("q", visibility_timeout=600)
        python.queue("q").send_many([b"1", b"2"])
        python.create_queue("empty")
    driver = drivers(served.address)
    stream = driver.stream("s1", "q", max_in_flight=1)
    (one,) = stream.take(1)
    polled = driver.begin("receive", queue="empty", wait_ms=600_000)
    until_somebody_waits(served)

    served.stop()

    end, _ = stream.ended()
    assert (end.code, end.reason, end.domain) == (UNAVAILABLE, "DRAINING", "spoolrack")
    assert end.retry_ms == 500
    with pytest.raises(Refused) as refused:
        polled.result(STUCK)
    assert refused.value.reason == "DRAINING"
    served.restart()
    # The lease has outlived the restart, and so has the receipt.
    assert until_it_works(driver, "delete", queue="q", receipts=[one["receipt"]]) == {"results": [{}]}
    (two,) = driver.stream("s2", "q", max_in_flight=1).take(1)
    assert raw(two["body"]) == b"2"


def test_a_server_that_is_killed_ends_a_stream_without_a_reason_and_what_was_sent_is_there(
    drivers: Callable[[str], Driver], served: Served
) -> None:
    with spoolrack.connect(served.address) as python:
        python.create_queue("q", visibility_timeout=600)
    driver = drivers(served.address)
    stream = driver.stream("s1", "q")
    sent = driver.send("q", [outgoing(b"%d" % n) for n in range(10)])
    stream.take(10)

    served.kill()

    end, _ = stream.ended()
    assert (end.code, end.reason) == (UNAVAILABLE, "")
    served.restart()
    more = until_it_works(driver, "send", queue="q", messages=[outgoing(b"after")])
    with spoolrack.connect(served.address) as python:
        ids = [message.id for message in python.queue("q").peek()]
    results = more["results"]
    assert isinstance(results, list)
    assert ids == [result["id"] for result in [*sent, *results]]


def test_the_producer_sends_batches_with_attributes(served: Served, programs: Programs) -> None:
    with spoolrack.connect(served.address) as python:
        python.create_queue("jobs")
        producer = programs.start("producer", served.address, "jobs", 250)
        assert producer.hear("sent") == "sent 250"
        assert producer.wait() == 0

        messages = list(python.queue("jobs").peek())
    assert [message.body for message in messages] == [b"job %d" % n for n in range(1, 251)]
    for n, message in enumerate(messages, 1):
        assert dict(message.attributes) == {
            "number": str(n),
            "digest": hashlib.sha256(message.body).digest(),
        }


def test_the_producer_repeats_what_no_answer_came_to(programs: Programs) -> None:
    with breaking_server() as address:
        producer = programs.start("producer", address, "jobs", 1)

        assert producer.hear("sent") == "sent 1"
        assert producer.wait() == 0


def test_the_worker_deletes_extends_and_releases(served: Served, programs: Programs) -> None:
    with spoolrack.connect(served.address) as python:
        python.create_queue("jobs", visibility_timeout=600)
        jobs = python.queue("jobs")
        worker = programs.start("worker", served.address, "jobs")

        plain = jobs.send(b"plain")
        assert worker.hear("done") == f"done {plain} plain"

        slow = jobs.send(b"slow one", attributes={"slow": "100"})
        assert worker.hear("extended") == f"extended {slow}"
        assert worker.hear("done") == f"done {slow} slow one"

        failing = jobs.send(b"fails once", attributes={"fails": b"\xff"})
        assert worker.hear("released") == f"released {failing}"
        assert worker.hear("done") == f"done {failing} fails once"

        assert list(jobs.peek()) == []


@pytest.mark.slow
def test_a_job_that_takes_longer_than_its_lease_stays_with_its_worker(
    served: Served, programs: Programs
) -> None:
    with spoolrack.connect(served.address) as python:
        python.create_queue("jobs", visibility_timeout=10)
        jobs = python.queue("jobs")
        worker = programs.start("worker", served.address, "jobs")
        slow = jobs.send("slow one", attributes={"slow": "15000"})
        worker.hear("extended")

        assert jobs.receive(wait=13) == []

        assert worker.hear("done") == f"done {slow} slow one"
        assert list(jobs.peek()) == []


def test_a_worker_that_is_told_to_stop_gives_back_what_it_holds(
    served: Served, programs: Programs
) -> None:
    with spoolrack.connect(served.address) as python:
        python.create_queue("jobs", visibility_timeout=600)
        jobs = python.queue("jobs")
        worker = programs.start("worker", served.address, "jobs")
        jobs.send("first")
        worker.hear("done")
        held = [Outgoing(body=b"%d" % n, attributes={"slow": "3600000"}) for n in range(5)]
        jobs.send_many(held)  # at once, so that they come in one frame
        worker.hear("extended")
        assert python.queue("jobs").info().counts.leased_count == 5

        os.kill(worker.pid, signal.SIGTERM)

        assert worker.hear("stopped") == "stopped"
        assert worker.wait() == 0
        counts = python.queue("jobs").info().counts
        assert (counts.ready_count, counts.leased_count) == (5, 0)


@pytest.mark.parametrize("end", ["kill", "drain"])
def test_producer_and_worker_lose_nothing_when_the_server_goes_and_comes_back(
    served: Served, programs: Programs, end: str
) -> None:
    with spoolrack.connect(served.address, timeout=120) as python:
        python.create_queue("jobs", visibility_timeout=5)
        jobs = python.queue("jobs")
        worker = programs.start("worker", served.address, "jobs")
        jobs.send("before")
        worker.hear("done")
        producer = programs.start("producer", served.address, "jobs", JOBS)
        worker.hear("done")

        for n in range(2):
            served.kill() if end == "kill" else served.stop()
            served.restart()
            reconnecting = worker.hear("reconnecting")
            assert reconnecting.split()[1] == ("DRAINING" if end == "drain" else "UNAVAILABLE")
            after = f"after restart {n}"
            jobs.send(after)
            # A worker with threads says for a while what became of the jobs that it had before.
            while _body(worker.hear("done")) != after:
                pass

        assert producer.hear("sent") == f"sent {JOBS}"
        assert producer.wait() == 0
        wanted = {"before", "after restart 0", "after restart 1"}
        wanted |= {f"job {n}" for n in range(1, JOBS + 1)}
        done = {_body(line) for line in worker.lines if line.startswith("done ")}
        while done != wanted:
            assert done < wanted
            done.add(_body(worker.hear("done")))
        # A delete whose answer was lost is done, without an acknowledgement.
        assert python.queue("jobs").info().counts.ready_count == 0


def _body(line: str) -> str:
    return line.split(" ", 2)[2]
