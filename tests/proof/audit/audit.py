"""Holds a server's system calls against what it may do, and what it may say, at which moment.

Three kinds of rule. A body is written once, and otherwise only linked, moved and unlinked. A step that
rests on an earlier one waits until that is durable: published messages were synced, unlinked ones were
durably deleted. And no answer leaves before the syncs that it depends on; `answers` knows those.

A finding names the line of the trace. Pure: text comes in, findings come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.proof.audit.answers import Answers
from tests.proof.audit.shadow import Change, File, Shadow, Sync
from tests.proof.audit.steps import may_make, may_move, may_remove, name_at, queue_of
from tests.support.system_calls import Call, read_calls

SYSTEM_CALLS: Final = (
    *("openat", "open", "creat", "openat2", "write", "writev", "pwrite64", "pwritev", "pwritev2"),
    *("truncate", "ftruncate", "fallocate", "copy_file_range", "sendfile"),
    *("fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "mmap"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat"),
    *("link", "linkat", "symlink", "symlinkat"),
    *("sendmsg", "sendto", "sendmmsg", "recvmsg"),
)
"""Calls that must be recorded."""

_NEVER: Final = frozenset(
    {
        *("creat", "writev", "pwrite64", "pwritev", "pwritev2", "truncate", "ftruncate", "fallocate"),
        *("copy_file_range", "sendfile", "symlink", "symlinkat", "openat2"),
    }
)
"""Calls that no file of the root ever sees."""
_WRITING: Final = ("O_WRONLY", "O_RDWR", "O_TRUNC", "O_CREAT", "O_APPEND")
_LOCKED: Final = re.compile(r"FORMAT|owners/\w+")
"""Opened for writing because flock(2) over a network wants that, and for what a start tries."""
_TRIED: Final = re.compile(r"owners/\w+")
"""The process's own file, in which a start tries locks and shared memory."""
_TRIED_NAME: Final = re.compile(r"new/\w+-[12]\.copy")
"""Names by which it tries links and renames: it unlinks both, of which one was moved."""
_SPARE: Final = re.compile(r"new/[a-z0-9]+-[0-9]+\.spare")
"""Made before, and written over by a send: the only files that see pwrite64 and ftruncate."""
_SEAL_BYTES: Final = 512
_NO_PROMISE: Final = frozenset({"RESERVE", "LOCK", "CHANGES"})
"""The first takes up room on the disk; the others are for processes that live."""


@dataclass(slots=True)
class Seen:
    """Counts of a trace: an audit that has seen nothing proves nothing."""

    answers: int = 0
    answers_alone: int = 0
    """Those that left while no other request waited for one."""
    syncs: int = 0
    bodies: int = 0
    unlinked: int = 0
    moves: int = 0


@dataclass(slots=True)
class Report:
    findings: list[str] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)


def audit(lines: Iterable[str], root: str) -> Report:
    """Return the report on a server that was traced from its first start in `root`, an absolute
    path."""
    auditor = _Auditor(root)
    for call in read_calls(lines):
        if call.ended:
            auditor.ends(call)
        else:
            auditor.begins(call)
    return auditor.finish()


