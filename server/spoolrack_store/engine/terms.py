"""On what terms a receive leases: until when, at whose expense, and under which token."""

from __future__ import annotations

from collections.abc import Sequence

from ..index.hidden import Hidden, QueueIndex
from ..index.ready import BatchFolder
from ..model.clock import Millis, span_text
from ..model.credits import Credits
from ..model.errors import InvalidRequest, StoreError
from ..model.names import make_token
from ..model.operations import ChangeVisibility, Receive
from ..model.settings import MAX_VISIBILITY
from . import receipts
from .live import Live
from .root import Root


class Terms:
    """What the leases of one request share: until when, at whose expense, and perhaps the token."""

    def __init__(self, root: Root, span: Millis, credits: Credits | None, token: str | None) -> None:
        """Without a `token` each lease has its own, and begins when it is made."""
        self._root = root
        self._span = span
        self._credits = credits
        self.token = token
        self.due, self.due_monotonic = root.due_after(span)

    def lease(self, item: str | BatchFolder) -> Hidden:
        due, due_monotonic, token = self.due, self.due_monotonic, self.token
        if token is None:
            due, due_monotonic = self._root.due_after(self._span)
            token = make_token(self._root.random)
        return Hidden(item, due=due, due_monotonic=due_monotonic, token=token, credits=self._credits)


def visibility_of(request: Receive, live: Live) -> Millis:
    if request.visibility is None:
        return live.settings.visibility_timeout
    check_visibility(request.visibility, least=1)
    return request.visibility


def check_visibility(visibility: Millis, *, least: int) -> None:
    if not least <= visibility <= MAX_VISIBILITY:
        raise InvalidRequest(
            what="visibility_timeout",
            value=span_text(visibility),
            rule=f"must be from {span_text(least)} to {span_text(MAX_VISIBILITY)}",
        )


def give_credits_back(
    index: QueueIndex, request: ChangeVisibility, results: Sequence[Millis | StoreError | None]
) -> None:
    """Give back the credits of leases that were put off, once: their ends give none back any more."""
    put_off: dict[Hidden, set[str]] = {}
    for change, result in zip(request.changes, results, strict=True):
        if not change.is_put_off or isinstance(result, StoreError):
            continue
        try:
            hidden, name = receipts.find_lease(index, receipts.parse(request.queue, change.receipt))
        except StoreError:
            continue  # It was released.
        put_off.setdefault(hidden, set()).add(name)
    for hidden, names in put_off.items():
        # A lease of several messages gives its credits back when all of them are put off.
        if hidden.credits is not None and len(names) == len(hidden.names):
            credits, hidden.credits = hidden.credits, None
            credits.give_back(len(names))
