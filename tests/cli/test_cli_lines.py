"""`send --lines`: every line arrives once and in order, and an interrupted command says how to
continue."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest
from spoolrack import Client, Outgoing
from spoolrack._values import MAX_BODY_IN_MEMORY
from spoolrack.errors import QueueFull, Unreachable
from spoolrack.testing import RunningServer
from spoolrack_server.cli.kit.connection_options import _FEW
from spoolrack_server.cli.messages.line_reader import Lines
from spoolrack_server.cli.messages.line_sender import LineSender, Ranges

from tests.cli.cli_rig import Spoolrack
from tests.support import STUCK
from tests.support.serving import PROGRAM
from tests.support.waiting import until

Start = Callable[..., "subprocess.Popen[bytes]"]
MANY = 3_500


@pytest.fixture(autouse=True)
def queue(client: Client) -> None:
    client.create_queue("jobs")


def bodies(client: Client) -> list[bytes]:
    return [message.body for message in client.queue("jobs").peek()]


def ready(client: Client) -> int:
    return client.queue("jobs").info().counts.ready_count


@pytest.mark.parametrize("end", ["", "\n"], ids=["no line feed at the end", "line feed at the end"])
def test_every_line_is_a_message_and_their_order_is_kept(
    spoolrack: Spoolrack, client: Client, tmp_path: Path, end: str
) -> None:
    lines = [f"line {number}" for number in range(MANY)]
    (tmp_path / "lines").write_text("\n".join(lines) + end)
    sent = spoolrack("send", "jobs", "--lines", str(tmp_path / "lines"))
    assert (sent.code, sent.out) == (0, "")
    assert sent.err == "spoolrack: sent 3,500 messages to jobs\n"
    assert [body.decode() for body in bodies(client)] == lines


def test_received_lines_equal_the_sent_ones(spoolrack: Spoolrack, start: Start, tmp_path: Path) -> None:
    content = b"a\r\n\n\xff\x00\n" + b"x" * 300_000 + b"\n \n"
    (tmp_path / "lines").write_bytes(content)
    spoolrack("send", "jobs", "--lines", str(tmp_path / "lines"))
    received, _ = start("receive", "jobs", "--max", "0", "--delete").communicate()
    assert received == content


def test_several_calls_at_a_time_lose_nothing(
    spoolrack: Spoolrack, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = threading.Barrier(4)
    send = LineSender._send

    def send_beside_others(sender: LineSender, first: int, lines: list[bytes]) -> int:
        calls.wait(STUCK)
        return send(sender, first, lines)

    monkeypatch.setattr(LineSender, "_send", send_beside_others)
    (tmp_path / "lines").write_text("".join(f"{number}\n" for number in range(MANY)))
    arguments = ["--lines", str(tmp_path / "lines"), "--in-flight", "4", "--quiet"]
    assert spoolrack("send", "jobs", *arguments).err == ""
    assert sorted(map(int, bodies(client))) == list(range(MANY))


def test_a_line_that_cannot_be_sent_is_named_and_the_others_are_sent(
    spoolrack: Spoolrack, client: Client, tmp_path: Path
) -> None:
    client.update_queue("jobs", max_message_size=10)
    (tmp_path / "lines").write_text("one\n" + "x" * 11 + "\nthree\n")
    sent = spoolrack("send", "jobs", "--lines", str(tmp_path / "lines"))
    assert sent.code == 65
    assert sent.err.startswith("spoolrack: line 2 is not sent: The body has 11 bytes")
    assert bodies(client) == [b"one", b"three"]


def test_progress_counts_the_acknowledged_lines_and_all_bytes(client: Client, tmp_path: Path) -> None:
    queue = client.create_queue("small", max_message_size=3)
    (tmp_path / "lines").write_text("one\nseven\ntwo\n")
    steps: list[tuple[int, int]] = []
    sender = LineSender(
        queue,
        Outgoing(body=b""),
        in_flight=1,
        retry_timeout=1,
        advance=lambda *step: steps.append(step),
    )
    with (tmp_path / "lines").open("rb") as file:
        sender.send(Lines(file.fileno()))
    assert steps == [(2, 14)]


def test_lines_are_sent_as_they_come(start: Start, client: Client) -> None:
    process = start("send", "jobs", "--lines")
    assert process.stdin is not None
    for number in range(1, 4):
        process.stdin.write(b"line\n")
        process.stdin.flush()
        until(lambda number=number: ready(client) == number)  # type: ignore[misc]
    process.stdin.close()
    assert process.wait() == 0


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "stopped")]
)
def test_a_stopped_send_reports_where_to_resume(
    start: Start, client: Client, number: signal.Signals, code: int, word: str
) -> None:
    process = start("send", "jobs", "--lines")
    assert process.stdin is not None
    process.stdin.write(b"1\n2\n3\nunfinished")
    process.stdin.flush()
    until(lambda: ready(client) == 3)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (code, b"")
    assert err.decode() == f"spoolrack: {word}; 3 messages acknowledged; go on with line 4\n"


def test_a_send_that_loses_the_server_reports_where_to_resume(
    start: Start, client: Client, server: RunningServer
) -> None:
    process = start("send", "jobs", "--lines", "--timeout", "3s")
    assert process.stdin is not None
    process.stdin.write(b"1\n2\n")
    process.stdin.flush()
    until(lambda: ready(client) == 2)
    server.stop()
    process.stdin.write(b"3\n")
    _, err = process.communicate()
    assert process.returncode == 69
    assert err.decode().endswith("; 2 messages acknowledged; go on with line 3\n")


def test_a_full_queue_is_waited_for(start: Start, client: Client, tmp_path: Path) -> None:
    client.update_queue("jobs", max_messages=10)
    (tmp_path / "lines").write_text("".join(f"{number}\n" for number in range(25)))
    process = start("send", "jobs", "--lines", str(tmp_path / "lines"))
    received: list[int] = []

    def take() -> bool:
        for message in client.queue("jobs").receive(10):
            received.append(int(message.body))
            message.delete()
        return len(received) >= 25

    until(take)
    assert process.wait() == 0
    assert received == list(range(25))


def test_a_queue_that_stays_full_ends_a_lone_send_with_75(spoolrack: Spoolrack, client: Client) -> None:
    client.update_queue("jobs", max_messages=1)
    client.queue("jobs").send("first")
    refused = spoolrack("send", "jobs", "second", "--timeout", "0.9s")
    assert (refused.code, "is full, with 1 of 1 messages" in refused.err) == (75, True)


def test_a_command_is_patient_with_a_full_queue_and_not_with_a_missing_server() -> None:
    pause = partial(_FEW.pause, left=60.0, random=Random(0))
    assert pause(Unreachable("there is no server", retry_delay=timedelta(0)), failed=4) is None
    waited = pause(QueueFull("it is full", retry_delay=timedelta(seconds=1)), failed=100)
    assert waited is not None
    assert 1.0 <= waited <= 1.1
    assert pause(QueueFull("it is full", retry_delay=timedelta(seconds=60)), failed=1) is None


@pytest.mark.parametrize(
    ("lines", "limits", "in_flight", "says"),
    [
        (2_500, {"max_messages": 1_500}, 1, "1,500 messages acknowledged; go on with: tail -n +1501 "),
        # Line 4 is too large for what is left, and those after it are not.
        (
            9,
            {"max_bytes": 3_400},
            1,
            "; lines 4 and all from 10 on are not; go on with: sed -n '4,4p;10,$p' -- ",
        ),
        (3_500, {"max_messages": 1_700}, 4, "1,700 messages acknowledged; "),
    ],
)
def test_a_full_queue_that_stays_full_tells_which_lines_are_not_stored(
    spoolrack: Spoolrack,
    client: Client,
    server: RunningServer,
    tmp_path: Path,
    lines: int,
    limits: dict[str, int],
    in_flight: int,
    says: str,
) -> None:
    client.update_queue("jobs", **limits)
    sizes = dict.fromkeys((1, 2, 3), 1_000) | {4: 500}
    wanted = [str(number).zfill(sizes.get(number, 2)) for number in range(1, lines + 1)]
    path = tmp_path / "some lines"
    path.write_text("\n".join(wanted))
    sent = spoolrack(
        *("send", "jobs", "--lines", str(path), "-a", "colour=dark red"),
        *("--timeout", "3s", "--in-flight", str(in_flight)),
    )
    assert sent.code == 75
    assert "is full" in sent.err
    assert says in sent.err
    client.update_queue("jobs", **dict.fromkeys(limits, 0))
    advice = sent.err.partition("go on with: ")[2]
    program = f'spoolrack() {{ {shlex.join(PROGRAM)} "$@" --url {server.url}; }}'
    subprocess.run(["bash", "-c", f"{program}; {advice}"], check=True, timeout=60)
    assert sorted(body.decode() for body in bodies(client)) == sorted(wanted)
    assert {message.attributes["colour"] for message in client.queue("jobs").peek()} == {"dark red"}


def test_the_command_that_goes_on_has_the_time_that_was_given(
    spoolrack: Spoolrack, client: Client, tmp_path: Path
) -> None:
    client.update_queue("jobs", max_messages=1)
    path = tmp_path / "lines"
    path.write_text("1\n2\n")
    moment = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    sent = spoolrack(
        *("send", "jobs", "--lines", str(path), "--deliver-at", moment.isoformat()),
        *("--timeout", "1s"),
    )
    words = shlex.split(sent.err.partition(" | ")[2])
    (again,) = [word for word in words if word.startswith("--deliver-at=")]
    assert datetime.fromisoformat(again.partition("=")[2]) == moment


def test_the_lines_that_are_not_done_are_told_whatever_order_the_others_are_done_in() -> None:
    random = Random(7)
    for _ in range(200):
        done = Ranges()
        left = list(range(1, 40))
        random.shuffle(left)
        while len(left) > 5:
            some, left = sorted(left[:4]), left[4:]
            done.add(some)
            told = done.missing()
            missing = [n for first, last in told for n in range(first, (last or 39) + 1)]
            assert missing == sorted(left)
            assert told[-1][1] is None


def test_a_line_that_no_message_has_room_for_is_refused_and_the_others_are_sent(
    spoolrack: Spoolrack, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    with path.open("wb") as file:
        file.write(b"one\n")
        file.write(b"x" * (MAX_BODY_IN_MEMORY + 1) + b"\nthree\n")
        file.write(b"y" * (MAX_BODY_IN_MEMORY + 300_000))
    sent = spoolrack("send", "jobs", "--lines", str(path))
    assert sent.code == 65
    assert sent.err.splitlines() == [
        "spoolrack: line 2 is not sent: it has more than 64 MiB, and no line may: send it with --file",
        "spoolrack: line 4 is not sent: it has more than 64 MiB, and no line may: send it with --file",
        "spoolrack: sent 2 messages to jobs",
    ]
    assert bodies(client) == [b"one", b"three"]
    batch = spoolrack("send", "jobs", "--lines", str(path), "--batch")
    assert batch.code == 65
    assert batch.err == (
        "spoolrack: line 2: it has more than 64 MiB, and no line may: send it with --file; "
        "nothing was sent\n"
    )


def test_nothing_is_kept_of_a_line_that_is_too_long() -> None:
    reader, writer = os.pipe()
    held: list[int] = []

    def write() -> None:
        for _ in range(MAX_BODY_IN_MEMORY * 3 // 2**20):
            os.write(writer, bytes(2**20))
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    tracemalloc.start()
    try:
        (chunk,) = Lines(reader).chunks()
        held.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
        thread.join()
        os.close(reader)
    assert (chunk.first, chunk.is_too_long, chunk.lines) == (1, True, [])
    assert held[0] < MAX_BODY_IN_MEMORY * 1.1
