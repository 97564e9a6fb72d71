"""Recovery at a start: index all names, and finish or undo the changes of a crash.

A file of which all names are in `new/` may be torn: the power failed before its sync. It was sent if it
is whole. A file with a name elsewhere was synced before it got that name, and isn't read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from heapq import merge
from itertools import islice
from typing import Final

from ..files.disk import FileKind, FolderEntry, explaining, unlink_or_leave
from ..files.layout import (
    BODIES,
    BODY,
    DEAD_LETTERS,
    DELAY,
    NEW,
    QUARANTINE,
    body_owner,
    spare_owner,
)
from ..files.spares import read_seal
from ..model.errors import DiskError, StoreError
from ..model.members import indexes
from ..model.message_content import MAX_DELAY
from ..model.message_ids import is_id
from ..model.names import (
    Name,
    body_path,
    dead_letter_path,
    is_dead_letter_path,
    is_queue_name,
    name_at,
    parse,
)
from ..model.settings import MAX_VISIBILITY
from ..model.transitions import Move, State
from .adoption import adoptable
from .archive import archived_files
from .catalog import Catalog
from .effort import BYTES_LIKE_A_FILE
from .entries import BatchFile, Entry
from .moves import Moves, enqueue

log = logging.getLogger(__name__)

FOLDERS: Final = (DELAY, "remove", "quarantine")
"""Beside the queues' folders and `new/`."""
FOLLOWED: Final = 2_000
"""Names of a listing after which the log is read."""
_SORTED: Final = 20_000
"""Names that are sorted at a time."""
TOLD: Final = 100_000
"""Names of a listing after which its progress is logged."""


def list_root(moves: Moves, follow: Callable[[], None]) -> dict[str, Entry]:
    """Make the index as the folders are, but for `new/`; return the known names in there, by their
    paths.

    `follow` is called every `FOLLOWED` names. An error leaves an index that must be listed again.
    """
    index = moves.index
    known_entries = {
        entry.name.path: entry for batch in index.batches.values() for entry in batch.entries
    }
    sent_entries = {
        path: entry for path, entry in known_entries.items() if entry.name.state is State.SENT
    }
    packed_paths = set(index.packed_paths)
    is_again = bool(known_entries or packed_paths)
    read = followed = logged = 0
    for folder in (*FOLDERS, *_queue_folders(moves)):
        found = _in_order(_found_in(moves, folder))
        while part := list(islice(found, FOLLOWED)):
            for each in _pack(moves, folder, part, packed_paths):
                name = _name_of(moves, folder, each)
                if name is not None and known_entries.pop(name.path, None) is None:
                    appear(moves, name)
            read += len(part)
            if read >= followed + FOLLOWED:
                followed = read
                follow()
            if read >= logged + TOLD:
                logged = read
                log.info("%d names of the root are read", read)
    for path in packed_paths:
        entry = index.entry_at(parse(path))
        if entry is not None:
            index.disappear(entry, moves.commit)
    for path in known_entries.keys() - sent_entries.keys():
        index.disappear(known_entries[path], moves.commit)
    for batch in index.batches.values() if is_again else ():
        if batch.is_over:
            # Another process may have had a name of it in `new/`, which is gone.
            batch.changed = moves.commit
            index.deleted_files[batch] = None
    return sent_entries


def list_sent(moves: Moves, others: Collection[str], known: Mapping[str, Entry]) -> list[Entry]:
    """Index the files in `new/` but for those that the processes `others` write, which are theirs;
    return the entries that were not `known`. The lock is held."""
    left = dict(known)
    sent: list[Entry] = []
    for name in _names_in(moves, NEW):
        if left.pop(name.path, None) is None and name.owner not in others:
            sent.append(appear(moves, name))
            # A process that died may not have synced what it wrote.
            moves.syncer.lone_file_written(name.path)
    for entry in left.values():
        if entry in entry.batch.entries:  # Another process may have purged it, and the log may say so.
            moves.index.disappear(entry, moves.commit)
    return sent


def finish_listing(moves: Moves) -> None:
    """Unlink bodies without a message, and let the next commit make durable what a start has found.
    The lock is held."""
    _remove_bodies_left(moves, {name.stem.id for name in moves.names_sent_by_others()})
    _leave_untold(moves)
    all_folders_changed(moves)


def all_folders_changed(moves: Moves) -> None:
    """Let the next commit sync all folders of messages."""
    for folder in (NEW, *FOLDERS, BODIES, DEAD_LETTERS, "queues", *_queue_folders(moves), "."):
        moves.syncer.folder_changed(folder)


