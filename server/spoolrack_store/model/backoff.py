"""The back-off of a queue: the delay of a message after a failed receive. Pure.

It is a function of the queue's settings, the message's id and its count of receives. The jitter is a
hash, not a draw: all processes, and a start, find the same end for a lease that has expired.
"""

from __future__ import annotations

from hashlib import blake2b

from .clock import Millis
from .settings import QueueSettings

_PARTS = 1 << 32
"""The number of steps that the jitter of a message is drawn from."""


def pause(settings: QueueSettings, id: str, receives: int) -> Millis:
    """Return the back-off after `receives` receives; messages of one name share that of the first
    message, by `id`."""
    whole, most = settings.backoff_initial, settings.backoff_maximum
    for _ in range(1, receives):
        if not whole or whole >= most or settings.backoff_factor == 1:
            break
        whole = Millis(whole * settings.backoff_factor)
    whole = min(whole, most)
    digest = blake2b(f"{id},r{receives}".encode("ascii"), digest_size=4).digest()
    part = int.from_bytes(digest, "big")
    return Millis(whole - whole * settings.backoff_jitter * part // (100 * _PARTS))
