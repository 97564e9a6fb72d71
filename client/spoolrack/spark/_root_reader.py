"""The messages of a root as Arrow record batches: no server, no lock, no change of any file.

A name says the state of the messages that it lists, and the highest version counts. So all names of a
file, and of the copies that dead letters are, belong to one range of ids, and a task reads one range. A
file is opened once, and only for a column that its name can't fill.

A live root moves meanwhile. Names only rise in version, so listings may be added up: each folder is
listed before the folders that its messages move to, and `delay/`, which they leave again, twice.

What can fail: a folder that is no root. A file that can't be read leaves columns of its own rows null;
the column `error` says why.
"""

from __future__ import annotations

import json
import os
import re
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from spoolrack_store.engine.dead_letters import history_of
from spoolrack_store.files import layout
from spoolrack_store.model import manifest, settings
from spoolrack_store.model.batch_file import BatchFile, Damaged, Groups, Line, body, decode, resolve
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord, NotAHistory, records_in
from spoolrack_store.model.errors import DamagedSettings
from spoolrack_store.model.names import (
    Name,
    NotAName,
    Stem,
    batch_of,
    body_path,
    first_id_of,
    index_of,
    indexes,
    parse,
    sent_at,
)
from spoolrack_store.model.operations import MAX_BODY_IN_MEMORY
from spoolrack_store.model.reservation_names import parse_reservation_name
from spoolrack_store.model.reservation_records import ReservationRecord
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.stage_names import parse_chunk
from spoolrack_store.model.transitions import State

from ._options import InvalidOption, known, listed, moment, whole

