"""docs/reference/cli.md names only commands and options that exist. Their usage is in commands.rst."""

from __future__ import annotations

import re
from typing import Final

import click
import pytest
from spoolrack_server.cli.program import spoolrack

from tests import CHECKOUT

PAGE: Final = (CHECKOUT / "docs" / "reference" / "cli.md").read_text()
SECTIONS: Final = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def _command(name: str) -> click.Command:
    found = spoolrack.get_command(click.Context(spoolrack), name)
    assert found is not None
    return found


def _options(command: click.Command) -> set[str]:
    """Return the options of a command, or of all commands of a group."""
    if isinstance(command, click.Group):
        return {name for each in command.commands.values() for name in _options(each)}
    return {name for parameter in command.params for name in parameter.opts}


def test_every_command_has_a_section_and_a_line_in_the_overview() -> None:
    commands = spoolrack.list_commands(click.Context(spoolrack))
    assert sorted(", ".join(SECTIONS).split(", ")) == sorted(commands)
    lines = re.findall(r"^spoolrack (.*?)(?:   |$)", PAGE, re.MULTILINE)
    assert set(commands) <= set(re.findall(r"\w+", " ".join(lines)))


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_names_only_options_that_its_commands_have(title: str) -> None:
    commands = spoolrack.list_commands(click.Context(spoolrack))
    for code in re.findall(r"`([^`]*--[^`]*)`", SECTIONS[title]):
        first = code.removeprefix("spoolrack ").split()[0]
        named = [first] if first in commands else title.split(", ")
        known = {option for name in named for option in _options(_command(name))}
        assert set(re.findall(r"--[a-z][a-z-]*", code)) <= known, code
