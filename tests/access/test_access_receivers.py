"""A consumer whose token may only receive: it extends its leases as any other does."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import spoolrack
from spoolrack import aio
from spoolrack.errors import PermissionDenied, Unauthenticated

from tests.access.test_access_processes import spoolrack_says
from tests.support import STUCK
from tests.support.access_rig import Files, looks
from tests.support.serving import ANY_PORTS, PROGRAM, serving

pytestmark = pytest.mark.timeout(300)  # It starts programs.


class Served(NamedTuple):
    owner: spoolrack.Client
    receiver: spoolrack.Client
    environment: dict[str, str]
    """The receiver's, for the command line."""


@pytest.fixture
def served(tmp_path: Path, files: Files) -> Iterator[Served]:
    tokens = files.write_tokens("owner", "alice")
    rules = files.write_permissions("owner all *", "alice receive jobs")
    said = {"SPOOLRACK_TOKENS": tokens, "SPOOLRACK_PERMISSIONS": rules}
    with (
        serving("--root", tmp_path / "root", *ANY_PORTS, environment=said) as server,
        spoolrack.connect(server.grpc, token=files.tokens["owner"]) as owner,
        spoolrack.connect(server.grpc, token=files.tokens["alice"]) as receiver,
    ):
        owner.create_queue("jobs", visibility_timeout=5)
        environment = {"SPOOLRACK_URL": server.grpc, "SPOOLRACK_TOKEN": files.tokens["alice"]}
        yield Served(owner, receiver, environment)


def extended(owner: spoolrack.Client) -> None:
    """Return once the end of the one lease has moved twice."""
    ends: set[datetime | None] = set()
    pause = threading.Event()
    for _ in looks():
        ends |= {message.lease_expires_at for message in owner.queue("jobs").peek(["leased"])}
        if len(ends) > 2:
            return
        pause.wait(0.01)
    raise AssertionError("the lease was not extended")


def test_a_lease_tells_the_identity_of_its_consumer_and_nothing_of_its_token(served: Served) -> None:
    jobs = served.owner.queue("jobs")
    jobs.send("one")
    jobs.send("two")
    served.receiver.queue("jobs").receive(1)
    with served.receiver.queue("jobs").messages(max_in_flight=1) as messages:
        next(messages)
        leases = jobs.info().oldest_leases
    assert len(leases) == 2
    for each in leases:
        assert each.consumer.startswith("alice, 127.0.0.1:")
        assert f"pid {os.getpid()}" in each.consumer
        assert "srk_" not in each.consumer


def test_a_worker_that_may_only_receive_keeps_its_leases(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PermissionDenied):
        served.receiver.queue("jobs").info()
    go, failed = threading.Event(), []
    worker = served.receiver.queue("jobs").worker(
        lambda message: go.wait(STUCK), on_error=lambda message, error: failed.append(error)
    )
    running = threading.Thread(target=worker.run, daemon=True)
    running.start()
    served.owner.queue("jobs").send("a")
    extended(served.owner)
    go.set()
    for _ in looks():
        if not list(served.owner.queue("jobs").peek()):
            break
    worker.stop()
    running.join(STUCK)
    assert (list(served.owner.queue("jobs").peek()), failed, caplog.messages) == ([], [], [])


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--follow", "--max", "1"), marks=pytest.mark.slow)]
)
def test_a_command_with_a_token_that_may_only_receive_keeps_its_message(
    served: Served, tmp_path: Path, options: tuple[str, ...]
) -> None:
    os.mkfifo(tmp_path / "go")
    served.owner.queue("jobs").send("a")
    with subprocess.Popen(
        [*PROGRAM, "receive", "jobs", *options, "--exec", f"cat {tmp_path}/go"],
        env={**os.environ, **served.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        extended(served.owner)
        (tmp_path / "go").write_text("done")
        out, err = process.communicate(timeout=STUCK)
    assert (process.returncode, out, err) == (0, b"done", b"")
    assert list(served.owner.queue("jobs").peek()) == []


async def test_a_stream_of_tasks_that_is_refused_as_it_begins_says_why(
    served: Served, files: Files
) -> None:
    url = served.environment["SPOOLRACK_URL"]
    for _ in range(20):
        async with aio.connect(url, token=files.tokens["alice"]) as receiver:
            with pytest.raises(PermissionDenied):
                await anext(receiver.queue("other").messages())
        async with aio.connect(url, token="srk_" + "0" * 43) as stranger:
            with pytest.raises(Unauthenticated):
                await anext(stranger.queue("jobs").messages())


def test_a_missing_queue_is_denied_to_a_caller_without_permission(served: Served) -> None:
    said = spoolrack_says("receive", "other", **served.environment)
    assert (said.returncode, said.stdout) == (os.EX_NOPERM, "")
