"""Reservations on the command line: list, show and release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spoolrack as library
from spoolrack import Client
from spoolrack.errors import ReservationLost

from tests.cli.cli_rig import Spoolrack


@pytest.fixture
def reserved(client: Client) -> Client:
    """Five messages: two reserved as 0 of the stream s, one as 7 of t."""
    client.create_queue("jobs")
    jobs = client.queue("jobs")
    jobs.send_many(["a", "b", "c", "d", "e"])
    jobs.reserve("s", 0, max_messages=2, visibility_timeout=600)
    jobs.reserve("t", 7, max_messages=1, visibility_timeout=600)
    return client


def test_reservations_are_listed(spoolrack: Spoolrack, reserved: Client) -> None:
    list(reserved.reservations.read("s", 0))
    header, first, second = spoolrack("reservations", "list").out.splitlines()
    assert header.split() == ["STREAM", "SEQ", "QUEUE", "MESSAGES", "BYTES", "READS", "STATE"]
    assert first.split()[:7] == ["s", "0", "jobs", "2", "2", "B", "1"]
    assert second.split()[:7] == ["t", "7", "jobs", "1", "1", "B", "0"]
    assert first.split()[7] == "held"
    (only,) = spoolrack("reservations", "list", "--stream", "t", "--json").out.splitlines()
    as_json = json.loads(only)
    assert (as_json["sequence_number"], as_json["message_count"], as_json["state"]) == (7, 1, "held")
    assert spoolrack("reservations", "list", "--queue", "other").code == 0


def test_show_tells_which_messages_are_held(spoolrack: Spoolrack, reserved: Client) -> None:
    shown = spoolrack("reservations", "show", "s", "0").out.splitlines()
    assert [line.split()[-1] for line in shown] == ["BODY", "a", "b"]
    assert spoolrack("reservations", "show", "s", "0", "--raw").out == "a\nb\n"
    assert spoolrack("reservations", "show", "s", "0", "--raw", "-n1").out == "a\n"
    lines = spoolrack("reservations", "show", "s", "0", "--json").out.splitlines()
    assert [json.loads(line)["body"] for line in lines] == ["a", "b"]
    assert spoolrack("reservations", "show", "s", "1").code == 1


def test_a_poisonous_reservation_is_released(spoolrack: Spoolrack, reserved: Client) -> None:
    released = spoolrack("reservations", "release", "s", "0")
    assert (released.code, released.err) == (0, "spoolrack: released reservation 0 of s\n")
    with pytest.raises(ReservationLost):
        reserved.reservations.extend("s", 0)
    assert [m.text for m in reserved.queue("jobs").receive(10)] == ["a", "b", "d", "e"]
    assert spoolrack("reservations", "show", "s", "0").code == 1
    assert "lost" in spoolrack("reservations", "list", "--stream", "s").out
    assert spoolrack("reservations", "release", "s", "99").code == 1


def test_reservations_are_shown_and_released_with_no_server(offline: Spoolrack, tmp_path: Path) -> None:
    path = tmp_path / "root"
    root = ("--root", str(path))
    with library.connect(f"file://{path}") as client:
        client.create_queue("jobs")
        client.queue("jobs").send("a")
        client.queue("jobs").reserve("s", 0, visibility_timeout=600)
    assert "held" in offline("reservations", "list", *root).out
    assert offline("reservations", "show", "s", "0", "--raw", *root).out == "a\n"
    assert offline("reservations", "release", "s", "0", *root).code == 0
    assert offline("receive", "jobs", *root).out == "a"
    assert offline("fsck", *root).code == 0
