"""The Celery app of these tests: a worker process loads it, and the tests send its tasks.

Tasks are not shared: the tests load this module once for each broker.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

from celery import Celery
from celery.exceptions import Reject

LEASE: Final = 4.0
"""Seconds of a lease."""

app = Celery("tests.celery.celery_app")
app.conf.update(
    broker_url=os.environ.get("TEST_BROKER_URL", "spoolrack://"),
    result_backend=os.environ.get("TEST_RESULT_BACKEND"),
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": LEASE},
)


@app.task(shared=False)
def add(a: int, b: int) -> int:
    return a + b


@app.task(shared=False)
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(shared=False, bind=True, max_retries=3, ignore_result=True)
def third_time(self: Any, log: str) -> None:
    """Fail twice; write the number of retries before to `log` each time.

    The state of a retry may be stored after the result of the next run, so that it has no result.
    """
    with Path(log).open("a") as file:
        file.write(f"{self.request.retries}\n")
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)


@app.task(shared=False)
def now() -> float:
    return time.time()


@app.task(shared=False, acks_late=True)
def wait_for(gate: str, log: str) -> str:
    """Write a line to `log`, and return when that file is there."""
    with Path(log).open("a") as file:
        file.write(f"{os.getpid()}\n")
    while not Path(gate).exists():
        time.sleep(0.02)
    return "done"


@app.task(shared=False, acks_late=True, ignore_result=True)
def again(log: str) -> None:
    """Write a line to `log`, and want to be tried again."""
    with Path(log).open("a") as file:
        file.write("again\n")
    raise Reject("not yet", requeue=True)


@app.task(shared=False, acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def fatal(log: str) -> None:
    """Write a line to `log`, and end the process."""
    with Path(log).open("a") as file:
        file.write("fatal\n")
    os._exit(1)
