"""The pods of the chart's `hosts: several` on CephFS, one at each host."""

from __future__ import annotations

from contextlib import closing
from uuid import uuid4

import spoolrack

from tests.ceph.cluster import HOSTS, Cluster
from tests.helm.chart_cases import HOSTS as VALUES
from tests.helm.chart_rig import rendered
from tests.helm.helm_engine import Engine
from tests.helm.machine import Machine, Pod, serving


def test_rendered_pods_of_two_hosts_have_the_same_queues(cluster: Cluster) -> None:
    with closing(Engine()) as engine:
        release = rendered(engine, {"insecure": True, "queues": {"jobs": {}}} | VALUES)
    run, nodes = uuid4().hex, []
    for host in HOSTS:
        folder = cluster.at(host) / f"chart-{run}"
        folder.mkdir(exist_ok=True)
        nodes.append(Machine(folder, release))
    first, second = (node.pod("server", release.pod) for node in nodes)
    with serving(first, second):
        job = nodes[1].pod("queues", release.one("Job")["spec"]["template"]["spec"], second)
        made = job.run()
        assert made.returncode == 0, made.stderr
        with client_of(first) as one, client_of(second) as other:
            sent = one.queue("jobs").send("by the first")
            (found,) = other.queue("jobs").receive(1)
            assert (found.id, found.text) == (sent, "by the first")
            first.kill()
            found.delete()
            assert not other.queue("jobs").receive(1)


def client_of(pod: Pod) -> spoolrack.Client:
    return spoolrack.connect(f"grpc://127.0.0.1:{pod.ports['grpc']}")
