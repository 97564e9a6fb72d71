"""The router of a release of shards: HAProxy, configured as rendered, before the rendered pods."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
import spoolrack
import trustme
from botocore.config import Config
from spoolrack_store.model.shards import shard_of

from tests.helm.chart_cases import CERT_MANAGER
from tests.helm.chart_rig import Rendered, Values, rendered
from tests.helm.helm_engine import Engine
from tests.helm.machine import Machine, Pod, project, serving
from tests.helm.test_chart_runs import secret_of, servers_of
from tests.proof.proxies.real_proxy import why_not
from tests.support.ports import free_port
from tests.support.waiting import until

SHARDS: Final = 3
QUEUES: Final = [f"jobs-{number}" for number in range(6)]
ROUTED: Values = {"shards": SHARDS, "router": {"enabled": True}, "sqs": {"enabled": True}}
DOORS: Final = {50051: "grpc", 8080: "http", 9324: "sqs", 8081: "health"}


def configuration_of(release: Rendered) -> str:
    text: str = release.one("ConfigMap", "-router")["data"]["haproxy.cfg"]
    return text


@contextmanager
def routing(
    release: Rendered,
    servers: tuple[Pod, ...],
    folder: Path,
    names: _Names | None = None,
) -> Iterator[dict[str, int]]:
    """Run HAProxy in front of the servers; yields its ports by the name of the door. With `names` it
    looks up the pods' names there."""
    ports = {door: free_port() for door in DOORS.values()}

    def server(found: re.Match[str]) -> str:
        host = found[1] if names else "127.0.0.1"
        return f"{host}:{servers[int(found[2])].ports[DOORS[int(found[3])]]}"

    text = re.sub(
        r"(demo-spoolrack-(\d)\.demo-spoolrack-headless\.queues\.svc\.cluster\.local):(\d+)",
        server,
        configuration_of(release),
    )
    if names:
        text = text.replace("parse-resolv-conf", f"nameserver cluster 127.0.0.1:{names.port}")
    text = re.sub(r"0\.0\.0\.0:(\d+)", lambda found: f"127.0.0.1:{ports[DOORS[int(found[1])]]}", text)
    (folder / "haproxy.cfg").write_text(text.replace("/etc/haproxy-tls", f"{folder}/haproxy-tls"))
    (container,) = release.one("Deployment")["spec"]["template"]["spec"]["containers"]
    command = [
        word.replace("/etc/haproxy-tls", f"{folder}/haproxy-tls")
        .replace("/etc/haproxy/", f"{folder}/")
        .replace("sleep 10", "sleep 0.1")
        for word in container["command"]
    ]
    with open(folder / "haproxy.log", "ab") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"},
        )
    try:
        until(lambda: is_ready(ports["health"]))
        yield ports
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_ready(port: int) -> bool:
    """Return whether the router answers what the kubelet asks."""
    try:
        return ask(http.client.HTTPConnection("127.0.0.1", port), "GET", "/-/health/ready")[0] == 200
    except OSError:
        return False