ROWS: Final = 10_000
"""Messages of a record batch, and a file's more."""
BYTES: Final = 8 * 1024 * 1024
"""Bodies of a record batch, and a file's more."""
MOST_RECEIVES: Final = 2**31 - 1
"""Of a column that is an int."""
MOST_PARTITIONS: Final = 64
"""Without the option numPartitions: each task lists the whole root."""
_WORTH: Final = 100_000
"""Cost of a partition, in names."""
_SAMPLE: Final = 50_000
"""Names by which partitions are cut."""
_KEY: Final = 33
"""Characters of an id without the index: alike in a batch's messages and their copies."""
_LAST: Final = "\U0010ffff"
"""Above all names."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_RECORD: Final = pa.struct(
    [
        ("source_queue", pa.string()),
        ("reason", pa.string()),
        ("receive_count", pa.int32()),
        ("first_received_at", _TIME),
        ("dead_lettered_at", _TIME),
        ("explanation", pa.string()),
        ("redrive_queue", pa.string()),
        ("redriven_at", _TIME),
    ]
)
COLUMNS: Final[dict[str, tuple[pa.DataType, str]]] = {
    "queue": (pa.string(), "string"),
    "state": (pa.string(), "string"),
    "id": (pa.string(), "string"),
    "sent_at": (_TIME, "timestamp"),
    "deliver_at": (_TIME, "timestamp"),
    "lease_expires_at": (_TIME, "timestamp"),
    "receive_count": (pa.int32(), "int"),
    "first_received_at": (_TIME, "timestamp"),
    "is_dead_letter": (pa.bool_(), "boolean"),
    "priority": (pa.int32(), "int"),
    "approximate_size": (pa.int64(), "bigint"),
    "file": (pa.string(), "string"),
    "body_size": (pa.int64(), "bigint"),
    "attributes": (pa.map_(pa.string(), pa.string()), "map<string, string>"),
    "binary_attributes": (pa.map_(pa.string(), pa.binary()), "map<string, binary>"),
    "group": (pa.string(), "string"),
    "deduplication_key": (pa.string(), "string"),
    "dead_letter_records": (
        pa.list_(_RECORD),
        "array<struct<source_queue: string, reason: string, receive_count: int, "
        "first_received_at: timestamp, dead_lettered_at: timestamp, explanation: string, "
        "redrive_queue: string, redriven_at: timestamp>>",
    ),
    "body": (pa.binary(), "binary"),
    "error": (pa.string(), "string"),
}
"""All columns, with their types in Arrow and in Spark."""
_OF_NAMES: Final = ("queue", "state", "sent_at", "deliver_at", "lease_expires_at", "receive_count")
_SHARED: Final = (*_OF_NAMES, "first_received_at", "is_dead_letter", "priority", "file")
"""Columns that are alike in all messages that a name holds."""
_OF_LINES: Final = frozenset({"attributes", "binary_attributes", "group", "dead_letter_records"})
"""Columns that only the line of a file has."""
_OF_BATCHES: Final = frozenset({"body_size", "deduplication_key"})
"""Columns that the line tells of a batch, and the name of a lone message."""

NEW, STAGED, FOREIGN, ARCHIVED = "new", "staged", "foreign", "archived"
_STATES: Final = {
    State.SENT: NEW,
    State.READY: "ready",
    State.DELAYED: "delayed",
    State.LEASED: "leased",
    State.REMOVED: "removed",
    State.QUARANTINED: "quarantined",
}
STATES: Final = (*_STATES.values(), STAGED, ARCHIVED, FOREIGN)
NOT_UNASKED: Final = frozenset({"removed", ARCHIVED})
"""States of deleted messages: of no use to a count of what is there."""
_OUT: Final = frozenset({State.READY, State.DELAYED, State.LEASED, State.REMOVED})
NAMES: Final = (
    *("path", "columns", "bodies", "queue", "states", "sentAfter", "sentBefore", "onError"),
    "numPartitions",
)
_CONFIG: Final = re.compile(r"(.+)\.([1-9][0-9]{0,14})\.json")
_COUNT: Final = re.compile(r",n([0-9]+),s([0-9]+)")
_SIZE: Final = re.compile(r",s([0-9]+)")


class UnreadableFile(Exception):
    """A file of a root can't be read, and onError is 'fail'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootOptions:
    path: str
    columns: tuple[str, ...]
    queues: tuple[str, ...] = ()
    """Patterns of names; none: all queues."""
    states: frozenset[str] = frozenset(STATES) - NOT_UNASKED
    since: str = ""
    """The first id of messages that are sent late enough."""
    until: str = _LAST
    fails: bool = False
    """Whether a file that can't be read fails the query."""
    partitions: int | None = None

    def has(self, queue: str, state: str) -> bool:
        """Return whether messages of this queue in this state are asked for."""
        return state in self.states and (
            not self.queues or any(fnmatchcase(queue, pattern) for pattern in self.queues)
        )


@dataclass(frozen=True, slots=True)
class Range:
    """One task's share: the files whose ids are between, and what all tasks must know."""

    first: str
    end: str
    deleted: frozenset[str] = frozenset()
    """Queues with a tombstone."""
    published: frozenset[str] = frozenset()
    """Stages with a manifest."""
    holds: Mapping[str, int] = field(default_factory=dict)
    """When the leases of reserved sets end, by their tokens: their names don't say it."""


def root_options(options: Mapping[str, str]) -> RootOptions:
    """Return what the options say; raise `InvalidOption`."""
    given = known(options, NAMES)
    path = given.get("path", "").removeprefix("file://")
    if not path:
        raise InvalidOption("The folder is missing: .load('/srv/queues').")
    fails = given.get("onerror", "report").lower()
    if fails not in ("report", "fail"):
        raise InvalidOption(f"onError is {fails!r}: it may be 'report' or 'fail'.")
    bodies = given.get("bodies", "false").lower()
    if bodies not in ("true", "false"):
        raise InvalidOption(f"bodies is {bodies!r}: it may be 'true' or 'false'.")
    columns = listed(given, "columns", tuple(COLUMNS)) or tuple(
        name for name in COLUMNS if name != "body" or bodies == "true"
    )
    if bodies == "true" and "body" not in columns:
        columns = (*columns, "body")
    states = frozenset(listed(given, "states", STATES))
    since, until = moment(given, "sentAfter"), moment(given, "sentBefore")
    return RootOptions(
        path=os.path.abspath(path),
        columns=columns,
        queues=listed(given, "queue", ()),
        states=states or frozenset(STATES) - NOT_UNASKED,
        since="" if since is None else first_id_of(Millis(since)),
        until=_LAST if until is None else first_id_of(Millis(until)),
        fails=fails == "fail",
        partitions=whole(given, "numPartitions", 0, least=0, most=10_000) or None,
    )


