"""A page's conversations with a shell: the commands to type, and the output it shows.

A block of a page that begins with "$ " is one; each line that begins so is a command, and the lines
below it are in its output, with "…" for anything. Knows nothing of servers: the test that runs a
conversation gives the values of its names.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.support import STUCK

_MARK: Final = "=== next ==="


class Typed(NamedTuple):
    """A command of a page."""

    command: str
    shown: Sequence[str]
    """Lines of its output, standard error among it."""


def conversation(text: str) -> list[Typed]:
    """Return all that is typed in a page, or in a part of it."""
    lines = "".join(re.findall(r"```\n(\$ .*?)```", text, re.DOTALL)).splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("$ ")]
    return [
        Typed(lines[start][2:], lines[start + 1 : end])
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]


def section(page: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of its kind."""
    level = heading.split()[0]
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^{level} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def run(
    typed: Sequence[Typed], folder: Path, names: Mapping[str, str], env: Mapping[str, str] | None = None
) -> None:
    """Type all of it into one shell, in `folder`, with `names` replaced by what they stand for; fails
    where a line that the page shows is not in what the command prints."""
    script = f"\necho; echo '{_MARK}'\n".join(f"{{ {one.command}\n}} 2>&1" for one in typed)
    for name, value in names.items():
        script = script.replace(name, value)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=None if env is None else dict(env),
        capture_output=True,
        text=True,
        timeout=STUCK,
        check=False,
    )
    outputs = done.stdout.split(_MARK)
    for (command, shown), output in zip(typed, outputs, strict=True):
        lines = [line.rstrip("\r") for line in output.splitlines()]
        for wanted in shown:
            assert any(_matches(wanted, line) for line in lines), f"$ {command}\n{wanted}\n{output}"


def _matches(shown: str, line: str) -> bool:
    return re.fullmatch(re.escape(shown).replace("…", ".*"), line) is not None
