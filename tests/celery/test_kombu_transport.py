"""kombu on `spoolrack://`, without Celery: publish, consume, acknowledge and bind."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import kombu
import pytest
import spoolrack.kombu
from kombu.asynchronous import Hub
from kombu.common import Broadcast
from kombu.exceptions import ChannelError, OperationalError
from kombu.pidbox import Mailbox
from spoolrack._shards import shard_of
from spoolrack.errors import (
    DiskError,
    DiskFull,
    InternalError,
    MemoryLimit,
    MessageTooLarge,
    OutcomeUnknown,
    QueueFull,
    QueueNotFound,
    SendingPaused,
    SpoolrackError,
    Unauthenticated,
    Unreachable,
)
from spoolrack.kombu import _broker
from spoolrack.kombu._broker import LEAST_EXPIRY, TRIES, Retries, spoolrack_name
from spoolrack.kombu._transport import _url
from spoolrack.testing import RunningServer, manual_clock, running_server, running_shards

from tests.support import STUCK

TASKS = kombu.Queue("tasks", kombu.Exchange("tasks", "direct"), "tasks")
NEWS = kombu.Exchange("news", "fanout")
ENVELOPE: dict[str, Any] = {
    "body": "e30=",
    "content-type": "application/json",
    "content-encoding": "utf-8",
    "headers": {},
    "properties": {"body_encoding": "base64", "delivery_info": {}},
}
"""An envelope of kombu with the body `{}`."""
MANY = 50
SHORT = 0.2


@contextmanager
def connected(server: RunningServer, **options: Any) -> Iterator[Any]:
    url = server.url.replace("grpc://", "spoolrack://")
    with kombu.Connection(url, transport_options=options) as connection:
        yield connection


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def connection(server: RunningServer) -> Iterator[Any]:
    with connected(server) as connection:
        yield connection


def publish(connection: Any, body: Any, **more: Any) -> None:
    options = {"exchange": TASKS.exchange, "routing_key": "tasks", "declare": [TASKS], **more}
    connection.Producer().publish(body, **options)


def drained(connection: Any, count: int) -> None:
    for _ in range(count):
        connection.drain_events(timeout=STUCK)


def turn_until(hub: Hub, condition: Callable[[], bool]) -> None:
    """Let an event loop turn until a condition holds; a turn without an event lasts a second."""
    for _ in range(2 * MANY):
        if condition():
            return
        hub.run_once()
    raise AssertionError("the event loop delivers no more")


def counts(server: RunningServer, queue: str) -> tuple[int, int]:
    """Return how many messages of a queue are ready, and how many are leased."""
    with server.client() as client:
        found = client.queue(queue).info().counts
        return found.ready_count, found.leased_count


def test_messages_come_in_order_with_their_bodies_and_headers(connection: Any) -> None:
    for number in range(MANY):
        publish(connection, {"number": number}, headers={"n": number})
    found: list[Any] = []

    def take(body: Any, message: Any) -> None:
        found.append((body["number"], message.headers["n"]))
        message.ack()

    with connection.Consumer([TASKS], callbacks=[take]):
        drained(connection, MANY)
    assert found == [(number, number) for number in range(MANY)]


def test_a_higher_priority_comes_first(connection: Any) -> None:
    for priority in (0, 9, 4):
        publish(connection, priority, priority=priority)
    found: list[int] = []

    def take(body: int, message: Any) -> None:
        found.append(body)
        message.ack()

    with connection.Consumer([TASKS], callbacks=[take]):
        drained(connection, 3)
    assert found == [9, 4, 0]


def test_an_acknowledged_message_is_deleted(connection: Any, server: RunningServer) -> None:
    publish(connection, "one")
    with connection.Consumer([TASKS], callbacks=[lambda _, message: message.ack()]):
        drained(connection, 1)
    assert counts(server, "tasks") == (0, 0)


def test_a_requeued_message_comes_again_as_redelivered(connection: Any) -> None:
    publish(connection, "one")
    found: list[bool] = []

    def take(_: Any, message: Any) -> None:
        found.append(message.delivery_info["redelivered"])
        if len(found) == 1:
            message.requeue()
        else:
            message.ack()

    with connection.Consumer([TASKS], callbacks=[take]):
        drained(connection, 2)
    assert found == [False, True]


def test_a_closed_connection_releases_what_it_has_not_acknowledged(server: RunningServer) -> None:
    with connected(server) as connection:
        for number in range(MANY):
            publish(connection, number)
        connection.Consumer([TASKS], callbacks=[lambda *_: None]).consume()
        drained(connection, 3)
    assert counts(server, "tasks") == (MANY, 0)


def test_no_more_are_delivered_or_leased_than_are_prefetched(
    connection: Any, server: RunningServer
) -> None:
    for number in range(MANY):
        publish(connection, number)
    found: list[Any] = []
    with connection.Consumer(
        [TASKS], callbacks=[lambda _, message: found.append(message)], prefetch_count=3
    ):
        drained(connection, 3)
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=SHORT)
        assert counts(server, "tasks") == (MANY - 3, 3)
        found[0].ack()
        drained(connection, 1)
    assert [message.payload for message in found] == [0, 1, 2, 3]


def test_a_message_is_awaited_for_as_long_as_the_program_says(connection: Any) -> None:
    with connection.Consumer([TASKS]):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=SHORT)
        assert time.monotonic() - began >= SHORT


def test_a_larger_prefetch_count_lets_more_through(connection: Any) -> None:
    for number in range(MANY):
        publish(connection, number)
    found: list[Any] = []
    with connection.Consumer(
        [TASKS], callbacks=[lambda _, message: found.append(message)], prefetch_count=3
    ) as consumer:
        drained(connection, 3)
        consumer.qos(prefetch_count=MANY)
        drained(connection, MANY - 3)
        for message in found:
            message.ack()
    assert [message.payload for message in found] == list(range(MANY))


def test_an_event_loop_delivers_all_that_has_come_and_what_a_larger_prefetch_count_lets_through(
    connection: Any,
) -> None:
    for number in range(MANY):
        publish(connection, number)
    found: list[Any] = []
    hub = Hub()
    connection.connect()
    connection.register_with_event_loop(hub)
    with connection.Consumer(
        [TASKS], callbacks=[lambda _, message: found.append(message)], prefetch_count=3
    ) as consumer:
        turn_until(hub, lambda: len(found) == 3)
        hub.run_once()  # Nothing is left that wakes it.
        assert len(found) == 3
        consumer.qos(prefetch_count=MANY)
        turn_until(hub, lambda: len(found) == MANY)
        for message in found:
            message.ack()
    assert [message.payload for message in found] == list(range(MANY))
    connection.close()
    assert not hub.readers
    hub.close()


def test_a_message_that_was_got_is_leased_until_it_is_acknowledged_if_it_has_to_be(
    connection: Any, server: RunningServer
) -> None:
    publish(connection, "one")
    queue = TASKS(connection.default_channel)
    message = queue.get()
    assert message.payload == "one"
    assert counts(server, "tasks") == (0, 1)
    assert queue.get() is None
    message.ack()
    assert counts(server, "tasks") == (0, 0)
    publish(connection, "two")
    assert queue.get(no_ack=True).payload == "two"
    assert counts(server, "tasks") == (0, 0), "without an acknowledgement it is deleted at once"


def test_a_fan_out_reaches_the_queues_of_all_connections(server: RunningServer) -> None:
    found: list[str] = []
    with connected(server) as one, connected(server) as two:
        consumers = [
            connection.Consumer(
                [kombu.Queue(name, NEWS)],
                callbacks=[lambda body, _, name=name: found.append(name + body)],
                no_ack=True,
            )
            for connection, name in [(one, "first"), (two, "second")]
        ]
        for consumer in consumers:
            consumer.consume()
        with connected(server) as third:
            publish(third, "!", exchange=NEWS, routing_key="", declare=[NEWS])
        drained(one, 1)
        drained(two, 1)
    assert sorted(found) == ["first!", "second!"]


def test_a_fan_out_is_in_all_queues_that_are_there_or_in_none(
    connection: Any, server: RunningServer
) -> None:
    channel = connection.default_channel
    names = ["first", "second", "third"]
    for name in names:
        kombu.Queue(name, NEWS)(channel).declare()
    with server.client() as client:
        client.update_queue("second", sending="paused")
        with pytest.raises(SendingPaused):
            publish(connection, "!", exchange=NEWS, declare=[NEWS])
        assert [client.queue(name).info().counts.ready_count for name in names] == [0, 0, 0]
        client.update_queue("second", sending="open")
        client.delete_queue("third")
        for mode in (1, 2):
            publish(connection, "!", exchange=NEWS, declare=[NEWS], delivery_mode=mode)
        assert [client.queue(name).info().counts.ready_count for name in names[:2]] == [2, 2]
        assert client.queue("kombu.bindings").info().counts.ready_count == 2, "the third is unbound"


def test_a_message_whose_queue_is_gone_is_refused_and_a_transient_one_dropped(
    connection: Any, server: RunningServer
) -> None:
    publish(connection, "one")
    with server.client() as client:
        client.delete_queue("tasks")
    publish(connection, "two", delivery_mode=1)
    with pytest.raises(QueueNotFound):
        publish(connection, "two")


def test_a_topic_exchange_routes_by_its_patterns(connection: Any) -> None:
    weather = kombu.Exchange("weather", "topic")
    found: list[tuple[str, str]] = []
    queues = [
        kombu.Queue("all", weather, "#"),
        kombu.Queue("rain", weather, "*.rain"),
        kombu.Queue("snow", weather, "*.snow"),
    ]
    with connection.Consumer(
        queues,
        no_ack=True,
        on_message=lambda message: found.append((message.payload, message.delivery_tag)),
    ):
        # The queue that was bound last: the table of bindings that was read before has no such one.
        publish(connection, "cold", exchange=weather, routing_key="oslo.snow", declare=[weather])
        publish(connection, "wet", exchange=weather, routing_key="oslo.rain", declare=[weather])
        drained(connection, 4)
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=SHORT)
    assert sorted(body for body, _ in found) == ["cold", "cold", "wet", "wet"]
    assert len({tag for _, tag in found}) == 4


def test_an_unbound_queue_gets_nothing_more(connection: Any, server: RunningServer) -> None:
    queue = kombu.Queue("first", NEWS)(connection.default_channel)
    queue.declare()
    queue.unbind_from(NEWS)
    publish(connection, "!", exchange=NEWS, declare=[NEWS])
    assert counts(server, "first") == (0, 0)


def test_the_default_exchange_leads_to_the_queue_that_is_named(connection: Any) -> None:
    TASKS(connection.default_channel).declare()
    connection.Producer().publish("a", exchange="", routing_key="tasks")
    assert TASKS(connection.default_channel).get(no_ack=True).payload == "a"


def test_a_message_without_a_route_goes_to_the_dead_letter_queue_that_is_set(
    server: RunningServer,
) -> None:
    with connected(server, deadletter_queue="lost") as connection:
        publish(connection, "a")
        publish(connection, "b", routing_key="elsewhere")
        connection.Producer().publish("c", exchange="", routing_key="")
        lost = kombu.Queue("lost", channel=connection.default_channel)
        assert [lost.get(no_ack=True).payload for _ in range(2)] == ["b", "c"]
        assert counts(server, "tasks") == (1, 0)
    with connected(server) as connection:
        publish(connection, "d", routing_key="elsewhere")
        assert (counts(server, "tasks"), counts(server, "lost")) == ((1, 0), (0, 0))


def test_a_queue_is_looked_for_emptied_and_deleted_by_a_channel(
    connection: Any, server: RunningServer
) -> None:
    channel = connection.default_channel
    with pytest.raises(ChannelError, match="tasks"):
        channel.queue_declare("tasks", passive=True)
    for body in "ab":
        publish(connection, body)
    assert tuple(channel.queue_declare("tasks", passive=True)) == ("tasks", 2, 0)
    channel.queue_delete("tasks", if_empty=True)
    assert counts(server, "tasks") == (2, 0)
    assert channel.queue_purge("tasks") == 2
    channel.queue_delete("tasks", if_empty=True)
    with server.client() as client, pytest.raises(QueueNotFound):
        client.queue("tasks").info()


def test_a_binding_that_is_repeated_is_one_record(connection: Any, server: RunningServer) -> None:
    with server.client() as client, connected(server) as other:
        for each in (connection, other, connection):
            TASKS(each.default_channel).declare()
        (record,) = [json.loads(m.body) for m in client.queue("kombu.bindings").peek()]
    assert record == {
        "exchange": "tasks",
        "routing_key": "tasks",
        "pattern": record["pattern"],
        "queue": "tasks",
    }


def test_a_message_with_an_eta_is_delayed_at_the_server(connection: Any, server: RunningServer) -> None:
    publish(connection, "later", headers={"eta": "2099-01-01T00:00:00+00:00"})
    publish(connection, "now", headers={"eta": "2001-01-01T00:00:00"})
    with server.client() as client:
        found = client.queue("tasks").info().counts
        assert (found.ready_count, found.delayed_count) == (1, 1)


def test_any_name_of_a_queue_is_one_at_the_server() -> None:
    names = ["celery", "w@host.celery.pidbox", "w.host.celery.pidbox", "_x", "x" * 81, "å", "ä", "."]
    found = {spoolrack_name(name) for name in names}
    assert len(found) == len(names)
    assert spoolrack_name("celery") == "celery"
    assert all(len(name) <= 80 and name[0].isalnum() and name.isascii() for name in found)


def test_a_prefix_keeps_the_queues_of_two_programs_apart(server: RunningServer) -> None:
    with connected(server, queue_name_prefix="staging-") as connection:
        publish(connection, "one")
    with server.client() as client:
        assert [queue.name for queue in client.list_queues()] == [
            "staging-kombu.bindings",
            "staging-tasks",
        ]


REPLIES = kombu.Queue("replies", NEWS, expires=10.0)


def test_an_expiring_queue_is_deleted_with_the_connection_that_consumes_from_it(
    server: RunningServer,
) -> None:
    with connected(server) as connection:
        connection.Consumer([REPLIES]).consume()
    with server.client() as client:
        assert [queue.name for queue in client.list_queues()] == ["kombu.bindings"]
        assert client.queue("kombu.bindings").info().counts.ready_count == 0


def test_a_queue_of_replies_outlives_the_connection_of_the_request(server: RunningServer) -> None:
    with connected(server) as connection:
        REPLIES(connection.default_channel).declare()
    with server.client() as client:
        assert client.queue("replies").info().counts.ready_count == 0


def test_a_queue_of_replies_outlives_a_connection_that_is_lost(server: RunningServer) -> None:
    with connected(server) as connection:
        connection.Consumer([REPLIES]).consume()
        publish(connection, "reply", exchange=NEWS, declare=[])
        connection.collect()
        assert counts(server, "replies") == (1, 0)
        found: list[Any] = []
        consumer = connection.Consumer([REPLIES], callbacks=[lambda body, _: found.append(body)])
        consumer.consume()
        drained(connection, 1)
    assert found == ["reply"]


@pytest.mark.parametrize(
    "options",
    [{"expires": 10.0}, {"auto_delete": True, "durable": False}, {"exclusive": True}],
    ids=["expires", "auto-delete", "exclusive"],
)
def test_a_temporary_queue_of_a_dead_process_is_removed_by_the_server(options: Any) -> None:
    clock = manual_clock()
    with (
        running_server(clock=clock) as server,
        connected(server) as dead,
        connected(server) as living,
        server.client() as client,
    ):
        kombu.Queue("left", NEWS, **options)(dead.default_channel).declare()
        consumer = living.Consumer([kombu.Queue("used", NEWS, **options)], callbacks=[print])
        consumer.consume()
        living.transport.channels[0].deliver_next()
        for _ in range(MANY):
            clock.advance(5_000)
            if "left" not in [queue.name for queue in client.list_queues()]:
                break
        assert [queue.name for queue in client.list_queues()] == ["kombu.bindings", "used"]
        # A binding more, and that of the queue that is gone is found.
        kombu.Queue("next", NEWS)(living.default_channel).declare()
        assert client.queue("kombu.bindings").info().counts.ready_count == 2


def test_a_broadcast_reaches_each_connection_and_its_queues_are_temporary(
    server: RunningServer,
) -> None:
    found: list[Any] = []
    with connected(server) as one, connected(server) as two, server.client() as client:
        for connection in (one, two):
            connection.Consumer(
                [Broadcast("all")], callbacks=[lambda body, _: found.append(body)], no_ack=True
            ).consume()
        publish(one, "!", exchange=Broadcast("all").exchange, declare=[])
        drained(one, 1)
        drained(two, 1)
        assert found == ["!", "!"]
        queues = [queue for queue in client.list_queues() if queue.name != "kombu.bindings"]
        assert [queue.settings.expires for queue in queues] == [LEAST_EXPIRY] * 2


def test_queues_of_several_shards_are_one_broker() -> None:
    names = ["a", "b", "c", "d"]
    assert {shard_of(name, 2) for name in names} == {0, 1}
    with running_shards(2) as shards:
        addresses = shards.url.replace("grpc://", "")
        with kombu.Connection("spoolrack://", transport_options={"servers": addresses}) as connection:
            found: list[Any] = []
            connection.Consumer(
                [kombu.Queue(name, NEWS) for name in names],
                callbacks=[lambda body, message: (found.append(body), message.ack())],
            ).consume()
            publish(connection, "!", exchange=NEWS, routing_key="", declare=[NEWS])
            drained(connection, len(names))
            assert found == ["!"] * len(names)
        for number, server in enumerate(shards.servers):
            with server.client() as client:
                there = {queue.name for queue in client.list_queues()} - {"kombu.bindings"}
            assert there == {name for name in names if shard_of(name, 2) == number}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("spoolrack://", "grpc://127.0.0.1:50051"),
        ("spoolrack://a,b,c:5", "grpc://a:5,grpc://b:5,grpc://c:5"),
        ("spoolrack://[::1]:5", "grpc://[::1]:5"),
    ],
)
def test_the_hosts_of_a_url_are_the_shards_servers(url: str, found: str) -> None:
    connection = kombu.Connection(url)
    with spoolrack.connect(_url(connection, is_secure=False)) as client:
        assert client._context.transport.target == found


def test_a_queue_of_replies_is_deleted_after_the_reply(server: RunningServer) -> None:
    with connected(server) as worker, connected(server) as caller, server.client() as client:
        mailbox = Mailbox("test", type="fanout")
        node = mailbox(worker).Node("n", channel=worker.default_channel)
        node.handlers["ping"] = lambda state: "pong"
        with node.listen():
            before = [queue.name for queue in client.list_queues()]
            for _ in range(3):
                asking = threading.Thread(target=drained, args=(worker, 1))
                asking.start()
                assert mailbox(caller).multi_call("ping", timeout=STUCK, limit=1) == [{"n": "pong"}]
                asking.join()
            assert [queue.name for queue in client.list_queues()] == before
            assert client.queue("kombu.bindings").info().counts.ready_count == 1


LEAVING = """
import sys, kombu, spoolrack.kombu
connection = kombu.Connection(sys.argv[1])
kombu.Queue("left", kombu.Exchange("replies"), expires=10.0)(connection.default_channel).declare()
"""


def test_a_program_that_ends_deletes_its_queues_of_replies(server: RunningServer) -> None:
    url = server.url.replace("grpc://", "spoolrack://")
    subprocess.run([sys.executable, "-c", LEAVING, url], check=True, timeout=STUCK)
    with server.client() as client:
        assert [queue.name for queue in client.list_queues()] == ["kombu.bindings"]


def test_bindings_that_were_purged_are_written_again_before_a_message_is_lost(
    connection: Any, server: RunningServer
) -> None:
    publish(connection, "one")
    with server.client() as client:
        client.queue("kombu.bindings").purge()
    connection.transport.broker.table("tasks", fresh=True)
    publish(connection, "two")
    assert counts(server, "tasks") == (2, 0)


def test_what_is_no_record_among_the_bindings_is_passed_over(server: RunningServer) -> None:
    with connected(server) as connection:
        publish(connection, "one")
    with server.client() as client:
        client.queue("kombu.bindings").send_many([*FOREIGN, b'{"queue": "old", "expires": 10.0}'])
    with connected(server) as connection:
        publish(connection, "two")
    assert counts(server, "tasks") == (2, 0)


def changed(**more: Any) -> bytes:
    return json.dumps({**ENVELOPE, **more}).encode()


FOREIGN: Final = [
    b"no envelope of kombu's",
    b"",
    b"null",
    b"[1]",
    b"[" * 20_000,
    b'{"type": "Feature", "geometry": null, "properties": {"name": "Oslo"}}',
    b'{"type": "Feature", "geometry": null, "properties": null}',
    changed(body={"number": 1}),
    changed(headers="x"),
    changed(headers=[["task", "x"]]),
    changed(properties={"delivery_info": "x"}),
    changed(properties={"delivery_info": None}),
    changed(properties={"body_encoding": "rot13"}),
    changed(properties={"body_encoding": ["base64"]}),
    changed(body="e30", properties={"body_encoding": "base64"}),
    changed(**{"content-type": 7}),
    changed(**{"content-encoding": ["utf-8"]}),
]
"""Bodies that kombu didn't write."""


