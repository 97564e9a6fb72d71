"""A process that closes a root which others have open leaves nothing behind that they can't see."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from spoolrack_store.store import Store

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


def test_no_exact_question_is_answered_while_a_store_leaves_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "root") as store:
        free: list[bool] = []
        leave = store._engine.close

        def try_to_ask() -> None:
            is_free = store._changing.acquire(blocking=False)
            free.append(is_free)
            if is_free:
                store._changing.release()

        def leave_beside_a_question() -> bool:
            question = threading.Thread(target=try_to_ask)
            question.start()
            question.join()
            return leave()

        monkeypatch.setattr(store._engine, "close", leave_beside_a_question)
        store.close()
        assert free == [False]
