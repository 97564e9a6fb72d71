"""The tests in the source distributions of Celery and kombu, of the versions that are installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
UNPACK_LIMIT: Final = 500.0


def unpack_tests(package: str, folder: Path) -> None:
    """Put a package's tests, `t/`, into a folder, without the package itself."""
    pins = (CHECKOUT / "requirements" / "dev.txt").read_text()
    pin = re.search(rf"^{package}(?:\[.*\])?(==\S+ (?:\\\n +--hash=\S+ ?)+)", pins, re.MULTILINE)
    assert pin is not None
    assert pin[1].startswith(f"=={version(package)} "), f"the installed {package} is not the pinned one"
    (folder / "pin.txt").write_text(f"{package}{pin[1]}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package]
    subprocess.run(
        [*pip, "--require-hashes", "-r", "pin.txt"],
        cwd=folder,
        check=True,
        stdout=sys.stderr,
        timeout=UNPACK_LIMIT,
    )
    (archive,) = folder.glob(f"{package}-*.tar.gz")
    with tarfile.open(archive) as source:
        for member in source.getmembers():
            root, _, member.name = member.name.partition("/")
            if root and member.name.startswith("t/"):
                source.extract(member, folder, filter="data")
