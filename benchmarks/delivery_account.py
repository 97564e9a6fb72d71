"""Was anything lost, or delivered twice? Pure.

Senders number what they send from 0 and say how far they came; receivers keep what they have deleted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

_SENDER_SHIFT: Final = 32
_NUMBERS: Final = (1 << _SENDER_SHIFT) - 1
_SHOWN: Final = 5


def ticket(sender: int, number: int) -> int:
    """Return a message as one number, so that a receiver can keep a hundred thousand in little room."""
    return sender << _SENDER_SHIFT | number


def tickets() -> array[int]:
    return array("Q")


def faults(sent: Mapping[int, int], received: Iterable[int], *, all_of_it: bool = True) -> list[str]:
    """Return what is wrong, in words; an empty list if nothing is.

    `sent` says how many messages each sender was told are safe, `received` what was deleted. Unless
    `all_of_it` was to be received, what is missing is no fault.
    """
    times_received = Counter(received)
    expected = {ticket(sender, number) for sender, count in sent.items() for number in range(count)}
    complaints = []
    doubled = sorted(each for each, times in times_received.items() if times > 1)
    if doubled:
        complaints.append(f"{len(doubled)} delivered more than once: {_some(doubled)}")
    lost = sorted(expected - times_received.keys())
    if lost and all_of_it:
        complaints.append(f"{len(lost)} lost: {_some(lost)}")
    invented = sorted(times_received.keys() - expected)
    if invented:
        complaints.append(f"{len(invented)} that no sender knows of: {_some(invented)}")
    return complaints


def _some(messages: list[int]) -> str:
    shown = ", ".join(f"{each >> _SENDER_SHIFT}/{each & _NUMBERS}" for each in messages[:_SHOWN])
    return shown + (", ..." if len(messages) > _SHOWN else "")