@pytest.mark.parametrize("body", FOREIGN, ids=lambda body: body[:60].decode())
def test_a_message_of_another_program_is_delivered_as_bytes(
    connection: Any, server: RunningServer, body: bytes
) -> None:
    queue = TASKS(connection.default_channel)
    queue.declare()
    with server.client() as client:
        client.queue("tasks").send_many([body, body])
    found: list[Any] = []
    with connection.Consumer([TASKS], on_message=found.append, accept=None, prefetch_count=1):
        drained(connection, 1)
    got = queue.get(accept=None)
    for message in (*found, got):
        assert bytes(message.body) == body
        assert message.content_type == "application/data"
        message.ack()
    assert counts(server, "tasks") == (0, 0)


def test_an_envelope_that_another_program_wrote_as_kombu_does_is_read(
    connection: Any, server: RunningServer
) -> None:
    queue = TASKS(connection.default_channel)
    queue.declare()
    with server.client() as client:
        client.queue("tasks").send(changed())
        client.queue("tasks").send(changed(body="{}", properties={}))
    assert [queue.get().payload, queue.get().payload] == [{}, {}]


def test_a_message_that_was_consumed_and_not_acknowledged_counts_as_received(
    server: RunningServer,
) -> None:
    with connected(server) as connection:
        publish(connection, "one")
    for _ in range(2):
        with connected(server) as connection:
            connection.Consumer([TASKS], callbacks=[lambda *_: None]).consume()
            drained(connection, 1)
    with server.client() as client:
        assert [message.receive_count for message in client.queue("tasks").peek()] == [2]


