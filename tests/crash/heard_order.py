"""The order in which an engine does what one commit asks of it, and in which its answers are heard."""

from __future__ import annotations

from holding import Consumer
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Purge,
    Receive,
    Request,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.redriving import CancelRedrive, StartRedrive
from spoolrack_store.model.reservations import CommitReservations, Confirm, MarkRead, Release, Reserve
from spoolrack_store.model.staging import Abort, Publish, Stage

_ORDER = (
    CreateQueue,
    UpdateQueue,
    DeleteQueue,
    Purge,
    Send,
    Stage,
    Publish,
    Abort,
    CancelRedrive,
    StartRedrive,
    Delete,
    ChangeVisibility,
    GiveBack,
    MarkRead,
    Release,
    Confirm,
    CommitReservations,
    Receive,
    Reserve,
)


def heard_at(told: tuple[Request[object], Consumer | None, object]) -> int:
    """Answers are heard in the order in which the engine does things: what one consumer has released,
    another may hold."""
    return next(at for at, kind in enumerate(_ORDER) if isinstance(told[0], kind))
