"""The objects for KEDA in docs/how-to/kubernetes.md: their schemas, and that a release of the chart and
a server take what they name."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from spoolrack_server.access.security import Security
from spoolrack_server.access.sqs_keys import issue
from spoolrack_server.rpc.keda import externalscaler_pb2 as pb
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.model.shards import shard_of

from tests.helm.chart_rig import Object, rendered
from tests.helm.custom_schemas import SCHEMAS, SQS_SCALER, SQS_SCALER_SECRETS
from tests.helm.helm_engine import CHART, Engine
from tests.support.access_rig import Files
from tests.support.scaler_calls import scaler_calls
from tests.support.server_rig import served
from tests.support.sqs_rig import Sqs, serving_sqs

CHECKOUT = CHART.parents[1]
PAGE = (CHECKOUT / "docs" / "how-to" / "kubernetes.md").read_text()


def blocks() -> dict[str, list[Object]]:
    """Return the YAML of the page, by the file that its first line names."""
    found = re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    return {name: list(yaml.safe_load_all(text)) for name, text in found}


def scaled(file: str = "keda.yaml") -> Object:
    (found,) = [each for each in blocks()[file] if each["kind"] == "ScaledObject"]
    return found


def sqs_metadata() -> dict[str, str]:
    (trigger,) = scaled("keda-sqs.yaml")["spec"]["triggers"]
    assert trigger["type"] == "aws-sqs-queue"
    metadata: dict[str, str] = trigger["metadata"]
    return metadata


@pytest.mark.parametrize("file", ["keda.yaml", "keda-sqs.yaml"])
def test_each_object_is_one_of_kedas(file: str) -> None:
    objects = blocks()[file]
    assert len(objects) == 2
    for each in objects:
        jsonschema.Draft202012Validator(SCHEMAS[each["kind"], each["apiVersion"]]).validate(each)


def test_the_address_is_that_of_the_release_on_the_page(engine: Engine) -> None:
    (values,) = blocks()["queues.yaml"]
    release = rendered(engine, values, name="queues", namespace="queues")
    service = release.one("Service", "-spoolrack")
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    metadata = service["metadata"]
    address = f"{metadata['name']}.{metadata['namespace']}.svc:{ports['grpc']}"
    (trigger,) = scaled()["spec"]["triggers"]
    assert trigger["metadata"]["scalerAddress"] == address


def test_the_pod_of_the_page_is_that_of_the_queues_shard_in_the_release_of_shards(
    engine: Engine,
) -> None:
    (values,) = blocks()["shards.yaml"]
    release = rendered(engine, values, name="queues", namespace="queues")
    (address,) = re.findall(
        r"`scalerAddress` is the pod of the queue's shard: `([^`]+)` for `jobs`", PAGE
    )
    told = release.notes.partition("grpcs://")[2].split()[0].split(",")
    assert told.index(address) == shard_of("jobs", values["shards"])
    assert release.claims[0] in PAGE


async def test_a_server_takes_the_metadata(tmp_path: Path) -> None:
    (trigger,) = scaled()["spec"]["triggers"]
    ref = pb.ScaledObjectRef(name="resize", scalerMetadata=trigger["metadata"])
    async with served(tmp_path / "root") as (_, client):
        await client.create(trigger["metadata"]["queue"])
        calls = scaler_calls(client)
        spec = await calls.GetMetricSpec(ref)
        assert [each.targetSizeFloat for each in spec.metricSpecs] == [20.0, 120.0]
        answer = await calls.GetMetrics(pb.GetMetricsRequest(scaledObjectRef=ref))
        assert [each.metricValueFloat for each in answer.metricValues] == [0.0, 0.0]


def test_the_metadata_and_secrets_of_the_sqs_scaler_are_those_that_keda_reads() -> None:
    metadata = sqs_metadata()
    jsonschema.Draft202012Validator(SQS_SCALER).validate(metadata)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SQS_SCALER).validate({**metadata, "queueUrl": "x"})
    (given,) = [each for each in blocks()["keda-sqs.yaml"] if each["kind"] == "TriggerAuthentication"]
    secrets = [each["parameter"] for each in given["spec"]["secretTargetRef"]]
    assert set(secrets) <= set(SQS_SCALER_SECRETS)


def test_the_endpoint_of_the_sqs_scaler_is_that_of_the_release_on_the_page(engine: Engine) -> None:
    ((values,), (sqs,)) = blocks()["queues.yaml"], blocks()["sqs.yaml"]
    release = rendered(engine, values | sqs, name="queues", namespace="queues")
    service = release.one("Service", "-spoolrack")
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    metadata = service["metadata"]
    endpoint = f"https://{metadata['name']}.{metadata['namespace']}.svc:{ports['sqs']}"
    assert sqs_metadata()["awsEndpoint"] == endpoint
    assert sqs_metadata()["queueURL"].startswith(f"{endpoint}/")
    assert "jobs" in values["queues"]


async def test_the_request_of_the_sqs_scaler_is_answered_with_the_three_counts(tmp_path: Path) -> None:
    # The scaler asks for ApproximateNumberOfMessages, with scaleOnInFlight for ...NotVisible and with
    # scaleOnDelayed for ...Delayed, and reads each as a whole number.
    files, keys, metadata = Files(tmp_path), tmp_path / "sqs-keys", sqs_metadata()
    security = Security(
        sqs_keys=str(keys),
        tokens=files.write_tokens("sender"),
        permissions=files.write_permissions("sender all *", "scaler monitor jobs"),
    )
    clients = {}
    for name in ("sender", "scaler"):
        key, secret = issue(str(keys), name)
        clients[name] = {"aws_access_key_id": key, "aws_secret_access_key": secret}
    async with serving_sqs(tmp_path / "root", security=security, clock=SystemClock()) as server:
        url = str(server.sqs_url)
        sender = Sqs(url, **clients["sender"])
        jobs = await sender.create("jobs")
        for _ in range(5):
            await sender.send(jobs, "work")
        await sender.send(jobs, "later", DelaySeconds=900)
        assert len(await sender.receive(jobs, MaxNumberOfMessages=2)) == 2
        scaler = Sqs(url, region_name=metadata["awsRegion"], **clients["scaler"])
        asked = [f"ApproximateNumberOfMessages{end}" for end in ("", "NotVisible", "Delayed")]
        found = await scaler.attributes(metadata["queueURL"], *asked)
        assert {name: int(value) for name, value in found.items()} == {
            "ApproximateNumberOfMessages": 3,
            "ApproximateNumberOfMessagesNotVisible": 2,
            "ApproximateNumberOfMessagesDelayed": 1,
        }
        for name in asked:
            assert list(await scaler.attributes(metadata["queueURL"], name)) == [name]


def test_the_table_names_the_metadata_of_the_scaler() -> None:
    section = PAGE[PAGE.index("| metadata | |") :]
    named = set(re.findall(r"^\| `(\w+)` \|", section[: section.index("\n\n")], re.MULTILINE))
    source = (CHECKOUT / "server" / "spoolrack_server" / "rpc" / "external_scaler.py").read_text()
    assert named == set(re.findall(r'metadata(?:\.get\(|, )"(\w+)"', source))
