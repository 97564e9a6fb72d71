"""Commands of rendered pods are run: the server, its probes, the job, the test, and the drain.

So the chart can't name a flag, a variable, a port, a path or a file that the program doesn't know. The
cluster's part (scheduling, mounting, the network, Helm's own hooks) isn't tested here.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import spoolrack
import trustme
from botocore.config import Config
from botocore.exceptions import ClientError
from spoolrack_server.access.sqs_keys import issue
from spoolrack_server.access.tokens import line_of, new_token
from spoolrack_store.model.shards import shard_of

from tests.helm.chart_rig import Rendered, Values, rendered
from tests.helm.helm_engine import Engine
from tests.helm.machine import Machine, Pod, serving
from tests.support import STUCK
from tests.support.ports import free_port

DRAIN = {"delaySeconds": 1, "graceSeconds": 20}
QUEUES: Values = {
    "jobs": {"visibilityTimeout": "5m", "maxReceives": 5, "deadLetterQueue": "jobs.failed"},
    "jobs.failed": {"retention": "14d", "maxMessages": 1_000_000},
}
PERMISSIONS = (
    "deploy manage,monitor,send jobs*\ndeploy all try-*\nworker send,receive jobs*\nscraper monitor *\n"
)


@dataclass(frozen=True)
class Deployed:
    """A release on this machine."""

    machine: Machine
    release: Rendered
    servers: tuple[Pod, ...]
    client: dict[str, Any]
    """A worker's arguments of `connect`, besides the URL."""
    scraper: str | None
    """The token of Prometheus."""
    context: ssl.SSLContext | None

    @property
    def server(self) -> Pod:
        """The first of the servers."""
        return self.servers[0]

    @property
    def url(self) -> str:
        return self.url_of(*self.servers)

    def url_of(self, *servers: Pod) -> str:
        addresses = [f"127.0.0.1:{each.ports['grpc']}" for each in servers]
        return f"{'grpcs' if self.context else 'grpc'}://{','.join(addresses)}"

    def connect(self, *servers: Pod) -> spoolrack.Client:
        return spoolrack.connect(self.url_of(*(servers or self.servers)), **self.client)

    def runs(self, kind: str, name: str) -> str:
        """Run the pod of a hook to its end; returns what it said."""
        found = self.release.one(kind)
        spec = found["spec"] if kind == "Pod" else found["spec"]["template"]["spec"]
        ended = self.machine.pod(name, spec, *self.servers).run()
        assert ended.returncode == 0, ended.stderr + self.server.log
        return ended.stdout + ended.stderr

    def get(self, port: str, path: str, token: str | None = None) -> tuple[int, bytes]:
        """Ask a port of the server over HTTP, or HTTPS if that is how it is served."""
        place = ("127.0.0.1", self.server.ports[port])
        if self.context is not None and port != "health":
            connection = http.client.HTTPSConnection(*place, timeout=STUCK, context=self.context)
        else:
            connection = http.client.HTTPConnection(*place, timeout=STUCK)
        try:
            connection.request(
                "GET", path, headers={} if token is None else {"authorization": f"Bearer {token}"}
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def servers_of(machine: Machine) -> tuple[Pod, ...]:
    replicas = machine.release.one("StatefulSet")["spec"]["replicas"]
    return tuple(
        machine.pod(f"server-{number}", machine.release.pod, number=number)
        for number in range(replicas)
    )


def without_tls(engine: Engine, folder: Path, more: Values) -> Deployed:
    release = rendered(engine, {"insecure": True, "drain": DRAIN, "queues": QUEUES} | more)
    machine = Machine(folder, release)
    return Deployed(machine, release, servers_of(machine), {}, None, None)


def with_everything(
    engine: Engine, folder: Path, more: Values, secrets: dict[str, dict[str, bytes]] | None = None
) -> Deployed:
    """TLS for the names in the chart's own Certificate, clients' certificates, tokens, permissions."""
    tokens = {name: new_token() for name in ("deploy", "worker", "scraper")}
    asked = {
        "tls": {
            "certManager": {"enabled": True, "issuerRef": {"name": "ca"}},
            "clientCA": {"secretName": "clients"},
        },
        "access": {
            "tokens": "".join(f"{line_of(name, token)}\n" for name, token in tokens.items()),
            "permissions": PERMISSIONS,
        },
        "client": {"tokenSecret": {"name": "deploy-token"}, "tlsSecretName": "deploy-tls"},
        "serviceMonitor": {"enabled": True},
        "drain": DRAIN,
        "queues": QUEUES,
    }
    release = rendered(engine, asked | more)
    ours, theirs = trustme.CA(), trustme.CA()
    names = release.one("Certificate")["spec"]["dnsNames"]
    certificate = ours.issue_cert(*names, "127.0.0.1")
    shown = theirs.issue_cert("deploy.clients", common_name="deploy")
    worker = theirs.issue_cert("worker.clients", common_name="worker")
    machine = Machine(folder, release)
    machine.secrets |= secrets or {}
    machine.secrets |= {
        "demo-spoolrack-tls": secret_of(certificate) | {"ca.crt": ours.cert_pem.bytes()},
        "clients": {"ca.crt": theirs.cert_pem.bytes()},
        "deploy-tls": secret_of(shown),
        "deploy-token": {"token": tokens["deploy"].encode() + b"\n"},
    }
    paths = {name: folder / name for name in ("ca", "certificate", "key")}
    paths["ca"].write_bytes(ours.cert_pem.bytes())
    paths["certificate"].write_bytes(secret_of(worker)["tls.crt"])
    paths["key"].write_bytes(secret_of(worker)["tls.key"])
    context = ssl.create_default_context(cafile=paths["ca"])
    context.load_cert_chain(paths["certificate"], paths["key"])
    client = {name: str(path) for name, path in paths.items()} | {"token": tokens["worker"]}
    return Deployed(machine, release, servers_of(machine), client, tokens["scraper"], context)


def secret_of(certificate: trustme.LeafCert) -> dict[str, bytes]:
    chain = b"".join(each.bytes() for each in certificate.cert_chain_pems)
    return {"tls.crt": chain, "tls.key": certificate.private_key_pem.bytes()}


Deploy = Callable[[Engine, Path, Values], Deployed]
either = pytest.mark.parametrize("deploy", [without_tls, with_everything])


@either
def test_a_release_is_served_declared_tried_and_drained(
    engine: Engine, tmp_path: Path, deploy: Deploy
) -> None:
    deployed = deploy(engine, tmp_path, {})
    server = deployed.server
    with serving(server):
        # The hook of the installation, and of an upgrade after it.
        assert "jobs: created" in deployed.runs("Job", "install")
        assert "jobs: is as declared" in deployed.runs("Job", "upgrade")
        assert "sent, received and deleted a message" in deployed.runs("Pod", "try")
        with deployed.connect() as client:
            jobs = client.queue("jobs")
            jobs.send("before")
            waiting = threading.Thread(target=jobs.receive, kwargs={"max_messages": 1, "wait": 0.5})
            waiting.start()
            # The kubelet: first the hook, during which calls are still served; then SIGTERM.
            with server.run_pre_stop() as hook:
                kept = jobs.send("while the cluster learns of the end")
                assert server.asks("readinessProbe") == http.client.OK
                waiting.join()
            assert hook.returncode == 0
            server.terminate()
            assert server.ended(server.spec["terminationGracePeriodSeconds"]) == 0
    # The claim is what stays; the next pod finds everything in it.
    again = deployed.machine.pod("server-0-again", deployed.release.pod)
    with serving(again), deployed.connect(again) as client:
        found = client.queue("jobs").receive(10)
        assert kept in [message.id for message in found]
        settings = client.queue("jobs").info().settings if deployed.context is None else None
        assert settings is None or settings.visibility_timeout == 300


TOGETHER: Values = {
    **{f"jobs-{n}": {"maxReceives": 5, "deadLetterQueue": f"jobs-{n}--failed"} for n in range(6)},
    **{f"jobs-{n}--failed": {} for n in range(6)},
}


@either
def test_a_release_of_shards_is_declared_and_tried_and_keeps_each_message_on_the_claim_of_its_shard(
    engine: Engine, tmp_path: Path, deploy: Deploy
) -> None:
    deployed = deploy(engine, tmp_path, {"shards": 3, "queues": TOGETHER})
    with serving(*deployed.servers):
        assert "jobs-0: created" in deployed.runs("Job", "install")
        assert "jobs-0: is as declared" in deployed.runs("Job", "upgrade")
        tried = deployed.runs("Pod", "try").splitlines()
        said = [f"shard {number} of 3: sent, received and deleted a message" for number in range(3)]
        assert [line.partition(" in ")[0] for line in tried] == said
        with deployed.connect() as client:
            for queue in TOGETHER:
                client.queue(queue).send(queue)
    for claim in deployed.release.claims:
        root = deployed.machine.claim(claim) / "root"
        assert {shard_of(each.name, 3) for each in (root / "queues").iterdir()} == {
            int(claim.rpartition("-")[2])
        }
    # The next pod of a number finds the claim of that number.
    again = servers_of(Machine(tmp_path, deployed.release, deployed.machine.secrets))
    with serving(*again), deployed.connect(*again) as client:
        for queue in TOGETHER:
            (message,) = client.queue(queue).receive(10)
            assert message.text == queue


def test_a_claim_of_another_number_of_shards_is_refused_without_a_cluster_to_look_into(
    engine: Engine, tmp_path: Path
) -> None:
    before = without_tls(engine, tmp_path, {"shards": 3, "queues": {}})
    with serving(*before.servers):
        pass
    after = without_tls(engine, tmp_path, {"shards": 2, "queues": {}})
    pod = after.machine.pod("server-1-after", after.release.pod, number=1)
    log = pod.fails()
    assert "1/3" in log
    assert "1/2" in log


@either
def test_a_call_in_flight_ends_in_the_drain_within_the_grace_period(
    engine: Engine, tmp_path: Path, deploy: Deploy
) -> None:
    deployed = deploy(engine, tmp_path, {})
    with serving(deployed.server):
        deployed.runs("Job", "install")
        with deployed.connect() as client:
            failures: list[Exception] = []

            def receive() -> None:
                try:
                    client.queue("jobs").receive(wait=300)
                except spoolrack.SpoolrackError as error:
                    failures.append(error)

            waiting = threading.Thread(target=receive, daemon=True)
            waiting.start()
            with deployed.server.run_pre_stop() as hook:
                pass
            assert hook.returncode == 0
            deployed.server.terminate()
            assert deployed.server.ended(deployed.server.spec["terminationGracePeriodSeconds"]) == 0
            # A receive that waits for five minutes is ended, and doesn't hold up the pod.
            assert "stopped" in deployed.server.log


@either
def test_the_health_port_says_health_without_tls_and_nothing_else(
    engine: Engine, tmp_path: Path, deploy: Deploy
) -> None:
    deployed = deploy(engine, tmp_path, {})
    with serving(deployed.server):
        for path in ("/-/health/live", "/-/health/ready"):
            assert deployed.get("health", path)[0] == 200
        for path in ("/", "/jobs/messages", "/-/metrics", "/-/openapi.json", "/-/dashboard"):
            assert deployed.get("health", path)[0] == 404


def test_prometheus_may_scrape_what_the_monitor_names(engine: Engine, tmp_path: Path) -> None:
    deployed = with_everything(engine, tmp_path, {})
    (endpoint,) = deployed.release.one("ServiceMonitor")["spec"]["endpoints"]
    with serving(deployed.server):
        status, text = deployed.get(endpoint["port"], endpoint["path"], deployed.scraper)
        assert status == 200
        assert b"spoolrack_" in text


def test_the_permissions_of_the_release_hold(engine: Engine, tmp_path: Path) -> None:
    deployed = with_everything(engine, tmp_path, {})
    with serving(deployed.server), deployed.connect() as client:
        with pytest.raises(spoolrack.SpoolrackError, match="worker"):
            client.create_queue("another")
        stranger = deployed.client | {"token": new_token()}
        with (
            spoolrack.connect(deployed.url, **stranger) as unknown,
            pytest.raises(spoolrack.SpoolrackError),
        ):
            unknown.queue("jobs").send("hello")


def send_and_receive(deployed: Deployed, queue: str, **options: Any) -> list[str]:
    """Send a message by boto3, and return the bodies that are received."""
    scheme = "https" if deployed.context else "http"
    url = f"{scheme}://127.0.0.1:{deployed.server.ports['sqs']}"
    config = Config(retries={"total_max_attempts": 1}, **options.pop("config", {}))
    session = boto3.session.Session(region_name="eu-west-1")
    client = session.client("sqs", endpoint_url=url, config=config, **options)
    found = client.get_queue_url(QueueName=queue)["QueueUrl"]
    client.send_message(QueueUrl=found, MessageBody="hello")
    received = client.receive_message(QueueUrl=found, WaitTimeSeconds=20)["Messages"]
    return [message["Body"] for message in received]


def test_clients_of_sqs_are_served_by_the_keys_of_the_secret(engine: Engine, tmp_path: Path) -> None:
    more = {"sqs": {"enabled": True, "keysSecret": {"name": "sqs", "key": "file"}}}
    key, secret = issue(str(tmp_path / "keys"), "worker")
    secrets = {"sqs": {"file": (tmp_path / "keys").read_bytes()}}
    deployed = with_everything(engine, tmp_path, more, secrets)
    ours = {
        "verify": deployed.client["ca"],
        "config": {"client_cert": (deployed.client["certificate"], deployed.client["key"])},
        "aws_access_key_id": key,
    }
    with serving(deployed.server):
        deployed.runs("Job", "install")
        found = send_and_receive(deployed, "jobs", **ours, aws_secret_access_key=secret)
        assert found == ["hello"]
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            send_and_receive(deployed, "jobs", **ours, aws_secret_access_key="another")


def test_clients_of_sqs_are_served_by_any_key_where_the_values_say_insecure(
    engine: Engine, tmp_path: Path
) -> None:
    deployed = without_tls(engine, tmp_path, {"sqs": {"enabled": True}})
    any_key = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
    with serving(deployed.server):
        deployed.runs("Job", "install")
        assert send_and_receive(deployed, "jobs", **any_key) == ["hello"]


def test_a_pod_of_several_processes_is_probed_as_one(engine: Engine, tmp_path: Path) -> None:
    deployed = without_tls(engine, tmp_path, {"server": {"processes": 2}})
    with serving(deployed.server):
        deployed.runs("Job", "install")
        deployed.runs("Pod", "try")
        deployed.server.terminate()
        assert deployed.server.ended(deployed.server.spec["terminationGracePeriodSeconds"]) == 0


@pytest.mark.slow
def test_a_pod_that_traces_serves_also_without_a_collector(engine: Engine, tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    deployed = without_tls(engine, tmp_path, {"server": {"traces": nobody}})
    assert deployed.release.arguments["--traces"] == nobody
    with serving(deployed.server):
        deployed.runs("Job", "install")
        # Its spans reach no collector, and don't delay its end either.
        deployed.server.terminate()
        assert deployed.server.ended(deployed.server.spec["terminationGracePeriodSeconds"]) == 0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"access": {"existingSecret": {"name": "mine", "permissionsKey": ""}}}, "tokens"),
        ({"extraArgs": ["--no-such-flag"]}, "--no-such-flag"),
    ],
)
def test_a_server_that_can_not_start_says_why_in_its_log(
    engine: Engine, tmp_path: Path, values: Values, says: str
) -> None:
    release = rendered(engine, {"insecure": True} | values)
    machine = Machine(tmp_path, release, {"mine": {"tokens": b"what is this?"}})
    pod = machine.pod("server-0", release.pod)
    assert says in pod.fails()
