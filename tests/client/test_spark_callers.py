"""Credentials of Spark's processes: to a real server with TLS that asks, without Spark."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack
import trustme
from spoolrack.errors import PermissionDenied, Unauthenticated, Unreachable
from spoolrack.spark import write_partition
from spoolrack.spark._options import QueueAddress, queue_address, read_options
from spoolrack.spark._queue_peek import PeekShare, peek
from spoolrack.spark._queue_reader import read_slice
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


def test_secrets_are_in_no_text_of_an_option(address: str, files: Files) -> None:
    place = queue_address(f"grpcs://{address}", "jobs", credentials=credentials(files))
    for shown in (place, write_partition(f"grpcs://{address}", "jobs", credentials=credentials(files))):
        assert "srk_" not in repr(shown)
        assert "CERTIFICATE" not in repr(shown)
    assert isinstance(place, QueueAddress)
