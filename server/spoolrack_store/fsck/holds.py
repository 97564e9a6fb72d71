"""Checks `reserved/`: its names, whether what they name is whole, and whether leases of sets have one.

Reads only. A server may be at work, so leases are listed before the sets that they are of: a set that
comes in between is found, and of one that goes the leases are gone, too.
"""

from __future__ import annotations

from collections.abc import Callable

from ..files import layout
from ..files.disk import Disk, Found, Kind
from ..model.holds import Manifest, Marker, parse_hold
from ..model.names import NotAName, is_set_token, is_token
from ..model.sealed import NotWhole
from .findings import Remedy


class HoldInspector:
    """Looks at `reserved/`, once."""

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
        self._tokens: set[str] = set()
        """Of the sets that are there, the lost ones too."""
        self._knows_all = True
        self.reserved = 0
        """Sets, without those that are known to be lost."""

    def run(self) -> None:
        leases = [found.name for found in self._scan(layout.DELAY) if _is_of_a_set(found.name)]
        for found in self._scan(layout.RESERVED):
            self._look_at(found)
        for name in leases if self._knows_all else ():
            if _token_of(name) not in self._tokens:
                why = "leased for a reservation that was never made: it is ready with the next start"
                self._leave(f"{layout.DELAY}/{name}", why)

    def _look_at(self, found: Found) -> None:
        path = f"{layout.RESERVED}/{found.name}"
        try:
            name = parse_hold(found.name)
        except NotAName:
            self._problem(path, "its name is not one of ours")
            return
        if found.kind is not Kind.FILE:
            self._problem(path, "its name is a reservation's, and it is no file")
            return
        try:
            content = self._disk.read(path)
        except FileNotFoundError:
            self._knows_all = False  # It was renamed, or is over.
            return
        except OSError as error:
            self._knows_all = False
            self._problem(path, f"it can't be read: {error.strerror}", Remedy.HAND)
            return
        try:
            if name.due is None:
                Marker.decode(content)
            else:
                self._tokens.add(Manifest.decode(content).token)
                self.reserved += not name.is_lost
        except NotWhole as error:
            if content.endswith(b"\n"):
                self._problem(path, f"this reservation's file is damaged: {error}")
            else:
                self._leave(path, "not written to its end, so nobody was told of it")


def _token_of(name: str) -> str:
    return name.rpartition("~")[2]


def _is_of_a_set(name: str) -> bool:
    token = _token_of(name)
    return is_token(token) and is_set_token(token)
