"""The client over several shards: routing by queue, merged lists, and a shard that is away."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
import spoolrack
from spoolrack import RetryPolicy, aio
from spoolrack._core import several_queues
from spoolrack._runtime import Threads
from spoolrack._shards import shard_of
from spoolrack._transports import routed_transport
from spoolrack._transports.url import addresses_of
from spoolrack.errors import (
    InvalidQueueName,
    InvalidRequest,
    InvalidUrl,
    RedriveNotFound,
    ReservationNotFound,
    SpoolrackError,
    StageNotFound,
    Timeout,
    Unreachable,
    Unsupported,
    WrongShard,
)
from spoolrack.testing import RunningServer, RunningShards, running_server, running_shards
from spoolrack.v1 import queue_service_pb2 as rpc

from tests.client.odd_server import sent
from tests.interop.reasons_server import failing_server, failures

ONCE = RetryPolicy(attempts=1)
NAMES = [f"{tag}{number}" for tag in ("jobs", "mail") for number in range(240)]
"""More than a page of each shard."""
OF = {shard: next(name for name in NAMES if shard_of(name, 3) == shard) for shard in range(3)}
"""A queue of each shard."""


@pytest.fixture
def shards() -> Iterator[RunningShards]:
    with running_shards(3) as shards:
        yield shards


@contextlib.contextmanager
def stopped_server() -> Iterator[str]:
    """Yield the address of a server that takes calls, and answers none, as after a SIGSTOP."""
    ended = threading.Event()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(lambda *_: ended.wait())

    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        ended.set()
        server.stop(None)


def queues_of(server: RunningServer) -> list[str]:
    with server.client() as client:
        return [queue.name for queue in client.list_queues()]


def fill(client: spoolrack.Client, queues: list[str]) -> None:
    """Send a message to each queue, in one batch."""
    with client.batch() as batch:
        for queue in queues:
            batch.send_to(queue, "a")


def listed(client: spoolrack.Client) -> tuple[list[str], SpoolrackError | None]:
    """Return the names of the queues that a list returns, and the error at its end."""
    names: list[str] = []
    try:
        names.extend(queue.name for queue in client.list_queues())
    except SpoolrackError as error:
        return names, error
    return names, None


async def test_each_queue_is_on_its_shard_and_lists_are_merged_in_order(
    shards: RunningShards,
) -> None:
    async with aio.connect(shards.url) as client:
        for name in NAMES:
            await client.create_queue(name)
        assert [queue.name async for queue in client.list_queues()] == sorted(NAMES)
        mail = [queue.name async for queue in client.list_queues("mail")]
        assert mail == sorted(name for name in NAMES if name.startswith("mail"))
    with shards.client() as blocking:
        assert [queue.name for queue in blocking.list_queues()] == sorted(NAMES)
    for number, server in enumerate(shards.servers):
        assert queues_of(server) == sorted(name for name in NAMES if shard_of(name, 3) == number)


def test_a_batch_over_two_shards_is_refused_before_anything_is_sent(
    shards: RunningShards,
) -> None:
    with shards.client() as client:
        for name in (OF[0], OF[1], f"{OF[0]}--audit"):
            client.create_queue(name)
        words = rf"{OF[0]} \(tag {OF[0]}\) is on shard 0/3 .* {OF[1]} \(tag {OF[1]}\) is on shard 1/3"
        with pytest.raises(InvalidRequest, match=words):
            fill(client, [*[OF[0]] * 1_000, OF[1]])
        client.staging.stage("s", 0, OF[0], ["a"])
        with pytest.raises(InvalidRequest, match=words):
            client.staging.stage("s", 1, OF[1], ["b"])
        client.staging.abort("s")
        assert list(client.staging.list()) == []
        with client.batch() as batch:
            batch.send_to(OF[0], "a")
            batch.send_to(f"{OF[0]}--audit", "b")
        assert [client.queue(name).info().counts.ready_count for name in (OF[0], OF[1])] == [1, 0]


@pytest.mark.parametrize("named", ["", OF[0]], ids=["by its name", "by its queue"])
def test_a_stage_that_was_aborted_may_begin_again_on_another_shard(
    shards: RunningShards, named: str
) -> None:
    with shards.client() as client:
        for shard in (0, 1):
            client.create_queue(OF[shard])
        client.staging.stage("s", 0, OF[0], ["a"])
        assert client.staging.abort("s", queue=named) == 1
        client.staging.stage("s", 0, OF[1], ["b"])
        assert client.staging.publish("w", 0, ["s"]).message_count == 1
        assert [client.queue(OF[n]).info().counts.ready_count for n in (0, 1)] == [0, 1]


def test_a_stage_that_two_shards_know_is_aborted_on_both(shards: RunningShards) -> None:
    for shard, bodies in ((0, ["a"]), (1, ["b", "c"])):
        with shards.client() as client:  # One that has begun none of this name.
            client.create_queue(OF[shard])
            client.staging.stage("s", 0, OF[shard], bodies)
    with shards.client() as other:
        assert other.staging.abort("s") == 3
        assert list(other.staging.list()) == []


def test_an_epoch_without_stages_is_not_published_while_a_shard_is_away(shards: RunningShards) -> None:
    with spoolrack.connect(shards.url, retry=ONCE) as client:
        assert client.staging.publish("w", 0, []).message_count == 0
        shards.servers[1].stop()
        # That shard wouldn't know of the epoch.
        with pytest.raises(Unreachable):
            client.staging.publish("w", 1, [])


@pytest.mark.parametrize("call", ["stage", "get", "publish", "published"])
def test_a_stage_that_is_gone_may_begin_again_on_another_shard(
    shards: RunningShards, call: str
) -> None:
    with shards.client() as client, shards.client() as other:
        for shard in (0, 1):
            client.create_queue(OF[shard])
        client.staging.stage("s", 0, OF[0], ["a"])
        if call == "published":
            assert client.staging.publish("v", 0, ["s"]).message_count == 1
        else:
            assert other.staging.abort("s") == 1
        with contextlib.suppress(StageNotFound):
            if call == "get":
                client.staging.get("s")
            elif call == "publish":
                client.staging.publish("w", 0, ["s"])
        other.staging.stage("s", 0, OF[1], ["b"])
        if call == "stage":
            client.staging.stage("s", 1, OF[1], ["c"])
        published = client.staging.publish("w", 0, ["s"])
        assert published.message_count == (2 if call == "stage" else 1)


def test_stages_of_two_shards_are_not_published_by_halves(shards: RunningShards) -> None:
    with shards.client() as client, shards.client() as other:
        for shard in (0, 1):
            client.create_queue(OF[shard])
            client.staging.stage(f"s{shard}", 0, OF[shard], ["a"])
        for one in (client, other):
            with pytest.raises(InvalidRequest, match=r"shard 0/3 .*shard 1/3"):
                one.staging.publish("me", 0, ["s0", "s1"])
        for shard in (0, 1):
            assert client.queue(OF[shard]).info().counts.ready_count == 0


def test_a_call_by_an_id_finds_its_shard_with_its_queue_and_without(
    shards: RunningShards,
) -> None:
    with shards.client() as client, shards.client() as other:
        for name in OF.values():
            client.create_queue(name)
            client.queue(name).send_many(["a", "b"])
            assert client.queue(name).reserve(f"of-{name}", 1, max_messages=1) is not None
            client.staging.stage(f"of-{name}", 0, name, ["c"])
        for name, queue in ((OF[0], ""), (OF[1], OF[1]), (OF[2], "")):
            stream = stage = f"of-{name}"
            assert [m.text for m in other.reservations.read(stream, 1, queue=queue)] == ["a"]
            assert other.reservations.get(stream, 1, queue=queue).queue == name
            assert other.reservations.extend(stream, 1, 60, queue=queue).queue == name
            assert other.reservations.commit(stream, 1, queue=queue).deleted_count == 1
            assert other.staging.get(stage, queue=queue).message_counts == {name: 1}
            assert other.staging.publish("me", 1, [stage], queue=queue).message_count == 1
        for missing, call in (
            (ReservationNotFound, lambda: other.reservations.get("nowhere", 1)),
            (ReservationNotFound, lambda: other.reservations.release("nowhere", 1)),
            (ReservationNotFound, lambda: list(other.reservations.read("nowhere", 1))),
            (StageNotFound, lambda: other.staging.get("nowhere")),
            (StageNotFound, lambda: other.staging.publish("me", 9, ["nowhere"])),
            (RedriveNotFound, lambda: other.redrives.get("01890a5d-ac96-774b-bcce-b302099a8057")),
        ):
            with pytest.raises(missing):
                call()


def test_a_stream_that_two_shards_know_needs_its_queue(shards: RunningShards) -> None:
    with shards.client() as client:
        for shard in (0, 2):
            client.create_queue(OF[shard])
            client.queue(OF[shard]).send("a")
            assert client.queue(OF[shard]).reserve("s", 1) is not None
        with pytest.raises(InvalidRequest, match=r"shard 0/3 .* and shard 2/3 .*: name its queue"):
            client.reservations.commit("s", 1)
        assert client.reservations.commit("s", 1, queue=OF[0]).deleted_count == 1
        assert client.queue(OF[2]).info().counts.leased_count == 1


def test_a_shard_that_is_away_fails_its_own_queues_alone_and_says_which_it_is(
    shards: RunningShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    with spoolrack.connect(shards.url, retry=ONCE, timeout=10) as client:
        for name in OF.values():
            client.create_queue(name)
        shards.servers[1].stop()
        for _ in range(2):
            with pytest.raises(Unreachable) as raised:
                client.queue(OF[1]).send("a")
            assert f"Shard 1/3 at {shards.servers[1].url} has been away for " in str(raised.value)
        facts = raised.value.metadata
        assert (facts["shard"], facts["shards"], facts["address"]) == ("1", "3", shards.servers[1].url)
        with monkeypatch.context() as later:
            later.setattr(Threads, "monotonic", staticmethod(lambda: time.monotonic() + 100))
            with pytest.raises(Unreachable, match=r"away for 1\d\d s"):
                client.queue(OF[1]).send("a")
        for shard in (0, 2):
            client.queue(OF[shard]).send("a")
            assert len(client.queue(OF[shard]).receive()) == 1
        names, error = listed(client)
        assert names == sorted([OF[0], OF[2]])
        assert isinstance(error, Unreachable)
        assert str(error).startswith("Shard 1/3 at ")
        shards.servers[1].start()
        with spoolrack.connect(shards.url) as patient:
            patient.queue(OF[1]).send("a")
        with shards.client() as patient:
            names, error = listed(patient)
            assert (sorted(names), error) == (sorted(OF.values()), None)


def test_a_shard_that_says_nothing_delays_no_other(
    shards: RunningShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routed_transport, "PATIENCE", 0.5)
    with stopped_server() as silent:
        url = f"{shards.servers[0].url},{shards.servers[1].url},{silent}"
        with spoolrack.connect(url, retry=ONCE, timeout=2) as client:
            for shard in (0, 1):
                client.create_queue(OF[shard])
                client.queue(OF[shard]).send("a")
            names, error = listed(client)
            assert names == sorted([OF[0], OF[1]])
            assert isinstance(error, Timeout)
            assert str(error).startswith("Shard 2/3 at ")
        with spoolrack.connect(url, timeout=60) as patient:
            began = time.monotonic()
            assert next(iter(patient.list_queues())).name == min(OF[0], OF[1])
            assert time.monotonic() - began < 30


def test_addresses_in_another_order_are_refused_by_each_call(shards: RunningShards) -> None:
    first, second, third = (server.url for server in shards.servers)
    with spoolrack.connect(f"{second},{first},{third}") as client:
        calls: list[Callable[[], object]] = [
            lambda: client.create_queue(OF[0]),
            lambda: client.queue(OF[1]).send("a"),
            lambda: next(client.queue(OF[0]).messages()),
            lambda: list(client.list_queues()),
            lambda: client.reservations.get("s", 1),
        ]
        for call in calls:
            with pytest.raises(WrongShard, match=r"this server is shard [01] of 3"):
                call()
        with pytest.raises(WrongShard, match=f"^Shard 0/3 at {re.escape(second)}: ") as raised:
            client.create_queue(OF[0])
        facts = raised.value.metadata
        assert (facts["shard"], facts["this"], facts["address"]) == ("0", "1", second)
        client.create_queue(OF[2])


def test_an_error_that_an_operator_mends_at_one_server_names_its_shard() -> None:
    servers_own = {
        *("DISK_ERROR", "DISK_FULL", "INTERNAL_ERROR", "MEMORY_LIMIT", "PERMISSION_DENIED"),
        *("STORE_FAILED", "UNAUTHENTICATED", "WRONG_SHARD"),
    }
    with failing_server() as first, failing_server() as second:
        addresses = [f"grpc://{first}", f"grpc://{second}"]
        with spoolrack.connect(",".join(addresses), retry=ONCE) as client:
            named = set()
            for reason in failures():
                number = shard_of(reason, 2)
                address = addresses[number]
                with pytest.raises(SpoolrackError) as raised:
                    client.queue(reason).info()
                assert raised.value.reason == reason
                if str(raised.value).startswith(f"Shard {number}/2 at {address}: "):
                    named.add(reason)
                    assert raised.value.metadata["address"] == address
    assert named == servers_own


def test_a_server_that_is_no_shard_is_refused(shards: RunningShards) -> None:
    with running_server() as plain:
        url = f"{plain.url},{shards.servers[1].url},{shards.servers[2].url}"
        with spoolrack.connect(url) as client, pytest.raises(WrongShard):
            client.create_queue(OF[0])


def test_a_client_of_one_shard_uses_its_queues_alone(shards: RunningShards) -> None:
    with shards.servers[0].client() as client:
        client.create_queue(OF[0]).send("a")
        with pytest.raises(WrongShard) as raised:
            client.create_queue(OF[1])
        assert raised.value.metadata["shard"] == "1"


@pytest.mark.parametrize("queues", [list(OF.values()), "*"])
@pytest.mark.parametrize("is_away_first", [False, True])
def test_a_stream_of_several_queues_goes_on_beside_a_shard_that_is_away(
    shards: RunningShards,
    monkeypatch: pytest.MonkeyPatch,
    queues: str | list[str],
    is_away_first: bool,
) -> None:
    monkeypatch.setattr(several_queues, "LOOK_EVERY", 0.2)
    with shards.client() as sender, spoolrack.connect(shards.url, timeout=0.5) as client:
        for name in OF.values():
            sender.create_queue(name)
        if is_away_first:
            shards.servers[1].stop()
        with client.messages(queues) as stream:
            if not is_away_first:
                sender.queue(OF[1]).send("first")
                sender.queue(OF[1]).delete(next(stream).receipt)
                shards.servers[1].stop()
            for _ in range(5):
                for shard in (0, 2):
                    sender.queue(OF[shard]).send(OF[shard])
                assert {next(stream).text for _ in range(2)} == {OF[0], OF[2]}
            assert stream.receive(1, wait=1) == []
            shards.servers[1].start()
            sender.queue(OF[1]).send("last")
            assert next(stream).text == "last"


def test_queues_of_a_pattern_wait_for_no_shard_that_is_away_or_silent(
    shards: RunningShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several_queues, "LOOK_TIMEOUT", 600.0)
    monkeypatch.setattr(routed_transport, "PATIENCE", 600.0)
    shards.servers[1].stop()
    with stopped_server() as silent:
        url = f"{shards.servers[0].url},{shards.servers[1].url},{silent}"
        with spoolrack.connect(url, timeout=600) as client:
            client.create_queue(OF[0]).send("a")
            with client.messages("*") as stream:
                assert [message.text for message in stream.receive(wait=20)] == ["a"]


def test_a_pattern_on_shards_in_another_order_is_refused(shards: RunningShards) -> None:
    with shards.client() as client:
        client.create_queue(OF[0])
    first, *others = (server.url for server in shards.servers)
    url = ",".join([first, *reversed(others)])
    with (
        spoolrack.connect(url) as client,
        client.messages("*") as stream,
        pytest.raises(WrongShard),
    ):
        stream.receive(wait=60)


class Recorder:
    """A server that answers sends, and records the metadata of each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._server = grpc.server(ThreadPoolExecutor(32))
        self._server.add_generic_rpc_handlers((self._handler(),))
        self.url = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _handler(self) -> grpc.GenericRpcHandler:
        calls = self.calls

        class Handler(grpc.GenericRpcHandler):
            def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
                method = details.method.rpartition("/")[2]
                calls.append((method, dict(details.invocation_metadata)))
                if method != "StreamSend":
                    return None
                return grpc.stream_stream_rpc_method_handler(
                    lambda requests, _: map(sent, requests),
                    rpc.StreamSendRequest.FromString,
                    rpc.StreamSendResponse.SerializeToString,
                )

        return Handler()

    def values(self, key: str, method: str = "") -> list[Any]:
        """Return what calls had as the metadata `key`."""
        return [found.get(key) for name, found in self.calls if method in ("", name)]

    def stop(self) -> None:
        self._server.stop(None)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.stop()


