"""Pages of lists by AIP-158: sizes are coerced, tokens are opaque and belong to one list.

https://google.aip.dev/158
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from spoolrack_store.model.errors import InvalidRequest, StoreError
from spoolrack_store.model.operations import MessageFilter

from . import convert

T = TypeVar("T")


def page_size(size: int) -> int:
    """Return the size of a page: 0 is the default, more than the most is the most.

    Raise `InvalidRequest` for a negative number.
    """
    if size < 0:
        raise InvalidRequest(what="page_size", value=size, rule="must not be negative")
    return min(size or convert.DEFAULT_PAGE, convert.MAX_COUNT)


def filter_texts(wanted: MessageFilter) -> list[object]:
    """Return a text that is different for lists of messages with different filters."""
    return [
        sorted(state.value for state in wanted.states),
        wanted.sent_since,
        wanted.sent_before,
        wanted.group,
        sorted(wanted.attributes.items()),
    ]


class PageTokens:
    """The tokens of one list with one choice of filters."""

    def __init__(self, method: str, *filters: object) -> None:
        self._mark = f"{crc32(repr((method, *filters)).encode()):08x}"

    def token(self, last: str) -> str:
        """Return the token of the page after the item `last`."""
        return base64.urlsafe_b64encode(f"{self._mark}{last}".encode()).decode().rstrip("=")

    def after(self, token: str, read: Callable[[str], T], first: T) -> T:
        """Return the place after which the page begins: the result of `read` for the token, or `first`
        without one.

        Raise `InvalidRequest` for anything but a token of this list.
        """
        if not token:
            return first
        try:
            text = base64.b64decode(
                token + "=" * (-len(token) % 4), altchars=b"-_", validate=True
            ).decode()
            if text[:8] == self._mark:
                return read(text[8:])
        except (binascii.Error, UnicodeError, ValueError, StoreError):
            pass  # It is none of ours: said below.
        raise InvalidRequest(
            what="page_token",
            value=token,
            rule="must be the next_page_token of the page before, of a request with the same filters",
        )
