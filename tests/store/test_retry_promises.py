"""Releases with delays, rejections, and the back-off of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import DAY, HOUR, SECOND, Millis
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.names import Name
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    LastReceive,
    Message,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Send,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.engines import commit
from tests.support.root_rig import NOW, Still, lay_out, opened, settle

WORN = QueueSettings(max_receives=3, dead_letter_queue="dead", visibility_timeout=Millis(HOUR))
AT_EXPIRY = QueueSettings(
    visibility_timeout=Millis(10_000), backoff_at="lease_end", backoff_initial=Millis(4_000)
)


class Rig:
    """An engine on a root with a queue `w` that has dead letters, and a clock to move."""

    def __init__(self, root: Path) -> None:
        self.root = root
        lay_out(root)
        self.clock = Still()
        self.engine = opened(root, self.clock)
        self.ask(CreateQueue(name="w", settings=WORN))
        self.ask(CreateQueue(name="e", settings=AT_EXPIRY))

    def restart(self, after: int = 0) -> None:
        """Kill the process; the next one starts so much later."""
        self.clock = Still(Millis(self.clock.now + after))
        self.engine: Engine = opened(self.root, self.clock)
        settle(self.engine)

    def pass_by(self, span: int) -> None:
        self.clock.now = Millis(self.clock.now + span)
        settle(self.engine)

    def ask(self, request: object) -> object:
        (answer,) = commit(self.engine, request)  # type: ignore[arg-type]
        return answer

    def send(self, queue: str, *bodies: bytes) -> None:
        self.ask(Send(queue=queue, bodies=bodies))
        settle(self.engine)

    def receive(self, queue: str, count: int = 1) -> list[Message]:
        found = self.ask(Receive(queue=queue, max_messages=count))
        assert isinstance(found, list), found
        return messages_of(found)

    def name(self, id: str) -> Name:
        """Return the name that holds a message."""
        found = self.engine.index.holder(id)
        assert found is not None
        return found[0].name

    def dead(self) -> list[Message]:
        settle(self.engine)
        return self.receive("dead", 100)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "root")


def receipts(messages: Sequence[Message]) -> list[str]:
    return [message.receipt or "" for message in messages]


# Rejections.


def test_a_damaged_message_that_is_rejected_goes_to_quarantine_when_it_is_received(rig: Rig) -> None:
    rig.send("w", b"as it was sent")
    (file,) = (rig.root / "queues" / "w").iterdir()
    rig.restart()
    (taken,) = rig.receive("w")
    (file,) = (rig.root / "delay").iterdir()
    file.write_bytes(b"as it was spent"[:14])
    rig.restart()
    assert rig.ask(RejectMessages(queue="w", receipts=receipts([taken]))) == [None]
    assert rig.dead() == []
    assert len(list((rig.root / "quarantine").iterdir())) == 1


def test_a_reason_is_bounded(rig: Rig) -> None:
    rig.send("w", b"1")
    taken = receipts(rig.receive("w"))
    for refused in (
        rig.ask(RejectMessages(queue="w", receipts=taken, reason="x" * 1_025)),
        rig.ask(RejectMessages(queue="w", receipts=taken, reason="\ud800")),
        rig.ask(ReleaseMessages(queue="w", receipts=taken, reason="x" * 1_025)),
    ):
        assert isinstance(refused, InvalidRequest)
    assert rig.ask(RejectMessages(queue="w", receipts=taken, reason="é" * 1_024)) == [None]


# Releases.


def test_a_delay_is_bounded(rig: Rig) -> None:
    rig.send("w", b"1")
    taken = receipts(rig.receive("w"))
    for delay in (-1, 365 * DAY + 1):
        refused = rig.ask(ReleaseMessages(queue="w", receipts=taken, delay=Millis(delay)))
        assert isinstance(refused, InvalidRequest)
    assert rig.ask(ReleaseMessages(queue="w", receipts=taken, delay=Millis(365 * DAY))) == [
        NOW + 365 * DAY
    ]


# The back-off of a queue.


@pytest.mark.parametrize("late", [0, 1, 1_234])
def test_the_back_off_of_an_expired_lease_ends_at_one_time_also_if_a_process_is_late(
    rig: Rig, late: int
) -> None:
    rig.send("e", b"1")
    (taken,) = rig.receive("e")
    rig.restart(after=10_000 + late)
    assert rig.name(taken.id).due == NOW + 10_000 + AT_EXPIRY.backoff(taken.id, 1)


def test_a_back_off_that_is_over_at_a_start_hides_nothing(rig: Rig) -> None:
    rig.send("e", b"1")
    rig.receive("e")
    rig.restart(after=14_000)
    assert len(rig.receive("e")) == 1


def test_a_visibility_of_zero_makes_a_message_ready_at_once_despite_a_back_off(rig: Rig) -> None:
    rig.send("e", b"1")
    taken = receipts(rig.receive("e"))
    assert rig.ask(ChangeVisibility(queue="e", receipts=taken, visibility_timeout=Millis(0))) == [0]
    assert len(rig.receive("e")) == 1


def test_the_last_receive_still_speaks_for_a_message_in_its_back_off(rig: Rig) -> None:
    rig.send("e", b"1", b"2", b"3")
    taken = rig.receive("e", 3)
    assert all(message.first_received_at is not None for message in taken)
    rig.pass_by(10_000)
    last = LastReceive(1, NOW)
    deleted = Delete(queue="e", receipts=receipts(taken[:1]), last_receives={0: last})
    assert rig.ask(deleted) == [None]
    hidden = ChangeVisibility(
        queue="e",
        receipts=receipts(taken[1:2]),
        visibility_timeout=Millis(60_000),
        last_receives={0: last},
    )
    assert rig.ask(hidden) == [rig.clock.now + 60_000]
    ready = ChangeVisibility(
        queue="e", receipts=receipts(taken[2:]), visibility_timeout=Millis(0), last_receives={0: last}
    )
    assert rig.ask(ready) == [0]
    assert [message.body for message in rig.receive("e", 3)] == [b"3"]


# The function.


def test_a_back_off_grows_up_to_its_maximum_and_is_shortened_by_its_jitter_at_most() -> None:
    settings = QueueSettings(
        backoff_initial=Millis(SECOND),
        backoff_factor=3,
        backoff_maximum=Millis(60 * SECOND),
        backoff_jitter=20,
    )
    for receives in (1, 2, 3, 4, 5, 100, 999_999_999):
        whole = min(60_000, 1_000 * 3 ** min(receives - 1, 10))
        spread = {settings.backoff(f"{number:032x}", receives) for number in range(200)}
        assert len(spread) > 50
        assert all(0.8 * whole <= each <= whole for each in spread)


def test_a_back_off_without_jitter_is_exact() -> None:
    settings = QueueSettings(backoff_jitter=0)
    assert [settings.backoff("x", receives) for receives in range(1, 12)] == [
        *(1_000 * 2**power for power in range(9)),
        300_000,
        300_000,
    ]


def test_a_back_off_is_the_same_in_every_process() -> None:
    """The numbers are those of docs/reference/disk-format.md, for other implementations."""
    id = "018bcfe5-6800-7000-8000-000000000001"
    assert [QueueSettings().backoff(id, receives) for receives in (1, 2, 3)] == [975, 1522, 2887]
