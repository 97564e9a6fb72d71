"""Read-only queries about queues and messages, which wait for no sync.

Where messages are is looked up while no commit changes the index. Their files are read afterwards, so
that a commit waits for no body. A message that has moved meanwhile is looked up again.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import BinaryIO, Final, ParamSpec, TypeVar

from .engine.engine import Engine
from .engine.entries import BatchFile, Entry
from .engine.reader import told_records
from .files.body_file import body_pieces, open_body
from .files.disk import NOT_A_FILE, Disk, SyncFailed, explained
from .files.lock_wait import describe_holder, try_for
from .model.batch_file import Damaged, Line, decode, lone_line
from .model.batch_file import body as body_in
from .model.clock import Millis
from .model.dead_letter_records import DeadLetterRecord
from .model.errors import (
    DiskError,
    InvalidRequest,
    MessageDamaged,
    MessageNotFound,
    RootInUse,
    StoreFailed,
)
from .model.members import indexes
from .model.message_ids import INDEX_DIGITS, batch_of, first_id_of, is_id, sent_at
from .model.names import Name, body_path
from .model.operations import (
    MAX_BODY_IN_MEMORY,
    Message,
    MessageFilter,
    MessagePage,
    OpenMessage,
)
from .model.receipts import is_set_token
from .model.transitions import COUNTED

log = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")

_PAGE_BYTES: Final = 4 * 1024 * 1024
_MOST_LOOKS: Final = 10_000
"""Messages of the index that one page looks at."""
_AT_ONCE: Final = 500
"""Files that are looked at while commits wait."""
_MOST_FILES: Final = 1_000
"""Files of which one page reads the line about their messages, never the bodies, to filter them."""
_LOOKS: Final = 5
"""A message that moves while it is looked at is looked up so often."""
_TRY_EVERY: Final = 0.005
"""Seconds between two tries of a lock that another process holds."""
_FRESH_TRIES: Final = 200
"""For a second a question waits for the lock. Then it is answered from what is known."""
_EXACT_TRIES: Final = 6_000
"""For half a minute a read that must be exact waits."""
_ID_LENGTH: Final = 36


@dataclass(frozen=True, slots=True)
class _Location:
    """Where a message is at one moment."""

    name: Name
    id: str
    index: int
    due: Millis | None
    line: Line | None
    content: bytes | None
    """The part of its file that is in memory."""


@dataclass(slots=True)
class _Search:
    """The search for the messages of a page, which goes on in parts."""

    after: str
    """The id up to which it has come; "" at its end: there are no more."""
    skip: int
    """Messages that are still to be passed over."""
    limit: int
    certain: int = 0
    """Messages that are certainly wanted."""
    looks: int = 0
    unread: set[BatchFile] = field(default_factory=set)
    """Files that tell whether their messages are wanted."""
    is_over: bool = False

    @property
    def is_enough(self) -> bool:
        return self.certain > self.limit or self.looks >= _MOST_LOOKS or len(self.unread) >= _MOST_FILES

    def end(self, after: str) -> None:
        self.after, self.is_over = after, True


class Questions:
    """The read-only queries of a store. Thread-safe."""

    def __init__(self, engine: Engine, disk: Disk, changing: threading.RLock) -> None:
        """`changing` is held while commits change the index."""
        self._engine = engine
        self._disk = disk
        self._changing = changing

    def up_to_date(
        self, answer: Callable[Arguments, Found], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Found:
        """Return the result of `answer` on an index with all answers of this process, and all earlier
        changes of others.

        If another process holds the lock for a second, what this one knows already is the answer.
        """
        with suppress(SyncFailed):  # The next commit says so. Known messages may still be looked at.
            asked = partial(answer, *arguments, **named)
            found = try_for(_FRESH_TRIES, partial(self._ask, asked), _TRY_EVERY)
            if found is not None:
                return found[0]
        with self._changing:
            return answer(*arguments, **named)

    def refresh(self) -> None:
        """Bring the metrics up to date with this process's answers, and all earlier changes of others.

        Alone on the root, with no stage or set on its way, they are, and no lock is taken.
        """
        try:
            is_exact = self._engine.has_exact_metrics
        except ValueError:
            if not self._engine.sharing.is_over:
                raise
            return  # Closed meanwhile: `CHANGES` is unmapped, and what was known is told.
        if not is_exact:
            self.up_to_date(self._engine.update_metrics)

    def overdue(self) -> Millis:
        """Return how long ago the next lease or delay should have ended; 0: it goes on."""
        index, now = self._engine.index, self._engine.moves.clock.monotonic()
        due = index.dues.earliest or now
        if due < now and self._changing.acquire(blocking=False):  # Else a commit may be ending it.
            try:
                due = index.dues.next() or now
            finally:
                self._changing.release()
        return Millis(max(0, now - due))

    def exact(
        self, answer: Callable[Arguments, Found], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Found:
        """Return the result of `answer` while no other process changes anything.

        Raise `RootInUse` if another process holds the lock for half a minute, and `StoreFailed`.
        """
        try:
            asked = partial(answer, *arguments, **named)
            found = try_for(_EXACT_TRIES, partial(self._ask, asked, is_alone=True), _TRY_EVERY)
        except SyncFailed as error:
            raise StoreFailed(detail=str(error)) from error
        if found is not None:
            return found[0]
        holder = describe_holder(*self._engine.sharing.holder)
        raise RootInUse(root="the root", holder=f", {holder}, which holds the lock")

    def _ask(self, answer: Callable[[], Found], *, is_alone: bool = False) -> tuple[Found] | None:
        """Return the result of `answer` on an exact index, with `is_alone` under the lock; None if
        another process holds that, or if it takes another commit."""
        with self._changing:
            if self._engine.has_exact_index and not is_alone:
                return (answer(),)
            return self._engine.with_exact_index(lambda: (answer(),))

    def message(self, queue: str, id: str) -> Message:
        """Return a message; raise `MessageNotFound`, `MessageDamaged`, `DiskError`."""
        with _FileReader(self._disk) as files:
            return self._look_up(queue, id, partial(self._shown, files))

    def open_message(self, queue: str, id: str) -> OpenMessage:
        """Return a message with its body as an open file, which was read and checked in pieces."""
        return self._look_up(queue, id, self._opened)

    def page(
        self, queue: str, wanted: MessageFilter, after: str, skip: int, limit: int, most: int | None
    ) -> MessagePage:
        """Return up to `limit` messages above the id `after`, in order, with `most` bytes of each body.

        Fewer if their bodies get too many bytes, or if many others had to be looked at. The first
        `skip` messages of the states and the time are passed over.
        """
        messages: list[Message] = []
        bytes_left, search = _PAGE_BYTES, _Search(after, skip, limit)
        locations = self.up_to_date(self._locate_some, queue, wanted, search)
        with _FileReader(self._disk) as files:
            while True:
                for location in locations:
                    if len(messages) >= limit or bytes_left <= 0:
                        return MessagePage(messages=messages, last=after)
                    after = location.id
                    message = self._listed(files, location, wanted, most)
                    if message is not None:
                        messages.append(message)
                        bytes_left -= len(message.body)
                if search.is_over:
                    return MessagePage(messages=messages, last=search.after)
                with self._changing:  # Commits went on meanwhile.
                    locations = self._locate_some(queue, wanted, search)

    # Where messages are: while the index doesn't change.

    def _find(self, queue: str, id: str) -> _Location:
        self._engine.catalog.require(queue)
        if not is_id(id):
            raise InvalidRequest(what="id", value=id, rule="must be a UUID in lower case")
        found = self._engine.index.holder(id)
        if found is None or found[0].name.queue != queue or found[0].name.state not in COUNTED:
            raise MessageNotFound(queue=queue, id=id)
        return self._location(*found)

    def _locate_some(self, queue: str, wanted: MessageFilter, search: _Search) -> list[_Location]:
        """Return where the next messages are that may be wanted, in order.

        The search is over if there are no more, if more than its limit are certainly wanted, or if it
        has looked at as many messages, or unread files, as a page may.
        """
        self._engine.catalog.require(queue)
        index = self._engine.index.queue(queue)
        # The file that has the last message may have some above it, too.
        start = min(search.after, batch_of(search.after[:_ID_LENGTH]))
        if wanted.sent_since is not None:
            start = max(start, first_id_of(wanted.sent_since))
        states = wanted.states or COUNTED
        locations: list[_Location] = []
        files = groupby(index.sightings(start, states), lambda each: batch_of(each[0]))
        for first, together in islice(files, _AT_ONCE):
            seen = list(together)
            is_between = first > search.after and (
                wanted.sent_before is None or sent_at(first) < wanted.sent_before
            )
            if search.skip and is_between:
                # Without a look at each message.
                messages = sum(1 if entry is None else entry.members.bit_count() for _, entry in seen)
                if messages <= search.skip:
                    search.skip -= messages
                    search.after = f"{first[:-INDEX_DIGITS]}fff"
                    continue
            entries = [entry or self._packed(id) for id, entry in seen]
            for id, entry, place in sorted(_messages_of(entries), key=itemgetter(0)):
                if wanted.sent_before is not None and sent_at(id) >= wanted.sent_before:
                    search.end("")
                    return locations
                if id <= search.after:
                    continue
                if search.skip:
                    search.skip -= 1
                    search.after = id
                    continue
                if search.is_enough:
                    search.end(search.after)
                    return locations
                search.after = id
                search.looks += 1
                is_wanted = _is_wanted(wanted, entry.batch, place)
                if is_wanted is None:
                    search.unread.add(entry.batch)
                if is_wanted is not False:
                    search.certain += is_wanted is True
                    locations.append(self._location(entry, place))
        if next(files, None) is None:
            search.end("")
        return locations

    def _packed(self, id: str) -> Entry:
        """Return a packed message's entry, to be looked at. Only one whose file is in memory is
        unpacked: its line may be learned."""
        index = self._engine.index
        entry = index.look_at_packed(id)
        return entry if self._engine.reader.kept(entry.batch) is None else index.unpack(id)

    def _location(self, entry: Entry, index: int) -> _Location:
        name, batch = entry.name, entry.batch
        due = name.due
        if name.token and is_set_token(name.token):
            due = self._engine.reservations.due_of(name.token)
        content, line = self._engine.reader.kept(batch), batch.line
        if content is not None and line is None:
            line = self._engine.reader.line(entry)
        return _Location(name, batch.stem.message_id(index), index, due, line, content)

    # Content of messages: commits go on meanwhile.

    def _look_up(self, queue: str, id: str, look: Callable[[_Location], Found]) -> Found:
        for _ in range(_LOOKS):
            location = self.up_to_date(self._find, queue, id)
            try:
                with _judging():
                    return look(location)
            except FileNotFoundError:
                continue  # It has moved.
            except Damaged as error:
                raise MessageDamaged(queue=queue, id=id, why=str(error)) from error
        raise MessageNotFound(queue=queue, id=id)

    def _listed(
        self, files: _FileReader, location: _Location, wanted: MessageFilter, most: int | None
    ) -> Message | None:
        """Return a message of a list; None if it isn't wanted, is gone, or can't be read."""

        def shown(location: _Location) -> Message | None:
            if wanted.group or wanted.attributes:
                line = location.line or files.open(location)[1]
                if not wanted.matches(line, location.index):
                    return None
            return self._shown(files, location, most)

        try:
            try:
                with _judging():
                    return shown(location)
            except FileNotFoundError:
                return self._look_up(location.name.queue, location.id, shown)
        except MessageNotFound:
            return None
        except (Damaged, MessageDamaged, DiskError) as error:
            log.warning("a list passes over message %s: %s", location.id, error)
            return None

    def _shown(self, files: _FileReader, location: _Location, most: int | None = None) -> Message:
        line, stem = location.line, location.name.stem
        if most == 0 and not stem.line:
            line = lone_line(stem)
        if line is not None and most == 0:
            return _message(self._disk, location, line, b"")
        if line is not None and location.content is not None and not stem.is_external:
            return _message(
                self._disk, location, line, body_in(line, location.content, location.index)[:most]
            )
        file, line = files.open(location)
        if stem.is_external:
            return _message(self._disk, location, line, self._external_body(location, line, most))
        body = b"" if most == 0 else b"".join(body_pieces(file, line, location.index))
        return _message(self._disk, location, line, body[:most])

    def _opened(self, location: _Location) -> OpenMessage:
        file = self._disk.open(location.name.path)
        try:
            line = _line_of(file, location)
            if location.name.stem.is_external:
                file.close()
                file = self._open_external(location)
            # A larger body is not read first: the caller may want a small part of it.
            if line.sizes[location.index] <= MAX_BODY_IN_MEMORY:
                for _ in body_pieces(file, line, location.index):
                    pass  # It is checked, and not kept in memory.
            start = line.starts[location.index]
            file.seek(start)
            return OpenMessage(
                message=_message(self._disk, location, line, b""), file=file, offset=start
            )
        except BaseException:
            file.close()
            raise

    def _open_external(self, location: _Location) -> BinaryIO:
        """Return the file of a body; raise `FileNotFoundError` if the message has moved, `Damaged`, or
        `OSError`."""
        stem = location.name.stem
        try:
            return open_body(self._disk, body_path(stem.id), stem.size)
        except Damaged:
            self._disk.facts(location.name.path)
            raise

    def _external_body(self, location: _Location, line: Line, most: int | None) -> bytes:
        """Return the first `most` bytes of a body in a file of its own; None: all, or nothing of one
        that is too large for memory."""
        size = location.name.stem.size
        if most is None and size > MAX_BODY_IN_MEMORY:
            return b""
        with self._open_external(location) as file:
            if most is not None and most < size:
                return file.read(min(most, MAX_BODY_IN_MEMORY))
            return b"".join(body_pieces(file, line))


class _FileReader:
    """Opens the files of messages, and reads a file's line once for messages that follow each other."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._stem = ""
        self._opened: tuple[BinaryIO, Line] | None = None

    def __enter__(self) -> _FileReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def open(self, location: _Location) -> tuple[BinaryIO, Line]:
        """Return a message's file, which the next call may close, and its line.

        Raise `Damaged`, or `OSError`.
        """
        stem = location.name.stem.text
        if self._opened is None or stem != self._stem:
            self.__exit__()
            file = self._disk.open(location.name.path)
            try:
                self._opened = file, _line_of(file, location)
            except BaseException:
                file.close()
                raise
            self._stem = stem
        return self._opened


