"""How a message came to be a dead letter is told to who looks at it, and never stands in his way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.deaths import MAX_TOLD, Death, NotAHistory, deaths_in
from spoolrack_store.model.operations import ById, Delete, Message, Outgoing, Send, Sent
from spoolrack_store.store import Store
from spoolrack_store.testing import ManualClock
from store_rig import StoreRig, opened, until


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StoreRig]:
    with opened(tmp_path / "root") as rig:
        rig.create("dead")
        rig.create("q", max_receives=2, dead_letter_queue="dead", visibility_timeout=1_000)
        yield rig


def die(rig: StoreRig, body: bytes = b"poison") -> str:
    """Send a message, and receive it until it is dead."""
    (id,) = rig.send(body)
    for _ in range(2):
        assert [message.id for message in rig.receive()] == [id]
        rig.clock.advance(Millis(1_000))
    assert rig.receive() == []
    return id


def history(rig: StoreRig, id: str) -> Path:
    return rig.path / "history" / f"dead:{id}"


def test_a_dead_letter_that_is_looked_at_tells_how_it_died(rig: StoreRig) -> None:
    begin = rig.clock.wall()
    id = die(rig)
    death = Death(
        source_queue="q",
        reason="max_receives",
        receives=2,
        first_receive=begin,
        died_at=Millis(begin + 2_000),
    )
    assert rig.store.message("dead", id).deaths == (death,)
    for most in (None, 0, 3):
        (message,) = rig.store.messages("dead", max_body_bytes=most)
        assert message.deaths == (death,)


def test_a_history_survives_a_restart_and_is_told_after_it(rig: StoreRig) -> None:
    id = die(rig)
    told = rig.store.message("dead", id).deaths
    rig.store.close()
    with opened(rig.path, rig.clock) as again:
        assert again.store.message("dead", id).deaths == told != ()


def test_other_messages_have_no_history_and_no_file_is_looked_for(rig: StoreRig) -> None:
    die(rig)
    (id,) = rig.send(b"alive", queue="dead")
    rig.disk.fail(5, "read", path="history/")
    assert rig.store.message("dead", id).deaths == ()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"[{}]", b"\xff", b"null", b'["a"]'])
def test_a_history_that_cannot_be_read_never_fails_a_look(
    rig: StoreRig, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    id = die(rig)
    history(rig, id).write_bytes(content)
    message = rig.store.message("dead", id)
    assert (message.body, message.deaths) == (b"poison", ())
    (message,) = rig.store.messages("dead")
    assert (message.body, message.deaths) == (b"poison", ())
    assert all(id in said for said in caplog.messages)


def test_a_history_that_the_disk_refuses_or_has_lost_never_fails_a_look(rig: StoreRig) -> None:
    id = die(rig)
    rig.disk.fail(5, "read", path="history/")
    assert rig.store.message("dead", id).deaths == ()
    rig.disk.heal()
    history(rig, id).unlink()
    assert rig.store.message("dead", id).deaths == ()


def test_a_history_goes_with_its_message(rig: StoreRig) -> None:
    id = die(rig)
    assert rig.ask(Delete(queue="dead", targets=[ById(id)])) == [None]
    rig.store.close()
    with opened(rig.path, rig.clock) as again:
        assert again.store.messages("dead") == []
        # The same id again, as one may come from an archive, is another message.
        until(lambda: not history(again, id).exists())


def test_a_death_that_another_process_saw_is_told_too(tmp_path: Path) -> None:
    clock = ManualClock()
    root = tmp_path / "root"
    with opened(root, clock) as rig:
        rig.create("dead")
        rig.create("q", max_receives=1, dead_letter_queue="dead", visibility_timeout=1_000)
    with Store.open(root, clock=clock) as one, Store.open(root, clock=clock) as other:
        (sent,) = one.submit(Send(queue="q", messages=[Outgoing(body=b"a")])).result(60)
        assert isinstance(sent, Sent)
        with_one = StoreRig(root, None, clock, one)  # type: ignore[arg-type]  # its disk isn't used
        with_one.receive()
        clock.advance(Millis(1_000))
        assert with_one.receive() == []
        found: list[Message] = StoreRig(root, None, clock, other).receive(queue="dead")  # type: ignore[arg-type]
        assert [message.id for message in found] == [sent.id]
        assert found[0].deaths == (), "a receive reads no history"
        (death,) = other.message("dead", sent.id).deaths
        assert death.source_queue == "q"


def chapter(n: int) -> dict[str, object]:
    return {"source_queue": f"q{n}", "reason": "max_receives", "receives": n, "buried_at_ms": n}


def test_only_the_last_deaths_are_told_the_oldest_first() -> None:
    told = deaths_in(json.dumps([chapter(n) for n in range(MAX_TOLD + 5)]).encode())
    assert [death.receives for death in told] == list(range(5, MAX_TOLD + 5))
    assert told[0].first_receive is None


def test_what_is_no_history_is_said_to_be_none() -> None:
    for content in (b"", b"7", b"{}", b"[{}]", b"[[]]", b'"text"', b"[" * 100_000):
        with pytest.raises(NotAHistory):
            deaths_in(content)


@pytest.mark.parametrize(
    "lie",
    [
        *({"receives": value} for value in (-1, 2**31, 1.5, True, None, "2", [])),
        *({"buried_at_ms": value} for value in (-1, 10**13, float("inf"))),
        *({"first_receive_ms": value} for value in (-1, 10**13, "")),
        *({"source_queue": value} for value in ("", "../q", "\ud800", None, 7)),
        *({"redriven_to": value, "redriven_at_ms": 1} for value in ("../q", 7)),
        *({"redriven_to": "q", "redriven_at_ms": value} for value in (-1, 10**13, None, "")),
        {"redriven_to": "q"},
        *({"reason": value} for value in ("", "\x1b[31m", "r" * 41, None, 7)),
    ],
)
def test_what_a_history_could_not_say_is_not_passed_on(lie: dict[str, object]) -> None:
    with pytest.raises(NotAHistory):
        deaths_in(json.dumps([chapter(1) | lie]).encode())
