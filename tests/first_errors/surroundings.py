"""Servers, addresses and folders that a newcomer meets, and one way into each door."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import kombu
import pytest
import spoolrack
import spoolrack.aio
import spoolrack.kombu
import trustme
from botocore.exceptions import BotoCoreError, ClientError
from kombu.exceptions import KombuError
from spoolrack.spark._options import InvalidOption, read_options

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.access_rig import Files
from tests.support.fixed_answers import Answer, answering
from tests.support.forked import ForkedProgram, run_forked
from tests.support.sqs_rig import Sqs

QUEUE_URL: Final = "http://localhost/000000000000/{}"
"""Of SQS; the host means nothing."""
USUAL: Final = {"SPOOLRACK_GRPC": 50051, "SPOOLRACK_HTTP": 8080}
"""The ports of a `serve` that names none, and the variables that name others."""
_AS_MORTAL: Final = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


class Surroundings:
    """What `{names}` in the table of mistakes stand for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        (folder / "etc").mkdir()
        self._files = Files(folder / "etc")
        self.names: dict[str, str] = {"folder": str(folder)}
        self._make_credentials()
        self._make_folders()
        self._occupy_usual_ports()
        self._start_servers()

    def __call__(self, text: str) -> str:
        """Return the text with each `{name}` replaced."""
        return re.sub(r"\{([a-z_]+)\}", lambda found: self.names[found[1]], text)

    def _make_credentials(self) -> None:
        files, ca, other = self._files, trustme.CA(), trustme.CA()
        tls = files.write_certificate(ca)
        tokens = files.write_tokens("reader", "admin")
        misnamed = files.write_client(ca, "queues.example")
        self.names |= {
            "certificate": tls.certificate,
            "key": tls.key,
            "misnamed": misnamed.certificate,
            "misnamed_key": misnamed.key,
            "ca": files.write_ca(ca),
            "other_ca": files.write_ca(other, "other.pem"),
            "tokens": tokens,
            "open_tokens": files.write("open", Path(tokens).read_text(), mode=0o644),
            "permissions": files.write_permissions("reader receive jobs", "admin all *"),
            "admin": files.tokens["admin"],
            "reader": files.tokens["reader"],
            "reader_file": files.write("reader", files.tokens["reader"]),
            "wrong_token": "a-token-of-another-server",
            "wrong_file": files.write("wrong", "a-token-of-another-server"),
        }

    def _make_folders(self) -> None:
        for name in ("other", "newer", "older", "locked"):
            (self._folder / name).mkdir()
            self.names[name] = str(self._folder / name)
        (self._folder / "other" / "notes.txt").touch()
        (self._folder / "newer" / "FORMAT").write_text("spoolrack 99\n")
        (self._folder / "older" / "FORMAT").write_text("spoolrack 2\n")
        (self._folder / "locked").chmod(0)
        self._stack.callback((self._folder / "locked").chmod, 0o700)
        self.names["file"] = self._files.write("file", "x")
        self.names["body"] = self._files.write("body", "x" * 2_000)
        large = self._files.write("large", "")
        os.truncate(large, 65 << 20)
        self.names["large"] = large

    def _occupy_usual_ports(self) -> None:
        """Listen as `make serve` does, which runs beside `make test`; a `serve` of the table that names
        no port takes a free one."""
        for name, port in USUAL.items():
            self._stack.enter_context(pytest.MonkeyPatch.context()).setenv(name, "127.0.0.1:0")
            usual = self._stack.enter_context(socket.socket())
            usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # It is: another program listens there.
                usual.bind(("127.0.0.1", port))
                usual.listen()

    def _start_servers(self) -> None:
        tls = ("--tls-certificate", "{certificate}", "--tls-key", "{key}")
        self._serve("plain", "--sqs", "127.0.0.1:0")
        self._serve("full", "--sqs", "127.0.0.1:0", "--min-free-space", "1000T")
        self._serve("guarded", "--tokens", "{tokens}", "--permissions", "{permissions}")
        self._serve("tls", *tls)
        self._serve("mutual", *tls, "--tls-client-ca", "{ca}")
        self._serve("misnamed", "--tls-certificate", "{misnamed}", "--tls-key", "{misnamed_key}")
        taken = self._stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))  # Nothing listens, and no other program gets the port.
        self.names["closed"] = f"127.0.0.1:{taken.getsockname()[1]}"
        self.names["html"] = f"127.0.0.1:{self._stack.enter_context(answering(_page_of_a_proxy))}"
        for server in ("plain", "full", "guarded"):
            token = self.names["admin"] if server == "guarded" else None
            with spoolrack.connect(self(f"{{{server}_grpc}}"), token=token) as connected:
                connected.create_queue("jobs")
                connected.create_queue("small", max_message_size=1_024)

    def _serve(self, name: str, *options: str) -> None:
        """Run a server; `{NAME_grpc}`, `{NAME_http}` and `{NAME_sqs}` are its addresses."""
        root = self._folder / f"{name}-root"
        ports = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
        process = ForkedProgram(
            "spoolrack_server", "serve", "--root", root, *ports, *map(self, options), folder=CHECKOUT
        )
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                self._stack.callback(stream.close)
        self._stack.callback(process.wait, STUCK)
        self._stack.callback(process.terminate)
        wanted = 3 if "--sqs" in options else 2
        for line in process.stdout:
            told = re.match(r" +(gRPC|HTTP|SQS) .*:(\d+)(/|$)", line)
            if told is not None:
                self.names[f"{name}_{told[1].lower()}"] = f"127.0.0.1:{told[2]}"
                wanted -= 1
            if not wanted:
                return
        assert process.stderr is not None
        raise AssertionError(process.stderr.read())


