"""Lines to a descriptor that takes none are dropped and counted, and callers neither fail nor wait."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

import pytest
from spoolrack_server.system import line_writer
from spoolrack_server.system.line_writer import LAST, MOST_BYTES, LineWriter
from spoolrack_server.system.logs import make_log, say, writer_to

from tests.support import STUCK

SMALL_PIPE = 4096


class Pipe:
    """The write end keeps its number, whatever becomes of the pipe behind it."""

    def __init__(self) -> None:
        self.reading, self.fd = os.pipe()
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, SMALL_PIPE)

    def lose_reader(self) -> None:
        os.close(self.reading)

    def replace(self, fd: int) -> None:
        """Let `fd` take the place of the write end."""
        os.dup2(fd, self.fd)
        os.close(fd)

    def renew(self) -> None:
        self.reading, writing = os.pipe()
        self.replace(writing)

    def read(self) -> str:
        return os.read(self.reading, 65_536).decode()

    def close(self) -> None:
        os.close(self.reading)
        # A writer's thread may still have lines for the number: it must never be another file's.
        self.replace(os.open(os.devnull, os.O_WRONLY))


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    monkeypatch.setattr(line_writer, "LAST", STUCK)
    pipe = Pipe()
    yield pipe
    pipe.close()


def notice(count: int) -> str:
    return f"{count} dropped\n"


def test_a_line_is_written_before_what_comes_after_it(pipe: Pipe) -> None:
    writer = LineWriter(pipe.fd, notice)
    writer.write("one\n")
    writer.finish()
    assert pipe.read() == "one\n"
    assert writer.dropped == 0


def test_the_end_waits_for_no_more_than_the_lines(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_writer, "LAST", 3_600.0)  # It would hang.
    writer = LineWriter(pipe.fd, notice)
    writer.write("one\n")
    writer.finish()
    writer.finish()


def test_lines_without_a_reader_are_dropped_and_told_to_the_next_one(pipe: Pipe) -> None:
    writer = LineWriter(pipe.fd, notice)
    pipe.lose_reader()
    for line in ("one\n", "two\n"):
        writer.write(line)
        writer.finish()
    assert writer.dropped == 2
    pipe.renew()
    writer.write("three\n")
    writer.finish()
    assert pipe.read() == "2 dropped\nthree\n"
    writer.write("four\n")
    writer.finish()
    assert pipe.read() == "four\n"
    assert writer.dropped == 2


def test_lines_to_a_full_disk_are_dropped_and_told_once_there_is_room(pipe: Pipe) -> None:
    pipe.lose_reader()
    pipe.replace(os.open("/dev/full", os.O_WRONLY))
    writer = LineWriter(pipe.fd, notice)
    writer.write("lost\n")
    writer.finish()
    pipe.renew()
    writer.write("kept\n")
    writer.finish()
    assert pipe.read() == "1 dropped\nkept\n"


def test_a_reader_that_has_stopped_delays_no_line_after_the_first(pipe: Pipe) -> None:
    writer = LineWriter(pipe.fd, notice)
    line, count = "x" * 99 + "\n", 3 * MOST_BYTES // 100
    began = time.monotonic()
    for _ in range(count):
        writer.write(line)
        writer.flush()
    # Each would have waited for its patience.
    assert time.monotonic() - began < 100 * LAST
    assert writer.dropped > 0
    read = ""
    while read.count("x\n") + writer.dropped < count:
        read += pipe.read()
    writer.write("last\n")
    while not read.endswith("last\n"):
        read += pipe.read()
    assert read.count("x\n") + writer.dropped == count
    assert sum(map(int, re.findall(r"^(\d+) dropped$", read, re.MULTILINE))) == writer.dropped


def test_a_line_after_half_a_line_begins_on_its_own(pipe: Pipe) -> None:
    os.set_blocking(pipe.fd, False)
    writer = LineWriter(pipe.fd, notice)
    writer.write("y" * 2 * SMALL_PIPE + "\n")
    writer.finish()
    torn = pipe.read()
    assert 0 < len(torn) <= SMALL_PIPE
    writer.write("next\n")
    writer.finish()
    assert pipe.read() == "\n1 dropped\nnext\n"


def test_the_notice_of_a_log_is_a_line_of_its_format(pipe: Pipe) -> None:
    writer = writer_to(pipe.fd, "json")
    log = make_log(format="json", stream=cast(TextIO, writer))
    pipe.lose_reader()
    log.info("lost")
    writer.finish()
    pipe.renew()
    log.info("kept")
    writer.finish()
    told, kept = map(json.loads, pipe.read().splitlines())
    assert (told["event"], told["count"]) == ("log lines that could not be written were dropped", 1)
    assert kept["event"] == "kept"


def test_a_stream_in_the_place_of_standard_error_is_written_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its descriptor may be another file's, once it is closed."""
    with (tmp_path / "log").open("w+") as file:
        monkeypatch.setattr("sys.stderr", file)
        make_log().info("told")
        say("said", "logfmt")
    told, said = (tmp_path / "log").read_text().splitlines()
    assert "event=told" in told
    assert said == "spoolrack: said"
