"""Clients in programs whose threads gevent or eventlet has replaced."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from spoolrack.testing import running_server

from tests.support import STUCK

CLIENT = """
import sys, spoolrack
with spoolrack.connect(sys.argv[1], timeout=200) as client:
    client.create_queue("jobs")
    queue = client.queue("jobs")
    queue.send(b"one")
    with queue.messages() as messages:
        message = next(iter(messages))
        message.delete()
    print(message.body.decode())
"""
KOMBU = """
import sys, kombu, spoolrack.kombu
url = sys.argv[1].replace("grpc://", "spoolrack://")
with kombu.Connection(url) as connection:
    queue = connection.SimpleQueue("jobs")
    queue.put("one")
    message = queue.get(timeout=200)
    message.ack()
    print(message.payload)
    queue.close()
"""
GEVENT = "from gevent import monkey; monkey.patch_all()\n"
EVENTLET = """
import sys, types
sys.modules["eventlet.patcher"] = types.SimpleNamespace(is_monkey_patched=lambda name: name == "thread")
"""
"""The one call that tells whether eventlet has replaced the threads."""


def run(program: str) -> subprocess.CompletedProcess[str]:
    with running_server() as server:
        return subprocess.run(
            [sys.executable, "-c", program, server.url], capture_output=True, text=True, timeout=STUCK
        )


@pytest.mark.parametrize("program", [CLIENT, KOMBU], ids=["client", "kombu"])
def test_a_client_works_on_the_greenlets_of_gevent(program: str) -> None:
    if importlib.util.find_spec("gevent") is None:
        pytest.skip("needs gevent: pip install gevent")
    done = run(GEVENT + program)
    assert (done.stdout, done.returncode) == ("one\n", 0), done.stderr


@pytest.mark.parametrize("program", [CLIENT, KOMBU], ids=["client", "kombu"])
def test_a_client_says_that_it_cannot_run_on_eventlet(program: str) -> None:
    done = run(EVENTLET + program)
    assert "gRPC can't run on its green threads: use gevent" in done.stderr