def ask(connection: http.client.HTTPConnection, method: str, path: str) -> tuple[int, bytes]:
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("has_tls", [False, True], ids=["without tls", "with tls"])
def test_programs_of_each_interface_reach_the_shard_of_their_queue_at_one_address(
    engine: Engine, tmp_path: Path, has_tls: bool
) -> None:
    if (reason := why_not("haproxy")) is not None:
        pytest.skip(reason)
    keys = {"keysSecret": {"name": "sqs-keys"}}
    more = {**CERT_MANAGER, "sqs": {"enabled": True, **keys}} if has_tls else {"insecure": True}
    release = rendered(engine, ROUTED | more)
    machine = Machine(tmp_path, release)
    client: dict[str, Any] = {}
    context = None
    signing = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
    if has_tls:
        from spoolrack_server.access.sqs_keys import issue

        ca = trustme.CA()
        names = release.one("Certificate")["spec"]["dnsNames"]
        secret = secret_of(ca.issue_cert(*names, "127.0.0.1")) | {"ca.crt": ca.cert_pem.bytes()}
        id, key = issue(str(tmp_path / "keys"), "worker")
        signing = {"aws_access_key_id": id, "aws_secret_access_key": key}
        machine.secrets |= {
            "demo-spoolrack-tls": secret,
            "sqs-keys": {"sqs-keys": (tmp_path / "keys").read_bytes()},
        }
        mount(secret, tmp_path)
        client["ca"] = str(tmp_path / "haproxy-tls" / "ca.crt")
        context = ssl.create_default_context(cafile=client["ca"])
    servers = servers_of(machine)
    with serving(*servers), routing(release, servers, tmp_path) as ports:
        url = f"{'grpcs' if has_tls else 'grpc'}://127.0.0.1:{ports['grpc']}"
        with spoolrack.connect(url, routing="header", **client) as connected:
            for queue in QUEUES:
                connected.create_queue(queue).send(queue)
        for queue in QUEUES:
            place = ("127.0.0.1", ports["http"])
            connection = (
                http.client.HTTPSConnection(*place, context=context)
                if context
                else http.client.HTTPConnection(*place)
            )
            assert ask(connection, "GET", f"/{queue}")[0] == 200
        endpoint = f"{'https' if has_tls else 'http'}://127.0.0.1:{ports['sqs']}"
        sqs = boto3.session.Session(region_name="eu-west-1").client(
            "sqs",
            endpoint_url=endpoint,
            verify=client.get("ca"),
            config=Config(retries={"total_max_attempts": 1}),
            **signing,
        )
        for queue in QUEUES:
            found = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
            assert found.startswith(f"{endpoint}/")
            received = sqs.receive_message(QueueUrl=found, WaitTimeSeconds=20)["Messages"]
            assert [each["Body"] for each in received] == [queue]
    for claim in release.claims:
        made = {each.name for each in (machine.claim(claim) / "root" / "queues").iterdir()}
        assert made == {each for each in QUEUES if shard_of(each, SHARDS) == int(claim[-1])}


def mount(secret: dict[str, bytes], folder: Path) -> None:
    """Put the secret where the router has it, as the kubelet does."""
    tls = folder / "haproxy-tls"
    tls.mkdir(exist_ok=True)
    files = {"tls.pem": "tls.crt", "tls.pem.key": "tls.key", "ca.crt": "ca.crt"}
    project(tls, {path: secret[key] for path, key in files.items()}, 0o440)


def test_the_router_shows_a_changed_certificate_without_a_restart(
    engine: Engine, tmp_path: Path
) -> None:
    if (reason := why_not("haproxy")) is not None:
        pytest.skip(reason)
    release = rendered(engine, CERT_MANAGER | {"shards": 2, "router": {"enabled": True}})
    machine = Machine(tmp_path, release)
    ca = trustme.CA()
    names = release.one("Certificate")["spec"]["dnsNames"]
    issued = [secret_of(ca.issue_cert(*names)) | {"ca.crt": ca.cert_pem.bytes()} for _ in range(2)]
    first, second = (ssl.PEM_cert_to_DER_cert(each["tls.crt"].decode()) for each in issued)
    machine.secrets["demo-spoolrack-tls"] = issued[0]
    mount(issued[0], tmp_path)

    def shown() -> bytes:
        try:
            return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", ports["http"])))
        except OSError:
            return b""

    with routing(release, servers_of(machine), tmp_path) as ports:
        assert shown() == first
        for _ in range(20):
            # Again, because HAProxy may lose a signal that comes while it starts.
            mount(issued[1], tmp_path)
            if any(shown() == second for _ in range(500)):
                break
        else:
            raise AssertionError("it never showed the new certificate")


