"""A query belongs to one root and its queues: with another server or queue, or an older root in place,
it never takes rows for deleted that are not. Over real servers, without Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import spoolrack
from spoolrack.spark._light_client import LightClient
from spoolrack.spark._offsets import Offset, QueuesOffset, SeveralServers
from spoolrack.spark._options import InvalidOption, read_options
from spoolrack.spark._queue_reader import BatchLost, OtherServer, read_slice
from spoolrack.spark._queues_reader import QueuesReading
from spoolrack.spark._row_sender import publish, stage, together
from spoolrack.spark._rows import chunks, message_of
from spoolrack_server.access.security import Security

from tests.support.access_rig import in_a_thread
from tests.support.spark_reading import bodies_of


class Run:
    """One run of a query, from a checkpoint that it writes as Spark does."""

    def __init__(self, address: str, checkpoint: dict[str, Any] | None = None, **given: str) -> None:
        self.options = read_options({"endpoint": address, "queue": "jobs", **given})
        self.reading = QueuesReading(self.options, LightClient(address, 30.0))
        begun = QueuesOffset.initial(self.options.only_queue).as_json()
        self.at = self.offset(checkpoint or begun)

    def offset(self, given: dict[str, Any]) -> QueuesOffset:
        return QueuesOffset.from_json(json.loads(json.dumps(given)), self.options.only_queue)

    def plan(self) -> dict[str, Any]:
        return self.reading.latest(self.at, max_messages=1_000, max_bytes=1 << 26).as_json()

    def read(self, end: dict[str, Any]) -> list[tuple[str, bytes]]:
        start, self.at = self.at, self.offset(end)
        return [
            (piece.queue, body)
            for piece in chain(*self.reading.parts(start, self.at))
            for page in read_slice(
                self.options.place.caller.to(piece.root),
                piece.stream,
                piece.sequence_number,
                piece.part,
            )
            for body in bodies_of(page)
        ]

    def stop(self) -> None:
        self.reading.stop()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Return the addresses of two servers with a root each, and a message in each queue `jobs`."""
    with ExitStack() as stack:
        addresses = [
            stack.enter_context(in_a_thread(tmp_path / name, Security())) for name in ("one", "two")
        ]
        for address, body in zip(addresses, ("a", "b"), strict=True):
            with spoolrack.connect(address) as client:
                fill(client, jobs=[body])
        yield addresses[0], addresses[1]


def fill(client: spoolrack.Client, **queues: list[str]) -> None:
    for name, bodies in queues.items():
        client.create_queue(name)
        client.queue(name).send_many(bodies)


def counts(address: str, queue: str = "jobs") -> tuple[int, int]:
    with spoolrack.connect(address) as client:
        found = client.queue(queue).info().counts
        return found.ready_count, found.leased_count


def done_batch(address: str, **given: str) -> dict[str, Any]:
    """Return the checkpoint of a run that stopped with its batch in Spark's commit log."""
    run = Run(address, **given)
    end = run.plan()
    assert [body for _, body in run.read(end)] == [b"a"]
    run.stop()
    return end


def test_a_checkpoint_of_one_server_is_refused_by_another(servers: tuple[str, str]) -> None:
    one, two = servers
    checkpoint = done_batch(one)
    wrong = Run(two, checkpoint)

    for call in (wrong.plan, lambda: wrong.reading.commit(wrong.at)):
        with pytest.raises(OtherServer, match="endpoint of the server that it began with") as caught:
            call()
        assert checkpoint["root"] in str(caught.value)
    with pytest.raises(OtherServer):
        Run(two).read(checkpoint)
    assert counts(two) == (1, 0)

    right = Run(one, checkpoint)
    assert right.plan() == checkpoint
    right.stop()
    assert counts(one) == (0, 0)


def test_a_checkpoint_of_before_is_taken_and_no_unknown_batch_counts_as_deleted(
    servers: tuple[str, str],
) -> None:
    one, two = servers
    checkpoint = done_batch(one)
    old = {name: checkpoint[name] for name in ("gen", "seq", "n")}

    with pytest.raises(BatchLost, match="isn't known to the server"):
        Run(two, old).plan()
    assert counts(two) == (1, 0)

    goes_on = Run(one, old)
    assert goes_on.plan() == old
    assert counts(one) == (0, 0)
    with spoolrack.connect(one) as client:
        client.queue("jobs").send("c")
    assert goes_on.plan() == {**checkpoint, "seq": 1}
    goes_on.stop()


