"""What a program leaves behind that uses a root and ends, in whatever way."""

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
        counts = client.get_queue("jobs").counts
    assert (counts.ready, counts.leased) == (2, 1)


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
        "jobs.work(print)",
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
