"""The committed stubs are as the contract has them, and what is made from the schema of settings as the
schema has it, so that reading either is reading both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import CHECKOUT

COMMITTED = {
    "spoolrack/v1": CHECKOUT / "client" / "spoolrack" / "v1",
    "spoolrack_server/rpc/keda": CHECKOUT / "server" / "spoolrack_server" / "rpc" / "keda",
}


def stubs(package: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in package.glob("*_pb2*.py*")}


def test_the_committed_stubs_equal_a_fresh_generation(tmp_path: Path) -> None:
    generation = subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "generate-stubs", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert generation.returncode == 0, generation.stderr

    for package, folder in COMMITTED.items():
        fresh = stubs(tmp_path / package)
        committed = stubs(folder)
        assert fresh, f"nothing was generated in {package}"
        differing = sorted(name for name in fresh | committed if fresh.get(name) != committed.get(name))
        assert not differing, f"run `make stubs` and commit what it changes: {', '.join(differing)}"


def test_the_committed_schemas_of_settings_equal_a_fresh_generation() -> None:
    checked = subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "generate-settings", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stderr


def test_generating_removes_the_stub_of_a_proto_that_is_gone_and_keeps_what_it_did_not_write(
    tmp_path: Path,
) -> None:
    package = tmp_path / "spoolrack" / "v1"
    package.mkdir(parents=True)
    (package / "gone_pb2.py").touch()
    (package / "__init__.py").write_text('"""Ours."""\n')

    subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "generate-stubs", tmp_path],
        check=True,
        capture_output=True,
        timeout=60,
    )

    assert not (package / "gone_pb2.py").exists()
    assert (package / "__init__.py").read_text() == '"""Ours."""\n'
    assert (package / "queue_pb2.py").exists()
