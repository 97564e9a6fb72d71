"""A message does nothing to the terminal that shows it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import spoolrack_server.cli
from spoolrack import Client
from spoolrack.testing import RunningServer

from tests.cli.cli_rig import Spoolrack, at_a_terminal, started

RAW = "\x1b[2J\x9b31m\u202e\x7f"
BODY = f"one\n\ttwo {RAW} Größe".encode()


@pytest.fixture
def sent(client: Client) -> str:
    """The id of a message that means a terminal harm."""
    client.create_queue("q")
    return client.queue("q").send(BODY, attributes={f"name{RAW}": RAW})


def at_terminal(server: RunningServer, *arguments: str) -> str:
    """Return the output of a command that succeeds at a terminal."""
    code, seen = at_a_terminal(server.url, *arguments)
    assert code == 0, seen
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    "command",
    [("receive", "q"), ("peek", "q"), ("peek", "q", "--raw"), ("peek", "q", "--json")],
    ids=" ".join,
)
def test_a_message_at_a_terminal_is_text_alone(
    sent: str, server: RunningServer, command: tuple[str, ...]
) -> None:
    seen = at_terminal(server, *command)
    assert "Größe" in seen
    assert all(line.isprintable() for line in seen.replace("\t", "").split("\n"))


def test_a_body_at_a_terminal_keeps_its_lines(sent: str, server: RunningServer) -> None:
    seen = at_terminal(server, "receive", "q").expandtabs()
    assert seen.split("\n") == ["one", "        two \\x1b[2J\\x9b31m\\u202e\\x7f Größe", ""]


def test_a_body_anywhere_else_is_as_it_was_sent(sent: str, server: RunningServer) -> None:
    with started(server.url, "receive", "q") as process:
        assert process.communicate()[0] == BODY


def test_json_holds_the_same_and_shows_nothing_raw(sent: str, spoolrack: Spoolrack) -> None:
    line = spoolrack("peek", "q", "--json").out
    assert line.rstrip("\n").isprintable()
    message = json.loads(line)
    assert message["body"].encode() == BODY
    assert message["attributes"] == {f"name{RAW}": RAW}


def test_an_error_that_quotes_what_was_asked_for_is_text_alone(spoolrack: Spoolrack) -> None:
    for arguments in (
        ("peek", f"q{RAW}"),
        ("queues", "show", f"q{RAW}"),
        ("delete", "q", f"x{RAW}"),
        (f"command{RAW}",),
        ("peek", "q", "--state", RAW),
    ):
        told = spoolrack(*arguments)
        assert told.code != 0
        assert told.err
        assert all(line.isprintable() for line in told.err.split("\n")), arguments


def test_all_that_the_commands_print_goes_through_one_door() -> None:
    """`tokens new` alone prints a line beside it, whose name it has checked."""
    found = set()
    for path in Path(spoolrack_server.cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                *("print", "click.echo", "click.secho", "click.style", "sys.stdout.write"),
            ):
                found.add(path.name)
    assert found == {"output.py", "tokens_command.py"}
