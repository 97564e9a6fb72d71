"""The last green run of each long command is noted in the repository, and told when it is old."""

from __future__ import annotations

from datetime import date, timedelta
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any, Final

from tests import CHECKOUT

TODAY: Final = date(2026, 11, 29)


def script() -> Any:
    loader = SourceFileLoader("long_runs", str(CHECKOUT / "scripts" / "long-runs"))
    spec = spec_from_loader("long_runs", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_a_long_command_is_told_when_its_last_green_run_is_old() -> None:
    runs = script()
    text = ""
    for command in runs.COMMANDS:
        text = runs.with_run(text, command, f"c0ffee{command}", TODAY - timedelta(days=7))
    assert runs.warnings(text, TODAY, {}) == []
    text = runs.with_run(text, "proof", "c0ffee", TODAY - timedelta(days=15))
    assert runs.warnings(text, TODAY, {"c0ffeebench": 101, "c0ffee": 3}) == [
        "make proof was last green 15 days and 3 commits ago, at c0ffee",
        "make bench was last green 7 days and 101 commits ago, at c0ffeebench",
    ]
    assert runs.warnings(runs.with_run("", "bench", "c0ffee", TODAY), TODAY, {})[0] == (
        "make proof was never noted as green"
    )


def test_the_file_of_the_repository_can_be_read_and_the_commands_write_it() -> None:
    runs = script()
    assert set(runs.noted(runs.FILE.read_text())) <= set(runs.COMMANDS)
    makefile = (CHECKOUT / "Makefile").read_text()
    for command in runs.COMMANDS:
        assert f"scripts/long-runs {command}" in makefile