def test_a_server_that_is_away_is_a_connection_error() -> None:
    connection = kombu.Connection("spoolrack://127.0.0.1:1", connect_timeout=SHORT)
    with pytest.raises(OperationalError):
        connection.ensure_connection(max_retries=1, interval_start=0)


@pytest.mark.parametrize("retry", [True, False])
@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ({"max_messages": 1}, QueueFull),
        ({"sending": "paused"}, SendingPaused),
        ({"max_message_size": 1}, MessageTooLarge),
    ],
)
def test_a_message_that_a_queue_refuses_is_refused_at_once_and_loses_no_connection(
    server: RunningServer, setting: Any, kind: type[SpoolrackError], retry: bool
) -> None:
    with connected(server, timeout=3_600.0) as connection, server.client() as client:
        publish(connection, "one")
        client.update_queue("tasks", **setting)
        before = connection.connection
        with pytest.raises(kind):
            publish(connection, "two", retry=retry)
        assert connection.connection is before
        client.update_queue("tasks", sending=None, max_messages=None, max_message_size=None)
        publish(connection, "three")
    assert not issubclass(kind, spoolrack.kombu.Transport.connection_errors)


@pytest.mark.parametrize(
    "kind", [DiskError, DiskFull, InternalError, MemoryLimit, OutcomeUnknown, Unauthenticated]
)
def test_a_worker_connects_again_after_what_a_server_in_trouble_answers(
    kind: type[SpoolrackError],
) -> None:
    assert issubclass(kind, spoolrack.kombu.Transport.connection_errors)


