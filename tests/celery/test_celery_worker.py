"""Celery's workers on `spoolrack://`: real processes, a real server."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, uuid
from celery.exceptions import TaskRevokedError
from spoolrack.testing import RunningServer, running_server

from tests.celery import celery_app
from tests.celery.tasks import Tasks
from tests.celery.test_kombu_transport import ENVELOPE, FOREIGN
from tests.celery.worker_rig import Worker, configure, ended_worker, until, worker
from tests.support import STUCK
from tests.support.real_server import RealServer

LEAVES = 30.0
"""Seconds in which a worker without its server ends, on a busy machine, too."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("celery")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    """Serve; the app of this process sends to it."""
    (folder / "results").mkdir()
    with running_server(folder / "data") as server, configure(broker(server), folder / "results"):
        yield server


@pytest.fixture(scope="module")
def running(server: RunningServer, folder: Path) -> Iterator[Worker]:
    # Each child ends after ten tasks: the next is forked while the parent's connections are open.
    with worker("first", broker(server), folder, "-E", "--max-tasks-per-child", "10") as running:
        yield running


def broker(server: RunningServer) -> str:
    return server.url.replace("grpc://", "spoolrack://")


class TestTasks(Tasks):
    """The broker is this server."""


@pytest.mark.usefixtures("running")
def test_a_task_that_is_due_in_an_hour_waits_at_the_server(server: RunningServer) -> None:
    with server.client() as client:
        jobs = client.queue("celery")
        before = jobs.info().counts.delayed_count
        celery_app.add.apply_async((1, 1), countdown=3_600)
        assert jobs.info().counts.delayed_count == before + 1


def test_a_revoked_task_never_runs(running: Worker) -> None:
    id = uuid()
    celery_app.app.control.revoke(id)
    inspect = celery_app.app.control.inspect([running.name], timeout=STUCK, limit=1)
    until(lambda: id in inspect.revoked()[running.name], "the worker knows of it")
    revoked = celery_app.now.apply_async(task_id=id)
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=STUCK)


def test_a_ping_is_answered(running: Worker) -> None:
    assert celery_app.app.control.ping(timeout=STUCK, limit=1) == [{running.name: {"ok": "pong"}}]


def test_a_worker_whose_processes_are_all_busy_is_inspected_and_its_tasks_are_revoked(
    server: RunningServer, tmp_path: Path
) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"
    with worker("busy", broker(server), tmp_path, "--queues", "busy") as busy:
        for _ in range(6):
            celery_app.wait_for.apply_async((str(gate), str(log)), queue="busy")
        inspect = celery_app.app.control.inspect([busy.name], timeout=STUCK, limit=1)
        until(lambda: len(inspect.active()[busy.name]) == 2, "both processes are busy")
        until(lambda: len(inspect.reserved()[busy.name]) == 4, "the other tasks wait in the worker")
        revoked = {task["id"] for task in inspect.reserved()[busy.name]}
        celery_app.app.control.revoke(list(revoked))
        until(lambda: revoked <= set(inspect.revoked()[busy.name]), "they are revoked")
        gate.touch()
        with server.client() as client:
            until(lambda: not client.queue("busy").info().counts.leased_count, "all are acknowledged")
    assert len(log.read_text().splitlines()) == 2


def test_tasks_that_a_stopped_worker_never_began_were_not_received(
    server: RunningServer, tmp_path: Path
) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"
    with worker("stopped", broker(server), tmp_path, "--queues", "spared") as stopped:
        for _ in range(6):
            celery_app.wait_for.apply_async((str(gate), str(log)), queue="spared")
        inspect = celery_app.app.control.inspect([stopped.name], timeout=STUCK, limit=1)
        until(lambda: len(inspect.active()[stopped.name]) == 2, "both processes are busy")
        until(lambda: len(inspect.reserved()[stopped.name]) == 4, "the others wait in the worker")
        stopped.ask_to_stop()
        gate.touch()
        stopped.stop()
    with server.client() as client:
        left = list(client.queue("spared").peek())
        assert [message.receive_count for message in left] == [0] * 4
        client.delete_queue("spared")


@pytest.mark.parametrize("name", ["again", pytest.param("fatal", marks=pytest.mark.slow)])
def test_a_task_that_is_rejected_whenever_it_runs_becomes_a_dead_letter(
    server: RunningServer, tmp_path: Path, name: str
) -> None:
    log = tmp_path / "log"
    with server.client() as client:
        client.create_queue(f"{name}-dead")
        client.create_queue(name, max_receives=3, dead_letter_queue=f"{name}-dead")
        with worker(name, broker(server), tmp_path, "--queues", name):
            getattr(celery_app, name).apply_async((str(log),), queue=name)
            until(lambda: client.queue(f"{name}-dead").info().counts.ready_count, "it is dead")
    assert log.read_text().split() == [name] * 3


def test_a_message_that_ends_a_worker_as_it_is_delivered_counts_as_received(
    server: RunningServer, tmp_path: Path
) -> None:
    headers = {"task": "tests.celery.celery_app.add", "id": "1", "stamped_headers": 1}
    with server.client() as client:
        client.create_queue("ending")
        with worker("ended", broker(server), tmp_path, "--queues", "ending") as ended:
            client.queue("ending").send(json.dumps({**ENVELOPE, "headers": headers}))
            ended.wait()
        assert [message.receive_count for message in client.queue("ending").peek()] == [1]


def test_messages_of_other_programs_end_no_worker(
    server: RunningServer, running: Worker, tmp_path: Path
) -> None:
    with server.client() as client:
        client.queue("celery").send_many(FOREIGN)
    assert celery_app.add.delay(1, 2).get(timeout=STUCK) == 3
    assert "Unrecoverable" not in running.log


def test_an_inspection_names_the_queue(running: Worker) -> None:
    inspect = celery_app.app.control.inspect([running.name], timeout=STUCK)
    assert [queue["name"] for queue in inspect.active_queues()[running.name]] == ["celery"]


@pytest.mark.usefixtures("running")
def test_a_monitor_sees_the_events_of_a_task() -> None:
    seen: list[Any] = []
    with celery_app.app.connection_for_read() as connection:
        receiver = celery_app.app.events.Receiver(connection, handlers={"task-succeeded": seen.append})
        capturing = threading.Thread(
            target=lambda: receiver.capture(limit=None, timeout=STUCK, wakeup=False), daemon=True
        )
        capturing.start()

        def task_is_seen() -> bool:
            # A worker looks for new monitors once a second.
            found = celery_app.add.delay(1, 2)
            found.get(timeout=STUCK)
            return found.id in {event["uuid"] for event in seen}

        until(task_is_seen, "the event of a task")
        receiver.should_stop = True
        capturing.join(STUCK)
        assert not capturing.is_alive()


def test_a_task_longer_than_its_lease_runs_once(
    server: RunningServer, running: Worker, tmp_path: Path
) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"
    result = celery_app.wait_for.delay(str(gate), str(log))
    with server.client() as client:

        def expiry() -> datetime | None:
            leased = list(client.queue("celery").peek(["leased"]))
            return leased[0].lease_expires_at if leased else None

        first = until(expiry, "the task is leased")
        # Extended again and again: at the end the first lease would have been over long ago.
        until(
            lambda: (expiry() or first) > first + timedelta(seconds=2 * celery_app.LEASE),
            "the lease is extended",
        )
    gate.touch()
    assert result.get(timeout=STUCK) == "done"
    assert len(log.read_text().splitlines()) == 1
    with server.client() as client:
        until(lambda: not client.queue("celery").info().counts.leased_count, "the task is acknowledged")


def test_a_task_of_a_killed_worker_runs_on_another(server: RunningServer, tmp_path: Path) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"
    with worker("killed", broker(server), tmp_path, "--queues", "late") as killed:
        celery_app.wait_for.apply_async((str(gate), str(log)), queue="late")
        until(log.exists, "the task runs")
        killed.kill()
    gate.touch()
    with worker("second", broker(server), tmp_path, "--queues", "late"):
        until(lambda: len(log.read_text().splitlines()) == 2, "the task runs again")


def test_a_stopped_worker_leaves_no_queue_of_its_own(server: RunningServer, tmp_path: Path) -> None:
    with worker("short", broker(server), tmp_path, "--queues", "late"), server.client() as client:
        assert any(queue.name.startswith("short-localhost") for queue in client.list_queues())
    with server.client() as client:
        assert not any(queue.name.startswith("short-localhost") for queue in client.list_queues())


def test_a_worker_starts_and_empties_its_queue_while_the_server_refuses_every_send(
    tmp_path: Path,
) -> None:
    full = RealServer(tmp_path / "root", tmp_path / "log")
    gate, log = tmp_path / "gate", tmp_path / "tasks"
    gate.touch()
    try:
        full.start()
        with Celery(broker=f"spoolrack://127.0.0.1:{full.port}") as app:
            for _ in range(4):
                app.send_task(celery_app.wait_for.name, (str(gate), str(log)))
        full.kill()
        full = RealServer(full.root, tmp_path / "log", after=("--min-free-space", "1048576G"))
        full.start()
        url = f"spoolrack://127.0.0.1:{full.port}"
        with worker("starving", url, tmp_path, "-E", "--queues", "celery") as starving:
            left = full.queue("celery")
            until(lambda: not list(left.peek(limit=1)), "the queue is empty")
            assert "Unrecoverable" not in starving.log
    finally:
        full.kill()
    assert len(log.read_text().splitlines()) == 4


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[RealServer]:
    """Serve from a process of its own, which a test may kill."""
    server = RealServer(tmp_path / "root", tmp_path / "server-log")
    server.start()
    yield server
    server.kill()


def waiting_tasks(server: RealServer, folder: Path, count: int) -> tuple[Path, Path]:
    """Send tasks that wait for a file; return it, and the log that they write to as they begin."""
    gate, log = folder / "gate", folder / "tasks"
    with Celery(broker=f"spoolrack://127.0.0.1:{server.port}") as app:
        for _ in range(count):
            app.send_task(celery_app.wait_for.name, (str(gate), str(log)))
    return gate, log


@pytest.mark.parametrize(
    ("pool", "signals"),
    [
        ("solo", [signal.SIGTERM]),
        ("threads", [signal.SIGTERM]),
        pytest.param("prefork", [signal.SIGTERM], marks=pytest.mark.slow),
        pytest.param("gevent", [signal.SIGTERM], marks=pytest.mark.slow),
        pytest.param("prefork", [signal.SIGINT, signal.SIGINT, signal.SIGINT], marks=pytest.mark.slow),
        pytest.param("threads", [signal.SIGTERM, signal.SIGQUIT], marks=pytest.mark.slow),
        pytest.param("solo", [signal.SIGQUIT], marks=pytest.mark.slow),
    ],
)
def test_a_worker_whose_server_is_gone_stops(
    dying: RealServer, tmp_path: Path, pool: str, signals: list[int]
) -> None:
    """With tasks that can't be acknowledged, and others that can't be released. It takes about 5 s; it
    was for ever."""
    if pool == "gevent" and importlib.util.find_spec("gevent") is None:
        pytest.skip("needs gevent: pip install gevent")
    gate, log = waiting_tasks(dying, tmp_path, 8)
    url = f"spoolrack://127.0.0.1:{dying.port}"
    with ended_worker(pool, url, tmp_path, "--pool", pool) as lonely:
        until(log.exists, "a task runs")
        dying.kill()
        gate.touch()
        if pool != "solo":  # Its event loop is busy with the task until then.
            until(lambda: "were dropped" in lonely.log, "a heartbeat is dropped")
        lonely.signal(*signals)
        lonely.wait(LEAVES)


@pytest.mark.parametrize(
    "signals",
    [[signal.SIGQUIT], pytest.param([signal.SIGINT, signal.SIGINT], marks=pytest.mark.slow)],
)
def test_a_task_that_began_counts_after_a_cold_stop_and_the_others_do_not(
    dying: RealServer, tmp_path: Path, signals: list[int]
) -> None:
    """Else a task that hangs until each cold stop never becomes a dead letter."""
    waiting_tasks(dying, tmp_path, 6)
    url = f"spoolrack://127.0.0.1:{dying.port}"
    with ended_worker("cold", url, tmp_path) as cold:
        with Celery(broker=url) as app:
            inspect = app.control.inspect([cold.name], timeout=STUCK, limit=1)
            # Celery cancels those only that its parent knows to run, and waits for others.
            until(lambda: len(inspect.active()[cold.name]) == 2, "two tasks run")
        cold.signal(*signals)
        cold.wait()
    counts = [message.receive_count for message in dying.queue("celery").peek()]
    assert sorted(counts) == [0, 0, 0, 0, 1, 1]


def test_a_worker_goes_on_with_another_server_of_its_url_when_one_is_gone(
    dying: RealServer, server: RunningServer, tmp_path: Path
) -> None:
    urls = f"spoolrack://127.0.0.1:{dying.port};{broker(server)}"
    log = tmp_path / "tasks"
    (tmp_path / "gate").touch()
    with worker("moving", urls, tmp_path, "--pool", "threads", "--queues", "moved"):
        dying.kill()
        with Celery(broker=urls) as app:  # Its first server is gone, too.
            app.send_task(celery_app.wait_for.name, (str(tmp_path / "gate"), str(log)), queue="moved")
        until(log.exists, "the task runs from the second server")


FORKING = """
import os, sys
from celery import Celery
app = Celery("forking", broker=sys.argv[1], backend="rpc://")
@app.task(name="never")
def never(): pass
never.delay()
if os.fork() == 0:
    never.delay()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_child_sends_with_its_first_call(server: RunningServer) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, broker(server)], capture_output=True, text=True, timeout=STUCK
    )
    assert done.returncode == 0, done.stderr
