"""The image: its Dockerfile, its steps as far as they run without an engine, and its commands as an
engine would confine them. docs/how-to/container.md names the engine's own part.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.image.image_checks import Confine, assert_served
from tests.image.image_steps import build, copy
from tests.support.dockerfile import stages

IMAGE = stages()[-1]
BUILD = stages()[0]


def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).with_name("hadolint")
    found = subprocess.run(
        [program, "--failure-threshold", "style", CHECKOUT / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_is_built_in_stages_and_the_last_one_brings_no_builder() -> None:
    assert len(stages()) == 2
    taken = [step.value for step in IMAGE.steps if step.instruction == "COPY"]
    assert taken == ["--from=build /opt/spoolrack /opt/spoolrack"]
    said = " ".join(step.value for step in IMAGE.steps)
    assert "pip" not in said
    assert "venv" not in said


def test_it_runs_as_any_user_with_one_volume_and_without_a_shell() -> None:
    assert IMAGE.user == "10001:10001", "a number: Kubernetes can't see that a name isn't root's"
    assert IMAGE.volumes == ["/var/lib/spoolrack"]
    assert Path(IMAGE.environment["SPOOLRACK_DATA"]).parent == Path(IMAGE.volumes[0])
    # The forms with brackets: no shell is between the engine and the program, so it gets the signal.
    assert IMAGE.entry == ["/opt/spoolrack/bin/spoolrack"]
    assert IMAGE.command == ["serve"]
    assert IMAGE.check == ["/opt/spoolrack/bin/spoolrack", "health"]


def test_the_exposed_ports_are_those_that_it_serves() -> None:
    listens = {name: IMAGE.environment[f"SPOOLRACK_{name}"] for name in ("GRPC", "HTTP", "HEALTH")}
    assert [int(each.rpartition(":")[2]) for each in listens.values()] == IMAGE.ports


def test_every_package_is_held_against_its_hash_or_comes_from_those_that_were() -> None:
    said = " && ".join(step.value for step in BUILD.steps if step.instruction == "RUN")
    calls = [part for part in said.split("&&") if "-m pip" in part]
    assert len(calls) == 4
    for call in calls:
        assert "--require-hashes" in call or "--no-index" in call, call


def test_the_builder_gets_what_the_dockerfile_copies_and_nothing_else() -> None:
    lines = (CHECKOUT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {
        source
        for step in BUILD.steps
        if step.instruction == "COPY"
        for source in step.value.split()[:-1]
    }
    assert let_in == copied
    for path in copied:
        assert (CHECKOUT / path).exists()


def index_is_there() -> bool:
    try:
        socket.create_connection(("pypi.org", 443), timeout=10).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run what the build stage runs, but for apt, with its folders below one of ours."""
    folder = tmp_path_factory.mktemp("built")
    if not index_is_there():
        pytest.skip("needs the package index, as a set-up does")
    paths = re.compile(r"(?<![\w./])/(build|wheels|opt/spoolrack|source)\b")
    for step in BUILD.steps:
        inside = folder / step.folder.lstrip("/")
        if step.instruction == "WORKDIR":
            (folder / step.value.lstrip("/")).mkdir(parents=True)
        elif step.instruction == "COPY":
            copy(step, inside, folder, {})
        elif "apt-get" not in step.value:
            command = paths.sub(rf"{folder}/\1", step.value)
            ran = subprocess.run(
                ["/bin/sh", "-ec", command], cwd=inside, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_the_steps_install_the_program_and_leave_behind_what_built_it(built: Path) -> None:
    program = built / "opt" / "spoolrack" / "bin" / "spoolrack"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    # The program that the chart's hook before the stop runs.
    assert (program.parent / "python").exists()
    installed = {path.name.partition("-")[0] for path in site_of(built).glob("*.dist-info")}
    assert {"spoolrack", "grpcio", "aiohttp", "opentelemetry_sdk"} <= installed
    assert not {"pip", "setuptools", "hatchling", "editables", "pytest"} & installed


def test_the_wheel_has_every_file_of_the_packages(built: Path) -> None:
    (wheel,) = (built / "wheels").glob("spoolrack-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        for path in (CHECKOUT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to((CHECKOUT / package).parent)) in packed


def test_nothing_is_compiled_again_at_a_start(built: Path) -> None:
    """The root file system is read-only, and its times may be any."""
    for module in ("process/server.py", "cli/operators/serve_command.py"):
        source = site_of(built) / "spoolrack_server" / module
        cached = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        flags = int.from_bytes(cached.read_bytes()[4:8], "little")
        assert flags == 0b01, "by hash, and not checked"


def site_of(built: Path) -> Path:
    (site,) = (built / "opt" / "spoolrack" / "lib").glob("python*/site-packages")
    return site


def test_the_installed_server_runs_as_an_unprivileged_user_on_a_read_only_root(
    built: Path, confine: Confine
) -> None:
    binds = {"/mnt/site": str(site_of(built))}
    python, libraries = f"{sysconfig.get_config_var('BINDIR')}/python3", dict[str, str]()
    if not python.startswith("/usr/"):  # Where the image's user can't come, such as below /root.
        binds["/mnt/python"] = sys.base_prefix
        python = "/mnt/python/bin/python3"
        libraries = {"LD_LIBRARY_PATH": "/mnt/python/lib"}
    program = [python, "-m", "spoolrack_server"]
    # The image's paths, as far as this machine's read-only root has them.
    volume = "/mnt/volume"
    seen = confine(
        IMAGE,
        Path("/"),
        binds=binds,
        volume=volume,
        folder="/",
        environment=IMAGE.environment
        | {"PYTHONPATH": "/mnt/site", "SPOOLRACK_DATA": f"{volume}/root", "SPOOLRACK_INSECURE": "true"}
        | libraries,
        entry=program,
        check=[*program, *IMAGE.check[1:]],
    )
    seen[f"write to {IMAGE.volumes[0]}"] = seen[f"write to {volume}"]
    assert_served(seen, IMAGE)


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # It downloads a Debian and its packages.
def test_every_step_runs_in_a_bare_debian_and_what_they_make_serves(
    tmp_path: Path, confine: Confine
) -> None:
    """`make image-steps`."""
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: apt install debootstrap")
    image = build(tmp_path / "steps")
    assert_served(confine(IMAGE, image), IMAGE)
    owners = {
        (path.lstat().st_uid, path.lstat().st_mode & 0o002) for path in (image / "opt").rglob("*")
    }
    links = {0o002} if any(path.is_symlink() for path in (image / "opt").rglob("*")) else set()
    assert owners <= {(0, 0), *((0, each) for each in links)}, (
        "the program is root's, and so can't be changed"
    )
    assert not (image / "opt" / "spoolrack" / "bin" / "pip").exists()