def test_a_query_that_lets_lost_batches_come_again_goes_on_behind_an_unknown_one(
    servers: tuple[str, str],
) -> None:
    one, two = servers
    checkpoint = done_batch(one)
    old = {name: checkpoint[name] for name in ("gen", "seq", "n")}
    run = Run(two, old, onLostReservation="redeliver")

    assert run.read(run.plan()) == [("jobs", b"b")]
    run.stop()


def test_several_queues_of_another_server_are_refused_too(servers: tuple[str, str]) -> None:
    one, two = servers
    checkpoint = done_batch(one, queue="job*")
    with pytest.raises(OtherServer):
        Run(two, checkpoint, queue="job*").plan()
    assert counts(two) == (1, 0)


def test_a_root_that_was_put_back_with_its_identity_tells_a_batch_that_it_lacks(tmp_path: Path) -> None:
    first = in_a_thread(tmp_path / "root", Security())
    with first as address, spoolrack.connect(address) as client:
        fill(client, jobs=["a"])
    shutil.copytree(tmp_path / "root", tmp_path / "backup")
    with in_a_thread(tmp_path / "root", Security()) as address:
        checkpoint = done_batch(address)
    with in_a_thread(tmp_path / "backup", Security()) as address:
        with pytest.raises(BatchLost, match="isn't known to the server"):
            Run(address, checkpoint).plan()
        assert counts(address) == (1, 0)


def test_a_checkpoint_of_another_queue_is_refused_and_an_old_one_is_labelled_right(
    servers: tuple[str, str],
) -> None:
    one, _ = servers
    with spoolrack.connect(one) as client:
        fill(client, others=["x"])
    begun = Run(one)
    checkpoint = begun.plan()
    begun.stop()

    with pytest.raises(InvalidOption, match="of the queue jobs, and the option queue says others"):
        Run(one, checkpoint, queue="others")
    old = {name: checkpoint[name] for name in ("gen", "seq", "n")}
    run = Run(one, queue="others")
    assert run.read(old) == [("jobs", b"a")]
    run.stop()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_queue_that_was_deleted_in_a_batch_is_a_lost_reservation(
    servers: tuple[str, str], is_made_again: bool
) -> None:
    one, _ = servers
    run = Run(one)
    end = run.plan()
    with spoolrack.connect(one) as client:
        client.delete_queue("jobs")
        if is_made_again:
            fill(client, jobs=["new"])

    with pytest.raises(BatchLost, match="its queue was deleted"):
        run.read(end)
    run.stop()


def test_a_batch_that_was_read_before_its_queue_was_deleted_is_done(servers: tuple[str, str]) -> None:
    one, _ = servers
    run = Run(one, onMissingQueue="wait")
    end = run.plan()
    assert len(run.read(end)) == 1
    with spoolrack.connect(one) as client:
        client.delete_queue("jobs")

    assert run.plan() == end
    run.stop()


def test_rows_that_were_staged_on_different_servers_are_not_published(servers: tuple[str, str]) -> None:
    one, two = servers
    parts = [
        stage(LightClient(address, 30.0), "jobs", chunks([message_of(b"x")], is_staged=True))
        for address in servers
    ]
    with pytest.raises(SeveralServers):
        publish(LightClient(one, 30.0), "jobs", parts, "w", 0)
    with pytest.raises(spoolrack.errors.RootDiffers):
        publish(LightClient(two, 30.0), "jobs", parts[:1], "w", 0)
    assert counts(one) == counts(two) == (1, 0)

    publish(LightClient(one, 30.0), "jobs", parts[:1], "w", 0)
    assert counts(one) == (2, 0)
    assert together(parts[:1]).root != together(parts[1:]).root


def test_reservations_of_different_servers_are_no_batch() -> None:
    first = QueuesOffset.initial(None)
    ends = {name: Offset(gen=name, sequence_number=0, n=1, root=name) for name in ("a", "b")}
    with pytest.raises(SeveralServers, match="different roots, a and b"):
        first.moved_to(ends)
    assert first.moved_to({"a": ends["a"], "b": replace(ends["b"], root="a")}).roots == ("a",)
