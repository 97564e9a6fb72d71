"""The chart's values: accepted, refused, and documented: in values.yaml, in the schema and in the
README."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import yaml
from spoolrack import QueueSettings

from tests import CHECKOUT
from tests.helm.chart_cases import HOSTS
from tests.helm.chart_rig import Values
from tests.helm.helm_engine import CHART, Engine, Refused

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
DOCUMENT = CHECKOUT / "scripts" / "document-chart"
OK: Values = {"insecure": True}
ROUTER: Values = {"router": {"enabled": True}}
NOT_OF_HOSTS: list[tuple[Values, str]] = [
    ({"hosts": "one"}, "'/hosts': value must be 'several'"),
    ({"hosts": "many"}, "'/hosts': value must be one of 'one', 'several'"),
    ({"shards": 2}, "'/shards': value must be 1"),
    ({"replicas": 101}, "'/replicas': maximum"),
    ({"persistence": {}}, "'/persistence/accessMode': value must be 'ReadWriteMany'"),
    (
        {"persistence": {"accessMode": "ReadWriteOncePod"}},
        "'/persistence/accessMode': value must be 'ReadWriteMany'",
    ),
    (
        {"persistence": {"existingClaim": "mine"}},
        "'/persistence/accessMode': value must be 'ReadWriteMany'",
    ),
    (
        {"persistence": {"accessMode": "ReadWriteMany", "enabled": False}},
        "'/persistence/enabled': value must be true",
    ),
    ({"extraArgs": ["--hosts=several"]}, "a flag that no value of this chart sets"),
]
"""What several hosts can't have."""
NOT_OF_SHARDS: list[tuple[Values, str]] = [
    ({"shards": 0}, "'/shards': minimum"),
    ({"shards": 1025}, "'/shards': maximum"),
    (
        {"shards": 2, "persistence": {"existingClaim": "mine"}},
        "'/persistence/existingClaim'",
    ),
    (
        {
            "shards": 2,
            "persistence": {"dataSource": {"name": "x", "kind": "VolumeSnapshot"}},
        },
        "'/persistence/dataSource': maxProperties",
    ),
    (
        {"shards": 2, "service": {"type": "LoadBalancer"}},
        "'/service/type': value must be 'ClusterIP'",
    ),
    ({"shards": 2, "ingress": {"enabled": True, "hosts": ["q"]}}, "'/ingress/enabled'"),
    (ROUTER, "'/shards': minimum"),
    (
        {
            **ROUTER,
            "shards": 2,
            "insecure": False,
            "tls": {"secretName": "s", "clientCA": {"secretName": "c"}},
        },
        "'/tls/clientCA/secretName'",
    ),
    ({"extraArgs": ["--shard=1/2"]}, "a flag that no value of this chart sets"),
    (
        {
            "shards": 2,
            "queues": {"a.b": {"maxReceives": 1, "deadLetterQueue": "a.b.failed"}},
        },
        "queues.a.b: its deadLetterQueue a.b.failed may be on another shard. Queues with one "
        'beginning up to "--" are on one: call it a.b--failed',
    ),
]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        # TLS, or in as many words none.
        ({}, "the name of a secret; or enable tls.certManager; or say insecure: true"),
        (OK | {"tls": {"secretName": "x"}}, "'/tls/secretName': value must be ''"),
        (
            OK | {"tls": {"clientCA": {"secretName": "x"}}},
            "'/tls/clientCA/secretName': value must be ''",
        ),
        ({"tls": {"certManager": {"enabled": True}}}, "'/tls/certManager/issuerRef/name': minLength"),
        (
            {"tls": {"secretName": "x", "certManager": {"enabled": True, "issuerRef": {"name": "y"}}}},
            "'/tls/secretName': value must be ''",
        ),
        (OK | {"replicas": 2}, "'/hosts': value must be 'several'"),
        (OK | {"server": {"peers": 0}}, "additional properties 'peers' not allowed"),
        (
            OK | {"persistence": {"existingClaim": "mine", "enabled": False}},
            "'/persistence/enabled': value must be true",
        ),
        (OK | {"replicas": 0}, "'/replicas': minimum"),
        (OK | {"replicas": "two"}, "'/replicas': got string, want integer"),
        (OK | {"persistence": {"accessMode": "ReadOnlyMany"}}, "'/persistence/accessMode': value must"),
        (OK | {"persistence": {"size": "lots"}}, "'/persistence/size': 'lots' does not match"),
        (OK | {"persistence": {"dataSource": {"snapshot": "x"}}}, "'snapshot' not allowed"),
        (OK | {"ingress": {"enabled": True}}, "'/ingress/hosts': minItems"),
        # Access.
        (OK | {"access": {"permissions": "a all *"}}, "no caller can show an identity"),
        (
            OK | {"access": {"tokens": "a", "existingSecret": {"name": "b"}}},
            "'/access/tokens': value must be ''",
        ),
        (
            {"tls": {"secretName": "x"}, "sqs": {"enabled": True}},
            "'/sqs/keysSecret/name': value must be 'the name of a secret with the file that spoolrack "
            "tokens sqs-key writes",
        ),
        (
            OK | {"access": {"tokens": "a"}, "sqs": {"enabled": True}},
            "'/sqs/keysSecret/name': value must be",
        ),
        (
            OK | {"access": {"existingSecret": {"name": "a"}}, "sqs": {"enabled": True}},
            "'/sqs/keysSecret/name': value must be",
        ),
        (OK | {"sqs": {"url": "sqs.example.com"}}, "'/sqs/url'"),
        (OK | {"sqs": {"url": "https://sqs.example.com/path"}}, "'/sqs/url'"),
        # Names that are none.
        (OK | {"replicaCount": 1}, "additional properties 'replicaCount' not allowed"),
        (OK | {"persistence": {"sizes": "1Gi"}}, "additional properties 'sizes' not allowed"),
        (OK | {"probes": {"startup": {"path": "/"}}}, "additional properties 'path' not allowed"),
        (OK | {"fullnameOverride": "Not_A_Name"}, "'/fullnameOverride'"),
        (
            OK | {"podLabels": {"app.kubernetes.io/name": "x"}},
            "a label by which this chart does not choose",
        ),
        (OK | {"image": {"digest": "latest"}}, "'/image/digest'"),
        (OK | {"image": {"pullPolicy": "Sometimes"}}, "'Always', 'IfNotPresent', 'Never'"),
        # Environment set by other values.
        (OK | {"extraArgs": ["--grace=5m"]}, "a flag that no value of this chart sets"),
        (OK | {"extraArgs": ["--sqs-keys=/keys"]}, "a flag that no value of this chart sets"),
        (OK | {"extraArgs": ["--insecure"]}, "a flag that no value of this chart sets"),
        (OK | {"drain": {"graceSeconds": "30s"}}, "'/drain/graceSeconds': got string, want integer"),
        (OK | {"drain": {"graceSeconds": 0}}, "'/drain/graceSeconds': minimum"),
        (OK | {"server": {"traces": "collector:4317"}}, "'/server/traces'"),
        (OK | {"server": {"minFreeSpace": "much"}}, "'/server/minFreeSpace'"),
        (OK | {"extraArgs": ["--min-free-space=2G"]}, "a flag that no value of this chart sets"),
        (OK | {"service": {"grpcPort": 70000}}, "'/service/grpcPort': maximum"),
        (OK | {"service": {"sqsPort": 0}}, "'/service/sqsPort': minimum"),
        (OK | {"security": {"runAsUser": 0}}, "'/security/runAsUser': minimum"),
        # Queues.
        (OK | {"queues": {"../jobs": {}}}, "'../jobs' does not match"),
        (OK | {"queues": {"jobs": {"retries": 3}}}, "additional properties 'retries' not allowed"),
        (OK | {"queues": {"jobs": {"maxReceives": 3}}}, "'deadLetterQueue' required, if 'maxReceives'"),
        (OK | {"queues": {"jobs": {"visibilityTimeout": "soon"}}}, "'/queues/jobs/visibilityTimeout'"),
        (OK | {"queues": {"jobs": {"leaseDurability": "lax"}}}, "'strict', 'relaxed'"),
        *((OK | HOSTS | values, says) for values, says in NOT_OF_HOSTS),
        *((OK | values, says) for values, says in NOT_OF_SHARDS),
    ],
)
def test_wrong_values_are_refused_with_a_message_that_says_what_and_where(
    engine: Engine, values: Values, says: str
) -> None:
    with pytest.raises(Refused) as refused:
        engine.render(values)
    assert says in str(refused.value)
    assert len(str(refused.value).splitlines()) < 10


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of values.yaml that are no groups: empty maps are values."""
    if isinstance(tree, dict) and tree:
        for key, each in tree.items():
            yield from leaves(each, f"{path}.{key}" if path else key)
    else:
        yield path, tree


def documented() -> dict[str, str]:
    rows = re.findall(
        r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", (CHART / "README.md").read_text(), re.M
    )
    return {path: default for path, default, _ in rows}


def declared(schema: Any, path: str = "") -> Iterator[str]:
    """Yield the paths that the schema has; those with properties of their own are groups."""
    found = schema
    while "$ref" in found:
        found = SCHEMA["definitions"][found["$ref"].rpartition("/")[2]]
    if path and "properties" not in found:
        yield path
        return
    for key, each in found["properties"].items():
        yield from declared(each, f"{path}.{key}" if path else key)


def test_every_value_is_documented_with_its_default() -> None:
    table = documented()
    wholes = {path for path, default in table.items() if default == "see values.yaml"}
    undocumented = []
    for path, default in leaves(DEFAULTS):
        if any(path == whole or path.startswith(f"{whole}.") for whole in wholes):
            continue
        if path not in table:
            undocumented.append(path)
            continue
        assert yaml.safe_load(table[path]) == default, path
    assert undocumented == []
    assert len(table) > 100


def test_the_readme_is_written_from_the_comments() -> None:
    checked = subprocess.run([sys.executable, DOCUMENT, "--check"], check=False)
    assert checked.returncode == 0, "run scripts/document-chart"


def test_the_schema_has_what_values_have_and_nothing_more() -> None:
    table = set(documented())
    in_schema = {path for path in declared(SCHEMA) if path != "global"}
    wholes = {path for path in table if any(each.startswith(f"{path}.") for each in in_schema)}
    in_schema = {
        next((whole for whole in wholes if each.startswith(f"{whole}.")), each) for each in in_schema
    }
    assert in_schema == table


def test_no_part_of_the_schema_lets_an_unknown_name_through() -> None:
    def objects(schema: Any) -> Iterator[Any]:
        if isinstance(schema, dict):
            if schema.get("type") == "object" and "properties" in schema:
                yield schema
            for key, each in schema.items():
                if key not in ("allOf", "if", "then"):
                    yield from objects(each)

    found = list(objects(SCHEMA))
    assert len(found) > 20
    for each in found:
        assert each["additionalProperties"] is False


def test_the_settings_of_queues_are_those_of_the_program() -> None:
    ours = {field.name for field in fields(QueueSettings)}
    named = SCHEMA["definitions"]["queue"]["properties"]
    assert {re.sub("([A-Z])", r"_\1", name).lower() for name in named} == ours | {"labels"}


def test_the_version_of_the_chart_s_application_is_ours() -> None:
    pyproject = (CHECKOUT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"$', pyproject, re.M)
    assert version is not None
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version[1]