def _page_of_a_proxy(_: str) -> Answer:
    """Return what a proxy that reaches no server answers to all."""
    return 502, "text/html", b"<html><body><h1>502 Bad Gateway</h1></body></html>"


# The doors. Each makes a call, and returns what is said to the caller.

Act = Callable[[Surroundings], str]
Call = Callable[[Any], Any]


def _send(client: Any) -> Any:
    return client.queue("jobs").send(b"x")


def python(url: str, call: Call = _send, **options: Any) -> Act:
    """A call of the blocking client."""

    def act(around: Surroundings) -> str:
        try:
            with spoolrack.connect(around(url), **_options(around, options)) as client:
                call(client)
        except spoolrack.SpoolrackError as error:
            return str(error)
        raise AssertionError("no error")

    return act


def aio(url: str, call: Call = _send, **options: Any) -> Act:
    """The same call of the client of asyncio."""

    async def make(around: Surroundings) -> None:
        async with spoolrack.aio.connect(around(url), **_options(around, options)) as client:
            made = call(client)
            if inspect.isawaitable(made):
                await made

    def act(around: Surroundings) -> str:
        try:
            asyncio.run(make(around))
        except spoolrack.SpoolrackError as error:
            return str(error)
        raise AssertionError("no error")

    return act


def _options(around: Surroundings, options: dict[str, Any]) -> dict[str, Any]:
    given = {name: around(value) for name, value in options.items()}
    return {"retry": spoolrack.RetryPolicy(attempts=1), "timeout": STUCK, **given}


def curl(path: str, *options: str, body: str | None = None, server: str = "http://{plain_http}") -> Act:
    """A call of curl, as a user types it."""

    def act(around: Surroundings) -> str:
        sent = [] if body is None else ["--data-binary", around(body)]
        made = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", *map(around, options), *sent, around(server + path)],
            capture_output=True,
            text=True,
            timeout=STUCK,
        )
        return made.stdout + made.stderr

    return act


def sqs(call: Call, server: str = "http://{plain_sqs}") -> Act:
    """A call of boto3's client."""

    def act(around: Surroundings) -> str:
        try:
            call(Sqs(around(server)).client)
        except (BotoCoreError, ClientError) as error:
            return str(error)
        raise AssertionError("no error")

    return act


def cli(command: str) -> Act:
    """A command line of `spoolrack`, without that word."""

    def act(around: Surroundings) -> str:
        words = map(around, command.split())
        made = run_forked("spoolrack_server", *words, folder=Path(around.names["folder"]))
        assert made.returncode != 0, made
        return made.stdout + made.stderr

    return act


def mortal(command: str) -> Act:
    """The same in a process of its own, for which permissions hold also if root runs the test."""

    def act(around: Surroundings) -> str:
        program = [str(CHECKOUT / ".venv" / "bin" / "spoolrack"), *map(around, command.split())]
        made = subprocess.run(
            [*(_AS_MORTAL if os.geteuid() == 0 else ()), *program],
            capture_output=True,
            text=True,
            timeout=STUCK,
        )
        assert made.returncode != 0
        return made.stdout + made.stderr

    return act


def celery(url: str, call: Call = lambda connection: connection.connect()) -> Act:
    """A connection of kombu, by the broker URL of Celery."""

    def act(around: Surroundings) -> str:
        options = {"connect_timeout": 1.0, "transport_options": {"timeout": 1.0}}
        try:
            with kombu.Connection(around(url), **options) as connection:
                call(connection)
        except (spoolrack.SpoolrackError, KombuError, KeyError) as error:
            return str(error)
        raise AssertionError("no error")

    return act


def folder(url: str, call: Call = _send) -> Act:
    """A call of a client without a server."""
    return python(url, call)


def spark(options: dict[str, str]) -> Act:
    """The options of a read of Spark's data source, as its reader checks them."""

    def act(around: Surroundings) -> str:
        try:
            read_options(options)
        except InvalidOption as error:
            return str(error)
        raise AssertionError("no error")

    return act


def after_release(url: str) -> Act:
    """A delete by a receipt whose lease is over."""

    def call(client: Any) -> None:
        queue = client.queue("jobs")
        queue.send(b"x")
        message = next(iter(queue.receive(1)))
        queue.release(message.receipt)
        queue.delete(message.receipt)

    return python(url, call)
