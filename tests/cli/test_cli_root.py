"""`--root`: every command works on the folder itself, with no server or beside one."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
import spoolrack as library
from spoolrack.testing import RunningServer

from tests.cli.cli_rig import Spoolrack
from tests.support.serving import PROGRAM

ABSENT = "01890000-0000-7000-8000-000000000000"


def test_every_command_works_with_no_server(on_root: Spoolrack, tmp_path: Path) -> None:
    assert on_root("queues", "create", "jobs", "--visibility-timeout", "5m").code == 0
    assert on_root("queues", "set", "jobs", "--max-messages", "100").code == 0
    assert re.search(r"max messages +100\n", on_root("queues", "show", "jobs").out)
    (id,) = on_root("send", "jobs", "a", "-a", "colour=red").out.split()
    lines = tmp_path / "lines"
    lines.write_text("b\nc\nd\n")
    assert on_root("send", "jobs", "--lines", str(lines)).err == "spoolrack: sent 3 messages to jobs\n"
    assert id in on_root("peek", "jobs").out
    assert on_root("receive", "jobs", "--delete").out == "a"
    assert on_root("receive", "jobs", "--exec", "grep -q b").code == 0
    assert on_root("receive", "jobs", "--wait", "1s").out == "c"
    for table in (on_root("top", "--once"), on_root("queues", "list")):
        assert "jobs       1       1" in table.out
    assert on_root("queues", "purge", "jobs").err == "spoolrack: deleted 2 messages of jobs\n"
    assert on_root("fsck").code == 0
    assert on_root("queues", "delete", "jobs").code == 0
    assert on_root("queues", "list").code == 0


def test_messages_are_deleted_and_released_by_hand(on_root: Spoolrack) -> None:
    ids = [on_root("send", "jobs", "--create", body).out.strip() for body in "abc"]
    receipts = [
        json.loads(line)["receipt"]
        for line in on_root("receive", "jobs", "-n3", "--json").out.splitlines()
    ]
    assert on_root("receive", "jobs").code == 1
    assert (
        on_root("release", "jobs", receipts[1], ids[2]).err
        == "spoolrack: released 2 messages of jobs\n"
    )
    assert on_root("receive", "jobs", "-n9").out == "b\nc\n"
    again = on_root("release", "jobs", receipts[1], ABSENT, ids[0])
    assert again.code == 1
    assert [line.partition(": ")[2] for line in again.err.splitlines()][
        -1
    ] == "released 1 message of jobs"
    assert f"{ABSENT}: no message of jobs with this id is leased" in again.err
    assert on_root("delete", "jobs", *ids).err == "spoolrack: deleted 3 messages of jobs\n"
    assert on_root("peek", "jobs").code == 1


def test_messages_of_a_batch_are_released_singly_and_together(on_root: Spoolrack, root: Path) -> None:
    with library.connect(f"file://{root}") as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        ids = [str(result.id) for result in jobs.send_many(list("abcd"))]
        jobs.receive(4)
    assert on_root("release", "jobs", ids[1].upper()).code == 0
    assert on_root("receive", "jobs", "-n9").out == "b\n"
    assert on_root("release", "jobs", *ids).code == 0
    assert on_root("receive", "jobs", "-n9").out == "a\nb\nc\nd\n"


def test_a_message_is_restored_by_hand(on_root: Spoolrack, root: Path) -> None:
    (id,) = on_root("send", "jobs", "--create", "a").out.split()
    (message,) = (root / "queues" / "jobs").iterdir()
    body = message.read_bytes()
    message.write_bytes(b"b")
    assert on_root("receive", "jobs").code == 1
    (aside,) = (root / "quarantine").glob(f"jobs:{id}*")
    aside.write_bytes(body)
    assert on_root("fsck", "--restore", id).code == 0
    assert on_root("receive", "jobs").out == "a"


def test_messages_are_rejected_by_hand_with_a_reason(on_root: Spoolrack, root: Path) -> None:
    assert on_root("queues", "create", "dead").code == 0
    create = ("queues", "create", "jobs", "--max-receives", "3", "--dead-letter-queue", "dead")
    assert on_root(*create).code == 0
    ids = [on_root("send", "jobs", body).out.strip() for body in "abc"]
    assert on_root("receive", "jobs", "-n2").code == 0
    told = on_root("reject", "jobs", ids[0], ids[2], "--reason", "no customer")
    assert told.code == 1
    assert f"{ids[2]}: no message of jobs with this id is leased" in told.err
    assert told.err.endswith("rejected 1 message of jobs\n")
    with library.connect(f"file://{root}") as client:
        (letter,) = client.queue("dead").peek()
        assert letter.id == ids[0]
        record = letter.dead_letter_records[-1]
        assert (record.reason, record.explanation) == ("rejected", "no customer")
    assert "no customer (rejected, 1 receive)" in on_root("peek", "dead").out
    (record,) = json.loads(on_root("peek", "dead", "--json").out)["dead_letter_records"]
    assert (record["reason"], record["explanation"]) == ("rejected", "no customer")
    refused = on_root("reject", "dead", ids[0])
    assert refused.code == 1
    assert on_root("fsck").code == 0


def test_messages_are_released_with_a_delay_and_without_counting(on_root: Spoolrack) -> None:
    ids = [on_root("send", "jobs", "--create", body).out.strip() for body in "ab"]
    assert on_root("receive", "jobs", "-n2").code == 0
    assert on_root("release", "jobs", ids[0], "--delay", "1h").code == 0
    assert on_root("release", "jobs", ids[1], "--uncounted").code == 0
    found = [json.loads(line) for line in on_root("receive", "jobs", "-n9", "--json").out.splitlines()]
    assert [(each["id"], each["receive_count"]) for each in found] == [(ids[1], 1)]
    assert on_root("release", "jobs", ids[1], "--delay", "1h", "--backoff").code == 2
    assert on_root("release", "jobs", ids[1], "--backoff").code == 0
    assert on_root("receive", "jobs").code == 1


def test_ids_can_not_be_released_through_a_server(spoolrack: Spoolrack) -> None:
    assert spoolrack("queues", "create", "jobs").code == 0
    told = spoolrack("release", "jobs", ABSENT)
    assert (told.code, "--root" in told.err) == (2, True)
    spoolrack("send", "jobs", "a")
    receipt = json.loads(spoolrack("receive", "jobs", "--json").out)["receipt"]
    assert spoolrack("release", "jobs", receipt).code == 0
    assert spoolrack("receive", "jobs").out == "a"


def test_commands_on_the_folder_and_over_the_server_meet(
    spoolrack: Spoolrack, on_root: Spoolrack, server: RunningServer
) -> None:
    served = ("--root", server.root)
    assert spoolrack("send", "jobs", "--create", "a").code == 0
    assert spoolrack("receive", "jobs", "--wait", "60s", *served).out == "a"
    assert spoolrack("send", "jobs", "b", *served).code == 0
    assert spoolrack("receive", "jobs", "--wait", "60s").out == "b"
    assert spoolrack("fsck", *served).code == 0


def test_a_mistyped_root_is_not_made(on_root: Spoolrack, root: Path) -> None:
    for command in (["queues", "list"], ["send", "jobs", "a"], ["receive", "jobs"], ["top", "--once"]):
        told = on_root(*command)
        assert (told.code, told.out) == (66, "")
        assert "create a queue in it first" in told.err
    assert not root.exists()


def test_options_come_before_the_environment_and_there_a_server_before_a_folder(
    on_root: Spoolrack, offline: Spoolrack, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "127.0.0.1:1"
    monkeypatch.setenv("SPOOLRACK_ROOT", str(root))
    assert offline("queues", "create", "jobs").code == 0
    assert offline("queues", "list", "--url", nowhere).code == 69
    monkeypatch.setenv("SPOOLRACK_URL", nowhere)
    assert offline("queues", "list").code == 69
    assert on_root("queues", "list").code == 0
    assert on_root("queues", "list", "--url", nowhere).code == 2


def test_a_root_of_any_name_and_for_a_group(offline: Spoolrack, tmp_path: Path) -> None:
    root = tmp_path / "my #1%20root?ö"
    on_it = ("--root", os.path.relpath(root), "--group-access")
    assert offline("queues", "create", "jobs", *on_it).code == 0
    assert stat.S_IMODE(root.stat().st_mode) == 0o2770
    assert offline("send", "jobs", "a", *on_it[:2]).code == 0
    (message,) = (root / "queues" / "jobs").iterdir()
    assert stat.S_IMODE(message.stat().st_mode) == 0o660


def test_an_interrupted_receive_leaves_no_lease(root: Path) -> None:
    command = [*PROGRAM, "receive", "jobs", "--follow", "--delete", "--root", str(root)]
    with library.connect(f"file://{root}") as client:
        jobs = client.create_queue("jobs")
        jobs.send_many([b"x" * 10_000] * 50)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"x" * 10_000 + b"\n"
            # Its pipe has no room for all the others.
            process.terminate()
            process.wait(60)
            assert process.returncode == 143
        counts = jobs.info().counts
        assert counts.ready_count > 0
        assert counts.leased_count == 0
    assert list((root / "owners").iterdir()) == []
