"""The client for asyncio, `spoolrack.aio.connect()`; the one for threads is made of its methods.

The same surface as `spoolrack`, with `await`, `async for` and `async with`. A client belongs to the
event loop in which it was made, and, like all of asyncio, to one thread.

    async with spoolrack.aio.connect("127.0.0.1:50051") as client:
        jobs = client.queue("jobs")
        await jobs.send("hello")
        async for message in jobs.messages():
            async with message:
                print(message.text)
"""

from .. import _help
from ._batch import Batch
from ._client import Client, connect
from ._queue import Message, MessageStream, Queue
from ._redrives import RedriveHandle, Redrives
from ._reservations import ReservationHandle, Reservations
from ._schedules import Schedules
from ._staging import Staging
from ._worker import Worker

__all__ = [
    "Batch",
    "Client",
    "Message",
    "MessageStream",
    "Queue",
    "RedriveHandle",
    "Redrives",
    "ReservationHandle",
    "Reservations",
    "Schedules",
    "Staging",
    "Worker",
    "connect",
]

_help.spell_out(connect)
_help.spell_out_all(Batch, Client, Queue)
