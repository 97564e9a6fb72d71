"""A client that does what it is told, a line of standard input at a time, and tells what came of it.

    puppet.py URL QUEUE LEDGERS NAME

send N      send N messages in one call
receive N   lease up to N, when there are any
next        take the next one of a stream; tells its receive count, too
extend      extend all leases that it was given
delete N    delete the first N that it still has

Its answer is the command's name, and the ids for which it worked: not those whose lease was over.
Any other error ends the process.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import spoolrack
from spoolrack.errors import SpoolrackError, StaleReceipt

from tests.proof.e2e.sender import PATIENCE, tell
from tests.support.ledger import (
    COPY,
    Deleted,
    Deleting,
    Kept,
    Ledger,
    Received,
    Sending,
    Sent,
    delivery_of,
    digest_of,
    now_ms,
)

WAIT: Final = 20.0
IN_FLIGHT: Final = 5


class Puppet:
    def __init__(self, url: str, queue: str, ledger: Ledger) -> None:
        client = spoolrack.connect(url, timeout=PATIENCE)
        self._queue = client.queue(queue)
        self._visibility = client.queue(queue).info().settings.visibility_timeout
        self._ledger = ledger
        self._held: list[spoolrack.Message] = []
        self._stream: spoolrack.MessageStream | None = None
        self._numbers = itertools.count()

    def obey(self, command: str, count: int) -> Sequence[str]:
        match command:
            case "send":
                return self._send(count)
            case "receive":
                while not (messages := self._queue.receive(count, wait=WAIT)):
                    pass
                return self._take(messages)
            case "next":
                if self._stream is None:
                    # Told the visibility timeout, it needn't ask for it: it can be stopped at once.
                    self._stream = self._queue.messages(
                        max_in_flight=IN_FLIGHT, visibility_timeout=self._visibility
                    )
                message = next(self._stream)
                return [*self._take([message]), str(message.receive_count)]
            case "extend":
                ends = self._queue.extend_many(self._held, self._visibility)
                return self._worked([end.error for end in ends], self._held)
            case "delete":
                return self._delete(count)
        raise ValueError(f"no puppet can {command}")

    def _send(self, count: int) -> list[str]:
        copies = [f"{self._ledger.name}:{next(self._numbers)}:0" for _ in range(count)]
        self._ledger.write(Sending({copy: digest_of(copy.encode()) for copy in copies}))
        sent = self._queue.send_many(
            spoolrack.Outgoing(body=copy.encode(), attributes={COPY: copy}) for copy in copies
        )
        ids = [str(result.id) for result in sent if result.ok]
        assert len(ids) == count, sent
        self._ledger.write(Sent(dict(zip(copies, ids, strict=True))))
        return ids

    def _take(self, messages: Sequence[spoolrack.Message]) -> list[str]:
        visibility_ms = round(self._visibility * 1_000)
        self._ledger.write(Received([delivery_of(message, visibility_ms) for message in messages]))
        self._held += messages
        return [message.id for message in messages]

    def _delete(self, count: int) -> list[str]:
        messages, self._held = self._held[:count], self._held[count:]
        call, ids = f"{self._ledger.name}:{next(self._numbers)}", [message.id for message in messages]
        self._ledger.write(Deleting(call, ids))
        results = self._queue.delete_many(messages)
        deleted = self._worked([result.error for result in results], messages)
        self._ledger.write(Deleted(call, deleted, now_ms()))
        self._ledger.write(Kept(call, [id for id in ids if id not in deleted]))
        return deleted

    def _worked(
        self, errors: Sequence[SpoolrackError | None], messages: Sequence[spoolrack.Message]
    ) -> list[str]:
        for error in errors:
            if error is not None and not isinstance(error, StaleReceipt):
                raise error
        return [each.id for each, error in zip(messages, errors, strict=True) if error is None]


def main() -> None:
    url, queue, ledgers, name = sys.argv[1:]
    puppet = Puppet(url, queue, Ledger(Path(ledgers), name))
    tell("started")
    for line in sys.stdin:
        command, _, count = line.strip().partition(" ")
        ids = puppet.obey(command, int(count or 0))
        tell(" ".join([command, *ids]))


if __name__ == "__main__":
    main()