def appear(moves: Moves, name: Name) -> Entry:
    """Index a name of a listing, unless it is known: of two entries with one path the one that holds
    nothing would be unlinked, and with it the other's file.

    Messages sent from now on stand behind it.
    """
    known = moves.index.entry_at(name)
    if known is not None:
        return known
    moves.ids.rise_above(name.stem.id)
    due = 0 if name.due is None else _monotonic(moves, name.due, bool(name.token))
    return moves.index.appear(name, moves.commit, due=due)


def _monotonic(moves: Moves, due: int, is_lease: bool) -> int:
    """Return when a lease or delay ends. The wall clock may have been set since it began; a back-off
    counts from when a lease was over."""
    most = MAX_VISIBILITY if is_lease else MAX_DELAY
    left = max(-MAX_VISIBILITY, min(due - moves.clock.wall(), most))
    return moves.clock.monotonic() + left + (moves.margin if is_lease else 0)


def finish_sends(moves: Moves, catalog: Catalog, sent: list[Entry]) -> bool:
    """Publish complete sends in `new/`, which are durable now, and unlink the others, as many as the
    commit may; take them out of `sent`, and return whether none is left. The disk may refuse a file."""
    left, at = moves.effort.share(), 0
    refused: list[Entry] = []
    while at < len(sent) and left > 0:
        entry, at = sent[at], at + 1
        if entry not in entry.batch.entries:
            continue  # It went with another one of its file.
        cost = 1 + entry.batch.stem.length // BYTES_LIKE_A_FILE
        left -= cost
        moves.effort.spend(cost)
        try:
            _finish(moves, catalog, entry.batch)
        except StoreError as error:
            if entry in entry.batch.entries:
                refused.append(entry)
                log.error("%s stays in new/ for now: %s", entry.batch.stem.text, error)
    sent[:at] = []
    sent += refused
    return not sent


def _finish(moves: Moves, catalog: Catalog, batch: BatchFile) -> None:
    entries = [entry for entry in batch.entries if entry.name.state is State.SENT]
    is_only_here = len(entries) == len(batch.entries)
    if is_only_here and (not batch.was_sent or not _is_whole(moves, batch)):
        for entry in entries:
            moves.unlink(entry)
        return
    for entry in entries:
        if entry.members:
            _publish_or_quarantine(moves, catalog, entry)


def _publish_or_quarantine(moves: Moves, catalog: Catalog, entry: Entry) -> None:
    """Publish a sent file. One without a queue was never answered, or the settings are lost."""
    queue = entry.name.queue
    if queue in catalog.records:
        enqueue(moves, entry)
    elif not catalog.is_being_deleted(queue):  # Otherwise the catalogue deletes it.
        log.error("%s is moved to quarantine: there is no queue %s", entry.name.path, queue)
        moves.move(entry, entry.members, Move.QUARANTINE)


def log_unlisted(moves: Moves) -> None:
    """Log each message that no name lists: the rules of `batch` exclude it."""
    missed = {
        batch.stem.text: batch.unlisted
        for batch in moves.index.batches.values()
        # A lone message has no name that doesn't list it.
        if batch.stem.count and batch.unlisted and not batch.is_over
    }
    # Of a batch that a living process has leased a part of as it sent it, the rest is in `new/`.
    for name in moves.names_sent_by_others() if missed else ():
        if name.stem.text in missed:
            missed[name.stem.text] &= ~name.members
    for text, members in missed.items():
        if members:
            log.error("of %s no name lists the messages %s", text, list(indexes(members)))


def listed_orphans(moves: Moves, dead: Collection[str]) -> list[Entry]:
    """Index the files of dead processes in `new/`."""
    found: list[Entry] = []
    for name in _names_in(moves, "new"):
        if name.owner in dead:
            found.append(appear(moves, name))
            moves.syncer.lone_file_written(name.path)
            moves.syncer.folder_changed("new")
            moves.syncer.folder_changed(BODIES)
    _remove_bodies_left(moves, {name.stem.id for name in moves.names_sent_by_others()})
    return found


def _remove_bodies_left(moves: Moves, sent_by_others: Collection[str]) -> None:
    """Unlink each body of which there is no message: the process that wrote it died before it made
    that. A power cut may have left the body of an archived message behind: it follows that."""
    lone_ids: list[str] = []
    for each in moves.scan(BODIES):
        path = f"{BODIES}/{each.name}"
        if each.kind is not FileKind.FILE or not is_id(each.name):
            moves.foreign_files[path] = "it is no message's body"
        elif each.name not in sent_by_others and not moves.index.has_file_of(each.name):
            lone_ids.append(each.name)
    archived = archived_files(moves.disk, lone_ids) if lone_ids else {}
    for id in lone_ids:
        moves.removed_files.add([(body_path(id), [f"{each}{BODY}" for each in archived.get(id, ())])])


