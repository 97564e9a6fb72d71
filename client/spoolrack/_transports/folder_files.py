"""Sends of files in a root on this machine: the body becomes, or is linked as, a file of the root."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Final

from spoolrack_store.model.errors import MessageTooLarge
from spoolrack_store.model.operations import WrittenBody
from spoolrack_store.store import Store

from .._values import Outgoing, SendResult
from . import folder_values as convert
from .folder_calls import FolderCalls

_PIECE: Final = 1024 * 1024


class FolderFiles:
    """`ClientTransport.send_file` over the calls of a root."""

    def __init__(self, calls: FolderCalls) -> None:
        self._calls = calls

    async def send(
        self,
        queue: str,
        path: str | os.PathLike[str],
        message: Outgoing,
        *,
        link: bool,
        timeout: float,
    ) -> SendResult:
        self._calls.refuse_if_read_only()
        stopped = Event()
        body = await self._calls.work(
            _linked(path) if link else partial(_written, queue, path, stopped),
            timeout,
            undo=Store.discard_body,
            stop=stopped.set,
        )
        try:
            request = convert.send(queue, [message])
            request.bodies, request.written = [b""], body
            (result,) = convert.send_results(await self._calls.submit(request, timeout))
        finally:
            await self._calls.work(lambda store: store.discard_body(body), None)
        return result


def _linked(path: str | os.PathLike[str]) -> Callable[[Store], WrittenBody]:
    return lambda store: store.link_body(path)


def _written(queue: str, path: str | os.PathLike[str], stopped: Event, store: Store) -> WrittenBody:
    """Copy a file into the root, until `stopped`."""
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        limit = store.queue(queue).settings.max_message_size
        if size > limit:
            raise MessageTooLarge(queue=queue, size=size, limit=limit)
        body = store.begin_body(expected=size)
        try:
            while not stopped.is_set() and (piece := file.read(_PIECE)):
                body.write(piece)
            return body.finish()
        except BaseException:
            body.discard()
            raise
