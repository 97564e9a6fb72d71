"""Programs that use a root and end, in any way: their locks, threads and messages."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import spoolrack

TIMEOUT = 60


@contextmanager
def program(url: str, script: str) -> Iterator[subprocess.Popen[str]]:
    head = f"import sys, threading, spoolrack\nclient = spoolrack.connect({url!r})\n"
    head += "client.create_queue('jobs')\njobs = client.queue('jobs')\n"
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", head + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def result_of(url: str, script: str) -> tuple[int, str, str]:
    with program(url, script) as process:
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, out, err


def test_a_program_that_ends_gives_back_what_its_streams_hold(root: Path, url: str) -> None:
    code, out, err = result_of(
        url,
        "jobs.send_many(['a', 'b', 'c'])\n"
        "stream = jobs.messages()\n"
        "print(next(stream).text)\n"
        "client.create_queue('other')\n"
        "other, begun = client.queue('other'), threading.Event()\n"
        "worker = other.worker(lambda message: begun.set())\n"
        "threading.Thread(target=worker.run, daemon=True).start()\n"
        "other.send('d')\n"
        "begun.wait()\n",
    )
    assert (code, out) == (0, "a\n"), err
    assert "Traceback" not in err
    assert list((root / "owners").iterdir()) == []
    with spoolrack.connect(url) as client:
        counts = client.queue("jobs").info().counts
    assert (counts.ready_count, counts.leased_count) == (2, 1)


def test_a_program_whose_tasks_are_cut_off_leaves_the_root_to_others(url: str) -> None:
    code, out, err = result_of(
        url,
        f"""
import asyncio
client.close()

async def main():
    left_open = spoolrack.aio.connect({url!r})
    jobs = left_open.queue("jobs")
    await jobs.send("a")
    print((await jobs.receive())[0].text)
    waiting = asyncio.create_task(jobs.receive(wait=3600))
    await asyncio.sleep(0)

asyncio.run(main())
""",
    )
    assert (code, out) == (0, "a\n"), err
    assert "Traceback" not in err
    with spoolrack.connect(url) as client:
        client.queue("jobs").send("b")
        assert client.queue("jobs").receive(wait=TIMEOUT)[0].text == "b"


@pytest.mark.parametrize(
    "call",
    [
        "jobs.receive(wait=3600)",
        "next(jobs.messages())",
        "jobs.work(print, stop_on_signals=False)",
        "full.send('b', timeout=3600)",
    ],
)
def test_ctrl_c_interrupts_a_call(url: str, call: str) -> None:
    script = f"""
client.create_queue("full", max_messages=1)
full = client.queue("full")
full.send_many(["a"])
try:
    print("ready", flush=True)
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""
    with program(url, script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        assert (out, process.returncode) == ("interrupted\n", 0), err


def test_a_thread_whose_start_is_interrupted_begins_before_the_interpreter_ends() -> None:
    script = """
import os, signal, sys, threading, time
from spoolrack._threads import start_thread
create = threading._start_new_thread

def create_late(bootstrap, arguments):
    # The system creates the thread, lets it begin late, and meanwhile Ctrl-C comes.
    create(lambda: (time.sleep(0.5), bootstrap(*arguments)), ())
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading._start_new_thread = create_late
try:
    start_thread(lambda: os.write(1, f"begun, {sys.is_finalizing()}\\n".encode()), "late")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["begun, False", "interrupted"], done.stderr


def test_a_thread_that_was_never_created_is_not_awaited_for_long_when_the_interpreter_ends() -> None:
    script = """
import threading
from spoolrack import _threads as threads

def refuse(bootstrap, arguments):
    raise RuntimeError("can't start new thread")

threading._start_new_thread = refuse
threads.BEGIN = 0.1
try:
    threads.start_thread(print, "never")
except RuntimeError as error:
    kept = error
print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert done.stdout == "refused\n"


def test_no_thread_is_started_once_the_interpreter_ends() -> None:
    script = """
import atexit
@atexit.register
def at_last():
    try:
        threads.start_thread(print, "too-late")
    except threads.Ending as error:
        print(error)
from spoolrack import _threads as threads
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert done.stdout == "the interpreter ends: no thread can be started any more\n"


def test_a_forked_child_of_a_program_with_an_open_stream_ends_in_order(url: str) -> None:
    code, out, err = result_of(
        url,
        "import os\n"
        "jobs.send_many(['a', 'b'])\n"
        "stream = jobs.messages()\n"
        "print(next(stream).text, flush=True)\n"
        "child = os.fork()\n"
        "if child: print(os.waitpid(child, 0)[1])\n",
    )
    assert (code, out) == (0, "a\n0\n"), err
