"""A delete on its way to the store: what is valid of it, and the answer it will have."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Delete
from spoolrack_store.store import Store

from . import convert
from .status import error_of


@dataclass(frozen=True, slots=True)
class Deleting:
    """A delete that the store works on."""

    refused: Sequence[StoreError | None]
    """For each target, why the edge refused it; None for those that the store has."""
    future: Future[list[StoreError | None]]

    def results(self) -> list[rpc.DeleteResult]:
        """A result for each target, once the store has answered; raises the `StoreError` that befell
        them all."""
        answers = iter(self.future.result())
        return [_result(next(answers) if error is None else error) for error in self.refused]


def start(store: Store, queue: str, targets: Sequence[rpc.DeleteTarget]) -> Deleting:
    """Hand a delete to the store; raises the `StoreError` of a request that is wrong as a whole."""
    convert.queue_name(queue)
    convert.check_count(len(targets), "targets")
    refused, valid = convert.each(convert.target, targets)
    return Deleting(refused, store.submit(Delete(queue=queue, targets=valid)))


def _result(answer: StoreError | None) -> rpc.DeleteResult:
    return rpc.DeleteResult(error=None if answer is None else error_of(answer))
