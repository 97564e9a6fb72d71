"""How long requests keep whoever does them: no longer than a few calls into the kernel, or longer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .model.operations import ByReceipt, ChangeVisibility, Delete, GiveBack, Receive, Request, Send

SHORT_BYTES: Final = 2 * 1024 * 1024
"""Of bodies and attributes to be written."""
SHORT_MESSAGES: Final = 1_000


def are_short(requests: Iterable[Request[Any]]) -> bool:
    """Whether all of `requests` together take milliseconds and not longer, as far as they say."""
    messages, size = 0, 0
    for request in requests:
        if isinstance(request, Send):
            messages += len(request.messages)
            size += sum(len(message.body) for message in request.messages)
        elif isinstance(request, Receive):
            messages += request.max_messages
        elif isinstance(request, Delete):
            # What isn't found by its id is looked for in folders.
            if not all(isinstance(target, ByReceipt) for target in request.targets):
                return False
            messages += len(request.targets)
        elif isinstance(request, ChangeVisibility):
            messages += len(request.changes)
        elif isinstance(request, GiveBack):
            messages += len(request.receipts)
        else:
            return False
    return messages <= SHORT_MESSAGES and size <= SHORT_BYTES
