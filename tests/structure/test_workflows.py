"""GitHub's workflows: linted, and what they call is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import CHECKOUT

FOLDER = CHECKOUT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").iterdir())
PACKAGE = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


def test_zizmor_finds_nothing() -> None:
    program = Path(sys.executable).with_name("zizmor")
    found = subprocess.run(
        [program, "--offline", "--no-config", FOLDER], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_script_that_a_workflow_calls_is_there(path: Path) -> None:
    commands = [
        step["run"] for job in jobs(path).values() for step in job.get("steps", ()) if "run" in step
    ]
    called = re.findall(r"(?:scripts|\.ci)/[a-z-]+", " ".join(commands))
    assert called
    for name in called:
        assert (CHECKOUT / name).stat().st_mode & 0o100, name


def test_only_the_job_that_publishes_has_an_identity_and_it_runs_nothing_of_the_checkout() -> None:
    with_identity = {
        name: job
        for path in WORKFLOWS
        for name, job in jobs(path).items()
        if "id-token" in job.get("permissions", {})
    }
    assert set(with_identity) == {"publish"}
    assert not [step for step in with_identity["publish"]["steps"] if "run" in step]
    assert set(with_identity["publish"]["needs"]) == {"prove", "build"}


def test_ci_checks_every_python_that_the_package_names() -> None:
    named = [
        each.rpartition(" ")[2]
        for each in PACKAGE["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", each)
    ]
    assert jobs(FOLDER / "workflows" / "ci.yml")["python"]["strategy"]["matrix"]["python"] == named
    assert PACKAGE["requires-python"] == f">={named[0]}"
    assert f"Python {named[0]} to {named[-1]}" in (CHECKOUT / "scripts" / "set-up").read_text()


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.name
)
def test_a_form_of_an_issue_has_what_github_asks_for(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"]
    assert form["description"]
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    assert all(field["attributes"]["label"] for field in form["body"])
