"""A reader that is written from docs/reference/disk-format.md finds in a root what the store finds."""

from __future__ import annotations

import ast
import inspect
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest
from spoolrack_store.archive_reader import ArchivedMessage, read_archive
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import LAST_MOMENT, SECOND, Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord
from spoolrack_store.model.errors import WrongShard
from spoolrack_store.model.operations import (
    CreateQueue,
    Message,
    Receive,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.shards import Shard
from spoolrack_store.store import Store

from tests import CHECKOUT
from tests.proof.format import second_reader
from tests.proof.format.histories import DEDUPLICATION_IDS, History, OpenStore, copy_of
from tests.proof.format.second_reader import Root, key_of, parse_record, unsealed
from tests.support.listing import messages_in

SEEDS: Final = int(os.environ.get("SPOOLRACK_ROOTS", "6"))
STEPS: Final = 60


def told_by_store(store: Store) -> dict[str, Any]:
    """Return all messages of all queues as the store shows them, by their ids."""
    found: dict[str, Any] = {}
    for queue in store.queues(limit=1_000):
        for message in messages_in(store, queue.name, limit=1_000_000):
            assert message.id not in found, f"two queues have {message.id}"
            found[message.id] = _told(message)
    return found


def _told(message: Message) -> dict[str, Any]:
    return {
        "queue": message.queue,
        "state": message.state.value,
        "receives": message.receive_count,
        "first": message.first_received_at,
        "due": message.due,
        "body": message.body,
        "attributes": dict(message.attributes),
        "group": message.group,
        "priority": message.priority,
        "deaths": list(message.dead_letter_records),
    }


def told_by_reader(root: Root) -> dict[str, Any]:
    """Return the same as the second reader finds it."""
    found: dict[str, Any] = {}
    for id, message in root.messages.items():
        if message.state != "quarantined" and message.body is not None:
            said = asdict(message) | {"deaths": list(map(_death, message.deaths))}
            del said["id"], said["receipt"]
            found[id] = said
    return found


def _death(said: Mapping[str, Any]) -> DeadLetterRecord:
    return DeadLetterRecord(
        source_queue=said["source_queue"],
        reason=said["reason"],
        receive_count=said["receives"],
        first_received_at=said["first_receive_ms"],
        dead_lettered_at=said["died_at_ms"],
        explanation=said.get("explanation", ""),
        redrive_queue=said.get("redriven_to", ""),
        redriven_at=said.get("redriven_at_ms"),
    )


def require_alike(root: Root, store: Store) -> None:
    """Compare all messages, and the queues with their settings. The store may have in memory still what
    is damaged now."""
    # First: a question publishes what is in `new/`.
    found = told_by_reader(root)
    damaged = [
        id for id, each in root.messages.items() if each.state != "quarantined" and each.body is None
    ]
    told = told_by_store(store)
    for id in damaged:
        told.pop(id, None)
    assert found == told
    assert not root.foreign
    assert not any(batch.unlisted() for batch in root.batches.values())
    queues = {queue.name: queue for queue in store.queues(limit=1_000)}
    assert {
        name: (dict(queue.settings), queue.labels, queue.created_at, queue.version)
        for name, queue in root.queues.items()
    } == {
        name: (asdict(queue.settings), queue.labels, queue.created_at, queue.version)
        for name, queue in queues.items()
    }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_root_with_a_random_past_reads_as_the_store_opens_it(seed: int, tmp_path: Path) -> None:
    history = History(tmp_path / "root", seed)
    for part in range(4):
        history.run(STEPS // 4)
        if part == 3 and seed % 2:
            history.die()
        copy = copy_of(history.root, tmp_path / f"copy{part}")
        root = Root(copy)
        opened = OpenStore(copy, history.clock, seed + 1_000_003)
        require_alike(root, opened.store)
        opened.driver.run()
        opened.reap(1_000)
        root = Root(copy)
        require_alike(root, opened.store)
        opened.store.close()
        require_alike(Root(copy), opened.store)
        require_same_archive(Root(copy))
    if not seed % 2:
        history.open.store.close()
        require_alike(Root(history.root), history.open.store)


def require_same_archive(root: Root) -> None:
    for queue in ("dead", "aging"):
        folder = root.path / "archive" / queue
        if not folder.exists():
            continue
        kept = list(read_archive(folder, Millis(0), LAST_MOMENT, _unreadable))
        found = root.archived(queue)
        assert [each.id for each in kept] == sorted(found)
        for each in kept:
            assert _archived(each) in [(one.body, one.attributes, one.group) for one in found[each.id]]


def _unreadable(path: str, why: str) -> None:
    raise AssertionError(f"{path}: {why}")


def _archived(message: ArchivedMessage) -> Any:
    return message.body, message.attributes, message.group


@pytest.mark.parametrize("seed", range(SEEDS))
def test_receives_take_messages_in_the_order_of_the_page(seed: int, tmp_path: Path) -> None:
    history = History(tmp_path / "root", seed)
    history.run(STEPS)
    opened = history.open
    for queue in ("plain", "aging"):
        if seed % 3 == 0:
            opened.do(UpdateQueue(name=queue, changes={"priority_aging": Millis(0)}))
        opened.driver.run()
        expected = Root(history.root).in_order(queue)
        found = messages_of(opened.do(Receive(queue=queue, max_messages=100_000)))
        aside = [id for id, each in Root(history.root).messages.items() if each.state == "quarantined"]
        assert [each.id for each in found] == [id for id in expected if id not in aside]
        receipts = {each.id: each.receipt for each in found}
        leased = Root(history.root).messages
        assert {id: leased[id].receipt for id in receipts} == receipts


@pytest.mark.parametrize("seed", range(SEEDS))
def test_deduplication_ids_are_taken_as_the_page_says(seed: int, tmp_path: Path) -> None:
    history = History(tmp_path / "root", seed)
    history.run(STEPS)
    for queue in Root(history.root).queues:
        history.open.do(UpdateQueue(name=queue, changes={"deduplication_window": 20 * SECOND}))
    # A store that has been open may know keys of files that are damaged now.
    root = Root(copy_of(history.root, tmp_path / "copy"))
    expected = {
        queue: [root.first_sent(queue, id, history.clock.wall()) for id in DEDUPLICATION_IDS]
        for queue in root.queues
    }
    opened, count = OpenStore(root.path, history.clock, seed + 1_000_003), len(DEDUPLICATION_IDS)
    for queue in root.queues:
        answer = opened.do(
            Send(
                queue=queue, bodies=[b""] * count, deduplication_ids=dict(enumerate(DEDUPLICATION_IDS))
            )
        )
        found = [id if place in answer.duplicates else None for place, id in enumerate(answer.results)]
        assert found == expected[queue]


def test_names_of_records_keys_and_sealed_files_read_as_the_vectors_say() -> None:
    vectors = json.loads((CHECKOUT / "tests" / "vectors" / "records.json").read_text())
    for vector in vectors["names"]:
        said, parsed = parse_record(vector["kind"], vector["name"]), vector["parsed"]
        assert (said is None) == (parsed is None), vector
        if said is not None and vector["kind"] == "redrive":
            failure = parsed["failure"] or {"why": None, "queue": ""}
            assert (said["id"], int(said["moved"]), int(said["failed"])) == (
                *(parsed["id"], parsed["moved"], parsed["failed"]),
            )
            assert (said.get("why"), said.get("queue", "")) == (failure["why"], failure["queue"])
            assert ("cancelled" in said, said.get("owner")) == (parsed["is_cancelled"], parsed["owner"])
    for vector in vectors["keys"]:
        assert key_of(vector["deduplication_id"], vector["salt"]) == vector["key"]
    for vector in vectors["sealed"]:
        assert unsealed(vector["content"].encode()) == vector["values"]


def test_a_deduplication_id_is_taken_until_the_window_is_over(tmp_path: Path) -> None:
    clock = ManualClock()
    opened = OpenStore(tmp_path, clock, 1)
    opened.do(CreateQueue(name="q", settings=QueueSettings(deduplication_window=SECOND)))
    send = Send(queue="q", bodies=[b""], deduplication_ids={0: "order"})
    (first,) = opened.do(send).results
    clock.advance(SECOND - 1)
    assert Root(tmp_path).first_sent("q", "order", clock.wall()) == first
    assert opened.do(send).results == [first]
    clock.advance(1)
    assert Root(tmp_path).first_sent("q", "order", clock.wall()) is None
    assert opened.do(send).results != [first]


def test_a_root_says_which_shard_it_is_and_has_its_queues_alone(tmp_path: Path) -> None:
    shard, names = Shard(3, 8), [f"queue-{number}" for number in range(40)]
    with Store.open(tmp_path, shard=shard) as store:
        for name in names:
            with suppress(WrongShard):
                store.submit(CreateQueue(name=name, settings=QueueSettings())).result()
    root = Root(tmp_path)
    assert root.shard == (3, 8)
    assert sorted(root.queues) == sorted(name for name in names if second_reader.shard_of(name, 8) == 3)
    (tmp_path / "SHARD").unlink()
    assert Root(tmp_path).shard is None
    for vector in json.loads((CHECKOUT / "tests/vectors/shards.json").read_text())["vectors"]:
        for count, number in vector["shards"].items():
            assert second_reader.shard_of(vector["queue"], int(count)) == number


def test_the_second_reader_imports_nothing_of_the_store() -> None:
    tree = ast.parse(inspect.getsource(second_reader))
    imported = {
        each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    }
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
