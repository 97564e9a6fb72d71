"""Credentials of Spark's processes: to a real server with TLS that asks, without Spark."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import spoolrack
import trustme
from spoolrack.errors import (
    MessageTooLarge,
    PermissionDenied,
    SendingPaused,
    Unauthenticated,
    Unreachable,
)
from spoolrack.spark import write_partition
from spoolrack.spark._options import QueueAddress, queue_address, read_options
from spoolrack.spark._queue_peek import PeekShare, peek
from spoolrack.spark._queue_reader import read_slice
from spoolrack.spark._row_sender import publish, send, stage
from spoolrack.spark._rows import chunks, message_of
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.access.security import Security

from tests.support.access_rig import Files, in_a_thread
from tests.support.spark_reading import JobsReading, bodies_of, initial


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "etc").mkdir()
    return Files(tmp_path / "etc")


@pytest.fixture
def address(tmp_path: Path, files: Files) -> Iterator[str]:
    ca = trustme.CA()
    files.write_ca(ca)
    security = Security(
        tls=files.write_certificate(ca),
        tokens=files.write_tokens("spark", "sender"),
        permissions=files.write_permissions("spark all jobs", "sender send jobs"),
    )
    with in_a_thread(tmp_path / "root", security) as address:
        with spoolrack.connect(
            f"grpcs://{address}", ca=files.folder / "ca.pem", token=files.tokens["spark"]
        ) as client:
            client.create_queue("jobs")
        yield address


def credentials(files: Files, name: str = "spark") -> str:
    lines = [f"token={files.tokens[name]}", f"ca={files.folder / 'ca.pem'}"]
    return f"file={files.write(f'{name}.credentials', os.linesep.join(['# of a query', *lines, '']))}"


def test_a_query_reads_and_writes_with_authentication(address: str, files: Files) -> None:
    said = credentials(files)
    endpoint = f"grpcs://{address}"
    bodies = [f"{number}".encode() for number in range(50)]
    (counts,) = write_partition(endpoint, "jobs", credentials=said)(bodies)
    assert counts.sent == 50

    options = read_options({"endpoint": endpoint, "queue": "jobs", "credentials": said})
    caller = options.place.caller
    reading = JobsReading(options, caller)
    first = reading.latest(initial(), max_messages=100, max_bytes=2**30)
    parts = reading.parts(initial(), first)
    found = [
        body
        for part in parts
        for page in read_slice(caller, first.gen, first.sequence_number, part)
        for body in bodies_of(page)
    ]
    assert sorted(found) == sorted(bodies)
    lag = reading.lag(first)
    assert lag is not None
    assert lag["leased"] == 50
    reading.commit(first)
    reading.stop()
    assert not list(peek(caller, options, PeekShare("jobs")))


def test_executors_get_what_the_driver_has_read(address: str, files: Files) -> None:
    """Their tasks are pickled, and none of them needs the files."""
    writer = pickle.dumps(write_partition(f"grpcs://{address}", "jobs", credentials=credentials(files)))
    for path in files.folder.iterdir():
        if path.name.startswith(("ca.", "spark.")):
            path.unlink()
    (counts,) = pickle.loads(writer)(["one"])
    assert counts.sent == 1


@pytest.mark.parametrize(
    ("token", "error"), [("sender", PermissionDenied), ("nobody", Unauthenticated)]
)
def test_a_query_without_permission_fails_at_once(
    address: str, files: Files, token: str, error: type[Exception]
) -> None:
    files.tokens.setdefault("nobody", "srk_nobody")
    said = credentials(files, token)
    options = read_options({"endpoint": f"grpcs://{address}", "queue": "jobs", "credentials": said})
    with pytest.raises(error):
        list(peek(options.place.caller, options, PeekShare("jobs")))


def test_a_server_that_another_ca_has_signed_is_not_told_the_token(address: str, files: Files) -> None:
    files.write_ca(trustme.CA())
    said = credentials(files)
    options = read_options(
        {"endpoint": f"grpcs://{address}", "queue": "jobs", "credentials": said, "retrySeconds": "0"}
    )
    with pytest.raises(Unreachable):
        list(peek(options.place.caller, options, PeekShare("jobs")))


def test_a_certificate_that_has_expired_is_waited_for_until_the_server_has_a_new_one(
    tmp_path: Path, files: Files
) -> None:
    ca = trustme.CA()
    files.write_ca(ca)
    past = datetime(2020, 1, 1), datetime(2021, 1, 1)
    security = Security(tls=files.write_certificate(ca, lives=past))
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            files.write_certificate(ca)
        time.sleep(seconds)

    with in_a_thread(tmp_path / "root", security) as address:
        place = queue_address(f"grpcs://{address}", "jobs", credentials=f"ca={files.folder / 'ca.pem'}")
        answer = replace(place.caller, sleep=pause)("ListQueues", rpc.ListQueuesRequest())

    assert not answer.queues
    assert pauses


def test_a_server_that_no_trusted_ca_has_signed_is_not_waited_for(tmp_path: Path, files: Files) -> None:
    security = Security(tls=files.write_certificate(trustme.CA()))
    files.write_ca(trustme.CA())
    pauses: list[float] = []
    with in_a_thread(tmp_path / "root", security) as address:
        place = queue_address(f"grpcs://{address}", "jobs", credentials=f"ca={files.folder / 'ca.pem'}")
        with pytest.raises(Unreachable, match="no CA that this client trusts"):
            replace(place.caller, sleep=pauses.append)("ListQueues", rpc.ListQueuesRequest())
    assert not pauses


def test_a_paused_queue_is_waited_for_as_a_full_one_is(tmp_path: Path) -> None:
    with in_a_thread(tmp_path / "root", Security()) as address, spoolrack.connect(address) as client:
        client.create_queue("jobs", sending="paused")
        pauses = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                client.update_queue("jobs", sending="open")

        caller = replace(queue_address(address, "jobs").caller, sleep=pause)
        staged = stage(caller, "jobs", chunks([message_of("row")], is_staged=True))
        publish(caller, "jobs", [staged], "query", 0)
        send(caller, "jobs", [message_of("direct", None, "1")])

        assert len(pauses) == 2
        assert client.queue("jobs").info().counts.ready_count == 2

        client.update_queue("jobs", sending="paused")
        with pytest.raises(SendingPaused):
            send(replace(caller, retry_seconds=0.0), "jobs", [message_of("late")])


def test_rows_that_a_full_queue_refuses_are_sent_again_alone_and_what_can_never_be_sent_is_an_error(
    tmp_path: Path,
) -> None:
    with in_a_thread(tmp_path / "root", Security()) as address, spoolrack.connect(address) as client:
        client.create_queue("jobs", max_messages=2, max_message_size=10)

        def pause(_: float) -> None:
            client.update_queue("jobs", max_messages=4)

        caller = replace(queue_address(address, "jobs").caller, sleep=pause)
        counts = send(caller, "jobs", [message_of(each) for each in "abc"])
        assert (counts.sent, counts.duplicates) == (3, 0)
        with pytest.raises(MessageTooLarge):
            send(caller, "jobs", [message_of("x" * 11), message_of("d")])
        assert [message.text for message in client.queue("jobs").peek()] == ["a", "b", "c", "d"]


def test_secrets_are_in_no_text_of_an_option(address: str, files: Files) -> None:
    place = queue_address(f"grpcs://{address}", "jobs", credentials=credentials(files))
    for shown in (place, write_partition(f"grpcs://{address}", "jobs", credentials=credentials(files))):
        assert "srk_" not in repr(shown)
        assert "CERTIFICATE" not in repr(shown)
    assert isinstance(place, QueueAddress)
