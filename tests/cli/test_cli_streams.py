"""Standard streams that are closed, or whose reader has gone: never a mistake of the program."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack

from tests.support.serving import PROGRAM

CLOSED = "spoolrack: standard input or output is closed, and is needed"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with spoolrack.connect(f"file://{tmp_path / 'root'}") as client:
        client.create_queue("jobs")
        client.queue("jobs").send("hello")
    return tmp_path / "root"


def in_shell(line: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Return a line of the shell, in which `spoolrack` is this program on the root."""
    program = f'{shlex.join(PROGRAM)} "$@" --root {shlex.quote(str(root))}'
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; spoolrack() {{ {program}; }}; {line}"],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    "line",
    [
        "spoolrack queues list >&-",
        "spoolrack export jobs >&-",
        "spoolrack receive jobs --delete >&-",
        "spoolrack send jobs <&-",
        "spoolrack send jobs --lines <&-",
        "spoolrack delete jobs - <&-",
        "spoolrack queues apply - <&-",
    ],
)
def test_a_closed_stream_that_is_needed_is_told(root: Path, line: str) -> None:
    ended = in_shell(line, root)
    assert ended.returncode == 2
    assert ended.stderr.startswith(CLOSED)
    with spoolrack.connect(f"file://{root}") as client:
        (message,) = client.queue("jobs").peek()
        assert message.body == b"hello"


def test_a_closed_standard_error_is_no_mistake(root: Path) -> None:
    assert in_shell("spoolrack queues show gone 2>&-", root).returncode == 1


@pytest.fixture
def broken_pipe() -> Iterator[int]:
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(
    "arguments", [("queues", "list"), ("peek", "jobs", "--help"), ("export", "jobs"), ("top", "--once")]
)
def test_a_reader_that_has_gone_ends_a_command_without_a_word(
    root: Path, broken_pipe: int, arguments: tuple[str, ...]
) -> None:
    line = [*PROGRAM, *arguments, "--root", str(root)]
    ended = subprocess.run(line, stdout=broken_pipe, stderr=subprocess.PIPE, timeout=60)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [("queues", "show", "gone"), ("nonsense",)])
def test_a_closed_output_ends_a_command_like_sigpipe(
    root: Path, broken_pipe: int, arguments: tuple[str, ...]
) -> None:
    line = [*PROGRAM, *arguments, "--root", str(root)]
    ended = subprocess.run(line, stdout=broken_pipe, stderr=broken_pipe, timeout=60)
    assert ended.returncode == 141


@pytest.mark.parametrize("command", ["delete", "release"])
def test_an_id_on_standard_input_that_is_not_utf8_is_refused(root: Path, command: str) -> None:
    line = [*PROGRAM, command, "jobs", "-", "--root", str(root)]
    ended = subprocess.run(line, input=b"a\xffb\n", capture_output=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"spoolrack: Standard input: 'a\\udcffb' is not UTF-8")