def test_a_message_in_doubt_is_published_once() -> None:
    assert not issubclass(OutcomeUnknown, spoolrack.kombu.Transport.recoverable_connection_errors)


def test_in_an_event_loop_a_queue_is_bound_once_the_server_takes_its_binding(
    server: RunningServer,
) -> None:
    hub = Hub()
    with connected(server, timeout=3_600.0) as connection, server.client() as client:
        connection.connect()
        connection.register_with_event_loop(hub)
        client.update_queue("kombu.bindings", sending="paused")
        queue = kombu.Queue("first", NEWS)(connection.default_channel)
        queue.declare()
        connection.transport.broker.declare_deferred()
        client.update_queue("kombu.bindings", sending="open")
        connection.transport.broker.declare_deferred()
        publish(connection, "!", exchange=NEWS, declare=[NEWS])
        assert queue.get().payload == "!"
    hub.close()


def test_in_an_event_loop_a_refused_event_is_dropped_and_a_refused_task_is_not(
    server: RunningServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub()
    with connected(server, timeout=3_600.0) as connection, server.client() as client:
        publish(connection, "one")
        connection.register_with_event_loop(hub)
        client.update_queue("tasks", max_messages=1)
        publish(connection, "event", delivery_mode=1)
        publish(connection, "event", delivery_mode=1)
        monkeypatch.setattr(_broker, "WARN_EVERY", 0)
        publish(connection, "event", delivery_mode=1)
        publish(connection, "event", delivery_mode=1)
        with pytest.raises(QueueFull):
            publish(connection, "task")
    assert counts(server, "tasks") == (1, 0)
    hub.close()
    told = [each.getMessage().partition(": ")[0] for each in caplog.records if each.name == "spoolrack"]
    dropped = "events and replies were dropped, the last one for tasks"
    assert told == [f"{count} {dropped}" for count in (1, 2, 1)]


FORKING = """
import os, sys, threading, kombu, spoolrack.kombu
tasks = kombu.Queue("tasks", kombu.Exchange("tasks"), "tasks")

def send(url):
    with kombu.Connection(url) as connection:
        connection.Producer().publish(1, exchange=tasks.exchange, routing_key="tasks", declare=[tasks])

def consume(connection):
    with connection.Consumer([tasks], callbacks=[lambda body, message: message.ack()]):
        while True:
            connection.drain_events()

with kombu.Connection(sys.argv[1]) as connection:
    channel = connection.channel()
    send(sys.argv[1])
    threading.Thread(target=consume, args=(connection,), daemon=True).start()
    for _ in range(60):
        if os.fork() == 0:
            send(sys.argv[1])
            connection.close()
            channel.close()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.wait()[1])
        if code:
            os._exit(code & 127)
    os._exit(0)
"""


def test_children_that_are_forked_beside_a_consumer_send_and_close_what_they_inherit(
    server: RunningServer,
) -> None:
    """Each of them aborted with a chance of a few percent."""
    url = server.url.replace("grpc://", "spoolrack://")
    done = subprocess.run([sys.executable, "-c", FORKING, url], capture_output=True, timeout=STUCK)
    assert done.returncode == 0, done.stderr[-2_000:]


def test_a_url_of_several_servers_connects_to_one_that_is_there(server: RunningServer) -> None:
    there = server.url.replace("grpc://", "spoolrack://")
    with kombu.Connection(f"spoolrack://127.0.0.1:1;{there}", connect_timeout=SHORT) as connection:
        connection.ensure_connection(max_retries=3, interval_start=0)
        publish(connection, "one")
    assert counts(server, "tasks") == (1, 0)


def test_an_import_of_kombus_serialization_enters_the_scheme() -> None:
    program = (
        "import kombu.serialization, kombu; print(kombu.Connection('spoolrack://h').transport_cls)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "spoolrack"


def test_the_transport_is_named() -> None:
    connection = kombu.Connection("spoolrack://127.0.0.1:1")
    assert isinstance(connection.transport, spoolrack.kombu.Transport)
    assert connection.transport.driver_version() == spoolrack.__version__


def test_only_with_alternates_an_unreachable_server_is_given_up_after_seconds() -> None:
    """So that kombu connects to the next server; without one the client's timeout counts alone."""

    def pause(retries: Retries, failed: int) -> float | None:
        return retries.pause(Unreachable(), failed=failed, left=60.0, random=Random(1))

    alone, with_alternates = Retries(), Retries(has_alternates=True)
    assert pause(alone, TRIES) is not None
    assert pause(with_alternates, TRIES - 1) is not None
    assert pause(with_alternates, TRIES) is None
    longest = sum(alone.initial * alone.factor**each for each in range(TRIES - 1))
    assert longest < 5.0


def test_a_stream_raises_the_loss_of_a_server_that_has_an_alternate(server: RunningServer) -> None:
    url = server.url.replace("grpc://", "spoolrack://")
    with (
        kombu.Connection(f"{url};{url}") as connection,
        connection.Consumer([TASKS], callbacks=[print]),
    ):
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=SHORT)
        server.stop()
        with pytest.raises(Unreachable):
            connection.drain_events(timeout=STUCK)


def test_the_messages_of_a_closed_connection_are_released_together(
    connection: Any, server: RunningServer
) -> None:
    for number in range(MANY):
        publish(connection, number)
    with connection.Consumer([TASKS], callbacks=[lambda _, message: None]):
        drained(connection, MANY)
    connection.close()
    assert counts(server, "tasks") == (MANY, 0)


def test_the_end_of_a_connection_waits_once_for_a_server_that_is_gone(
    connection: Any, server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Not 30 s for each message."""
    for number in range(MANY):
        publish(connection, number)
    with connection.Consumer([TASKS], callbacks=[lambda _, message: None]):
        drained(connection, MANY)
    server.stop()
    connection.close()
    assert f"{MANY} messages are leased until their visibility timeouts end" in caplog.text


def test_content_of_760_kib_is_the_most_of_a_queue_with_defaults_unless_it_is_compressed(
    connection: Any,
) -> None:
    """kombu's base64 makes 1 MiB of it."""
    publish(connection, "a" * 760 * 1024)
    with pytest.raises(MessageTooLarge):
        publish(connection, "a" * 770 * 1024)
    publish(connection, "a" * 770 * 1024, compression="gzip")
    sizes: list[int] = []
    with connection.Consumer([TASKS], callbacks=[lambda body, _: sizes.append(len(body))]):
        drained(connection, 2)
    assert sizes == [760 * 1024, 770 * 1024]


def test_a_declaration_tells_the_size_of_a_queue_with_its_own_answer(
    connection: Any, server: RunningServer
) -> None:
    channel = connection.default_channel
    assert channel.queue_declare("sized").message_count == 0
    with server.client() as client:
        client.queue("sized").send_many(["one", "two"])
        assert channel.queue_declare("sized").message_count == 2
        assert channel.queue_declare("sized", passive=True).message_count == 2
        client.queue("sized").update(
            visibility_timeout=77
        )  # By its operator: the declaration has others.
        assert channel.queue_declare("sized").message_count == 2
