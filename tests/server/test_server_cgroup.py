"""Which limit of memory a process has, by the files of its control group."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_server.system.cgroup import machine_memory, memory_limit

GIB = 1024**3


def limit(folder: Path, groups: str, files: dict[str, str]) -> int | None:
    (folder / "cgroup").write_text(groups)
    for name, text in files.items():
        file = folder / "mounted" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return memory_limit(folder / "cgroup", folder / "mounted")


@pytest.mark.parametrize(
    ("groups", "files", "wanted"),
    [
        ("0::/\n", {"memory.max": f"{GIB}\n"}, GIB),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/\n", {}, None),
        # The strictest of the groups above holds.
        ("0::/a/b\n", {"a/memory.max": f"{GIB}\n", "a/b/memory.max": "max\n"}, GIB),
        ("0::/a/b\n", {"a/memory.max": f"{2 * GIB}\n", "a/b/memory.max": f"{GIB}\n"}, GIB),
        ("4:cpu:/x\n5:memory:/d\n", {"memory/d/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        ("5:memory:/d\n", {"memory/d/memory.limit_in_bytes": "9223372036854771712\n"}, None),
    ],
)
def test_the_limit_is_the_least_that_any_group_states(
    tmp_path: Path, groups: str, files: dict[str, str], wanted: int | None
) -> None:
    assert limit(tmp_path, groups, files) == wanted


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert memory_limit(tmp_path / "nothing", tmp_path) is None
    assert machine_memory() > 64 * 1024 * 1024