def _leave_untold(moves: Moves) -> None:
    """Note the dead-letter files that no name refers to: the process that wrote them died before, or a
    power cut has kept an older name. They go once what was found is durable."""
    named_paths = {
        dead_letter_path(batch.stem.id, entry.name.death.file)
        for batch in moves.index.batches.values()
        for entry in batch.entries
        if entry.name.death is not None and entry.name.death.file
    }
    for each in moves.scan(DEAD_LETTERS):
        path = f"{DEAD_LETTERS}/{each.name}"
        if each.kind is not FileKind.FILE or not is_dead_letter_path(path):
            moves.foreign_files[path] = "it is no dead-letter file"
        elif path not in named_paths:
            moves.index.unused_dead_letter_files[path] = moves.commit


def _in_order(found: list[FolderEntry]) -> Iterator[FolderEntry]:
    """Yield what is in a folder by name. It sorts few at a time: during one sort of a million no other
    thread could answer whether the server lives."""
    return merge(*(sorted(found[at : at + _SORTED]) for at in range(0, len(found), _SORTED)))


def _pack(moves: Moves, folder: str, part: list[FolderEntry], known: set[str]) -> list[FolderEntry]:
    """Take in the names of a part of a folder that can be packed, in order; return the others. Paths
    that are there are taken out of `known`."""
    if folder != DELAY and not folder.startswith("queues/"):
        return part
    rest = [each for each in part if each.kind is not FileKind.FILE]
    paths = [f"{folder}/{each.name}" for each in part if each.kind is FileKind.FILE]
    if known:
        there = known.intersection(paths)
        paths = [path for path in paths if path not in there]
        known -= there
    ids, others = moves.index.pack_listed(paths, moves.commit, partial(_monotonic, moves))
    for id in sorted(ids, reverse=True):
        if moves.ids.rise_above(id):
            break
    return rest + [FolderEntry(path.rpartition("/")[2], FileKind.FILE) for path in others]


def _names_in(moves: Moves, folder: str) -> Iterator[Name]:
    for each in _found_in(moves, folder):
        name = _name_of(moves, folder, each)
        if name is not None:
            yield name


def _name_of(moves: Moves, folder: str, each: FolderEntry) -> Name | None:
    """Return the name of a message; None for anything else, which is noted as foreign if it is."""
    path = f"{folder}/{each.name}"
    is_file = each.kind is FileKind.FILE
    if folder == NEW and is_file and adoptable(each.name):
        return None  # Before its name is parsed: there may be many.
    name = name_at(path) if is_file else None
    if name is not None:
        return name
    owner = body_owner(each.name) if folder == NEW else ""
    if owner and (owner == moves.owner or moves.is_living(owner)):
        return None  # A body that is still being written.
    if folder == NEW and is_file and (owner := spare_owner(each.name)):
        return _name_of_spare(moves, path, owner)
    if folder != QUARANTINE:
        moves.foreign_files[path] = "its name is none of ours" if is_file else "it is no file"
    return None


def _name_of_spare(moves: Moves, path: str, owner: str) -> Name | None:
    """Give a spare file with a seal the name that it says, and return that; unlink any other of a dead
    process. The lock is held, so that no process seals one. Raise `DiskError`.

    From its name on it is like any file in `new/`: it was sent if it is whole.
    """
    is_left = owner != moves.owner and not moves.is_living(owner)
    with explaining():
        name = read_seal(moves.disk, path)
        if name is not None:
            try:
                moves.disk.rename_new(path, name.path)
            except FileExistsError:  # A copy of a served root may have both.
                unlink_or_leave(moves.disk, path)
            moves.syncer.folder_changed(NEW)
        elif is_left:
            unlink_or_leave(moves.disk, path)
    return name


def _found_in(moves: Moves, folder: str) -> list[FolderEntry]:
    """Return what is in a folder: nothing, if another process has deleted its queue meanwhile."""
    try:
        return moves.scan(folder)
    except DiskError as error:
        if isinstance(error.__cause__, FileNotFoundError) and folder.startswith("queues/"):
            return []
        raise


def _queue_folders(moves: Moves) -> list[str]:
    found: list[str] = []
    for each in moves.scan("queues"):
        path = f"queues/{each.name}"
        if each.kind is FileKind.FOLDER and is_queue_name(each.name):
            found.append(path)
        else:
            moves.foreign_files[path] = "it is no queue's folder"
    return found


def _is_whole(moves: Moves, batch: BatchFile) -> bool:
    """Return whether a file holds all that was sent; raise `DiskError` if it can't be read."""
    # From the disk itself: the process that wrote it may have died because its sync failed.
    content = moves.read(batch.entries[0].name.path)
    if content is None:
        moves.require_there(batch.entries[0])
        raise DiskError(detail=f"{batch.entries[0].name.path} was not there a moment ago; try again")
    line = moves.line_of_whole(batch.stem, content)
    if line is not None:
        moves.index.learn(batch, line)
    return line is not None
