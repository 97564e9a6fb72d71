"""What the store says, and what it remembers of the deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import DAY, HOUR, Millis
from spoolrack_store.model.errors import InvalidRequest, InvalidSetting, MessageNotFound, QueueExists
from spoolrack_store.model.operations import (
    ById,
    CreateQueue,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Receive,
    Send,
)
from spoolrack_store.model.settings import QueueSettings

LETTERS = logging.getLogger("spoolrack_store.engine.letters")


def test_a_delete_by_id_does_not_find_what_a_purge_has_deleted() -> None:
    rig = EngineRig(MemoryDisk())
    rig.create()
    ids = [*rig.send(b"alone"), *rig.send(b"one", b"two")]
    assert rig.ask(Purge(queue="q")) == 3
    results = rig.ask(Delete(queue="q", targets=[ById(id) for id in ids]))
    assert [type(result) for result in results] == [MessageNotFound] * 3


def test_other_settings_are_told_with_their_units() -> None:
    rig = EngineRig(MemoryDisk())
    rig.create(visibility_timeout=5_000)
    with pytest.raises(QueueExists, match="visibility_timeout is 5 s, not 30 s"):
        rig.ask(CreateQueue(name="q", settings=QueueSettings()))


def test_spans_of_time_in_errors_have_units() -> None:
    rig = EngineRig(MemoryDisk())
    rig.create()
    with pytest.raises(InvalidSetting, match="can't be '13 h': it must be from 1 ms to 12 h"):
        QueueSettings(visibility_timeout=Millis(13 * HOUR))
    with pytest.raises(InvalidRequest, match="can't be '90000500 ms': it must be from 1 ms to 12 h"):
        rig.ask(Receive(queue="q", visibility=Millis(25 * HOUR + 500)))
    (refused,) = rig.ask(Send(queue="q", messages=[Outgoing(body=b"", delay=Millis(366 * DAY))]))
    assert "its delay of 366 d is not from 0 s to 365 d" in str(refused)


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What is said of dead letters, whatever another test has done to the store's log."""
    kept = Kept()
    LETTERS.addHandler(kept)
    LETTERS.setLevel(logging.ERROR)
    yield kept.said
    LETTERS.setLevel(logging.NOTSET)
    LETTERS.removeHandler(kept)


def test_a_missing_dead_letter_queue_is_told_once_and_loses_nothing(said: list[str]) -> None:
    rig = EngineRig(MemoryDisk())
    rig.create("grave")
    rig.create(max_receives=1, dead_letter_queue="grave")
    rig.ask(DeleteQueue(name="grave"))
    (id,) = rig.send(b"undying")
    for _ in range(4):
        assert [message.id for message in rig.receive(visibility=1_000)] == [id]
        rig.clock.advance(1_000)
    assert sum("grave is missing" in line for line in said) == 1
