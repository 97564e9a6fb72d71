"""Features that a transport lacks: each call is refused, and the error says what to do instead."""

from __future__ import annotations

from typing import Any, Final

from .. import errors
from .._call_values import (
    AbortStage,
    Call,
    CancelRedrive,
    GetRedrive,
    GetStage,
    ListRedrives,
    ListReservations,
    ListStages,
    Publish,
    Reserve,
    Stage,
    StartRedrive,
)

NO_STAGES: Final = (
    "A vsqs folder has no stages, so a batch can't appear in it all at once: send the messages one by "
    "one, or use file:///root."
)
NO_RESERVATIONS: Final = (
    "A vsqs folder has no reservations: receive and delete its messages, or use file:///root."
)
NO_REDRIVES: Final = (
    "A vsqs folder has no dead letters, so there is nothing to redrive: use file:///root."
)
NO_SCHEDULES: Final = (
    "Schedules need a server, which looks at the clock: connect to one, such as `spoolrack serve`."
)


def why_missing(call: Call[Any]) -> str:
    """Return why a folder of vsqs doesn't have a call."""
    match call:
        case Stage() | Publish() | AbortStage() | GetStage() | ListStages():
            return NO_STAGES
        case StartRedrive() | GetRedrive() | ListRedrives() | CancelRedrive():
            return NO_REDRIVES
        case Reserve() | ListReservations() | Call(missing=errors.ReservationNotFound):
            return NO_RESERVATIONS
    return NO_SCHEDULES
