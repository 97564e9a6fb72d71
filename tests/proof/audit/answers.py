"""Knows the requests and the answers on a server's connections, and what each answer depends on.

An answer is a gRPC message to a client, and leaves when the call begins that sends its end. SETTINGS,
PING and WINDOW_UPDATE come and go as they like and say nothing. When an answer leaves,

- if its request is the only one without an answer, nothing at all may be left
  that isn't durable, but for the steps that the next process to open the root repeats;
- in any case each message must be where the answer says that it is: a message named by its id was
  written, one named by a receipt was leased, and one that the request names by a receipt has moved.

Ids and receipts are known by their looks in what goes over the wire: Protobuf leaves text as it is.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spoolrack_store.model.message_ids import batch_of, index_of

from tests.proof.audit.http2_frames import PREFACE, Direction
from tests.proof.audit.shadow import Change, File, Shadow
from tests.proof.audit.steps import holder, name_at
from tests.support.system_calls import Call

_UUID: Final = rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RECEIPT: Final = re.compile(rb":(?P<id>" + _UUID + rb")~[0-9a-f]{16}")
_NAMED: Final = re.compile(_UUID)


@dataclass(slots=True)
class _Stream:
    asked: bytes = b""
    """The last request."""
    requests: int = 0
    half_closed: bool = False
    """Whether the client will ask nothing more."""
    since: int = 0
    """How many changes of the root there had been when it asked last."""


@dataclass(slots=True)
class _Connection:
    is_http2: bool = False
    incoming: Direction = field(default_factory=Direction)
    outgoing: Direction = field(default_factory=Direction)
    streams: dict[int, _Stream] = field(default_factory=dict)
    """Those that are open."""


class Answers:
    def __init__(self, shadow: Shadow, finds: Callable[[int, str], None]) -> None:
        self._shadow = shadow
        self._finds = finds
        self._connections: dict[str, _Connection] = {}
        self._before: dict[int, Direction] = {}
        """The bytes that a connection had sent when a send began, by thread."""
        self.bodies: dict[str, File] = {}
        """All message files, by their ids."""
        self.count = 0
        self.alone = 0
        """Those that left while no other request waited for one."""

    def received(self, call: Call) -> None:
        """Take in what a client has said."""
        said = b"".join(call.strings)[: call.result]
        connection = self._connection(call)
        connection.is_http2 = connection.is_http2 or said.startswith(PREFACE)
        if not connection.is_http2:
            return
        for each in connection.incoming.feed(said):
            if each.is_reset:
                connection.streams.pop(each.stream, None)
                continue
            stream = connection.streams.setdefault(each.stream, _Stream())
            stream.half_closed = each.ends
            if each.message is not None:
                stream.asked = each.message
                stream.requests += 1
                stream.since = self._shadow.changes

    def send_begins(self, call: Call) -> None:
        """Note the bytes that leave with this send."""
        connection = self._connection(call)
        self._before[call.thread] = copy.deepcopy(connection.outgoing)
        waiting = sum(len(each.streams) for each in self._connections.values())
        for said in connection.outgoing.feed(b"".join(call.strings)):
            stream = connection.streams.get(said.stream)
            if stream is not None and said.message is not None:
                self._judge(call.line, said.message, stream, alone=waiting == 1)

    def send_ends(self, call: Call) -> None:
        """Forget what the socket didn't take: it will be sent again."""
        connection = self._connection(call)
        connection.outgoing = self._before.pop(call.thread)
        taken = max(0, call.result or 0)
        for said in connection.outgoing.feed(b"".join(call.strings)[:taken]):
            if said.ends:
                connection.streams.pop(said.stream, None)

    def _connection(self, call: Call) -> _Connection:
        return self._connections.setdefault(call.descriptors[0], _Connection())

    # Conditions of an answer.

    def _judge(self, line: int, answer: bytes, stream: _Stream, *, alone: bool) -> None:
        self.count += 1
        if alone and stream.half_closed and stream.requests == 1:
            self.alone += 1
            self._judge_all(line)
        leased = {each["id"].decode() for each in _RECEIPT.finditer(answer)}
        for id in {each[0].decode() for each in _NAMED.finditer(answer)} - leased:
            self._judge_written(line, id)
        for id in leased:
            self._judge_leased(line, id)
        for id in {each["id"].decode() for each in _RECEIPT.finditer(stream.asked)}:
            self._judge_done(line, id, stream.since)

    def _judge_all(self, line: int) -> None:
        for change in self._shadow.pending:
            if not change.excused:
                self._finds(line, f"an answer leaves, and isn't durable: {change}")
        for path in self._shadow.unsynced_files:
            self._finds(line, f"an answer leaves, and {path} isn't synced")

    def _find(self, id: str) -> tuple[File | None, int]:
        """Return the file of a message, and its index there."""
        if id in self.bodies:
            return self.bodies[id], 0
        return self.bodies.get(batch_of(id)), index_of(id)

    def _judge_written(self, line: int, id: str) -> None:
        """Judge a send: it is durable when the file is, with its first name."""
        file, _ = self._find(id)
        if file is None:
            return
        self._say(line, id, [each for each in self._late(file) if not each.source])
        if file.unsynced:
            self._finds(line, f"an answer names {id}, and {min(file.names)} isn't synced")

    def _judge_leased(self, line: int, id: str) -> None:
        file, index = self._find(id)
        held = None if file is None else holder(file, index)
        if file is None or held is None or not held.token:
            self._finds(line, f"an answer says that {id} is leased, which it isn't")
        else:
            late = [each for each in self._late(file) if each.target == held.path]
            self._say(line, id, [each for each in late if not each.excused])

    def _judge_done(self, line: int, id: str, since: int) -> None:
        """Judge a delete, an extension or a release: it has moved the messages that it names.

        A released message may be leased again before the release is answered: the first move counts.
        """
        file, index = self._find(id)
        done = [
            each
            for each in (() if file is None else file.changes)
            if each.number > since and (name := name_at(each.target)) and name.members >> index & 1
        ]
        if file is None or not done:
            self._finds(line, f"an answer leaves before anything was done with {id}")
        elif done[0] in self._late(file) and not done[0].excused:
            self._say(line, id, done[:1])

    def _late(self, file: File) -> list[Change]:
        return [each for each in file.changes if each.waits_for]

    def _say(self, line: int, id: str, late: list[Change]) -> None:
        for change in late:
            self._finds(line, f"an answer about {id} leaves, and isn't durable: {change}")
