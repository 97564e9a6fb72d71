"""The objects for KEDA in docs/kubernetes.md: their schemas, and that a release of the chart and a
server take what they name."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from spoolrack_server.keda import externalscaler_pb2 as pb
from spoolrack_server.keda import externalscaler_pb2_grpc as keda

from tests.helm.chart_rig import Object, rendered
from tests.helm.custom_schemas import SCHEMAS
from tests.helm.helm_engine import CHART, Engine
from tests.support.server_rig import served

CHECKOUT = CHART.parents[1]
PAGE = (CHECKOUT / "docs" / "kubernetes.md").read_text()


def blocks() -> dict[str, list[Object]]:
    """Return the YAML of the page, by the file that its first line names."""
    found = re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    return {name: list(yaml.safe_load_all(text)) for name, text in found}


def scaled() -> Object:
    (found,) = [each for each in blocks()["keda.yaml"] if each["kind"] == "ScaledObject"]
    return found


def test_each_object_is_one_of_kedas() -> None:
    objects = blocks()["keda.yaml"]
    assert len(objects) == 2
    for each in objects:
        jsonschema.Draft202012Validator(SCHEMAS[each["kind"], each["apiVersion"]]).validate(each)


def test_a_slip_of_the_pen_is_found() -> None:
    wrong = scaled()
    wrong["spec"]["maxReplicas"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMAS[wrong["kind"], wrong["apiVersion"]]).validate(wrong)


def test_the_address_is_that_of_the_release_on_the_page(engine: Engine) -> None:
    (values,) = blocks()["queues.yaml"]
    release = rendered(engine, values, name="queues", namespace="queues")
    service = release.one("Service", "-spoolrack")
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    metadata = service["metadata"]
    address = f"{metadata['name']}.{metadata['namespace']}.svc:{ports['grpc']}"
    (trigger,) = scaled()["spec"]["triggers"]
    assert trigger["metadata"]["scalerAddress"] == address


async def test_a_server_takes_the_metadata(tmp_path: Path) -> None:
    (trigger,) = scaled()["spec"]["triggers"]
    ref = pb.ScaledObjectRef(name="resize", scalerMetadata=trigger["metadata"])
    async with served(tmp_path / "root") as (_, client):
        await client.create(trigger["metadata"]["queue"])
        scaler = keda.ExternalScalerStub(client.channel)
        spec = await scaler.GetMetricSpec(ref)
        assert [each.targetSizeFloat for each in spec.metricSpecs] == [20.0, 120.0]
        answer = await scaler.GetMetrics(pb.GetMetricsRequest(scaledObjectRef=ref))
        assert [each.metricValueFloat for each in answer.metricValues] == [0.0, 0.0]


def test_the_table_names_the_metadata_of_the_scaler() -> None:
    section = PAGE[PAGE.index("| metadata | |") :]
    named = set(re.findall(r"^\| `(\w+)` \|", section[: section.index("\n\n")], re.MULTILINE))
    source = (CHECKOUT / "server" / "spoolrack_server" / "external_scaler.py").read_text()
    assert named == set(re.findall(r'metadata(?:\.get\(|, )"(\w+)"', source))
