"""The grammar of the names of stages and publications: the one module that formats and parses them.

    stage        name "@" due ["~dropped"]
    publication  writer "." epoch

Where they lie, and the grammar of a chunk's name, is in `engine.stages`. Pure; what isn't spelled so
raises `NotAName`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .clock import Millis
from .names import NotAName
from .staging import MAX_EPOCH

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
class Publication:
    """What one writer publishes under one number."""

    writer: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.writer}.{self.epoch}"


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


def parse_published(text: str) -> Publication:
    writer, _, epoch = text.partition(".")
    if not is_writer_name(writer) or _parsed(epoch, text) > MAX_EPOCH:
        raise NotAName(text)
    return Publication(writer=writer, epoch=int(epoch))


def _parsed(digits: str, text: str) -> int:
    if not _NUMBER.fullmatch(digits):
        raise NotAName(text)
    return int(digits)