def ddl(columns: Iterable[str]) -> str:
    """Return the columns as Spark writes them."""
    return ", ".join(f"`{name}` {COLUMNS[name][1]}" for name in columns)


def ranges(options: RootOptions) -> list[Range]:
    """Return the shares of all tasks; raise `InvalidOption` where there is no root."""
    root = _RootFolders(options)
    root.check()
    names = root.all_names()
    first, end = options.since[:_KEY], options.until[:_KEY]
    items = [item for each in names.values() for item in each]
    if ARCHIVED in options.states:
        items += [stem for _, _, stem in root.archived()]
    bounds = _bounds([item for item in items if first <= _key(item) < end], options)
    deleted = root.deleted_queues()
    holds = root.holds()
    published = root.published_stages() if names[layout.STAGED] else frozenset()
    return [
        Range(start, stop, deleted, published, holds)
        for start, stop in zip([first, *bounds], [*bounds, end], strict=True)
    ]


def _bounds(items: Sequence[str], options: RootOptions) -> list[str]:
    """Return the keys that divide names into shares of about one cost."""
    step = len(items) // _SAMPLE + 1
    # The costs of a message, of an opened file, and of a byte, relative to a name.
    message, opened = 0.2, 2.0 if not _OF_LINES.isdisjoint(options.columns) else 0.0
    byte = 1 / 65_536 if "body" in options.columns else 0.0
    costs: dict[str, float] = {}
    for item in items[::step]:
        key = _key(item)
        found = _COUNT.search(item)
        count = int(found[1]) if found else 1
        size = int(found[2]) if found else int(lone[1]) if byte and (lone := _SIZE.search(item)) else 0
        cost = (1 + opened + message * count + byte * size) * step
        costs[key] = costs.get(key, 0.0) + cost
    keys = sorted(costs)
    totals = [*accumulate(costs[key] for key in keys)]
    if not keys:
        return []
    shares = options.partitions or min(MOST_PARTITIONS, int(totals[-1] / _WORTH) + 1)
    wanted = (bisect_left(totals, totals[-1] * share / shares) + 1 for share in range(1, shares))
    return sorted({keys[at] for at in wanted if at < len(keys)})


