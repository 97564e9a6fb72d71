"""No name gets too long for a file system, and a file system without hard links is refused."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from spoolrack_store.files.disk import Disk
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.files.root import require_links
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import RootUnusable, StaleReceipt
from spoolrack_store.model.names import MAX_BYTES, MOST
from spoolrack_store.model.operations import ChangeVisibility, Delete, Receive, Send
from spoolrack_store.model.transitions import State

from tests.store.trouble_rig import PickyDisk, Rig
from tests.support.linked_disk import made
from tests.support.power_disk import Model

LONGEST = "q" * 80


@pytest.mark.parametrize("seed", range(2))
def test_the_longest_names_go_through_every_state(seed: int) -> None:
    chance = Random(seed)
    rig = Rig(made(["q"], can_sync_all=True, model=Model.ANY_SUBSET), cache_bytes=1 << 24)
    rig.add(LONGEST)
    rig.engine.moves.owner = "o" * 16
    attributes: dict[int, Any] = {place: {"a": "b" * 100} for place in range(MOST)}
    receive = Receive(queue=LONGEST, max_messages=MOST, visibility=Millis(30_000))
    send = Send(queue=LONGEST, bodies=[b"x" * 500] * MOST, attributes=attributes)
    sent, _ = rig.commit(send, receive)
    receipts: dict[str, str] = {}
    left = set(sent.results)
    longest = 0
    for _ in range(20):
        rig.advance(chance.choice((1, 30_000)))
        chosen = chance.sample(sorted(receipts), min(len(receipts), chance.randint(1, 300)))
        named = [receipts[id] for id in chosen]
        changed, deleted, deliveries = rig.commit(
            ChangeVisibility(
                queue=LONGEST, receipts=named[::3], visibility=Millis(chance.choice((0, 30_000)))
            ),
            Delete(queue=LONGEST, receipts=named[1::9]),
            Receive(queue=LONGEST, max_messages=chance.choice((1, 7, MOST)), visibility=Millis(30_000)),
        )
        for result in (*changed, *deleted):
            assert result is None or isinstance(result, int | StaleReceipt)
        left -= {id for id, result in zip(chosen[1::9], deleted, strict=True) if result is None}
        for each in deliveries:
            receipts.update(zip(each.ids, each.receipts, strict=True))
        names = [path.rpartition("/")[2] for path in rig.paths("new", "delay", "remove")]
        longest = max([longest, *map(len, names)])
    assert MAX_BYTES - 60 < longest <= MAX_BYTES
    counts = rig.engine.index.queue(LONGEST).counts
    assert sum(counts.values()) == len(left)
    assert counts[State.DELAYED] == 0
    rig.check()


def test_a_file_system_with_hard_links_is_taken_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    require_links(LocalDisk(tmp_path), str(tmp_path), "p1")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    ("call", "code"),
    [("link", errno.EPERM), ("link", errno.EOPNOTSUPP), ("rename_new", errno.EINVAL)],
)
def test_a_file_system_without_them_is_refused_with_what_to_do(
    tmp_path: Path, call: str, code: int
) -> None:
    (tmp_path / "new").mkdir()
    disk = PickyDisk(LocalDisk(tmp_path))
    disk.fail(code, call)
    with pytest.raises(RootUnusable, match="use one that"):
        require_links(cast(Disk, disk), str(tmp_path), "p1")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_system_that_replaces_what_it_must_not_is_refused(tmp_path: Path) -> None:
    class Replacing(LocalDisk):
        def rename_new(self, source: str, target: str) -> None:
            self.rename(source, target)

    (tmp_path / "new").mkdir()
    with pytest.raises(RootUnusable, match="replaces"):
        require_links(Replacing(tmp_path), str(tmp_path), "p1")
