"""Bad input on every port of a running server: it goes on, and touches nothing outside its root."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest
import spoolrack
from spoolrack.errors import SpoolrackError
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc

from tests.proof.e2e.outside import SECRET, Outside, litter, uuid
from tests.support import MIB
from tests.support import raw_http2 as raw
from tests.support.run_processes import Crew, Served


@pytest.fixture
def served(crew: Crew, tmp_path: Path) -> Served:
    return Served(crew, tmp_path / "root", http=True)


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path / "outside")


@pytest.fixture
def client(served: Served) -> Iterator[spoolrack.Client]:
    with spoolrack.connect(served.address, timeout=120) as client:
        client.create_queue("jobs")
        yield client


LOOKS: Final = 100


def serves(client: spoolrack.Client) -> bool:
    """Return whether a message sent now is received, is the only one, and can be deleted."""
    queue = client.queue("jobs")
    sent = queue.send(b"still there?", attributes={"a": "b"})
    (message,) = queue.receive(10)
    message.delete()
    for _ in range(LOOKS):
        counts = client.queue("jobs").info().counts
        if counts.ready_count + counts.leased_count == 0:
            return message.id == sent
        # A file with the name of a message counts as one until it is read.
        assert queue.receive(10) == []
    return False


# The socket.

SEND: Final = rpc.SendRequest(
    queue="jobs", messages=[pb.OutgoingMessage(body=b"never sent to its end")]
).SerializeToString()
WHOLE: Final = raw.call("Send") + raw.data(raw.message(SEND), ends=True)
WORDS: Final = {
    "nothing": b"",
    "HTTP/1": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "noise": Random(1).randbytes(100_000),
    "the preface and noise": raw.PREFACE + Random(2).randbytes(100_000),
    "half a preface": raw.PREFACE[:10],
    "half a call": raw.call("Send")[:-20],
    "a call without a message": raw.call("Send"),
    "half a message": raw.call("Send") + raw.data(raw.message(SEND)[:-7]),
    "half a message, called whole": raw.call("Send") + raw.data(raw.message(SEND)[:-7], ends=True),
    "a prefix of 4 GiB": raw.call("Send") + raw.data(raw.message(SEND, length=0xFFFF_FFFF)),
    "an unknown compression": raw.call("Send") + raw.data(raw.message(SEND, compressed=1), ends=True),
    "a call of a path": raw.call("../../etc/passwd") + raw.data(raw.message(b""), ends=True),
    "half of a stream of sends": raw.call("StreamSend") + raw.data(raw.message(b"\x0a\x20")[:-1]),
    "data before headers": raw.PREFACE + raw.frame(raw.SETTINGS) + raw.data(raw.message(SEND)),
}


@pytest.mark.parametrize("reset", [False, True], ids=["ends", "reset"])
def test_a_connection_that_breaks_off_anywhere_leaves_nothing_and_affects_no_other(
    client: spoolrack.Client, served: Served, reset: bool
) -> None:
    for words in WORDS.values():
        raw.speak(served.port, words, reset=reset)
    for length in range(0, len(WHOLE), 7):
        raw.speak(served.port, WHOLE[:length], reset=reset)
    assert serves(client)


def test_the_call_that_the_others_break_off_is_a_good_one(
    client: spoolrack.Client, served: Served
) -> None:
    assert b"grpc-status\x010" in raw.ask(served.port, WHOLE)
    (message,) = client.queue("jobs").receive()
    assert message.body == b"never sent to its end"


@pytest.mark.parametrize("reset", [False, True], ids=["ends", "reset"])
def test_the_http_port_serves_no_files_and_survives_noise(
    client: spoolrack.Client, served: Served, reset: bool
) -> None:
    assert served.http_port is not None
    for path in (b"/../FORMAT", b"/FORMAT", b"/-/../../FORMAT", b"/%2e%2e/FORMAT", b"//", b"\0", b"*"):
        words = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert b"spoolrack 1\n" not in raw.speak(served.http_port, words, reset=reset)
    for words in WORDS.values():
        raw.speak(served.http_port, words, reset=reset)
    assert serves(client)


# The contract.

BAD_NAMES: Final = (
    *("", ".", "..", "../outside", "/etc", "jobs/../../outside", "a/b", "a\\b/..", "jobs/"),
    *("a\0b", "jobs\0", "jobs\n", " jobs", "jobs:x", "jobs@1", "jobs~1", "jobs,s1", "-jobs", "_jobs"),
    *(".jobs", "é", "ｊobs", "\u202ejobs", "*", "x" * 81, "x" * MIB),  # noqa: RUF001
)


def test_a_bad_name_is_refused_and_touches_nothing(
    client: spoolrack.Client, served: Served, outside: Outside
) -> None:
    # The refusals of bad names are tests of the server; here, nothing happens.
    before = {path for path in served.root.rglob("*") if "quarantine" not in path.parts}
    for name in BAD_NAMES:
        queue = client.queue(name)
        for call in (
            lambda name=name: client.create_queue(name),
            lambda name=name: client.create_queue(
                "other", dead_letter_queue=name or ".", max_receives=1
            ),
            lambda name=name: client.delete_queue(name),
            lambda name=name: client.queue(name).purge(),
            lambda queue=queue: queue.send(b"x"),
            lambda queue=queue: queue.receive(),
            lambda queue=queue: queue.get(uuid(1)),
            lambda queue=queue: list(queue.peek()),
            lambda queue=queue: queue.delete_by_id(uuid(1)),
        ):
            with pytest.raises(SpoolrackError) as refused:
                call()
            assert refused.value.code == "INVALID_ARGUMENT", (name[:100], refused.value)
    assert {path for path in served.root.rglob("*") if "quarantine" not in path.parts} == before
    assert outside.is_untouched()
    assert serves(client)


BAD_RECEIPTS: Final = (
    *("", "jobs", "../../outside/secret", "jobs:../../outside/secret~0000000000000"),
    *(f"jobs:../{uuid(1)}~0000000000000", f"jobs:{uuid(1)}/../{uuid(2)}~0000000000000"),
    *(f"jobs:{uuid(1)}~../../../secret", f"../jobs:{uuid(1)}~0000000000000", "\0", "x" * MIB),
)


def test_a_receipt_or_an_id_that_is_a_path_leads_nowhere(
    client: spoolrack.Client, served: Served, outside: Outside
) -> None:
    queue = client.queue("jobs")
    for receipt in BAD_RECEIPTS:
        for act in (queue.delete, queue.release, lambda receipt: queue.extend(receipt, 10)):
            with pytest.raises(SpoolrackError):
                act(receipt)
    for id in ("", "..", "../../outside/secret", f"{uuid(1)}/..", uuid(1)[:-1] + "\0", "x" * MIB):
        for look in (queue.get, queue.delete_by_id):
            with pytest.raises(SpoolrackError):
                look(id)
    assert outside.is_untouched()
    assert serves(client)


def test_ten_megabytes_of_attributes_in_many_shapes_are_refused_alone(client: spoolrack.Client) -> None:
    queue = client.queue("jobs")
    attributes: list[Mapping[str, str | bytes]] = [
        {"a": bytes(10 * MIB)},
        {"a": "x" * (10 * MIB)},
        {"n" * (10 * MIB): "a"},
        {f"name {number}": "x" * 90 for number in range(100_000)},
        {"../../outside": "a\0b", "\0": b"\0", "": "", "x": bytes(64 * 1024)},
    ]
    messages = [spoolrack.Outgoing(body=b"x", attributes=each) for each in attributes]
    results = queue.send_many([*messages, b"a good one"])
    assert [result.ok for result in results] == [*(False for _ in messages), True]
    (message,) = queue.receive(10)
    assert message.body == b"a good one"
    message.delete()
    assert serves(client)


# The folders.


def test_files_put_into_the_folders_of_a_running_server_are_kept(
    client: spoolrack.Client, served: Served, outside: Outside
) -> None:
    litter(served.root, "jobs", outside)
    assert serves(client)
    # The adopted file was put there after all the rest, and looked at in the same round.
    (served.root / "new" / f"jobs:{uuid(600)}").write_bytes(b"adopt me")
    (message,) = client.queue("jobs").receive(10, wait=60)
    assert message.body == b"adopt me"
    message.delete()
    assert outside.is_untouched()
    assert serves(client)
    served.kill()
    served.restart()
    assert_only_ours(client)
    served.stop()
    served.restart()
    assert serves(client)
    assert outside.is_untouched()
    kept = [path for path in served.root.rglob("*") if path.name == "README"]
    assert len(kept) == 8, "a foreign file is never destroyed"


def assert_only_ours(client: spoolrack.Client) -> None:
    """Check that the server took in regular files with valid names alone: here, none."""
    assert serves(client)
    assert {queue.name for queue in client.list_queues()} <= {"jobs", "broken"}


def test_a_queue_is_not_made_behind_a_link(
    client: spoolrack.Client, served: Served, outside: Outside
) -> None:
    (served.root / "queues" / "elsewhere").symlink_to(outside.folder)
    client.create_queue("elsewhere")
    queue = client.queue("elsewhere")
    queue.send(b"must not leave the root")
    (message,) = queue.receive()
    message.delete()
    assert outside.is_untouched()
    assert serves(client)


def replace_by_link(path: Path, outside: Outside) -> None:
    path.unlink()
    path.symlink_to(outside.secret)


def replace_by_pipe(path: Path, outside: Outside) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_folder(path: Path, outside: Outside) -> None:
    path.unlink()
    path.mkdir()


def flip_a_bit(path: Path, outside: Outside) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def cut_off(path: Path, outside: Outside) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def append(path: Path, outside: Outside) -> None:
    path.write_bytes(path.read_bytes() + b"!")


def take_away(path: Path, outside: Outside) -> None:
    path.unlink()


def test_a_message_that_was_tampered_with_costs_no_other(
    client: spoolrack.Client, served: Served, outside: Outside
) -> None:
    harms = (
        *(replace_by_link, replace_by_pipe, replace_by_folder),
        *(flip_a_bit, cut_off, take_away),
    )
    queue = client.queue("jobs")
    # Their bodies are the secret's, so that size and checksum wouldn't tell a link to it from the file.
    assert zlib.crc32(SECRET)
    harmed, longer, well = [queue.send(SECRET) for _ in harms], queue.send(SECRET), queue.send(b"well")
    served.kill()  # A message sent a moment ago is delivered from memory.
    served.restart()
    for harm, id in zip(harms, harmed, strict=True):
        (path,) = (path for path in served.root.rglob(f"*{id}*") if path.is_file())
        harm(path, outside)
    # The length of a message is in its file's name: what somebody appends has no meaning.
    (path,) = served.root.rglob(f"*{longer}*")
    append(path, outside)
    assert [message.id for message in queue.peek()] == [longer, well]
    received = queue.receive(10)
    assert [(message.id, message.body) for message in received] == [(longer, SECRET), (well, b"well")]
    for message in received:
        message.delete()
    assert serves(client)
    served.kill()
    served.restart()
    assert serves(client)
    assert outside.is_untouched()