def read(options: RootOptions, range: Range) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one share; raise `UnreadableFile` if the options say so."""
    return _RangeReader(options, range).batches()


def _key(item: str) -> str:
    """Return the part of a name by which files are divided: the id, without the index."""
    return item.rpartition(":")[2][:_KEY]


class _RootFolders:
    """The folders of a root, and the small files beside the messages."""

    def __init__(self, options: RootOptions) -> None:
        self._options = options
        self.path = options.path

    def check(self) -> None:
        """Raise `InvalidOption` where there is no root that can be listed."""
        try:
            with open(os.path.join(self.path, layout.FORMAT), "rb") as file:
                found = file.read(100)
            os.listdir(os.path.join(self.path, layout.QUEUES))
        except FileNotFoundError as error:
            raise InvalidOption(
                f"{self.path} is no root of a Spoolrack store: it has no file {layout.FORMAT}. "
                "Driver and executors must have it at one path."
            ) from error
        except OSError as error:
            raise InvalidOption(
                f"{self.path} can't be read: {error.strerror}. Run Spark as the server's user, "
                "or copy the root."
            ) from error
        if found != layout.FORMAT_CONTENT:
            raise InvalidOption(
                f"{self.path} has the format {found.decode(errors='replace').strip()!r}, and this "
                f"reads {layout.FORMAT_CONTENT.decode().strip()!r}: use the version that wrote it."
            )

    def all_names(self) -> dict[str, list[str]]:
        """Return the names in each folder of messages, those of queues by `queues/<queue>`."""
        folders = [layout.STAGED, layout.DELAY, layout.NEW]
        found = {folder: self.list(folder) for folder in [layout.QUARANTINE, layout.REMOVE, *folders]}
        for queue in self.list(layout.QUEUES):
            found[f"{layout.QUEUES}/{queue}"] = self.list(f"{layout.QUEUES}/{queue}")
        for folder in (layout.DELAY, layout.QUARANTINE):
            # Messages that have left a queue since it was listed.
            found[folder] = [*dict.fromkeys([*found[folder], *self.list(folder)])]
        return found

    def archived(self) -> Iterator[tuple[str, str, str]]:
        """Yield queue, folder and stem of each file of the archive."""
        for queue in self.list(layout.ARCHIVE):
            for day in self.list(f"{layout.ARCHIVE}/{queue}"):
                folder = f"{layout.ARCHIVE}/{queue}/{day}"
                for stem in self.list(folder):
                    yield queue, folder, stem

    def list(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self.path, folder))
        except (FileNotFoundError, NotADirectoryError):
            return []  # A queue that was deleted since, or no folder of ours.

    def deleted_queues(self) -> frozenset[str]:
        """Return the queues with a tombstone, whose messages count as deleted."""
        newest: dict[str, list[int]] = {}
        for item in self.list(layout.CONFIG):
            if found := _CONFIG.fullmatch(item):
                newest.setdefault(found[1], []).append(int(found[2]))
        return frozenset(
            queue for queue, versions in newest.items() if self._is_deleted(queue, versions)
        )

    def _is_deleted(self, queue: str, versions: Sequence[int]) -> bool:
        for version in sorted(versions, reverse=True):
            path = f"{layout.CONFIG}/{queue}.{version}.json"
            try:
                return settings.decode(self.content(path), path).settings is None
            except (OSError, DamagedSettings):
                continue  # The highest version that can be read counts.
        return False

    def published_stages(self) -> frozenset[str]:
        """Return the stages that a manifest publishes, whose messages are sent."""
        found: set[str] = set()
        for item in self.list(layout.PUBLISHED):
            try:
                found.update(manifest.decode(self.content(f"{layout.PUBLISHED}/{item}")).stages)
            except (OSError, NotWhole):
                continue  # No manifest: nothing of it is published.
        return frozenset(found)

    def holds(self) -> dict[str, int]:
        """Return when the hold of each reserved set ends, in Unix milliseconds, by its token."""
        found: dict[str, int] = {}
        for item in self.list(layout.RESERVED):
            try:
                name = parse_reservation_name(item)
                if name.due is not None:
                    record = ReservationRecord.decode(self.content(f"{layout.RESERVED}/{item}"))
                    found[record.token] = name.due
            except (OSError, NotAName, NotWhole):
                continue  # No set of it is answered. Its leases end as their names say.
        return found

    def content(self, path: str, last: int | None = None) -> bytes:
        """Return the bytes of a file, or the `last` ones; raise `OSError`, also for no regular file."""
        return self.tail(path, last)[0]

    def tail(self, path: str, last: int | None = None) -> tuple[bytes, int]:
        """Return the bytes of a file, or the `last` ones, and its length."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(os.path.join(self.path, path), flags)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError("it is no regular file")
            start = 0 if last is None else max(0, facts.st_size - last)
            parts, at = [], start
            while at < facts.st_size and (part := os.pread(file, facts.st_size - at, at)):
                parts.append(part)
                at += len(part)
            return b"".join(parts), facts.st_size
        finally:
            os.close(file)


@dataclass(frozen=True, slots=True)
class _HeldMessages:
    """Messages of one file that one name holds."""

    members: int
    queue: str
    state: str
    file: str
    name: Name | None = None
    """None: of a file without state."""


