"""Queues, as a user or an operator sees them: requests, settings that are damaged or lost, figures."""

from __future__ import annotations

from typing import Any

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    InvalidSetting,
    QueueExists,
    QueueNotFound,
)
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, Receive, Send, UpdateQueue
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_rig import EngineRig


class Rig(EngineRig):
    def __init__(self) -> None:
        super().__init__({})

    def do(self, *requests: Any) -> Any:
        """Return the outcome of the last of `requests`."""
        outcomes = self.commit(*requests)
        return outcomes[-1] if requests else None

    def create(self, name: str = "q", **settings: Any) -> Any:
        return self.do(CreateQueue(name=name, settings=QueueSettings(**settings)))

    def send(self, *bodies: bytes, name: str = "q") -> Any:
        return self.do(Send(queue=name, bodies=bodies))

    def receive(self, most: int = 10) -> list[bytes]:
        found = self.do(
            Receive(queue="q", max_messages=most, max_bytes=10_000, visibility_timeout=Millis(1_000))
        )
        return [body for delivery in found for body in delivery.bodies]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_dead_letters_must_not_come_back(rig: Rig) -> None:
    rig.create("a")
    rig.create("b", max_receives=1, dead_letter_queue="a")
    changes = {"max_receives": 1, "dead_letter_queue": "b"}
    outcome = rig.do(UpdateQueue(name="a", changes=changes))
    assert isinstance(outcome, InvalidSetting)
    assert "must not lead back" in str(outcome)


def test_a_queue_whose_dead_letter_queue_was_deleted_is_changed_as_any_other(rig: Rig) -> None:
    rig.create("dead")
    rig.create(max_receives=1, dead_letter_queue="dead")
    rig.do(DeleteQueue(name="dead"))
    rig.settle()
    for changes in (
        {"sending": "paused"},
        {"max_receives": 5},
        # A client that writes back all that it has read.
        {"dead_letter_queue": "dead", "max_receives": 5, "receiving": "paused"},
    ):
        assert rig.do(UpdateQueue(name="q", changes=changes)).settings.dead_letter_queue == "dead"
    assert rig.do(UpdateQueue(name="q", changes={}, labels={"team": "a"})).labels == {"team": "a"}
    missing = rig.do(UpdateQueue(name="q", changes={"dead_letter_queue": "none"}))
    assert isinstance(missing, InvalidSetting)
    none = {"dead_letter_queue": "", "max_receives": 0}
    assert rig.do(UpdateQueue(name="q", changes=none)).settings.dead_letter_queue == ""
    again = rig.do(UpdateQueue(name="q", changes={"dead_letter_queue": "dead", "max_receives": 5}))
    assert isinstance(again, InvalidSetting)


@pytest.mark.parametrize(
    "waiting",
    [
        Receive(queue="q", max_bytes=10_000, wait=None),
        Reserve(queue="q", stream="s", sequence_number=1, wait=None),
    ],
)
def test_a_request_that_waits_gets_nothing_of_another_queue_with_the_same_name(
    rig: Rig, waiting: Receive | Reserve
) -> None:
    rig.create()
    assert not rig.do(waiting)
    rig.do(UpdateQueue(name="q", changes={"max_messages": 7}))
    assert not rig.do(waiting)
    # All within one look of the process in which it waits.
    rig.do(DeleteQueue(name="q"))
    rig.settle()
    rig.create()
    rig.send(b"a")
    assert isinstance(rig.do(waiting), QueueNotFound)
    assert rig.receive() == [b"a"]


def test_an_update_is_a_new_file_and_outlives_a_restart(rig: Rig) -> None:
    created = rig.create()
    updated = rig.do(UpdateQueue(name="q", changes={"max_messages": 7}))
    assert (updated.version, updated.created_at) == (2, created.created_at)
    rig.do()
    assert rig.names("config") == ["q.2.json"]
    rig.restart()
    assert rig.engine.catalog.records["q"].settings.max_messages == 7


def test_labels_outlive_a_restart_and_are_changed_one_by_one(rig: Rig) -> None:
    rig.do(CreateQueue(name="q", settings=QueueSettings(), labels={"team": "a", "tier": "gold"}))
    changed = rig.do(UpdateQueue(name="q", changes={}, labels={"team": "b", "tier": None, "cost": ""}))
    assert (changed.version, changed.labels) == (2, {"team": "b", "cost": ""})
    rig.do()
    rig.restart()
    assert rig.engine.catalog.records["q"].labels == {"team": "b", "cost": ""}


def test_a_queue_with_other_labels_is_another_queue(rig: Rig) -> None:
    rig.do(CreateQueue(name="q", settings=QueueSettings(), labels={"team": "a", "tier": "gold"}))
    assert rig.do(CreateQueue(name="q", settings=QueueSettings(), labels={"team": "a"})).version == 1
    other = rig.do(CreateQueue(name="q", settings=QueueSettings(), labels={"team": "b"}))
    assert isinstance(other, QueueExists)
    assert "label team" in str(other)


def test_an_update_that_gives_a_queue_too_many_labels_changes_nothing(rig: Rig) -> None:
    labels = {str(number): "" for number in range(64)}
    rig.do(CreateQueue(name="q", settings=QueueSettings(), labels=labels))
    assert isinstance(
        rig.do(UpdateQueue(name="q", changes={}, labels={"one more": ""})), InvalidSetting
    )
    assert rig.engine.catalog.records["q"].labels == labels


def test_an_operator_s_files_in_a_deleted_queue_s_folder_are_kept(rig: Rig) -> None:
    rig.create()
    rig.disk.create("queues/q/notes.txt", [b"mine"], sync=True)
    rig.do(DeleteQueue(name="q"))
    rig.settle()
    (place,) = rig.names("quarantine")
    assert rig.names(f"quarantine/{place}") == ["notes.txt", "notes.txt.why"]
    assert rig.names("queues") == []


def test_damaged_settings_go_to_quarantine_and_older_ones_count(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.create(max_messages=5)
    rig.disk.create("config/q.2.json", [b'{"created_at":1}\n00000000\n'], sync=True)
    rig.restart()
    assert rig.engine.catalog.records["q"].settings.max_messages == 5
    assert rig.names("config") == ["q.1.json"]
    (place,) = rig.names("quarantine")
    assert rig.names(f"quarantine/{place}") == ["q.2.json", "q.2.json.why"]
    assert "'config/q.2.json' is moved to quarantine" in caplog.text
    assert b"config/q.2.json" in rig.disk.read(f"quarantine/{place}/q.2.json.why")


def test_a_message_that_comes_back_again_and_again_is_named(rig: Rig) -> None:
    rig.create()
    stored = rig.send(b"poison")
    rig.do()
    for _ in range(3):
        assert rig.receive() == [b"poison"]
        rig.clock.now += 2_000
        rig.do()
    blocking = rig.engine.views.queue(rig.engine.catalog.records["q"]).blocking_message
    assert blocking is not None
    assert (blocking.id, blocking.receive_count) == (stored.results[0], 3)