class _Auditor:
    def __init__(self, root: str) -> None:
        self.report = Report()
        self._root = root.rstrip("/")
        self._shadow = Shadow()
        self._relaxed: set[str] = set()
        self._syncs: dict[int, Sync] = {}
        """Those under way, by thread."""
        self._excused: dict[int, bool] = {}
        """Whether the change under way is, by thread."""
        self._answers = Answers(self._shadow, self._finds)
        self._stems: set[str] = set()
        """Of all message files that were ever written."""
        self._sealed: dict[str, str] = {}
        """By the path of a spare the name that it is sealed with."""
        self._spares: dict[File, Change | None] = {}
        """Files that were made as spares, and how each got another name."""

    def finish(self) -> Report:
        self.report.seen.answers = self._answers.count
        self.report.seen.answers_alone = self._answers.alone
        return self.report

    def _finds(self, line: int, what: str) -> None:
        self.report.findings.append(f"line {line}: {what}")

    # A call begins: the changes durable by then decide whether it may.

    def begins(self, call: Call) -> None:
        match call.name:
            case "fsync" | "fdatasync":
                path = self._within(call.descriptors[0])
                if path is not None:
                    self._syncs[call.thread] = self._shadow.begin_sync(path)
            case "syncfs" | "sync":
                self._syncs[call.thread] = self._shadow.begin_sync(None)
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                self._move_begins(call)
            case "unlink" | "unlinkat" | "rmdir":
                self._removal_begins(call)
            case "sendmsg" | "sendto":
                self._answers.send_begins(call)
            case _:
                pass

    def _move_begins(self, call: Call) -> None:
        source, target = self._two_paths(call)
        if source is None or target is None:
            if (source is None) != (target is None):
                self._finds(call.line, f"a move across the root: {call.name}({call.arguments})")
            return
        source = self._sealed.get(source, source)
        if source not in self._shadow.files:
            return  # It will fail.
        verdict = may_move(self._shadow, source, target, self._relaxed)
        if "link" in call.name or call.has("RENAME_NOREPLACE"):
            pass  # It fails if something is there.
        elif target in self._shadow.files:
            verdict.faults.append("it replaces what is there")
        self._excused[call.thread] = verdict.excused
        for why in verdict.faults:
            self._finds(call.line, f"{source} is moved to {target}, and {why}")

    def _removal_begins(self, call: Call) -> None:
        path = self._path(call)
        if path is None:
            return
        if path in self._shadow.folders:
            self._excused[call.thread] = True
            return
        if path not in self._shadow.files and not _TRIED_NAME.fullmatch(path):
            self._finds(call.line, f"{path} is removed a second time")
            return
        if _SPARE.fullmatch(path) and path not in self._sealed:
            self._excused[call.thread] = True
            return
        verdict = may_remove(self._shadow, path)
        self._excused[call.thread] = verdict.excused
        for why in verdict.faults:
            self._finds(call.line, f"{path} is removed, and {why}")

    # A call has ended: it counts if it has succeeded.

    def ends(self, call: Call) -> None:
        if call.name in ("sendmsg", "sendto"):
            self._answers.send_ends(call)
            return
        sync = self._syncs.pop(call.thread, None)
        excused = self._excused.pop(call.thread, False)
        if not call.succeeded:
            return
        if sync is not None:
            self._shadow.end_sync(sync)
            self.report.seen.syncs += 1
        match call.name:
            case "recvmsg":
                self._answers.received(call)
            case "open" | "openat":
                self._opened(call)
            case "write":
                self._wrote(call)
            case "mkdir" | "mkdirat":
                path = self._path(call)
                if path:
                    self._shadow.make_folder(path, call.line)
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                source, target = self._two_paths(call)
                if source is not None and target is not None:
                    spare = self._shadow.files.pop(source) if source in self._sealed else None
                    source = self._sealed.pop(source, source)
                    is_link = "link" in call.name
                    change = self._shadow.move(source, target, call.line, is_link=is_link)
                    if spare is not None:
                        self._spares[spare] = change
                    change.excused = excused
                    self.report.seen.moves += 1
            case "unlink" | "unlinkat" | "rmdir":
                self._removed(call, excused)
            case "mmap":
                if call.has("PROT_WRITE") and call.has("MAP_SHARED") and self._mentions(call):
                    self._finds(call.line, f"a file is mapped for writing: {call.arguments[:200]}")
            case "pwrite64" if all(map(_TRIED.fullmatch, self._mentions(call))):
                pass
            case "pwrite64" if all(map(_SPARE.fullmatch, self._mentions(call))):
                for path in self._mentions(call):
                    self._overwrote(call, path)
            case "ftruncate" if self._is_of_spares(call):
                for path in self._mentions(call):
                    self._cut_off(call, path)
            case name if name in _NEVER and self._mentions(call):
                self._finds(call.line, f"{name} in the root: {', '.join(self._mentions(call))}")
            case _:
                pass

    def _opened(self, call: Call) -> None:
        path = self._path(call)
        if path is None or not any(map(call.has, _WRITING)):
            return
        if not (call.has("O_CREAT") and call.has("O_EXCL")):
            is_made_before = _LOCKED.fullmatch(path)
            if call.has("O_TRUNC") or call.has("O_CREAT") or not is_made_before:
                self._finds(call.line, f"{path} is opened for writing without being made anew")
            if path not in self._shadow.files:
                self._shadow.make(path, call.line)
            return
        file = self._shadow.make(path, call.line)
        if _SPARE.fullmatch(path):
            self._spares[file] = None
            file.is_spare = self._shadow.pending[-1].excused = True
        for why in may_make(path, self._stems):
            self._finds(call.line, f"{path} is made, and {why}")
        if path.startswith("owners/"):
            self._shadow.pending[-1].excused = True  # A lock, which dies with its process.
        name = name_at(path)
        if name is not None:
            self._stems.add(name.stem.text)
            self._answers.bodies[name.stem.id] = file
            self.report.seen.bodies += name.stem.count or 1

    def _wrote(self, call: Call) -> None:
        path = self._within(call.descriptors[0]) if call.descriptors else None
        if not path:
            return
        if path.startswith("owners/"):
            return  # A lock; its text is for people.
        file = self._shadow.files.get(path)
        assert file is not None, f"line {call.line}: {path} was never made"
        if name_at(path) is not None and not path.startswith("new/"):
            self._finds(call.line, f"{path} is written after it was published")
        self._shadow.write(file, call.strings[0][: call.result])
        if path.startswith("config/"):
            self._take_settings(file, path)

    def _overwrote(self, call: Call, path: str) -> None:
        """Take in a part of a message that is written over a spare, or the seal, which comes last."""
        file = self._shadow.files[path]
        data, offset = call.strings[0][: call.result], int(call.arguments.rpartition(",")[2])
        if path in self._sealed:
            self._finds(call.line, f"{path} is written after it was sealed")
        if not offset:
            for why in self._shadow.doubts_about(path):
                self._finds(call.line, f"{path} is used before it is durable: {why}")
            file.content, file.is_spare = b"", False
        line, _, rest = data.partition(b"\n")
        if offset != len(file.content) or (len(data) == _SEAL_BYTES and rest.endswith(b"\0")):
            own, _, text = line.decode().partition(" ")
            name = name_at(f"new/{text}")
            if f"new/{own}" != path or name is None:
                self._finds(call.line, f"{path} is sealed with another name: {line!r}")
                return
            # From here on the file has that name, for whoever looks into the seal.
            self._sealed[path] = name.path
            self._shadow.files[name.path] = file
            file.names.add(name.path)
            self._stems.add(name.stem.text)
            self._answers.bodies[name.stem.id] = file
            self.report.seen.bodies += name.stem.count or 1
            return
        self._shadow.write(file, data)

    def _is_of_spares(self, call: Call) -> bool:
        files = [self._shadow.files.get(path) for path in self._mentions(call)]
        return bool(files) and all(file in self._spares for file in files)

    def _cut_off(self, call: Call, path: str) -> None:
        """Hold the end of a used spare to its name: nothing of the message may go, and it must durably
        have a name of its own."""
        file, size = self._shadow.files[path], int(call.arguments.rpartition(",")[2])
        if size != len(file.content) or _SPARE.fullmatch(path):
            self._finds(call.line, f"{path} is cut off after {size} bytes")
        if self._spares[file] in self._shadow.pending:
            self._finds(call.line, f"{path} is cut off before that is durable: {self._spares[file]}")

    def _take_settings(self, file: File, path: str) -> None:
        queue = queue_of(path)
        if re.search(rb'"lease_durability": *"relaxed"', file.content):
            self._relaxed.add(queue)
        else:
            self._relaxed.discard(queue)

    def _removed(self, call: Call, excused: bool) -> None:
        path = self._path(call)
        if path is None or (path not in self._shadow.files and path not in self._shadow.folders):
            return
        self.report.seen.unlinked += name_at(path) is not None
        self._shadow.remove(path, call.line).excused = excused

    # Paths.

    def _within(self, absolute: str) -> str | None:
        """Return the path from the root, "" for the root itself; None for what is no concern of
        ours."""
        if absolute == self._root:
            return ""
        path = absolute.removeprefix(f"{self._root}/")
        return None if path == absolute or path in _NO_PROMISE else path

    def _path(self, call: Call) -> str | None:
        """Return what the call names."""
        folders, names = call.descriptors, call.strings
        folder = folders[0] if call.name.endswith("at") and folders else ""
        return self._joined(folder, names[0].decode(errors="surrogateescape"))

    def _two_paths(self, call: Call) -> tuple[str | None, str | None]:
        one, other = (name.decode(errors="surrogateescape") for name in call.strings[:2])
        folders = call.descriptors if call.name not in ("rename", "link") else ["", ""]
        return self._joined(folders[0], one), self._joined(folders[1], other)

    def _joined(self, folder: str, name: str) -> str | None:
        return self._within(name if name.startswith("/") else f"{folder}/{name}")

    def _mentions(self, call: Call) -> list[str]:
        """Return what lies in the root, of all that the call names."""
        named = [self._within(path) for path in call.descriptors]
        if call.name in ("creat", "truncate", "openat2") or "symlink" in call.name:
            folder = (call.descriptors or [""])[-1]
            named += [self._joined(folder, name.decode(errors="replace")) for name in call.strings]
        return [path for path in named if path]
