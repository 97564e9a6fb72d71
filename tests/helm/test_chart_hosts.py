"""A release of several hosts: pods of one root, on one volume that all nodes mount."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests import CHECKOUT
from tests.helm.api_server import cluster_with
from tests.helm.chart_cases import HOSTS, Values
from tests.helm.chart_rig import CASES, Rendered, rendered
from tests.helm.helm_engine import Engine, Refused
from tests.helm.machine import Machine

Release = Callable[[str], Rendered]
PAGE = CHECKOUT / "docs" / "how-to" / "several-hosts.md"
OK: Values = {"insecure": True} | HOSTS
OF_HOSTS = [name for name in CASES if CASES[name].get("hosts") == "several"]
of_hosts = pytest.mark.parametrize("case", OF_HOSTS)


@of_hosts
def test_all_pods_mount_one_claim_that_many_nodes_can_mount(release: Release, case: str) -> None:
    found, values = release(case), CASES[case]
    spec = found.one("StatefulSet")["spec"]
    assert spec["replicas"] == values["replicas"]
    assert "volumeClaimTemplates" not in spec
    (name,) = found.claims
    assert name in found.notes
    if "existingClaim" in values["persistence"]:
        return
    claim = found.one("PersistentVolumeClaim")
    assert claim["metadata"]["name"] == name
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


@of_hosts
def test_no_two_pods_are_on_a_node_while_another_has_none(release: Release, case: str) -> None:
    found = release(case)
    (spread,) = found.pod["topologySpreadConstraints"]
    assert (spread["maxSkew"], spread["topologyKey"]) == (1, "kubernetes.io/hostname")
    assert spread["whenUnsatisfiable"] == "DoNotSchedule"
    labels = found.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()


def test_one_pod_is_evicted_at_a_time(release: Release) -> None:
    budget = release("several hosts").one("PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize(
    ("mine", "name"), [({}, "demo-spoolrack"), ({"existingClaim": "mine"}, "mine")]
)
def test_a_claim_of_one_node_in_the_cluster_is_refused(engine: Engine, mine: Values, name: str) -> None:
    asked = OK | {"persistence": {"accessMode": "ReadWriteMany"} | mine}
    claim = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "queues"},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    with cluster_with([claim]) as cluster:
        assert engine.render(asked, namespace="another", cluster=cluster)
        with pytest.raises(Refused) as refused:
            engine.render(asked, cluster=cluster)
    assert f"hosts: several needs a ReadWriteMany volume, and the claim {name} is ReadWriteOnce" in str(
        refused.value
    )
    assert "docs/how-to/import-export.md" in str(refused.value)
    with cluster_with(
        [claim | {"spec": {"accessModes": ["ReadOnlyMany", "ReadWriteMany"]}}]
    ) as cluster:
        assert engine.render(asked, cluster=cluster)


def test_a_pod_refuses_a_volume_that_is_not_cephfs(engine: Engine, tmp_path: Path) -> None:
    release = rendered(engine, OK)
    pod = Machine(tmp_path, release).pod("server", release.pod)
    log = pod.fails()
    assert "one host at a time can mount" in log
    assert "leave out --hosts several" in log


def test_the_values_of_the_page_are_a_release_of_two_pods(engine: Engine) -> None:
    (values,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found = rendered(engine, yaml.safe_load(values))
    assert (found.one("StatefulSet")["spec"]["replicas"], len(found.claims)) == (2, 1)
    assert "mounter: fuse" in found.notes
