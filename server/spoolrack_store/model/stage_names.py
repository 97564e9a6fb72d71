"""The grammar of the names in `staged/` and `published/`: the one module that formats and parses them.

Pure, like `names`, which has the grammar of all other names. What it doesn't recognise raises
`NotAName`.

    staged/     stage "@" due ["~dropped"]              a stage; dropped: on its way to `remove/`
    in a stage  chunk ["+" delay] ":" queue ":" batch   a chunk: one batch folder
    published/  writer "." epoch                        the manifest of a publication
                writer "." epoch "." stage "@" due      a stage that is claimed for it
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .clock import Millis
from .names import Batch, NotAName, is_queue_name, parse_item
from .settings import MAX_DELAY
from .staging import MAX_CHUNK, MAX_EPOCH

_STAGE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WRITER = re.compile(r"[A-Za-z0-9_-]{1,80}")
_DUE = re.compile(r"[0-9]{13}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_DROPPED = "~dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFolder:
    """A stage's folder."""

    stage: str
    due: Millis
    """Unix time at which it expires."""
    is_dropped: bool = False
    """Nobody can publish it any more."""

    def __str__(self) -> str:
        return f"{self.stage}@{self.due:013d}{_DROPPED if self.is_dropped else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A batch folder in a stage."""

    number: int
    queue: str
    batch: Batch
    """With an owner until its content is durable."""
    delay: Millis | None = None
    """None: the queue's own, as it is when the stage is published."""

    def __str__(self) -> str:
        delay = "" if self.delay is None else f"+{self.delay}"
        return f"{self.number}{delay}:{self.queue}:{self.batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What one writer publishes under one number."""

    writer: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.writer}.{self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A stage that a publication has taken."""

    by: Publication
    folder: StageFolder

    def __str__(self) -> str:
        return f"{self.by}.{self.folder}"


def is_stage_name(text: str) -> bool:
    return _STAGE.fullmatch(text) is not None


def is_writer_name(text: str) -> bool:
    return _WRITER.fullmatch(text) is not None


def parse_stage_folder(text: str) -> StageFolder:
    bare = text.removesuffix(_DROPPED)
    stage, _, due = bare.partition("@")
    if not is_stage_name(stage) or not _DUE.fullmatch(due):
        raise NotAName(text)
    return StageFolder(stage=stage, due=Millis(int(due)), is_dropped=bare != text)


def parse_chunk(text: str) -> Chunk:
    head, _, rest = text.partition(":")
    queue, _, item = rest.partition(":")
    number, plus, delay = head.partition("+")
    batch = parse_item(item)
    if not isinstance(batch, Batch) or not is_queue_name(queue):
        raise NotAName(text)
    if plus and _parsed(delay, text) > MAX_DELAY:
        raise NotAName(text)
    chunk = _parsed(number, text)
    if chunk > MAX_CHUNK:
        raise NotAName(text)
    return Chunk(
        number=chunk, queue=queue, batch=batch, delay=Millis(_parsed(delay, text)) if plus else None
    )


def parse_published(text: str) -> Publication | Claim:
    writer, _, rest = text.partition(".")
    epoch, dot, folder = rest.partition(".")
    if not is_writer_name(writer) or _parsed(epoch, text) > MAX_EPOCH:
        raise NotAName(text)
    by = Publication(writer=writer, epoch=int(epoch))
    if not dot:
        return by
    claimed = parse_stage_folder(folder)
    if claimed.is_dropped:
        raise NotAName(text)
    return Claim(by=by, folder=claimed)


def _parsed(digits: str, text: str) -> int:
    if not _NUMBER.fullmatch(digits):
        raise NotAName(text)
    return int(digits)