def calls_of_all_kinds(client: spoolrack.Client, queue: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: client.queue(queue).info(),
        lambda: client.create_queue(queue),
        lambda: next(client.queue(queue).messages(timeout=1)),
        lambda: client.queue(queue).reserve("s", 0),
        lambda: client.reservations.commit("s", 0, queue=queue),
        lambda: client.staging.publish("me", 0, ["s"], queue=queue),
        lambda: client.redrives.get("x", queue=queue),
        lambda: next(client.staging.list(queue)),
        lambda: next(client.reservations.list(queue)),
        lambda: next(client.redrives.list(queue)),
        lambda: next(client.schedules.list(queue)),
    ]
    for call in calls:
        with pytest.raises(SpoolrackError):
            call()


def test_each_call_tells_which_shard_it_takes_its_server_for(recorder: Recorder) -> None:
    other = Recorder()
    with spoolrack.connect(f"{other.url},{recorder.url}", retry=ONCE) as client:
        queue = next(name for name in NAMES if shard_of(name, 2) == 1)
        client.queue(queue).send("a")
        calls_of_all_kinds(client, queue)
    other.stop()
    assert set(recorder.values("x-spoolrack-shard")) == {"1/2"}
    assert len(recorder.calls) >= 12
    assert other.calls == []


def test_through_a_proxy_each_call_carries_its_tag_and_each_tag_has_a_stream(
    recorder: Recorder,
) -> None:
    with spoolrack.connect(recorder.url, retry=ONCE, routing="header") as client:
        for _ in range(3):
            for queue in ("jobs", "jobs--audit", "mail.fifo"):
                client.queue(queue).send("a")
        assert sorted(recorder.values("x-spoolrack-queue", "StreamSend")) == ["jobs", "mail"]
        calls_of_all_kinds(client, "jobs--dead")
        assert set(recorder.values("x-spoolrack-queue")) == {"jobs", "mail"}
        with pytest.raises(Unsupported, match="routes by queues"):
            list(client.list_queues())
        with pytest.raises(Unsupported, match="routes by queues"):
            client.redrives.get("x")
        with pytest.raises(InvalidRequest, match=r"tag jobs.* tag mail"):
            fill(client, ["jobs", "mail"])
        assert "Stage" not in {method for method, _ in recorder.calls}
        with pytest.raises(InvalidQueueName):
            client.queue("a\nb").send("a")


