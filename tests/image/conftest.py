"""A place where the image's own commands run, confined."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.image.confined import Container
from tests.image.image_checks import Confine
from tests.support.dockerfile import Stage

ISOLATED = (
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--propagation",
    "unchanged",
)


@pytest.fixture
def confine(tmp_path: Path) -> Confine:
    """Runs the commands of an image over a file system, and returns what was seen of them."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount and to change the user")
    if subprocess.run([*ISOLATED, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs root, and the right to make namespaces")

    def run(image: Stage, source: Path, **changes: Any) -> dict[str, Any]:
        storage, root = tmp_path / "volume", tmp_path / "root"
        storage.mkdir(mode=0o700)
        uid, gid = map(int, image.user.split(":"))
        os.chown(storage, uid, gid)
        root.mkdir()
        container = Container(
            source=str(source),
            root=str(root),
            binds=changes.pop("binds", {}),
            volume=image.volumes[0],
            storage=str(storage),
            user=image.user,
            folder=image.folder,
            # As `docker run --env`: without certificates it must be said that it shall be so.
            environment=image.environment | {"SPOOLRACK_INSECURE": "true"},
            entry=image.entry,
            command=image.command,
            check=image.check,
        )
        place = tmp_path / "place.json"
        place.write_text(json.dumps(asdict(container) | changes))
        script = Path(__file__).with_name("confined.py")
        ended = subprocess.run(
            [*ISOLATED, sys.executable, script, place], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        seen: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return seen

    return run
