"""The rules are such that Prometheus takes them, and each says what to do when it fires."""

from __future__ import annotations

import re

import pytest
import yaml

from tests import CHECKOUT
from tests.alerts.promtool import ALERTS, RULES, run, why_not


def test_the_rules_are_such_that_prometheus_takes_them() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    told = run("check", "rules", str(RULES))
    assert told.returncode == 0, told.stderr


def test_every_alert_says_what_to_do_at_a_place_that_is_there() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        annotations = rule["annotations"]
        assert annotations.keys() == {"summary", "description", "runbook_url"}
        page, _, anchor = annotations["runbook_url"].partition("#")
        headings = re.findall(r"^#+ (.+)$", (CHECKOUT / page).read_text(), re.MULTILINE)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, anchor


def test_the_page_about_it_lists_every_alert() -> None:
    page = (CHECKOUT / "docs" / "how-to" / "observability.md").read_text()
    listed = re.findall(r"`(Spoolrack\w+)`", page.partition("| alert | when |")[2])
    assert sorted(listed) == sorted(ALERTS)
