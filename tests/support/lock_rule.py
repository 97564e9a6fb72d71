"""Checks that the holder of the store's lock alone calls the engine's functions, but for those whose
docstring says "in any thread".

A profile function of each thread looks at each call that enters the engine from outside.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Protocol

from spoolrack_store import engine
from spoolrack_store.committer import Committer

ENGINE: Final = str(Path(engine.__file__).parent)
FREE: Final = "any thread"


class Lock(Protocol):
    def _is_owned(self) -> bool: ...


class LockRule:
    """Breaches of the rule, by the function and its caller."""

    def __init__(self) -> None:
        self.breaches: set[str] = set()
        self.locks: list[Any] = []
        """Of the stores that have begun."""

    def on_call(self, frame: FrameType, event: str, _: object) -> None:
        caller = frame.f_back
        if (
            event != "call"
            or caller is None
            or not _is_engine(frame.f_code)
            or _is_engine(caller.f_code)
            or _is_free(frame.f_code)
        ):
            return
        if self.locks and not any(lock._is_owned() for lock in self.locks):
            found, by = frame.f_code, caller.f_code
            where = f"{Path(by.co_filename).name}:{caller.f_lineno} {by.co_qualname}"
            self.breaches.add(f"{where} calls {Path(found.co_filename).name}:{found.co_qualname}")


@cache
def _is_engine(code: CodeType) -> bool:
    return code.co_filename.startswith(ENGINE)


@cache
def _is_free(code: CodeType) -> bool:
    docstring = code.co_consts[0] if code.co_consts else None
    return isinstance(docstring, str) and FREE in " ".join(docstring.lower().split())


@contextmanager
def watched(monkeypatch: Any) -> Iterator[LockRule]:
    """Watch all threads that begin, and this one, once a store is open."""
    rule, start = LockRule(), Committer.start

    def started(committer: Committer) -> None:
        rule.locks.append(committer.changing)
        start(committer)

    monkeypatch.setattr(Committer, "start", started)
    before = sys.getprofile()
    threading.setprofile(rule.on_call)
    sys.setprofile(rule.on_call)
    try:
        yield rule
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
        monkeypatch.undo()
