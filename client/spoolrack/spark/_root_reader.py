"""The messages of a root as Arrow record batches: no server, no lock, no change of any file.

A name says the state of the messages that it lists, and the highest version counts. All names of a
file belong to one range of ids, and a task reads one range. A file is opened once, and only for a
column that its name can't fill.

A live root moves meanwhile. Names only rise in version, so listings may be added up: each folder is
listed before the folders that its messages move to, and `delay/`, which they leave again, twice.

What can fail: a folder that is no root. A file that can't be read leaves columns of its own rows null;
the column `error` says why.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import accumulate, chain, repeat
from typing import Any, Final

import pyarrow as pa
from spoolrack_store.engine.entries import BatchFile, Groups, resolve
from spoolrack_store.files import layout
from spoolrack_store.files.spares import SEAL_BYTES, sealed_name
from spoolrack_store.model import settings
from spoolrack_store.model.batch_file import Damaged, Line, body, decode
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord, NotAHistory, records_of
from spoolrack_store.model.errors import DamagedSettings
from spoolrack_store.model.members import indexes
from spoolrack_store.model.message_ids import first_id_of, sent_at
from spoolrack_store.model.names import Name, NotAName, Stem, body_path, dead_letter_path, parse
from spoolrack_store.model.operations import MAX_BODY_IN_MEMORY
from spoolrack_store.model.reservation_names import ReservationRecord, parse_reservation_name
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.stage_names import Manifest, parse_chunk
from spoolrack_store.model.transitions import State

from ._columns import BINARIES, TEXTS, TIME, Column, alike, apart, record_batch
from ._option_fields import (
    InvalidOption,
    either,
    known,
    moment,
    names_in,
    option,
    partitions,
    values_in,
    words,
)

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
"""Characters of an id without the index: alike in a batch's messages."""
_LAST: Final = "\U0010ffff"
"""Above all names."""

_OF_LINES: Final = frozenset({"attributes", "binary_attributes", "group"})
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
_CONFIG: Final = re.compile(r"(?P<queue>.+)\.(?P<version>[1-9][0-9]{0,14})\.json")
_COUNT: Final = re.compile(r",n([0-9]+),s([0-9]+)")
_SIZE: Final = re.compile(r",s([0-9]+)")


class UnreadableFile(Exception):
    """A file of a root can't be read, and onError is 'fail'."""


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


def _states(name: str, text: str) -> frozenset[str]:
    return frozenset(words(name, text, *STATES)) or frozenset(STATES) - NOT_UNASKED