@dataclass(frozen=True, slots=True)
class _MessageFile:
    """The messages of one file that are asked for."""

    stem: Stem
    paths: Sequence[str]
    """Its names: each of them opens it."""
    held: Sequence[_HeldMessages]


@dataclass(frozen=True, slots=True)
class _ForeignFile:
    """A file that is no message's."""

    queue: str
    path: str


class _RangeReader:
    """One task's reading of its range."""

    def __init__(self, options: RootOptions, range: Range) -> None:
        self._options = options
        self._range = range
        self._root = _RootFolders(options)
        self._rows = _RowBuffer(options.columns)
        self._lone: list[Name] = []
        """Messages whose name alone fills all columns that are asked for."""
        self._wants_body = "body" in options.columns
        self._wants_line = not _OF_LINES.isdisjoint(options.columns)
        self._wants_batches = not _OF_BATCHES.isdisjoint(options.columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        moved: set[str] = set()
        for found in self._found():
            match found:
                case _ForeignFile():
                    self._add_foreign(found)
                case Name():
                    self._lone.append(found)
                case _MessageFile():
                    if not self._add(found):
                        moved.add(found.stem.text)
            yield from self._full(ROWS)
        if moved:
            # Another process has moved them since: they are elsewhere, or deleted.
            for found in self._found():
                if isinstance(found, _MessageFile) and found.stem.text in moved:
                    self._add(found)
                yield from self._full(ROWS)
        yield from self._full(1)

    def _full(self, least: int) -> Iterator[pa.RecordBatch]:
        if len(self._lone) >= least:
            yield _batch_of(self._lone, self._state_of, self._due_of, self._options.columns)
            self._lone.clear()
        if self._rows.count >= least or self._rows.size >= BYTES:
            yield self._rows.take()

    # Which messages there are.

    def _found(self) -> Iterator[_MessageFile | Name | _ForeignFile]:
        folders = self._root.all_names()
        staged = folders.pop(layout.STAGED)
        mine = {folder: [*filter(self._is_mine, items)] for folder, items in folders.items()}
        several = Counter(_key(item) for items in mine.values() for item in items)
        names: list[Name] = []
        for folder, items in mine.items():
            for item in items:
                try:
                    name = parse(f"{folder}/{item}")
                except NotAName:
                    if not (folder == layout.NEW and item.endswith(layout.COPY)):
                        yield from self._foreign(folder, item)
                    continue
                if several[name.stem.id[:_KEY]] > 1 or name.stem.count:
                    names.append(name)
                elif self._options.has(name.queue, self._state_of(name)) and not (
                    name.state is State.SENT and name.stem.deaths
                ):
                    # The only name of a lone message, and no copy: nothing else says where it is.
                    yield self._file(name) if self._is_opened(name.stem) else name
        files = resolve(names)
        yield from self._sent(files)
        yield from self._staged(staged, files)
        if ARCHIVED in self._options.states:
            yield from self._archived()

    def _is_opened(self, stem: Stem) -> bool:
        """Return whether a column needs more than the name, or its state."""
        return self._wants_body or self._wants_line or (self._wants_batches and stem.count > 0)

    def _file(self, name: Name) -> _MessageFile:
        """Return the file of a lone message with one name."""
        held = _HeldMessages(1, name.queue, self._state_of(name), name.path, name)
        return _MessageFile(name.stem, [name.path], [held])

    def _is_mine(self, item: str) -> bool:
        return self._range.first <= _key(item) < self._range.end

    def _foreign(self, folder: str, item: str) -> Iterator[_ForeignFile]:
        parent, _, queue = folder.partition("/")
        if parent != layout.QUEUES:
            queue = item.partition(":")[0] if ":" in item else ""
        if self._options.has(queue, FOREIGN):
            yield _ForeignFile(queue, f"{folder}/{item}")

    def _sent(self, files: Mapping[str, BatchFile]) -> Iterator[_MessageFile]:
        superseded = _superseded(files.values())
        for text in sorted(files):
            batch = files[text]
            if not batch.was_sent or (batch.stem.deaths and not _is_out(batch)):
                continue  # Never answered: the next start unlinks it.
            held = []
            for entry in batch.entries:
                members = entry.held & ~superseded.get(text, 0)
                state = self._state_of(entry.name)
                if members and self._options.has(entry.name.queue, state):
                    name = entry.name
                    held.append(_HeldMessages(members, name.queue, state, name.path, name))
            if held:
                yield _MessageFile(
                    batch.stem, [entry.name.path for entry in reversed(batch.entries)], held
                )

    def _state_of(self, name: Name) -> str:
        if name.queue in self._range.deleted and name.state is not State.QUARANTINED:
            return _STATES[State.REMOVED]
        return _STATES[name.state]

    def _due_of(self, name: Name) -> int | None:
        return self._range.holds.get(name.token, name.due)

    def _staged(
        self, items: Sequence[str], files: Mapping[str, BatchFile]
    ) -> Iterator[_MessageFile | _ForeignFile]:
        dropped = {item for item in items if item.endswith("~dropped")}
        for item in items:
            if item in dropped or not self._is_mine(item):
                continue
            try:
                chunk = parse_chunk(item)
            except NotAName:
                yield from self._foreign(layout.STAGED, item)
                continue
            life = str(chunk.life)
            state = NEW if life in self._range.published else STAGED
            if (
                f"{life}~dropped" not in dropped
                and chunk.stem.text not in files
                and self._options.has(chunk.queue, state)
            ):
                held = _HeldMessages(chunk.stem.full, chunk.queue, state, chunk.path)
                yield _MessageFile(chunk.stem, [chunk.path], [held])

    def _archived(self) -> Iterator[_MessageFile | _ForeignFile]:
        for queue, folder, item in self._root.archived():
            if not self._is_mine(item) or not self._options.has(queue, ARCHIVED):
                continue
            path = f"{folder}/{item}"
            try:
                stem = parse(f"{layout.QUEUES}/{queue}/{item}").stem
            except NotAName:
                yield from self._foreign(folder, item)
                continue
            yield _MessageFile(stem, [path], [_HeldMessages(stem.full, queue, ARCHIVED, path)])

    # The facts that only the files have.

    def _add_foreign(self, foreign: _ForeignFile) -> None:
        path = _text(foreign.path)
        error = f"{path}: this is not the name of a message"
        if self._options.fails:
            raise UnreadableFile(f"{error}. Without .option('onError', 'fail') it is a row.")
        self._rows.add(
            {"queue": foreign.queue, "state": FOREIGN, "file": path}, {"error": [error]}, 1, 0
        )

    def _add(self, file: _MessageFile) -> bool:
        """Take in the messages of a file; return False if it is there under none of its names."""
        stem = file.stem
        line, content, error = None, b"", None
        if self._is_opened(stem):
            try:
                line, content = self._load(file)
            except FileNotFoundError:
                return False
            except (OSError, Damaged) as why:
                error = self._problem(file.paths[0], why)
        groups = Groups(line.groups, stem.full) if line is not None and line.groups else None
        for held in file.held:
            self._add_held(stem, held, line, content, groups, error)
        return True

    def _load(self, file: _MessageFile) -> tuple[Line, bytes]:
        stem = file.stem
        if not (self._wants_body or stem.line):
            return decode(stem, b"", stem.length), b""
        for path in file.paths:
            try:
                content, length = self._root.tail(path, None if self._wants_body else stem.line)
            except FileNotFoundError:
                continue
            line = decode(stem, content, length)
            if not stem.is_external or not self._wants_body or stem.size > MAX_BODY_IN_MEMORY:
                return line, content
            try:
                return line, self._root.content(body_path(stem.id))
            except FileNotFoundError as why:
                self._root.tail(path, 0)  # The message may have been deleted.
                raise Damaged("its body is not there any more") from why
        raise FileNotFoundError(file.paths[0])

    def _problem(self, path: str, why: Exception) -> str:
        reason = why.strerror if isinstance(why, OSError) and why.strerror else str(why)
        error = f"{path}: {reason}"
        if self._options.fails:
            raise UnreadableFile(f"{error}. Without .option('onError', 'fail') it is a row.") from why
        return error

    def _add_held(
        self,
        stem: Stem,
        held: _HeldMessages,
        line: Line | None,
        content: bytes,
        groups: Groups | None,
        error: str | None,
    ) -> None:
        members = [*indexes(held.members)]
        count, of = len(members), stem.count or 1
        errors = [error] * count
        records: list[dict[str, object]] | None = None
        if line is not None and self._wants_line:
            try:
                records = _records(stem, held.name, line)
            except NotAHistory as why:
                errors = [self._problem(held.file, why)] * count
        bodies: list[bytes | None] = [None] * count
        size = 0
        is_left_out = stem.is_external and stem.size > MAX_BODY_IN_MEMORY
        if line is not None and self._wants_body and not is_left_out:
            for at, index in enumerate(members):
                try:
                    found = bodies[at] = body(line, content, index)
                    size += len(found)
                except Damaged as why:
                    errors[at] = self._problem(held.file, why)
        given: dict[str, Callable[[], list[Any]]] = {
            "id": lambda: [stem.message_id(index) for index in members],
            "approximate_size": lambda: [
                stem.size * (index + 1) // of - stem.size * index // of for index in members
            ],
            "body_size": lambda: (
                [line.sizes[index] for index in members]
                if line is not None
                else [None if stem.count else stem.size] * count
            ),
            "attributes": lambda: _attributes(line, members, str),
            "binary_attributes": lambda: _attributes(line, members, bytes),
            "group": lambda: [groups.of(index) or None if groups else None for index in members],
            "deduplication_key": lambda: (
                [line.keys.get(index) for index in members]
                if line is not None and stem.count
                else [stem.key or None] * count
            ),
            "dead_letter_records": lambda: [records] * count,
            "body": lambda: bodies,
            "error": lambda: errors,
        }
        columns = {name: given[name]() for name in self._options.columns if name in given}
        due = None if held.name is None else self._due_of(held.name)
        self._rows.add(_shared(stem, held, due), columns, count, size)


def _is_out(batch: BatchFile) -> bool:
    """Return whether the file has left `new/`: the copy of a dead letter counts from then on."""
    return any(entry.name.state in _OUT for entry in batch.entries)


def _superseded(files: Iterable[BatchFile]) -> dict[str, int]:
    """Return, by stems, the messages that a later file has: a dead letter is a copy, which counts."""
    by_id: dict[str, list[BatchFile]] = {}
    for batch in files:
        by_id.setdefault(batch.stem.id + ("n" if batch.stem.count else ""), []).append(batch)
    found: dict[str, int] = {}
    for id, several in by_id.items():
        last = max(several, key=lambda each: (_is_out(each), each.stem.deaths, each.stem.text))
        for batch in several:
            if batch is not last and not batch.stem.count:
                found[batch.stem.text] = batch.stem.full
        if last.stem.deaths and _is_out(last):
            for source in by_id.get(batch_of(id) + "n", ()):
                text = source.stem.text
                found[text] = found.get(text, 0) | 1 << index_of(id)
    return found


def _shared(stem: Stem, held: _HeldMessages, due: int | None) -> dict[str, Any]:
    """Return the values that all messages of a name have in common."""
    values = {
        "queue": held.queue,
        "state": held.state,
        "sent_at": sent_at(stem.id) * 1_000,
        "file": held.file,
        "receive_count": 0,
        "is_dead_letter": bool(stem.deaths),
        "priority": stem.priority,
    }
    name = held.name
    if name is not None:
        values["receive_count"] = min(name.receives, MOST_RECEIVES)
        values["is_dead_letter"] = bool(stem.deaths) and name.redriven is None
        values["first_received_at"] = _micros(name.first)
        values["lease_expires_at" if name.token else "deliver_at"] = _micros(due)
    return values


def _batch_of(
    names: Sequence[Name],
    state_of: Callable[[Name], str],
    due_of: Callable[[Name], int | None],
    columns: Sequence[str],
) -> pa.RecordBatch:
    """Return rows of lone messages of which no file is opened."""
    values: dict[str, Callable[[], list[Any]]] = {
        "queue": lambda: [name.queue for name in names],
        "state": lambda: [state_of(name) for name in names],
        "id": lambda: [name.stem.id for name in names],
        "sent_at": lambda: [sent_at(name.stem.id) * 1_000 for name in names],
        "deliver_at": lambda: [_micros(None if name.token else name.due) for name in names],
        "lease_expires_at": lambda: [_micros(due_of(name) if name.token else None) for name in names],
        "receive_count": lambda: [min(name.receives, MOST_RECEIVES) for name in names],
        "first_received_at": lambda: [_micros(name.first) for name in names],
        "is_dead_letter": lambda: [name.stem.deaths > 0 and name.redriven is None for name in names],
        "priority": lambda: [name.stem.priority for name in names],
        "approximate_size": lambda: [name.stem.size for name in names],
        "body_size": lambda: [name.stem.size for name in names],
        "deduplication_key": lambda: [name.stem.key or None for name in names],
        "file": lambda: [name.path for name in names],
        "error": lambda: [None] * len(names),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(values[column](), COLUMNS[column][0]) for column in columns], names=[*columns]
    )


