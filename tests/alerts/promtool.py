"""Prometheus' own evaluation of our rules, on series that were scraped from a real server.

Each scrape stands for one minute; its samples are repeated to promtool one by one.
promtool is Prometheus' own tool for this, and comes from Debian's package.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests import CHECKOUT
from tests.support.scrape import Scrape

RULES: Final = CHECKOUT / "deploy" / "prometheus" / "rules.yaml"
ALERTS: Final = [
    rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]
HOST: Final = "host:8080"
PEER: Final = "peer:8080"


def why_not() -> str | None:
    """Return the reason why this machine can't evaluate rules; None if nothing does."""
    if shutil.which("promtool") is None:
        return "needs promtool: make system-tools installs it"
    return None


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=120)


def series_of(minutes: Sequence[Scrape | None], **target: str) -> list[dict[str, str]]:
    """Return the series that Prometheus has after scraping once a minute, with the labels of the
    target; None: no answer."""
    values: dict[str, dict[int, float]] = {}
    for minute, scraped in enumerate(minutes):
        values.setdefault(_name("up", {}, target), {})[minute] = int(scraped is not None)
        if scraped is None:
            continue
        for family in scraped.families.values():
            for sample in family.samples:
                values.setdefault(_name(sample.name, sample.labels, target), {})[minute] = sample.value
    found = []
    for name, told in values.items():
        points = [repr(told[minute]) if minute in told else "_" for minute in range(len(minutes))]
        found.append({"series": name, "values": " ".join(points)})
    return found


def firing(
    minutes: Sequence[Scrape | None],
    folder: Path,
    among: Sequence[str],
    beside: Sequence[Scrape | None] = (),
    *,
    are_shards: bool = False,
) -> set[str]:
    """Return the alerts that fire at the end of these minutes, of all there are: `among`.

    `beside` are those of another server, if there is one: over the same root, or of another shard. They
    may end early.
    """
    mine, theirs = ({"shard": "0"}, {"shard": "1"}) if are_shards else ({}, {})
    reason = why_not()
    assert reason is None, reason
    found = set()
    # promtool compares, and doesn't tell: so each alert is compared with "doesn't fire" by itself.
    tests: dict[str, Any] = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    *series_of(minutes, instance=HOST, **mine),
                    *series_of(beside, instance=PEER, **theirs),
                ],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertstate="firing",alertname="{alert}"}})',
                        "eval_time": f"{len(minutes) - 1}m",
                        "exp_samples": [],
                    }
                    for alert in among
                ],
            }
        ],
    }
    # JSON is YAML.
    path = folder / "rules-test.yaml"
    path.write_text(json.dumps(tests))
    told = run("test", "rules", str(path))
    output = told.stdout + told.stderr
    for alert in among:
        if f'alertname=\\"{alert}\\"' in output or f'alertname="{alert}"' in output:
            found.add(alert)
    assert (told.returncode == 0) is (not found), output
    return found


def _name(name: str, labels: dict[str, str], target: dict[str, str]) -> str:
    """With what Prometheus adds to whatever it scrapes."""
    own = {"job": "spoolrack", **target}
    pairs = ",".join(f"{key}={json.dumps(value)}" for key, value in {**labels, **own}.items())
    return f"{name}{{{pairs}}}"
