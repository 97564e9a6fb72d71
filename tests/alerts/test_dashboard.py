"""Grafana's dashboard and the alerts name nothing that a server doesn't tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from spoolrack_server.metrics.metrics import METRICS

from tests import CHECKOUT
from tests.alerts.promtool import RULES, run, why_not

DASHBOARD: Final = CHECKOUT / "deploy" / "grafana" / "spoolrack.json"
ENDINGS: Final = {
    "counter": ("_total",),
    "gauge": ("",),
    "info": ("_info",),
    "histogram": ("_bucket", "_sum", "_count"),
}
TOLD: Final = {metric.name + ending for metric in METRICS.values() for ending in ENDINGS[metric.kind]}
"""The names in a scrape; another test checks that it has all of them, and their labels."""


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def dashboard_expressions() -> Iterator[str]:
    for panel in panels():
        for target in panel.get("targets", ()):
            yield target["expr"]


def alert_expressions() -> Iterator[str]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def labels_in(expression: str) -> Iterator[tuple[str, set[str]]]:
    for name, inside in re.findall(r"(spoolrack_\w+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside))


def test_every_metric_of_dashboard_and_alerts_is_one_that_is_told_with_the_labels_it_has() -> None:
    expressions = [*dashboard_expressions(), *alert_expressions()]
    variables = [each["query"]["query"] for each in variables_of() if each["type"] == "query"]
    assert len(expressions) > 30
    for expression in [*expressions, *variables]:
        for name, labels in labels_in(expression):
            assert name in TOLD, expression
            (metric,) = (
                METRICS[base]
                for base in METRICS
                if name in {base + e for e in ENDINGS[METRICS[base].kind]}
            )
            own = {"process"} if metric.is_of_process else set()
            assert labels <= {*metric.labels, *own, "job", "instance"}, expression


def variables_of() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["templating"]["list"]
    return found


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"] == "spoolrack"
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["targets"], panel["title"]
            assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    # No two lie over each other.
    fields = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels())
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(fields)) == len(fields)


def test_every_expression_of_the_dashboard_is_one_that_prometheus_understands(tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    rules = [
        {"record": f"panel:expression:{number}", "expr": filled(expression)}
        for number, expression in enumerate(dashboard_expressions())
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))

    told = run("check", "rules", str(path))

    assert told.returncode == 0, told.stdout + told.stderr


def filled(expression: str) -> str:
    """Return an expression as Grafana sends it."""
    return re.sub(r"\$(?!__)\w+", ".*", expression).replace("$__rate_interval", "5m")
