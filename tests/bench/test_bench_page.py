"""The page is made from what a run has found, and what people wrote around the figures stays."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import budget, page, plots
from benchmarks.backlog import Standing
from benchmarks.marked_parts import put_between
from benchmarks.page import BEGIN, END, Figures
from benchmarks.workloads import NAMES, Round

SYSTEMS = {
    "limit": "the limit",
    "spoolrack": "Spoolrack",
    "spoolrack-2": "Spoolrack, 2 processes",
    "redis": "Redis",
}


def measured(system: str, workload: str, round: int, rate: float, faults: list[str]) -> Round:
    return Round(
        system=system,
        workload=workload,
        round=round,
        messages=1_000,
        rate=rate,
        p50=1.25,
        p99=9.5,
        server_processor=12.0,
        client_processor=30.0,
        settling=0.1,
        faults=faults,
    )


def found_by_a_run(*, fault: str = "") -> str:
    rates = {"limit": 40_000.0, "spoolrack": 20_000.0, "spoolrack-2": 30_000.0, "redis": 50_000.0}
    rounds = [
        measured(system, workload, round, rate * (1 + round / 10), [fault] if fault else [])
        for workload in NAMES
        for system, rate in rates.items()
        for round in range(3)
    ]
    standing = [
        Standing(
            system="spoolrack",
            rates={1_000: 9_000.0, 10_000: 8_000.0},
            restart=1.5,
            imports=0.5,
            listing=0.1,
        ),
        Standing(system="redis", rates={1_000: 9_000.0, 4_321: 8_500.0}, restart=None),
    ]
    found = {
        "began": "today",
        "machine": {"cores": "4", "processor": "X", "memory": "8 GiB", "kernel": "6", "python": "3"},
        "place": "ext4",
        "systems": [
            {"name": name, "title": title, "version": "1", "configuration": "strict", "note": ""}
            for name, title in SYSTEMS.items()
        ],
        "missing": {"nats": "nats-server is not installed"},
        "failures": ["beanstalkd doesn't start: no\nmore lines"],
        "rounds": [asdict(each) for each in rounds],
        "standing": [asdict(each) for each in standing],
    }
    return json.dumps(found)


def figures(*, fault: str = "") -> Figures:
    return Figures(json.loads(found_by_a_run(fault=fault)))


def test_the_page_says_medians_noise_and_ratios() -> None:
    text = page.text_of(figures(), "performance")
    assert "| Spoolrack | 22.0k | ± 9% | 1.00 | 1.25 | 9.50 | 12 |" in text
    assert "| Redis | 55.0k | ± 9% | 2.50 |" in text
    assert "No system lost" in text


def test_the_page_names_missing_and_failed_systems_and_losses() -> None:
    text = page.text_of(figures(fault="3 lost: 0/1"), "performance")
    assert "- Not measured: nats; nats-server is not installed." in text
    assert "- Failed: beanstalkd doesn't start: no." in text
    assert "**At fault**: Redis, hundreds: 3 lost: 0/1." in text
    assert "No system lost" not in text


def test_a_queue_that_did_not_get_as_deep_is_shown_as_deep_as_it_got() -> None:
    text = page.text_of(figures(), "performance")
    assert "| Spoolrack | 9,000 | 8,000 | 0 | 0 | 1.50 | 1.00 |" in text
    assert "| Redis | 9,000 | 8,500 (with 4,321) |" in text


def test_the_slow_disk_has_ratios_of_its_own_and_a_drain_no_latency() -> None:
    found = json.loads(found_by_a_run())
    found["systems"] += [
        {"name": name, "title": name, "version": "1", "configuration": "delayed", "note": ""}
        for name in ("spoolrack-slow", "redis-slow")
    ]
    found["rounds"] = [
        asdict(measured("spoolrack-slow", "slow", 0, 40.0, [])),
        asdict(measured("redis-slow", "slow", 0, 80.0, [])),
        asdict(replace(measured("spoolrack", "drain", 0, 5_000.0, []), p50=0.0, p99=0.0)),
    ]
    text = page.text_of(Figures(found), "performance")
    assert "| redis-slow | 80 | one round | 2.00 | 1.25 | 9.50 | 12 |" in text
    assert "| Spoolrack | 5,000 | one round | 1.00 |  |  | 12 |" in text


def test_text_around_the_figures_stays() -> None:
    once = put_between(BEGIN, END, page.text_of(figures(), "performance"), "# Performance\n\nBefore.\n")
    assert once.startswith("# Performance\n\nBefore.\n\n" + BEGIN)
    twice = put_between(BEGIN, END, page.text_of(figures(), "performance"), once + "\nAfter.\n")
    assert twice == once + "\nAfter.\n"
    with pytest.raises(ValueError, match="and no"):
        put_between(BEGIN, END, "", f"x {BEGIN} y")
    assert END in once


def test_the_budget_stays_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, written = tmp_path / "bench.json", tmp_path / "performance.md"
    found.write_text(found_by_a_run())
    table = budget.page_text([budget.Row(operation="send 1", messages=1, cost=budget.Cost(writes=1))])
    written.write_text(f"# Performance\n\nBefore.\n\n{table}\nAfter.\n")
    monkeypatch.setattr("sys.argv", ["page", str(found), str(written)])

    for _ in range(2):
        assert page.main() == 0
        text = written.read_text()
        assert text.startswith(f"# Performance\n\nBefore.\n\n{table}\nAfter.\n\n{BEGIN}")
        assert text.count(budget.BEGIN) == text.count(BEGIN) == 1


def test_each_plot_is_well_formed_and_named_in_the_page() -> None:
    text = page.text_of(figures(), "performance")
    drawn = page.plots_of(figures())
    assert set(drawn) == {
        *("hundreds.svg", "callers.svg", "singles.svg", "tens.svg"),
        *("latency.svg", "processes.svg", "waiting.svg"),
    }
    for name, plot in drawn.items():
        ElementTree.fromstring(plot)
        assert f"(performance/{name})" in text


def test_a_plot_of_nothing_is_a_plot() -> None:
    ElementTree.fromstring(plots.bars("<none>", [], ours=frozenset()))
    ElementTree.fromstring(plots.curves("none", {"a": [(1.0, 0.0)]}, across="x", up="y"))