def _micros(moment: int | None) -> int | None:
    return None if moment is None else moment * 1_000


def _attributes(line: Line | None, members: Sequence[int], kind: type) -> list[Any]:
    if line is None:
        return [None] * len(members)
    return [
        [pair for pair in sorted(line.attributes[index].items()) if isinstance(pair[1], kind)]
        if index in line.attributes
        else ()
        for index in members
    ]


def _records(stem: Stem, name: Name | None, line: Line) -> list[dict[str, object]]:
    """Return how the message became a dead letter each time; raise `NotAHistory`."""
    if not stem.deaths:
        return []
    elements = line.deaths if name is None else history_of(name, line)
    return [_record(record) for record in records_in(json.dumps(elements).encode())]


def _record(record: DeadLetterRecord) -> dict[str, object]:
    return {
        "source_queue": record.source_queue,
        "reason": record.reason,
        "receive_count": record.receives,
        "first_received_at": _micros(record.first_receive),
        "dead_lettered_at": record.dead_lettered_at * 1_000,
        "explanation": record.explanation or None,
        "redrive_queue": record.redriven_to or None,
        "redriven_at": _micros(record.redriven_at),
    }


def _text(path: str) -> str:
    """Return a path whose bytes may be no UTF-8 as text."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


class _RowBuffer:
    """Rows that become a record batch: columns that are alike in a name's messages by runs."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._schema = pa.schema([(name, COLUMNS[name][0]) for name in columns])
        self._start()

    def _start(self) -> None:
        self.count = 0
        self.size = 0
        self._ends: list[int] = []
        self._values: dict[str, list[Any]] = {name: [] for name in self._columns}

    def add(
        self, shared: Mapping[str, Any], columns: Mapping[str, list[Any]], count: int, size: int
    ) -> None:
        """Take in `count` messages: a value of each shared column, a list of each other one."""
        self.count += count
        self.size += size
        self._ends.append(self.count)
        for name, values in self._values.items():
            if name in _SHARED:
                values.append(shared.get(name))
            else:
                values.extend(columns.get(name) or [None] * count)

    def take(self) -> pa.RecordBatch:
        ends = pa.array(self._ends, pa.int32())
        arrays = []
        for name, values in self._values.items():
            array = pa.array(values, COLUMNS[name][0])
            if name in _SHARED and len(values) < self.count:
                array = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, array))
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._start()
        return batch
