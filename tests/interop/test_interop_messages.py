"""Messages cross between each language and Python, both ways, whole."""

from __future__ import annotations

from typing import Any, Final

import pytest
import spoolrack

from tests.interop.interop_driver import Driver, attributes, outgoing, raw, text
from tests.support import MIB

NOT_TEXT: Final = bytes(range(256))
BODIES: Final = (
    b"",
    b"\0",
    b"plain text",
    "Grüße, 世界 \N{SNAKE}".encode(),
    NOT_TEXT,
    b"\xff\xfe\x00\xc3\x28",
    b"a line\nand another\r\n",
)
ATTRIBUTES: Final[dict[str, str | bytes]] = {
    "text": "plain",
    "empty": "",
    "Unicode Ω": "Grüße, 世界 \N{SNAKE}",
    "binary": NOT_TEXT,
    "no bytes": b"",
}
FAR: Final = 3_600_000


def pattern(size: int) -> bytes:
    """Return a body that no cut and no repetition leaves equal."""
    return (NOT_TEXT * 257 + b"spoolrack")[: min(size, 65_801)].ljust(size, b"\xfe")


def test_bodies_of_any_bytes_reach_python_as_they_were_sent(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    results = driver.send(queue.name, [outgoing(body) for body in BODIES])

    received = queue.receive(len(BODIES))

    assert [message.body for message in received] == list(BODIES)
    assert [message.id for message in received] == [result["id"] for result in results]


def test_bodies_of_any_bytes_come_from_python_as_they_were_sent(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    sent = [result.id for result in queue.send_many(BODIES)]

    received = driver.receive(queue.name, len(BODIES))

    assert [raw(message["body"]) for message in received] == list(BODIES)
    assert [message["id"] for message in received] == sent
    assert [message["size"] for message in received] == [len(body) for body in BODIES]


def test_attributes_of_text_and_bytes_reach_python(driver: Driver, queue: spoolrack.Queue) -> None:
    driver.send(queue.name, [outgoing(b"first", **ATTRIBUTES), outgoing(b"second", only="this")])

    first, second = queue.receive(2)

    assert dict(first.attributes) == ATTRIBUTES
    assert dict(second.attributes) == {"only": "this"}


def test_attributes_of_text_and_bytes_come_from_python(driver: Driver, queue: spoolrack.Queue) -> None:
    queue.send(b"first", attributes=ATTRIBUTES)
    queue.send(b"second")

    first, second = driver.receive(queue.name, 2)

    assert attributes(first) == ATTRIBUTES
    assert attributes(second) == {}


def test_the_language_reads_the_same_message_fields_as_python(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    id = queue.send(b"known")
    (message,) = driver.receive(queue.name)
    (known,) = queue.peek()

    assert message["id"] == id == known.id
    assert message["send_ms"] == round(known.sent_at.timestamp() * 1000)
    assert message["receive_count"] == known.receive_count == 1
    assert message["receipt"].startswith(f"{queue.name}:")


@pytest.mark.parametrize("size", [8 * MIB, pytest.param(64 * MIB, marks=pytest.mark.slow)])
def test_the_largest_body_crosses_both_ways_and_one_byte_more_is_refused(
    driver: Driver, python: spoolrack.Client, queue: spoolrack.Queue, size: int
) -> None:
    python.update_queue(queue.name, max_message_size=size)
    body = pattern(size)

    (sent,) = driver.send(queue.name, [outgoing(body)])
    assert "error" not in sent
    (refused,) = driver.send(queue.name, [outgoing(body + b"!")])
    assert refused["error"]["reason"] == "MESSAGE_TOO_LARGE"
    assert refused["error"]["metadata"]["limit"] == str(size)

    (there,) = queue.receive()
    assert there.body == body
    there.release()
    (back,) = driver.receive(queue.name)
    assert raw(back["body"]) == body
    assert back["receive_count"] == 2


def test_the_valid_messages_of_a_batch_are_sent_and_the_invalid_say_why(
    driver: Driver, python: spoolrack.Client, queue: spoolrack.Queue
) -> None:
    python.update_queue(queue.name, max_message_size=10)

    results = driver.send(
        queue.name,
        [outgoing(b"fits"), outgoing(b"is too large"), outgoing(b"", **{"": "no name"}), outgoing(b"")],
    )

    assert [result.get("error", {}).get("reason") for result in results] == [
        *(None, "MESSAGE_TOO_LARGE"),
        *("INVALID_MESSAGE", None),
    ]
    assert results[1]["error"] == {
        "code": 3,
        "domain": "spoolrack",
        "reason": "MESSAGE_TOO_LARGE",
        "message": results[1]["error"]["message"],
        "metadata": {"size": "12", "limit": "10", "queue": queue.name},
        "retry_ms": None,
    }
    assert [message.body for message in queue.receive(4)] == [b"fits", b""]


def test_a_send_with_a_deduplication_id_may_be_repeated(
    driver: Driver, python: spoolrack.Client, queue: spoolrack.Queue
) -> None:
    message = {"body": text(b"once"), "deduplication_id": "Nummer 1 Ω"}

    first, again = driver.send(queue.name, [message]), driver.send(queue.name, [message])

    assert first[0]["id"] == again[0]["id"] == queue.send(b"", deduplication_id="Nummer 1 Ω")
    assert python.queue(queue.name).info().counts.ready_count == 1


def test_a_delayed_message_is_hidden(
    driver: Driver, python: spoolrack.Client, queue: spoolrack.Queue
) -> None:
    driver.send(queue.name, [outgoing(b"later") | {"delay_ms": FAR}])

    assert driver.receive(queue.name) == []
    assert python.queue(queue.name).info().counts.delayed_count == 1


def test_the_responses_of_a_send_stream_come_in_the_order_of_its_requests(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    batches: list[list[dict[str, Any]]] = [
        [outgoing(b"1"), outgoing(b"2")],
        [],
        [outgoing(b"3", **{"": "no name"})],
        [outgoing(NOT_TEXT)],
    ]

    responses = driver.do("send_stream", queue=queue.name, batches=batches)["responses"]

    assert [response["correlation_id"] for response in responses] == [1, 2, 3, 4]
    assert responses[1]["error"]["reason"] == "INVALID_REQUEST"
    assert responses[2]["results"][0]["error"]["reason"] == "INVALID_MESSAGE"
    received = queue.receive(10)
    assert [message.body for message in received] == [b"1", b"2", NOT_TEXT]
    ids = [result["id"] for n in (0, 3) for result in responses[n]["results"]]
    assert [message.id for message in received] == ids


def test_a_deleted_message_is_gone_and_a_released_one_comes_back_first(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    queue.send_many([b"1", b"2", b"3"])
    one, two, three = driver.receive(queue.name, 3)

    assert driver.change("delete", queue.name, [two["receipt"]]) == [{}]
    assert driver.change("release", queue.name, [one["receipt"], three["receipt"]]) == [{}, {}]

    assert [(message.body, message.receive_count) for message in queue.receive(3)] == [
        (b"1", 2),
        (b"3", 2),
    ]


def test_an_extended_lease_ends_when_it_says(driver: Driver, queue: spoolrack.Queue) -> None:
    queue.send(b"slow")
    (message,) = driver.receive(queue.name, visibility_ms=600_000)

    (extended,) = driver.change("extend", queue.name, [message["receipt"]], visibility_ms=FAR)

    (known,) = queue.peek()
    assert known.lease_expires_at is not None
    assert extended["due_ms"] == round(known.lease_expires_at.timestamp() * 1000)
    assert extended["due_ms"] > message["send_ms"] + 600_000


def test_a_stale_receipt_is_refused_beside_one_that_is_good(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    queue.send_many([b"1", b"2"])
    stale, good = driver.receive(queue.name, 2)
    driver.change("release", queue.name, [stale["receipt"]])
    (again,) = queue.receive()

    for op in ("extend", "release", "delete"):
        more = {"visibility_ms": FAR} if op == "extend" else {}
        first, second = driver.change(op, queue.name, [stale["receipt"], good["receipt"]], **more)
        assert first["error"]["reason"] == "STALE_RECEIPT"
        assert first["error"]["code"] == 9
        assert first["error"]["metadata"] == {"id": stale["id"]}
        if op == "release":
            (good,) = driver.receive(queue.name)
        else:
            assert "error" not in second

    assert [message.id for message in queue.peek()] == [again.id]
