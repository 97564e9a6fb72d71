"""The commands about whole queues: create, list, show, set, delete, purge, and top."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime

import click
import pytest
from rich.console import Console
from spoolrack import Client, QueueCounts, QueueInfo
from spoolrack.testing import RunningServer
from spoolrack_server.cli.kit.command_clock import system_time
from spoolrack_server.cli.program import spoolrack as program
from spoolrack_server.cli.queues.top_command import _screen, rates_of

from tests.cli.cli_rig import Result, Spoolrack, at_a_terminal, started
from tests.support import STUCK

Start = Callable[..., "subprocess.Popen[bytes]"]


def test_a_queue_is_created_with_the_settings_that_are_named(
    spoolrack: Spoolrack, client: Client
) -> None:
    spoolrack("queues", "create", "dead")
    created = spoolrack(
        *("queues", "create", "jobs", "--visibility-timeout", "5m", "--delivery-delay", "250ms"),
        *("--max-receives", "3", "--dead-letter-queue", "dead", "--retention", "2d"),
        *("--max-messages", "1000", "--max-bytes", "1.5G", "--max-message-size", "64k"),
        *("--lease-durability", "relaxed", "--deduplication-window", "2h"),
    )
    assert (created.code, created.out, created.err) == (0, "", "")
    settings = client.queue("jobs").info().settings
    assert (settings.visibility_timeout, settings.delivery_delay) == (300.0, 0.25)
    assert (settings.max_receives, settings.dead_letter_queue) == (3, "dead")
    assert settings.retention == 172_800.0
    assert (settings.max_messages, settings.max_bytes) == (1000, 3 << 29)
    assert (settings.max_message_size, settings.lease_durability) == (65536, "relaxed")
    assert settings.deduplication_window == 7_200.0


def test_a_queue_can_be_created_twice_alike_and_not_otherwise(spoolrack: Spoolrack) -> None:
    assert spoolrack("queues", "create", "jobs").code == 0
    assert spoolrack("queues", "create", "jobs").code == 0
    refused = spoolrack("queues", "create", "jobs", "--max-messages", "5")
    assert refused.code == 1
    assert "max_messages" in refused.err


def test_set_changes_what_is_named_and_resets_what_is_named(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.create_queue("jobs", visibility_timeout=60, max_messages=5)
    assert spoolrack("queues", "set", "jobs", "--max-messages", "7").code == 0
    assert client.queue("jobs").info().settings.max_messages == 7
    assert client.queue("jobs").info().settings.visibility_timeout == 60
    for name, value in (("visibility_timeout", 30), ("max-messages", 0)):
        assert spoolrack("queues", "set", "jobs", "--reset", name).code == 0
        assert getattr(client.queue("jobs").info().settings, name.replace("-", "_")) == value


def test_labels_are_set_shown_and_removed(spoolrack: Spoolrack, client: Client) -> None:
    assert spoolrack("queues", "create", "jobs", "--label", "team=a", "--label", "url=x=y").code == 0
    assert client.queue("jobs").info().labels == {"team": "a", "url": "x=y"}
    changed = spoolrack("queues", "set", "jobs", "--label", "team=b", "--remove-label", "url")
    assert (changed.code, changed.err) == (0, "")
    assert "  label                 team=b\n" in spoolrack("queues", "show", "jobs").out
    assert json.loads(spoolrack("queues", "show", "jobs", "--json").out)["labels"] == {"team": "b"}


def test_a_change_is_bound_to_a_version(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("jobs")
    assert "  version               1\n" in spoolrack("queues", "show", "jobs").out
    assert spoolrack("queues", "set", "jobs", "--max-messages", "5", "--if-version", "1").code == 0
    late = spoolrack("queues", "set", "jobs", "--max-messages", "6", "--if-version", "1")
    assert (late.code, "has version 2, not 1" in late.err) == (1, True)
    assert spoolrack("queues", "delete", "jobs", "--if-version", "1").code == 1
    assert spoolrack("queues", "delete", "jobs", "--if-version", "2").code == 0


def test_list_shows_the_queues_and_what_is_in_them(spoolrack: Spoolrack, client: Client) -> None:
    assert spoolrack("queues", "list").code == 0
    for name in ("jobs", "jobs.dead", "mail"):
        client.create_queue(name)
    client.queue("jobs").send_many(["one", "two"])
    listed = spoolrack("queues", "list", "jobs")
    header, first, second = listed.out.splitlines()
    assert header.split() == ["QUEUE", "READY", "LEASED", "DELAYED", "BYTES", "OLDEST"]
    assert first.split()[:6] == ["jobs", "2", "0", "0", "6", "B"]
    assert second.split() == ["jobs.dead", "0", "0", "0", "0", "B", "-"]
    as_json = [json.loads(line) for line in spoolrack("queues", "list", "--json").out.splitlines()]
    assert [each["name"] for each in as_json] == ["jobs", "jobs.dead", "mail"]
    assert as_json[0]["counts"]["ready_count"] == 2


def test_show_shows_settings_and_counts(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("jobs", visibility_timeout=90, max_bytes=1 << 20)
    client.queue("jobs").send("x")
    shown = spoolrack("queues", "show", "jobs").out
    lines = {line[:24].strip(): line[24:].strip() for line in shown.splitlines()}
    assert lines["ready"] == "1"
    assert lines["visibility timeout"] == "1m 30s"
    assert lines["max bytes"] == "1.0 MiB"
    assert lines["max messages"] == "no limit"
    assert json.loads(spoolrack("queues", "show", "jobs", "--json").out)["name"] == "jobs"


def test_show_names_the_message_that_blocks_the_queue(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("jobs")
    id = client.queue("jobs").send("poison")
    for _ in range(3):
        client.queue("jobs").receive()[0].release()
    shown = spoolrack("queues", "show", "jobs").out
    assert f"Blocked by message {id}" in shown
    assert f"spoolrack delete jobs {id}" in shown
    assert spoolrack("queues", "list").out.endswith("blocked\n")


def test_delete_and_purge_do_so_and_say_how_many(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("jobs")
    client.queue("jobs").send_many(["one", "two"])
    client.queue("jobs").receive()
    purged = spoolrack("queues", "purge", "jobs")
    assert (purged.code, purged.out) == (0, "")
    assert "deleted 2 messages" in purged.err
    assert spoolrack("queues", "delete", "jobs").code == 0
    assert spoolrack("queues", "delete", "jobs").code == 1


def test_purge_takes_only_messages_of_the_age_and_the_states_that_are_named(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.create_queue("jobs")
    client.queue("jobs").send_many(["one", "two"])
    client.queue("jobs").receive()
    assert "deleted 0 messages" in spoolrack("queues", "purge", "jobs", "--sent-before", "1h").err
    assert "deleted 0 messages" in spoolrack("queues", "purge", "jobs", "-s", "delayed").err
    assert "deleted 1 message " in spoolrack("queues", "purge", "jobs", "--state", "leased").err
    assert "deleted 1 message " in spoolrack("queues", "purge", "jobs", "--sent-before", "now").err


def test_a_question_goes_to_the_terminal_though_the_output_goes_elsewhere(
    server: RunningServer, client: Client
) -> None:
    client.create_queue("jobs")
    screen, terminal = os.openpty()
    command = "queues", "delete", "jobs"
    with started(server.url, *command, stdin=terminal, stderr=terminal) as process:
        os.close(terminal)
        os.write(screen, b"n\n")
        out, _ = process.communicate(timeout=STUCK)
    shown = os.read(screen, 65_536)
    os.close(screen)
    assert (process.returncode, out) == (1, b"")
    assert b"jobs" in shown
    assert b"nothing was deleted" in shown
    assert [info.name for info in client.list_queues()] == ["jobs"]


@pytest.mark.parametrize(("typed", "code", "left"), [(b"n\n", 1, 1), (b"y\n", 0, 0)])
def test_at_a_terminal_a_delete_asks_first(
    server: RunningServer, client: Client, typed: bytes, code: int, left: int
) -> None:
    client.create_queue("jobs")
    client.queue("jobs").send("x")
    ended, seen = at_a_terminal(server.url, "queues", "delete", "jobs", typed=typed)
    assert b"Delete the queue jobs, with 1 message in it?" in seen
    assert ended == code
    assert len(list(client.list_queues())) == left


def test_top_redraws_until_ctrl_c(server: RunningServer, client: Client) -> None:
    client.create_queue("jobs")
    client.queue("jobs").send("x")
    code, seen = at_a_terminal(server.url, "top", "--interval", "100ms", until=b"CHANGE/S")
    assert code == 0
    assert b"jobs" in seen
    assert b"1 queue, 1 message" in seen
    assert b"Traceback" not in seen


def test_top_sorts_by_what_is_asked_for_and_by_the_key_that_is_pressed(
    server: RunningServer, client: Client, spoolrack: Spoolrack
) -> None:
    for name, count in (("a", 1), ("b", 3), ("c", 2)):
        client.create_queue(name)
        client.queue(name).send_many(["x"] * count)
    for sort, order in (("backlog", "bca"), ("name", "abc"), ("age", "abc")):
        lines = spoolrack("top", "--once", "--sort", sort).out.splitlines()[1:]
        assert "".join(line[0] for line in lines) == order
        told = spoolrack("top", "--json", "--sort", sort).out.splitlines()
        assert "".join(json.loads(line)["name"] for line in told) == order
    _, seen = at_a_terminal(server.url, "top", typed=b"n", until=b"by name")
    assert b"by backlog" in seen
    code, _ = at_a_terminal(server.url, "top", typed=b"q")
    assert code == 0


def test_top_shows_what_fits_and_how_many_more_there_are(client: Client) -> None:
    for number in range(30):
        client.create_queue(f"q{number:02}")
    queues = list(client.list_queues())
    screen = io.StringIO()
    with click.Context(program, obj=system_time):
        Console(width=120, file=screen).print(_screen(queues, {}, "url", "", "name", 24))
    lines = screen.getvalue().splitlines()
    assert len(lines) == 24
    assert "30 queues" in lines[0]
    assert lines[-1].startswith("9 more; by name")
    assert "q20" in lines[-2]


def test_what_is_typed_at_a_terminal_has_no_progress_bar_drawn_through_it(
    server: RunningServer, client: Client
) -> None:
    client.create_queue("jobs")
    for arguments in (["send", "jobs"], ["send", "jobs", "--lines"]):
        code, seen = at_a_terminal(server.url, *arguments, typed=b"one\n\x04")
        assert code == 0
        assert b"reading" in seen
        assert b"Sending to" not in seen
    assert [message.body for message in client.queue("jobs").peek()] == [b"one\n", b"one"]


def test_an_empty_result_is_said_at_a_terminal_and_nowhere_else(
    server: RunningServer, client: Client, spoolrack: Spoolrack
) -> None:
    client.create_queue("jobs")
    for arguments in (["peek", "jobs"], ["peek", "jobs", "--raw"]):
        assert spoolrack(*arguments) == Result(code=1, out="", err="")
        code, seen = at_a_terminal(server.url, *arguments)
        assert (code, b"jobs has no such message" in seen) == (1, True)
    for arguments in (["receive", "jobs"], ["receive", "jobs", "--exec", "cat"]):
        assert spoolrack(*arguments) == Result(code=1, out="", err="")
        code, seen = at_a_terminal(server.url, *arguments)
        assert (code, seen) == (1, b"spoolrack: no message came\r\n")
    assert spoolrack("stages", "list") == Result(code=0, out="", err="")
    assert at_a_terminal(server.url, "stages", "list") == (0, b"spoolrack: nothing to list\r\n")


def test_a_progress_bar_is_shown_at_a_terminal_only(
    server: RunningServer, client: Client, tmp_path: object
) -> None:
    client.create_queue("jobs")
    path = f"{tmp_path}/lines"
    with open(path, "w") as file:
        file.write("line\n" * 2_000)
    code, seen = at_a_terminal(server.url, "send", "jobs", "--lines", path)
    assert code == 0
    assert b"Sending to jobs" in seen
    assert b"sent 2,000 messages to jobs" in seen


def test_top_prints_one_table_without_a_terminal(spoolrack: Spoolrack, client: Client) -> None:
    assert spoolrack("top", "--once").code == 0
    client.create_queue("jobs")
    for arguments in (["top"], ["top", "--once"]):
        shown = spoolrack(*arguments)
        assert (shown.code, len(shown.out.splitlines())) == (0, 2)


def test_rates_are_of_all_states_together() -> None:
    def info(name: str, ready: int, leased: int) -> QueueInfo:
        counts = QueueCounts(ready_count=ready, leased_count=leased)
        return QueueInfo(name=name, counts=counts, created_at=datetime.now(UTC), version=1)

    before = [info("a", 10, 0), info("gone", 1, 0)]
    after = [info("a", 5, 15), info("new", 1, 0)]
    assert rates_of(before, after, 2.0) == {"a": 5.0}
    assert rates_of(before, after, 0.0) == {}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [(["send", "jobs"], "the message"), (["send", "jobs", "--lines"], "a message for each line")],
)
def test_a_command_that_reads_a_terminal_says_so_and_how_to_end_it(
    server: RunningServer, client: Client, arguments: list[str], what: str
) -> None:
    client.create_queue("jobs")
    code, seen = at_a_terminal(server.url, *arguments, typed=b"hello\n\x04")
    assert code == 0
    assert f"reading {what} from the terminal: Ctrl-D on a line of its own ends it".encode() in seen
    assert client.queue("jobs").info().counts.ready_count == 1


def test_at_a_narrow_terminal_top_cuts_names_and_no_numbers(client: Client) -> None:
    name = "a-queue-with-a-very-long-name-indeed"
    client.create_queue(name)
    client.queue(name).send_many(["x" * 100] * 1_000)
    console = Console(width=64, file=io.StringIO(), force_terminal=False)
    with click.Context(program, obj=system_time):
        console.print(_screen(list(client.list_queues()), {name: 12_345.0}, "url", "", "name", 24))
    assert isinstance(console.file, io.StringIO)
    (line,) = [line for line in console.file.getvalue().splitlines() if line.startswith(" a-")]
    shown, *numbers = line.split()
    assert shown.endswith("…")
    assert numbers[:6] == ["1,000", "0", "0", "+12,345", "97.7", "KiB"]


def test_a_queue_is_paused_and_resumed_in_both_directions_or_in_one(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.create_queue("jobs")
    assert spoolrack("queues", "pause", "jobs").code == 0
    refused = spoolrack("send", "jobs", "no")
    assert refused.code != 0
    assert "set the queue's sending to open" in refused.err
    assert "spoolrack queues resume jobs --sending" in refused.err
    assert "sending paused, receiving paused" in spoolrack("queues", "list").out
    assert spoolrack("queues", "resume", "jobs", "--sending").code == 0
    assert spoolrack("send", "jobs", "kept").code == 0
    assert client.queue("jobs").receive(1) == []
    assert spoolrack("queues", "resume", "jobs").code == 0
    assert [message.text for message in client.queue("jobs").receive(1)] == ["kept"]


def test_a_description_names_each_cause_that_a_queue_stands_still(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.create_queue("jobs", max_messages=2)
    jobs = client.queue("jobs")
    assert "Nothing keeps messages from going in or out." in spoolrack("queues", "describe", "jobs").out
    first = jobs.send("leased")
    jobs.send("delayed", delay=3_600)
    jobs.receive(1)
    client.update_queue("jobs", receiving="paused")
    told = spoolrack("queues", "describe", "jobs").out
    assert "It is full, with 2 of 2 messages." in told
    assert "Receiving is paused. spoolrack queues resume jobs --receiving" in told
    assert "No message is ready: 1 leased, 1 delayed." in told
    assert "Sending is paused" not in told
    (row,) = [line for line in told.splitlines() if first in line]
    before, _, consumer = row.partition("127.0.0.1:")
    assert before.split()[-1] == "1"
    assert f"; pid {os.getpid()})" in consumer


def test_a_description_names_the_stream_whose_reservation_holds_messages(
    spoolrack: Spoolrack, client: Client
) -> None:
    client.create_queue("jobs", group_order="strict")
    client.queue("jobs").send("held")
    client.queue("jobs").reserve("nightly", 0)
    told = spoolrack("queues", "describe", "jobs").out
    assert "stream nightly" in told.splitlines()[-1]
    assert "The reservation 0 of the stream nightly holds 1 message." in told
    shown = json.loads(spoolrack("queues", "show", "jobs", "--json").out)
    assert [each["reason"] for each in shown["obstacles"]] == ["NOTHING_READY", "RESERVED"]
    (lease,) = shown["oldest_leases"]
    assert (lease["stream"], lease["consumer"], lease["receive_time"]) == ("nightly", "", None)


def test_why_tells_in_a_line_what_holds_a_queue_back(spoolrack: Spoolrack, client: Client) -> None:
    def why() -> str:
        return spoolrack("queues", "why", "jobs").out.strip()

    client.create_queue("jobs", max_leased=1)
    jobs = client.queue("jobs")
    assert why() == "It has no message."
    jobs.send_many(["a", "b"])
    assert why() == "Nothing holds them back: the next receive gets one of 2 ready."
    jobs.receive(1)
    assert why() == "1 of 1 leased, 1 wait."
    client.update_queue("jobs", receiving="paused", sending="paused")
    assert why() == "Receiving is paused; 1 of 1 leased, 1 wait."


def test_why_tells_in_a_line_what_holds_a_message_back(spoolrack: Spoolrack, client: Client) -> None:
    def why(id: str) -> str:
        return spoolrack("queues", "why", "jobs", id).out.strip()

    client.create_queue("dead")
    client.create_queue("jobs", group_max_leased=1, max_receives=5, dead_letter_queue="dead")
    jobs = client.queue("jobs")
    first, second, other = (jobs.send("x", group=group) for group in "aab")
    delayed = jobs.send("x", delay=3_600)
    assert why(first) == "Nothing: it is ready, one of 3 messages."
    assert why(delayed).startswith("It is delayed until ")
    held = {message.id: message for message in jobs.receive(2)}
    assert why(first).startswith("It is leased by 127.0.0.1:")
    assert why(first).endswith(", received once.")
    assert why(second) == "It is ready, but group a: 1 of 1 leased, 1 wait."
    held[first].reject("bad")
    assert why(first).startswith("It is a dead letter in dead, since ")
    held[other].delete()
    gone = f"There is no message {other} in jobs: it was deleted, has expired, or was never sent."
    assert why(other) == gone
    client.update_queue("jobs", receiving="paused")
    assert why(second) == "It is ready, but receiving is paused."
