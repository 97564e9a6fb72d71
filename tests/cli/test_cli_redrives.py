"""Dead letters on the command line: their records, and redrives."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import spoolrack as library
from spoolrack import Client, RedriveState
from spoolrack.testing import RunningServer

from tests.cli.cli_rig import Spoolrack, at_a_terminal
from tests.support.waiting import until

NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057"


def die(client: Client, *bodies: str, queue: str = "jobs") -> list[str]:
    """Send messages, and release each until it is a dead letter in "dead"."""
    client.create_queue("dead")
    client.create_queue(queue, max_receives=1, dead_letter_queue="dead")
    before = client.queue("dead").info().counts.ready_count
    ids = [result.id or "" for result in client.queue(queue).send_many(bodies)]
    for message in client.queue(queue).receive(len(bodies)):
        message.release()
    assert client.queue(queue).receive() == []
    until(lambda: client.queue("dead").info().counts.ready_count == before + len(bodies))
    return ids


@pytest.fixture
def dead(client: Client) -> Client:
    """Two dead letters of jobs, and one of mail."""
    die(client, "a", "b")
    die(client, "m", queue="mail")
    return client


def texts(client: Client, queue: str) -> list[str]:
    return [message.text for message in client.queue(queue).peek()]


def test_peek_tells_what_a_message_died_of(spoolrack: Spoolrack, dead: Client) -> None:
    dead.queue("dead").send("never died")
    header, first, *_, last = spoolrack("peek", "dead").out.splitlines()
    assert "RECEIVES SINCE  BYTES  CAME FROM  BECAUSE OF" in header
    assert first.split()[5:9] == ["jobs", "max_receives,", "1", "receive"]
    assert last.split()[5:] == ["never", "died"]
    lines = spoolrack("peek", "dead", "--json").out.splitlines()
    (death,) = json.loads(lines[0])["dead_letter_records"]
    assert (death["source_queue"], death["reason"]) == ("jobs", "max_receives")
    assert (death["receive_count"], death["dead_letter_time"][-6:]) == (1, "+00:00")
    assert "dead_letter_records" not in json.loads(lines[-1])
    assert "CAME FROM" not in spoolrack("peek", "jobs").out


def test_peek_tells_of_a_message_that_was_redriven_what_it_died_of_and_not_that_it_is_dead(
    spoolrack: Spoolrack, dead: Client
) -> None:
    assert spoolrack("redrive", "dead").code == 0
    _, first, _ = spoolrack("peek", "jobs").out.splitlines()
    assert first.split()[5:] == ["jobs", "max_receives,", "1", "receive", "a"]


def test_redrive_moves_all_back_and_says_so(spoolrack: Spoolrack, dead: Client) -> None:
    done = spoolrack("redrive", "dead")
    assert (done.code, done.out) == (0, "")
    assert done.err == "spoolrack: moved 3 messages of dead\n"
    assert (texts(dead, "jobs"), texts(dead, "mail"), texts(dead, "dead")) == (["a", "b"], ["m"], [])
    nothing = spoolrack("redrive", "dead")
    assert (nothing.code, nothing.err) == (1, "spoolrack: moved 0 messages of dead\n")
    assert spoolrack("redrive", "dead", "--quiet").err == ""


def test_redrive_moves_a_selection_to_another_queue(spoolrack: Spoolrack, dead: Client) -> None:
    a, b, m = (message.id for message in dead.queue("dead").peek())
    dead.create_queue("other")
    assert spoolrack("redrive", "dead", "--id", a, "--id", m, "--to", "other").code == 0
    assert texts(dead, "other") == ["a", "m"]
    assert spoolrack("redrive", "dead", "--from", "mail").code == 1
    done = spoolrack("redrive", "dead", "--from", "jobs", "--rate", "1000", "--json")
    told = json.loads(done.out)
    assert (told["state"], told["moved_count"], told["source_queue"]) == ("done", 1, "jobs")
    assert told["start_time"] <= told["end_time"]
    assert texts(dead, "jobs") == ["b"]
    assert b in spoolrack("peek", "jobs").out


def test_dead_letters_that_stay_are_reported_with_a_reason(spoolrack: Spoolrack, dead: Client) -> None:
    dead.delete_queue("mail")
    done = spoolrack("redrive", "dead")
    assert done.code == 1
    assert done.err.startswith("spoolrack: moved 2 messages of dead; 1 message had to stay (")
    assert "mail" in done.err
    assert texts(dead, "dead") == ["m"]
    assert "mail" in spoolrack("redrives", "list").out.splitlines()[-1]


def test_a_redrive_without_a_waiting_command_is_listed_and_cancelled(
    spoolrack: Spoolrack, dead: Client
) -> None:
    begun = spoolrack("redrive", "dead", "--no-wait", "--rate", "1")
    assert (begun.code, begun.err) == (0, "")
    id = begun.out.strip()
    header, row = spoolrack("redrives", "list").out.splitlines()
    assert header.split()[:7] == ["ID", "QUEUE", "TO", "STATE", "MOVED", "STAY", "LEFT"]
    assert row.split()[:4] == [id, "dead", "-", "running"]
    again = spoolrack("redrive", "dead")
    assert (again.code, id in again.err) == (75, True)
    cancelled = spoolrack("redrives", "cancel", id)
    assert cancelled.code == 0
    assert cancelled.err.startswith("spoolrack: cancelled the redrive of dead: it had moved ")
    (only,) = spoolrack("redrives", "list", "dead", "--json").out.splitlines()
    assert json.loads(only)["state"] == "cancelled"
    assert spoolrack("redrives", "cancel", id, "--quiet").err == ""
    ended = dead.queue("dead").redrive()
    until(lambda: dead.redrives.get(ended.id).state is RedriveState.DONE)
    assert "had ended before" in spoolrack("redrives", "cancel", ended.id).err


def test_a_missing_resource_is_not_found(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("dead")
    assert spoolrack("redrives", "list").code == 0
    assert spoolrack("redrives", "cancel", NOWHERE).code == 1
    assert spoolrack("redrive", "nowhere").code == 1
    assert spoolrack("redrive", "dead", "--to", "nowhere").code == 1
    for wrong in (["--to", "dead"], ["--id", "x"], ["--rate", "-1"], ["--rate", "100001"]):
        assert spoolrack("redrive", "dead", *wrong).code == 2
    assert spoolrack("redrives", "cancel", "x").code == 2


def test_ctrl_c_ends_the_watching_and_not_the_redrive(
    dead: Client, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = start("redrive", "dead", "--rate", "1")
    until(lambda: bool(list(dead.redrives.list())))
    (running,) = dead.redrives.list()
    # It may not have been answered yet: a second look is made once it has.
    until(lambda: dead.redrives.get(running.id).moved_count > 0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"spoolrack redrives cancel {running.id}".encode() in err
    assert dead.redrives.cancel(running.id).id == running.id


def test_a_terminal_sees_how_far_it_is(server: RunningServer, dead: Client) -> None:
    code, seen = at_a_terminal(server.url, "redrive", "dead", "--rate", "2")
    assert code == 0
    assert b"dead: moved" in seen
    assert b"/3" in seen
    assert b"moved 3 messages of dead" in seen


def test_dead_letters_are_redriven_with_no_server(offline: Spoolrack, tmp_path: Path) -> None:
    path = tmp_path / "root"
    root = ("--root", str(path))
    with library.connect(f"file://{path}") as client:
        die(client, "a", "b", "c")
    begun = offline("redrive", "dead", "--rate", "1", "--no-wait", *root)
    assert begun.code == 0
    assert "as long as a process has the folder open" in begun.err
    assert offline("redrives", "list", "dead", *root).out.split()[-1] == "ago"
    assert offline("redrives", "cancel", begun.out.strip(), *root).code == 0
    assert offline("redrive", "dead", "--quiet", *root).code in (0, 1)  # Fast, or moved by now.
    with library.connect(f"file://{path}") as client:
        assert texts(client, "jobs") == ["a", "b", "c"]
    assert offline("fsck", *root).code == 0
