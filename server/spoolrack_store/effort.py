"""How long requests keep the thread that does them: no longer than a few calls into the kernel, or
longer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .model.operations import ChangeVisibility, Delete, GiveBack, Receive, Request, Send

SHORT_BYTES: Final = 2 * 1024 * 1024
"""Of bodies to be written."""
SHORT_MESSAGES: Final = 4_000


def are_short(requests: Iterable[Request[Any]]) -> bool:
    """Return whether all of `requests` together take milliseconds and not longer, as far as they
    say."""
    messages, size = 0, 0
    for request in requests:
        if isinstance(request, Send):
            messages += len(request.bodies)
            size += sum(map(len, request.bodies))
        elif isinstance(request, Receive):
            messages += request.max_messages
        elif isinstance(request, Delete):
            messages += len(request.receipts) + len(request.ids)
        elif isinstance(request, ChangeVisibility | GiveBack):
            messages += len(request.receipts)
        else:
            return False
    return messages <= SHORT_MESSAGES and size <= SHORT_BYTES
