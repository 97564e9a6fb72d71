"""The server, the client and the rule of docs/how-to/shards.md name the same shard."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from spoolrack import _shards
from spoolrack_store.model import shards

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "shards.json").read_text())[
    "vectors"
]


@pytest.mark.parametrize("rule", [shards, _shards])
def test_server_and_client_name_the_shard_of_the_vectors(rule: Any) -> None:
    for vector in VECTORS:
        assert rule.tag_of(vector["queue"]) == vector["tag"]
        for count, number in vector["shards"].items():
            assert rule.shard_of(vector["queue"], int(count)) == number, vector


def test_the_hash_is_the_upper_half_of_the_crc_without_its_sign() -> None:
    for vector in VECTORS:
        assert vector["hash"] == (crc32(vector["tag"].encode()) >> 16) & 0x7FFF
        assert vector["shards"] == {count: vector["hash"] % int(count) for count in vector["shards"]}


def test_queues_with_one_tag_lie_together() -> None:
    same = [each for each in VECTORS if each["queue"].split("--")[0] in ("jobs", "jobs.fifo")]
    assert len(same) == 7
    assert {each["tag"] for each in same} == {"jobs"}


def test_names_spread_over_all_shards() -> None:
    found = Counter(shards.shard_of(f"queue-{number}", 8) for number in range(8_000))
    assert sorted(found) == list(range(8))
    assert max(found.values()) < 1.2 * min(found.values())


@pytest.mark.parametrize("text", ["0/1", "2/8", "1023/1024"])
def test_a_shard_is_told_by_its_number_and_their_count(text: str) -> None:
    assert str(shards.parse_shard(text)) == text


@pytest.mark.parametrize(
    "text", ["", "2", "8/8", "-1/8", "2/0", "02/8", "2/8 ", "2/8/1", "0/1025", "a/b", "٢/8", "1/99999"]
)
def test_another_text_is_no_shard(text: str) -> None:
    with pytest.raises(ValueError, match="must be NUMBER/COUNT, such as 2/8"):
        shards.parse_shard(text)
