"""Conversations with a server, kept as text: each line at the margin is a request, and the indented
lines below it are the whole answer, with the lines that the server logs.

    GET /q/messages?wait=0 | If-Match: "x" | body     HTTP, with headers and a body
    rpc Send queue: "q" | ...                         gRPC; of a stream, requests
    sqs SendMessage {"QueueUrl": "/q"} | ...          SQS, with headers
    $ send q --body x | standard input                the command line
    form Action=ListQueues                            SQS's older protocol
    >>> client.queue("q").receive()                   Python; `files`, `shards`, `routed`, `vsqs`
    after 1000, until q 2 ready, until rest, as alice, metrics
    stop                                              the server

In a request `<id>` and `<receipt>` are what the last answer with one had. `…` is the text of an error
that the conversation has told before. A Content-Length is told if it isn't that of the body. A test
plays the requests and compares. After an intended change write the answers anew, and read the
difference:

    python -m tests.server.conversation_player
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import inspect
import io
import json
import logging
import os
import re
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import IO, Any, Final
from unittest import mock

import grpc
import spoolrack
import spoolrack.aio
import spoolrack.vsqs
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.message import Message
from spoolrack._help import LEFT
from spoolrack.testing import open_root, running_shards
from spoolrack.v1 import (  # noqa: F401  # known to the pool by that
    queue_service_pb2,
    redrive_service_pb2,
    reservation_service_pb2,
    schedule_service_pb2,
    staging_service_pb2,
)
from spoolrack_server.cli.program import run
from spoolrack_server.process.serve_settings import LOOPBACK, ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.system import error_log
from spoolrack_server.system.logs import make_log
from spoolrack_store.manual_clock import ManualClock

from tests.store.recorder import show
from tests.support import STUCK
from tests.support.access_rig import Files
from tests.support.server_rig import refusal

FOLDER: Final = Path(__file__).parent / "conversations"
PATIENCE: Final = 20
LAST_COUNTS: Final = 10
"""Seconds until all calls are counted."""
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID: Final = re.compile(rf'{_UUID}|(?<=~)[0-9a-f]{{16}}\b|(?<!")\b[0-9a-f]{{32}}\b')
_RECEIPT: Final = re.compile(rf"[\w.-]+:{_UUID}~[0-9a-f]{{16}}[*0-9]*")
_OF_THE_MOMENT: Final = {
    r"\b[0-9.]+ ms\.?$": "N ms",
    r"\bpid \d+ on [^\".]*": "pid N",
    r"\bsrk_\S+": "TOKEN",
    r"sha256:\w+": "sha256:HASH",
    r"try-[0-9a-f]{16}": "try-RANDOM",
    r"keys\.[0-9a-f]{8}": "keys.RANDOM",
}
_OF_NOW: Final = {
    r" *(?<![-\w])(\d+[dhm] \d+[hms]|\d+(\.\d+)?(ms|s|m|h|d))(?![-\w]) *": " SPAN ",
    r"20(2[4-9]|[3-9]\d)-\d\d-\d\d[T ][\d:.]+": "NOW",
    r'(?<=_age": )[0-9.]+': "SPAN",
    r"(?<=\S) {2,}": "  ",
}
"""More of these, of commands on a folder: it is opened with the system's clock."""
_FIELD: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+: ")
"""The beginning of a header field: a name is a token (RFC 9110, 5.6.2), and may have a "%" or a "."."""
_LOGGED: Final = re.compile(r'^log: .* reason=\w+ detail=("(?:[^"\\]|\\.)*")')
_RAISED: Final = re.compile(r"[A-Z]\w+: (.{20,})")
_HEADERS: Final = ("Connection", "Date", "Server")
"""Not told: that a connection ends is up to when a body comes."""
_REQUEST: Final = re.compile(r"\b[0-9a-f]{12}-[0-9a-f]+\b")
_UNTOLD: Final = re.compile(
    r"_bucket|_sum\b|_created|_dropped_|commit_|sync_|disk_|memory_|streams|loop_|process_|python_|_build|gc_"
    r"|unlinked|reaper|access_file_age|GET /-/metrics"
)
"""Metrics that are as the machine is."""
_SERVICES: Final = {
    method.name: method
    for module in ("queue", "redrive", "reservation", "schedule", "staging")
    for service in descriptor_pool.Default()
    .FindFileByName(f"spoolrack/v1/{module}_service.proto")
    .services_by_name.values()
    for method in service.methods
}


