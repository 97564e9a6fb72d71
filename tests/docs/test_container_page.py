"""The recipes for compose, GitHub Actions and emulators run as far as they can without an engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.serving import serving
from tests.support.sqs_rig import Sqs

CONTAINER = (CHECKOUT / "docs/how-to/container.md").read_text()
EMULATORS = (CHECKOUT / "docs/how-to/from-localstack.md").read_text()


def block(page: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    return str(found)


def spoolrack(folder: Path, *words: str) -> None:
    told = {name: value for name, value in os.environ.items() if not name.startswith("SPOOLRACK_")}
    command = [sys.executable, "-m", "spoolrack_server", *words]
    subprocess.run(command, cwd=folder, env=told, check=True, timeout=STUCK)


def test_the_services_of_compose_serve_queues_to_a_program_at_their_name(tmp_path: Path) -> None:
    compose = yaml.safe_load(block(CONTAINER, "yaml"))
    services = compose["services"]
    variables = dict(services["sqs"]["environment"])
    assert variables.pop("SPOOLRACK_SQS") == "0.0.0.0:9324"
    assert services["sqs"]["ports"] == ["127.0.0.1:9324:9324"]
    assert services["sqs"]["volumes"] == ["queues:/var/lib/spoolrack"]
    assert "queues" in compose["volumes"]
    variables |= {"SPOOLRACK_SQS": "0.0.0.0:0", "SPOOLRACK_GRPC": "0.0.0.0:0"}
    (tmp_path / "queues.json").write_text(block(EMULATORS, "json"))
    # The image's command is `serve`, with these variables.
    with serving(
        *("--data", tmp_path / "root", "--http", "off"), folder=tmp_path, environment=variables
    ) as server:
        url = server.at("SQS").replace("0.0.0.0", "127.0.0.1")
        grpc = server.at("gRPC").replace("0.0.0.0", "127.0.0.1")
        apply = services["make-queues"]["command"]
        words = apply.replace("sqs:50051", grpc).replace("/queues.json", "queues.json").split()
        spoolrack(tmp_path, *words)
        spoolrack(tmp_path, *words)
        # By way of the loopback, where only some names are served; a container is reached otherwise.
        client = Sqs(url).client
        client.meta.events.register(
            "before-send.sqs",
            lambda request, **_: request.headers.__setitem__("Host", "localstack:9324"),
        )
        listed = client.list_queues()["QueueUrls"]
        assert listed == [
            f"http://localstack:9324/000000000000/{q}" for q in ("dead", "jobs", "orders.fifo")
        ]
        jobs = client.get_queue_attributes(QueueUrl=listed[1], AttributeNames=["All"])["Attributes"]
        assert jobs["ReceiveMessageWaitTimeSeconds"] == "20"
        assert '"maxReceiveCount":3' in jobs["RedrivePolicy"]
        fifo = client.get_queue_attributes(QueueUrl=listed[2], AttributeNames=["All"])["Attributes"]
        assert (fifo["FifoQueue"], fifo["ContentBasedDeduplication"]) == ("true", "true")
        for _ in range(2):
            client.send_message(QueueUrl=listed[2], MessageBody="x", MessageGroupId="g")
        (message,) = client.receive_message(QueueUrl=listed[2], MaxNumberOfMessages=10)["Messages"]
        assert message["Body"] == "x"


def test_the_steps_of_github_actions_make_the_queues(tmp_path: Path) -> None:
    steps = yaml.safe_load(block(EMULATORS, "yaml"))["steps"]
    _, serve, apply, told = steps[-1]["run"].splitlines()
    assert told == 'echo AWS_ENDPOINT_URL_SQS=http://127.0.0.1:9324 >>"$GITHUB_ENV"'
    (tmp_path / "queues.json").write_text(block(EMULATORS, "json"))
    words = serve.removesuffix(" &").replace('"$RUNNER_TEMP/queues"', str(tmp_path / "queues"))
    words = words.replace(":9324", ":0").removeprefix("spoolrack serve ").split()
    with serving(*words, "--grpc", "127.0.0.1:0", "--http", "off", folder=tmp_path) as server:
        spoolrack(tmp_path, *apply.split()[1:], "--url", server.at("gRPC"))
        assert len(Sqs(server.at("SQS")).client.list_queues()["QueueUrls"]) == 3
