"""A process that closes a root which others have open leaves nothing behind that they can't see."""

from __future__ import annotations

import errno

import pytest

from tests.store.trouble_rig import TwoProcesses
from tests.support.engines import commit


@pytest.fixture
def both() -> TwoProcesses:
    return TwoProcesses()


def test_the_last_messages_of_a_closed_process_are_received_by_others(both: TwoProcesses) -> None:
    both.send(b"last")
    assert both.first.close()
    both.living.discard("p1")
    assert both.received() == [b"last"]
    assert both.second.sharing.is_shared is False


def test_other_processes_publish_messages_that_the_disk_refuses_to_one(
    both: TwoProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    both.send(b"last")
    both.disk.fail(errno.EDQUOT, "rename_new", path="queues/q/")
    assert both.first.close()
    both.disk.heal()
    both.living.discard("p1")
    assert both.received() == []
    commit(both.second, tick=True)
    assert both.received() == [b"last"]
    assert "have died: p1" in caplog.text