class Player:
    """A server with its clients, for one conversation."""

    def __init__(self, folder: Path, tokens: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        """`tokens` are by the names of their callers; a line `as NAME` calls by one."""
        self._tokens = tokens
        self._token = ""
        self._settings = settings
        self.clock = ManualClock()
        self.labels: dict[str, str] = {}
        self.last = {"id": "", "receipt": ""}
        """The id and the receipt that `<id>` and `<receipt>` of a request stand for."""
        self.texts: list[tuple[str, str]] = [(str(folder), "FOLDER")]
        """Texts of this run, such as ports and folders, and the words that are recorded for them."""
        self._error_texts: set[str] = set()
        """Those that were told."""
        self._folder = folder
        self._log = io.StringIO()
        self.names: dict[str, Any] = {"spoolrack": spoolrack, "defaults": defaults}
        self._server: Server
        self._is_now = False

    @contextlib.contextmanager
    def playing(self, text: str) -> Iterator[None]:
        """Serve, and open the clients that a conversation names."""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        thread.start()
        self._loop, end = started.result(STUCK)
        server = self._server
        self._log.seek(0)
        self._log.truncate()
        ports = {"GRPC": server.grpc_port, "HTTP": server.http_port, "SQS": server.sqs_port}
        self.texts += [(f"{LOOPBACK}:{port}", name) for name, port in ports.items()]
        os.environ["SPOOLRACK_URL"] = f"grpc://{server.grpc_address}"
        try:
            with (
                mock.patch.object(error_log, "BURST", 1_000),  # No line is left out.
                grpc.insecure_channel(server.grpc_address) as self._channel,
                spoolrack.connect(f"grpc://{server.grpc_address}") as client,
                open_root(self._folder / "other", clock=self.clock) as root,
                root.client() as files,
                contextlib.ExitStack() as stack,
            ):
                self.names |= {"client": client, "files": files}
                if ">>> shards" in text:
                    servers = stack.enter_context(running_shards(3, clock=self.clock))
                    self.names["shards"] = stack.enter_context(servers.client())
                    urls = servers.url.split(",")
                    self.texts += [(each, f"grpc://SHARD{n}") for n, each in enumerate(urls)]
                if ">>> routed" in text:
                    routed = spoolrack.connect(f"grpc://{server.grpc_address}", routing="header")
                    self.names["routed"] = stack.enter_context(routed)
                if ">>> vsqs" in text:
                    jobs = self._folder / "jobs"
                    jobs.mkdir()
                    stack.enter_context(mock.patch.object(spoolrack.vsqs, "micros", self._micros))
                    self.names["vsqs"] = stack.enter_context(spoolrack.connect(f"vsqs://{jobs}"))
                yield
        finally:
            del os.environ["SPOOLRACK_URL"]
            os.environ.pop("SPOOLRACK_TOKEN", None)
            self._loop.call_soon_threadsafe(end.set)
            thread.join(STUCK)

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall() / 1_000, UTC)

    def _micros(self) -> int:
        return self.clock.wall() * 1_000

    async def _serve(self, started: Future[Any]) -> None:
        end = asyncio.Event()
        settings = ServeSettings(
            root=str(self._folder / "root"), **{"sqs": (LOOPBACK, 0), "grace": 1.0, **self._settings}
        )
        log = make_log(stream=self._log)
        try:
            self._server = Server(settings, clock=self.clock, random=Random(1), log=log)
            await self._server.start()
        except Exception as error:  # noqa: BLE001  # told by the thread that waits
            started.set_exception(error)
            return
        started.set_result((asyncio.get_running_loop(), end))
        await end.wait()
        await self._server.stop()

    def play(self, line: str, expected: list[str]) -> list[str]:
        """Return what a request is answered, as lines."""
        self._expected = expected
        for name, found in self.last.items():
            line = line.replace(f"<{name}>", found)
        word, _, rest = line.partition(" ")
        doors: dict[str, Callable[[str], list[str]]] = {
            "rpc": self._rpc,
            "sqs": self._sqs,
            "form": self._form,
            "$": self._command,
            ">>>": self._python,
            "as": self._as,
            "after": self._after,
            "until": self._until,
            "metrics": self._metrics,
            "stop": self._stop,
        }
        self._is_now = "--root FOLDER/" in rest
        told = doors[word](rest) if word in doors else self._http(word, rest)
        # What the server does after an answer.
        asyncio.run_coroutine_threadsafe(_turns(), self._loop).result(STUCK)
        told += [f"log: {each.partition(' ')[2]}" for each in self._log.getvalue().splitlines()]
        self._log.seek(0)
        self._log.truncate()
        for name, pattern in (("id", _UUID), ("receipt", _RECEIPT)):
            for found in re.findall(pattern, "\n".join(told)):
                self.last[name] = found
        return self._once([self._told(each) for each in told if each])

    def _once(self, lines: list[str]) -> list[str]:
        """Leave out the texts of errors that were told before: those of log lines and exceptions."""
        # The longest first: a text may be a part of another.
        texts = sorted({*self._error_texts, *_error_texts(lines)}, key=len, reverse=True)
        told: list[str] = []
        for line in lines:
            for text in texts:
                if text in self._error_texts:
                    line = line.replace(json.dumps(text)[1:-1], "…").replace(text, "…")
                elif text in line or json.dumps(text)[1:-1] in line:
                    self._error_texts.add(text)
            told.append(line)
        return told

    def _told(self, line: str) -> str:
        for text, word in reversed(self.texts):
            line = line.replace(text, word)
        line = re.sub(
            r" (peer|identity)=\S+", "", line
        )  # Of each refusal: tests of their own have them.
        line = re.sub(r"127\.0\.0\.1:\d+", "CALLER", _REQUEST.sub("REQUEST", line))
        for pattern, word in (_OF_THE_MOMENT | (_OF_NOW if self._is_now else {})).items():
            line = re.sub(pattern, word, line)
        return _ID.sub(
            lambda found: self.labels.setdefault(found[0], f"<{len(self.labels) + 1}>"), line
        )

    def _ask(
        self, port: int | None, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> list[str]:
        connection = http.client.HTTPConnection(LOOPBACK, port or 0, timeout=STUCK)
        if self._token:
            headers.setdefault("Authorization", f"Bearer {self._token}")
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            told = [
                f"{name}: {value}"
                for name, value in sorted(answer.getheaders())
                if name not in _HEADERS
                and (name, value) != ("Content-Length", str(len(content) or None))
            ]
        lines = _pieces(content.decode(errors="backslashreplace"), told)
        # Without the reason phrase: of 416 it differs between versions of Python.
        return [str(answer.status), *told, *lines]

    def _http(self, method: str, rest: str) -> list[str]:
        path, *parts = rest.split(" | ")
        headers = dict(each.split(": ", 1) for each in parts if _FIELD.match(each))
        body = next((each for each in parts if not _FIELD.match(each)), None)
        if body is not None and body[:1] in "{[" and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        return self._ask(
            self._server.http_port, method, path, None if body is None else body.encode(), headers
        )

    def _sqs(self, rest: str) -> list[str]:
        first, *parts = rest.split(" | ")
        operation, _, body = first.partition(" ")
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{operation}",
            **dict(each.split(": ", 1) for each in parts),
        }
        return self._ask(self._server.sqs_port, "POST", "/", (body or "{}").encode(), headers)

    def _form(self, rest: str) -> list[str]:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._ask(self._server.sqs_port, "POST", "/", rest.encode(), headers)

    def _rpc(self, rest: str) -> list[str]:
        name, _, texts = rest.partition(" ")
        method = _SERVICES[name]
        kind = message_factory.GetMessageClass(method.input_type)
        requests = [text_format.Parse(text, kind()) for text in texts.split(" | ")]
        kinds = [
            "stream" if each else "unary" for each in (method.client_streaming, method.server_streaming)
        ]
        call = getattr(self._channel, "_".join(kinds))(
            f"/{method.containing_service.full_name}/{name}",
            kind.SerializeToString,
            message_factory.GetMessageClass(method.output_type).FromString,
        )
        metadata = [("authorization", f"Bearer {self._token}")] if self._token else []
        asked: Any = iter(requests) if method.client_streaming else requests[0]
        try:
            if not method.server_streaming:
                return [_text(call(asked, timeout=STUCK, metadata=metadata))]
            return [_text(each) for each in call(asked, timeout=STUCK, metadata=metadata)]
        except grpc.RpcError as error:
            told = refusal(error)  # type: ignore[arg-type]
            facts = " ".join(f"{key}={value!r}" for key, value in sorted(told.metadata.items()))
            retry = "" if told.retry_millis is None else f" retry={told.retry_millis}"
            return [f"{told.code.name} {told.reason}: {told.message}", f"{facts}{retry}"]

    def _command(self, rest: str) -> list[str]:
        words, _, given = rest.partition(" | ")
        arguments = shlex.split(words.replace("FOLDER", str(self._folder)))
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(given.replace("\\n", "\n").encode())
            files[0].seek(0)
            for number, file in enumerate(files):
                stack.enter_context(_in_place_of(number, file))
            stack.enter_context(_without_handlers())
            code = run(arguments, *([] if self._is_now else [self._time]))
            sys.stdout.flush()
            sys.stderr.flush()
            out, err = (_read(file) for file in files[1:])
        # A file system without a journal is told about.
        told = [f"stderr: {each}" for each in err if "power cut" not in each]
        return [*out, *told, *([f"exit {code}"] if code else [])]

    def _python(self, text: str) -> list[str]:
        name, sign, expression = text.partition(" := ")
        try:
            found = eval(expression if sign else text, self.names)
        except Exception as error:  # noqa: BLE001  # told
            return [_python_text(error)]
        if sign:
            self.names[name] = found
        if isinstance(found, Defaults):
            return list(found)
        return [] if found is None else [_python_text(found)]

    def _as(self, name: str) -> list[str]:
        self._token = self._tokens.get(name, "wrong")
        os.environ["SPOOLRACK_TOKEN"] = self._token
        return []

    def _after(self, rest: str) -> list[str]:
        self.clock.advance(int(rest))
        return []

    def _until(self, rest: str) -> list[str]:
        """Wait for a queue's count, or for `rest`: all that is deleted is unlinked."""
        metrics = self._server.store.metrics
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if rest == "rest":
                if metrics.root().to_be_unlinked == 0:
                    return []
            else:
                name, count, state = rest.split()
                for queue in metrics.queues():
                    if queue.name == name and getattr(queue, state) == int(count):
                        return []
            time.sleep(0.001)
        return [f"never: {show(list(metrics.queues()))}"]

    def _stop(self, _: str) -> list[str]:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(STUCK)
        return []

    def _metrics(self, _: str) -> list[str]:
        """Read them until they are as expected, for a while: a call is counted after its answer."""
        end = time.monotonic() + LAST_COUNTS
        while True:
            told = [self._told(each) for each in self._scrape()]
            if told == self._expected or time.monotonic() > end:
                return told
            time.sleep(0.01)

    def _scrape(self) -> list[str]:
        connection = http.client.HTTPConnection(LOOPBACK, self._server.http_port or 0, timeout=STUCK)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {self._token}"}
            connection.request("GET", "/-/metrics", headers=headers)
            lines = connection.getresponse().read().decode().splitlines()
        return [each for each in lines if each[0] != "#" and not _UNTOLD.search(each)]


