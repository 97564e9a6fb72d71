"""Lists of the store, page by page, and filtered by permission without leaving a page short.

Pages are AIP-158's: sizes are coerced, tokens are opaque and belong to one list with one choice of
filters. https://google.aip.dev/158
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar
from zlib import crc32

from spoolrack_store.model.errors import InvalidRequest, StoreError

from .bounds import DEFAULT_PAGE, MAX_COUNT

T = TypeVar("T")
Item = TypeVar("Item")
Cursor = TypeVar("Cursor")
Covariant = TypeVar("Covariant", covariant=True)
Contravariant = TypeVar("Contravariant", contravariant=True)

LOOK: Final = 1_000
"""Items that are looked at together, where some may not be shown."""


def page_size(size: int) -> int:
    """Return the size of a page: 0 is the default, more than the most is the most.

    Raise `InvalidRequest` for a negative number.
    """
    if size < 0:
        raise InvalidRequest(what="page_size", value=size, rule="must not be negative")
    return min(size or DEFAULT_PAGE, MAX_COUNT)


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


class Listing(Protocol[Covariant, Contravariant]):
    """A list of the store, in order."""

    def __call__(self, *, after: Contravariant, limit: int) -> Sequence[Covariant]: ...


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Items of a list, and the token of the next page; empty: there is none."""

    items: Sequence[Item]
    next_token: str


@dataclass(frozen=True, kw_only=True)
class PagedList(Generic[Item, Cursor]):
    """A kind of items that the store lists. For any thread."""

    method: str
    """The contract's name of the list."""
    cursor: Callable[[Item], Cursor]
    """Its place in the list."""
    first: Cursor
    """The place before all."""
    read: Callable[[str], Cursor]
    """The inverse of `write`."""
    queues: Callable[[Item], Iterable[str]]
    """An item is shown to callers with permission on all of these."""
    write: Callable[[Cursor], str] = str

    def walk(
        self, listing: Listing[Item, Cursor], size: int = LOOK, after: Cursor | None = None
    ) -> Iterator[Item]:
        """Yield all items above the place `after`, looking at `size` of them together."""
        if after is None:
            after = self.first
        while items := listing(after=after, limit=size):
            yield from items
            if len(items) < size:
                return
            after = self.cursor(items[-1])

    def page(
        self,
        listing: Listing[Item, Cursor],
        allowed: Callable[[str], bool] | None,
        size: int,
        token: str,
        *filters: object,
        is_wanted: Callable[[Item], bool] | None = None,
    ) -> Page[Item]:
        """Return a page of the items that are wanted, with all their queues `allowed`; None: all are.

        Takes as long as it takes to list all that isn't shown. Raise `InvalidRequest` for a size or a
        token that can't be.
        """
        size, tokens = page_size(size), PageTokens(self.method, *filters)
        after = tokens.after(token, self.read, self.first)
        shows_all = allowed is None and is_wanted is None
        items = self.walk(listing, size + 1 if shows_all else LOOK, after)
        if allowed is not None:
            may_see = allowed
            items = (each for each in items if all(map(may_see, self.queues(each))))
        items = filter(is_wanted, items) if is_wanted is not None else items
        found = list(islice(items, size + 1))
        is_last = len(found) <= size
        return Page(
            found[:size], "" if is_last else tokens.token(self.write(self.cursor(found[size - 1])))
        )
