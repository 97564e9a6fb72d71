"""What a story asks of the store: random requests, noted in `Promises` before they are made."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from promises import Promises
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    Delete,
    DeleteQueue,
    GiveBack,
    Outgoing,
    Purge,
    Receive,
    Request,
    Send,
    UpdateQueue,
    VisibilityChange,
)

QUEUES = ("a", "b")
WHOLE_QUEUE = 0.05
"""How often a commit is about whole queues, which end most of what the story is about."""


class Asking:
    def __init__(self, random: Random, fates: Promises, note: Callable[[str], None]) -> None:
        self.random = random
        self.fates = fates
        self._note = note
        self._bodies = 0

    def some_requests(self, count: int) -> list[Request[object]]:
        """Up to `count` requests for one commit."""
        makers: list[Callable[[], Request[object] | None]] = [
            self._send,
            self._send,
            self._send,
            self._receive,
            self._receive,
            self._receive,
            self._delete,
            self._delete,
            self._delete_by_id,
            self._change,
            self._change,
            self._give_back,
        ]
        if self.random.random() < WHOLE_QUEUE:
            makers = [self._purge, self._delete_queue, self._update]
        return [r for _ in range(count) if (r := self.random.choice(makers)()) is not None]

    def _queue(self) -> str:
        return self.random.choice(QUEUES)

    def _body(self) -> bytes:
        self._bodies += 1
        body = f"{self._bodies}:".encode() + self.random.randbytes(self.random.choice((0, 5, 60)))
        self.fates.bodies.add(body)
        return body

    def _send(self) -> Request[object]:
        queue = self._queue()
        count = self.random.choice((1, 1, 2, 3, 7))
        delay = Millis(self.random.choice((0, 0, 0, 10_000)))
        bodies = [self._body() for _ in range(count)]
        self.fates.calls.append(bodies)
        self._note(f"send {count} to {queue}, delay {delay}")
        messages = [Outgoing(body=body, delay=delay, attributes=self._attributes()) for body in bodies]
        return Send(queue=queue, messages=messages)

    def _attributes(self) -> dict[str, str | bytes]:
        return {"name": "value", "raw": b"\0\xff"} if self.random.random() < 0.2 else {}

    def _receive(self) -> Request[object]:
        queue = self._queue()
        most = self.random.choice((1, 2, 3, 10))
        visibility = self.random.choice((None, Millis(30_000), Millis(5_000)))
        self._note(f"receive {most} of {queue} for {visibility}")
        return Receive(queue=queue, max_messages=most, visibility=visibility)

    def _some_leases(self) -> tuple[str, list[str]] | None:
        """A queue, and ids of which consumers believe that they hold them there."""
        if not self.fates.leases:
            return None
        first = self.random.choice(sorted(self.fates.leases))
        queue = self.fates.leases[first].receipt.partition(":")[0]
        prefix = f"{queue}:"
        held = [id for id, lease in self.fates.leases.items() if lease.receipt.startswith(prefix)]
        if self.random.random() < 0.5:
            # All of one batch, as a consumer does that is done with it.
            token = self.fates.leases[first].token
            return queue, [id for id in held if self.fates.leases[id].token == token]
        return queue, self.random.sample(sorted(held), self.random.randint(1, min(3, len(held))))

    def _delete(self) -> Request[object] | None:
        some = self._some_leases()
        if some is None:
            return None
        queue, ids = some
        self.fates.dying.update(ids)
        self._note(f"delete {len(ids)} of {queue} by receipt")
        return Delete(queue=queue, targets=[ByReceipt(self.fates.leases[id].receipt) for id in ids])

    def _delete_by_id(self) -> Request[object] | None:
        queue = self._queue()
        if not self.fates.alive:
            return None
        alive = sorted(self.fates.alive)
        # Neighbours, so that it happens that they are all that is left in their batch folder.
        first = self.random.randrange(len(alive))
        ids = alive[first : first + self.random.choice((1, 1, 2, 3, 6))]
        self.fates.dying.update(ids)
        self._note(f"delete {len(ids)} of {queue} by id, from {ids[0]}")
        return Delete(queue=queue, targets=[ById(id) for id in ids])

    def _change(self) -> Request[object] | None:
        some = self._some_leases()
        if some is None:
            return None
        queue, ids = some
        visibility = Millis(self.random.choice((0, 60_000)))
        self.fates.changing.update(ids)
        self._note(f"change the visibility of {len(ids)} of {queue} to {visibility}")
        return ChangeVisibility(
            queue=queue,
            changes=[VisibilityChange(self.fates.leases[id].receipt, visibility) for id in ids],
        )

    def _give_back(self) -> Request[object] | None:
        some = self._some_leases()
        if some is None:
            return None
        queue, ids = some
        self.fates.changing.update(ids)
        self._note(f"give back {len(ids)} of {queue}")
        return GiveBack(queue=queue, receipts=[self.fates.leases[id].receipt for id in ids])

    def _purge(self) -> Request[object]:
        queue = self._queue()
        self.fates.blurred = True
        self._note(f"purge {queue}")
        return Purge(queue=queue)

    def _delete_queue(self) -> Request[object]:
        queue = self._queue()
        self.fates.blurred = True
        self._note(f"delete the queue {queue}")
        return DeleteQueue(name=queue)

    def _update(self) -> Request[object]:
        queue = self._queue()
        timeout = self.random.choice((10_000, 30_000, 60_000))
        self._note(f"set the visibility timeout of {queue} to {timeout}")
        return UpdateQueue(name=queue, changes={"visibility_timeout": timeout})
