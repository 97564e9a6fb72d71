"""The contract is well formed, commented throughout, and breaks nobody who built on the last tag."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sysconfig
import tarfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
BUF = Path(sysconfig.get_path("scripts")) / "buf"

# Everything in a .proto that a reader may have to look up, by the rule that wants a comment on it.
COMMENT_RULES = {
    "COMMENT_ENUM",
    "COMMENT_ENUM_VALUE",
    "COMMENT_FIELD",
    "COMMENT_MESSAGE",
    "COMMENT_ONEOF",
    "COMMENT_RPC",
    "COMMENT_SERVICE",
}


def buf(*arguments: str | Path, folder: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUF, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    # The checkout may belong to another user than the one who tests: in a container it often does.
    trusting = ("git", "-c", "safe.directory=*", *arguments)
    return subprocess.run(trusting, cwd=CHECKOUT, capture_output=True, timeout=60)


def assert_silent(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A copy of the contract that a test may spoil."""
    folder = tmp_path / "contract"
    shutil.copytree(CHECKOUT / "protos", folder / "protos")
    shutil.copy(CHECKOUT / "buf.yaml", folder)
    return folder


@pytest.fixture
def released(tmp_path: Path, contract: Path) -> Path:
    """The contract of the last tag. Before the first one nobody builds on it: then today's."""
    tag = git("describe", "--tags", "--abbrev=0", "--match", "v*")
    if tag.returncode != 0:
        print("no tag yet: the contract is compared with itself")
        return contract
    folder = tmp_path / "released"
    archive = git("archive", tag.stdout.decode().strip(), "protos", "buf.yaml")
    assert archive.returncode == 0, archive.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_the_contract_is_free_of_lint() -> None:
    assert_silent(buf("lint"))


def test_the_contract_is_formatted() -> None:
    assert_silent(buf("format", "--diff", "--exit-code", "--exclude-path", "protos/google"))


def test_the_contract_does_not_break_the_last_release(released: Path) -> None:
    assert_silent(buf("breaking", "--against", released))


def test_every_rpc_message_field_enum_value_and_oneof_must_carry_a_comment(contract: Path) -> None:
    for proto in (contract / "protos" / "spoolrack").rglob("*.proto"):
        proto.write_text(re.sub(r"//.*", "", proto.read_text()))

    lint = buf("lint", "--error-format=config-ignore-yaml", folder=contract)

    assert lint.returncode != 0
    assert set(re.findall(r"COMMENT_\w+", lint.stdout)) >= COMMENT_RULES


def test_no_comment_turns_a_lint_rule_off() -> None:
    for proto in (CHECKOUT / "protos" / "spoolrack").rglob("*.proto"):
        assert "buf:lint:ignore" not in proto.read_text(), proto


def test_a_field_that_changes_its_number_is_called_a_breaking_change(
    contract: Path, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    shutil.copytree(contract, before)
    proto = contract / "protos" / "spoolrack" / "v1" / "queue.proto"
    proto.write_text(proto.read_text().replace("bytes body = 1;", "bytes body = 99;"))

    breaking = buf("breaking", "--against", before, folder=contract)

    assert breaking.returncode != 0
    assert "body" in breaking.stdout


def test_every_proto_names_its_packages_in_go_and_java() -> None:
    protos = sorted((CHECKOUT / "protos" / "spoolrack").rglob("*.proto"))
    assert protos
    for proto in protos:
        text = proto.read_text(encoding="utf-8")
        assert 'option go_package = "spoolrack/v1;spoolrackpb";' in text, proto
        assert 'option java_package = "spoolrack.v1";' in text, proto
