"""A client's effects on its process: forks, Ctrl-C, the interpreter's end, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import trustme
from spoolrack._core.stop_signals import stopping_on_signals
from spoolrack._runtime import run
from spoolrack._transports import grpc_calls
from spoolrack.testing import RunningServer, running_server

from tests.support import STUCK

TIMEOUT = 60
ENVIRONMENT = {**os.environ, "PYTHONMALLOC": "pymalloc"}
"""`-X dev` would choose the debugging allocator, under which one program in six that was interrupted in
a stream crashed inside gRPC as CPython 3.11.2 ended; with the usual allocator, none of 240 did."""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


def program(server: RunningServer, script: str) -> list[str]:
    head = f"import os, signal, socket, sys, threading, spoolrack\nURL = {server.url!r}\n"
    return [sys.executable, "-X", "dev", "-c", head + textwrap.dedent(script)]


def result_of(server: RunningServer, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        program(server, script), capture_output=True, text=True, timeout=TIMEOUT, env=ENVIRONMENT
    )


def interrupt(server: RunningServer, script: str, number: signal.Signals) -> tuple[str, str, int]:
    """Run a program, and send it a signal once it has said something."""
    with subprocess.Popen(
        program(server, script),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as child:
        try:
            assert child.stdout is not None
            first = child.stdout.readline()
            assert first == "ready\n", child.communicate(timeout=TIMEOUT)
            child.send_signal(number)
            out, err = child.communicate(timeout=TIMEOUT)
        finally:
            child.kill()
    return out, err, child.returncode


def test_a_fork_of_a_program_with_a_client_prints_no_line_about_forks(
    server: RunningServer,
) -> None:
    result = result_of(
        server,
        """
        import subprocess
        client = spoolrack.connect(URL)
        client.create_queue("quiet").send("a")
        with client.queue("quiet").messages() as messages:
            next(messages).delete()
            # As IPython runs `!ls`, and as a program that forks itself.
            subprocess.run(["true"], preexec_fn=lambda: None)
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
        client.close()
        """,
    )
    assert (result.returncode, result.stdout) == (0, "")
    # GRPC_VERBOSITY in the environment would decide. What gRPC says of a child whose poller was at work
    # while the fork came is another matter: it does so at times, whatever that is.
    lines = result.stderr.splitlines()
    assert [line for line in lines if "fork() handlers" in line or "fork parent" in line] == []


def test_a_client_that_came_through_a_fork_says_so(server: RunningServer) -> None:
    result = result_of(
        server,
        """
        import warnings
        warnings.simplefilter("ignore")
        client = spoolrack.connect(URL)
        client.create_queue("forked")
        queue = client.queue("forked")
        stream = queue.messages()
        child = os.fork()
        if not child:
            refused = 0
            for call in ("queue.send('a')", "next(stream)", "client.queue('forked').info()"):
                try:
                    eval(call)
                except spoolrack.errors.ForkedClient:
                    refused += 1
            client.close()
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(queue.send("b") != "")
        """,
    )
    assert result.stdout.split() == ["3", "True"], result.stderr


def test_children_that_are_forked_as_another_thread_checks_certificates_check_theirs(
    server: RunningServer, tmp_path: Path
) -> None:
    """They are refused before gRPC makes a channel: a lock that its own threads hold can't be kept out
    of a fork."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(trustme.CA().cert_pem.bytes())
    result = result_of(
        server,
        f"""
        import warnings
        warnings.simplefilter("ignore")
        CA = {str(ca)!r}
        def connect():
            try:
                spoolrack.connect("grpcs://127.0.0.1:1", ca=CA, certificate=CA, key=CA)
            except spoolrack.errors.InvalidCredentials:
                pass
        def connect_again_and_again():
            while True:
                connect()
        threading.Thread(target=connect_again_and_again, daemon=True).start()
        for _ in range(10):
            child = os.fork()
            if not child:
                signal.alarm(20)  # One that hangs must not outlive the test.
                connect()
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        os._exit(0)
        """,
    )
    assert result.stdout.split() == 10 * ["0"], result.stderr


def test_a_program_ends_with_everything_left_open(server: RunningServer) -> None:
    result = result_of(
        server,
        """
        client = spoolrack.connect(URL)
        client.create_queue("open")
        queue = client.queue("open")
        queue.send_many(["a", "b", "c"])
        stream = queue.messages()
        print(next(stream).text)
        begun = threading.Event()
        client.create_queue("other")
        other = client.queue("other")
        worker = other.worker(lambda message: begun.set())
        threading.Thread(target=worker.run, daemon=True).start()
        other.send("d")
        begun.wait()
        """,
    )
    assert (result.returncode, result.stdout.split()[0]) == (0, "a"), result.stderr
    assert "Traceback" not in result.stderr
    assert "Fatal" not in result.stderr


def test_a_program_that_ends_gives_back_what_its_streams_hold(server: RunningServer) -> None:
    result = result_of(
        server,
        """
        client = spoolrack.connect(URL)
        client.create_queue("held")
        queue = client.queue("held")
        queue.send_many(["a", "b", "c"])
        stream = queue.messages()
        next(stream)
        """,
    )
    assert result.returncode == 0, result.stderr
    with server.client() as client:
        counts = client.queue("held").info().counts
    assert (counts.ready_count, counts.leased_count) == (2, 1)


