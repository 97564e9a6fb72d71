"""A local disk that remembers what it was asked, and fails when a test wants it to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from spoolrack_store.files.disk import Facts, FolderEntry, Lock, NotSynced, Space
from spoolrack_store.files.local_disk import LocalDisk

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that the disk was asked."""

    name: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.paths)})"


@dataclass(slots=True)
class Fault:
    """Fails the calls that `matches` picks: `times` of them, after the first `skip`."""

    code: int
    matches: Callable[[Call], bool]
    skip: int
    times: int
    met: int = 0


class FaultyDisk(LocalDisk):
    """As thread-safe as any local disk."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self.overwrites = False  # A thread makes spares, and a test counts calls.
        self.calls: list[Call] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._held: list[tuple[Callable[[Call], bool], threading.Event, threading.Event]] = []

    # Calls of tests.

    def fail(
        self, code: int, *names: str, path: str = "", skip: int = 0, times: int = 1_000_000
    ) -> Fault:
        """Let calls of these `names` whose paths contain `path` fail with errno `code`."""

        def matches(call: Call) -> bool:
            return call.name in names and (not path or any(path in each for each in call.paths))

        fault = Fault(code, matches, skip, times)
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """End all faults."""
        with self._lock:
            self._faults.clear()

    def hold(self, name: str, path: str = "") -> tuple[threading.Event, threading.Event]:
        """Stop a thread before the call: the first event says that it stands there, the second, to be
        set by the test, lets it (and all later ones) go on."""
        reached, advance = threading.Event(), threading.Event()

        def matches(call: Call) -> bool:
            return call.name == name and (not path or any(path in each for each in call.paths))

        with self._lock:
            self._held.append((matches, reached, advance))
        return reached, advance

    def forget(self) -> None:
        """Remember nothing of what was asked until now."""
        with self._lock:
            self.calls.clear()

    def called(self, *names: str) -> list[Call]:
        with self._lock:
            return [call for call in self.calls if call.name in names]

    # Disk.

    def make_folder(self, path: str) -> None:
        self._do("make_folder", path)
        super().make_folder(path)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        self._do("create", path)
        if sync:
            try:
                self._do("sync_new", path)
            except OSError as error:
                raise NotSynced(*error.args) from error
        super().create(path, parts, sync=sync)

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        self._do("write_at", path)
        super().write_at(path, offset, content)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        self._do("read", path)
        return super().read(path, limit, afresh=afresh)

    def open(self, path: str) -> BinaryIO:
        self._do("open", path)
        return super().open(path)

    def scan(self, path: str) -> list[FolderEntry]:
        self._do("scan", path)
        return super().scan(path)

    def facts(self, path: str) -> Facts:
        self._do("facts", path)
        return super().facts(path)

    def link(self, source: str, target: str) -> None:
        self._do("link", source, target)
        super().link(source, target)

    def rename_new(self, source: str, target: str) -> None:
        self._do("rename_new", source, target)
        super().rename_new(source, target)

    def rename(self, source: str, target: str) -> None:
        self._do("rename", source, target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._do("unlink", path)
        super().unlink(path)

    def remove_folder(self, path: str) -> None:
        self._do("remove_folder", path)
        super().remove_folder(path)

    def sync_file(self, path: str) -> None:
        self._do("sync_file", path)
        super().sync_file(path)

    def sync_folder(self, path: str) -> None:
        self._do("sync_folder", path)
        super().sync_folder(path)

    def sync_all(self) -> None:
        self._do("sync_all")
        super().sync_all()

    def space(self) -> Space:
        self._do("space")
        return super().space()

    def set_aside(self, path: str, size: int) -> None:
        self._do("set_aside", path)
        super().set_aside(path, size)

    def lock(self, path: str) -> Lock | None:
        self._do("lock", path)
        return super().lock(path)

    def _do(self, name: str, *paths: str) -> None:
        call = Call(name, paths)
        with self._lock:
            self.calls.append(call)
            failing = next((fault for fault in self._faults if self._is_met(fault, call)), None)
            held = [(reached, advance) for matches, reached, advance in self._held if matches(call)]
        for reached, advance in held:
            reached.set()
            assert advance.wait(60)
        if failing is not None:
            raise OSError(failing.code, os.strerror(failing.code), *paths[:1])

    def _is_met(self, fault: Fault, call: Call) -> bool:
        if not fault.matches(call):
            return False
        fault.met += 1
        return fault.skip < fault.met <= fault.skip + fault.times