def test_a_single_address_says_nothing_of_shards(recorder: Recorder) -> None:
    with spoolrack.connect(recorder.url, retry=ONCE) as client:
        client.queue("jobs").send("a")
    assert recorder.values("x-spoolrack-shard") == recorder.values("x-spoolrack-queue") == [None]


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("a", ["a"]),
        ("a:1,b:2", ["a:1", "b:2"]),
        ("grpcs://a:1, b:2", ["grpcs://a:1", "grpcs://b:2"]),
        ("grpcs://a:1,grpcs://b:2", ["grpcs://a:1", "grpcs://b:2"]),
    ],
)
def test_commas_part_the_addresses_of_shards(url: str, addresses: list[str]) -> None:
    assert addresses_of(url) == addresses


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("a:1,", "names no server"),
        ("a:1,,b:2", "names no server"),
        ("a:1,b:2,a:1", "a:1 twice"),
        ("a,a:50051", "a:50051 twice"),
        ("a:1,file:///root", "file:// is not known"),
        ("grpcs://a:1,grpc://b:2", "mixes grpc:// and grpcs://"),
        ("a:1,grpcs://b:2", "mixes grpc:// and grpcs://"),
    ],
)
def test_addresses_that_are_no_shards_are_refused(url: str, words: str) -> None:
    with pytest.raises(InvalidUrl, match=words):
        spoolrack.connect(url)


def test_a_folder_may_have_a_comma_in_its_name(tmp_path: Any) -> None:
    with spoolrack.connect(f"file://{tmp_path}/a,b") as client:
        client.create_queue("jobs")
    assert (tmp_path / "a,b").is_dir()


@pytest.mark.parametrize("url", ["a:1,b:2", "file:///root", "vsqs:///folder"])
def test_routing_by_header_is_for_one_proxy(url: str) -> None:
    with pytest.raises(InvalidUrl, match="one proxy"):
        spoolrack.connect(url, routing="header")
