"""What a check found is mended, and what lies in quarantine comes back, while nobody serves the root.

Nothing is ever destroyed here: what is damaged, foreign or superseded goes to quarantine. What comes
back from there must be whole, and goes to its queue as a ready message at the place of its id: a
message, a batch, or all that is in a queue's folder. All of it is durable at return.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from ..files import layout
from ..files.disk import Disk, Kind
from ..files.folders import Folders
from ..files.reader import Damaged, Forbidden, Gone, read_message
from ..files.syncer import Syncer
from ..model.clock import Clock
from ..model.errors import DiskError, StoreError
from ..model.names import (
    Batch,
    Item,
    NotAName,
    id_of,
    is_queue_name,
    make_token,
    parse_entry,
    parse_filed,
    parse_item,
)
from ..model.settings import QueueSettings, Record, encode
from .asides import NOTE, read_asides
from .findings import Aside, Mended, Problem, Remedy
from .inspection import Inspector
from .registry import Registry


class NotRestorable(Exception):
    """Why something in quarantine can't come back."""


def mend(
    disk: Disk,
    folders: Folders,
    syncer: Syncer,
    problems: Sequence[Problem],
    clock: Clock,
    random: Random,
) -> tuple[list[Mended], list[Problem]]:
    """Deal with `problems`; answers with what was mended, and with what is left for a person."""
    mended: list[Mended] = []
    left: list[Problem] = []
    # The settings first: whoever starts now must find the queues that have messages.
    for problem in sorted(problems, key=lambda problem: problem.remedy is not Remedy.SETTINGS):
        try:
            how = _mend(disk, folders, problem, clock, random)
        except StoreError as error:
            left.append(replace(problem, why=f"{problem.why}; not mended: {error}"))
            continue
        if how is None:
            left.append(problem)
        else:
            mended.append(Mended(problem=problem, how=how))
    syncer.begin().sync()
    return mended, left


def _mend(disk: Disk, folders: Folders, problem: Problem, clock: Clock, random: Random) -> str | None:
    match problem.remedy:
        case Remedy.QUARANTINE:
            there = folders.quarantine(problem.path, problem.why)
            return "put into quarantine" if there else "gone by now"
        case Remedy.FOLDER:
            folders.make(problem.path)
            return "made anew"
        case Remedy.SETTINGS:
            _use_defaults(disk, folders, problem.queue, clock, random)
            return f"the queue {problem.queue} has the default settings now"
        case Remedy.HAND:
            return None


def _use_defaults(disk: Disk, folders: Folders, queue: str, clock: Clock, random: Random) -> None:
    registry = Registry(disk)
    registry.read()
    version = registry.versions.get(queue, 0) + 1
    record = Record(settings=QueueSettings(), created_at=clock.wall(), salt=make_token(random))
    folders.write(layout.config(queue, version), [encode(record)], sync=True)
    folders.make(layout.queue_folder(queue))


def restore(
    disk: Disk,
    folders: Folders,
    syncer: Syncer,
    id: str,
    queue: str | None,
    clock: Clock,
    random: Random,
) -> str:
    """Bring back what lies in quarantine under `id`, its own or that of its folder there.

    A queue's folder has the queue's name as its own, and makes the queue with the default settings if
    there is none. Answers with the new path. Raises `NotRestorable`, and `DiskError` if the disk
    refuses.
    """
    aside = _find(disk, id)
    folder = f"{layout.QUARANTINE}/{aside.id}"
    source = f"{folder}/{aside.name}"
    if is_queue_name(aside.name) and disk.facts(source).kind is Kind.FOLDER:
        queue = queue or aside.name
        names = _check_all(disk, source)
        registry = Registry(disk)
        registry.read()
        if queue in registry.doomed:
            raise NotRestorable(f"The queue {queue} is being deleted: name another one.")
        if queue not in registry.names:
            if queue != aside.name:
                raise NotRestorable(f"There is no queue {queue}: create it, or name another one.")
            _use_defaults(disk, folders, queue, clock, random)
            syncer.begin().sync()  # Before a message is in it.
        try:
            _move_all(disk, syncer, source, queue, names)
            _drop(disk, f"{folder}/{aside.name[:200]}{NOTE}")
            disk.remove_folder(folder)
            syncer.folder_changed(layout.QUARANTINE)
        except OSError as error:
            raise DiskError(detail=str(error)) from error
        syncer.begin().sync()
        return layout.queue_folder(queue)
    from_queue, item = _read_name(aside)
    queue = queue or from_queue
    if not queue:
        raise NotRestorable(f"Nothing says from which queue {source} came: name the queue.")
    if not is_queue_name(queue):
        raise NotRestorable(f"{queue!a} can't be a queue's name.")
    registry = Registry(disk)
    registry.read()
    if queue not in registry.names - registry.doomed:
        raise NotRestorable(f"There is no queue {queue}: create it, or name another one.")
    ids = _check_whole(disk, source, item)
    for places in Inspector(disk).places_of(ids).values():
        raise NotRestorable(f"The message is in a queue already: {places[0].path}.")
    target = layout.ready(queue, replace(item, owner=None))
    note = f"{source[: len(folder) + 201]}{NOTE}"
    try:
        with suppress(FileExistsError):
            disk.make_folder(layout.queue_folder(queue))
            syncer.folder_changed(layout.QUEUES)
        # Back by an operator's hand, so not among the moves that the store may make by itself.
        disk.rename(source, target)
        for path in (folder, layout.queue_folder(queue)):
            syncer.folder_changed(path)
        syncer.settle(folder)
        _drop(disk, note)
        disk.remove_folder(folder)
        syncer.folder_changed(layout.QUARANTINE)
    except OSError as error:
        raise DiskError(detail=str(error)) from error
    syncer.begin().sync()
    return target


