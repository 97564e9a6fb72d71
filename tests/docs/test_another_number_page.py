"""The commands of docs/how-to/another-number-of-shards.md move all queues to other shards."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import spoolrack
from spoolrack_store.model.shards import shard_of

from tests import CHECKOUT
from tests.support.real_server import RealServer
from tests.support.serving import output_of

PAGE = (CHECKOUT / "docs/how-to/another-number-of-shards.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
QUEUES = ("jobs", "mail", "orders", "photos", "sums", "taxes")


@contextmanager
def shards(folder: Path, count: int) -> Iterator[list[RealServer]]:
    """Serve roots of so many shards, or the one root of none."""
    with ExitStack() as stack:
        servers = []
        for number in range(count):
            after = ("--shard", f"{number}/{count}") if count > 1 else ()
            server = RealServer(
                folder / f"{count}-{number}", folder / f"{count}-{number}.log", after=after
            )
            stack.callback(server.kill)
            server.start()
            servers.append(server)
        yield servers


def url_of(servers: list[RealServer]) -> str:
    return "grpc://" + ",".join(f"127.0.0.1:{each.port}" for each in servers)


def typed(block: str, folder: Path, old: str, new: str) -> str:
    """Run commands of the page, with the addresses of this test; return what they print."""
    told = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SPOOLRACK_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "old": old,
        "new": new,
    }
    commands = re.sub(r"^(old|new)=.*\n", "", block, flags=re.MULTILINE)
    return output_of("bash", "-euo", "pipefail", "-c", commands, folder=folder, environment=told)


def fill(client: spoolrack.Client) -> None:
    for queue in QUEUES:
        client.create_queue(f"{queue}--dead")
        client.create_queue(queue, max_receives=7, dead_letter_queue=f"{queue}--dead")
        client.queue(queue).send(f"first of {queue}", group="a", attributes={"of": queue})
        client.queue(queue).send(f"second of {queue}", priority=3)
        client.queue(queue).send(f"delayed of {queue}", delay=3_600)
        client.queue(f"{queue}--dead").send(f"dead of {queue}")
    client.schedules.create("jobs", "nightly", "0 3 * * *", b"tick")


@pytest.mark.parametrize("before", [1, 2])
def test_the_commands_of_the_page_move_all_queues_to_the_shards_of_their_names(
    tmp_path: Path, before: int
) -> None:
    with shards(tmp_path, before) as old, shards(tmp_path, 3) as new:
        with spoolrack.connect(url_of(old)) as client:
            fill(client)
            assert client.queue("mail").receive(1)
        move, compare = BLOCKS
        typed(move, tmp_path, url_of(old), url_of(new))
        listed = typed(compare, tmp_path, url_of(old), url_of(new))
        assert [listed.count(f"{queue}--dead") for queue in QUEUES] == [2] * len(QUEUES)
        for number, server in enumerate(new):
            names = [each.name for each in server.client.list_queues()]
            assert names
            assert {shard_of(name, 3) for name in names} == {number}
        with spoolrack.connect(url_of(new)) as client:
            for queue in QUEUES:
                settings = client.queue(queue).info().settings
                assert (settings.max_receives, settings.dead_letter_queue) == (7, f"{queue}--dead")
                found = {each.text: each for each in client.queue(queue).receive(10)}
                first, second = found.pop(f"first of {queue}"), found.pop(f"second of {queue}")
                assert not found
                assert (first.group, first.attributes["of"], second.priority) == ("a", queue, 3)
                assert client.queue(queue).info().counts.delayed_count == 1
                (dead,) = client.queue(f"{queue}--dead").receive(10)
                assert dead.text == f"dead of {queue}"
            assert [each.name for each in client.schedules.list(queue="jobs")] == ["nightly"]
