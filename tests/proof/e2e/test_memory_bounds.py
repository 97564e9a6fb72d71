"""The server's memory stays bounded under large requests that are refused and frames that aren't read.

The kernel would kill the server at its limit. The clients here are gRPC's own, and pass bytes on.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import spoolrack
import trustme
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.access.tokens import line_of, new_token
from spoolrack_server.app.memory import FAST, IDLE

from tests.proof.e2e import memory_cage
from tests.proof.e2e.memory_cage import MemoryCage
from tests.support import MIB, STUCK
from tests.support.statuses import reason_of

LIMIT: Final = 1024 * MIB
WATERMARK: Final = 512 * MIB
"""The watermark that `serve` would take by itself, were it started within the limit."""
UNAUTHENTICATED: Final = 128 * MIB
"""docs/how-to/security.md: a call refused by its metadata costs no more than a connection."""
BODY: Final = 60 * MIB
CALLERS: Final = 16
LOOKS: Final = 100
STEP: Final = 32 * MIB
"""Bytes that come between two measurements of the server."""
SOCKET: Final = 6 * MIB
"""Bytes that the kernel keeps for a socket whose process doesn't read, at most (`tcp_rmem`)."""
BOUND: Final = WATERMARK + 2 * STEP + CALLERS * SOCKET + IDLE
"""`IDLE` for the mapped files, which the watermark doesn't count. The second `STEP` is for what the
allocator keeps of the bodies of earlier rounds: a loaded machine took 3 MiB more than without."""
BLOCK: Final = 256 * 1024
SEND: Final = "/spoolrack.v1.QueueService/Send"

pytestmark = pytest.mark.skipif(memory_cage.why_not() is not None, reason=str(memory_cage.why_not()))


