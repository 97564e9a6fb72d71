"""README's line of pip, typed in a copy of the checkout: the command serves, sends and receives."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.support import STUCK


def _tried(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=STUCK, check=False)


def _run(*command: str | Path, cwd: Path) -> str:
    done = _tried(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Install as README says, in a copy of what the project's history has; return `bin`."""
    found = re.search(r"`pip (install \"\.\[server\]\")`", (CHECKOUT / "README.md").read_text())
    assert found is not None
    tracked = _run("git", "ls-files", "-z", cwd=CHECKOUT).split("\0")
    for name in filter(None, tracked):
        target = tmp_path / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, target)
    venv.create(tmp_path / "venv", with_pip=True)
    bin_folder = tmp_path / "venv" / "bin"
    pip: tuple[str, ...] = (str(bin_folder / "python"), "-m", "pip", *shlex.split(found[1]))
    pip += ("--no-input", "--disable-pip-version-check", "--constraint", str(_pins(tmp_path)))
    done = _tried(*pip, cwd=tmp_path / "clone")
    if re.search(r"NewConnectionError|NameResolutionError|ConnectTimeout", done.stdout + done.stderr):
        pytest.skip("needs the package index")
    assert done.returncode == 0, done.stdout + done.stderr
    return bin_folder


def _pins(folder: Path) -> Path:
    """Write the versions of the set-up as constraints, without hashes: the wheel itself has none."""
    locked = (CHECKOUT / "requirements" / "server.txt").read_text()
    pins = folder / "pins.txt"
    pins.write_text("\n".join(re.findall(r"^[a-z0-9._-]+==[^\s\\]+", locked, re.MULTILINE)))
    return pins


@pytest.fixture
def endpoint(programs: Path, tmp_path: Path) -> Iterator[str]:
    """Run the installed `spoolrack serve` outside the checkout, and yield its address."""
    serving = subprocess.Popen(
        [programs / "spoolrack", "serve", "--grpc", "127.0.0.1:0", "--http", "off"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("SPOOLRACK_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert serving.stdout is not None
        said = []
        for line in serving.stdout:
            said.append(line)
            if found := re.search(r"127\.0\.0\.1:[1-9]\d*", line):
                yield found[0]
                break
        else:
            pytest.fail("".join(said))
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=STUCK)


@pytest.mark.slow
def test_what_the_readmes_pip_installs_serves_sends_and_receives(
    endpoint: str, programs: Path, tmp_path: Path
) -> None:
    spoolrack = (programs / "spoolrack",)
    _run(*spoolrack, "queues", "create", "jobs", "--url", endpoint, cwd=tmp_path)
    _run(*spoolrack, "send", "jobs", "resize cat.jpg", "--url", endpoint, cwd=tmp_path)
    received = _run(*spoolrack, "receive", "jobs", "--delete", "--url", endpoint, cwd=tmp_path)
    assert received.strip() == "resize cat.jpg"
    assert list((tmp_path / "data" / "queues").iterdir())
    loaded = _run(
        programs / "python", "-c", "import spoolrack; print(spoolrack.__file__)", cwd=tmp_path
    )
    assert Path(loaded.strip()).is_relative_to(tmp_path)
