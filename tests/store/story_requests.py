"""What random stories of the store draw from: few values, so that they meet each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Outgoing
from spoolrack_store.model.settings import QueueSettings

QUEUES = ("a", "b", "c")
NEVER_MADE = "00000000-0000-7000-8000-000000000000"
CONSUMERS = {"one": 1, "few": 3, "many": 50}

names = st.sampled_from(["a", "a", "a", "b", "c"])
soon = st.sampled_from([True, True, False])
"""Whether a request is committed at once, or waits for company."""
picks = st.lists(st.integers(0, 1 << 16), min_size=1, max_size=6)
delays = st.sampled_from([None, None, None, 0, 1, 1_000, 5_000, -1, 10**12])
visibilities = st.sampled_from([None, 1, 500, 5_000, 30_000])


@st.composite
def all_settings(draw: Callable[[Any], Any], name: str) -> QueueSettings:
    """A queue's dead letters go to the next one, so that nothing leads back."""
    dead = {"a": ["", "b", "c"], "b": ["", "c"], "c": [""]}[name]
    target = draw(st.sampled_from(dead))
    return QueueSettings(
        visibility_timeout=Millis(draw(st.sampled_from([1_000, 30_000]))),
        delivery_delay=Millis(draw(st.sampled_from([0, 0, 2_000]))),
        dead_letter_queue=target,
        max_receives=draw(st.integers(1, 3)) if target else 0,
        retention=Millis(draw(st.sampled_from([0, 0, 20_000]))),
        max_messages=draw(st.sampled_from([0, 0, 7])),
        max_bytes=draw(st.sampled_from([0, 0, 60])),
        max_message_size=draw(st.sampled_from([20, 1_000])),
        relaxed_leases=draw(st.booleans()),
    )


outgoing = st.builds(
    Outgoing,
    body=st.sampled_from([b"", b"x", b"0123456789", b"y" * 21]),
    delay=delays.map(lambda delay: None if delay is None else Millis(delay)),
)
