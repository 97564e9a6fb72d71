"""What was promised of stages and publications, and what of it lies on the disk.

A stage is there whole, or it is gone because somebody published it, dropped it, or came too late; and
what is published is published whole, whichever of its queues one looks at.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from broken import Broken, Kind
from memory_disk import File, Folder, Node
from power_disk import PowerDisk
from spoolrack_store.files import layout
from spoolrack_store.model.manifest import decode
from spoolrack_store.model.names import id_of, parse_entry
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.stage_names import (
    Publication,
    parse_chunk,
    parse_published,
    parse_stage_folder,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A chunk."""

    queue: str
    bodies: tuple[bytes, ...]
    delay: int = 0


Staged = dict[str, dict[int, Kept]]
"""Chunks by number, by stage."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Somebody may have published this."""

    writer: str
    epoch: int
    stages: tuple[str, ...]


@dataclass(slots=True)
class StageFates:
    staged: Staged = field(default_factory=dict)
    """What is promised to be there."""
    dues: dict[str, tuple[int, int]] = field(default_factory=dict)
    """When each stage may be gone, by the wall clock and monotonic."""
    epochs: dict[str, int] = field(default_factory=dict)
    """The last of each writer."""
    writing: list[tuple[str, int, Kept]] = field(default_factory=list)
    """Chunks that may be there."""
    publishing: list[Attempt] = field(default_factory=list)
    aborting: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    """Writers whose publication could not be synced: a power cut may take its manifest, whatever was
    seen before."""

    def copy(self) -> StageFates:
        return StageFates(
            {stage: dict(chunks) for stage, chunks in self.staged.items()},
            dict(self.dues),
            dict(self.epochs),
            list(self.writing),
            list(self.publishing),
            set(self.aborting),
            self.uncertain,
        )

    def sync_failed(self) -> None:
        self.uncertain = self.uncertain | {attempt.writer for attempt in self.publishing}

    def bodies_of(self, stage: str) -> list[bytes]:
        return [body for kept in self.staged.get(stage, {}).values() for body in kept.bodies]

    def may_be_over(self, stage: str, wall: int, monotonic: int) -> bool:
        due, ends = self.dues.get(stage, (0, 0))
        return wall >= due or monotonic >= ends

    def rebase(self, wall: int, monotonic: int) -> None:
        """A process has started, and has only the wall clock to tell when stages expire."""
        self.dues = {stage: (due, monotonic + due - wall) for stage, (due, _) in self.dues.items()}

    # What is found.

    def judge(
        self,
        disk: PowerDisk,
        wall: int,
        monotonic: int,
        found: Collection[bytes],
        may_be_gone: Callable[[bytes], bool],
    ) -> None:
        """Hold what is there against what was promised; `found` are the bodies in queues."""
        there, epochs = staged_on(disk), epochs_on(disk)
        for stage, chunks in self.staged.items():
            is_left = any(there.get(stage, {}).get(number) == kept for number, kept in chunks.items())
            # Expired and made again, and nobody was told of either.
            is_another = not is_left and self.may_be_over(stage, wall, monotonic)
            if stage not in there or is_another:
                self._judge_gone(stage, wall, monotonic, found, may_be_gone)
                continue
            for number, kept in chunks.items():
                if there[stage].get(number) != kept:
                    what = f"chunk {number} of {stage} is {there[stage].get(number)}, not {kept}"
                    if not any(map(may_be_gone, kept.bodies)):
                        raise Broken(Kind.LOST, what)
        for stage, chunks in there.items():
            for number, kept in chunks.items():
                doubled = [body for body in kept.bodies if body in found]
                if doubled:
                    raise Broken(Kind.DOUBLED, f"staged in {stage}, and published: {doubled}")
                is_known = number in self.staged.get(stage, {}) or any(map(may_be_gone, kept.bodies))
                if not is_known and (stage, number, kept) not in self.writing:
                    raise Broken(Kind.INVENTED, f"chunk {number} of {stage}: {kept}")
        self._judge_epochs(epochs, there, found)

    def _judge_gone(
        self,
        stage: str,
        wall: int,
        monotonic: int,
        found: Collection[bytes],
        may_be_gone: Callable[[bytes], bool],
    ) -> None:
        if stage in self.aborting or self.may_be_over(stage, wall, monotonic):
            return
        missing = [body for body in self.bodies_of(stage) if body not in found]
        missing = [body for body in missing if not may_be_gone(body)]
        if missing or not any(stage in attempt.stages for attempt in self.publishing):
            raise Broken(Kind.LOST, f"the stage {stage}, with {missing}")

    def _judge_epochs(self, epochs: dict[str, int], there: Staged, found: Collection[bytes]) -> None:
        for writer in self.epochs.keys() | epochs.keys():
            attempts = [each for each in self.publishing if each.writer == writer]
            if writer in self.uncertain and writer not in epochs:
                continue
            if epochs.get(writer) not in [self.epochs.get(writer), *(a.epoch for a in attempts)]:
                what = f"{writer} is at {epochs.get(writer)}, and was at {self.epochs.get(writer)}"
                raise Broken(Kind.OTHER, what)
        done = [each for each in self.publishing if epochs.get(each.writer, -1) >= each.epoch]
        published = {stage for attempt in done for stage in attempt.stages}
        for stage in {stage for each in self.publishing for stage in each.stages} - published:
            here = [body for body in self.bodies_of(stage) if body in found]
            if here:
                raise Broken(Kind.OTHER, f"{here} of {stage} are published, and nobody remembers it")

    def accept(self, disk: PowerDisk) -> None:
        """How it was found is how it is from now on."""
        self.staged, self.epochs = staged_on(disk), epochs_on(disk)
        # Another one of the same name expires by itself.
        self.dues = {stage: due for stage, due in self.dues.items() if stage in self.staged}
        self.writing, self.publishing, self.aborting = [], [], set()


