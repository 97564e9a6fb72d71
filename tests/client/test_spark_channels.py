"""Channels belong to one process each: Spark forks its workers, and pickles what they run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest
from spoolrack._credentials import NONE
from spoolrack.spark import _light_client as channel
from spoolrack.spark import write_partition

from tests.support.relayed_server import RelayedServer, relayed_server


@pytest.fixture
def server() -> Iterator[RelayedServer]:
    with relayed_server("jobs") as server:
        yield server


FORKS = """
import os, sys
from spoolrack.spark import write_partition

child = os.fork()
write_partition(sys.argv[1], "jobs")(["from the child" if child == 0 else "from the parent"])
if child:
    os.waitpid(child, 0)
"""


def test_processes_that_are_forked_make_channels_of_their_own(server: RelayedServer) -> None:
    subprocess.run([sys.executable, "-c", FORKS, server.endpoint], check=True, timeout=120)

    assert sorted(server.bodies("jobs")) == [b"from the child", b"from the parent"]


def test_a_process_makes_one_channel_when_it_first_calls(server: RelayedServer) -> None:
    writer = pickle.loads(pickle.dumps(write_partition(server.endpoint, "jobs")))
    key = (os.getpid(), server.endpoint, NONE)
    assert key not in channel._channels

    writer(["a"])
    made = channel._channels[key]
    writer(["b"])

    assert channel._channels[key] is made
