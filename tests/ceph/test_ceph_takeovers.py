"""Two servers at two hosts share a root on CephFS. Whatever happens to one of them, the other goes on,
no acknowledged message is lost, and none comes back that was deleted."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.ceph.cluster import Cluster
from tests.ceph.load import Ledger, Load, drain
from tests.support.real_server import RealServer
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WARM = 3.0
"""Seconds of load before and after something happens."""


def check(ledger: Ledger, survivor: RealServer) -> None:
    drain(survivor, ledger)
    assert len(ledger.sent) > 10
    assert ledger.lost == set()
    assert ledger.back == set()


def test_a_server_that_is_killed_is_taken_over_from_at_once(servers: dict[str, RealServer]) -> None:
    load = Load(servers)
    for _ in range(5):
        load.run(WARM)
        servers["a"].kill()
        killed = time.monotonic()
        print(f"take-over {load.seconds_to_answer('b', killed):.2f} s after a kill")
        load.run(WARM)
        servers["a"].start()
    check(load.stop(), servers["b"])


@pytest.mark.parametrize("times", range(3))
def test_a_frozen_host_that_is_evicted_and_wakes_answers_nothing_more(
    servers: dict[str, RealServer], cluster: Cluster, times: int
) -> None:
    load = Load(servers)
    load.run(WARM + 0.1 * times)
    frozen = [cluster.pid("a"), servers["a"].pid]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    load.run(1)
    evicted = time.monotonic()
    cluster.evict("a")
    told = time.monotonic()
    takes = load.seconds_to_answer("b", evicted)
    print(f"take-over {takes:.2f} s after the eviction began, which took {told - evicted:.2f} s")
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    woken = time.monotonic()
    load.run(WARM)
    until(lambda: bool(servers["a"].is_failed()))
    ledger = load.stop()
    print(f"it answered {len([1 for at in ledger.answers['a'] if at > woken])} calls after it woke")
    check(ledger, servers["b"])
    servers["a"].kill()
    cluster.unmount("a")


def test_a_frozen_host_is_evicted_by_the_metadata_server_after_the_timeout_of_sessions(
    servers: dict[str, RealServer], cluster: Cluster
) -> None:
    for setting in ("session_timeout", "session_autoclose"):
        cluster.ask("fs", "set", "fs", setting, "30")
    load = Load(servers)
    load.run(WARM)
    frozen = [cluster.pid("a"), servers["a"].pid]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    took = load.seconds_to_answer("b", time.monotonic() + 1, limit=180)
    print(f"take-over {took + 1:.0f} s after the host froze, with a session_autoclose of 30 s")
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    load.run(WARM)
    check(load.stop(), servers["b"])
    servers["a"].kill()
    cluster.unmount("a")


@pytest.mark.parametrize("dies", [False, True])
def test_storage_that_freezes_or_dies_delays_answers_and_loses_none(
    servers: dict[str, RealServer], cluster: Cluster, dies: bool
) -> None:
    load = Load(servers)
    load.run(WARM)
    pid = cluster.pid("osd.1")
    os.kill(pid, signal.SIGKILL if dies else signal.SIGSTOP)
    stopped = time.monotonic()
    if dies:
        print(f"answers {load.seconds_to_answer('b', stopped):.1f} s after an OSD died")
        cluster.start_osd(1)
    else:
        load.run(5 * WARM)
        os.kill(pid, signal.SIGCONT)
        print(f"answers {load.seconds_to_answer('b', stopped):.1f} s after an OSD froze for 15 s")
    load.run(2 * WARM)
    check(load.stop(), servers["b"])


def test_all_that_was_acknowledged_outlives_all_hosts_and_the_metadata_server(
    servers: dict[str, RealServer], cluster: Cluster
) -> None:
    load = Load(servers)
    load.run(WARM)
    dying = [cluster.pid("mds.x"), *(cluster.pid(host) for host in servers)]
    for pid in (*dying, *(server.pid for server in servers.values())):
        os.kill(pid, signal.SIGKILL)
    ledger = load.stop()
    for host, server in servers.items():
        server.kill()
        cluster.unmount(host)
    cluster.start_mds()
    for host in servers:
        cluster.mount(host)
    servers["b"].start()
    check(ledger, servers["b"])


def test_a_metadata_server_that_dies_delays_answers_and_loses_none(
    servers: dict[str, RealServer], cluster: Cluster
) -> None:
    load = Load(servers)
    load.run(WARM)
    os.kill(cluster.pid("mds.x"), signal.SIGKILL)
    died = time.monotonic()
    load.run(WARM)
    cluster.start_mds()
    for host in servers:
        waited = load.seconds_to_answer(host, died + WARM, limit=180)
        print(f"{host} answers {waited:.0f} s after the metadata server was started again")
    load.run(2 * WARM)
    check(load.stop(), servers["b"])
