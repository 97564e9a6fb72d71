"""A server that has used up its file handles goes on with what needs none, and heals by itself."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import spoolrack
import structlog
from spoolrack.errors import DiskError
from spoolrack_server.http.listen_sockets import Acceptor

from tests.support import STUCK
from tests.support.real_server import WELL, RealServer

Serve = Callable[..., RealServer]


@contextmanager
def connecting(server: RealServer) -> Iterator[Any]:
    """Open a connection; yield a future that is done when it is made."""
    # Else gRPC gives us one that this process has already.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:
        yield grpc.channel_ready_future(channel)


def handles(server: RealServer) -> set[int]:
    return {int(handle.name) for handle in Path(f"/proc/{server.pid}/fd").iterdir()}


@contextmanager
def no_more_handles(server: RealServer) -> Iterator[None]:
    """Limit the process to the handles that it has open."""
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    free = 0
    while free < len(handles(server)) and set(range(free + 1)) <= handles(server):
        free += 1  # The limit is the lowest number that it hasn't.
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)


def test_a_server_without_handles_refuses_what_needs_one_and_goes_on_afterwards(serve: Serve) -> None:
    server = serve()
    queue = server.queue()
    server.client.create_queue("q", visibility_timeout=1)
    sent = [queue.send(f"{number}") for number in range(6)]
    sent += [result.id or "" for result in queue.send_many(["a", "batch"])]
    server.restart()  # A message sent a moment ago needs no handle.
    queue = server.queue()
    (held,) = queue.receive(1, visibility_timeout=600)
    late = ExitStack()
    with no_more_handles(server):
        with pytest.raises(DiskError) as refused:
            queue.send("never")
        assert refused.value.retryable
        results = queue.send_many(["never"] * 3)
        assert {type(result.error) for result in results} == {DiskError}
        with pytest.raises(DiskError):
            queue.receive(1)
        with pytest.raises(DiskError):
            server.client.create_queue("never")
        # Work that needs none goes on, its sync too.
        held.extend(600)
        held.delete()
        queue.delete_by_id(sent[5])
        stranger = late.enter_context(connecting(server))
        with pytest.raises(grpc.FutureTimeoutError):
            stranger.result(0.5)
    stranger.result(STUCK)
    late.close()
    assert server.health() == WELL
    left = [*sent[1:5], *sent[6:]]
    assert [message.id for message in queue.peek()] == left
    # A message that a receive had taken and couldn't read comes back.
    received: list[spoolrack.Message] = []
    while len(received) < len(left):
        received += queue.receive(10, wait=20, visibility_timeout=600)
    assert sorted(message.id for message in received) == left
    queue.send("works again")
    server.restart()
    assert [message.id for message in server.queue().peek()][:-1] == left


def test_connections_that_take_all_handles_lose_no_message(serve: Serve) -> None:
    server = serve()
    server.client.create_queue("q")
    queue = server.queue()
    sent = [queue.send("first")]
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    limit = len(handles(server)) + 10
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, hard))
    with ExitStack() as crowd:
        for _ in range(30):
            crowd.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        while len(handles(server)) < limit:
            pass
        with pytest.raises(DiskError) as refused:
            queue.send("never")
        assert refused.value.retryable
        assert [message.id for message in queue.peek(max_body_bytes=0)] == sent
        queue.delete_by_id(sent.pop())
    with server.connect() as patient:
        sent.append(patient.queue("q").send("third"))
    assert server.health() == WELL
    server.restart()
    assert [message.id for message in server.queue().peek()] == sent


def open_silently(stack: ExitStack, port: int, count: int) -> None:
    for _ in range(count):
        stack.enter_context(socket.create_connection(("127.0.0.1", port), STUCK))


def test_connections_leave_handles_to_the_store(serve: Serve) -> None:
    server = serve(before=("prlimit", "--nofile=128:128"))
    server.client.create_queue("q")
    queue = server.queue()
    with ExitStack() as crowd:
        for port in (server.http_port, server.port):
            open_silently(crowd, port, 100)
        sent = [queue.send(b"x"), *(result.id for result in queue.send_many([b"y"] * 20))]
        assert [message.id for message in queue.receive(50)] == sent
        words = "the port has as many connections as it may"
        server.until_logged(words)
        # Once, however many were closed.
        assert server.log.count(words) == 1
    assert "allows fewer connections" in server.log
    assert "Too many open files" not in server.log


def test_a_listener_without_handles_rests_and_says_so_once(serve: Serve) -> None:
    server = serve()
    words = "no connection can be accepted"
    with no_more_handles(server), ExitStack() as crowd:
        open_silently(crowd, server.http_port, 20)
        server.until_logged(words)
    assert server.health() == WELL
    assert server.log.count(words) == 1


class _WithoutHandles(socket.socket):
    """A listening socket for whose connections there is no descriptor."""

    tries = 0

    def accept(self) -> Any:
        self.tries += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_a_listener_without_handles_asks_once_in_each_rest() -> None:
    """The kernel reports a connection that can't be accepted again at once: without a rest the loop
    would do nothing else."""
    with _WithoutHandles() as listening, socket.socket() as client:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        acceptor = Acceptor(
            [listening], asyncio.Protocol, structlog.get_logger(), connections=9, handshake=9
        )
        acceptor.start()
        client.connect(listening.getsockname())
        for _ in range(100):
            await asyncio.sleep(0)
        assert listening.tries == 1
        acceptor.close()


def test_a_server_without_handles_or_threads_for_itself_ends_and_says_which_limit_to_raise(
    tmp_path: Path,
) -> None:
    # Each thread's stack is as large as that of the first may become.
    few_threads = ("prlimit", f"--stack={8 << 30}:{8 << 30}", f"--as={32 << 30}:{32 << 30}")
    for before, told in ((("prlimit", "--nofile=70:70"), "ulimit -n"), (few_threads, "TasksMax")):
        server = RealServer(tmp_path / "root", tmp_path / "log", before=before)
        code, said = server.refuse_start()
        assert code == os.EX_OSERR
        assert told in said
        assert len(said.splitlines()) == 1
