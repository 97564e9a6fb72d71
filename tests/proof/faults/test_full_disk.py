"""A full disk: sends are refused and leave nothing, what makes room works, and room heals all.

Full means two things: our own sends have used up what they may, or another program has taken the very
last byte, or the last inode.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import spoolrack
from spoolrack.errors import DiskFull

from tests.support.disk_filler import fill_bytes, fill_files
from tests.support.loop_disk import KINDS, MEBIBYTE
from tests.support.real_server import WELL, MakeDisk, RealServer

Serve = Callable[..., RealServer]
BODY = bytes(1000)
FEW_INODES = {"ext4": ("-N", "3000"), "xfs": ("-i", "maxpct=1")}


def ids_in(server: RealServer, queue: str = "q") -> list[str]:
    return [message.id for message in server.queue(queue).peek()]


def send_singly(server: RealServer, count: int, queue: str = "q") -> list[str]:
    return [server.queue(queue).send(BODY) for _ in range(count)]


def send_together(server: RealServer, count: int, queue: str = "r") -> list[str]:
    results = server.queue(queue).send_many([BODY] * count)
    assert all(result.error is None for result in results)
    return [result.id or "" for result in results]


@pytest.mark.parametrize("kind", KINDS)
def test_sends_that_fill_a_disk_are_refused_and_leave_nothing(
    kind: str, disk: MakeDisk, serve: Serve
) -> None:
    server = serve(disk(kind).mount_point / "root")
    server.client.create_queue("q", max_message_size=16 * MEBIBYTE)
    sent: list[str] = []
    body = bytes(8 * MEBIBYTE)
    refusals = 0
    while refusals < 5:
        try:
            sent.append(server.queue().send(body))
        except DiskFull:
            refusals += 1
            body = body[: len(body) // 4]
    with pytest.raises(DiskFull) as refused:
        server.queue().send(bytes(8 * MEBIBYTE))
    assert refused.value.retry_delay is not None
    # A call's messages are stored together, or not at all.
    results = server.queue().send_many([bytes(4 * MEBIBYTE)] * 3)
    assert [type(result.error) for result in results] == [DiskFull] * 3
    assert ids_in(server) == sent
    assert list((server.root / "new").iterdir()) == []
    assert server.health() == WELL
    # Deletes make room, and waiting sends get it without a restart.
    for id in sent[: len(sent) // 2 + 1]:
        server.queue().delete_by_id(id)
    with server.connect() as patient:
        later = patient.queue("q").send(bytes(4 * MEBIBYTE))
    left = [*sent[len(sent) // 2 + 1 :], later]
    assert ids_in(server) == left
    server.kill()
    server.start()
    assert ids_in(server) == left


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("ext4", "bytes"),
        ("xfs", "bytes"),
        ("ext4", "inodes"),
        pytest.param("xfs", "inodes", marks=pytest.mark.slow),
    ],
)
def test_everything_but_what_takes_room_works_when_others_have_taken_the_last_of_it(
    kind: str, what: str, disk: MakeDisk, serve: Serve
) -> None:
    made = disk(kind, making=FEW_INODES[kind] if what == "inodes" else ())
    server = serve(made.mount_point / "root")
    for name in ("q", "r", "purged", "doomed"):
        server.client.create_queue(name, visibility_timeout=600)
    singles = send_singly(server, 300)
    together = send_together(server, 100)
    send_together(server, 50, "purged")
    send_together(server, 50, "doomed")
    delayed = server.queue().send(BODY, delay=600)
    server.client.create_queue("s")
    send_together(server, 50, "s")
    server.client.staging.stage("dropped", 0, "s", [spoolrack.Outgoing(body=BODY)] * 50)
    assert server.queue("s").reserve("stream", 0, max_messages=50, visibility_timeout=600) is not None
    foreign = made.mount_point / "foreign"
    fill = fill_bytes if what == "bytes" else fill_files
    fill(foreign)

    q, r = server.queue(), server.queue("r")
    for refuse in (
        lambda: q.send(BODY),
        lambda: server.client.create_queue("other"),
        lambda: server.client.update_queue("q", max_receives=0, visibility_timeout=60),
    ):
        with pytest.raises(DiskFull):
            refuse()
    assert {type(result.error) for result in r.send_many([BODY] * 3)} == {DiskFull}

    held = [message for _ in range(4) for message in q.receive(50)]
    assert [message.id for message in held] == singles[:200]
    held[0].extend(900)
    q.release_many(held[1:40])
    _deleted(q, held[40:160])
    q.delete_by_id(singles[-1])
    q.delete_by_id(delayed)
    # Singles out of a batch need room for a name each.
    batch = r.receive(100)
    assert [message.id for message in batch] == together
    _deleted(r, batch[::2])
    assert server.client.queue("purged").purge() == 50
    server.client.delete_queue("doomed")
    # Both need a file of their own: the files of what was deleted make room.
    assert server.client.reservations.commit("stream", 0).deleted_count == 50
    assert server.client.staging.abort("dropped") == 50
    assert list(server.client.staging.list()) == []
    left = [*singles[:40], *singles[160:-1]]

    def check() -> None:
        assert ids_in(server) == left
        assert ids_in(server, "r") == together[1::2]
        assert ids_in(server, "purged") == []
        assert [queue.name for queue in server.client.list_queues()] == ["purged", "q", "r", "s"]
        assert ids_in(server, "s") == []

    check()
    assert server.health() == WELL
    # The room freed by deletes is filled as well, and then the server must start on such a disk.
    shutil.rmtree(foreign)
    fill(foreign)
    server.kill()
    server.start()
    if what == "inodes":
        # Once more without the reserve's: that of the process that died is the next one's. XFS takes no
        # new file without some free blocks, so that bytes need the reserve.
        (server.root / "RESERVE").unlink(missing_ok=True)
        shutil.rmtree(foreign)
        fill(foreign)
        server.kill()
        server.start()
    check()
    leased = {message.id for message in server.queue().peek(states=[spoolrack.MessageState.LEASED])}
    assert leased == {singles[0], *singles[160:200]}
    server.queue().delete_by_id(left.pop())
    check()
    # And once there is room, everything is as before.
    shutil.rmtree(foreign)
    with server.connect() as patient:
        left.append(patient.queue("q").send(BODY))
        patient.create_queue("other")
        patient.delete_queue("other")
    check()
    server.restart()
    check()
    assert (server.root / "RESERVE").stat().st_blocks * 512 >= 4 * MEBIBYTE


def _deleted(queue: spoolrack.Queue, messages: list[spoolrack.Message]) -> None:
    results = queue.delete_many(messages)
    assert [result.error for result in results] == [None] * len(messages)


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_start_on_a_full_disk_says_why_in_one_line(
    kind: str, disk: MakeDisk, tmp_path: Path
) -> None:
    made = disk(kind)
    fill_bytes(made.mount_point / "foreign")
    code, said = RealServer(made.mount_point / "root", tmp_path / "log").refuse_start()
    assert code == 73, said
    assert said.splitlines()[-1].startswith("spoolrack: ")
    assert "No space left on device" in said