@pytest.mark.parametrize(
    "call",
    [
        "queue.receive(wait=3600)",
        "next(queue.messages())",
        "list(queue.messages())",
        "queue.work(print, stop_on_signals=False)",
        "client.queue('full').send('b', timeout=3600)",
        "spoolrack.connect(silence()).queue('quiet').send('c', timeout=3600)",
    ],
)
def test_ctrl_c_interrupts_a_call(server: RunningServer, call: str) -> None:
    out, err, code = interrupt(
        server,
        f"""
        client = spoolrack.connect(URL)
        client.create_queue("quiet")
        client.create_queue("full", max_messages=1)
        client.queue("full").send_many(["a"])
        queue = client.queue("quiet")
        listener = socket.socket()

        def silence():
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            return f"127.0.0.1:{{listener.getsockname()[1]}}"

        try:
            print("ready", flush=True)
            {call}
        except KeyboardInterrupt:
            print("interrupted")
        """,
        signal.SIGINT,
    )
    assert (out, code) == ("interrupted\n", 0), err


def test_a_close_that_grpc_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    forever, closing = threading.Event(), threading.Event()

    def close() -> None:
        closing.set()
        forever.wait(STUCK)

    monkeypatch.setattr(grpc_calls, "CLOSE", 0.01)
    calls = grpc_calls.ThreadCalls("127.0.0.1:1")
    close_channel = calls._renewable.channel.close
    monkeypatch.setattr(calls._renewable.channel, "close", close)
    run(calls.close())
    assert calls.is_closed
    assert closing.wait(STUCK)
    forever.set()
    close_channel()


WORK: Final = """
    client = spoolrack.connect(URL)
    queue = client.create_queue({name!r})
    queue.send_many(["a", "b", "c"])
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def work_on(message):
        stopping = threading.Event()
        print("ready", flush=True)
        while not worker._core._stream._closing.is_set():
            stopping.wait(0.001)

    def counts():
        assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        counts = queue.info().counts
        print(counts.ready_count, counts.leased_count)

    worker = queue.worker(work_on, concurrency=1)
"""
WORK_OF_TASKS: Final = """
    import asyncio

    async def main():
        client = spoolrack.aio.connect(URL)
        queue = await client.create_queue({name!r})
        await queue.send_many(["a", "b", "c"])
        before = signal.getsignal(signal.SIGINT)

        async def work_on(message):
            print("ready", flush=True)
            while not worker._core._stream._closing.is_set():
                await asyncio.sleep(0.001)

        worker = queue.worker(work_on, concurrency=1)
        await {call}
        assert before is signal.getsignal(signal.SIGINT)
        counts = (await queue.info()).counts
        print(counts.ready_count, counts.leased_count)
        await client.close()

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_of_the_main_thread_ends_in_order_on_a_signal(
    server: RunningServer, number: signal.Signals
) -> None:
    work = (
        WORK.format(name=f"signals-{number.name}")
        + """
    worker.run()
    counts()
    """
    )
    out, err, code = interrupt(server, work, number)
    assert (out, code) == ("2 0\n", 0), err


def test_a_worker_leaves_a_handler_of_the_program_in_place_unless_asked(server: RunningServer) -> None:
    handled = """
    class Handled(BaseException):
        pass

    def handle(number, frame):
        raise Handled

    signal.signal(signal.SIGINT, handle)
    """
    run = """
    try:
        worker.run({options})
    except Handled:
        print("handled")
    counts()
    """
    work = handled + WORK.format(name="own-handler") + run.format(options="")
    out, err, code = interrupt(server, work, signal.SIGINT)
    assert (out, code) == ("handled\n2 0\n", 0), err
    work = handled + WORK.format(name="asked") + run.format(options="stop_on_signals=True")
    out, err, code = interrupt(server, work, signal.SIGINT)
    assert (out, code) == ("2 0\n", 0), err


def test_a_worker_of_another_thread_leaves_signals_to_the_main_thread(server: RunningServer) -> None:
    work = (
        WORK.format(name="other-thread")
        + """
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print("interrupted")
    worker.stop()
    thread.join()
    counts()
    """
    )
    out, err, code = interrupt(server, work, signal.SIGINT)
    assert (out, code) == ("interrupted\n2 0\n", 0), err


def test_a_handler_that_the_program_sets_while_a_worker_runs_stays() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Another test may have set one.
    handler = lambda number, frame: None  # noqa: E731
    try:
        with stopping_on_signals(lambda: None, is_wanted=None):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
            signal.signal(signal.SIGTERM, handler)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_of_the_task_of_asyncio_run_ends_in_order_on_a_signal(
    server: RunningServer, number: signal.Signals
) -> None:
    work = WORK_OF_TASKS.format(name=f"tasks-{number.name}", call="worker.run()")
    out, err, code = interrupt(server, work, number)
    assert (out, code) == ("2 0\n", 0), err


def test_a_worker_in_a_task_beside_others_leaves_signals_to_the_program(server: RunningServer) -> None:
    work = WORK_OF_TASKS.format(name="beside", call="asyncio.create_task(worker.run())")
    out, err, code = interrupt(server, work, signal.SIGINT)
    assert (out, code) == ("interrupted\n", 0), err


def test_importing_the_fixtures_needs_neither_pytest_nor_the_server(server: RunningServer) -> None:
    result = result_of(
        server,
        """
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "pytest" else find(name, *rest)
        sys.modules["pytest"] = None
        sys.modules["spoolrack_server"] = sys.modules["spoolrack_server.process.server"] = None
        import spoolrack.testing
        try:
            with spoolrack.testing.running_server():
                pass
        except ImportError as error:
            print(error)
        """,
    )
    assert "pip install '.[server]'" in result.stdout, result.stderr
