"""The files of stages and publications: the grammar of their names, and the manifest of a publication.

    stage        name "@" due ["~dropped"]
    chunk        name "@" due ":" number ["+" delay] ":" queue ":" stem
    publication  writer "." epoch

`stem` is that of a message file. Stages and chunks lie in `staged/`, publications in `published/`.
Pure; any other spelling raises `NotAName`.

The file of a publication is its manifest, sealed as `sealed` says. Once it is durable, what it names is
published, whatever has been moved so far; and it remembers the writer's epoch. A torn one is none. A
damaged one remembers its epoch, by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from .clock import Millis
from .message_content import MAX_DELAY
from .names import NotAName, Stem, is_word, parse
from .sealed import SealedRecord, StoredAs
from .stage_requests import (
    MAX_CHUNK,
    MAX_EPOCH,
    MAX_EPOCH_RETENTION,
    MAX_STAGE_NAME,
    MAX_WRITER_NAME,
)

STAGED: Final = "staged"
_DUE = re.compile(r"[0-9]{13}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
DROPPED: Final = "~dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLife:
    """A stage from its first chunk to its end: no two that a record names have the same."""

    stage: str
    due: Millis
    """Unix time at which it expires."""
    is_dropped: bool = False
    """It can't be published any more."""

    def __str__(self) -> str:
        return f"{self.stage}@{self.due:013d}{DROPPED if self.is_dropped else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One message file in a stage."""

    life: StageLife
    number: int
    queue: str
    delay: Millis | None
    """None: the queue's own, as it is when the stage is published."""
    stem: Stem

    @property
    def path(self) -> str:
        delay = "" if self.delay is None else f"+{self.delay}"
        return f"{STAGED}/{self.life}:{self.number}{delay}:{self.queue}:{self.stem.text}"

    @property
    def messages(self) -> int:
        return self.stem.count or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The publication of one writer under one number."""

    writer: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.writer}.{self.epoch}"


def _first_ids(stages: Any) -> dict[str, str]:
    return {str(life): str(first) for life, first in stages.items()}


def _queues(queues: Any) -> dict[str, tuple[Millis, int]]:
    return {str(queue): (Millis(int(made)), int(version)) for queue, (made, version) in queues.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(SealedRecord):
    stages: Annotated[Mapping[str, str], StoredAs(_first_ids)]
    """The names of the stages' folders, each with the lowest id of a batch in it: it tells the stage
    from one that is made later under the same name."""
    queues: Annotated[Mapping[str, tuple[Millis, int]], StoredAs(_queues)]
    """When each queue was made, and its version: they tell it from one that is made again. Without
    messages those of the writer's publication before, because a writer belongs to its queues, too."""
    messages: Annotated[int, StoredAs(int)]
    digest: Annotated[str, StoredAs(str)]
    """The writer's checksum of the messages; empty: none was given."""
    published_at: Annotated[Millis, StoredAs(int)]
    epoch_retention: Annotated[Millis, StoredAs(int, key="memory")]
    owner: Annotated[str, StoredAs(str)] = ""
    """The identity that has published it; empty: one that nothing keeps from any name, or a manifest
    from before identities were recorded."""

    @classmethod
    def in_place_of_damaged(cls, now: Millis) -> Manifest:
        """Return the manifest that takes the place of a damaged one: its name still says that the epoch
        is published."""
        return cls(
            stages={},
            queues={},
            messages=0,
            digest="",
            published_at=now,
            epoch_retention=MAX_EPOCH_RETENTION,
        )

    @property
    def expires_at(self) -> Millis:
        """Unix time from which the epoch is not remembered."""
        return Millis(self.published_at + self.epoch_retention)


def parse_stage_life(text: str) -> StageLife:
    bare = text.removesuffix(DROPPED)
    stage, _, due = bare.partition("@")
    if not is_word(stage, MAX_STAGE_NAME) or not _DUE.fullmatch(due):
        raise NotAName(text)
    return StageLife(stage=stage, due=Millis(int(due)), is_dropped=bare != text)


def parse_chunk(text: str) -> Chunk:
    life, _, rest = text.partition(":")
    head, _, rest = rest.partition(":")
    queue, _, stem = rest.partition(":")
    number, plus, delay = head.partition("+")
    chunk = Chunk(
        life=parse_stage_life(life),
        number=_parsed(number, text),
        queue=queue,
        delay=Millis(_parsed(delay, text)) if plus else None,
        stem=parse(f"queues/{queue}/{stem}").stem,
    )
    is_within = chunk.number <= MAX_CHUNK and (chunk.delay or 0) <= MAX_DELAY
    if chunk.path != f"{STAGED}/{text}" or chunk.life.is_dropped or not is_within:
        raise NotAName(text)
    return chunk


def parse_published(text: str) -> Publication:
    writer, _, epoch = text.partition(".")
    if not is_word(writer, MAX_WRITER_NAME) or _parsed(epoch, text) > MAX_EPOCH:
        raise NotAName(text)
    return Publication(writer=writer, epoch=int(epoch))


def _parsed(digits: str, text: str) -> int:
    if not _NUMBER.fullmatch(digits):
        raise NotAName(text)
    return int(digits)
