"""The order of a redrive: the content of its file, which never changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .clock import Millis
from .ids import is_id
from .names import is_queue_name
from .redrive_requests import MAX_RATE, MAX_SELECTED
from .sealed import NotWhole, seal, unseal


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveOrder:
    queue: str
    queue_created_at: Millis
    """A queue that is made again under the same name is another one."""
    destination: str
    source_queue: str
    ids: tuple[str, ...]
    """Without repetitions."""
    rate: int
    started_at: Millis


def encode(order: RedriveOrder) -> bytes:
    return seal(
        {
            "queue": order.queue,
            "queue_created_at": order.queue_created_at,
            "destination": order.destination,
            "source_queue": order.source_queue,
            "ids": order.ids,
            "rate": order.rate,
            "started_at": order.started_at,
        }
    )


def decode(content: bytes) -> RedriveOrder:
    """Parse an order; raise `NotWhole`."""
    values = unseal(content)
    ids = values.get("ids")
    if not isinstance(ids, list) or len(ids) > MAX_SELECTED:
        raise NotWhole("its ids are no list of ids")
    for id in ids:
        if not isinstance(id, str) or not is_id(id):
            raise NotWhole("its ids are no list of ids")
    rate = _number(values, "rate")
    if rate > MAX_RATE:
        raise NotWhole("its rate is out of range")
    return RedriveOrder(
        queue=_queue(values, "queue", may_be_empty=False),
        queue_created_at=Millis(_number(values, "queue_created_at")),
        destination=_queue(values, "destination"),
        source_queue=_queue(values, "source_queue"),
        ids=tuple(ids),
        rate=rate,
        started_at=Millis(_number(values, "started_at")),
    )


def _queue(values: Mapping[str, object], name: str, *, may_be_empty: bool = True) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not (is_queue_name(value) or (may_be_empty and not value)):
        raise NotWhole(f"its {name} is no queue's name")
    return value


def _number(values: Mapping[str, object], name: str) -> int:
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise NotWhole(f"its {name} is no number")
    return value
