"""Does what the Dockerfile says, where no engine runs: each stage in a folder, each RUN in a chroot.

As root:  python -m tests.image.image_steps FOLDER

The base image is a minimal Debian from debootstrap, once, in FOLDER/base. The other work of an
engine (layers, the manifest, the format of the image) is not done, and so not tested. The last stage is
left in FOLDER/image, to be run by `confined.py`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests import CHECKOUT
from tests.support.dockerfile import Step, stages

DEBIAN = {"docker.io/library/debian:12-slim": "bookworm"}
"""The suites of the base images that we can stand in for."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = "/etc/certificates-of-the-builder.pem"


def build(folder: Path) -> Path:
    """Run all stages in `folder`; returns the folder of the last one."""
    folder.mkdir(parents=True, exist_ok=True)
    built: dict[str, Path] = {}
    at = folder
    for number, stage in enumerate(stages()):
        at = folder / (stage.name or f"stage-{number}")
        base = _base(folder, DEBIAN[stage.base])
        if at.exists():
            shutil.rmtree(at)
        print(f"FROM {stage.base} AS {stage.name or number}", flush=True)
        subprocess.run(["cp", "-a", str(base), str(at)], check=True)
        _let_out(at)
        for step in stage.steps:
            print(f"{step.instruction} {step.value}", flush=True)
            _do(step, at, built)
        _shut(at)
        built[stage.name] = at
    image = folder / "image"
    if image.exists():
        shutil.rmtree(image)
    return at.rename(image)


def _base(folder: Path, suite: str) -> Path:
    base = folder / "base"
    if not base.exists():
        made = folder / "base.new"
        shutil.rmtree(made, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", suite, str(made)], check=True)
        made.rename(base)
    return base


def _do(step: Step, root: Path, built: Mapping[str, Path]) -> None:
    inside = root / step.folder.lstrip("/")
    match step.instruction:
        case "WORKDIR":
            (root / step.value.lstrip("/")).mkdir(parents=True, exist_ok=True)
        case "COPY":
            copy(step, inside, root, built)
        case "RUN":
            run(step, root)


def copy(step: Step, inside: Path, root: Path, built: Mapping[str, Path]) -> None:
    """COPY as an engine does it: of a folder it copies what is in it."""
    words = shlex.split(step.value)
    source = CHECKOUT
    if words[0].startswith("--from="):
        source = built[words.pop(0).removeprefix("--from=")]
    *names, to = words
    target = root / to.lstrip("/") if to.startswith("/") else inside / to
    for name in names:
        origin = source / name.lstrip("/")
        if origin.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__") if source == CHECKOUT else None
            shutil.copytree(origin, target, symlinks=True, dirs_exist_ok=True, ignore=unwanted)
        else:
            at = target / origin.name if to.endswith("/") else target
            at.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin, at)


def run(step: Step, root: Path) -> None:
    """RUN, with processes of its own, and the network and certificates of this machine."""
    environment = {
        "PATH": PATH,
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
        **step.environment,
    }
    environment |= {
        name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")
    }
    for name in ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT"):
        environment |= {name: os.environ[name]} if name in os.environ else {}
    if "PIP_CERT" in os.environ:
        environment["PIP_CERT"] = CERTIFICATES
    inside = f"cd {shlex.quote(step.folder)} && {{ {step.value}\n}}"
    script = 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; exec chroot "$@"'
    pairs = [f"{name}={value}" for name, value in environment.items()]
    isolate = ["unshare", "--mount", "--pid", "--fork", "/bin/sh", "-ec", script, "sh", str(root)]
    subprocess.run([*isolate, "/usr/bin/env", "-i", *pairs, "/bin/sh", "-ec", inside], check=True)


def _let_out(root: Path) -> None:
    """Lend names to each RUN, as an engine does; and, behind a proxy that inspects, its CA."""
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    if "PIP_CERT" in os.environ:
        shutil.copy(os.environ["PIP_CERT"], root / CERTIFICATES.lstrip("/"))


def _shut(root: Path) -> None:
    (root / CERTIFICATES.lstrip("/")).unlink(missing_ok=True)


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
