"""Checks `redrives/`: its names, and whether what they name is whole.

Reads only. A server may be at work: what is gone when it is to be read has got another name, or ended
long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..files import layout
from ..files.disk import Disk, Found, Kind
from ..model.names import NotAName
from ..model.redrive_names import RedriveName, parse_redrive
from ..model.redrive_order import decode
from ..model.sealed import NotWhole
from .findings import Remedy

_LINES: Final = 2


class RedriveInspector:
    """Looks at `redrives/`, once."""

    def __init__(
        self,
        disk: Disk,
        scan: Callable[[str], list[Found]],
        problem: Callable[..., None],
        leave: Callable[[str, str], None],
    ) -> None:
        """`problem` and `leave` note what is wrong, and what is only unfinished."""
        self._disk = disk
        self._scan = scan
        self._problem = problem
        self._leave = leave
        self.between: set[str] = set()
        """Queues of which messages may be in two places, because a redrive was moving them."""

    def run(self) -> None:
        for found in self._scan(layout.REDRIVES):
            path = f"{layout.REDRIVES}/{found.name}"
            try:
                name = parse_redrive(found.name)
            except NotAName:
                self._problem(path, "its name is not one of ours")
                continue
            if found.kind is not Kind.FILE:
                self._problem(path, "its name is a redrive's, and it is no file")
                continue
            self._look_at(path, name)

    def _look_at(self, path: str, name: RedriveName) -> None:
        try:
            content = self._disk.read(path)
            order = decode(content)
        except FileNotFoundError:
            return
        except OSError as error:
            self._problem(path, f"it can't be read: {error.strerror}", Remedy.HAND)
            return
        except NotWhole as error:
            if content.count(b"\n") < _LINES:
                self._leave(path, "a redrive that is just begun, or never was: its end is missing")
            else:
                self._problem(path, f"no redrive: {error}")
            return
        if name.ended is None:
            why = f"a redrive of {order.queue}: whoever has the root open goes on with it"
            self._leave(path, why)
        if name.owner is not None:
            self.between.add(order.queue)
