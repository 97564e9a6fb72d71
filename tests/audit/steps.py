"""What one step of the store rests on: which earlier changes must be durable before it may be taken.

Each question is asked when the step begins. Its verdict also says whether an answer may leave before
the step itself is durable: whoever finds the root after a crash takes such a step again by itself.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from shadow import Node, Shadow

_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BODIES: Final = ("new", "queues", "delay", "remove")
_LENGTH: Final = re.compile(r",s(?P<body>\d+)(?:,c\w+)?(?:,m(?P<trailer>\d+))?")


@dataclass(slots=True)
class Verdict:
    faults: list[str] = field(default_factory=list)
    excused: bool = False
    """Whether an answer may leave before the step is durable."""


def place(path: str) -> str:
    """The folder of the root."""
    return path.partition("/")[0]


def queue_of(path: str) -> str:
    first, _, rest = path.partition("/")
    name = rest.partition("/")[0]
    if first == "queues":
        return name
    if first == "config":
        return name.rsplit(".", 2)[0]
    return name.partition(":")[0]


def id_of(name: str) -> str | None:
    """The id in the name of a message, or of a batch."""
    found = _ID.match(name.rpartition(":")[2])
    return None if found is None else found[0]


def is_message(node: Node) -> bool:
    return not node.is_folder and place(node.path) in _BODIES and id_of(node.name) is not None


def may_make(path: str, written: Container[str]) -> list[str]:
    """Why no file may be made there; `written` holds the ids of all bodies so far."""
    id = id_of(path.rpartition("/")[2])
    if place(path) not in _BODIES or id is None:
        return []
    faults = []
    if id in written:
        faults.append("this message has a body already")
    if place(path) != "new":
        faults.append("a body is written in new/ and nowhere else")
    return faults


def may_move(shadow: Shadow, node: Node, source: str, target: str, relaxed: set[str]) -> Verdict:
    verdict = Verdict()
    there = shadow.find(target)
    if there is not None and there is not node:
        verdict.faults.append("it replaces what is there")
    folders, queue = (place(source), place(target)), queue_of(source)
    match folders:
        case ("new", "queues" | "delay"):
            doubts = shadow.doubts_about(node)
            verdict.faults += [f"isn't durable yet: {doubt}" for doubt in doubts]
            verdict.faults += [why for file in node.inside() if (why := _is_not_whole(file))]
            verdict.excused = True
        case (_, "remove"):
            _judge_removal(shadow, node, queue, verdict)
        case ("queues", "queues") if queue != queue_of(target):
            _judge_burial(shadow, node, queue_of(target), verdict)
        case ("delay", "queues") if "~" not in source:
            verdict.excused = True  # A delay is over, whoever looks.
        case ("queues" | "delay", "queues" | "delay"):
            verdict.excused = queue in relaxed
        case _:
            pass
    if _is_in_batch(source):
        fresh = [c for c in shadow.pending if c.node is node.parent and c.source.startswith("new/")]
        verdict.faults += [f"its batch has not durably left new/: {change}" for change in fresh]
    return verdict


def may_remove(shadow: Shadow, node: Node, path: str) -> Verdict:
    """Of a file."""
    verdict = Verdict(excused=True)
    match place(path):
        case "config":
            _judge_settings(shadow, node, path, verdict)
        case "owners" | "history":
            pass
        case "remove":
            late = shadow.pending_of(node)
            verdict.faults += [f"has not durably been deleted: {c}" for c in late if c.target]
        case _:
            verdict.faults.append("only what is in remove/ may be")
    return verdict


def may_remove_folder(shadow: Shadow, node: Node, path: str) -> Verdict:
    return Verdict(faults=_lost_with(shadow, node), excused=True)


def _is_in_batch(path: str) -> bool:
    return path.count("/") == (3 if place(path) == "queues" else 2)


def _judge_removal(shadow: Shadow, node: Node, queue: str, verdict: Verdict) -> None:
    if node.is_folder:
        verdict.faults += _lost_with(shadow, node)
    tombstone = _tombstone(shadow, queue)
    if tombstone is not None:
        doubts = shadow.doubts_about(tombstone)
        verdict.faults += [f"the queue isn't durably deleted: {doubt}" for doubt in doubts]
        verdict.excused = True


def _judge_burial(shadow: Shadow, node: Node, queue: str, verdict: Verdict) -> None:
    verdict.excused = True
    history = shadow.find(f"history/{queue}:{id_of(node.name)}")
    if history is None:
        verdict.faults.append("has no history")
        return
    doubts = shadow.doubts_about(history)
    verdict.faults += [f"its history isn't durable: {doubt}" for doubt in doubts]


def _judge_settings(shadow: Shadow, node: Node, path: str, verdict: Verdict) -> None:
    """An older version goes when a newer one is durable, a tombstone when nothing else is left."""
    queue = queue_of(path)
    if _is_tombstone(node):
        left = [c for c in shadow.pending if c.target and queue in map(queue_of, (c.source, c.target))]
        verdict.faults += [f"isn't all that is left of the queue: {change}" for change in left]
        return
    config = shadow.find("config")
    assert config is not None
    newer = [
        other
        for other in config.entries.values()
        if queue_of(other.path) == queue and _version(other) > _version(node)
    ]
    if not newer:
        verdict.faults.append("there is no newer version")
    for other in newer:
        verdict.faults += [f"the newer isn't durable: {why}" for why in shadow.doubts_about(other)]


def _lost_with(shadow: Shadow, folder: Node) -> list[str]:
    """Moves out of the folder, or out of one in it, that a crash could forget with the folder gone."""
    inside = set(folder.inside())
    return [
        f"what has left it could be lost with it: {change}"
        for change in shadow.pending
        if change.left in inside and change.node not in inside
    ]


def _tombstone(shadow: Shadow, queue: str) -> Node | None:
    config = shadow.find("config")
    found = [] if config is None else config.entries.values()
    return next((n for n in found if queue_of(n.path) == queue and _is_tombstone(n)), None)


def _is_tombstone(node: Node) -> bool:
    return re.search(rb'"deleted": *true', node.content) is not None


def _version(node: Node) -> int:
    return int(node.name.rsplit(".", 2)[1])


def _is_not_whole(file: Node) -> str:
    """Why what was written to it isn't, once, what its name says; "" if it is."""
    length = _LENGTH.search(file.name)
    if file.is_folder or length is None:
        return ""
    wanted = int(length["body"]) + int(length["trailer"] or 0)
    if len(file.content) > wanted:
        return f"{len(file.content)} bytes were written to it in place of {wanted}"
    return "" if len(file.content) == wanted else f"only {len(file.content)} of {wanted} bytes are"
