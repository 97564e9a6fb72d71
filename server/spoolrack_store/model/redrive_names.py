"""Files in `redrives/`: the grammar of their names, and their content.

Pure, like `names`, which has the grammar of all other names. An unknown name raises `NotAName`.

    id ",m" moved ",f" failed [",w" why ["." queue]] [",x"] [",o" owner] ["@" ended]

`w`: the reason of the last failure. `x`: the redrive was cancelled. It runs as long as there is no
`ended`. The owner is the process that drives it, and whose last moves may not be durable.

The content is the order of the redrive, which never changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from .clock import Millis
from .message_ids import UUID, is_id
from .names import QUEUE_NAME, NotAName, is_queue_name
from .redrive_requests import MAX_RATE, MAX_SELECTED, RedriveState
from .sealed import SealedRecord, StoredAs, list_of, number, text


class FailureReason(Enum):
    """Why a message could not be moved."""

    NO_HISTORY = "history"
    DAMAGED_HISTORY = "damaged"
    NO_QUEUE = "missing"
    TOO_OLD = "old"
    """In records of earlier versions: a message that is moved is as old as its move."""
    THERE_ALREADY = "twice"


_TEXTS = {
    FailureReason.NO_HISTORY: (
        "it has no history that says which queue it came from: give a destination"
    ),
    FailureReason.DAMAGED_HISTORY: "its history can't be read: give a destination",
    FailureReason.NO_QUEUE: (
        "the queue {queue} is missing, or being deleted: create it, or give a destination"
    ),
    FailureReason.TOO_OLD: (
        "it is older than the retention of {queue}, and would be deleted there at once"
    ),
    FailureReason.THERE_ALREADY: "the queue {queue} has a message with the same id",
}


@dataclass(frozen=True, slots=True)
class MoveFailure:
    """The reason why a message could not be moved, and the queue concerned, if any."""

    why: FailureReason
    queue: str = ""

    def __str__(self) -> str:
        return f"{self.why.value}.{self.queue}" if self.queue else self.why.value

    @property
    def text(self) -> str:
        """The reason as text."""
        return _TEXTS[self.why].format(queue=self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveName:
    """The changing part of a redrive, which its file's name has."""

    id: str
    moved: int = 0
    failed: int = 0
    failure: MoveFailure | None = None
    is_cancelled: bool = False
    owner: str | None = None
    ended: Millis | None = None
    """Unix time."""

    def __str__(self) -> str:
        text = f"{self.id},m{self.moved},f{self.failed}"
        if self.failure is not None:
            text += f",w{self.failure}"
        if self.is_cancelled:
            text += ",x"
        if self.owner is not None:
            text += f",o{self.owner}"
        return text if self.ended is None else f"{text}@{self.ended:013d}"

    @property
    def state(self) -> RedriveState:
        if self.ended is None:
            return RedriveState.RUNNING
        return RedriveState.CANCELLED if self.is_cancelled else RedriveState.DONE


def parse_redrive(text: str) -> RedriveName:
    match = _NAME.fullmatch(text)
    if match is None:
        raise NotAName(text)
    ended = match["ended"]
    name = RedriveName(
        id=match["id"],
        moved=int(match["moved"]),
        failed=int(match["failed"]),
        failure=MoveFailure(FailureReason(match["why"]), match["queue"] or "")
        if match["why"]
        else None,
        is_cancelled=match["x"] is not None,
        owner=match["owner"],
        ended=None if ended is None else Millis(int(ended)),
    )
    if name.is_cancelled and ended is None:
        raise NotAName(text)
    return name


_COUNT = "0|[1-9][0-9]{0,14}"
_NAME = re.compile(
    rf"(?P<id>{UUID.pattern}),m(?P<moved>{_COUNT}),f(?P<failed>{_COUNT})"
    rf"(?:,w(?P<why>{'|'.join(why.value for why in FailureReason)})(?:\.(?P<queue>{QUEUE_NAME}))?)?"
    r"(?P<x>,x)?(?:,o(?P<owner>[a-z0-9]{1,16}))?(?:@(?P<ended>[0-9]{13}))?"
)


def _is_queue_name_or_empty(text: str) -> bool:
    return not text or is_queue_name(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveOrder(SealedRecord):
    """What a redrive is to do: the content of its file."""

    queue: Annotated[str, StoredAs(text(is_queue_name))]
    queue_created_at: Annotated[Millis, StoredAs(number())]
    """A queue that is made again under the same name is another one."""
    destination: Annotated[str, StoredAs(text(_is_queue_name_or_empty))]
    source_queue: Annotated[str, StoredAs(text(_is_queue_name_or_empty))]
    ids: Annotated[tuple[str, ...], StoredAs(list_of(text(is_id), MAX_SELECTED))]
    """Without repetitions."""
    rate: Annotated[int, StoredAs(number(MAX_RATE))]
    started_at: Annotated[Millis, StoredAs(number())]
