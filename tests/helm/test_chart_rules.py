"""Promises of the rendered objects: to Kubernetes, to each other, and to the image."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import CHECKOUT
from tests.helm.chart_rig import CASES, ORDER, ROUTED, Rendered, container, rendered
from tests.helm.helm_engine import CHART, Engine
from tests.support.dockerfile import stages

Release = Callable[[str], Rendered]
MARGIN = 10
"""Seconds to close the store, after the drain."""
VOLUMES = {"configMap", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
every_case = pytest.mark.parametrize("case", CASES)


@pytest.mark.parametrize("case", CASES | ROUTED)
def test_every_pod_passes_the_restricted_pod_security_standard(release: Release, case: str) -> None:
    pods = list(release(case).pods())
    assert len(pods) >= 2
    for _, pod in pods:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"].get("runAsUser") != 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert all(not volume.keys() - {"name"} - VOLUMES for volume in pod.get("volumes", ()))
        for each in (*pod["containers"], *pod.get("initContainers", ())):
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert each["securityContext"].get("privileged", False) is False
            assert not {"procMount", "runAsUser"} & each["securityContext"].keys()
            assert not any("hostPort" in port for port in each.get("ports", ()))


@every_case
def test_every_container_of_ours_has_a_read_only_root_and_no_rights_in_the_cluster(
    release: Release, case: str
) -> None:
    for _, pod in release(case).pods():
        assert container(pod)["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["automountServiceAccountToken"] is False
        # Kubernetes would set SPOOLRACK_PORT and the like, and such variables set options.
        assert pod["enableServiceLinks"] is False
    assert not {"Role", "ClusterRole", "RoleBinding"} & {each["kind"] for each in release(case).objects}


@every_case
def test_the_three_probes_are_distinct_and_ask_the_plaintext_listener(
    release: Release, case: str
) -> None:
    server = release(case).server
    probes = [server[name] for name in ORDER]
    assert len({json.dumps(probe, sort_keys=True) for probe in probes}) == 3
    port = next(each["containerPort"] for each in server["ports"] if each["name"] == "health")
    assert release(case).arguments["--health"].endswith(f":{port}")
    for probe in probes:
        assert (probe["httpGet"]["port"], probe["httpGet"]["scheme"]) == ("health", "HTTP")
        assert probe["timeoutSeconds"] <= probe["periodSeconds"]
    startup, liveness, readiness = probes
    assert readiness["httpGet"]["path"] == "/-/health/ready"
    # Not being ready is no reason to be killed.
    assert {startup["httpGet"]["path"], liveness["httpGet"]["path"]} == {"/-/health/live"}
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 600


@every_case
def test_ports_agree_from_the_flags_to_the_services(release: Release, case: str) -> None:
    found = release(case)
    ports = {each["name"]: each["containerPort"] for each in found.server["ports"]}
    sqs = {"sqs": 9324} if CASES[case].get("sqs", {}).get("enabled") else {}
    assert ports == {"grpc": 50051, "http": 8080, "health": 8081, **sqs}
    assert sorted(set(ports.values()) - {9324}) == sorted(stages()[-1].ports)
    for name, port in ports.items():
        assert found.arguments[f"--{name}"].endswith(f":{port}")
    for service in found.all("Service"):
        offered = {each["targetPort"] for each in service["spec"]["ports"]}
        assert offered == {"grpc", "http", *sqs}, "health is the kubelet's alone"
        labels = found.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
    headless = found.one("Service", "-headless")
    assert headless["spec"]["clusterIP"] == "None"
    assert found.one("StatefulSet")["spec"]["serviceName"] == headless["metadata"]["name"]


@every_case
def test_clients_of_the_release_are_not_chosen_by_what_chooses_servers(
    release: Release, case: str
) -> None:
    found = release(case)
    chosen = found.one("StatefulSet")["spec"]["selector"]["matchLabels"]
    for each in (*found.all("Pod"), *(job["spec"]["template"] for job in found.all("Job"))):
        assert not chosen.items() <= each["metadata"]["labels"].items()


@every_case
def test_the_grace_period_is_as_long_as_the_delay_the_drain_and_the_close(
    release: Release, case: str
) -> None:
    found = release(case)
    delay = 0
    if "lifecycle" in found.server:
        *program, code = found.server["lifecycle"]["preStop"]["exec"]["command"]
        assert program == ["/opt/spoolrack/bin/python", "-c"]
        delay = int(code.removeprefix("import time; time.sleep(").removesuffix(")"))
    grace = int(found.arguments["--grace"].removesuffix("s"))
    assert found.pod["terminationGracePeriodSeconds"] == delay + grace + MARGIN
    wanted = CASES[case].get("drain", {"delaySeconds": 5, "graceSeconds": 30})
    assert (delay, grace) == (wanted["delaySeconds"], wanted["graceSeconds"])


@every_case
def test_tls_is_there_or_was_declined_in_as_many_words(release: Release, case: str) -> None:
    found = release(case)
    is_insecure = CASES[case].get("insecure", False)
    assert ("--insecure" in found.arguments) is is_insecure
    assert ("--tls-certificate" in found.arguments) is not is_insecure
    assert ("--tls-key" in found.arguments) is not is_insecure
    for _, pod in found.pods():
        for each in container(pod).get("env", ()):
            if each["name"] == "SPOOLRACK_URL":
                assert each["value"].startswith("grpc://" if is_insecure else "grpcs://")
    assert ("WARNING: it is served without TLS" in found.notes) is is_insecure


@every_case
def test_every_file_that_a_flag_or_a_variable_names_is_mounted_read_only(
    release: Release, case: str
) -> None:
    for _, pod in release(case).pods():
        ours = container(pod)
        words = [word.partition("=")[2] or word for word in ours["args"]]
        words += [each["value"] for each in ours.get("env", ()) if "value" in each]
        mounts = {each["mountPath"]: each for each in ours.get("volumeMounts", ())}
        volumes = {each["name"]: each for each in pod.get("volumes", ())}
        if (
            ours["args"][0] == "serve"
            and "volumeClaimTemplates" in release(case).one("StatefulSet")["spec"]
        ):
            volumes["messages"] = {"persistentVolumeClaim": {}}
        named = [Path(word) for word in words if word.startswith("/etc/")]
        for path in named:
            mount = mounts[str(path.parent)]
            assert mount["readOnly"] is True
            volume = volumes[mount["name"]]
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440
                assert path.name in [item["path"] for item in volume["secret"]["items"]]
        used = {str(path.parent) for path in named}
        assert {path for path in mounts if path.startswith("/etc/")} == used
        assert {each["name"] for each in mounts.values()} == set(volumes)


@every_case
def test_the_root_is_a_folder_in_the_only_volume_that_can_be_written(
    release: Release, case: str
) -> None:
    image = stages()[-1]
    found = release(case)
    assert found.arguments["--data"] == image.environment["SPOOLRACK_DATA"]
    writable = [each for each in found.server["volumeMounts"] if not each.get("readOnly")]
    ours = [each for each in writable if each["name"] == "messages"]
    assert [each["mountPath"] for each in ours] == image.volumes
    assert len(writable) == 1 + len(CASES[case].get("extraVolumeMounts", ()))


@every_case
def test_the_pod_runs_the_program_and_the_user_of_the_image(release: Release, case: str) -> None:
    image = stages()[-1]
    for _, pod in release(case).pods():
        assert container(pod)["command"] == image.entry
        if "security" not in CASES[case]:
            context = pod["securityContext"]
            assert f"{context['runAsUser']}:{context['runAsGroup']}" == image.user


def test_large_ids_are_written_as_whole_numbers(engine: Engine) -> None:
    found = rendered(engine, {"insecure": True, "security": {"runAsUser": 1_000_650_000}})
    assert found.pod["securityContext"]["runAsUser"] == 1_000_650_000


@every_case
def test_each_server_has_one_claim(release: Release, case: str) -> None:
    found, values = release(case), CASES[case]
    server, shards = found.one("StatefulSet"), values.get("shards", 1)
    several_hosts = values.get("hosts") == "several"
    assert server["spec"]["replicas"] == values.get("replicas", shards)
    has_volume = values.get("persistence", {}).get("enabled", True)
    assert len(set(found.claims)) == (shards if has_volume else 0)
    assert ("volumeClaimTemplates" in server["spec"]) is (has_volume and shards > 1)
    assert "--peers" not in found.arguments
    spread = found.pod.get("topologySpreadConstraints")
    assert bool(spread) is (shards > 1 or several_hosts or "topologySpreadConstraints" in values)
    assert ("affinity" in found.pod) is ("affinity" in values)


@every_case
def test_a_claim_is_made_unless_there_is_one_and_stays_unless_told(release: Release, case: str) -> None:
    found, wanted = release(case), CASES[case].get("persistence", {})
    made = [each["metadata"]["name"] for each in found.all("PersistentVolumeClaim")]
    if not wanted.get("enabled", True):
        volume = next(each for each in found.pod["volumes"] if each["name"] == "messages")
        assert volume["emptyDir"] == {}
        assert "WARNING: messages are gone with their pod" in found.notes
        assert not made
        return
    if "existingClaim" in wanted:
        assert found.claims == [wanted["existingClaim"]]
        assert not made
        return
    assert made == found.claims
    for claim in found.all("PersistentVolumeClaim"):
        kept = claim["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
        assert kept is wanted.get("keep", True)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_larger_size_changes_the_claims_and_no_field_that_can_not_change(
    engine: Engine, shards: int
) -> None:
    case = CASES["tls from a secret"] | {"shards": shards}
    small = rendered(engine, case)
    large = rendered(engine, case | {"persistence": {"size": "20Gi"}})
    changed = [
        (before["kind"], after["spec"])
        for before, after in zip(small.objects, large.objects, strict=True)
        if before != after
    ]
    assert len(changed) == shards
    for kind, spec in changed:
        assert kind == "PersistentVolumeClaim"
        assert spec["resources"]["requests"]["storage"] == "20Gi"
        assert spec["accessModes"] == small.all(kind)[0]["spec"]["accessModes"]


def test_the_pods_start_again_when_their_tokens_change_unless_told(engine: Engine) -> None:
    def sums(values: dict[str, Any]) -> str | None:
        template = rendered(engine, values).one("StatefulSet")["spec"]["template"]
        found: str | None = template["metadata"]["annotations"].get("checksum/access")
        return found

    case = CASES["tokens and permissions"]
    other = case | {"access": case["access"] | {"permissions": "worker all *\n"}}
    assert sums(case) is not None
    assert sums(case) == sums(copy.deepcopy(case))
    assert sums(case) != sums(other)
    assert sums(CASES["tokens without a restart"]) is None
    # Secrets of others are read again by the server itself.
    assert sums(CASES["access of one's own"]) is None


def test_a_new_version_of_the_chart_alone_starts_no_pod_again(release: Release) -> None:
    text = json.dumps(release("everything").one("StatefulSet")["spec"]["template"])
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f"spoolrack-{chart['version']}" not in text


def test_an_ingress_leads_to_the_http_port_of_the_service(release: Release) -> None:
    found = release("everything")
    (rule,) = found.one("Ingress")["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    services = {each["metadata"]["name"]: each["spec"]["ports"] for each in found.all("Service")}
    assert backend["port"]["name"] in [port["name"] for port in services[backend["name"]]]
    assert not release("insecure").all("Ingress")


def test_a_claim_may_begin_with_a_snapshot(release: Release) -> None:
    claim = release("a claim from a snapshot").one("PersistentVolumeClaim")
    assert claim["spec"]["dataSource"]["name"] == "last-night"
    assert "dataSource" not in release("insecure").one("PersistentVolumeClaim")["spec"]


@every_case
def test_a_budget_lets_one_server_go(release: Release, case: str) -> None:
    found = release(case)
    budgets = found.all("PodDisruptionBudget")
    assert len(budgets) == CASES[case].get("podDisruptionBudget", {}).get("enabled", True)
    for each in budgets:
        assert each["spec"]["maxUnavailable"]
        labels = found.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_prometheus_scrapes_the_servers_as_they_are_served(release: Release) -> None:
    for case, scheme in (
        ("watched", "https"),
        ("watched without tls", "http"),
        ("everything", "https"),
        ("shards of cert-manager", "https"),
        ("shards with everything", "https"),
    ):
        found = release(case)
        monitor = found.one("ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        assert (endpoint["port"], endpoint["path"]) == ("http", "/-/metrics")
        assert endpoint["scheme"] == scheme
        chosen = monitor["spec"]["selector"]["matchLabels"]
        # By one service, with the port: by both every pod would be scraped twice.
        (match,) = [
            s for s in found.all("Service") if chosen.items() <= s["metadata"]["labels"].items()
        ]
        assert endpoint["port"] in [each["name"] for each in match["spec"]["ports"]]
    token = release("watched").one("ServiceMonitor")["spec"]["endpoints"][0]["authorization"]
    assert token["credentials"] == {"name": "client-token", "key": "token"}
    token = release("everything").one("ServiceMonitor")["spec"]["endpoints"][0]["authorization"]
    assert token["credentials"]["name"] == "scraper"


def test_the_rules_know_the_job_as_which_servers_are_scraped(release: Release, engine: Engine) -> None:
    other = rendered(engine, CASES["watched"] | {"fullnameOverride": "queues"})
    rules = release("watched").one("PrometheusRule")["spec"]["groups"]
    asked = {each for group in rules for each in re.findall(r'job=~"([^"]+)"', str(group))}
    for found in (release("watched"), release("everything"), other):
        (endpoint,) = found.one("ServiceMonitor")["spec"]["endpoints"]
        relabeling = endpoint["relabelings"][0]
        assert relabeling["targetLabel"] == "job"
        for pattern in asked:
            assert re.fullmatch(pattern, relabeling["replacement"])


def test_rules_dashboard_and_router_are_those_of_deploy(release: Release) -> None:
    for ours, theirs in (
        ("rules.yaml", "prometheus/rules.yaml"),
        ("dashboard.json", "grafana/spoolrack.json"),
        ("haproxy.cfg", "proxies/shards/haproxy.cfg"),
    ):
        copied, original = CHART / "files" / ours, CHECKOUT / "deploy" / theirs
        assert copied.read_bytes() == original.read_bytes(), f"cp {original} {copied}"
    found = release("watched")
    rules = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
    assert found.one("PrometheusRule")["spec"] == rules
    assert sum(len(group["rules"]) for group in rules["groups"]) > 0
    dashboard = found.one("ConfigMap", "-dashboard")
    (text,) = dashboard["data"].values()
    assert json.loads(text) == json.loads((CHART / "files" / "dashboard.json").read_text())
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_hooks_run_when_they_should_and_can_run_again(release: Release) -> None:
    found = release("queues")
    job, tried = (
        found.one("Job")["metadata"]["annotations"],
        found.one("Pod")["metadata"]["annotations"],
    )
    assert set(job["helm.sh/hook"].split(",")) == {"post-install", "post-upgrade", "post-rollback"}
    assert tried["helm.sh/hook"] == "test"
    for each in (job, tried):
        assert "before-hook-creation" in each["helm.sh/hook-delete-policy"]
    assert not release("insecure").all("Job"), "without queues there is nothing to do"


def test_the_watermarks_of_the_disk_are_flags_only_where_they_are_set(engine: Engine) -> None:
    values = {"insecure": True, "server": {"minFreeSpace": "2G", "minFreeInodes": 2_000_000}}
    flags = container(rendered(engine, values).pod)["args"]
    assert "--min-free-space=2G" in flags
    assert "--min-free-inodes=2000000" in flags
    flags = container(rendered(engine, {"insecure": True}).pod)["args"]
    assert not any(flag.startswith("--min-free") for flag in flags)
