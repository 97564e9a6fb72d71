"""The unit of deploy/systemd is one that systemd takes, and repeats no start that can't succeed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from spoolrack_server.access.security import Insecure
from spoolrack_server.access.watched_files import AccessUnusable
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.shutdown import EXIT_CODES
from spoolrack_server.system.system_limits import SystemLimit
from spoolrack_store.model.errors import DamagedSettings, RootUnusable, UnknownFormat

from tests import CHECKOUT

UNIT: Final = CHECKOUT / "deploy" / "systemd" / "spoolrack.service"
WRONG_USAGE: Final = 2
FOR_AN_OPERATOR: Final = (
    Insecure,
    AccessUnusable,
    SystemLimit,
    RootUnusable,
    UnknownFormat,
    DamagedSettings,
)


def value(name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze: apt-get install systemd")
    program = Path(sys.executable).with_name("spoolrack")
    text = UNIT.read_text().replace(value("ExecStart").split()[0], str(program))
    # Only a machine that serves has this user.
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("User=spoolrack\n", "User=daemon\n"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (verified.returncode, verified.stderr) == (0, "")


def test_a_start_that_needs_an_operator_is_not_repeated() -> None:
    kept_down = {int(code) for code in value("RestartPreventExitStatus").split()}
    assert kept_down == {WRONG_USAGE, *(EXIT_CODES[kind] for kind in FOR_AN_OPERATOR)}
    assert os.EX_TEMPFAIL not in kept_down


def test_a_stop_leaves_the_time_to_drain() -> None:
    assert int(value("TimeoutStopSec")) > ServeSettings().grace
    assert value("KillMode") == "mixed"