class _Names(threading.Thread):
    """A DNS server (RFC 1035) on the loopback that knows some names as 127.0.0.1."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.known: set[str] = set()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def run(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(4_096)
            at, labels = 12, []
            while length := question[at]:
                labels.append(question[at + 1 : at + 1 + length].decode())
                at += 1 + length
            kind = int.from_bytes(question[at + 1 : at + 3])
            is_known = ".".join(labels) in self.known
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x7f\0\0\1" if is_known and kind == 1 else b""
            head = question[:2] + (b"\x81\x80" if is_known else b"\x81\x83")
            counts = b"\0\1" + (b"\0\1" if answer else b"\0\0") + b"\0\0\0\0"
            self._socket.sendto(head + counts + question[12 : at + 5] + answer, sender)


def test_a_pod_is_found_by_its_name_once_the_cluster_knows_it(engine: Engine, tmp_path: Path) -> None:
    if (reason := why_not("haproxy")) is not None:
        pytest.skip(reason)
    names = _Names()
    names.start()
    release = rendered(engine, {"insecure": True, "shards": 2, "router": {"enabled": True}})
    servers = servers_of(Machine(tmp_path, release))

    def answers(shard: int) -> bool:
        queue = next(each for each in QUEUES if shard_of(each, 2) == shard)
        connection = http.client.HTTPConnection("127.0.0.1", ports["http"])
        return ask(connection, "GET", f"/{queue}")[0] == http.client.NOT_FOUND

    with serving(*servers), routing(release, servers, tmp_path, names) as ports:
        assert [answers(shard) for shard in (0, 1)] == [False, False]
        for shard in (1, 0):
            host = f"demo-spoolrack-{shard}.demo-spoolrack-headless.queues.svc.cluster.local"
            names.known.add(host)
            until(partial(answers, shard))


@pytest.mark.parametrize("shards", [2, 8])
@pytest.mark.parametrize("has_sqs", [False, True])
def test_haproxy_takes_the_configuration_of_any_number_of_shards(
    engine: Engine, tmp_path: Path, shards: int, has_sqs: bool
) -> None:
    if (reason := why_not("haproxy")) is not None:
        pytest.skip(reason)
    values = {"insecure": True, "shards": shards, "router": {"enabled": True}}
    text = configuration_of(rendered(engine, values | {"sqs": {"enabled": has_sqs}}))
    assert set(re.findall(r"mod\((\d+)\)", text)) == {str(shards)}
    doors = ("grpc", "http", "sqs") if has_sqs else ("grpc", "http")
    backends = {"dashboard", *(f"{door}{number}" for door in doors for number in range(shards))}
    assert set(re.findall(r"^backend (\w+)$", text, re.MULTILINE)) == backends
    # Without SQS no call takes the memory that a large body needs.
    assert ("tune.bufsize" in text) is ("sqs" in text) is has_sqs
    (tmp_path / "haproxy.cfg").write_text(text)
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin") or "haproxy"
    checked = subprocess.run(
        [program, "-c", "-f", str(tmp_path / "haproxy.cfg")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert not re.search(r"WARNING|ALERT", checked.stderr), checked.stderr


def test_the_service_leads_to_the_router_and_the_headless_one_to_the_servers(engine: Engine) -> None:
    release = rendered(engine, {"insecure": True} | ROUTED)
    router = release.one("Deployment")["spec"]["template"]
    servers = release.one("StatefulSet")["spec"]["template"]
    for end, chosen, other in (("-spoolrack", router, servers), ("-headless", servers, router)):
        selector = release.one("Service", end)["spec"]["selector"]
        assert selector.items() <= chosen["metadata"]["labels"].items()
        assert not selector.items() <= other["metadata"]["labels"].items()
    (container,) = router["spec"]["containers"]
    offered = {each["targetPort"] for each in release.one("Service", "-spoolrack")["spec"]["ports"]}
    assert offered == {each["name"] for each in container["ports"]} - {"health"}
    for name in ("readinessProbe", "livenessProbe"):
        assert container[name]["httpGet"]["port"] == "health"


def test_the_router_is_reached_by_whom_the_servers_are_and_reaches_servers_alone(
    engine: Engine,
) -> None:
    allowed = [{"namespaceSelector": {"matchLabels": {"uses": "queues"}}}]
    release = rendered(engine, {"insecure": True, "networkPolicy": {"from": allowed}} | ROUTED)
    server, router = (release.one("NetworkPolicy", end)["spec"] for end in ("-spoolrack", "-router"))
    assert router["ingress"] == server["ingress"]
    pods = release.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert router["podSelector"]["matchLabels"].items() <= pods.items()
    assert server["ingress"][0]["from"][0]["podSelector"]["matchLabels"].items() <= pods.items()
    assert "Egress" in router["policyTypes"]  # Else its rules of egress say nothing.
    names, servers = router["egress"]
    assert {each["port"] for each in names["ports"]} == {53}
    assert set(names) == {"ports"}
    # Whole: without a selector, or with an empty one, egress leads anywhere in the namespace.
    selector = release.one("StatefulSet")["spec"]["selector"]["matchLabels"]
    assert servers == {"to": [{"podSelector": {"matchLabels": selector}}]}
    assert not selector.items() <= pods.items()


def test_a_changed_configuration_starts_the_routers_again(engine: Engine) -> None:
    def told(**more: object) -> object:
        release = rendered(engine, {"insecure": True} | ROUTED | more)
        return release.one("Deployment")["spec"]["template"]["metadata"]["annotations"]

    assert told() != told(sqs={"enabled": False})
    assert told() == told(persistence={"size": "1Ti"})