def _first_id(name: str, text: str, otherwise: str) -> str:
    """Return the first id from a time on; `otherwise` if there is no time."""
    found = moment(name, text)
    return otherwise if found is None else first_id_of(Millis(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class RootOptions:
    path: str
    columns: tuple[str, ...]
    queues: tuple[str, ...] = option("queue", (), words)
    """Patterns of names; none: all queues."""
    states: frozenset[str] = option("states", frozenset(STATES) - NOT_UNASKED, _states)
    since: str = option("sentAfter", "", _first_id, "")
    """The first id of messages that are sent late enough."""
    until: str = option("sentBefore", _LAST, _first_id, _LAST)
    fails: bool = option("onError", False, either, "report", "fail")
    """Whether a file that can't be read fails the query."""
    partitions: int | None = option("numPartitions", None, partitions)

    def has(self, queue: str, state: str) -> bool:
        """Return whether messages of this queue in this state are asked for."""
        return state in self.states and (
            not self.queues or any(fnmatchcase(queue, pattern) for pattern in self.queues)
        )


NAMES: Final = ("path", "columns", "bodies", *names_in(RootOptions))


def root_options(options: Mapping[str, str]) -> RootOptions:
    """Return the parsed options; raise `InvalidOption`."""
    texts = known(options, NAMES)
    path = texts.get("path", "").removeprefix("file://")
    if not path:
        raise InvalidOption("The folder is missing: .load('/srv/queues').")
    has_bodies = not either("bodies", texts.get("bodies", "false"), "true", "false")
    columns = words("columns", texts.get("columns", ""), *COLUMNS) or tuple(
        name for name in COLUMNS if name != "body" or has_bodies
    )
    if has_bodies and "body" not in columns:
        columns = (*columns, "body")
    values = values_in(RootOptions, texts)
    return RootOptions(path=os.path.abspath(path), columns=columns, **values)


def ranges(options: RootOptions) -> list[Range]:
    """Return the shares of all tasks; raise `InvalidOption` where there is no root."""
    root = _RootFolders(options.path)
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
    """Yield the messages of one share; with `onError=fail` raise `UnreadableFile`."""
    return _RangeReader(options, range).batches()


def _key(item: str) -> str:
    """Return the part of a name by which files are divided: the id, without the index."""
    return item.rpartition(":")[2][:_KEY]


class _RootFolders:
    """The folders of a root, and the small files beside the messages."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._spares: dict[str, str] = {}
        """Of names in `new/` whose file is a spare still, the path of that."""

    def check(self) -> None:
        """Raise `InvalidOption` where there is no root that can be listed."""
        try:
            with open(os.path.join(self.path, layout.FORMAT), "rb") as file:
                content = file.read(100)
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
        if content not in layout.HOSTS_OF:
            is_older = content in layout.UPGRADABLE
            upgraded = " or start a server of this version on it once, which upgrades it"
            raise InvalidOption(
                f"{self.path} has the format {content.decode(errors='replace').strip()!r}, and this "
                f"reads {layout.FORMAT_CONTENT.decode().strip()!r}: use the version that wrote it"
                f"{upgraded if is_older else ''}."
            )

    def all_names(self) -> dict[str, list[str]]:
        """Return the names in each folder of messages, those of queues by `queues/<queue>`."""
        folders = [layout.STAGED, layout.DELAY, layout.NEW]
        names = {folder: self.list(folder) for folder in [layout.QUARANTINE, layout.REMOVE, *folders]}
        for queue in self.list(layout.QUEUES):
            names[f"{layout.QUEUES}/{queue}"] = self.list(f"{layout.QUEUES}/{queue}")
        names[layout.NEW] = [*filter(None, map(self._name_in_new, names[layout.NEW]))]
        for folder in (layout.DELAY, layout.QUARANTINE):
            # Messages that have left a queue since it was listed.
            names[folder] = [*dict.fromkeys([*names[folder], *self.list(folder)])]
        return names

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

    def _name_in_new(self, item: str) -> str:
        """Return a name in `new/`; of a spare file the one that it is sealed with, or nothing."""
        if not layout.spare_owner(item):
            return item
        path = f"{layout.NEW}/{item}"
        try:
            content, size = self.part(path)
        except OSError:
            return ""  # It has its name by now, or is none that can be read.
        name = sealed_name(path, content[-SEAL_BYTES:]) if size > SEAL_BYTES else None
        if name is None:
            return ""
        self._spares[name.path] = path
        return name.path.removeprefix(f"{layout.NEW}/")

    def deleted_queues(self) -> frozenset[str]:
        """Return the queues with a tombstone, whose messages count as deleted."""
        deleted: dict[str, bool] = {}
        found = filter(None, map(_CONFIG.fullmatch, self.list(layout.CONFIG)))
        for item in sorted(found, key=lambda item: int(item["version"]), reverse=True):
            path = f"{layout.CONFIG}/{item[0]}"
            try:
                if item["queue"] not in deleted:
                    deleted[item["queue"]] = settings.decode(self.content(path), path).settings is None
            except (OSError, DamagedSettings):
                continue  # The highest version that can be read counts.
        return frozenset(queue for queue in deleted if deleted[queue])

    def published_stages(self) -> frozenset[str]:
        """Return the stages that a manifest publishes, whose messages are sent."""
        stages: set[str] = set()
        for item in self.list(layout.PUBLISHED):
            try:
                stages.update(Manifest.decode(self.content(f"{layout.PUBLISHED}/{item}")).stages)
            except (OSError, NotWhole):
                continue  # No manifest: nothing of it is published.
        return frozenset(stages)

    def holds(self) -> dict[str, int]:
        """Return when the hold of each reserved set ends, in Unix milliseconds, by its token."""
        ends: dict[str, int] = {}
        for item in self.list(layout.RESERVED):
            try:
                name = parse_reservation_name(item)
                if name.due is not None:
                    record = ReservationRecord.decode(self.content(f"{layout.RESERVED}/{item}"))
                    ends[record.token] = name.due
            except (OSError, NotAName, NotWhole):
                continue  # No set of it is answered. Its leases end as their names say.
        return ends

    def content(self, path: str) -> bytes:
        """Return the bytes of a file; raise `OSError`, also for no regular file."""
        return self.part(path)[0]

    def part(self, path: str, start: int = 0, end: int | None = None) -> tuple[bytes, int]:
        """Return the bytes of a file from `start` to `end`, or to its own end, and its length."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(os.path.join(self.path, self._spares.get(path, path)), flags)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError("it is no regular file")
            end = facts.st_size if end is None else min(end, facts.st_size)
            parts, at = [], start
            while at < end and (part := os.pread(file, end - at, at)):
                parts.append(part)
                at += len(part)
            return b"".join(parts), facts.st_size
        finally:
            os.close(file)


@dataclass
class _HeldMessages:
    """Messages of one file that one name holds: a run of rows."""

    name: Name
    file: str
    """Its path."""
    paths: Sequence[str]
    """Those of all names of the file: each of them opens it."""
    state: str
    due: int | None
    members: Sequence[int]
    """Their indexes."""

    # Only a file that is opened sets these.
    line: Line | None = field(default=None, init=False)
    groups: Groups | None = field(default=None, init=False)
    records: Sequence[Mapping[str, object]] | None = field(default=(), init=False)
    bodies: Sequence[bytes | None] | None = field(default=None, init=False)
    errors: Sequence[str | None] | None = field(default=None, init=False)

    @property
    def length(self) -> int:
        return len(self.members)


def _micros(moment: int | None) -> int | None:
    return None if moment is None else moment * 1_000


def _sizes(rows: _HeldMessages) -> Iterable[int]:
    """Return about how large each body is."""
    size, count = rows.name.stem.size, rows.name.stem.count or 1
    return (size * (index + 1) // count - size * index // count for index in rows.members)


def _of_line(
    kind: pa.DataType,
    value: Callable[[Any, int], object],
    of_name: Callable[[Stem], object] = lambda stem: None,
) -> Column:
    """Return a column of values that a file's line has for each index. Without the line all are what
    the name says."""

    def values(rows: _HeldMessages) -> Iterable[object]:
        if rows.line is None:
            return repeat(of_name(rows.name.stem), rows.length)
        return (value(rows, index) for index in rows.members)

    return apart(kind, values)


def _attributes(kind: pa.DataType, of_type: type) -> Column:
    def value(rows: Any, index: int) -> Sequence[tuple[str, str | bytes]]:
        found = rows.line.attributes.get(index)
        return [pair for pair in sorted(found.items()) if isinstance(pair[1], of_type)] if found else ()

    return _of_line(kind, value)


_RECORD: Final = pa.struct(
    [
        ("source_queue", pa.string()),
        ("reason", pa.string()),
        ("receive_count", pa.int32()),
        ("first_received_at", TIME),
        ("dead_lettered_at", TIME),
        ("explanation", pa.string()),
        ("redrive_queue", pa.string()),
        ("redriven_at", TIME),
    ]
)


def _is_dead_letter(rows: _HeldMessages) -> bool | None:
    """Return whether messages are dead letters, not redriven since; None if that can't be told."""
    name = rows.name
    if name.death is None or name.renewed is None:
        return name.death is not None
    if not name.death.file:
        return name.renewed <= name.death.at
    return None if rows.records is None else rows.records[-1]["redriven_at"] is None


COLUMNS: Final[dict[str, Column]] = {
    "queue": alike(pa.string(), lambda rows: rows.name.queue),
    "state": alike(pa.string(), lambda rows: rows.state),
    "id": apart(pa.string(), lambda rows: rows.name.stem.message_ids(rows.members)),
    "sent_at": alike(TIME, lambda rows: sent_at(rows.name.stem.id) * 1_000),
    "deliver_at": alike(TIME, lambda rows: None if rows.name.token else _micros(rows.due)),
    "lease_expires_at": alike(TIME, lambda rows: _micros(rows.due) if rows.name.token else None),
    "receive_count": alike(pa.int32(), lambda rows: min(rows.name.receives, MOST_RECEIVES)),
    "first_received_at": alike(TIME, lambda rows: _micros(rows.name.first)),
    "is_dead_letter": alike(pa.bool_(), lambda rows: _is_dead_letter(rows)),
    "priority": alike(pa.int32(), lambda rows: rows.name.stem.priority),
    "approximate_size": apart(pa.int64(), _sizes),
    "file": alike(pa.string(), lambda rows: rows.file),
    "body_size": _of_line(
        pa.int64(),
        lambda rows, index: rows.line.sizes[index],
        lambda stem: None if stem.count else stem.size,
    ),
    "attributes": _attributes(TEXTS, str),
    "binary_attributes": _attributes(BINARIES, bytes),
    "group": _of_line(
        pa.string(), lambda rows, index: rows.groups.of(index) or None if rows.groups else None
    ),
    "deduplication_key": _of_line(
        pa.string(), lambda rows, index: rows.line.keys.get(index), lambda stem: stem.key or None
    ),
    "dead_letter_records": apart(pa.list_(_RECORD), lambda rows: repeat(rows.records, rows.length)),
    "body": apart(pa.binary(), lambda rows: rows.bodies or repeat(None, rows.length)),
    "error": apart(pa.string(), lambda rows: rows.errors or repeat(None, rows.length)),
}
"""All columns of a message, in their order."""


class _RangeReader:
    """One task's reading of its range."""

    def __init__(self, options: RootOptions, range: Range) -> None:
        self._options = options
        self._range = range
        self._root = _RootFolders(options.path)
        self._page: list[_HeldMessages] = []
        self._untold: set[str] = set()
        """Names whose dead-letter file was missing once: they may have moved."""
        self._count = self._size = 0
        """Messages of the page, and bytes of their bodies."""
        self._wants_body = "body" in options.columns
        self._wants_line = not _OF_LINES.isdisjoint(options.columns)
        self._wants_records = "dead_letter_records" in options.columns
        self._wants_deaths = "is_dead_letter" in options.columns
        self._wants_batches = not _OF_BATCHES.isdisjoint(options.columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        moved: set[str] = set()
        foreign: list[dict[str, str]] = []
        for runs in self._found(foreign):
            if not self._add(runs):
                moved.add(runs[0].name.stem.text)
            if self._is_full:
                yield self._take()
        if moved:
            # Another process has moved them since: they are elsewhere, or deleted.
            for runs in self._found([]):
                if runs[0].name.stem.text in moved:
                    self._add(runs)
                if self._is_full:
                    yield self._take()
        if self._page:
            yield self._take()
        if foreign:
            kinds = [(name, COLUMNS[name].kind) for name in self._options.columns]
            yield pa.RecordBatch.from_pylist(foreign, pa.schema(kinds))

    @property
    def _is_full(self) -> bool:
        return self._count >= ROWS or self._size >= BYTES

    def _take(self) -> pa.RecordBatch:
        batch = record_batch(self._page, self._options.columns, COLUMNS)
        self._page.clear()
        self._count = self._size = 0
        return batch

    # Which messages there are.

    def _found(self, foreign: list[dict[str, str]]) -> Iterator[Sequence[_HeldMessages]]:
        """Yield the runs of each file of messages that are asked for, and add a row for each other file
        to `foreign`."""
        folders = self._root.all_names()
        staged = folders.pop(layout.STAGED)
        first, end = self._range.first, self._range.end
        mine = {
            folder: [item for item in items if first <= _key(item) < end]
            for folder, items in folders.items()
        }
        several = Counter(map(_key, chain.from_iterable(mine.values())))
        names: list[Name] = []
        for folder, items in mine.items():
            for item in items:
                try:
                    name = parse(f"{folder}/{item}")
                except NotAName:
                    if not (folder == layout.NEW and item.endswith(layout.COPY)):
                        self._add_foreign(folder, item, foreign)
                    continue
                if several[name.stem.id[:_KEY]] > 1 or name.stem.count:
                    names.append(name)
                elif rows := self._rows(name, (name.path,)):
                    # The only name of a lone message: nothing else says where it is.
                    yield (rows,)
        files = resolve(names)
        yield from self._sent(files)
        yield from self._staged(staged, files, foreign)
        if ARCHIVED in self._options.states:
            yield from self._archived(foreign)

    def _is_mine(self, item: str) -> bool:
        return self._range.first <= _key(item) < self._range.end

    def _rows(self, name: Name, paths: Sequence[str], members: int = 1) -> _HeldMessages | None:
        """Return the run of `members` of a name; None if they aren't asked for."""
        state = _STATES[name.state]
        if name.queue in self._range.deleted and name.state is not State.QUARANTINED:
            state = _STATES[State.REMOVED]
        if not self._options.has(name.queue, state):
            return None
        due = self._range.holds.get(name.token, name.due)
        places = (0,) if members == 1 else [*indexes(members)]
        return _HeldMessages(name, name.path, paths, state, due, places)

    def _add_foreign(self, folder: str, item: str, foreign: list[dict[str, str]]) -> None:
        parent, _, queue = folder.partition("/")
        if parent != layout.QUEUES:
            queue = item.partition(":")[0] if ":" in item else ""
        if not self._options.has(queue, FOREIGN):
            return
        path = _text(f"{folder}/{item}")
        error = self._problem(path, "this is not the name of a message")
        foreign.append({"queue": queue, "state": FOREIGN, "file": path, "error": error})

    def _sent(self, files: Mapping[str, BatchFile]) -> Iterator[Sequence[_HeldMessages]]:
        for text in sorted(files):
            batch = files[text]
            if not batch.was_sent:
                continue  # Never answered: the next start unlinks it.
            paths = [entry.name.path for entry in reversed(batch.entries)]
            runs = []
            for entry in batch.entries:
                if entry.members and (rows := self._rows(entry.name, paths, entry.members)):
                    runs.append(rows)
            if runs:
                yield runs

    def _staged(
        self, items: Sequence[str], files: Mapping[str, BatchFile], foreign: list[dict[str, str]]
    ) -> Iterator[Sequence[_HeldMessages]]:
        dropped = {item for item in items if item.endswith("~dropped")}
        for item in items:
            if item in dropped or not self._is_mine(item):
                continue
            try:
                chunk = parse_chunk(item)
            except NotAName:
                self._add_foreign(layout.STAGED, item, foreign)
                continue
            life = str(chunk.life)
            state = NEW if life in self._range.published else STAGED
            if f"{life}~dropped" not in dropped and chunk.stem.text not in files:
                stem = chunk.stem
                name = Name(stem=stem, state=State.READY, queue=chunk.queue, members=stem.full)
                yield from self._stateless(name, chunk.path, state)

    def _archived(self, foreign: list[dict[str, str]]) -> Iterator[Sequence[_HeldMessages]]:
        for queue, folder, item in self._root.archived():
            if not self._is_mine(item) or not self._options.has(queue, ARCHIVED):
                continue
            try:
                name = parse(f"{layout.QUEUES}/{queue}/{item}")
            except NotAName:
                self._add_foreign(folder, item, foreign)
                continue
            yield from self._stateless(name, f"{folder}/{item}", ARCHIVED)

    def _stateless(self, name: Name, path: str, state: str) -> Iterator[Sequence[_HeldMessages]]:
        """Yield the run of a file whose messages are in no state of a queue, if they are asked for."""
        if self._options.has(name.queue, state):
            yield (_HeldMessages(name, path, (path,), state, None, [*indexes(name.members)]),)

    # The facts that only the files have.

    def _add(self, runs: Sequence[_HeldMessages]) -> bool:
        """Take in the messages of a file; return False if it is there under none of its names."""
        stem = runs[0].name.stem
        if self._wants_body or self._wants_line or (self._wants_batches and stem.count):
            try:
                line, content = self._load(stem, runs[0].paths)
            except FileNotFoundError:
                return False
            except (OSError, Damaged) as why:
                error = self._problem(runs[0].paths[0], why)
                for rows in runs:
                    rows.errors = [error] * rows.length
            else:
                groups = Groups(line.groups, stem.full) if line.groups else None
                for rows in runs:
                    rows.line, rows.groups = line, groups
                    self._fill(rows, line, content)
        for rows in runs:
            if self._needs_records(rows.name) and not self._tell(rows):
                return False
        for rows in runs:
            self._page.append(rows)
            self._count += rows.length
        return True

    def _needs_records(self, name: Name) -> bool:
        """Return whether a column needs what a name's dead-letter file tells: with a file, a name alone
        doesn't tell a redrive from a death in a strict queue."""
        death = name.death
        if death is None:
            return False
        return self._wants_records or bool(
            self._wants_deaths and death.file and name.renewed is not None
        )

    def _load(self, stem: Stem, paths: Sequence[str]) -> tuple[Line, bytes]:
        """Return the line of a file, and what holds the bodies if they are asked for."""
        if not (self._wants_body or stem.line):
            return decode(stem, b"", stem.length), b""
        for path in paths:
            try:
                start = 0 if self._wants_body else stem.length - stem.line
                content, length = self._root.part(path, start, stem.length)
            except FileNotFoundError:
                continue
            line = decode(stem, content, length)
            if not stem.is_external or not self._wants_body or stem.size > MAX_BODY_IN_MEMORY:
                return line, content
            try:
                return line, self._root.content(body_path(stem.id))
            except FileNotFoundError as why:
                self._root.part(path, end=0)  # The message may have been deleted.
                raise Damaged("its body is not there any more") from why
        raise FileNotFoundError(paths[0])

    def _problem(self, path: str, why: Exception | str) -> str:
        reason = why.strerror if isinstance(why, OSError) and why.strerror else str(why)
        error = f"{path}: {reason}"
        if self._options.fails:
            raise UnreadableFile(f"{error}. Without .option('onError', 'fail') it is a row.")
        return error

    def _tell(self, rows: _HeldMessages) -> bool:
        """Take over how the messages died; return False if they have moved since."""
        name, content = rows.name, None
        try:
            if name.death is not None and name.death.file:
                path = dead_letter_path(name.stem.id, name.death.file)
                content = self._root.content(path)
            rows.records = [_record(record) for record in records_of(name, content)]
        except (OSError, NotAHistory) as why:
            if isinstance(why, FileNotFoundError) and rows.file not in self._untold:
                self._untold.add(rows.file)
                return False
            error = self._problem(rows.file, f"how its messages died can't be told: {why}")
            rows.records = None
            rows.errors = [each or error for each in rows.errors or [None] * rows.length]
        return True

    def _fill(self, rows: _HeldMessages, line: Line, content: bytes) -> None:
        """Take over what the file has of these messages."""
        stem = rows.name.stem
        errors: list[str | None] = [None] * rows.length
        if self._wants_body and not (stem.is_external and stem.size > MAX_BODY_IN_MEMORY):
            bodies: list[bytes | None] = [None] * rows.length
            for at, index in enumerate(rows.members):
                try:
                    found = bodies[at] = body(line, content, index)
                    self._size += len(found)
                except Damaged as why:
                    errors[at] = self._problem(rows.file, why)
            rows.bodies = bodies
        rows.errors = errors


def _record(record: DeadLetterRecord) -> dict[str, object]:
    return {
        "source_queue": record.source_queue,
        "reason": record.reason,
        "receive_count": record.receive_count,
        "first_received_at": _micros(record.first_received_at),
        "dead_lettered_at": record.dead_lettered_at * 1_000,
        "explanation": record.explanation or None,
        "redrive_queue": record.redrive_queue or None,
        "redriven_at": _micros(record.redriven_at),
    }


def _text(path: str) -> str:
    """Return a path whose bytes may be no UTF-8 as text."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
