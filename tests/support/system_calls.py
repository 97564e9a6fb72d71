"""Reads what strace has written: one call at a time, as it begins and as it ends.

strace stops a thread where a call enters the kernel and where it leaves, and writes a line at a time.
A thread's reaction to another's call stands below it. So the order of the lines is the
order of the calls, exactly, as far as one can depend on another, and no clock is needed. Pure: it
knows the text of strace 5.3 and newer with `-f -y -xx`, where every string is in hexadecimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

_LINE: Final = re.compile(r"(?P<thread>\d+) +(?P<rest>.*)")
_RESUMED: Final = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_BEGUN: Final = re.compile(r"(?P<name>\w+)\((?P<arguments>.*?)(?P<unfinished> <unfinished \.\.\.>)?")
_RESULT: Final = re.compile(r"(?P<arguments>.*)\) += (?P<result>-?\d+|0x[0-9a-f]+|\?)(?P<more>[ <].*)?")
_HEX: Final = r"(?:\\x[0-9a-f]{2})*"
_DESCRIPTOR: Final = re.compile(rf"(?:-?\d+|AT_FDCWD)<(?P<path>{_HEX})>(?P<gone>\(deleted\))?")
_STRING: Final = re.compile(rf'"(?P<text>{_HEX})"(?P<cut>\.\.\.)?')


class NotATrace(ValueError):
    """The text isn't what this reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A system call that has begun and, if it has a result, ended."""

    line: int
    """Of the trace, from 1: where it begins, or where it ends."""
    thread: int
    name: str
    arguments: str
    result: int | None = None
    ended: bool = False

    @property
    def succeeded(self) -> bool:
        return self.result is not None and self.result >= 0

    @property
    def descriptors(self) -> list[str]:
        """The open descriptors among the arguments: each a path, or `socket:[…]`.

        An unlinked file is "".
        """
        found = _DESCRIPTOR.finditer(self.arguments)
        return ["" if each["gone"] else _bytes(each["path"]).decode(errors="replace") for each in found]

    @property
    def strings(self) -> list[bytes]:
        found = list(_STRING.finditer(self.arguments))
        if any(each["cut"] for each in found):
            raise NotATrace(f"line {self.line}: a string is cut short: strace needs a larger -s")
        return [_bytes(each["text"]) for each in found]

    def has(self, flag: str) -> bool:
        """Return whether a flag such as O_EXCL is among the arguments."""
        return re.search(rf"\b{flag}\b", self.arguments) is not None


def read_calls(lines: Iterable[str]) -> Iterator[Call]:
    """Yield each call twice: where it begins, with what is known of its arguments, and where it ends.

    One that hasn't ended when the trace ends is only begun.
    """
    waiting: dict[int, tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line.rstrip("\n"))
        if match is None:
            raise NotATrace(f"line {number}: {line[:100]!r}")
        thread, rest = int(match["thread"]), match["rest"]
        if rest.startswith(("---", "+++")):
            continue  # A signal, or the end of the thread.
        resumed = _RESUMED.fullmatch(rest)
        if resumed is not None:
            name, before = waiting.pop(thread, ("nothing", ""))
            if name != resumed["name"]:
                raise NotATrace(f"line {number}: {resumed['name']} is resumed, {name} was begun")
            yield _ended(number, thread, name, before + resumed["rest"])
            continue
        begun = _BEGUN.fullmatch(rest)
        if begun is None:
            raise NotATrace(f"line {number}: {line[:100]!r}")
        name, arguments = begun["name"], begun["arguments"]
        if begun["unfinished"]:
            waiting[thread] = (name, arguments)
            yield Call(line=number, thread=thread, name=name, arguments=arguments)
            continue
        ended = _ended(number, thread, name, arguments)
        yield replace(ended, result=None, ended=False)
        yield ended


def _ended(line: int, thread: int, name: str, text: str) -> Call:
    match = _RESULT.fullmatch(text)
    if match is None:
        raise NotATrace(f"line {line}: {name} has no result: {text[-100:]!r}")
    result = None if match["result"] == "?" else int(match["result"], 0)
    return Call(
        line=line, thread=thread, name=name, arguments=match["arguments"], result=result, ended=True
    )


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))
