"""The contract is well formed, commented throughout, and breaks clients of a release as listed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests import CHECKOUT

LAST, NEXT = (Path(__file__).parent / f"v1.0.0-beta.{number}.binpb" for number in (1, 2))
"""The contracts of the last release and of the next one, by `buf build --exclude-source-info -o`."""
CHANGES = CHECKOUT / "protos" / "CHANGES.md"
"""The breaking changes since the last release: in the first column of a table."""
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


def assert_silent(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A copy of the contract that a test may spoil."""
    folder = tmp_path / "contract"
    shutil.copytree(CHECKOUT / "protos", folder / "protos")
    shutil.copy(CHECKOUT / "buf.yaml", folder)
    return folder


def test_the_contract_is_free_of_lint() -> None:
    assert_silent(buf("lint"))


def test_the_contract_is_formatted() -> None:
    assert_silent(buf("format", "--diff", "--exit-code", "--exclude-path", "protos/google"))


def test_the_contract_does_not_break_the_next_release() -> None:
    assert_silent(buf("breaking", "--against", NEXT))


def test_the_list_of_changes_names_all_that_breaks_the_last_release_and_nothing_else() -> None:
    breaking = buf("breaking", "--against", LAST).stdout
    named = r'(?:on|present) (?:message|enum|RPC|service) "(\w+)"'
    assert breaking
    found = {re.findall(named, line)[0] for line in breaking.splitlines()}
    listed = re.findall(r"^\| `(\w+)`", CHANGES.read_text(encoding="utf-8"), re.M)
    assert sorted(found) == sorted(listed)


def test_the_last_release_of_the_contract_is_in_the_changelog() -> None:
    changelog = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    last = re.search(r"^## \[(\d.*?)\]", changelog, re.M)
    assert last is not None
    assert LAST.name == f"v{last[1]}.binpb"


def test_every_rpc_message_field_enum_value_and_oneof_must_carry_a_comment(contract: Path) -> None:
    for proto in (contract / "protos" / "spoolrack").rglob("*.proto"):
        proto.write_text(re.sub(r"//.*", "", proto.read_text()))

    lint = buf("lint", "--error-format=config-ignore-yaml", folder=contract)

    assert lint.returncode != 0
    assert set(re.findall(r"COMMENT_\w+", lint.stdout)) >= COMMENT_RULES


def test_no_comment_turns_a_lint_rule_off() -> None:
    for proto in (CHECKOUT / "protos" / "spoolrack").rglob("*.proto"):
        assert "buf:lint:ignore" not in proto.read_text(), proto


def test_a_field_that_changes_its_number_is_called_a_breaking_change(contract: Path) -> None:
    proto = contract / "protos" / "spoolrack" / "v1" / "queue.proto"
    proto.write_text(proto.read_text().replace("bytes body = 1;", "bytes body = 99;"))

    breaking = buf("breaking", "--against", NEXT, folder=contract)

    assert breaking.returncode != 0
    assert "body" in breaking.stdout


def test_every_proto_names_its_packages_in_go_and_java() -> None:
    protos = sorted((CHECKOUT / "protos" / "spoolrack").rglob("*.proto"))
    assert protos
    for proto in protos:
        text = proto.read_text(encoding="utf-8")
        assert 'option go_package = "spoolrack/v1;spoolrackpb";' in text, proto
        assert 'option java_package = "spoolrack.v1";' in text, proto
        assert "option java_multiple_files = true;" in text, proto
