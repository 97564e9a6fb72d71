"""Batches for threads: messages that are staged, some at a time, and appear together at the end."""

from __future__ import annotations

from typing import Self

from .. import aio
from .._core.batch_base import BatchBase
from .mirroring import blocking


class Batch(BatchBase):
    __doc__ = aio.Batch.__doc__

    send = blocking(aio.Batch.send)
    send_to = blocking(aio.Batch.send_to)

    def __enter__(self) -> Self:
        return self

    __exit__ = blocking(aio.Batch.__aexit__)
