"""An import that is killed in the middle, at any step and any number of times, and then run again."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack import connect

from tests.cli.moving_rig import bodies_in, vsqs_folder
from tests.support.forked import run_forked

BODIES = [f"{number}".encode() * 100 for number in range(9)]
LEASED = (2, 3, 7)
"""These go in calls of their own, so that there are five."""
Kill = tuple[str, int, str]

PLANS: list[list[Kill]] = [
    # One after the other, as one import goes on from where another was killed.
    [("fsync", count, "before") for count in (1, 3, 4, 6)],
    [("fsync", count, "after") for count in (2, 4, 5, 7)],
    [("fsync", count, "after") for count in (10, 8, 6, 6)],
    [("unlink", 1, "before"), ("unlink", 2, "after"), ("unlink", 1, "after")],
    [("unlink", 4, "before"), ("unlink", 3, "before"), ("unlink", 5, "after")],
    [("rename", 1, "before"), ("rename", 2, "after"), ("rename", 1, "after"), ("rename", 2, "before")],
    [("write", count, "after") for count in (4, 5, 6, 7)],
    [("write", count, "before") for count in (12, 9, 8, 7)],
]
MORE_PLANS: list[list[Kill]] = PLANS[1::2] + [
    [(call, count, when)]
    for call, most in (("fsync", 24), ("write", 24), ("unlink", 10), ("rename", 8), ("ftruncate", 1))
    for count in range(1, most + 1)
    for when in ("before", "after")
]


def killed(kill: Kill, *arguments: str) -> bool:
    """Run the command; whether it has come as far as that."""
    ended = run_forked("tests.cli.dying_command", *kill, *arguments)
    assert ended.returncode in (-9, 0), ended.stderr
    return ended.returncode == -9


def run_again(*arguments: str) -> None:
    ended = run_forked("spoolrack_server", *arguments)
    assert ended.returncode == 0, ended.stderr


def check_vsqs(tmp_path: Path, plan: list[Kill], *more: str) -> int:
    jobs = tmp_path / "jobs"
    before = vsqs_folder(jobs, BODIES, leased=LEASED)
    root = str(tmp_path / "root")
    how = ("import", "--from", "vsqs", str(jobs), "--root", root, "--settle", "0s", *more)
    kills = sum(killed(kill, *how) for kill in plan)
    run_again(*how)
    assert bodies_in(f"file://{root}", "jobs") == BODIES
    left = {path.name: path.read_bytes() for path in jobs.iterdir()}
    assert left == (before if "--keep" in more else {})
    return kills


@pytest.mark.parametrize("plan", PLANS[::2], ids=lambda plan: "{}-{}-{}".format(*plan[0]))
def test_a_killed_import_goes_on_with_nothing_lost_and_nothing_twice(
    tmp_path: Path, plan: list[Kill]
) -> None:
    assert check_vsqs(tmp_path, plan) > 1, "it was to be killed"


def test_a_killed_import_that_keeps_everything_goes_on_too(tmp_path: Path) -> None:
    assert check_vsqs(tmp_path, PLANS[1], "--keep") > 1


@pytest.mark.slow
@pytest.mark.parametrize("plan", MORE_PLANS, ids=lambda plan: "{}-{}-{}".format(*plan[0]))
def test_a_kill_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path, plan: list[Kill]) -> None:
    check_vsqs(tmp_path, plan)


@pytest.mark.parametrize("plan", [PLANS[1], PLANS[7]], ids=["fsync", "write"])
def test_a_killed_import_of_an_archive_goes_on(tmp_path: Path, plan: list[Kill]) -> None:
    there, root = str(tmp_path / "there"), str(tmp_path / "root")
    bodies = [b"%d" % number * 700_000 for number in range(8)]  # In two calls.
    with connect(f"file://{there}") as client:
        client.create_queue("jobs")
        client.queue("jobs").send_many(bodies)
    archive = tmp_path / "archive"
    how = ("export", "jobs", "--root", there, "--output", str(archive))
    killed(("fsync", 1, "before"), *how)
    if not archive.exists():
        run_again(*how)
    how = ("import", str(archive), "--root", root, "--settle", "0s")
    assert sum(killed(kill, *how) for kill in plan)
    run_again(*how)
    assert bodies_in(f"file://{root}", "jobs") == bodies
    run_again(*how)
    assert bodies_in(f"file://{root}", "jobs") == bodies
