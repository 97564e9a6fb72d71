"""A root of an older version that has another format loses nothing by an upgrade, and by one that is
refused.

The older ones come out of the project's own history.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests import CHECKOUT
from tests.support.real_server import RealServer

OLDER = "7b45bfcf"
"""The last one without stages, reservations and deduplication ids."""
OF_FORMAT_3: Final = "ba06038d"
"""The last one of format 3."""
FILL = """
client.create_queue("jobs", visibility_timeout=600)
queue = client.queue("jobs")
sent = [queue.send(b"single"), *(result.id for result in queue.send_many([b"together"] * 20))]
delayed = queue.send(b"delayed", delay=600)
queue.receive(1)
told = {"ready": sent[1:], "leased": sent[:1], "delayed": [delayed]}
"""
LOOK = """
queue = client.queue("jobs")
states = ("ready", "leased", "delayed")
told = {state: [message.id for message in queue.peek([state])] for state in states}
"""


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the older version's code."""
    return code_of(OLDER, tmp_path_factory.mktemp("older"))


def code_of(commit: str, folder: Path) -> Path:
    """Put the code of a commit into a folder."""
    archive = folder / "older.tar"
    made = subprocess.run(
        ["git", "-C", str(CHECKOUT), "archive", "--output", str(archive), commit, "client", "server"],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("needs the project's history: clone it whole")
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    return folder


def paths(code: Path) -> str:
    return os.pathsep.join(str(code / part) for part in ("client", "server"))


@contextmanager
def serving(root: Path, log: Path, code: Path) -> Iterator[RealServer]:
    server = RealServer(root, log, before=("env", f"PYTHONPATH={paths(code)}"))
    server.start()
    try:
        yield server
        assert server.stop() == 0
    finally:
        server.kill()


def told_by(program: str, server: RealServer, code: Path) -> Any:
    """Return what a program tells that uses the version's own client."""
    whole = (
        "import json, sys, spoolrack\n"
        f"client = spoolrack.connect(sys.argv[1])\n{program}\nprint(json.dumps(told))"
    )
    told = subprocess.run(
        [sys.executable, "-c", whole, f"127.0.0.1:{server.port}"],
        env={**os.environ, "PYTHONPATH": paths(code)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_a_root_of_format_1_is_refused_and_left_to_the_version_that_wrote_it(
    older: Path, tmp_path: Path
) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    with serving(root, log, older) as server:
        held = told_by(FILL, server, older)
    before = sorted(map(str, root.rglob("*")))

    code, said = RealServer(root, tmp_path / "refused").refuse_start()

    assert code == os.EX_DATAERR, said
    assert "the format 'spoolrack 1'" in said
    assert "spoolrack export" in said
    assert sorted(map(str, root.rglob("*"))) == before
    with serving(root, log, older) as server:
        assert told_by(LOOK, server, older) == held


def test_a_root_of_format_3_is_upgraded_with_all_that_is_in_it_and_refused_by_its_version_then(
    tmp_path: Path,
) -> None:
    (tmp_path / "older").mkdir()
    older = code_of(OF_FORMAT_3, tmp_path / "older")
    root, log = tmp_path / "root", tmp_path / "log"
    with serving(root, log, older) as server:
        held = told_by(FILL, server, older)
    with serving(root, log, CHECKOUT) as server:
        assert told_by(LOOK, server, CHECKOUT) == held
        assert (
            told_by("told = client.queue('jobs').info().settings.visibility_timeout", server, CHECKOUT)
            == 600
        )
    assert "is upgraded to format 4" in log.read_text()

    old_server = RealServer(root, tmp_path / "refused", before=("env", f"PYTHONPATH={paths(older)}"))
    code, said = old_server.refuse_start()

    assert code == os.EX_DATAERR, said
    assert "spoolrack 4" in said
