"""Features that a transport lacks: each operation is refused, and the error says what to do instead."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from ..errors import Unsupported

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


class _Missing:
    def __init__(self, why: str) -> None:
        self._why = why

    def __getattr__(self, operation: str) -> Any:
        def refuse(*arguments: object, **options: object) -> NoReturn:
            raise Unsupported(self._why)

        return refuse


def missing(why: str) -> Any:
    """Return an object whose methods, whatever they are named, all raise `Unsupported`."""
    return _Missing(why)
