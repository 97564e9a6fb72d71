"""What helps to type a command: its example, and the completion of queue names in a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from spoolrack import Client
from spoolrack.testing import RunningServer
from spoolrack_server.cli.examples import EXAMPLES
from spoolrack_server.cli.kit.command_clock import system_time
from spoolrack_server.cli.program import PREFIX
from spoolrack_server.cli.program import spoolrack as program

from tests.cli.cli_rig import Spoolrack, commands
from tests.support.serving import PROGRAM

COMMANDS = dict(commands(program))
FILES = ("ca.pem", "queues.json", "jobs.jsonl")


def completed(*words: str, **environment: str) -> list[str]:
    """Return what bash is offered for the last word."""
    line = ("spoolrack", *words)
    found = subprocess.run(
        PROGRAM,
        env={
            **os.environ,
            **environment,
            "_SPOOLRACK_COMPLETE": "bash_complete",
            "COMP_WORDS": shlex.join(line[:-1]) + " " + line[-1],
            "COMP_CWORD": str(len(line) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == ""
    return [each.partition(",")[2] for each in found.stdout.split()]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_ends_with_an_example_that_it_takes(
    offline: Spoolrack, path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).touch()
    example = EXAMPLES[" ".join(path)]
    assert offline(*path, "--help").out.endswith(f"  Example:\n    spoolrack {example}\n")
    words = shlex.split(example)
    assert tuple(words[: len(path)]) == path
    more = {"auto_envvar_prefix": PREFIX, "obj": system_time}
    with COMMANDS[path].make_context(path[-1], words[len(path) :], **more):
        pass


def test_a_shell_completes_the_names_of_queues(server: RunningServer, client: Client) -> None:
    for name in ("jobs", "jobs.failed", "mail"):
        client.create_queue(name)
    at = {"SPOOLRACK_URL": server.url}
    assert completed("peek", "jo", **at) == ["jobs", "jobs.failed"]
    assert completed("replay", "jobs.", **at) == ["jobs.failed"]
    assert completed("queues", "show", "", **at) == ["jobs", "jobs.failed", "mail"]
    assert completed("receive", "jobs", "--url", server.url, "m") == ["mail"]
    # What isn't the name of a queue, and a server that isn't there, complete nothing.
    assert completed("delete", "jobs", "jo", **at) == []
    assert completed("peek", "jo", SPOOLRACK_URL="127.0.0.1:1") == []
    assert completed("peek", "jo", SPOOLRACK_URL="nonsense://x") == []


def test_a_shell_completes_the_names_of_a_folder_without_opening_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "queues" / "jobs").mkdir(parents=True)
    assert completed("peek", "--root", str(root), "jo") == ["jobs"]
    assert completed("peek", "jo", SPOOLRACK_ROOT=str(root)) == ["jobs"]
    assert sorted(path.name for path in root.iterdir()) == ["queues"]
    assert completed("peek", "--root", str(tmp_path / "absent"), "jo") == []


def test_every_argument_for_a_queue_is_completed() -> None:
    for path, command in COMMANDS.items():
        for each in command.params:
            if not isinstance(each, click.Argument) or path == ("shard",):
                continue
            names_queues = each.name in ("queue", "queues", "prefix") or (
                path[0] == "queues" and each.name == "name"
            )
            assert (each._custom_shell_complete is not None) is names_queues, path
