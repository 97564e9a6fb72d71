"""The conditions of a step of the store: the earlier changes that must be durable before it.

Each question is asked when the step begins. Its verdict also says whether an answer may leave before
the step itself is durable: a start takes such a step again by itself.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from spoolrack_store.files.layout import COPY
from spoolrack_store.model.members import indexes
from spoolrack_store.model.names import Name, NotAName, parse

from tests.proof.audit.shadow import File, Shadow

_BODIES: Final = ("new", "queues", "delay", "remove")


@dataclass(slots=True)
class Verdict:
    faults: list[str] = field(default_factory=list)
    excused: bool = False
    """Whether an answer may leave before the step is durable."""


def place(path: str) -> str:
    """Return the folder of the root."""
    return path.partition("/")[0]


def queue_of(path: str) -> str:
    first, _, rest = path.partition("/")
    name = rest.partition("/")[0]
    if first == "queues":
        return name
    if first == "config":
        return name.rsplit(".", 2)[0]
    return name.partition(":")[0]


def name_at(path: str) -> Name | None:
    """Return what a message file's name says; None where there is none."""
    if place(path) not in _BODIES:
        return None
    try:
        return parse(path)
    except NotAName:
        return None


def holder(file: File, index: int) -> Name | None:
    """Return the name whose folder is the state of a message: of those that list it, the latest."""
    names = [name for path in file.names if (name := name_at(path)) is not None]
    listing = [name for name in names if name.members >> index & 1]
    return max(listing, key=lambda name: name.version, default=None)


def may_make(path: str, written: Container[str]) -> list[str]:
    """Why no file may be made there; `written` holds the stems of all message files so far."""
    name = name_at(path)
    if name is None:
        return []
    faults = []
    if name.stem.text in written:
        faults.append("this file was written already")
    if place(path) != "new":
        faults.append("a body is written in new/ and nowhere else")
    return faults


def may_move(shadow: Shadow, source: str, target: str, relaxed: set[str]) -> Verdict:
    """Of a link, too."""
    verdict = Verdict()
    match place(source), place(target):
        case ("new", "queues" | "delay"):
            doubts = shadow.doubts_about(source)
            verdict.faults += [f"isn't durable yet: {doubt}" for doubt in doubts]
            why = _is_not_whole(shadow.files[source], source)
            verdict.faults += [why] if why else []
            verdict.excused = True
        case (_, "remove"):
            tombstone = _tombstone(shadow, queue_of(source))
            if tombstone is not None:
                doubts = shadow.doubts_about(tombstone)
                verdict.faults += [f"the queue isn't durably deleted: {doubt}" for doubt in doubts]
                verdict.excused = True
        case ("delay", "queues") if "~" not in source:
            verdict.excused = True  # A delay is over, whichever process looks.
        case ("queues" | "delay", "queues" | "delay"):
            verdict.excused = queue_of(source) in relaxed
        case _:
            pass
    return verdict


def may_remove(shadow: Shadow, path: str) -> Verdict:
    """Of a file."""
    verdict = Verdict(excused=True)
    if place(path) == "config":
        _judge_settings(shadow, path, verdict)
    elif place(path) != "owners" and not path.endswith(COPY):
        name = name_at(path)
        if name is None:
            verdict.faults.append("it is no message's")
        else:
            verdict.faults += _held_by(shadow, shadow.files[path], name)
    return verdict


def _held_by(shadow: Shadow, file: File, name: Name) -> list[str]:
    """Why a name must stay: a message that it lists has no later place that is durable."""
    faults = []
    for index in indexes(name.members):
        held = holder(file, index)
        assert held is not None
        if held.path == name.path and place(name.path) != "remove":
            return ["it holds messages"]
        if held.path != name.path:
            late = shadow.late(held.path)
            faults += [f"the name of its messages isn't durable: {change}" for change in late]
    if place(name.path) == "remove" and not faults:
        for index in indexes(name.stem.full):
            held = holder(file, index)
            if held is not None and held.path != name.path and place(held.path) != "remove":
                return []  # The other name keeps the file, and lists nothing that is deleted here.
        faults += [f"has not durably been deleted: {late}" for late in shadow.late(name.path)]
    return faults


def _judge_settings(shadow: Shadow, path: str, verdict: Verdict) -> None:
    """Judge a removal: of an older version once a newer one is durable, of a tombstone at the end."""
    queue = queue_of(path)
    if _is_tombstone(shadow.files[path]):
        left = [
            change
            for change in shadow.pending
            if place(change.source) in _BODIES
            and change.target
            and queue in map(queue_of, (change.source, change.target))
        ]
        verdict.faults += [f"isn't all that is left of the queue: {change}" for change in left]
        return
    newer = [
        other
        for other in shadow.files
        if place(other) == "config" and queue_of(other) == queue and _version(other) > _version(path)
    ]
    if not newer:
        verdict.faults.append("there is no newer version")
    for other in newer:
        verdict.faults += [f"the newer isn't durable: {why}" for why in shadow.doubts_about(other)]


def _tombstone(shadow: Shadow, queue: str) -> str | None:
    return next(
        (
            path
            for path, file in shadow.files.items()
            if place(path) == "config" and queue_of(path) == queue and _is_tombstone(file)
        ),
        None,
    )


def _is_tombstone(file: File) -> bool:
    return re.search(rb'"deleted": *true', file.content) is not None


def _version(path: str) -> int:
    return int(path.rsplit(".", 2)[1])


def _is_not_whole(file: File, path: str) -> str:
    """Why what was written to it isn't, once, what its name says; "" if it is."""
    name = name_at(path)
    if name is None:
        return ""
    wanted = name.stem.length
    if len(file.content) > wanted:
        return f"{len(file.content)} bytes were written to it in place of {wanted}"
    return "" if len(file.content) == wanted else f"only {len(file.content)} of {wanted} bytes are"
