"""The cost of observation: of each call, and of a scrape of a large root.

    python -m benchmarks.observation_cost [--messages 1000000] [--queues 10000]

A call is timed without the wire, around a handler that does nothing: the rest is what the watch takes.
A scrape is timed over a store in memory of this process, as its event loop does while it serves.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from typing import Any, Final

from spoolrack_server.app.health import Health
from spoolrack_server.metrics.instrumentation import Instrumentation, OnRequest
from spoolrack_server.metrics.observer import Observer
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

CALLS: Final = 200_000
AT_ONCE: Final = 1_000


class _Context:
    """As much of a gRPC context as is asked."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("user-agent", "grpc-python/1.76.0"),)

    def set_trailing_metadata(self, _: object) -> None:
        return None


async def call_cost() -> tuple[float, float]:
    """Return the seconds that a call takes, without the watch and with it."""

    async def nothing(asked: OnRequest, context: Any) -> None:
        asked(None)

    def ignore(request: Any) -> None:
        return None

    watched = Instrumentation().rpc(nothing, "Send", streams=False)
    context, seconds = _Context(), []
    for method in (nothing, watched):
        began = time.perf_counter()
        for _ in range(CALLS):
            await method(ignore, context)
        seconds.append((time.perf_counter() - began) / CALLS)
    return seconds[0], seconds[1]


async def scrape_cost(store: Store) -> tuple[float, float, int]:
    """Return the seconds until a scrape is answered, the longest that the loop stood still, and
    bytes."""
    observer = Observer(Health(), SystemClock())
    observer.begin(store.metrics, reaps=True)
    longest, over = 0.0, False

    async def tick() -> None:
        nonlocal longest
        while not over:
            began = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - began)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.1)
    longest = 0.0
    began = time.perf_counter()
    page, _ = await observer.page("")
    took = time.perf_counter() - began
    over = True
    await ticking
    await observer.end()
    return took, longest, len(page)


def fill(store: Store, queue: str, messages: int) -> None:
    store.submit(CreateQueue(name=queue, settings=QueueSettings())).result()
    sends = [
        store.submit(Send(queue=queue, bodies=[b"x"] * AT_ONCE)) for _ in range(messages // AT_ONCE)
    ]
    for each in sends:
        each.result()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--queues", type=int, default=10_000)
    chosen = options.parse_args()
    bare, watched = asyncio.run(call_cost())
    print(f"a call: {1e6 * (watched - bare):.2f} µs for the watch")
    with tempfile.TemporaryDirectory() as root, Store.open(root) as store:
        fill(store, "q", 0)
        for what, messages, queues in (
            ("one empty queue", 0, 0),
            (f"{chosen.messages} messages", chosen.messages, 0),
            (f"{chosen.queues} queues", 0, chosen.queues),
        ):
            fill(store, "much", messages)
            for number in range(queues):
                fill(store, f"q{number}", 0)
            took, longest, size = asyncio.run(scrape_cost(store))
            print(f"{what}: {1e3 * took:.1f} ms, the loop waits {1e3 * longest:.1f} ms, {size} bytes")


if __name__ == "__main__":
    main()
