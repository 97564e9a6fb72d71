"""`spoolrack schedules`, against a real server."""

from __future__ import annotations

import json

import pytest
import spoolrack as library
from spoolrack import Client
from spoolrack.errors import Unsupported

from tests.cli.cli_rig import Spoolrack

YEARLY = ("create", "jobs", "yearly", "0 0 1 1 *")


def test_a_schedule_is_created_listed_paused_resumed_and_deleted(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.create_queue("jobs")
    made = spoolrack(
        "schedules", *YEARLY, "happy", "--time-zone", "Asia/Tokyo", "-a", "k=v", "--group", "g"
    )
    assert made.code == 0, made.err
    assert made.out.endswith("-12-31 15:00:00 UTC\n")
    (found,) = client.schedules.list("jobs")
    assert (found.body, found.attributes, found.group) == (b"happy", {"k": "v"}, "g")
    assert (found.cron, found.time_zone, found.paused) == ("0 0 1 1 *", "Asia/Tokyo", False)
    assert "yearly" in spoolrack("schedules", "list").out
    changed = spoolrack("schedules", "update", "jobs", "yearly", "--cron", "0 1 1 1 *", "--group", "")
    assert changed.out.endswith("-12-31 16:00:00 UTC\n")
    found = client.schedules.get("jobs", "yearly")
    assert (found.cron, found.body, found.group) == ("0 1 1 1 *", b"happy", "")
    assert spoolrack("schedules", "pause", "jobs", "yearly").code == 0
    assert "paused" in spoolrack("schedules", "list", "jobs").out
    line = json.loads(spoolrack("schedules", "list", "--json").out)
    assert line["paused"] is True
    assert line["next_tick_time"] is None
    assert line["body"] == "happy"
    assert spoolrack("schedules", "resume", "jobs", "yearly").code == 0
    assert spoolrack("schedules", "delete", "jobs", "yearly").code == 0
    assert spoolrack("schedules", "list").out == ""
    gone = spoolrack("schedules", "delete", "jobs", "yearly")
    assert gone.code == 1
    assert "has no schedule yearly" in gone.err


def test_a_schedule_that_is_none_is_refused_with_its_reason(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.create_queue("jobs")
    no = spoolrack("schedules", "create", "jobs", "n", "0 0 30 2 *")
    assert no.code == 2
    assert "must be five fields with a time that comes" in no.err
    no = spoolrack("schedules", *YEARLY, "--time-zone", "Mars/Base")
    assert no.code == 2
    assert "must be a zone of the tz database" in no.err
    assert spoolrack("schedules", *YEARLY, "a").code == 0
    assert spoolrack("schedules", *YEARLY, "a").code == 0
    other = spoolrack("schedules", *YEARLY, "b")
    assert other.code == 1
    assert "with another body" in other.err


@pytest.mark.parametrize("kind", ["file", "vsqs"])
def test_schedules_of_a_folder_are_refused(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    folder = tmp_path_factory.mktemp("root") / "new"
    with library.connect(f"{kind}://{folder}") as client:
        with pytest.raises(Unsupported, match="Schedules need a server"):
            client.schedules.create("jobs", "n", "* * * * *")
        with pytest.raises(Unsupported):
            list(client.schedules.list())
        for call in (client.schedules.pause, client.schedules.resume, client.schedules.delete):
            with pytest.raises(Unsupported):
                call("jobs", "n")
