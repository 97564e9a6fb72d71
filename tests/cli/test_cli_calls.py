"""Every option and argument of every command, given values that no user should give.

The calls come from click's own tree of commands: a new option is tried without a line here. None of
them may end as a mistake of the program, or with a traceback; and the error
names the option.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click
import pytest
from spoolrack import Client, StageInfo
from spoolrack.testing import RunningServer, running_server
from spoolrack_server.cli.kit.units import quoted
from spoolrack_server.cli.program import run, spoolrack

from tests.cli.cli_rig import commands, files_under

NOT_UTF8: Final = "a\udcffb"
"""Python's text for a byte that is not UTF-8."""
HOSTILE: Final = (
    "",
    " ",
    "0",
    "-1",
    "1.5",
    "99999999999",
    "99999999999999999999",
    "99999999999999999999d",
    "9" * 400,
    "9" * 5_000,
    "nan",
    "inf",
    "1e400",
    "0x10",
    NOT_UTF8,
    "a\nb",
    "x" * 300,
    "../..",
    "~",
    "a=" + NOT_UTF8,
    "٣",
    "💣",
)
ABSENT: Final = "01890000-0000-7000-8000-000000000000"
USAGE: Final = 2
MISTAKE: Final = 70

ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "bench": ("--seconds", "0.1"),
    "delete": ("jobs", ABSENT),
    "export": ("jobs",),
    "import": ("{absent}",),
    "mover": ("--source", "{absent}/new", "--destination", "{absent}/queues"),
    "peek": ("jobs",),
    "queues apply": ("{absent}",),
    "queues create": ("other",),
    "queues delete": ("other",),
    "queues describe": ("jobs",),
    "queues pause": ("other",),
    "queues purge": ("other",),
    "queues resume": ("other",),
    "queues set": ("jobs", "--max-messages", "0"),
    "queues show": ("jobs",),
    "queues why": ("jobs",),
    "reaper": ("--source", "{absent}/remove"),
    "receive": ("jobs",),
    "redrive": ("jobs",),
    "redrives cancel": (ABSENT,),
    "reject": ("jobs", "a~b"),
    "release": ("jobs", "a~b"),
    "replay": ("jobs", "--archive", "{absent}"),
    "reservations release": ("s", "1"),
    "reservations show": ("s", "1"),
    "schedules create": ("jobs", "nightly", "0 3 * * *"),
    "schedules delete": ("jobs", "nightly"),
    "schedules pause": ("jobs", "nightly"),
    "schedules resume": ("jobs", "nightly"),
    "schedules update": ("jobs", "nightly"),
    "send": ("jobs", "body"),
    "shard": ("jobs", "--shards", "3"),
    "size": ("--rate", "1"),
    # Neither a folder nor an address that this user may serve: it ends in any case.
    "serve": ("--root", "{file}", "--grpc", "192.0.2.1:1", "--http", "off"),
    "stages abort": ("gone",),
    "stages publish": ("gone",),
    "tokens new": ("me",),
    "tokens sqs-key": ("me", "--keys", "{absent}"),
}
"""Arguments with which a command runs and ends, with one more option or another argument."""
WITH: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("send", "writer"): ("--epoch", "1"),
    ("send", "epoch"): ("--writer", "w"),
    ("stages publish", "writer"): ("--epoch", "1"),
    ("stages publish", "epoch"): ("--writer", "w"),
    ("fsck", "queue"): ("--restore", ABSENT),
}
"""Options that an option needs."""
INSTEAD: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("send", "writer"): ("jobs", "--batch", "--lines", "{lines}"),
    ("send", "epoch"): ("jobs", "--batch", "--lines", "{lines}"),
    ("send", "file"): ("jobs",),
    ("send", "lines"): ("jobs",),
    ("send", "in_flight"): ("jobs", "--lines", "{lines}"),
}
"""Arguments of a command with this option, instead of ARGUMENTS."""


MAKES_STAGES: Final = {"send", "stages publish", "stages abort"}


class Call(NamedTuple):
    command: str
    parameter: click.Parameter

    def __str__(self) -> str:
        return f"{self.command} {self.parameter.human_readable_name}"


COMMANDS: Final = {" ".join(path): command for path, command in commands(spoolrack)}


def calls() -> Iterator[Call]:
    """Yield a case for each parameter with a value. Shared parameters are tried with the first command
    alone."""
    shared: set[object] = set()
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
                continue
            if parameter.envvar is not None:
                key = (*parameter.opts, str(parameter.envvar), type(parameter.type))
                if key in shared:
                    continue
                shared.add(key)
            yield Call(name, parameter)


CALLS: Final = list(calls())


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with server.client() as client:
        client.create_queue("jobs")
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "lines").write_text("a line\n")
    return tmp_path


@pytest.fixture(autouse=True)
def aside(
    server: RunningServer, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Against the server, in a folder of its own, with nothing on standard input."""
    here = folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("SPOOLRACK_URL", server.url)
    monkeypatch.setenv("SPOOLRACK_TIMEOUT", "3s")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    # `serve` takes the log over, for a standard error that ends with this test.
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def arguments(call: Call, value: str, folder: Path) -> list[str]:
    """Return the command's line with `value` for the parameter."""
    key = call.command, call.parameter.name or ""
    needed = [*INSTEAD.get(key, ARGUMENTS.get(call.command, ())), *WITH.get(key, ())]
    words = [
        word.format(absent=folder / "absent", file=folder / "file", lines=folder / "lines")
        for word in needed
    ]
    if isinstance(call.parameter, click.Option):
        option = max(call.parameter.opts, key=len)
        # The last one counts, where a command needs it as well.
        return [*call.command.split(), *words, f"{option}={value}"]
    at = [each for each in COMMANDS[call.command].params if isinstance(each, click.Argument)]
    index = at.index(call.parameter)
    named, options = words[: len(at)], words[len(at) :]
    return [*call.command.split(), *options, *named[:index], "--", value, *named[index + 1 :]]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_value_that_cannot_be_is_refused_by_the_name_of_its_option(
    call: Call, folder: Path, client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    names = names_of(call)

    def state() -> tuple[list[StageInfo], dict[str, bytes | None]]:
        stages = list(client.staging.list()) if call.command in MAKES_STAGES else []
        return stages, files_under(Path())

    before = state()
    for value in HOSTILE:
        line = arguments(call, value, folder)
        capfd.readouterr()
        code = run(line)
        err = capfd.readouterr().err
        assert code != MISTAKE, (line, err)
        assert "Traceback" not in err, (line, err)
        if code == USAGE:
            assert any(name in err for name in names) or quoted(value)[:30] in err, (line, err)
            assert state() == before, (line, err)
        else:
            before = state()


def names_of(call: Call) -> set[str]:
    """Return the words by which an error may name the parameter."""
    name = call.parameter.name or ""
    hint = call.parameter.get_error_hint(click.Context(COMMANDS[call.command]))
    return {*call.parameter.opts, name, name.removesuffix("s"), hint}
