"""The blocking client, for programs of threads: `spoolrack.connect` returns it.

The methods are those of `spoolrack.aio`, each run to its end in the calling thread over a transport
that blocks. No thread hops, no event loop, and Ctrl-C interrupts a call as it does any other.

Clients, queues and streams may be shared by threads; concurrent sends to a queue are batched. They must
not be taken through a fork: the first use in the child raises `ForkedClient`.
"""

from .. import _help
from .batch import Batch
from .client import Client, connect
from .queue import Message, MessageStream, Queue
from .resources import (
    RedriveHandle,
    Redrives,
    ReservationHandle,
    Reservations,
    Schedules,
    Staging,
)
from .worker import Worker

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
_help.spell_out_all(Client, Queue)
