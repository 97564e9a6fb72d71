"""The wheel holds all files that the server serves: users miss an unpacked file first."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests import CHECKOUT

STATIC = CHECKOUT / "server" / "spoolrack_server" / "dashboard" / "static"


def test_the_wheel_holds_every_file_of_the_dashboard_with_its_licences(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    wanted = {str(path.relative_to(STATIC.parents[2])) for path in STATIC.rglob("*") if path.is_file()}
    assert len(wanted) > 20
    assert wanted <= names
    assert "spoolrack_server/gateway/openapi.json" in names
    # Spark looks for its data sources in packages of this name.
    assert {"pyspark_spoolrack/__init__.py", "pyspark_spoolrack_root/__init__.py"} <= names
