"""The rule of each argument of the surface, over every transport. An invalid argument is refused where
it is given, with an error that names argument, value and rule."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
import spoolrack
from spoolrack import Backoff, ById, Outgoing, Retry, RetryPolicy, aio
from spoolrack.aio._redrives import Redrives
from spoolrack.aio._reservations import Reservations
from spoolrack.aio._staging import Staging
from spoolrack.errors import InvalidRequest

pytestmark = pytest.mark.needs("a client")

NAN: Final = math.nan
NO_INTEGERS: Final = [True, 1.0, NAN, math.inf, "1", b"1", [], object()]
FROM_1: Final = [*NO_INTEGERS, 0, -1, -(10**30), 10**30, None]
FROM_0: Final = [*NO_INTEGERS, -1, -(10**30), 10**30, None]
OPTIONAL_FROM_0: Final = FROM_0[:-1]
NO_SPANS: Final = [True, NAN, math.inf, -math.inf, -1, -1e-9, 1e12, 10**400, "1", b"1", [], object()]
NO_SPANS += [timedelta(seconds=-1), timedelta.max]
NO_TEXT: Final = [5, b"jobs", None, ["jobs"], "\ud800", "jobs\udfff"]
NO_MANY: Final = [5, None, object(), "text", b"body", bytearray(b"body")]
NO_BODIES: Final = [5, 1.5, ["a"], object(), "\ud800"]
NO_ATTRIBUTES: Final = [
    5,
    "a",
    ["a"],
    {"a": 5},
    {5: "a"},
    {"a": None},
    {"\ud800": "a"},
    {"a": "\ud800"},
]
NO_FUNCTIONS: Final = [5, "print", []]
NO_MESSAGES: Final = [5, None, b"receipt", object(), "\ud800"]

Call = Callable[[Any, Any], Any]
"""Makes a call of a client with a value."""

OTHERS: Final[dict[str, Any]] = {
    "stage": "s",
    "writer": "w",
    "epoch": 0,
    "stages": ["s"],
    "stream": "r",
    "sequence_number": 0,
    "last_sequence_number": 0,
    "id": "018bcfe5-6800-7000-8000-000000000000",
    "chunk_number": 0,
    "messages": ["a"],
}
"""A valid value for each argument that has no default."""


def calls_with_a_queue() -> Iterator[Call]:
    """Yield a call of each method that takes the name of a queue beside other arguments."""
    handles = {"staging": Staging, "reservations": Reservations, "redrives": Redrives}
    for handle, kind in handles.items():
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            parameters = inspect.signature(method).parameters
            if not name.startswith("_") and "queue" in parameters:
                needed = [each.name for each in parameters.values() if each.default is each.empty]
                others = {each: OTHERS[each] for each in needed if each not in ("self", "queue")}
                yield lambda c, v, at=(handle, name), others=others: getattr(getattr(c, at[0]), at[1])(
                    queue=v, **others
                )


TABLE: Final[list[tuple[str, Call, Iterable[object]]]] = [
    # A c.
    ("name", lambda c, v: c.queue(v), NO_TEXT),
    ("name", lambda c, v: c.create_queue(v), NO_TEXT),
    ("name", lambda c, v: c.queue(v).info(), NO_TEXT),
    ("name", lambda c, v: c.update_queue(v, max_messages=1), NO_TEXT),
    ("name", lambda c, v: c.delete_queue(v), NO_TEXT),
    ("name", lambda c, v: c.queue(v).purge(), NO_TEXT),
    ("prefix", lambda c, v: c.list_queues(v), NO_TEXT),
    ("stage", lambda c, v: c.staging.stage(v, 0, "jobs", ["a"]), NO_TEXT),
    ("chunk_number", lambda c, v: c.staging.stage("s", v, "jobs", ["a"]), FROM_0),
    ("queue", lambda c, v: c.staging.stage("s", 0, v, ["a"]), NO_TEXT),
    ("messages", lambda c, v: c.staging.stage("s", 0, "jobs", v), [*NO_MANY, [], ["a"] * 1_001]),
    ("time_to_live", lambda c, v: c.staging.stage("s", 0, "jobs", ["a"], time_to_live=v), NO_SPANS),
    ("writer", lambda c, v: c.staging.publish(v, 0, ["s"]), NO_TEXT),
    ("epoch", lambda c, v: c.staging.publish("w", v, ["s"]), FROM_0),
    ("stages", lambda c, v: c.staging.publish("w", 0, v), NO_MANY),
    ("a stage", lambda c, v: c.staging.publish("w", 0, [v]), NO_TEXT),
    ("epoch_retention", lambda c, v: c.staging.publish("w", 0, ["s"], epoch_retention=v), NO_SPANS),
    ("stage", lambda c, v: c.staging.abort(v), NO_TEXT),
    ("queue", lambda c, v: c.staging.list(v), NO_TEXT),
    ("stream", lambda c, v: c.reservations.extend(v, 0), NO_TEXT),
    ("sequence_number", lambda c, v: c.reservations.extend("r", v), FROM_0),
    ("visibility_timeout", lambda c, v: c.reservations.extend("r", 0, v), NO_SPANS),
    ("stream", lambda c, v: c.reservations.read(v, 0), NO_TEXT),
    ("sequence_number", lambda c, v: c.reservations.read("r", v), FROM_0),
    ("begin_index", lambda c, v: c.reservations.read("r", 0, v), FROM_0),
    ("end_index", lambda c, v: c.reservations.read("r", 0, 0, v), OPTIONAL_FROM_0),
    ("stream", lambda c, v: c.reservations.commit(v, 0), NO_TEXT),
    ("last_sequence_number", lambda c, v: c.reservations.commit("r", v), FROM_0),
    ("stream", lambda c, v: c.reservations.release(v, 0), NO_TEXT),
    ("sequence_number", lambda c, v: c.reservations.release("r", v), FROM_0),
    ("queue", lambda c, v: c.reservations.list(v), NO_TEXT),
    ("stream", lambda c, v: c.reservations.list("", v), NO_TEXT),
    ("id", lambda c, v: c.redrives.get(v), NO_TEXT),
    ("queue", lambda c, v: c.redrives.list(v), NO_TEXT),
    ("id", lambda c, v: c.redrives.cancel(v), NO_TEXT),
    ("if_version", lambda c, v: c.update_queue("jobs", if_version=v), FROM_1[:-1]),
    ("if_version", lambda c, v: c.delete_queue("jobs", if_version=v), FROM_1[:-1]),
    *(("queue", call, NO_TEXT) for call in calls_with_a_queue()),
    # A queue's labels and settings.
    ("labels", lambda c, v: c.create_queue("new", labels=v), [5, "team=a", []]),
    ("the name of a label", lambda c, v: c.create_queue("new", labels={v: ""}), [5, b"a", "\ud800"]),
    ("the label 'team'", lambda c, v: c.create_queue("new", labels={"team": v}), NO_TEXT),
    ("the label 'team'", lambda c, v: c.update_queue("jobs", labels={"team": v}), [5, "\ud800"]),
    *(
        (setting, lambda c, v, setting=setting: c.create_queue("new", **{setting: v}), no)
        for setting, no in {
            "visibility_timeout": NO_SPANS,
            "delivery_delay": NO_SPANS,
            "retention": NO_SPANS,
            "deduplication_window": NO_SPANS,
            "max_receives": OPTIONAL_FROM_0,
            "max_messages": OPTIONAL_FROM_0,
            "max_bytes": OPTIONAL_FROM_0,
            "max_message_size": OPTIONAL_FROM_0,
            "messages_per_file": OPTIONAL_FROM_0,
            "dead_letter_queue": [5, b"dead", "\ud800"],
            "lease_durability": [5, "lax", "\ud800", []],
        }.items()
    ),
    # A batch.
    ("epoch", lambda c, v: c.batch(writer="w", epoch=v), OPTIONAL_FROM_0),
    ("writer", lambda c, v: c.batch(writer=v, epoch=0), [5, b"w", "\ud800"]),
    ("epoch", lambda c, v: c.batch(epoch=v), [0]),
    ("in_flight", lambda c, v: c.batch(in_flight=v), FROM_1),
    ("epoch_retention", lambda c, v: c.batch(epoch_retention=v), NO_SPANS),
    ("time_to_live", lambda c, v: c.batch(time_to_live=v), NO_SPANS),
    ("publish", lambda c, v: c.batch(publish=v), [1, None, "yes"]),
    ("timeout", lambda c, v: c.batch(timeout=v), NO_SPANS),
    ("queue", lambda c, v: c.batch().send_to(v, "a"), NO_TEXT),
    ("body", lambda c, v: c.batch().send_to("jobs", v), NO_BODIES),
    ("delay", lambda c, v: c.batch().send_to("jobs", "a", delay=v), NO_SPANS),
    # A queue.
    ("body", lambda c, v: c.queue("jobs").send(v), NO_BODIES),
    ("attribute", lambda c, v: c.queue("jobs").send("a", attributes=v), NO_ATTRIBUTES),
    ("delay", lambda c, v: c.queue("jobs").send("a", delay=v), NO_SPANS),
    (
        "deliver_at",
        lambda c, v: c.queue("jobs").send("a", deliver_at=v),
        [5, "2026-12-24", datetime(2026, 12, 24), object()],
    ),
    ("deduplication_id", lambda c, v: c.queue("jobs").send("a", deduplication_id=v), NO_TEXT),
    ("messages", lambda c, v: c.queue("jobs").send_many(v), NO_MANY),
    ("message", lambda c, v: c.queue("jobs").send_many(["a", v]), NO_BODIES),
    ("delay", lambda c, v: c.queue("jobs").send_many([Outgoing(body="a", delay=v)]), NO_SPANS),
    ("max_messages", lambda c, v: c.queue("jobs").receive(v), [*FROM_1, 1_001]),
    ("wait", lambda c, v: c.queue("jobs").receive(wait=v), [*NO_SPANS, None]),
    ("visibility_timeout", lambda c, v: c.queue("jobs").receive(visibility_timeout=v), [*NO_SPANS, 0]),
    ("stream", lambda c, v: c.queue("jobs").reserve(v, 0), NO_TEXT),
    ("sequence_number", lambda c, v: c.queue("jobs").reserve("r", v), FROM_0),
    ("max_messages", lambda c, v: c.queue("jobs").reserve("r", 0, max_messages=v), FROM_1),
    ("max_bytes", lambda c, v: c.queue("jobs").reserve("r", 0, max_bytes=v), FROM_1),
    (
        "visibility_timeout",
        lambda c, v: c.queue("jobs").reserve("r", 0, visibility_timeout=v),
        NO_SPANS,
    ),
    ("wait", lambda c, v: c.queue("jobs").reserve("r", 0, wait=v), [*NO_SPANS, None]),
    (
        "max_in_flight",
        lambda c, v: c.queue("jobs").messages(max_in_flight=v),
        [*FROM_1, 10**12, 10_001],
    ),
    ("visibility_timeout", lambda c, v: c.queue("jobs").messages(visibility_timeout=v), [*NO_SPANS, 0]),
    ("timeout", lambda c, v: c.queue("jobs").messages(timeout=v), NO_SPANS),
    ("max_messages", lambda c, v: c.queue("jobs").messages().receive(v), FROM_1),
    ("wait", lambda c, v: c.queue("jobs").messages().receive(wait=v), NO_SPANS),
    ("a message", lambda c, v: c.queue("jobs").delete(v), NO_MESSAGES[:-1]),
    ("a receipt", lambda c, v: c.queue("jobs").delete(v), NO_MESSAGES[-1:]),
    ("id", lambda c, v: c.queue("jobs").delete_by_id(v), NO_TEXT),
    ("messages", lambda c, v: c.queue("jobs").delete_many(v), NO_MANY),
    ("a message", lambda c, v: c.queue("jobs").delete_many([v]), NO_MESSAGES[:-1]),
    ("an id", lambda c, v: c.queue("jobs").delete_many([ById(v)]), NO_TEXT),
    ("a message", lambda c, v: c.queue("jobs").extend(v, 1), NO_MESSAGES[:-1]),
    ("seconds", lambda c, v: c.queue("jobs").extend("1.1", v), [*NO_SPANS, 0, None]),
    ("messages", lambda c, v: c.queue("jobs").extend_many(v, 1), NO_MANY),
    ("seconds", lambda c, v: c.queue("jobs").extend_many(["1.1"], v), [*NO_SPANS, 0]),
    ("a message", lambda c, v: c.queue("jobs").release(v), NO_MESSAGES[:-1]),
    ("messages", lambda c, v: c.queue("jobs").release_many(v), NO_MANY),
    ("delay", lambda c, v: c.queue("jobs").release("1.1", delay=v), [*NO_SPANS, 31_536_001]),
    ("delay", lambda c, v: c.queue("jobs").release_many(["1.1"], delay=v), [*NO_SPANS]),
    ("reason", lambda c, v: c.queue("jobs").release("1.1", reason=v), [*NO_TEXT, "x" * 1_025]),
    ("count", lambda c, v: c.queue("jobs").release("1.1", count=v), [None, 1, "yes"]),
    ("reason", lambda c, v: c.queue("jobs").reject("1.1", v), [*NO_TEXT, "x" * 1_025]),
    ("a message", lambda c, v: c.queue("jobs").reject(v), NO_MESSAGES[:-1]),
    ("messages", lambda c, v: c.queue("jobs").reject_many(v), NO_MANY),
    ("destination", lambda c, v: c.queue("jobs").redrive(destination=v), NO_TEXT),
    ("source_queue", lambda c, v: c.queue("jobs").redrive(source_queue=v), NO_TEXT),
    ("message_ids", lambda c, v: c.queue("jobs").redrive(message_ids=v), [5, [], object()]),
    ("an id", lambda c, v: c.queue("jobs").redrive(message_ids=[v]), NO_TEXT),
    (
        "max_messages_per_second",
        lambda c, v: c.queue("jobs").redrive(max_messages_per_second=v),
        [*FROM_0, 2**31],
    ),
    ("id", lambda c, v: c.queue("jobs").get(v), NO_TEXT),
    ("states", lambda c, v: c.queue("jobs").peek(v), [5, None]),
    ("state", lambda c, v: c.queue("jobs").peek([v]), ["gone", 5, None]),
    ("max_body_bytes", lambda c, v: c.queue("jobs").peek(max_body_bytes=v), OPTIONAL_FROM_0),
    ("limit", lambda c, v: c.queue("jobs").peek(limit=v), OPTIONAL_FROM_0),
    ("handler", lambda c, v: c.queue("jobs").worker(v), NO_FUNCTIONS),
    ("on_error", lambda c, v: c.queue("jobs").worker(print, on_error=v), NO_FUNCTIONS),
    ("concurrency", lambda c, v: c.queue("jobs").worker(print, concurrency=v), [*FROM_1, 5_001]),
    (
        "prefetch",
        lambda c, v: c.queue("jobs").worker(print, concurrency=1, prefetch=v),
        [*OPTIONAL_FROM_0, 10_000],
    ),
    ("grace", lambda c, v: c.queue("jobs").worker(print, grace=v), [*NO_SPANS, None]),
    ("retry", lambda c, v: c.queue("jobs").worker(print, retry=v), [5, RetryPolicy(), "1"]),
    (
        "visibility_timeout",
        lambda c, v: c.queue("jobs").worker(print, visibility_timeout=v),
        [*NO_SPANS, 0],
    ),
    # The timeout of each call.
    *(
        ("timeout", call, NO_SPANS)
        for call in (
            lambda c, v: c.create_queue("jobs", timeout=v),
            lambda c, v: c.queue("jobs").info(timeout=v),
            lambda c, v: c.list_queues(timeout=v),
            lambda c, v: c.update_queue("jobs", max_messages=1, timeout=v),
            lambda c, v: c.delete_queue("jobs", timeout=v),
            lambda c, v: c.queue("jobs").purge(timeout=v),
            lambda c, v: c.staging.list(timeout=v),
            lambda c, v: c.reservations.list(timeout=v),
            lambda c, v: c.redrives.list(timeout=v),
            lambda c, v: c.reservations.read("r", 0, timeout=v),
            lambda c, v: c.queue("jobs").send("a", timeout=v),
            lambda c, v: c.queue("jobs").send_many(["a"], timeout=v),
            lambda c, v: c.queue("jobs").receive(timeout=v),
            lambda c, v: c.queue("jobs").reserve("r", 0, timeout=v),
            lambda c, v: c.queue("jobs").delete("1.1", timeout=v),
            lambda c, v: c.queue("jobs").delete_many(["1.1"], timeout=v),
            lambda c, v: c.queue("jobs").extend("1.1", 1, timeout=v),
            lambda c, v: c.queue("jobs").release("1.1", timeout=v),
            lambda c, v: c.queue("jobs").get("1", timeout=v),
            lambda c, v: c.queue("jobs").peek(timeout=v),
            lambda c, v: c.queue("jobs").redrive(timeout=v),
        )
    ),
]


def _complaint(name: str, value: object, what: BaseException | None) -> str | None:
    if isinstance(what, InvalidRequest) and name in str(what) and str(what).endswith("."):
        return None
    return f"{name} = {value!r}: {what!r}"


def test_an_argument_that_cannot_be_is_refused_where_it_is_given(
    client: spoolrack.Client, jobs: spoolrack.Queue
) -> None:
    wrong = []
    for name, call, values in TABLE:
        for value in values:
            what: BaseException | None = None
            try:
                call(client, value)
            except Exception as error:  # noqa: BLE001  # its kind is what is looked at
                what = error
            wrong.append(_complaint(name, value, what))
    assert [each for each in wrong if each] == []
    assert client.queue("jobs").info().counts.ready_count == 0


@pytest.mark.parametrize("connect", [spoolrack.connect, aio.connect])
async def test_the_options_of_a_client_are_checked_when_it_is_made(connect: Any) -> None:
    for value in NO_SPANS:
        with pytest.raises(InvalidRequest, match="timeout"):
            connect("127.0.0.1:1", timeout=value)
    with pytest.raises(InvalidRequest, match="retry"):
        connect("127.0.0.1:1", retry=5)
    for value in [5, None, b"127.0.0.1:1", "\ud800:1"]:
        with pytest.raises(spoolrack.SpoolrackError, match="names no"):
            connect(value)
    for value in [5, b"token", "\ud800"]:
        with pytest.raises(spoolrack.SpoolrackError, match="token"):
            connect("127.0.0.1:1", token=value)
    for option in ("initial", "factor", "maximum"):
        for value in NO_SPANS:
            with pytest.raises(InvalidRequest, match=option):
                RetryPolicy(**{option: value})
    for option in ("initial", "factor", "maximum", "jitter"):
        for value in [*NO_SPANS, None]:
            with pytest.raises(InvalidRequest, match=option):
                Backoff(**{option: value})
    for option, value in [("initial", 0), ("maximum", 0), ("maximum", 31_536_001), ("jitter", 100.1)]:
        with pytest.raises(InvalidRequest, match=option):
            Backoff(**{option: value})
    for value in [*NO_SPANS, 31_536_001]:
        with pytest.raises(InvalidRequest, match="after"):
            Retry(after=value)
    for value in [*FROM_1[:-1]]:
        with pytest.raises(InvalidRequest, match="attempts"):
            RetryPolicy(attempts=value)


def test_an_argument_error_names_argument_value_and_rule(jobs: spoolrack.Queue) -> None:
    with pytest.raises(InvalidRequest) as raised:
        jobs.messages(max_in_flight=10**12)
    assert str(raised.value) == (
        "max_in_flight can't be 1000000000000: it must be an integer from 1 to 10000."
    )
