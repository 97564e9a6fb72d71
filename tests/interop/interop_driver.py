"""A driver: a process that uses one language's client as the test tells it to, in lines of JSON.

Owns the process and the numbers of the requests; PROTOCOL.md fixes the words. Any number of requests
may wait at once. A driver that ends, or that is silent for `STUCK` seconds, fails the test that waits
for it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from google.protobuf.message import Message
from spoolrack_server.wire.contract import METHODS

from tests.interop.interop_languages import Language
from tests.support import STUCK


def text(raw: bytes) -> str:
    """Return the bytes, as they stand in a line."""
    return base64.b64encode(raw).decode()


def raw(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def outgoing(body: bytes, **attributes: str | bytes) -> dict[str, Any]:
    """Return a message to be sent."""
    return {
        "body": text(body),
        "attributes": {
            name: {"text": value} if isinstance(value, str) else {"bytes": text(value)}
            for name, value in attributes.items()
        },
    }


def attributes(message: dict[str, Any]) -> dict[str, str | bytes]:
    """Return a received message's attributes, as Python has them."""
    return {
        name: value["text"] if "text" in value else raw(value["bytes"])
        for name, value in message["attributes"].items()
    }


@dataclass(eq=False)
class Refused(Exception):
    """The facts of a failure, as the language reads them."""

    code: int
    message: str
    domain: str
    reason: str
    metadata: dict[str, str]
    retry_ms: int | None

    def __str__(self) -> str:
        return f"{self.reason or self.code}: {self.message}"


class Stream:
    """The messages of one receive stream, as the driver tells of them."""

    def __init__(self) -> None:
        self._told: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.end: Refused | None = None
        """How it ended, once `ended` or `take` has found that it has."""

    def tell(self, line: dict[str, Any]) -> None:
        self._told.put(line)

    def take(self, count: int) -> list[dict[str, Any]]:
        """At least so many messages more."""
        taken: list[dict[str, Any]] = []
        while len(taken) < count:
            frame = self._next()
            assert frame is not None, f"the stream ended with {self.end} after {len(taken)} messages"
            taken += frame
        return taken

    def ended(self) -> tuple[Refused, list[dict[str, Any]]]:
        """Read to the end; return it, and the messages before it."""
        rest: list[dict[str, Any]] = []
        while (frame := self._next()) is not None:
            rest += frame
        assert self.end is not None
        return self.end, rest

    def _next(self) -> list[dict[str, Any]] | None:
        assert self.end is None
        try:
            line = self._told.get(timeout=STUCK)
        except Empty:
            raise AssertionError(f"the stream was silent for {STUCK:.0f} s") from None
        if "end" in line:
            self.end = Refused(**line["end"])
            return None
        messages: list[dict[str, Any]] = line["messages"]
        assert messages, "a frame without messages"
        return messages


class Driver:
    """One process, which ends with the test."""

    def __init__(self, language: Language, address: str) -> None:
        self._name = language.name
        self._process = subprocess.Popen(
            [*language.command("driver"), address],
            cwd=language.folder,
            env=language.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        """Guards what is told and asked; never held while the program may make a writer wait."""
        self._writing = threading.Lock()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._streams: dict[str, Stream] = {}
        self._numbers = 0
        self._ready = threading.Event()
        self._words: list[str] = []
        self._listeners = [
            threading.Thread(target=listen, name=f"hears {self._name}", daemon=True)
            for listen in (self._listen, self._hear_complaints)
        ]
        for listener in self._listeners:
            listener.start()
        if not self._ready.wait(STUCK):
            self.end()
            raise AssertionError(f"the driver of {self._name} never got ready: {self._last_words()}")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def begin(self, op: str, **fields: Any) -> Future[dict[str, Any]]:
        """Tell it to do something; its answer, or `Refused`, comes with the future."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._waiting[number] = future
        # A program that answers before it reads on waits until its answers are read.
        with self._writing:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "op": op, **fields}) + "\n")
            self._process.stdin.flush()
        return future

    def do(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the same, and wait for it."""
        return self.begin(op, **fields).result(STUCK)

    def send(self, queue: str, messages: Sequence[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.do("send", queue=queue, messages=messages, **more)[
            "results"
        ]
        return results

    def receive(self, queue: str, max: int = 1, **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("receive", queue=queue, max=max, **more)["messages"]
        return found

    def change(self, op: str, queue: str, receipts: Sequence[str], **more: Any) -> list[dict[str, Any]]:
        """Call `delete`, `extend` or `release`; return a result for each receipt."""
        done = self.do(op, queue=queue, receipts=list(receipts), **more)
        results: list[dict[str, Any]] = done["results"]
        assert len(results) == len(receipts)
        return results

    def stream(self, name: str, queue: str, **more: Any) -> Stream:
        stream = self._streams[name] = Stream()
        self.do("stream", queue=queue, stream=name, **more)
        return stream

    def call(self, method: str, request: Message, **more: Any) -> bytes:
        """Any method without a stream; its response as it was on the wire."""
        described = METHODS[method]
        name = f"{described.containing_service.full_name}/{method}"
        answer = self.do("call", method=name, request=text(request.SerializeToString()), **more)
        return raw(answer["response"])

    def refused(self, asked: Callable[[], object]) -> Refused:
        """Return what `asked` is refused with, which it must be."""
        try:
            answer = asked()
        except Refused as refused:
            return refused
        raise AssertionError(f"answered: {answer}")

    def finish(self) -> int:
        """End its input; the exit code that follows."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(STUCK)

    def end(self) -> None:
        """Kill it, if it hasn't ended."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(STUCK)
        for listener in self._listeners:
            listener.join(STUCK)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._tell(json.loads(line))
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(
                AssertionError(f"the driver of {self._name} has ended: {self._last_words()}")
            )

    def _tell(self, told: dict[str, Any]) -> None:
        if "ready" in told:
            self._ready.set()
        elif "stream" in told:
            self._streams[told["stream"]].tell(told)
        else:
            with self._lock:
                future = self._waiting.pop(told["id"])
            if "ok" in told:
                future.set_result(told["ok"])
            else:
                future.set_exception(Refused(**told["error"]))

    def _hear_complaints(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._words.append(line)

    def _last_words(self) -> str:
        return "".join(self._words[-40:]) or "it said nothing"