def _is_wanted(wanted: MessageFilter, batch: BatchFile, index: int) -> bool | None:
    """Return whether a message has the group and the attributes that are wanted; None if only its file
    tells."""
    if (wanted.group and not batch.stem.is_grouped) or (
        wanted.attributes and not batch.stem.attributes
    ):
        return False
    if not (wanted.group or wanted.attributes):
        return True
    if batch.line is not None:
        return wanted.matches(batch.line, index)
    if wanted.group and batch.groups is not None and batch.groups.of(index) != wanted.group:
        return False
    return None


def _messages_of(entries: Iterable[Entry]) -> Iterator[tuple[str, Entry, int]]:
    for entry in entries:
        for index in indexes(entry.members):
            yield entry.batch.stem.message_id(index), entry, index


def _line_of(file: BinaryIO, location: _Location) -> Line:
    """Return what an open file says of its messages; raise `Damaged`, or `OSError`."""
    if location.line is not None:
        return location.line
    stem = location.name.stem
    length = file.seek(0, 2)
    file.seek(stem.length - stem.line)
    return decode(stem, file.read(stem.line), length)


@contextmanager
def _judging() -> Iterator[None]:
    """Raise `Damaged` for a file that the disk can't read, or that is none, and the store's error for
    any other of the system; a `FileNotFoundError` is left."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.EIO or error.errno in NOT_A_FILE:
            raise Damaged(str(error)) from error
        raise explained(error) from error


def _message(disk: Disk, location: _Location, line: Line, body: bytes) -> Message:
    """Return a message; raise `FileNotFoundError` if it has moved since."""
    name = location.name
    deaths: Sequence[DeadLetterRecord] = ()
    if name.death is not None:
        deaths = told_records(disk, name)
        if not deaths:
            disk.facts(name.path)
    return Message(
        queue=name.queue,
        id=location.id,
        state=name.state,
        body=body,
        attributes=line.attributes.get(location.index, {}),
        body_size=line.sizes[location.index],
        sent_at=sent_at(location.id),
        receive_count=name.receives,
        first_received_at=name.first,
        due=location.due,
        receipt=None,
        dead_letter_records=deaths,
        group=line.group_of(location.index),
        priority=name.stem.priority,
        body_path=body_path(location.id) if name.stem.is_external else "",
    )
