"""Every object of every case is what Kubernetes takes, in the oldest version that the chart names, in
the newest that there are schemas of, and in some between. A field that doesn't exist is refused, too.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate.utils
import pytest
import yaml

from tests.helm.chart_rig import CASES, ROUTED, Object, Rendered, rendered
from tests.helm.custom_schemas import SCHEMAS
from tests.helm.helm_engine import CHART, Engine

VERSIONS = ("1.25", "1.29", "1.33", "1.37")
ALL = CASES | ROUTED
Release = Callable[[str], Rendered]


@pytest.fixture(scope="module", autouse=True)
def schemas_are_read_once() -> Any:
    """They are 2 MB each, and the library reads them for every object anew."""
    with pytest.MonkeyPatch.context() as patch:
        found = kubernetes_validate.utils.schema_contents
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(found))
        yield


SEEN: set[tuple[str, str]] = set()


def check(each: Object, version: str) -> None:
    """Raise unless this version of Kubernetes, or the schema of an operator, takes the object."""
    known = (version, json.dumps(each, sort_keys=True))
    if known in SEEN:
        return
    schema = SCHEMAS.get((each["kind"], each["apiVersion"]))
    if schema is None:
        assert kubernetes_validate.utils.validate(each, version, strict=True) == version
    else:
        jsonschema.Draft202012Validator(schema).validate(each)
    SEEN.add(known)


@pytest.mark.parametrize("case", ALL)
def test_kubernetes_takes_every_object(release: Release, case: str) -> None:
    for each in release(case).objects:
        for version in VERSIONS:
            check(each, version)


def test_the_schemas_refuse_a_field_that_does_not_exist(release: Release) -> None:
    for kind in ("StatefulSet", "Service", "NetworkPolicy", "ServiceMonitor", "PrometheusRule"):
        found = release("everything").all(kind)[0]
        wrong = json.loads(json.dumps(found))
        wrong["spec"]["replica"] = 1
        with pytest.raises((kubernetes_validate.utils.ValidationError, jsonschema.ValidationError)):
            check(wrong, VERSIONS[-1])


def test_the_oldest_version_that_is_tested_is_the_oldest_that_the_chart_names() -> None:
    named = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert named == f">={VERSIONS[0]}.0-0"


@pytest.mark.parametrize("case", ALL)
def test_helm_lint_finds_nothing(engine: Engine, case: str) -> None:
    report = engine.lint(ALL[case])
    complaints = [each for each in report["messages"] if each["error"] != "icon is recommended"]
    assert (complaints, report["errors"]) == ([], [])


@pytest.mark.parametrize("case", ALL)
def test_every_object_says_whose_it_is(release: Release, case: str) -> None:
    names = set()
    for each in release(case).objects:
        metadata = each["metadata"]
        assert metadata["namespace"] == "queues"
        assert metadata["labels"]["app.kubernetes.io/instance"] == "demo"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        for label, more in ALL[case].get("commonLabels", {}).items():
            assert metadata["labels"][label] == more
        names.add((each["kind"], metadata["name"]))
    assert len(names) == len(release(case).objects)


def test_two_releases_in_one_namespace_share_no_object(engine: Engine) -> None:
    names = [
        {(each["kind"], each["metadata"]["name"]) for each in found.objects}
        for found in (
            rendered(engine, CASES["everything"], name="one"),
            rendered(engine, CASES["everything"], name="two"),
        )
    ]
    # But the service account, which this case names.
    assert names[0] & names[1] == {("ServiceAccount", "queues")}


def test_long_names_still_fit(engine: Engine) -> None:
    found = rendered(engine, CASES["everything"] | {"nameOverride": "x" * 50}, name="r" * 53)
    for each in found.objects:
        assert len(each["metadata"]["name"]) <= 63
        for version in VERSIONS:
            check(each, version)


def test_a_package_of_the_chart_has_all_that_it_renders_from(engine: Engine, tmp_path: Path) -> None:
    with tarfile.open(engine.package(tmp_path)) as archive:
        packed = {name.removeprefix("spoolrack/") for name in archive.getnames()}
    ours = {
        str(path.relative_to(CHART))
        for path in CHART.rglob("*")
        if path.is_file() and path.name != ".helmignore"
    }
    assert ours <= packed
