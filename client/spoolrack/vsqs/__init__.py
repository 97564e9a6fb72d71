"""vsqs's queues: a folder, its files, and no server. Beside real vsqs processes, in the same folder.

    from spoolrack.vsqs import Queue

    with Queue("/srv/queues/jobs", capacity=1000) as jobs:
        jobs.publish(b"hello")
        id, body = jobs.receive(visibility_timeout=30)
        jobs.delete(id)

The names are those of vsqs 0.3 and of its repository's head; `spoolrack.vsqs.queue` has them, too. With
`spoolrack.connect("vsqs:///srv/queues/jobs")` the same folder has the surface of a Spoolrack client.
docs/how-to/from-vsqs.md tells what is the same, what is better and what to change.
"""

import sys
from typing import TYPE_CHECKING, Final

from .._former_names import former_name as _former_name
from ._file_names import FileState
from ._folder_listing import ListedMessage, stored_messages
from .queue import Queue, QueueException, QueueFullException, QueueManager, micros

__all__ = [
    "FileState",
    "ListedMessage",
    "Queue",
    "QueueException",
    "QueueFullException",
    "QueueManager",
    "micros",
    "stored_messages",
]

_FORMER: Final = {"State": "FileState", "Stored": "ListedMessage"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _former_name(sys.modules[__name__], name, _FORMER)
