"""Needs a cluster: `make interop-ceph` stands one up, and names its folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.ceph.cluster import HOSTS, VARIABLE, Cluster
from tests.ceph.load import QUEUE
from tests.support.real_server import RealServer

collect_ignore: list[str] = []


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    folder = os.environ.get(VARIABLE)
    if folder is None:
        pytest.skip("needs CephFS: make interop-ceph stands one up")
    return Cluster(folder)


@pytest.fixture
def servers(cluster: Cluster, tmp_path: Path) -> Iterator[dict[str, RealServer]]:
    """A server at each host, on one root, with one queue."""
    name = uuid4().hex
    made = {
        host: RealServer(
            cluster.at(host) / name, tmp_path / f"{host}.log", after=("--hosts", "several")
        )
        for host in HOSTS
    }
    for server in made.values():
        server.start()
    made[HOSTS[0]].client.create_queue(QUEUE)
    try:
        yield made
    finally:
        for server in made.values():
            server.kill()
        # A test that failed leaves a host frozen, and whatever looks at its mount waits.
        for host in HOSTS:
            pid = cluster.pid(host)
            if pid:
                os.kill(pid, signal.SIGCONT)
            else:
                cluster.mount(host)
