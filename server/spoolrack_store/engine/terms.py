"""On what terms a receive leases: until when, at whose expense, and under which token."""

from __future__ import annotations

from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.clock import Millis, span_text
from ..model.credits import Credits
from ..model.errors import InvalidRequest
from ..model.names import make_token
from ..model.operations import Receive
from ..model.settings import MAX_VISIBILITY
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
