"""The program of docs/how-to/shards.md runs on three shards, and keeps the order of groups."""

from __future__ import annotations

import re
from typing import Any

from spoolrack import Message
from spoolrack.testing import running_shards

from tests import CHECKOUT

PAGE = (CHECKOUT / "docs/how-to/shards.md").read_text()


def test_the_program_of_the_page_spreads_a_queue_and_keeps_the_order_of_groups() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    send, work = program.split("def handle", 1)
    with running_shards(3) as shards, shards.client() as client:
        found: dict[str, Any] = {}
        exec(send.replace("a:50051,b:50051,c:50051", shards.url), found)
        for server in shards.servers:
            with server.client() as one:
                assert [queue.name for queue in one.list_queues()]
        groups = [f"customer-{number}" for number in range(40)]
        for turn in range(3):
            for group in groups:
                found["queue_of"](client, group).send(str(turn), group=group)
        seen: list[tuple[str, str]] = []

        def handle(message: Message) -> None:
            seen.append((message.group, message.text))
            if len(seen) == 123:
                worker.stop()

        pattern = re.search(r'client.work\("(.*)", handle', work)
        assert pattern is not None
        worker = client.worker(pattern[1], handle, concurrency=4)
        worker.run()
        for group in groups[5:]:
            assert [text for named, text in seen if named == group] == ["0", "1", "2"]
