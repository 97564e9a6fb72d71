"""Checks a file in `reserved/`: its name, and whether it is whole."""

from __future__ import annotations

from collections.abc import Callable

from ..files import layout
from ..files.disk import Disk, Found, Kind
from ..model.holds import Manifest, Marker, parse_hold
from ..model.names import NotAName
from ..model.sealed import NotWhole
from .findings import Remedy


def look_at_hold(
    disk: Disk, found: Found, problem: Callable[..., None], leave: Callable[[str, str], None]
) -> None:
    """Tell `problem` or `leave` what is wrong with it, if anything is."""
    path = f"{layout.RESERVED}/{found.name}"
    try:
        name = parse_hold(found.name)
    except NotAName:
        problem(path, "its name is not one of ours")
        return
    if found.kind is not Kind.FILE:
        problem(path, "its name is a reservation's, and it is no file")
        return
    try:
        content = disk.read(path)
    except FileNotFoundError:
        return  # It was renamed, or is over.
    except OSError as error:
        problem(path, f"it can't be read: {error.strerror}", Remedy.HAND)
        return
    try:
        if name.due is None:
            Marker.decode(content)
        else:
            Manifest.decode(content)
    except NotWhole as error:
        if content.endswith(b"\n"):
            problem(path, f"this reservation's file is damaged: {error}")
        else:
            leave(path, "not written to its end, so nobody was told of it")
