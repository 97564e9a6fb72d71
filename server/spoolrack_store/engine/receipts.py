"""Finds the lease that a receipt proves."""

from __future__ import annotations

from ..index.hidden import Hidden, QueueIndex
from ..model.errors import InvalidReceipt, StaleReceipt
from ..model.names import NotAName, Receipt, parse_receipt


def parse(queue: str, text: str) -> Receipt:
    """The receipt in `text`; raises `InvalidReceipt` if it isn't one of `queue`."""
    try:
        receipt = parse_receipt(text)
    except NotAName as error:
        raise InvalidReceipt(receipt=text) from error
    if receipt.queue != queue:
        raise InvalidReceipt(receipt=text)
    return receipt


def find_lease(index: QueueIndex, receipt: Receipt) -> tuple[Hidden, str]:
    """The present lease that `receipt` proves, and its entry's name; or `StaleReceipt`."""
    hidden = index.find_hidden(receipt.id)
    if hidden is None or hidden.token is None or hidden.token != receipt.token:
        raise StaleReceipt(id=receipt.id)
    return hidden, hidden.name_of(receipt.id)