def _check_all(disk: Disk, source: str) -> list[str]:
    """The names in a queue's folder; raises `NotRestorable` unless all are whole and in no queue."""
    names = []
    ids: set[str] = set()
    for found in disk.scan(source):
        path = f"{source}/{found.name}"
        try:
            ids |= _check_whole(disk, path, parse_item(found.name))
        except NotAName:
            why = f"{found.name!a} is not the name of a message."
            raise NotRestorable(f"{why} Move it out of {source}, and restore the rest.") from None
        except NotRestorable as error:
            raise NotRestorable(f"{error} Move it out of {source}, and restore the rest.") from error
        names.append(found.name)
    if not names:
        raise NotRestorable(f"There is no message in {source}.")
    for places in Inspector(disk).places_of(ids).values():
        why = f"A message of it is in a queue already: {places[0].path}."
        raise NotRestorable(f"{why} Move it out of {source}, and restore the rest.")
    return names


def _move_all(disk: Disk, syncer: Syncer, source: str, queue: str, names: list[str]) -> None:
    with suppress(FileExistsError):
        disk.make_folder(layout.queue_folder(queue))
        syncer.folder_changed(layout.QUEUES)
    for name in names:
        disk.rename(f"{source}/{name}", layout.ready(queue, name))
    for path in (source, layout.queue_folder(queue)):
        syncer.folder_changed(path)
    syncer.settle(source)
    disk.remove_folder(source)
    syncer.folder_changed(layout.folder_of(source))


def _drop(disk: Disk, note: str) -> None:
    try:
        disk.unlink(note)
    except FileNotFoundError:
        return


def _find(disk: Disk, id: str) -> Aside:
    found = [aside for aside in read_asides(disk) if aside.id == id]
    found = found or [aside for aside in read_asides(disk) if _is_named(aside.name, id)]
    found = [aside for aside in found if aside.name]
    if not found:
        raise NotRestorable(f"There is nothing with the id {id} in quarantine.")
    if len(found) > 1:
        places = ", ".join(aside.id for aside in found)
        raise NotRestorable(f"{id} is in quarantine {len(found)} times: name one of {places}.")
    return found[0]


def _is_named(name: str, id: str) -> bool:
    return id_of(name.rpartition(":")[2]) == id


def _read_name(aside: Aside) -> tuple[str, Item]:
    """The queue that something came from, if that is known, and what it is."""
    queue = _queue_in(aside.source)
    try:
        filed = parse_filed(aside.name)
        return filed.queue, filed.item
    except NotAName:
        pass  # Its name may be one of a queue's own folder.
    try:
        return queue, parse_item(aside.name)
    except NotAName:
        raise NotRestorable(
            f"{aside.name!a} is not the name of a message: look at it in "
            f"{layout.QUARANTINE}/{aside.id}, and send it anew."
        ) from None


def _queue_in(path: str) -> str:
    parts = path.split("/")
    if len(parts) < 2:
        return ""
    if parts[0] == layout.QUEUES:
        return parts[1]
    try:
        return parse_filed(parts[1]).queue
    except NotAName:
        return ""


def _check_whole(disk: Disk, path: str, item: Item) -> set[str]:
    """The ids of what lies at `path`; raises `NotRestorable` if it isn't, whole, what its name says."""
    kind = disk.facts(path).kind
    try:
        if not isinstance(item, Batch):
            if kind is not Kind.FILE or not item.is_tagged:
                raise Damaged("it is not a message's file")
            read_message(disk, path, item)
            return {item.id}
        if kind is not Kind.FOLDER:
            raise Damaged("it is not a batch's folder")
        ids = {item.id}
        for found in disk.scan(path):
            entry = parse_entry(found.name)
            read_message(disk, f"{path}/{found.name}", entry)
            ids.add(entry.id)
    except (Damaged, Forbidden, Gone, NotAName) as error:
        raise NotRestorable(f"{path} is not whole, and stays in quarantine: {error}.") from error
    return ids
