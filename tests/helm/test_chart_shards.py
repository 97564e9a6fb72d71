"""A release of shards: one StatefulSet, whose pods have numbers, and what says so to clients."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from spoolrack_store.model.shards import shard_of

from tests import CHECKOUT
from tests.helm.api_server import cluster_with
from tests.helm.chart_cases import TOGETHER, Values
from tests.helm.chart_rig import CASES, Rendered, rendered
from tests.helm.helm_engine import Engine, Refused

Release = Callable[[str], Rendered]
OK: Values = {"insecure": True}
ROUTER: Values = {"router": {"enabled": True}}
VECTORS = [
    each["queue"]
    for each in json.loads((CHECKOUT / "tests" / "vectors" / "shards.json").read_text())["vectors"]
]
OF_SHARDS = [name for name in CASES if "shards" in CASES[name]]
of_shards = pytest.mark.parametrize("case", OF_SHARDS)


@of_shards
def test_each_pod_serves_the_shard_of_its_number(release: Release, case: str) -> None:
    found, shards = release(case), CASES[case]["shards"]
    assert found.arguments["--shard"] == f"$(POD_INDEX)/{shards}"
    index = next(each for each in found.server["env"] if each["name"] == "POD_INDEX")
    path = index["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['apps.kubernetes.io/pod-index']"


@pytest.mark.parametrize("case", [name for name in CASES if name not in OF_SHARDS])
def test_a_release_of_one_server_is_no_shard(release: Release, case: str) -> None:
    assert "--shard" not in release(case).arguments
    assert release(case).one("Service", "-headless")["spec"].get("publishNotReadyAddresses") is None


@of_shards
def test_no_service_leads_to_any_server_of_the_release(release: Release, case: str) -> None:
    (headless,) = release(case).all("Service")
    assert headless["spec"]["clusterIP"] == "None"
    # The name of a shard is known while it starts: there is no other server for its queues.
    assert headless["spec"]["publishNotReadyAddresses"] is True


def test_the_notes_name_the_server_of_each_queue_of_the_values(engine: Engine) -> None:
    for shards in (2, 8):
        values = OK | {"shards": shards, "queues": dict.fromkeys(VECTORS)}
        told = dict(re.findall(r"^  (\S+): (\S+):50051$", rendered(engine, values).notes, re.MULTILINE))
        assert told == {
            queue: f"demo-spoolrack-{shard_of(queue, shards)}.demo-spoolrack-headless.queues.svc"
            for queue in VECTORS
        }


def test_a_queue_url_of_sqs_leads_to_the_pod_that_answers_it(engine: Engine) -> None:
    values = OK | {"shards": 3, "sqs": {"enabled": True}}
    headless = "demo-spoolrack-headless.queues.svc:9324"
    found = rendered(engine, values).arguments["--sqs-url"]
    assert found == f"http://demo-spoolrack-$(POD_INDEX).{headless}"
    # Behind the router it is where the request went.
    assert "--sqs-url" not in rendered(engine, values | ROUTER).arguments
    mine = values | {"sqs": {"enabled": True, "url": "https://sqs-$(POD_INDEX).example.com"}}
    assert rendered(engine, mine).arguments["--sqs-url"] == "https://sqs-$(POD_INDEX).example.com"


def test_what_is_scraped_from_a_shard_has_its_number_as_a_label(release: Release) -> None:
    (endpoint,) = release("shards with everything").one("ServiceMonitor")["spec"]["endpoints"]
    (relabeling,) = [each for each in endpoint["relabelings"] if each.get("targetLabel") == "shard"]
    label = "apps.kubernetes.io/pod-index"
    name = label.translate(str.maketrans("./-", "___"))
    assert relabeling["sourceLabels"] == [f"__meta_kubernetes_pod_label_{name}"]


def test_shards_are_spread_over_nodes_unless_told(release: Release, engine: Engine) -> None:
    found = release("shards")
    (spread,) = found.pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    labels = found.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    mine = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    told = rendered(engine, OK | {"shards": 2, "topologySpreadConstraints": mine})
    assert told.pod["topologySpreadConstraints"] == mine


def test_the_template_of_claims_is_the_same_whatever_the_values_of_the_claims(engine: Engine) -> None:
    def templates(**more: object) -> object:
        found = rendered(engine, OK | {"shards": 2, "persistence": more})
        return found.one("StatefulSet")["spec"]["volumeClaimTemplates"]

    # Kubernetes refuses a StatefulSet whose template has changed.
    assert templates() == templates(size="1Ti", keep=False, annotations={"a": "b"})


def test_dead_letter_queues_of_one_server_have_any_name(engine: Engine) -> None:
    queues = {"jobs": {"maxReceives": 1, "deadLetterQueue": "dead"}}
    assert rendered(engine, OK | {"queues": queues})
    assert rendered(engine, OK | {"shards": 4, "queues": TOGETHER})


@pytest.mark.parametrize(
    ("made", "asked"), [(1, 2), (2, 1), (2, 3), (3, 2)], ids=lambda number: f"{number}"
)
def test_another_number_of_shards_is_refused_where_the_cluster_has_claims(
    engine: Engine, made: int, asked: int
) -> None:
    claims = rendered(engine, OK | {"shards": made}).all("PersistentVolumeClaim")
    with cluster_with(claims) as cluster:
        assert engine.render(OK | {"shards": made}, cluster=cluster)
        # Another release, and one in another namespace.
        assert engine.render(OK | {"shards": asked}, name="another", cluster=cluster)
        assert engine.render(OK | {"shards": asked}, namespace="another", cluster=cluster)
        with pytest.raises(Refused) as refused:
            engine.render(OK | {"shards": asked}, cluster=cluster)
    name = claims[0]["metadata"]["name"]
    says = f"shards: the values say {asked}, and the claim {name} was made for {made}"
    assert says in str(refused.value)
    assert "docs/how-to/another-number-of-shards.md" in str(refused.value)


def test_a_cluster_that_gives_pods_no_number_is_refused(engine: Engine) -> None:
    why = (
        "pods learn their number by a label that Kubernetes sets from 1.28 on, and this cluster has v1"
    )
    for version, asked, is_why in (("v1.27.9", 2, True), ("v1.27.9", 1, False), ("v1.28.0", 2, False)):
        with cluster_with([], version=version) as cluster:
            assert (why in engine.try_install(OK | {"shards": asked}, cluster)) is is_why


def test_a_claim_of_shards_says_of_how_many(release: Release) -> None:
    for claim in release("shards").all("PersistentVolumeClaim"):
        assert claim["metadata"]["annotations"]["spoolrack/shards"] == "2"
