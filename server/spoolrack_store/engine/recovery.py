"""Recovery at a start: index all names, and finish or undo the changes of a crash.

A file of which all names are in `new/` may be torn: the power failed before its sync. It was sent if it
is whole. A file with a name elsewhere was synced before it got that name, and isn't read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from ..files.disk import FileKind, explained
from ..files.layout import BODIES, BODY, NEW, QUARANTINE, body_owner
from ..model.batch_file import BatchFile, Damaged, Entry, body, decode
from ..model.errors import StoreError
from ..model.names import Name, NotAName, Stem, body_path, indexes, is_id, is_queue_name, parse
from ..model.settings import MAX_DELAY, MAX_VISIBILITY
from ..model.transitions import State
from .adoption import adoptable
from .archive import archived_files
from .catalog import Catalog
from .moves import Moves, publish

log = logging.getLogger(__name__)

FOLDERS: Final = ("new", "delay", "remove", "quarantine")


def fill_index(moves: Moves, living: Collection[str] = ()) -> list[Entry]:
    """Fill the index from the folders; return the entries in `new/`, to be finished once they are
    durable.

    Files in `new/` that the processes `living` write are theirs. The next commit makes
    durable what was found.
    """
    sent: list[Entry] = []
    sent_by_others: set[str] = set()
    for name in _listed(moves):
        if name.owner in living and name.state is State.SENT:
            sent_by_others.add(name.stem.id)
            continue
        entry = appear(moves, name)
        if name.state is State.SENT:
            sent.append(entry)
            # A process that died may not have synced what it wrote.
            moves.syncer.lone_file_written(name.path)
    moves.index.find_superseded(moves.commit)
    _remove_bodies_left(moves, sent_by_others)
    for folder in (*FOLDERS, BODIES, "queues", *_queue_folders(moves), "."):
        moves.syncer.folder_changed(folder)
    return sent


def appear(moves: Moves, name: Name) -> Entry:
    """Index a name of a listing, unless it is known: of two entries with one path the one that holds
    nothing would be unlinked, and with it the other's file.

    Messages sent from now on stand behind it.
    """
    known = moves.index.entry_at(name)
    if known is not None:
        return known
    moves.ids.rise_above(name.stem.id)
    due = 0
    if name.due is not None:
        # The wall clock may have been set since. A back-off counts from when a lease was over.
        most = MAX_VISIBILITY if name.token else MAX_DELAY
        left = max(-MAX_VISIBILITY, min(name.due - moves.clock.wall(), most))
        due = moves.clock.monotonic() + left
    return moves.index.appear(name, moves.commit, due=due)


def finish_sends(moves: Moves, catalog: Catalog, sent: Iterable[Entry]) -> bool:
    """Publish complete sends in `new/`, which are durable now, and unlink the others; return whether
    all are done, because the disk may refuse a file.

    The copy of a dead letter is unlinked, too: the message is still where it was, and dies again.
    """
    is_done = True
    for batch in dict.fromkeys(entry.batch for entry in sent if entry in entry.batch.entries):
        try:
            _finish(moves, catalog, batch)
        except StoreError as error:
            is_done = False
            log.error("%s stays in new/ for now: %s", batch.stem.text, error)
    return is_done


def _finish(moves: Moves, catalog: Catalog, batch: BatchFile) -> None:
    entries = [entry for entry in batch.entries if entry.name.state is State.SENT]
    is_only_here = len(entries) == len(batch.entries)
    if is_only_here and (batch.stem.deaths or not batch.was_sent or not _is_whole(moves, batch)):
        for entry in entries:
            moves.unlink(entry)
        return
    for entry in entries:
        if entry.held:
            _publish_or_quarantine(moves, catalog, entry)


def _publish_or_quarantine(moves: Moves, catalog: Catalog, entry: Entry) -> None:
    """Publish a sent file. One without a queue was never answered, or the settings are lost."""
    queue = entry.name.queue
    if queue in catalog.records:
        publish(moves, entry)
    elif not catalog.is_being_deleted(queue):  # Otherwise the catalogue deletes it.
        log.error("%s is moved to quarantine: there is no queue %s", entry.name.path, queue)
        moves.move(entry, entry.held, State.QUARANTINED)


def log_unlisted(moves: Moves) -> None:
    """Log each message that no name lists: the rules of `batch` exclude it."""
    missed = {
        batch.stem.text: batch.unlisted
        for batch in moves.index.batches.values()
        if batch.unlisted and not batch.is_over
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
    left: list[str] = []
    for each in moves.scan(BODIES):
        path = f"{BODIES}/{each.name}"
        if each.kind is not FileKind.FILE or not is_id(each.name):
            moves.foreign[path] = "it is no message's body"
        elif each.name not in sent_by_others and not moves.index.has_file_of(each.name):
            left.append(each.name)
    archived = archived_files(moves.disk, left) if left else {}
    for id in left:
        kept = archived.get(id)
        moves.removed.add([(body_path(id), f"{kept}{BODY}" if kept else "")])


def _listed(moves: Moves) -> Iterator[Name]:
    for folder in (*FOLDERS, *_queue_folders(moves)):
        yield from _names_in(moves, folder)


def _names_in(moves: Moves, folder: str) -> Iterator[Name]:
    for each in moves.scan(folder):
        path = f"{folder}/{each.name}"
        try:
            if each.kind is FileKind.FILE:
                yield parse(path)
                continue
            why = "it is no file"
        except NotAName:
            why = "its name is none of ours"
        if folder == NEW and each.kind is FileKind.FILE and adoptable(each.name):
            continue
        owner = body_owner(each.name) if folder == NEW else ""
        if owner and (owner == moves.owner or moves.is_living(owner)):
            continue  # A body that is still being written.
        if folder != QUARANTINE:
            moves.foreign[path] = why


def relist(moves: Moves, members: Collection[str]) -> None:
    """Rebuild the index from the folders: other processes moved more than `CHANGES` holds."""
    # Another process may have purged files that this one has in `new/`.
    others = {owner for owner in members if owner != moves.owner}
    there = {
        name.path: name
        for name in _listed(moves)
        if not (name.state is State.SENT and name.owner in others)
    }
    known = {
        entry.name.path: entry
        for batch in moves.index.batches.values()
        for entry in batch.entries
        if not (entry.name.state is State.SENT and entry.name.owner in others)
    }
    for path in there.keys() - known.keys():
        appear(moves, there[path])
    for path in known.keys() - there.keys():
        moves.index.disappear(known[path], moves.commit)
    moves.index.find_superseded(moves.commit)
    for batch in moves.index.batches.values():
        if batch.is_over:
            # Another process may have had a name of it in `new/`, which is gone.
            batch.changed = moves.commit
            moves.index.over[batch] = None


def _queue_folders(moves: Moves) -> list[str]:
    found: list[str] = []
    for each in moves.scan("queues"):
        path = f"queues/{each.name}"
        if each.kind is FileKind.FOLDER and is_queue_name(each.name):
            found.append(path)
        else:
            moves.foreign[path] = "it is no queue's folder"
    return found


def _is_whole(moves: Moves, batch: BatchFile) -> bool:
    """Return whether a file holds all that was sent; raise `DiskError` if it can't be read."""
    try:
        # The process that wrote it may have died because its sync failed.
        content = moves.disk.read(batch.entries[0].name.path, afresh=True)
    except OSError as error:
        raise explained(error) from error
    try:
        line = decode(batch.stem, content, len(content))
        if line.is_external:
            return _has_body(moves, batch.stem)
        for index in indexes(batch.stem.full):
            body(line, content, index)
    except Damaged:
        return False
    moves.index.learn(batch, line)
    return True


def _has_body(moves: Moves, stem: Stem) -> bool:
    """Return whether the body is in its own file: it was durable before it got that name."""
    try:
        return moves.disk.facts(body_path(stem.id)).size == stem.size
    except FileNotFoundError:
        return False
    except OSError as error:
        raise explained(error) from error