def staged_on(disk: PowerDisk) -> Staged:
    """The stages that can be published, with the chunks of which nothing is missing."""
    found: Staged = {}
    for name, node in _inside(disk, layout.STAGED).items():
        folder = parse_stage_folder(name)
        if not folder.is_dropped:
            found.setdefault(folder.stage, {}).update(_chunks(node))
    return {stage: chunks for stage, chunks in found.items() if chunks}


def manifests_on(disk: PowerDisk) -> list[Publication]:
    found = []
    for name, node in _inside(disk, layout.PUBLISHED).items():
        parsed = parse_published(name)
        if isinstance(parsed, Publication) and isinstance(node, File):
            try:
                decode(node.content)
            except NotWhole:
                continue
            found.append(parsed)
    return found


def epochs_on(disk: PowerDisk) -> dict[str, int]:
    epochs: dict[str, int] = {}
    for name in manifests_on(disk):
        epochs[name.writer] = max(name.epoch, epochs.get(name.writer, -1))
    return epochs


def ids_on(disk: PowerDisk) -> dict[bytes, str]:
    """The ids of all messages that lie anywhere, by their bodies."""
    ids: dict[bytes, str] = {}
    waiting: list[Node] = [
        disk.root.entries[folder]
        for folder in (layout.STAGED, layout.PUBLISHED, layout.QUEUES, layout.DELAY)
    ]
    while waiting:
        node = waiting.pop()
        assert isinstance(node, Folder)
        for name, inside in node.entries.items():
            if isinstance(inside, File):
                id = id_of(name.rpartition(":")[2])
                ids[_body_of(name, inside)] = id
            else:
                waiting.append(inside)
    return ids


def _inside(disk: PowerDisk, folder: str) -> dict[str, Node]:
    node = disk.root.entries[folder]
    assert isinstance(node, Folder)
    return node.entries


def _chunks(stage: Node) -> dict[int, Kept]:
    assert isinstance(stage, Folder)
    chunks = {}
    for name, node in stage.entries.items():
        chunk = parse_chunk(name)
        assert isinstance(node, Folder)
        files = sorted(node.entries.items())
        # With an owner it may be torn: nobody believes in it before it was read.
        is_whole = chunk.batch.owner is None or all(_is_whole(*each) for each in files)
        if len(files) == chunk.batch.count and is_whole:
            bodies = tuple(_body_of(each, file) for each, file in files)
            chunks[chunk.number] = Kept(chunk.queue, bodies, chunk.delay or 0)
    return chunks


def _is_whole(name: str, file: Node) -> bool:
    assert isinstance(file, File)
    entry = parse_entry(name)
    return (len(file.content), zlib.crc32(file.content)) == (entry.length, entry.crc)


def _body_of(name: str, file: Node) -> bytes:
    assert isinstance(file, File)
    size = name.partition(",s")[2].partition(",")[0]
    return file.content[: int(size)] if size else file.content
