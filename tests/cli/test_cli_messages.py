"""Sending, receiving, deleting and peeking, as scripts and people do it."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from spoolrack import Client, Outgoing
from spoolrack.testing import RunningServer
from spoolrack_server.cli.messages import receive_command

from tests.cli.cli_rig import Spoolrack

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def queue(client: Client) -> None:
    client.create_queue("jobs")


def counts(client: Client) -> tuple[int, int, int]:
    found = client.queue("jobs").info().counts
    return found.ready_count, found.leased_count, found.delayed_count


# send


def test_send_prints_the_id_of_what_it_has_sent(spoolrack: Spoolrack, client: Client) -> None:
    sent = spoolrack("send", "jobs", "hello")
    assert (sent.code, sent.err) == (0, "")
    assert client.queue("jobs").get(sent.out.strip()).body == b"hello"


def test_send_takes_a_delivery_time(spoolrack: Spoolrack, client: Client) -> None:
    sent = spoolrack("send", "jobs", "x", "--deliver-at", "2h", "--quiet")
    assert sent.code == 0, sent.err
    (message,) = client.queue("jobs").peek()
    assert message.state == "delayed"
    assert message.deliver_at is not None
    assert message.lease_expires_at is None
    ahead = message.deliver_at - message.sent_at
    assert timedelta(hours=1, minutes=55) < ahead <= timedelta(hours=2, seconds=1)


def test_send_takes_attributes_and_a_delay(spoolrack: Spoolrack, client: Client) -> None:
    sent = spoolrack("send", "jobs", "x", "-a", "kind=a=b", "-a", "n=", "--delay", "1h", "--quiet")
    assert sent.out == ""
    (message,) = client.queue("jobs").peek()
    assert message.attributes == {"kind": "a=b", "n": ""}
    assert counts(client) == (0, 0, 1)


def test_send_takes_any_bytes_of_a_file(spoolrack: Spoolrack, client: Client, tmp_path: Path) -> None:
    content = bytes(range(256)) * 100
    (tmp_path / "body").write_bytes(content)
    assert spoolrack("send", "jobs", "--file", str(tmp_path / "body")).code == 0
    (message,) = client.queue("jobs").receive()
    assert message.body == content


@pytest.mark.parametrize("arguments", [[], ["-"], ["--file", "-"]])
def test_send_takes_standard_input_as_it_is(start: Start, client: Client, arguments: list[str]) -> None:
    process = start("send", "jobs", *arguments)
    process.communicate(b"\x00two\nlines\n")
    assert process.returncode == 0
    (message,) = client.queue("jobs").receive()
    assert message.body == b"\x00two\nlines\n"


def test_send_can_create_the_queue(spoolrack: Spoolrack, client: Client) -> None:
    assert spoolrack("send", "new", "x").code == 1
    assert spoolrack("send", "new", "x", "--create").code == 0
    assert spoolrack("send", "new", "y", "--create").code == 0
    assert [message.body for message in client.queue("new").receive(10)] == [b"x", b"y"]


def test_a_body_that_is_too_large_is_refused_in_the_servers_words(
    spoolrack: Spoolrack, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(2_000_000))
    refused = spoolrack("send", "jobs", "--file", str(tmp_path / "large"))
    assert refused.code == 65
    assert "2000000 bytes" in refused.err
    assert "max_message_size" in refused.err


def test_a_message_with_a_deduplication_id_is_sent_once(spoolrack: Spoolrack, client: Client) -> None:
    first = spoolrack("send", "jobs", "a", "--deduplication-id", "order-1")
    again = spoolrack("send", "jobs", "a", "--deduplication-id", "order-1")
    assert (first.code, again.code) == (0, 0)
    assert first.out == again.out
    assert client.queue("jobs").info().counts.ready_count == 1


# receive


def test_receive_prints_bodies_a_line_each_in_order(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send_many(["one", "two", "three"])
    received = spoolrack("receive", "jobs", "--max", "2")
    assert (received.code, received.out, received.err) == (0, "one\ntwo\n", "")


def test_receive_without_delete_only_leases(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send_many(["one", "two"])
    assert spoolrack("receive", "jobs").out == "one"
    assert counts(client) == (1, 1, 0)


def test_receive_with_delete_deletes_what_it_has_printed(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send_many(map(str, range(1200)))
    received = spoolrack("receive", "jobs", "--max", "0", "--delete")
    assert received.out.split() == [str(number) for number in range(1200)]
    assert counts(client) == (0, 0, 0)


def test_receive_exits_with_1_when_there_is_nothing(spoolrack: Spoolrack) -> None:
    nothing = spoolrack("receive", "jobs", "--max", "5", "--wait", "10ms")
    assert (nothing.code, nothing.out, nothing.err) == (1, "", "")


def test_receive_waits_for_what_comes_later(start: Start, client: Client) -> None:
    process = start("receive", "jobs", "--wait", "1h", "--delete")
    client.queue("jobs").send("at last")
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, b"at last")


def test_receive_prints_json_with_all_that_is_known(spoolrack: Spoolrack, client: Client) -> None:
    attributes: dict[str, str | bytes] = {"text": "ä", "raw": b"\xff"}
    client.queue("jobs").send_many([Outgoing(body="ü\n", attributes=attributes), b"\xff"])
    received = spoolrack("receive", "jobs", "--max", "0", "--json")
    first, second = map(json.loads, received.out.splitlines())
    assert (first["body"], first["attributes"]) == ("ü\n", {"text": "ä"})
    assert first["binary_attributes"] == {"raw": "/w=="}
    assert (second["binary_body"], "body" in second) == ("/w==", False)
    assert (first["receive_count"], first["body_size"]) == (1, 3)
    assert first["lease_expire_time"] > first["send_time"]
    assert spoolrack("delete", "jobs", first["receipt"]).code == 0
    assert counts(client) == (0, 1, 0)


def test_peek_shows_all_that_a_message_has_as_json(spoolrack: Spoolrack, client: Client) -> None:
    jobs = client.queue("jobs")
    id = jobs.send("ä", attributes={"a": "b", "raw": b"\xff"}, group="g", priority=3, delay=60)
    message = jobs.get(id)
    assert message.deliver_at is not None
    assert json.loads(spoolrack("peek", "jobs", "--json").out) == {
        "id": id,
        "queue": "jobs",
        "body": "ä",
        "attributes": {"a": "b"},
        "binary_attributes": {"raw": "/w=="},
        "group": "g",
        "priority": 3,
        "body_size": 2,
        "state": "delayed",
        "send_time": message.sent_at.isoformat(timespec="milliseconds"),
        "receive_count": 0,
        "first_receive_time": None,
        "deliver_time": message.deliver_at.isoformat(timespec="milliseconds"),
    }


def test_receive_can_lease_for_another_time(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send("x")
    spoolrack("receive", "jobs", "--visibility-timeout", "6h")
    (message,) = client.queue("jobs").peek()
    assert message.lease_expires_at is not None
    assert message.first_received_at is not None
    leased = (message.lease_expires_at - message.first_received_at).total_seconds()
    assert leased == pytest.approx(6 * 3600, abs=1)  # Each is rounded to milliseconds of its own clock.


def test_receive_follows_through_a_restart_of_the_server(
    start: Start, client: Client, server: RunningServer
) -> None:
    process = start("receive", "jobs", "--follow", "--max", "2", "--delete")
    assert process.stdout is not None
    client.queue("jobs").send("before")
    assert process.stdout.readline() == b"before\n"
    server.restart()
    client.queue("jobs").send("after")
    assert process.stdout.readline() == b"after\n"
    assert process.wait() == 0


def test_receive_follows_from_a_server_that_is_not_there_yet_and_says_so_once(
    spoolrack: Spoolrack, client: Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.queue("jobs").send("a")
    server.stop()
    monkeypatch.setattr(receive_command, "LONG_POLL", 0.01)

    lines: list[str] = []

    class Screen(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("spoolrack: "):
                lines.append(text)
                server.start()
            return len(text)

    monkeypatch.setattr(sys, "stderr", Screen())
    how = ("--follow", "--max", "1", "--visibility-timeout", "1m", "--timeout", "1s")
    result = spoolrack("receive", "jobs", *how)
    assert (result.code, result.out) == (0, "a")
    (line,) = lines
    assert line.startswith("spoolrack: waiting for the server to come back: No answer from 127.0.0.1:")


# delete


def test_delete_takes_ids_in_any_state(spoolrack: Spoolrack, client: Client) -> None:
    queue = client.queue("jobs")
    ids = [queue.send("a"), queue.send("b"), queue.send("c", delay=3600)]
    queue.receive()
    deleted = spoolrack("delete", "jobs", *ids)
    assert (deleted.code, deleted.out) == (0, "")
    assert "3 messages" in deleted.err
    assert counts(client) == (0, 0, 0)


def test_delete_reads_ids_from_standard_input(start: Start, client: Client) -> None:
    ids = [client.queue("jobs").send(str(number)) for number in range(3)]
    process = start("delete", "jobs", "-", "--quiet")
    out, err = process.communicate("\n".join(ids).encode())
    assert (process.returncode, out, err) == (0, b"", b"")
    assert counts(client) == (0, 0, 0)


def test_delete_tells_what_is_not_there_and_deletes_the_others(
    spoolrack: Spoolrack, client: Client
) -> None:
    id = client.queue("jobs").send("x")
    missing = "01890000-0000-7000-8000-000000000000"
    result = spoolrack("delete", "jobs", missing, "no-id", id)
    assert result.code == 1
    assert result.err.splitlines()[0].startswith(f"spoolrack: {missing}: There is no message")
    assert result.err.splitlines()[1].startswith("spoolrack: no-id: ")
    assert counts(client) == (0, 0, 0)


# peek


def test_peek_leases_nothing(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send_many(["one", "two"])
    table = spoolrack("peek", "jobs")
    assert table.code == 0
    assert table.out.splitlines()[0].split() == ["ID", "STATE", "AGE", "RECEIVES", "BYTES", "BODY"]
    assert table.out.splitlines()[1].endswith("one")
    assert spoolrack("peek", "jobs", "--raw").out == "one\ntwo\n"
    assert json.loads(spoolrack("peek", "jobs", "--json", "--max", "1").out)["body"] == "one"
    assert counts(client) == (2, 0, 0)


def test_peek_tells_how_long_a_lease_and_a_delay_last(spoolrack: Spoolrack, client: Client) -> None:
    queue = client.queue("jobs")
    queue.send("leased")
    queue.receive(visibility_timeout=3_600)
    queue.send("delayed", delay=86_400)
    leased, delayed = spoolrack("peek", "jobs").out.splitlines()[1:]
    assert re.search(r" leased (1h|59m)", leased), leased
    assert re.search(r" delayed (1d|23h)", delayed), delayed


def test_peek_looks_at_one_state_or_one_message(spoolrack: Spoolrack, client: Client) -> None:
    queue = client.queue("jobs")
    ids = [queue.send("leased"), queue.send("ready")]
    queue.receive()
    assert spoolrack("peek", "jobs", "--raw", "--state", "leased").out == "leased\n"
    assert spoolrack("peek", "jobs", "--raw", ids[1]).out == "ready"
    assert spoolrack("peek", "jobs", "--state", "delayed").code == 1
    assert spoolrack("peek", "jobs", "01890000-0000-7000-8000-000000000000").code == 1


def test_peek_does_a_terminal_no_harm(spoolrack: Spoolrack, client: Client) -> None:
    client.queue("jobs").send(b"\x1b]0;owned\x07\n\xff\x00" + b"long" * 100)
    table = spoolrack("peek", "jobs")
    assert table.out.isascii() or "…" in table.out
    assert "\x1b" not in table.out
    assert len(table.out.splitlines()) == 2


BINARY = b"\x89PNG\r\n\x1a\n\x00\xff"


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ((), BINARY),
        (("--raw",), BINARY),
        (("--max", "2"), BINARY + b"\n" + BINARY + b"\n"),
        (("--max", "2", "--raw"), BINARY + BINARY),
    ],
)
def test_a_single_body_goes_to_a_file_as_it_is_and_several_are_a_line_each(
    start: Start, client: Client, tmp_path: Path, options: tuple[str, ...], written: bytes
) -> None:
    client.create_queue("jobs")
    client.queue("jobs").send_many([BINARY, BINARY])
    with (tmp_path / "body").open("wb") as file:
        assert start("receive", "jobs", *options, stdout=file).wait(timeout=60) == 0
    assert (tmp_path / "body").read_bytes() == written


@pytest.mark.parametrize("other", ["--json", "--exec=true"])
def test_raw_bodies_are_nothing_else(spoolrack: Spoolrack, other: str) -> None:
    assert spoolrack("receive", "jobs", "--raw", other).code == 2


def test_a_group_is_sent_and_shown(spoolrack: Spoolrack) -> None:
    assert spoolrack("send", "jobs", "--create", "x", "--group", "g 1").code == 0
    assert json.loads(spoolrack("receive", "jobs", "--json").out)["group"] == "g 1"


def test_peek_shows_only_what_all_its_filters_take(spoolrack: Spoolrack, client: Client) -> None:
    queue = client.queue("jobs")
    queue.send("one", group="eu", attributes={"kind": "x"})
    queue.send("two", attributes={"kind": "x"})
    for arguments, bodies in (
        (["--group", "eu"], "one\n"),
        (["-a", "kind=x"], "one\ntwo\n"),
        (["-a", "kind=x", "--group", "eu", "--sent-since", "1h"], "one\n"),
        (["--sent-before", "1h"], ""),
        (["--sent-since", "1h", "--state", "leased"], ""),
    ):
        peeked = spoolrack("peek", "jobs", "--raw", *arguments)
        assert (peeked.out, peeked.code) == (bodies, 0 if bodies else 1), arguments
    refused = spoolrack("peek", "jobs", "--attribute", "kind")
    assert refused.code == 2
    assert "write colour=red" in refused.err


def test_a_printed_message_that_is_not_deleted_is_told(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.queue("jobs").send_many([b"lost", b"held"])
    lost, held = client.queue("jobs").receive(2)
    lost.release()
    receive_command._delete([lost, held])
    (told,) = capsys.readouterr().err.splitlines()
    assert f"message {lost.id} was printed, and is not deleted: The lease on message" in told
    assert counts(client) == (1, 0, 0)
