"""System calls of a running server that fail, as strace lets them: nothing that may not be durable is
acknowledged, and a fault that can be undone fails its caller only."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import spoolrack
from spoolrack.errors import DiskError, DiskFull, OutcomeUnknown, SpoolrackError, StoreFailed

from tests.support.real_server import WELL, RealServer, slowly

Serve = Callable[..., RealServer]
SYNCS = "fsync,fdatasync,syncfs"
MOVES = "/^(rename|link)"


@pytest.fixture
def server(serve: Serve, traced: None) -> RealServer:
    server = serve()
    server.client.create_queue("q", visibility_timeout=600)
    return server


@dataclass(frozen=True, kw_only=True)
class Before:
    """The messages in the queue before a fault, in order, the first two leased."""

    ids: list[str]
    held: list[spoolrack.Message]


@pytest.fixture
def before(server: RealServer) -> Before:
    ids = [server.queue().send(f"before {number}") for number in range(5)]
    return Before(ids=ids, held=server.queue().receive(2))


def ids_in(server: RealServer) -> list[str]:
    return [message.id for message in server.queue().peek()]


# Syncs.

Act = Callable[[RealServer, Before], object]
Check = Callable[[RealServer, Before], bool]
OPERATIONS: dict[str, tuple[Act, Check]] = {
    "send": (lambda s, b: s.queue().send("new"), lambda s, b: len(ids_in(s)) == 6),
    "send many": (
        lambda s, b: _raise_first(s.queue().send_many(["new"] * 3)),
        lambda s, b: len(ids_in(s)) == 8,
    ),
    "receive": (lambda s, b: s.queue().receive(1), lambda s, b: _leased(s) == set(b.ids[:3])),
    "delete": (lambda s, b: b.held[0].delete(), lambda s, b: ids_in(s) == b.ids[1:]),
    "delete by id": (
        lambda s, b: s.queue().delete_by_id(b.ids[4]),
        lambda s, b: ids_in(s) == b.ids[:4],
    ),
    "extend": (lambda s, b: b.held[0].extend(900), lambda s, b: _leased(s) == set(b.ids[:2])),
    "release": (lambda s, b: b.held[0].release(), lambda s, b: _leased(s) == {b.ids[1]}),
    "create queue": (lambda s, b: s.client.create_queue("new"), lambda s, b: "new" in _queues(s)),
    "update queue": (
        lambda s, b: s.client.update_queue("q", max_receives=7, dead_letter_queue="dead"),
        lambda s, b: s.client.queue("q").info().settings.max_receives == 7,
    ),
    "purge queue": (lambda s, b: s.client.queue("q").purge(), lambda s, b: ids_in(s) == []),
    "delete queue": (lambda s, b: s.client.delete_queue("q"), lambda s, b: "q" not in _queues(s)),
}
"""Operations while the sync fails, and the sign after a restart that each took place."""
QUICK = ("send", "send many", "receive", "delete", "create queue")


def _raise_first(results: list[spoolrack.SendResult]) -> None:
    for result in results:
        if result.error is not None:
            raise result.error


def _leased(server: RealServer) -> set[str]:
    return {message.id for message in server.queue().peek(states=[spoolrack.MessageState.LEASED])}


def _queues(server: RealServer) -> set[str]:
    return {queue.name for queue in server.client.list_queues()}


@pytest.mark.parametrize("operation", [*QUICK, *slowly(*sorted(OPERATIONS.keys() - set(QUICK)))])
def test_a_sync_that_fails_once_is_never_called_good_before_a_restart(
    operation: str, server: RealServer, before: Before
) -> None:
    act, took_place = OPERATIONS[operation]
    again: Callable[[], object]
    server.client.create_queue("dead")
    with server.failing(SYNCS, "EIO", when="1"), pytest.raises(OutcomeUnknown):
        act(server, before)
    # From here on every sync would succeed, and prove nothing.
    for again in (
        lambda: act(server, before),
        lambda: server.queue().send("later"),
        lambda: server.queue().receive(1),
        lambda: server.queue().delete_by_id(before.ids[3]),
        lambda: server.client.create_queue("later"),
    ):
        with pytest.raises(StoreFailed) as refused:
            again()
        assert refused.value.retryable
    assert "Input/output error" in server.is_failed()
    server.kill()
    server.start()
    assert server.health() == WELL
    # The operation stays done: only its durability over a power cut was unknown.
    assert took_place(server, before)
    others = [id for id in before.ids if id not in (before.ids[0], before.ids[4])]
    if operation == "delete queue":
        server.client.create_queue("q")
    if operation in ("delete queue", "purge queue"):
        others = []
    assert [id for id in ids_in(server) if id in before.ids[1:4]] == others
    server.queue().send("works again")


def test_a_start_whose_sync_fails_ends_with_a_clear_line(
    server: RealServer, before: Before, tmp_path: object
) -> None:
    assert server.stop() == 0
    failing = RealServer(
        server.root,
        server.root.parent / "failing.log",
        before=("strace", "-f", "-qqq", "-o", "/dev/null", "-e", f"inject={SYNCS}:error=EIO:when=1+"),
    )
    code, said = failing.refuse_start()
    assert code == 74, said
    assert said.splitlines()[-1].startswith("spoolrack: The disk failed to make data durable")
    server.start()
    assert ids_in(server) == before.ids


# Everything else: it costs who asked, and can be asked again.


def test_a_move_that_fails_has_no_effect_and_succeeds_the_next_time(
    server: RealServer, before: Before
) -> None:
    held, queue = before.held, server.queue()
    for act in (
        lambda: held[0].delete(),
        lambda: held[0].release(),
        lambda: held[0].extend(900),
        lambda: queue.receive(1),
        lambda: queue.delete_by_id(before.ids[4]),
        lambda: server.client.queue("q").purge(),
    ):
        with server.failing(MOVES, "EIO"), pytest.raises(DiskError) as refused:
            act()
        assert refused.value.retryable
        assert ids_in(server) == before.ids
        assert _leased(server) == set(before.ids[:2])
    assert server.health() == WELL
    held[0].delete()
    queue.delete_by_id(before.ids[4])
    assert [message.id for message in queue.receive(5)] == before.ids[2:4]
    server.restart()
    assert ids_in(server) == before.ids[1:4]


def test_an_acknowledged_send_whose_last_move_fails_is_delivered_later(server: RealServer) -> None:
    with server.failing(MOVES, "EIO"):
        sent = [server.queue().send("one")]
        sent += [result.id or "" for result in server.queue().send_many(["two", "three"])]
        assert ids_in(server) == []
    received: list[str] = []
    while len(received) < 3:
        received += [message.id for message in server.queue().receive(5, wait=20)]
    assert sorted(received) == sorted(sent)


def test_an_acknowledged_send_whose_last_move_fails_until_the_server_dies_is_delivered(
    server: RealServer,
) -> None:
    with server.failing(MOVES, "EIO"):
        sent = server.queue().send("one")
        server.kill()
    server.start()
    assert [message.id for message in server.queue().receive(5)] == [sent]


@pytest.mark.parametrize(
    ("error", "kind"), [("EDQUOT", DiskFull), ("EMFILE", DiskError), ("EIO", DiskError)]
)
def test_a_send_whose_file_cannot_be_made_leaves_nothing(
    error: str, kind: type[SpoolrackError], server: RealServer, before: Before
) -> None:
    queue = server.queue()

    def send_until_refused() -> None:
        # A commit that has work of the store's own to do is another thread's, and meets no error. A
        # message of a group gets a new file, where others overwrite a spare one.
        while True:
            queue.delete_by_id(queue.send("never", group="g"))

    with server.failing("openat", error, when="1", in_loop=True), pytest.raises(kind) as refused:
        send_until_refused()
    assert refused.value.retryable
    with server.failing("openat", error, when="1", in_loop=True):
        grouped = [spoolrack.Outgoing(body="never", group="g")] * 3
        while (results := queue.send_many(grouped))[0].error is None:
            queue.delete_many([spoolrack.ById(result.id or "") for result in results])
    assert {type(result.error) for result in results} == {kind}
    _check_nothing_came_of_it(server, before)


def test_a_send_whose_write_is_cut_short_leaves_nothing(server: RealServer, before: Before) -> None:
    limit = 100_000
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (limit, hard))
    fits, does_not = bytes(limit - 1), bytes(limit + 1)
    with pytest.raises(DiskError, match="File too large"):
        server.queue().send(does_not)
    results = server.queue().send_many([fits, does_not, fits])
    assert {type(result.error) for result in results} == {DiskError}
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
    _check_nothing_came_of_it(server, before)
    server.queue().send(does_not)


def _check_nothing_came_of_it(server: RealServer, before: Before) -> None:
    assert list((server.root / "new").iterdir()) == []
    assert ids_in(server) == before.ids
    assert server.health() == WELL
    id = server.queue().send("works again")
    server.restart()
    assert ids_in(server) == [*before.ids, id]
