"""`receive --exec` and broken pipes: a message is deleted only when its reader has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from spoolrack import Client

from tests.cli.cli_rig import Spoolrack
from tests.support.waiting import until

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def queue(client: Client) -> None:
    client.create_queue("jobs")


def counts(client: Client) -> tuple[int, int]:
    found = client.queue("jobs").info().counts
    return found.ready_count, found.leased_count


def test_a_message_is_deleted_when_its_command_succeeds(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send_many(["one\n", "two\n"])
    result = spoolrack("receive", "jobs", "--max", "0", "--exec", "cat")
    assert (result.code, result.out, result.err) == (0, "one\ntwo\n", "")
    assert counts(client) == (0, 0)


def test_a_message_is_ready_again_when_its_command_fails_and_the_others_have_their_turn(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.queue("jobs").send_many(["bad", "good", "bad", "good"])
    result = spoolrack("receive", "jobs", "--max", "0", "--exec", "grep -q good")
    assert result.code == 1
    assert "exited with 1" in result.err
    assert "failed on 2 messages of 4" in result.err
    assert counts(client) == (2, 0)
    assert [message.receive_count for message in client.queue("jobs").peek()] == [1, 1]


def test_a_failed_message_comes_again_later_while_it_follows(
    start: Start, client: Client, tmp_path: Path
) -> None:
    client.queue("jobs").send("x")
    shell = f"echo >>{tmp_path}/runs; test $SPOOLRACK_MESSAGE_RECEIVE_COUNT = 2"
    process = start("receive", "jobs", "--follow", "--exec", shell)
    until(lambda: counts(client) == (0, 0) and not list(client.queue("jobs").peek()))
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert (tmp_path / "runs").read_text() == "\n\n"


def test_the_command_knows_its_message(spoolrack: Spoolrack, client: Client) -> None:
    id = client.queue("jobs").send(
        "x",
        group="g 1",
        attributes={"kind": "new order", "x-id.1": "7", "nul": "a\0b", "raw": b"\xff"},
    )
    result = spoolrack("receive", "jobs", "--exec", "env -0")
    found = dict(line.split("=", 1) for line in result.out.split("\0") if line)
    assert found["SPOOLRACK_MESSAGE_ID"] == id
    assert found["SPOOLRACK_MESSAGE_QUEUE"] == "jobs"
    assert found["SPOOLRACK_MESSAGE_GROUP"] == "g 1"
    assert found["SPOOLRACK_MESSAGE_RECEIVE_COUNT"] == "1"
    assert datetime.fromisoformat(found["SPOOLRACK_MESSAGE_SEND_TIME"])
    assert found["SPOOLRACK_ATTRIBUTE_KIND"] == "new order"
    assert found["SPOOLRACK_ATTRIBUTE_X_ID_1"] == "7"
    assert json.loads(found["SPOOLRACK_MESSAGE_ATTRIBUTES"])["raw"] == "/w=="
    assert "SPOOLRACK_ATTRIBUTE_NUL" not in found
    assert "SPOOLRACK_ATTRIBUTE_NUL" in result.err


def test_the_command_does_not_get_the_token_of_its_client(
    spoolrack: Spoolrack, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOOLRACK_TOKEN", "srk_secret")
    client.queue("jobs").send("x")
    result = spoolrack("receive", "jobs", "--exec", "env -0")
    assert result.code == 0
    assert "srk_secret" not in result.out


def test_attributes_that_are_too_long_for_a_variable_do_not_keep_the_command_from_running(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.queue("jobs").send("x", attributes={"long": "\x01" * 60_000})
    result = spoolrack("receive", "jobs", "--exec", "cat")
    assert (result.code, result.out) == (0, "x")


def test_a_command_need_not_read_its_message(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send(bytes(1_000_000))
    result = spoolrack("receive", "jobs", "--exec", "true")
    assert (result.code, result.err) == (0, "")
    assert counts(client) == (0, 0)


def test_a_message_stays_leased_while_its_command_runs(
    start: Start, client: Client, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    client.queue("jobs").send("x")
    process = start(
        *("receive", "jobs", "--visibility-timeout", "5s"), *("--exec", f"cat {tmp_path}/go")
    )
    ends: set[datetime] = set()

    def is_extended() -> bool:
        for message in client.queue("jobs").peek(["leased"]):
            assert message.lease_expires_at is not None
            ends.add(message.lease_expires_at)
        return len(ends) > 1

    until(is_extended)
    (tmp_path / "go").write_text("done")
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, b"done", b"")
    assert counts(client) == (0, 0)


def test_a_stopped_command_gives_its_message_back(start: Start, client: Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    client.queue("jobs").send("x")
    shell = f"touch {tmp_path}/runs; exec cat {tmp_path}/never"
    process = start("receive", "jobs", "--exec", shell)
    until((tmp_path / "runs").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    assert counts(client) == (1, 0)


def test_a_stopped_command_gives_back_what_it_has_put_off(start: Start, client: Client) -> None:
    jobs = client.queue("jobs")
    id = jobs.send("x")
    for _ in range(6):  # The seventh failure puts it off for a minute.
        jobs.receive()[0].release()
    process = start("receive", "jobs", "--follow", "--exec", "exit 3")
    assert process.stderr is not None
    assert f"the command exited with 3 on message {id}" in process.stderr.readline().decode()
    jobs.send("y")  # It is failed on, too, and waits for its second time.
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    assert counts(client) == (2, 0)


def test_a_broken_pipe_deletes_nothing_that_was_not_written(start: Start, client: Client) -> None:
    size, many = 10_000, 400
    client.queue("jobs").send_many([b"x" * size] * many)
    process = start("receive", "jobs", "--max", "0", "--delete")
    assert process.stdout is not None
    assert process.stdout.read(size)
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
    ready, leased = counts(client)
    # A pipe holds 64 KiB or so, and the reader's buffer what it has read.
    assert leased == 0
    assert many - 40 <= ready < many


def test_a_broken_pipe_leaves_no_lease_behind_without_delete(start: Start, client: Client) -> None:
    client.queue("jobs").send_many([b"x" * 10_000] * 100)
    process = start("receive", "jobs", "--max", "0")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 141
    assert counts(client) == (100, 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_following_receive_can_be_stopped_quietly(
    start: Start, client: Client, number: signal.Signals, code: int
) -> None:
    client.queue("jobs").send("x")
    process = start("receive", "jobs", "--follow", "--delete")
    assert process.stdout is not None
    assert process.stdout.readline() == b"x\n"
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (code, b"", b"")
