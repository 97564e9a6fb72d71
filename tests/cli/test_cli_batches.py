"""Batches, stages and deduplication ids on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack import Client
from spoolrack.testing import RunningServer

from tests.cli.cli_rig import Spoolrack
from tests.support.waiting import until

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\n")
    return str(path)


def bodies(client: Client) -> list[str]:
    return [message.text for message in client.queue("jobs").peek()]


def test_the_lines_of_a_batch_appear_together(spoolrack: Spoolrack, client: Client, lines: str) -> None:
    sent = spoolrack("send", "jobs", "--create", "--lines", lines, "--batch", "-a", "colour=red")
    assert (sent.code, sent.out) == (0, "")
    assert sent.err == "spoolrack: sent 3 messages to jobs, all at once\n"
    assert bodies(client) == ["a", "b", "c"]
    assert {message.attributes["colour"] for message in client.queue("jobs").peek()} == {"red"}


def test_a_line_that_can_not_be_sent_keeps_all_from_being_sent(
    spoolrack: Spoolrack, client: Client, tmp_path: Path
) -> None:
    client.create_queue("jobs", max_message_size=10)
    path = tmp_path / "lines"
    path.write_text("fine\n" * 1_500 + "much too long for it\n" + "fine\n" * 1_500)
    refused = spoolrack("send", "jobs", "--lines", str(path), "--batch")
    assert refused.code == 65
    assert refused.err.endswith("; nothing was sent\n")
    assert bodies(client) == []
    assert list(client.staging.list()) == []


def test_an_epoch_of_a_writer_is_sent_once(spoolrack: Spoolrack, client: Client, lines: str) -> None:
    client.create_queue("jobs")
    batch = ("send", "jobs", "--lines", lines, "--batch", "--writer", "nightly", "--epoch")
    assert spoolrack(*batch, "1").code == 0
    again = spoolrack(*batch, "1")
    assert again.code == 0
    assert "epoch 1 of nightly was published before" in again.err
    assert bodies(client) == ["a", "b", "c"]
    assert spoolrack(*batch, "2").code == 0
    assert len(bodies(client)) == 6
    assert list(client.staging.list()) == []


def test_a_batch_is_staged_and_published_or_dropped_by_hand(
    spoolrack: Spoolrack, client: Client, lines: str
) -> None:
    client.create_queue("jobs")
    assert spoolrack("stages", "list").code == 0
    staging = ("send", "jobs", "--lines", lines, "--batch", "--no-publish")
    first, second, third = [spoolrack(*staging).out.strip() for _ in range(3)]
    assert bodies(client) == []
    listed = spoolrack("stages", "list").out.splitlines()
    assert listed[0].split() == ["STAGE", "CHUNKS", "EXPIRES", "IN", "QUEUE", "MESSAGES"]
    assert {line.split()[0] for line in listed[1:]} == {first, second, third}
    assert {line.split()[-2:][0] for line in listed[1:]} == {"jobs"}
    as_json = [json.loads(line) for line in spoolrack("stages", "list", "--json").out.splitlines()]
    assert [each["message_counts"] for each in as_json] == [{"jobs": 3}] * 3
    publish = ("stages", "publish", first, "--epoch-retention", "1d")
    assert spoolrack(*publish).err == "spoolrack: published 3 messages\n"
    assert "published before" in spoolrack("stages", "publish", first).err
    assert len(bodies(client)) == 3
    assert spoolrack("stages", "publish", second, third).code == 2
    assert spoolrack("stages", "publish", second, "gone", "--writer", "w", "--epoch", "1").code == 1
    assert len(bodies(client)) == 3
    aborted = spoolrack("stages", "abort", second, "gone")
    assert aborted.code == 1
    assert aborted.err == "spoolrack: there is no stage gone\nspoolrack: dropped 3 messages\n"
    assert spoolrack("stages", "publish", third, "--writer", "w", "--epoch", "1").code == 0
    assert len(bodies(client)) == 6
    assert spoolrack("stages", "list").code == 0


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_batch_that_is_stopped_sends_nothing(
    start: Start, client: Client, stop: signal.Signals
) -> None:
    client.create_queue("jobs")
    process = start("send", "jobs", "--lines", "--batch")
    assert process.stdin is not None
    process.stdin.write(b"x\n" * 5_000)
    process.stdin.flush()
    until(lambda: bool(list(client.staging.list())))
    process.send_signal(stop)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, 143)
    assert err.decode().endswith("; nothing was sent\n")
    assert bodies(client) == []
    assert list(client.staging.list()) == []


def test_a_batch_of_no_lines_sends_nothing(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("jobs")
    sent = spoolrack("send", "jobs", "--lines", os.devnull, "--batch")
    assert (sent.code, sent.err) == (0, "spoolrack: sent 0 messages to jobs, all at once\n")
    staged = spoolrack("send", "jobs", "--lines", os.devnull, "--batch", "--no-publish")
    assert (staged.code, staged.out) == (0, "")


def test_batches_work_with_no_server(offline: Spoolrack, tmp_path: Path, lines: str) -> None:
    root = ("--root", str(tmp_path / "root"))
    staged = offline(
        *("send", "jobs", "--create", "--lines", lines, "--batch", "--no-publish"), *root
    ).out.strip()
    assert staged in offline("stages", "list", *root).out
    assert offline("peek", "jobs", *root).code == 1
    assert offline("stages", "publish", staged, *root).code == 0
    assert offline("receive", "jobs", "-n9", *root).out == "a\nb\nc\n"
    assert offline("fsck", *root).code == 0


def test_the_server_may_go_away_while_a_batch_is_staged(
    start: Start, server: RunningServer, client: Client
) -> None:
    client.create_queue("jobs")
    process = start("send", "jobs", "--lines", "--batch")
    assert process.stdin is not None
    process.stdin.write(b"x\n" * 3_000)
    process.stdin.flush()
    until(lambda: bool(list(client.staging.list())))
    server.restart()
    process.stdin.write(b"y\n" * 3_000)
    _, err = process.communicate(timeout=60)
    assert err.decode() == "spoolrack: sent 6,000 messages to jobs, all at once\n"
    assert bodies(client) == ["x"] * 3_000 + ["y"] * 3_000


def test_a_group_is_that_of_each_line(spoolrack: Spoolrack, client: Client, lines: str) -> None:
    for batch in ([], ["--batch"]):
        assert spoolrack("send", "jobs", "--create", "--lines", lines, *batch, "--group", "g").code == 0
    assert [message.group for message in client.queue("jobs").peek()] == ["g"] * 6
