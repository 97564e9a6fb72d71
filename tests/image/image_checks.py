"""Checks of an image's commands that ran confined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.dockerfile import Stage

Confine = Callable[..., dict[str, Any]]
"""Runs them over a file system, and returns what was seen."""


def assert_served(seen: dict[str, Any], image: Stage) -> None:
    """Check that an arbitrary user served, used and drained it, with one writable folder."""
    uid, gid = image.user.split(":")
    assert "Read-only file system" in seen["write to /"]
    assert "Read-only file system" in seen["write to /tmp"]
    assert seen[f"write to {image.volumes[0]}"] == ""
    assert seen["healthy"] == 0, seen["log"]
    assert set(seen["status"]["Uid"].split()) == {uid}
    assert set(seen["status"]["Gid"].split()) == {gid}
    assert seen["status"]["Groups"] == ""
    assert int(seen["status"]["CapEff"], 16) == int(seen["status"]["CapPrm"], 16) == 0
    assert seen["send"]["code"] == 0, seen["send"]
    assert (seen["receive"]["code"], seen["receive"]["out"]) == (0, "Hello, container!")
    assert seen["try"]["code"] == 0, seen["try"]
    assert seen["ended"] == 0, seen["log"]
    assert seen["gone"] != 0
    assert seen["owners"] == [[int(uid), int(gid)]]