@contextlib.contextmanager
def _in_place_of(number: int, file: IO[bytes]) -> Iterator[None]:
    """Let a file be a standard stream: the descriptor, and Python's object."""
    name = ("stdin", "stdout", "stderr")[number]
    before, own = getattr(sys, name), os.dup(number)
    os.dup2(file.fileno(), number)
    # Of standard input the name is told, too.
    with open(os.dup(file.fileno()) if number else "/dev/stdin", "w" if number else "r") as text:
        setattr(sys, name, text)
        try:
            yield
        finally:
            setattr(sys, name, before)
            os.dup2(own, number)
            os.close(own)


@contextlib.contextmanager
def _without_handlers() -> Iterator[None]:
    """Let a command log as it does in a process of its own."""
    handlers, logging.root.handlers = logging.root.handlers, []
    try:
        yield
    finally:
        logging.root.handlers = handlers


def _read(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode(errors="backslashreplace").splitlines()


async def _turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def _error_texts(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if found := _LOGGED.search(line):
            yield json.loads(found[1])
        elif found := _RAISED.match(line):
            yield found[1]


def _pieces(text: str, headers: list[str]) -> list[str]:
    """Return the lines of a content; of JSON one for each member, if it is long."""
    try:
        found = json.loads(text)
    except ValueError:
        return text.splitlines()
    if len(text) < 100 or not isinstance(found, dict):
        return [text]
    return [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]


def _text(message: Message) -> str:
    return text_format.MessageToString(message, as_one_line=True) or "(empty)"


class Defaults(list[str]):
    """Told as a line each."""


def defaults(module: Any) -> Defaults:
    """Return the defaults of all that a module has for its users."""
    told = Defaults()
    for name in sorted(module.__all__):
        public = getattr(module, name)
        calls = dict(inspect.getmembers(public)) if inspect.isclass(public) else {"": public}
        for each, call in sorted(calls.items()):
            if inspect.isfunction(call) and (each == "__init__" or each[:1] != "_"):
                for parameter in inspect.signature(call).parameters.values():
                    if parameter.default not in (parameter.empty, None, LEFT):
                        told.append(f"{name}.{each} {parameter.name}={show(parameter.default)}")
    return told


def _python_text(value: Any) -> str:
    return show(list(value) if isinstance(value, tuple) else value)


def _access(folder: Path, rules: list[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Write the files for the callers that have permissions; return their tokens, and settings."""
    if not rules:
        return {}, {}
    files = Files(folder)
    paths: dict[str, Any] = {
        "tokens": files.write_tokens(*{each.split()[0] for each in rules}),
        "permissions": files.write_permissions(*rules),
    }
    return files.tokens, {**paths, "sqs": None}


def played(text: str) -> str:
    """Return a conversation with the answers of now."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="spoolrack-") as name:
        first = text.splitlines()[0]
        access = (
            first.removeprefix("permissions: ").split("; ") if first.startswith("permissions: ") else []
        )
        player = Player(Path(name), *_access(Path(name), access))
        with player.playing(text):
            given = text.splitlines()
            for place, line in enumerate(given):
                if not line or line.startswith(("#", "permissions: ")):
                    lines.append(line)
                elif not line.startswith("    "):
                    known = [each[4:] for each in takewhile(_is_answer, given[place + 1 :])]
                    lines += [line, *(f"    {each}".rstrip() for each in player.play(line, known))]
    return "".join(f"{line}\n" for line in lines)


def _is_answer(line: str) -> bool:
    return line.startswith("    ")


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.txt"))):
        path.write_text(played(path.read_text()))
