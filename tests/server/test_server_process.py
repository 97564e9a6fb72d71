"""The server as a process: its output, its end, and failed starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc

pytestmark = pytest.mark.timeout(300)  # It starts processes.

PROGRAM = """
import asyncio, sys
from spoolrack_server.process.serve import serve
from spoolrack_server.process.serve_settings import ServeSettings

root, port, http_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings = ServeSettings(root=root, grpc=("127.0.0.1", port), http=("127.0.0.1", http_port))
sys.exit(asyncio.run(serve(settings, lambda server: print(server.grpc_address, flush=True))))
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(
        root: Path = tmp_path / "root", port: int = 0, http_port: int = 0
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(root), str(port), str(http_port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_with_all_it_was_sent(start: Start, number: signal.Signals) -> None:
    process = start()
    with grpc.insecure_channel(address_of(process)) as channel:
        stub = Stubs(channel)
        stub.CreateQueue(rpc.CreateQueueRequest(queue=pb.Queue(name="q")))
        stub.Send(rpc.SendRequest(queue="q", messages=[pb.OutgoingMessage(body=b"kept")]))
    process.send_signal(number)
    _, log = process.communicate()
    assert process.returncode == 0, log
    assert "Traceback" not in log
    events = [line for line in log.splitlines() if "level=warning" not in line]
    assert len(events) == 3, "quiet: it serves, it drains, it has stopped"
    process = start()
    with grpc.insecure_channel(address_of(process)) as channel:
        response = Stubs(channel).Receive(rpc.ReceiveRequest(queue="q"))
    assert [message.body for message in response.messages] == [b"kept"]


def test_a_second_signal_ends_at_once(start: Start) -> None:
    process = start()
    with grpc.insecure_channel(address_of(process)) as channel:
        stub = Stubs(channel)
        stub.CreateQueue(
            rpc.CreateQueueRequest(
                queue=pb.Queue(name="q", settings=pb.QueueSettings(max_message_size=1 << 26))
            )
        )
        stub.Send(rpc.SendRequest(queue="q", messages=[pb.OutgoingMessage(body=bytes(1 << 25))]))
        # A frame that its client doesn't read delays the first signal's drain.
        stream = stub.StreamReceive(iter([rpc.StreamReceiveRequest(start=rpc.ReceiveStart(queue="q"))]))
        while stub.GetQueue(rpc.GetQueueRequest(name="q")).queue.counts.leased_count == 0:
            pass
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        for line in process.stderr:
            if "draining, a second signal ends at once" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.wait()
        assert process.returncode == 128 + signal.SIGTERM
        (last,) = process.stderr
        assert "level=warning" in last
        assert "cut off by a second signal" in last
        assert "signal=SIGTERM" in last
        stream.cancel()


def refused(process: subprocess.Popen[str], code: int) -> str:
    """Return the one line with which a process of exit code `code` says why it doesn't start."""
    out, err = process.communicate()
    assert (process.returncode, out) == (code, ""), err
    # A file system may have deserved a warning of its own.
    (line,) = (line for line in err.splitlines() if "level=warning" not in line)
    assert line.startswith("spoolrack: ")
    return line


@pytest.mark.parametrize("door", ["port", "http_port"])
def test_a_taken_port_is_told_in_one_line(start: Start, door: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(start(**{door: port}), os.EX_UNAVAILABLE)
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


def test_a_port_that_cannot_be_is_told_in_one_line(start: Start) -> None:
    assert "99999" in refused(start(port=99_999), os.EX_UNAVAILABLE)


def test_a_root_that_is_a_file_is_told_in_one_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(start(tmp_path / "file"), os.EX_CANTCREAT)


def test_a_root_of_a_newer_format_is_told_in_one_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("spoolrack 99\n")
    assert "spoolrack 99" in refused(start(tmp_path), os.EX_DATAERR)


WITHOUT_HTTP = """
import asyncio, sys
from spoolrack_server.process.serve import serve
from spoolrack_server.process.serve_settings import ServeSettings

settings = ServeSettings(root=sys.argv[1], grpc=("127.0.0.1", 0), http=None)
loaded = lambda server: print("aiohttp" in sys.modules, flush=True)
sys.exit(asyncio.run(serve(settings, loaded)))
"""


def test_a_server_without_http_starts_without_loading_what_serves_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_HTTP, str(tmp_path / "root")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert address_of(process) == "False"
        process.terminate()
    assert process.returncode == 0
