"""What lies in the folders, and what the index knows, told by names alone, and each name parsed once.

Both are the paths of all messages, so that they can be compared as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from engine_rig import EngineRig
from memory_disk import File, Folder
from power_disk import PowerDisk
from spoolrack_store.files import layout
from spoolrack_store.index.hidden import Hidden
from spoolrack_store.model.errors import DamagedSettings
from spoolrack_store.model.names import Batch, Item, moved_out, parse_entry, parse_filed, parse_item
from spoolrack_store.model.settings import QueueSettings, Record, decode
from spoolrack_store.model.transitions import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What a message's path says of it."""

    queue: str
    id: str
    state: State
    receives: int
    due: int | None
    token: str | None
    size: int
    """Bytes of the body."""
    length: int
    """Bytes of the file."""
    crc: int | None
    key: str | None
    """What stands for its deduplication id."""


@dataclass(frozen=True, slots=True)
class Found:
    name: Name
    body: bytes
    """What can be read of it; begins with `TORN` if it isn't what the name says."""

    @property
    def is_torn(self) -> bool:
        return self.body.startswith(TORN)


TORN = b"torn: "


@lru_cache(1 << 16)
def name_at(path: str) -> Name:
    """What the path of a message says; raises `NotAName`."""
    place, first, *rest = path.split("/")
    if place in (layout.DELAY, layout.NEW):
        filed = parse_filed(first)
        queue, due, token = filed.queue, filed.due, filed.token
        state = State.DELAYED if token is None else State.LEASED
        if due is None:
            state = State.READY  # As far as anybody was promised: it is still in `new/`.
        item: Item = filed.item
    else:
        queue, due, token, state = first, None, None, State.READY
        item = parse_item(rest.pop(0))
    entry = moved_out(parse_entry(rest.pop(0)), item) if isinstance(item, Batch) else item
    assert not rest, path
    return Name(
        queue=queue,
        id=entry.id,
        state=state,
        receives=entry.receives,
        due=due,
        token=token,
        size=entry.size or 0,
        length=entry.length,
        crc=entry.crc,
        key=entry.dedup,
    )


def files_of(disk: PowerDisk, *, may_be_empty: bool = False) -> dict[str, File]:
    """The files of all messages in queues, leased and delayed ones too, by path.

    A batch folder that is empty is removed with the commit that has emptied it: who looks in between
    says so with `may_be_empty`.
    """
    files: dict[str, File] = {}
    queues, delay = disk.root.entries[layout.QUEUES], disk.root.entries[layout.DELAY]
    assert isinstance(queues, Folder)
    assert isinstance(delay, Folder)
    for queue, folder in queues.entries.items():
        assert isinstance(folder, Folder)
        _collect(f"{layout.QUEUES}/{queue}", folder, files, may_be_empty)
    _collect(layout.DELAY, delay, files, may_be_empty)
    return files


def sent_files_of(disk: PowerDisk) -> dict[str, File]:
    """The files of what was sent, and isn't where consumers find it, by path."""
    files: dict[str, File] = {}
    new = disk.root.entries[layout.NEW]
    assert isinstance(new, Folder)
    _collect(layout.NEW, new, files, may_be_empty=True)
    return files


def settings_on(disk: PowerDisk) -> dict[str, QueueSettings]:
    """The newest settings of each queue, as far as they are whole; none of those that are deleted."""
    newest: dict[str, tuple[int, Record]] = {}
    for found in disk.scan(layout.CONFIG):
        queue, version, _ = found.name.rsplit(".", 2)
        with suppress(DamagedSettings):
            record = decode(disk.read(f"{layout.CONFIG}/{found.name}"), found.name)
            if queue not in newest or int(version) > newest[queue][0]:
                newest[queue] = int(version), record
    return {
        queue: record.settings for queue, (_, record) in newest.items() if record.settings is not None
    }


def _collect(path: str, folder: Folder, files: dict[str, File], may_be_empty: bool) -> None:
    for name, node in folder.entries.items():
        if isinstance(node, File):
            files[f"{path}/{name}"] = node
        elif isinstance(node, Folder):
            assert node.entries or may_be_empty, f"{path}/{name} is empty"
            for inside, file in node.entries.items():
                assert isinstance(file, File)
                files[f"{path}/{name}/{inside}"] = file


def read(path: str, file: File) -> Found:
    name, content = name_at(path), file.content
    if len(content) != name.length or zlib.crc32(content) != name.crc:
        return Found(name, TORN + content)
    return Found(name, content[: name.size])


def known(rig: EngineRig) -> Iterator[str]:
    """The paths of all messages as the index has them."""
    root = rig.engine._root
    for queue in rig.engine.catalog.queues:
        index = root.index.queues[queue]
        rig.engine.peers.contents.look_into(queue)
        for name, folder in index.ready.since(""):
            inside = name if folder is None else f"{folder.batch}/{name}"
            yield f"{layout.QUEUES}/{queue}/{inside}"
        for hidden in index.hidden():
            yield from _known_hidden(queue, hidden)


def _known_hidden(queue: str, hidden: Hidden) -> Iterator[str]:
    token = "" if hidden.token is None else f"~{hidden.token}"
    if isinstance(hidden.item, str):
        yield f"{layout.DELAY}/{queue}:{hidden.item}@{hidden.due:013d}{token}"
        return
    folder = f"{layout.DELAY}/{queue}:{hidden.item.batch}@{hidden.due:013d}{token}"
    for name in hidden.names:
        yield f"{folder}/{name}"


def check_index(rig: EngineRig, files: dict[str, File]) -> None:
    """Raise `AssertionError` if the index, or a count that it gives, isn't what the folders say."""
    paths = list(known(rig))
    assert len(paths) == len(files), f"the index has {len(paths)} messages, the folders {len(files)}"
    assert files.keys() == set(paths), "the index is not what the folders say"
    for queue, live in rig.engine.catalog.queues.items():
        names = [name for path in paths if (name := name_at(path)).queue == queue]
        counts = rig.engine.views.queue(live).counts
        told = (counts.ready, counts.leased, counts.delayed, counts.bytes)
        true = (
            *(sum(name.state is state for name in names) for state in _COUNTED),
            sum(name.length for name in names),
        )
        assert told == true, f"the counts of {queue} are {told}, and in its folders are {true}"
    assert not rig.engine._root.after_sync, "something waits for a sync"


_COUNTED = (State.READY, State.LEASED, State.DELAYED)
