"""What holds back the messages of a queue, or one of them, in a line."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from spoolrack import Client, Message, MessageState, QueueInfo
from spoolrack.errors import MessageNotFound, PermissionDenied, QueueNotFound

from ..kit.units import left_text, moment_text, plural

_OF_SENDS: Final = frozenset({"SENDING_PAUSED", "QUEUE_FULL", "DISK_FULL"})
"""Obstacles that hold no message back."""
_OF_ALL: Final = frozenset({"RECEIVING_PAUSED", "MAX_LEASED", "RATE"})
"""Obstacles that hold each ready message back."""


def why_of_queue(info: QueueInfo) -> str:
    """Return what holds back the messages of a queue."""
    causes = [each.explanation for each in info.obstacles if each.reason not in _OF_SENDS]
    if causes:
        return "; ".join(causes)
    if info.counts.ready_count:
        return (
            f"nothing holds them back: the next receive gets one of {info.counts.ready_count:,} ready"
        )
    return "it has no message"


def why_of_message(client: Client, name: str, id: str, now: datetime) -> str:
    """Return what holds a message back at the time `now`; perhaps that it is gone."""
    queue = client.queue(name)
    info = queue.info()
    try:
        message = queue.get(id)
    except MessageNotFound:
        return _where_else(client, info, id)
    match message.state:
        case MessageState.DELAYED:
            assert message.deliver_at is not None
            return f"it is delayed until {_moment(message.deliver_at, now)}"
        case MessageState.LEASED:
            assert message.lease_expires_at is not None
            holder = next((each for each in info.oldest_leases if each.message_id == id), None)
            by = "" if holder is None else f" by {holder.consumer or f'the stream {holder.stream}'}"
            times = "once" if message.receive_count == 1 else f"{message.receive_count} times"
            until = _moment(message.lease_expires_at, now)
            return f"it is leased{by} until {until}, received {times}"
    return _why_ready(info, message)


def _why_ready(info: QueueInfo, message: Message) -> str:
    """Return what holds a ready message back."""
    of_group = f"group {message.group}: "
    causes = [
        each.explanation
        for each in info.obstacles
        if each.reason in _OF_ALL or each.explanation.startswith(of_group)
    ]
    causes += [
        f"perhaps for an earlier message of its group {message.group}: {each.explanation}"
        for each in info.obstacles
        if each.reason == "GROUPS_BLOCKED" and message.group
    ]
    if causes:
        return "it is ready, but " + "; ".join(causes)
    return f"nothing: it is ready, one of {plural(info.counts.ready_count, 'message')}"


def _where_else(client: Client, info: QueueInfo, id: str) -> str:
    """Return where a message is that isn't in its queue."""
    target = info.settings.dead_letter_queue
    if target:
        try:
            letter = client.queue(target).get(id)
        except (MessageNotFound, QueueNotFound, PermissionDenied):
            pass
        else:
            record = letter.dead_letter_records[-1] if letter.dead_letter_records else None
            why = "" if record is None else f", since {moment_text(record.dead_lettered_at)}"
            return f"it is a dead letter in {target}{why}: spoolrack peek {target} {id}"
    return f"there is no message {id} in {info.name}: it was deleted, has expired, or was never sent"


def _moment(moment: datetime, now: datetime) -> str:
    return f"{moment_text(moment)}, for {left_text(moment, now)}"
