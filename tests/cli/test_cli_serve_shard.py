"""`spoolrack serve --shard`: the root is kept as that shard, and never served as another one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from spoolrack_store.model.shards import Shard
from spoolrack_store.store import Store

from tests.cli.cli_rig import Spoolrack
from tests.support import STUCK
from tests.support.serving import PROGRAM, output_of, serving


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = tmp_path / "root"
    Store.open(path, shard=Shard(3, 8)).close()
    return str(path)


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a server that must be refused."""
    return subprocess.run(
        [*PROGRAM, "serve", *options], capture_output=True, text=True, timeout=STUCK, check=False
    )


@pytest.mark.parametrize("shard", ["8/8", "2", "two of eight"])
def test_what_is_no_shard_is_refused_with_the_form(shard: str) -> None:
    done = serve("--shard", shard)
    assert done.returncode == 2
    assert "it must be NUMBER/COUNT, such as 2/8" in " ".join(done.stderr.split())


def test_another_shard_is_refused_with_the_commands_that_move_its_queues(root: str) -> None:
    done = serve("--root", root, "--shard", "2/8", "--grpc", "127.0.0.1:0", "--http", "off")
    assert done.returncode == 73
    assert "it is shard 3/8, not 2/8" in done.stderr
    assert f"spoolrack export --root {root} --output FILE QUEUE..." in done.stderr
    assert "spoolrack import --url ADDRESS,ADDRESS,... FILE" in done.stderr


@pytest.mark.parametrize("options", [(), ("--shard", "3/8")])
def test_what_serve_says_to_type_next_works_on_a_shard(root: str, options: tuple[str, ...]) -> None:
    with serving("--root", root, "--grpc", "127.0.0.1:0", "--http", "off", *options) as server:
        assert server.at("Shard") == "3/8"
        typed = re.sub(r"python[0-9.]*(?= -m)", sys.executable, server.said[-1])
        assert output_of("sh", "-c", typed).splitlines()[1] == "Hello, world"


def test_fsck_and_describe_show_the_shard(on_root: Spoolrack, offline: Spoolrack, root: str) -> None:
    assert json.loads(offline("fsck", root, "--json").out)["shard"] == "3/8"
    assert on_root("queues", "create", "jobs").code == 0
    described = on_root("queues", "describe", "jobs").out
    assert "It is on shard 3/8." in described
    assert json.loads(on_root("queues", "show", "jobs", "--json").out)["shard"] == "3/8"


def test_a_shard_without_queues_speaks_of_itself_alone(on_root: Spoolrack, root: str) -> None:
    missing = on_root("send", "jobs", "x")
    assert missing.code == 1
    assert missing.err.endswith(f"{root} has no queue yet: spoolrack queues create NAME makes one.\n")
