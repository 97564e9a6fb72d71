"""The checker finds changes to the folders behind the server's back, in a run under load.

Were it blind to that, its silence about kills would mean nothing.
"""

from __future__ import annotations

import re
import shutil
import time
import zlib
from pathlib import Path
from typing import Final

import pytest
import spoolrack
from spoolrack_store.model.batch_file import decode, encode, line_of
from spoolrack_store.model.message_ids import index_of
from spoolrack_store.model.names import Name, parse
from spoolrack_store.model.operations import LARGE_BODY

from tests.support.delivery_checker import FAULTS
from tests.support.ledger import (
    COPY,
    Deleted,
    Deleting,
    Ledger,
    Received,
    Sending,
    Sent,
    delivery_of,
    digest_of,
    now_ms,
)
from tests.support.load import QUEUE, Load
from tests.support.run_processes import Crew, Served

PATIENCE: Final = 30.0
FOLDERS: Final = ("new", "queues", "delay", "remove")
LONG_MS: Final = 600_000
"""A lease that outlasts the test."""


class Planter:
    """A client that keeps a ledger, and an intruder in the folders, who does not."""

    def __init__(self, queue: spoolrack.Queue, ledgers: Path, root: Path) -> None:
        self._queue = queue
        self._ledger = Ledger(ledgers, "planter")
        self._root = root
        self._ready = root / "queues" / QUEUE

    # The client.

    def send(self, body: bytes) -> str:
        copy = f"planter:{body.decode()}:0"
        body += bytes(LARGE_BODY)  # It has a file of its own.
        self._ledger.write(Sending({copy: digest_of(body)}))
        id = self._queue.send(body, attributes={COPY: copy})
        self._ledger.write(Sent({copy: id}))
        return id

    def receive(self) -> str:
        (message,) = self._queue.receive(wait=30, visibility_timeout=LONG_MS / 1_000)
        self._ledger.write(Received([delivery_of(message, LONG_MS)]))
        return message.id

    def delete(self, id: str) -> None:
        self._ledger.write(Deleting("planter", [id]))
        self._queue.delete_by_id(id)
        self._ledger.write(Deleted("planter", [id], now_ms()))

    # The intruder.

    def file_of(self, id: str, state: str) -> Path:
        """Return the name that holds a message, once it is in this folder of the root."""
        end = time.monotonic() + PATIENCE
        while (path := self._holder(id)) is None or path.relative_to(self._root).parts[0] != state:
            assert time.monotonic() < end, f"{id} never comes to {state}/, but is {path}"
            time.sleep(0.01)
        return path

    def _holder(self, id: str) -> Path | None:
        """Of the names that list a message the one of the highest version."""
        found = [path for folder in FOLDERS for path in self._files(folder) if self._lists(path, id)]
        return max(found, key=lambda path: self._parsed(path).version, default=None)

    def _parsed(self, path: Path) -> Name:
        return parse(str(path.relative_to(self._root)))

    def _files(self, state: str) -> list[Path]:
        return [path for path in (self._root / state).rglob("*") if path.is_file()]

    def _lists(self, path: Path, id: str) -> bool:
        name = self._parsed(path)
        index = index_of(id) if name.stem.count else 0
        return name.stem.message_id(index) == id and bool(name.members >> index & 1)

    def lose(self, id: str) -> None:
        self.file_of(id, "queues").unlink()

    def bring_back(self, id: str, copy: Path) -> None:
        """Into its queue, from a copy of its file, as if it had never been deleted."""
        for path in self._files("remove"):
            if self._lists(path, id):
                path.unlink()
        shutil.copy(copy, self._ready / copy.name)

    def end_lease(self, id: str) -> None:
        leased = self.file_of(id, "delay")
        entry = leased.name.removeprefix(f"{QUEUE}:").partition("@")[0]
        leased.rename(self._ready / entry)

    def double(self, id: str) -> str:
        """Return a second message with the same content; returns its id."""
        path = self.file_of(id, "queues")
        twin = sibling(id)
        shutil.copy(path, self._ready / path.name.replace(id, twin))
        return twin

    def alter(self, id: str) -> None:
        """Another body of the same length, with a line and a name that vouch for it."""
        path = self.file_of(id, "queues")
        stem = self._parsed(path).stem
        content = path.read_bytes()
        line = decode(stem, content, len(content))
        for first in b"XYZ":
            body = bytes([first]) + content[1 : stem.size]
            encoded = encode(line_of([body], line.attributes, {}))
            if len(encoded) == stem.line:
                break  # The digits of a checksum may be fewer.
        else:
            raise AssertionError("no other body has a line of the same length")
        path.write_bytes(body + encoded)
        path.rename(path.with_name(re.sub(",c[0-9a-f]{8}", f",c{zlib.crc32(encoded):08x}", path.name)))

    def invent(self, id: str) -> str:
        """Return a message that was never sent; return its id, which is near to that one."""
        id = sibling(id)
        (self._ready / f"{id},s5,c{zlib.crc32(b'hello'):08x}").write_bytes(b"hello")
        return id


def sibling(id: str) -> str:
    return id[:-1] + ("0" if id[-1] != "0" else "1")


@pytest.fixture
def planter(crew: Crew, served: Served, load: Load) -> Planter:
    return Planter(load.client.queue(QUEUE), crew.ledgers, served.root)


def test_the_checker_finds_exactly_the_faults_that_were_planted_in_a_real_run(
    served: Served, load: Load, planter: Planter, tmp_path: Path
) -> None:
    load.advance(0.0, 0.3)
    load.stop_consuming()
    # A server that never knew the consumers leases nothing to them: new messages stay ready.
    served.kill()
    served.restart()
    doubled = planter.receive()
    lost, deleted, copied, altered, near = map(
        planter.send, (b"lost", b"deleted", b"copied", b"altered", b"near")
    )
    copy = tmp_path / planter.file_of(deleted, "queues").name
    shutil.copy(planter.file_of(deleted, "queues"), copy)
    planter.delete(deleted)

    planter.lose(lost)
    served.kill()
    planter.bring_back(deleted, copy)
    planter.end_lease(doubled)
    twin = planter.double(copied)
    planter.alter(altered)
    invented = planter.invent(near)
    served.restart()
    load.begin_consuming()

    verdict = load.finish()
    print(verdict)
    assert verdict.faults == {
        "lost": [lost],
        "resurrected": [deleted],
        "doubled": [doubled],
        "invented": [invented],
        "copied": sorted([copied, twin]),
        "altered": [altered],
    }
    assert set(verdict.faults) == set(FAULTS)
