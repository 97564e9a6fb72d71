"""The grammar of the names of stages and publications: the one module that formats and parses them.

    stage        name "@" due ["~dropped"]
    chunk        name "@" due ":" number ["+" delay] ":" queue ":" stem
    publication  writer "." epoch

`stem` is that of a message file. Stages and chunks lie in `staged/`, publications in `published/`.
Pure; any other spelling raises `NotAName`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .clock import Millis
from .names import NotAName, Stem, is_word, parse
from .settings import MAX_DELAY
from .stage_requests import MAX_CHUNK, MAX_EPOCH, MAX_STAGE_NAME, MAX_WRITER_NAME

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