class Rig:
    """A server with tokens and TLS in a cage, and sixteen connections to it."""

    def __init__(self, folder: Path, cage: MemoryCage) -> None:
        self.cage = cage
        self.token = new_token()
        ca = trustme.CA()
        issued = ca.issue_cert("127.0.0.1")
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(ca.cert_pem.bytes())
        certificate = folder / "server.pem"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        for name, content in (
            ("key", issued.private_key_pem.bytes()),
            ("tokens", (line_of("caller", self.token) + "\n").encode()),
        ):
            path = folder / name
            path.touch(0o600)
            path.write_bytes(content)
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "spoolrack_server", "serve", "--root", str(folder / "root")),
                *("--grpc", "127.0.0.1:0", "--http", "off"),
                *("--tls-certificate", str(certificate), "--tls-key", str(folder / "key")),
                *("--tokens", str(folder / "tokens"), "--memory-watermark", f"{WATERMARK // MIB}M"),
            ],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = ""
        for line in self.process.stdout:
            if found := re.fullmatch(r" +gRPC +(\S+)\n", line):
                self.address = found[1]
                break
        cage.take_in(self.process.pid)
        credentials = grpc.ssl_channel_credentials(self.ca.read_bytes())
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._credentials, self._options = credentials, options
        self.channels: list[grpc.Channel] = []
        self.connect_to(self.address)
        self.metadata = (("authorization", f"Bearer {self.token}"),)

    def channel_to(self, address: str) -> grpc.Channel:
        return grpc.secure_channel(address, self._credentials, self._options)

    def connect_to(self, address: str) -> None:
        """Send over sixteen connections to `address` from now on."""
        self._close_channels()
        self.channels = [self.channel_to(address) for _ in range(CALLERS)]

    def _close_channels(self) -> None:
        for channel in self.channels:
            channel.close()

    def client(self) -> spoolrack.Client:
        return spoolrack.connect(f"grpcs://{self.address}", ca=self.ca, token=self.token, timeout=STUCK)

    def send_at_once(self, *, metadata: Any) -> Counter[str]:
        """Send over all connections at once; return how the sends ended."""
        message = pb.OutgoingMessage(body=os.urandom(BODY))
        raw = rpc.SendRequest(queue="q", messages=[message]).SerializeToString()
        ends: list[str] = []

        def send(channel: grpc.Channel) -> None:
            call = channel.unary_unary(SEND, response_deserializer=rpc.SendResponse.FromString)
            try:
                answer = call(raw, metadata=metadata, timeout=STUCK)
            except grpc.RpcError as error:
                ends.append(error.code().name)  # type: ignore[attr-defined]
            else:
                ends.append(reason_of(answer.results[0].error) or "sent")

        threads = [threading.Thread(target=send, args=(each,)) for each in self.channels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Counter(ends)

    @property
    def peak(self) -> int:
        """The most memory that the server had at a time."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def check(self) -> None:
        """Check that the server lives, serves, and takes sends again."""
        assert self.cage.kills == 0
        with self.client() as client:
            client.create_queue("after")
            client.queue("after").send(b"x")
            (message,) = client.queue("after").receive()
            assert message.body == b"x"
            message.delete()
        assert self.peak < LIMIT
        assert self.process.poll() is None

    def close(self) -> None:
        self._close_channels()
        self.process.kill()
        self.process.wait(STUCK)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


class PacedRelay:
    """Relays connections to a server, and no more than `STEP` bytes until it has measured its memory.

    Otherwise all bodies may come between two measurements, on a machine with load.
    """

    def __init__(self, rig: Rig) -> None:
        self._server = rig.address
        self._health = rig.channel_to(rig.address)
        self._lock = threading.Lock()
        self._left = STEP
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self.address = f"127.0.0.1:{self._sockets[0].getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        host, _, port = self._server.rpartition(":")
        with contextlib.suppress(OSError):  # Closed.
            while True:
                near, _address = self._sockets[0].accept()
                far = socket.create_connection((host, int(port)))
                self._sockets += [near, far]
                self._start(self._copy, near, far, self._pace)
                self._start(self._copy, far, near, lambda size: None)

    def _copy(self, source: socket.socket, target: socket.socket, pace: Callable[[int], None]) -> None:
        with contextlib.suppress(OSError):  # Closed by one of both.
            while part := source.recv(BLOCK):
                pace(len(part))
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)

    def _pace(self, size: int) -> None:
        with self._lock:
            self._left -= size
            if self._left < 0:
                # Its loop measures before it answers a call that comes when a measurement is due.
                due = time.monotonic() + 2 * FAST
                while time.monotonic() < due:
                    self._health.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=STUCK)
                self._health.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=STUCK)
                self._left = STEP

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        # A thread may have bytes left of a send that was refused: it measures, and passes them on.
        for thread in self._threads:
            thread.join(STUCK)
        self._health.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    cage = MemoryCage(LIMIT)
    with contextlib.ExitStack() as stack:
        stack.callback(cage.remove)
        rig = Rig(tmp_path, cage)
        stack.callback(rig.close)
        yield rig


def test_large_sends_without_a_token_cost_no_memory(rig: Rig) -> None:
    assert rig.send_at_once(metadata=()) == {"UNAUTHENTICATED": CALLERS}
    assert rig.peak < UNAUTHENTICATED
    rig.check()


@pytest.mark.slow
def test_large_sends_that_are_refused_leave_the_memory_bounded_again_and_again(
    rig: Rig, request: pytest.FixtureRequest
) -> None:
    with rig.client() as client:
        client.create_queue("q")
    relay = PacedRelay(rig)
    request.addfinalizer(relay.close)
    rig.connect_to(relay.address)
    for _ in range(3):
        ends = rig.send_at_once(metadata=rig.metadata)
        assert set(ends) <= {"MESSAGE_TOO_LARGE", "RESOURCE_EXHAUSTED"}
        rig.check()
        assert rig.peak < BOUND


@pytest.mark.slow
def test_unread_frames_leave_the_memory_bounded(rig: Rig) -> None:
    with rig.client() as client:
        client.create_queue("q", max_message_size=64 * MIB)
        queue = client.queue("q")
        body = bytes(BODY)
        for _ in range(CALLERS):
            queue.send(body)
        streams = []
        for channel in rig.channels:
            receive = channel.unary_stream(
                "/spoolrack.v1.QueueService/StreamReceive",
                request_serializer=rpc.StreamReceiveRequest.SerializeToString,
            )
            start = rpc.ReceiveStart(queue="q", max_in_flight=1)
            request = rpc.StreamReceiveRequest(start=start)
            streams.append(receive(request, metadata=rig.metadata))
        # A stream that has its initial metadata is served; some have leased, and the others wait.
        for stream in streams:
            stream.initial_metadata()
        leased = 0
        for _ in range(LOOKS):
            leased = max(leased, client.queue("q").info().counts.leased_count)
        assert leased
        rig.check()
        for stream in streams:
            stream.cancel()
        # The awaited message is there for the next receive.
        (found,) = queue.receive(wait=STUCK)
        assert found.body == body
