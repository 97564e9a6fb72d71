"""A release is built from a commit alone, and only if tag, version, changelog and chart agree."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import CHECKOUT

REPOSITORY = "https://example.org/spoolrack"
GO_PACKAGE = "example.org/spoolrack/client/go/spoolrack/v1;spoolrackpb"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        f"GIT_{who}_{what}": "test@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


# What is checked.


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a checkout as is checked, ready to be released as 1.0.0b2."""
    folder = tmp_path / "checkout"
    for name in ("scripts/check-release", "pyproject.toml", "helm/spoolrack/Chart.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, folder / name)
    urls = f'[project.urls]\nRepository = "{REPOSITORY}"\n\n[project.scripts]'
    edit(folder / "pyproject.toml", r'^version = ".*"', 'version = "1.0.0b2"')
    edit(folder / "pyproject.toml", r"^\[project\.urls\]\n(.+\n)*", "")
    edit(folder / "pyproject.toml", r"^\[project\.scripts\]", urls)
    edit(folder / "helm/spoolrack/Chart.yaml", r"^appVersion: .*", "appVersion: 1.0.0b2")
    proto = folder / "protos/spoolrack/v1/queue.proto"
    proto.parent.mkdir(parents=True)
    proto.write_text(f'package spoolrack.v1;\n\noption go_package = "{GO_PACKAGE}";\n')
    (folder / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [1.0.0-beta.2] - 2026-12-01\n\n### Added\n\n- A thing.\n"
        "\n## [1.0.0-beta.1] - 2026-11-24\n\n- Another one.\n"
    )
    return folder


def edit(path: Path, pattern: str, replacement: str) -> None:
    path.write_text(re.sub(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE))


def check(checkout: Path, tag: str = "v1.0.0b2", repository: str = REPOSITORY) -> tuple[str, str]:
    checked = run(sys.executable, "scripts/check-release", tag, repository, cwd=checkout)
    assert checked.returncode == int(bool(checked.stderr))
    return checked.stdout, checked.stderr


def test_a_release_that_agrees_has_the_changelogs_section_as_its_notes(checkout: Path) -> None:
    assert check(checkout) == ("### Added\n\n- A thing.\n", "")


@pytest.mark.parametrize(
    ("name", "pattern", "replacement", "said"),
    [
        ("pyproject.toml", r"1\.0\.0b2", "1.0.0b2.dev0", "drop the .dev"),
        ("pyproject.toml", r"^Repository = .*", "", "names no repository"),
        (
            "protos/spoolrack/v1/queue.proto",
            r'= ".*/v1',
            '= "spoolrack/v1',
            "go_package of protos/spoolrack/v1",
        ),
        ("helm/spoolrack/Chart.yaml", r"^appVersion: .*", "appVersion: 1.0.0b1", "another appVersion"),
        ("CHANGELOG.md", r"^## \[Unreleased\]", "## [Unreleased]\n\n- New.", "as Unreleased"),
        ("CHANGELOG.md", r"beta\.2", "beta.3", "lists 1.0.0-beta.3 as its newest"),
    ],
)
def test_what_keeps_a_commit_from_being_released_is_named(
    checkout: Path, name: str, pattern: str, replacement: str, said: str
) -> None:
    edit(checkout / name, pattern, replacement)

    notes, found = check(checkout)

    assert notes == ""
    assert said in found


def test_a_tag_of_another_version_or_a_repository_of_another_address_is_refused(checkout: Path) -> None:
    assert "The tag v1.0.0b3 isn't v1.0.0b2" in check(checkout, tag="v1.0.0b3")[1]
    assert f"names {REPOSITORY}" in check(checkout, repository="https://example.org/fork")[1]


# What is built.


@pytest.fixture
def commit(tmp_path: Path) -> Path:
    """A commit of what this checkout tracks, beside a file that it doesn't, with our .venv."""
    folder = tmp_path / "commit"
    tracked = run("git", "ls-files", "-z", cwd=CHECKOUT)
    if tracked.returncode != 0:
        pytest.skip("needs the project's history: this is no clone")
    for name in filter(None, tracked.stdout.split("\0")):
        if not name.startswith("tests/") and (CHECKOUT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "x"]):
        done = run("git", *command, cwd=folder)
        assert done.returncode == 0, done.stderr
    (folder / "client" / "spoolrack" / "left_over.py").touch()
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def build(commit: Path, dist: Path) -> dict[str, str]:
    """Return the hashes of what is built; the lock that is printed has them, too."""
    built = run("scripts/build-release", dist, cwd=commit)
    assert built.returncode == 0, built.stderr
    (dist.parent / f"{dist.name}.txt").write_text(built.stdout)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}


@pytest.mark.slow
def test_a_commit_is_built_into_the_same_bytes_without_what_it_does_not_have(
    commit: Path, tmp_path: Path
) -> None:
    first, second = build(commit, tmp_path / "first"), build(commit, tmp_path / "second")

    assert first == second
    locked = (tmp_path / "first.txt").read_text()
    assert locked.startswith("spoolrack[server,otel]==")
    assert set(first.values()) <= set(re.findall(r"sha256:(\w+)", locked.partition("# This file")[0]))
    assert (CHECKOUT / "requirements" / "server.txt").read_text() in locked
    assert sorted(name.partition("-")[2][-7:] for name in first) == [".tar.gz", "any.whl"]
    (wheel,) = (tmp_path / "first").glob("*.whl")
    (source,) = (tmp_path / "first").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = packed.read(about).decode()
    with tarfile.open(source) as packed_source:
        sources = packed_source.getnames()
    assert "spoolrack/__init__.py" in names
    assert metadata.startswith("Metadata-Version: 2.4\n"), "Debian 12's tools read no newer one"
    assert any(name.endswith("/SECURITY.md") for name in sources)
    assert not [name for name in (*names, *sources) if name.endswith("left_over.py")]
