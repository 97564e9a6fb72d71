"""A program that receives and deletes, in one of three manners, until it is killed.

    consumer.py URL QUEUE LEDGERS NAME --manner batches|contexts|calls [--seed N --mischief P]

batches   a stream; received messages are deleted together, while more come
contexts  threads that share a stream, and `with message:` in each
calls     no stream: receive, delete_many, and again

With mischief, a part of the messages is released, forgotten, or deleted by id instead, and now and then
a message that this consumer has never received is deleted by its id.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from random import Random
from typing import Final

import spoolrack
from spoolrack.errors import OutcomeUnknown, SpoolrackError, StaleReceipt

from tests.proof.e2e.sender import PATIENCE, arguments, tell
from tests.support.ledger import (
    COPY,
    Deleted,
    Deleting,
    Kept,
    Ledger,
    Received,
    Releasing,
    Seen,
    delivery_of,
    now_ms,
)

AT_ONCE: Final = 500
THREADS: Final = 8


class Consumer:
    """A consumer that writes each operation into its ledger before, and the outcome afterwards."""

    def __init__(self, url: str, queue: str, ledger: Ledger, seed: int, mischief: float) -> None:
        client = spoolrack.connect(url, timeout=PATIENCE)
        self.queue = client.queue(queue)
        self._visibility_ms = round(client.queue(queue).info().settings.visibility_timeout * 1_000)
        self._ledger = ledger
        self._random = Random(seed)
        self._mischief = mischief
        self._calls = itertools.count()

    # The three manners.

    def by_batches(self) -> None:
        came: SimpleQueue[spoolrack.Message | BaseException] = SimpleQueue()

        def take() -> None:
            try:
                for message in self.queue.messages(max_in_flight=AT_ONCE):
                    came.put(message)
            except BaseException as error:  # noqa: BLE001  # for the thread that waits
                came.put(error)

        threading.Thread(target=take, daemon=True).start()
        while True:
            self.settle(all_of(came))

    def by_contexts(self) -> None:
        messages = self.queue.messages(max_in_flight=2 * THREADS)

        def take() -> None:
            for message in messages:
                self._received([message])
                if self._is_mischievous():
                    self._make_mischief([message])
                else:
                    self._delete_in_context(message)

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(take) for _ in range(THREADS)]:
                done.result()

    def by_calls(self) -> None:
        while True:
            self.settle(self.queue.receive(self._random.randint(1, AT_ONCE), wait=10))
            if self._is_mischievous():
                self._delete_unreceived()

    # Common to all manners.

    def settle(self, messages: Sequence[spoolrack.Message]) -> None:
        """Delete what was received, but for some mischief."""
        if not messages:
            return
        self._received(messages)
        mischief = [message for message in messages if self._is_mischievous()]
        spared = {message.receipt for message in mischief}
        targets = {message.id: message.receipt for message in messages if message.receipt not in spared}
        self._delete(targets)
        self._make_mischief(mischief)

    def _received(self, messages: Sequence[spoolrack.Message]) -> None:
        self._ledger.write(
            Received([delivery_of(message, self._visibility_ms) for message in messages])
        )

    def _delete(self, targets: dict[str, str] | dict[str, spoolrack.ById]) -> None:
        if not targets:
            return
        call, ids = self._call(), list(targets)
        self._ledger.write(Deleting(call, ids))
        try:
            results = self.queue.delete_many(targets.values())
        except SpoolrackError as error:
            tell(f"undeleted {len(ids)} {error.reason}")
            return
        self._ledger.write(
            Deleted(call, [id for id, one in zip(ids, results, strict=True) if one.ok], now_ms())
        )
        stale = [
            id for id, one in zip(ids, results, strict=True) if isinstance(one.error, StaleReceipt)
        ]
        self._ledger.write(Kept(call, stale))
        tell(f"deleted {sum(one.ok for one in results)}")

    def _delete_in_context(self, message: spoolrack.Message) -> None:
        call = self._call()
        self._ledger.write(Deleting(call, [message.id]))
        try:
            with message:
                pass
        except StaleReceipt:
            self._ledger.write(Kept(call, [message.id]))
        except SpoolrackError as error:
            tell(f"undeleted 1 {error.reason}")
        else:
            self._ledger.write(Deleted(call, [message.id], now_ms()))
            tell("deleted 1")

    def _call(self) -> str:
        return f"{self._ledger.name}:{next(self._calls)}"

    # Mischief.

    def _is_mischievous(self) -> bool:
        return self._random.random() < self._mischief

    def _make_mischief(self, messages: Sequence[spoolrack.Message]) -> None:
        by_id: dict[str, spoolrack.ById] = {}
        released: list[str] = []
        for message in messages:
            match self._random.randrange(3):
                case 0:
                    released.append(message.receipt)
                case 1:
                    by_id[message.id] = spoolrack.ById(message.id)
                case _:
                    pass  # Forgotten: it comes again when its lease is over.
        self._delete(by_id)
        if released:
            self._ledger.write(Releasing(released))
            self._despite_outages(lambda: self.queue.release_many(released))

    def _delete_unreceived(self) -> None:
        """Delete, by their ids, some of the messages that are ready now or were a moment ago."""
        seen: list[spoolrack.Message] = []
        self._despite_outages(
            lambda: seen.extend(self.queue.peek(["ready"], max_body_bytes=0, limit=20))
        )
        self._ledger.write(Seen({message.id: str(message.attributes[COPY]) for message in seen[::7]}))
        self._delete({message.id: spoolrack.ById(message.id) for message in seen[::7]})

    def _despite_outages(self, call: Callable[[], object]) -> None:
        try:
            call()
        except SpoolrackError as error:
            tell(f"undone {error.reason}")


def all_of(came: SimpleQueue[spoolrack.Message | BaseException]) -> list[spoolrack.Message]:
    """Return what has come and was not taken yet; waits for the first."""
    messages: list[spoolrack.Message] = []
    try:
        while len(messages) < AT_ONCE:
            next = came.get() if not messages else came.get_nowait()
            if isinstance(next, BaseException):
                raise next
            messages.append(next)
    except Empty:
        pass
    return messages


def main() -> None:
    parser = arguments()
    parser.add_argument("--manner", choices=("batches", "contexts", "calls"), default="batches")
    parser.add_argument("--mischief", type=float, default=0.0)
    asked = parser.parse_args()
    ledger = Ledger(asked.ledgers, asked.name)
    consumer = Consumer(asked.url, asked.queue, ledger, asked.seed, asked.mischief)
    tell("started")
    while True:
        try:
            getattr(consumer, f"by_{asked.manner}")()
        except OutcomeUnknown as error:
            # The disk failed under a receive. Its leases expire: ask once more.
            tell(f"unreceived {error.reason}")


if __name__ == "__main__":
    main()
