"""Common to all commands: exit codes, errors in one line, options, and the environment."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_server.cli.program import spoolrack as program
from spoolrack_server.cli.units import Address, Size, Span, size_text, span_text

from tests.cli.cli_rig import Spoolrack
from tests.support.serving import ANY_PORTS, output_of, serving


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(commands(program))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_names_its_environment_variable(offline: Spoolrack, path: tuple[str, ...]) -> None:
    told = offline(*path, "--help")
    assert told.code == 0
    text = re.sub(r"\s+", " ", told.out.partition("Options:")[2])
    options = [option for option in re.findall(r" (--[a-z-]+)", text) if option != "--help"]
    flags = {option for option in options if f"{option} " in text}
    for flag in flags:
        assert re.search(rf"SPOOLRACK_([A-Z]+_)*{flag[2:].replace('-', '_').upper()}\b", text), flag


def test_an_option_can_come_from_the_environment(
    spoolrack: Spoolrack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOOLRACK_SEND_CREATE", "1")
    monkeypatch.setenv("SPOOLRACK_RECEIVE_DELETE", "yes")
    monkeypatch.setenv("SPOOLRACK_RECEIVE_MAX", "0")
    assert spoolrack("send", "jobs", "x").code == 0
    assert spoolrack("receive", "jobs").out == "x\n"
    assert spoolrack("receive", "jobs").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["send", "jobs", "x"],
        ["send", "jobs", "--lines", os.devnull],
        ["receive", "jobs"],
        ["receive", "jobs", "--follow"],
        ["delete", "jobs", "01890000-0000-7000-8000-000000000000"],
        ["peek", "jobs"],
        ["queues", "list"],
        ["top", "--once"],
    ],
    ids=" ".join,
)
def test_a_server_that_is_not_there_is_told_in_one_line(
    offline: Spoolrack, arguments: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = offline(*arguments, "--url", f"127.0.0.1:{port}")
    assert (result.code, result.out) == (69, "")
    assert result.err.startswith(f"spoolrack: No answer from 127.0.0.1:{port}")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["send", "absent", "x"], 1, "no queue absent"),
        (["receive", "absent"], 1, "no queue absent"),
        (["peek", "absent"], 1, "no queue absent"),
        (["queues", "show", "absent"], 1, "no queue absent"),
        (["queues", "create", "no/name"], 2, "can't be a queue's name"),
        (["queues", "create", "q", "--max-receives", "3"], 2, "max_receives"),
        (["send", "q", "--file", "/no/such/file"], 66, "/no/such/file: No such file"),
        (["send", "q", "--file", "/"], 66, "/: Is a directory"),
        (["send", "q", "x", "--url", "http://x"], 2, "http://"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_error_is_one_line_on_standard_error(
    spoolrack: Spoolrack, arguments: list[str], code: int, words: str
) -> None:
    result = spoolrack(*arguments)
    assert (result.code, result.out) == (code, "")
    (line,) = result.err.splitlines()
    assert line.startswith("spoolrack: ")
    assert words in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["send"],
        ["send", "q", "x", "--file", "y"],
        ["send", "q", "x", "--attribute", "no-value"],
        ["send", "q", "x", "--delay", "soon"],
        ["receive", "q", "--follow", "--wait", "3"],
        ["receive", "q", "--exec", "true", "--delete"],
        ["receive", "q", "--max", "-1"],
        ["peek", "q", "--raw", "--json"],
        ["queues", "set", "q"],
        ["queues", "create", "q", "--max-bytes", "much"],
        ["serve", "--grpc", "nowhere"],
        ["fsck", "--queue", "q"],
        ["fsck", ""],
        ["queues", "list", "--root", ""],
        ["serve", "--root", ""],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    offline: Spoolrack, arguments: list[str]
) -> None:
    result = offline(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Error: " in result.err
    assert "Traceback" not in result.err


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['click'] = None; from spoolrack_server.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 69
    (line,) = ended.stderr.splitlines()
    assert line.startswith("spoolrack: click is missing")
    assert "pip install '.[server]'" in line


def test_the_version_is_told(offline: Spoolrack) -> None:
    assert re.fullmatch(r"spoolrack, version \d+\.\d+\.\d+\S*\n", offline("--version").out)


# serve


def test_serve_says_what_it_serves_where_and_what_to_type_next(tmp_path: Path) -> None:
    with serving("--data", tmp_path / "root", *ANY_PORTS) as server:
        assert server.said[0] == f"Spoolrack serves the queues in {tmp_path}/root"
        assert server.said[1].startswith("gRPC  127.0.0.1:")
        assert server.said[2].startswith("HTTP  http://127.0.0.1:")
        typed = re.sub(r"python[0-9.]*(?= -m)", sys.executable, server.said[4])
        assert output_of("sh", "-c", typed).splitlines()[1] == "Hello, world"


# units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("250ms", 0.25),
        ("1.5h", 5400),
    ],
)
def test_spans_of_time_have_units(text: str, seconds: float) -> None:
    assert Span().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1w", "1h30m", "1e3", "nan", "٣s"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Span().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64k", 65536), ("64KiB", 65536), ("10M", 10 << 20), ("2GB", 2 << 30)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:50051", ("::1", 50051)),
        (":80", ("0.0.0.0", 80)),
        ("host.example:1", ("host.example", 1)),
    ],
)
def test_addresses_have_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert Address().convert(text, None, None) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:99999", "::1:80", "a b:1", "x:y"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Address().convert(text, None, None)


@given(st.floats(0, 1e9))
def test_every_span_has_a_short_text(seconds: float) -> None:
    assert 2 <= len(span_text(seconds)) <= 12


@given(st.integers(0, 1 << 60))
def test_every_size_has_a_short_text(size: int) -> None:
    assert len(size_text(size)) <= 14
