"""A strict group keeps its order over consumers, processes and kills.

`SPOOLRACK_GROUPS`, `SPOOLRACK_GROUP_SIZE` and `SPOOLRACK_KILLS` say how large it is, as in 1,000
groups of 100 with 20 kills, which takes more than pytest's bound: add `--timeout=1500`.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP

pytestmark = pytest.mark.timeout(300)
GROUPS = int(os.environ.get("SPOOLRACK_GROUPS", "20"))
SIZE = int(os.environ.get("SPOOLRACK_GROUP_SIZE", "10"))
KILLS = int(os.environ.get("SPOOLRACK_KILLS", "4"))
PROCESSES = 2
CONSUMERS = Path(__file__).with_name("group_consumers.py")


def test_a_strict_group_is_in_order_over_consumers_that_are_killed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _send_all(root)
    reading, writing = os.pipe()
    living = [_started(root, writing) for _ in range(PROCESSES)]
    total = GROUPS * SIZE
    seen: dict[str, list[int]] = defaultdict(list)
    count = kills = 0
    try:
        for line in _lines(reading):
            group, _, place = line.partition("-")
            if int(place) in seen[group]:
                continue  # It came again, as its consumer was killed or its lease was over.
            seen[group].append(int(place))
            count += 1
            if count == total:
                break
            if count >= (kills + 1) * total // (KILLS + 1):
                _killed(living.pop(0))
                living.append(_started(root, writing))
                kills += 1
    finally:
        for process in living:
            _killed(process)
        os.close(reading)
        os.close(writing)
    assert kills == KILLS
    assert len(seen) == GROUPS
    assert {group: places for group, places in seen.items() if places != list(range(SIZE))} == {}


def _send_all(root: Path) -> None:
    """Send the messages of all groups, mixed."""
    with Store.open(root) as store:
        settings = QueueSettings(group_order="strict")
        store.submit(CreateQueue(name="q", settings=settings)).result(GIVE_UP)
        for place in range(SIZE):
            bodies = [b"g%d-%d" % (group, place) for group in range(GROUPS)]
            groups = {group: f"g{group}" for group in range(GROUPS)}
            results = store.submit(Send(queue="q", bodies=bodies, groups=groups)).result(GIVE_UP)
            assert all(isinstance(result, str) for result in results.results)


def _started(root: Path, pipe: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(CONSUMERS), str(root), str(pipe)]
    return subprocess.Popen(command, pass_fds=[pipe], env=environment)


def _killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(GIVE_UP)


def _lines(pipe: int) -> Iterator[str]:
    rest = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], GIVE_UP)
        assert ready, "no consumer has received anything for a minute"
        *lines, rest = (rest + os.read(pipe, 65_536)).split(b"\n")
        yield from (line.decode() for line in lines)
