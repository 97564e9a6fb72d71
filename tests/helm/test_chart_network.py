"""Access to the pods, and their names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helm.chart_rig import CASES, Object, Rendered, container, rendered
from tests.helm.helm_engine import Engine

Release = Callable[[str], Rendered]
every_case = pytest.mark.parametrize("case", CASES)


def policy_of(found: Rendered) -> Object:
    policy: Object = found.one("NetworkPolicy")["spec"]
    return policy


@every_case
def test_the_network_policy_lets_in_what_the_services_offer_and_no_more(
    release: Release, case: str
) -> None:
    found, wanted = release(case), CASES[case].get("networkPolicy", {})
    if not wanted.get("enabled", True):
        assert not found.all("NetworkPolicy")
        return
    policy = policy_of(found)
    offered = {port["targetPort"] for each in found.all("Service") for port in each["spec"]["ports"]}
    ours = policy["ingress"][: 1 + ("httpFrom" in wanted)]
    assert {each["port"] for each in ours[0]["ports"]} == offered
    assert all(each["port"] != "health" for rule in ours for each in rule["ports"])
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert ("from" in ours[0]) is ("from" in wanted)
    # Nothing goes out but traces, and what was asked for.
    traces = CASES[case].get("server", {}).get("traces")
    assert len(policy["egress"]) == bool(traces) + len(wanted.get("extraEgress", ()))


def test_with_authentication_the_job_and_the_test_are_admitted(release: Release) -> None:
    found = release("everything")
    allowed = policy_of(found)["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    clients = [found.one("Pod"), found.one("Job")["spec"]["template"]]
    for each in clients:
        assert allowed.items() <= each["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://collector.observability:4317", 4317),
        ("https://collector.example.com", 443),
        ("http://collector/v1/traces", 80),
    ],
)
def test_traces_are_let_out_to_their_port(engine: Engine, url: str, port: int) -> None:
    found = rendered(engine, {"insecure": True, "server": {"traces": url}})
    (rule,) = policy_of(found)["egress"]
    assert [each["port"] for each in rule["ports"]] == [53, 53, port]
    assert found.arguments["--traces"] == url


@every_case
def test_the_certificate_is_good_for_every_name_that_this_chart_uses(
    release: Release, case: str
) -> None:
    found = release(case)
    if not found.all("Certificate"):
        return
    names = found.one("Certificate")["spec"]["dnsNames"]
    for _, pod in found.pods():
        for each in container(pod).get("env", ()):
            if each["name"] == "SPOOLRACK_URL":
                for address in each["value"].partition("://")[2].split(","):
                    host = address.rpartition(":")[0]
                    assert {host, f"*.{host.partition('.')[2]}"} & set(names)
    headless = found.one("Service", "-headless")["metadata"]["name"]
    assert f"*.{headless}.queues.svc" in names
    secrets = [each["secret"]["secretName"] for each in found.pod["volumes"] if each["name"] == "tls"]
    assert secrets == [found.one("Certificate")["spec"]["secretName"]]
