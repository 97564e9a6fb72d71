"""Exports, imports and snapshots carry the schedules of queues."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from spoolrack import Client, Schedule
from spoolrack.testing import RunningServer

from tests.cli.cli_rig import FAST, Spoolrack


def told(schedules: Sequence[Schedule]) -> list[tuple[object, ...]]:
    return [
        (
            each.name,
            each.cron,
            each.time_zone,
            each.body,
            dict(each.attributes),
            each.group,
            each.paused,
        )
        for each in schedules
    ]


@pytest.fixture
def made(client: Client) -> list[tuple[object, ...]]:
    """Make a queue with a message and two schedules; return the schedules' values."""
    client.create_queue("jobs")
    client.queue("jobs").send("waits")
    attributes: dict[str, str | bytes] = {"kind": "ö", "raw": b"\xff"}
    client.schedules.create(
        "jobs", "a", "30 6 1 1 *", b"\xff\x00", time_zone="Europe/Berlin", attributes=attributes
    )
    client.schedules.create("jobs", "b", "0 0 29 2 *", "text", group="g")
    client.schedules.pause("jobs", "b")
    return told(list(client.schedules.list("jobs")))


def test_an_archive_brings_schedules_to_another_queue(
    spoolrack: Spoolrack, client: Client, made: list[tuple[object, ...]], tmp_path: Path
) -> None:
    archive = str(tmp_path / "archive")
    assert spoolrack("export", "jobs", "-o", archive).code == 0
    for _ in range(2):  # It may be repeated.
        brought = spoolrack("import", archive, "--queue", "copy", *FAST)
        assert brought.code == 0, brought.err
        assert told(list(client.schedules.list("copy"))) == made
    assert [each.text for each in client.queue("copy").peek()] == ["waits"]


def test_a_schedule_that_differs_is_kept_and_said(
    spoolrack: Spoolrack, client: Client, made: list[tuple[object, ...]], tmp_path: Path
) -> None:
    archive = str(tmp_path / "archive")
    assert spoolrack("export", "jobs", "-o", archive).code == 0
    client.create_queue("copy")
    client.schedules.create("copy", "a", "1 1 1 1 *")
    brought = spoolrack("import", archive, "--queue", "copy", *FAST)
    assert brought.code == 0
    assert "the schedule a of copy is not imported" in brought.err
    assert [each.cron for each in client.schedules.list("copy")] == ["1 1 1 1 *", "0 0 29 2 *"]


def test_a_root_is_exported_with_its_schedules_and_a_root_without_a_server_gets_none(
    spoolrack: Spoolrack,
    offline: Spoolrack,
    client: Client,
    server: RunningServer,
    made: list[tuple[object, ...]],
    tmp_path: Path,
) -> None:
    archive, copy, root = (str(tmp_path / name) for name in ("archive", "copy", "root"))
    assert offline("snapshot", copy, "--root", str(server.root)).code == 0
    assert offline("export", "jobs", "--root", copy, "-o", archive).code == 0
    brought = spoolrack("import", archive, "--queue", "copy", *FAST)
    assert brought.code == 0, brought.err
    assert told(list(client.schedules.list("copy"))) == made
    refused = offline("import", archive, "--root", root, *FAST)
    assert refused.code == 0
    assert "the schedule a of jobs is not imported: Schedules need a server" in refused.err
