"""A process killed in the middle of a step leaves nothing lost, nothing twice, nothing half done."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from spoolrack import vsqs
from spoolrack.vsqs import FileState, Queue, stored_messages

from tests.support import STUCK

DYING = Path(__file__).with_name("dying.py")
STEPS = [
    (call, count, when)
    for call, counts in (
        ("open", (3,)),
        ("write", (4,)),
        ("fsync", (1, 2, 5, 9)),
        ("rename", (1, 2, 3, 6)),
        ("unlink", (1,)),
    )
    for count in counts
    for when in ("before", "after")
]


def said(words: list[str], verb: str) -> set[str]:
    return {line.split()[1] for line in words if line.startswith(f"{verb} ")}


@pytest.mark.parametrize(("call", "count", "when"), STEPS)
def test_a_kill_in_the_middle_of_a_step_loses_nothing_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, count: int, when: str
) -> None:
    folder = tmp_path / "jobs"
    ended = subprocess.run(
        [sys.executable, str(DYING), str(folder), call, str(count), when],
        stdout=subprocess.PIPE,
        text=True,
        timeout=STUCK,
    )
    words = ended.stdout.splitlines()
    assert ended.returncode == -9, "it was to be killed"
    published, deleted = said(words, "published"), said(words, "deleted")
    doubtful = (said(words, "publishing") - published) | (said(words, "deleting") - deleted)

    later = time.time_ns() // 1_000 + 3_601_000_000
    monkeypatch.setattr(vsqs, "micros", lambda: later)
    with Queue(folder) as queue:
        bodies: list[str] = []
        while (message := queue.receive(timeout=0, visibility_timeout=3600))[1] is not None:
            bodies.append(message[1].decode())
            queue.delete(message[0])
        assert queue.size() == 0

    assert len(bodies) == len(set(bodies)), "a message came twice"
    assert published - deleted - doubtful <= set(bodies), "a message is lost"
    assert set(bodies) <= (published - deleted) | doubtful, "a message came back, or is torn"
    assert bodies == sorted(bodies)
    left = list(stored_messages(folder))
    assert all(stored.state is FileState.NEW for stored in left)
    assert len(left) <= 1
