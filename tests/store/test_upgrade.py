"""A root of format 3 is upgraded by its first start: what is in it stays as it was, wherever the start
is cut, and an earlier version never reads a part of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from spoolrack_store import fsck
from spoolrack_store.files import layout
from spoolrack_store.files.layout import CONFIG, FORMAT, IDENTITY, NEW, SHARD
from spoolrack_store.files.upgrade import upgrade
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import RootUnusable, UnknownFormat
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.sealed import NotWhole, seal_text, unseal, unseal_text
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.shards import Shard, shard_of
from spoolrack_store.read_only_root import open_read_only
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store

from tests.support.cuts import Bytes, Cut, Keep
from tests.support.power_disk import Model, PowerDisk

MINE: Final = Shard(shard_of("q", 2), 2)
KEPT: Final = QueueSettings(visibility_timeout=Millis(HOUR), retention=Millis(7 * HOUR))
BEFORE: Final = b"spoolrack 3\n"


def unsealed(content: bytes) -> bytes:
    """Return settings as format 3 has them."""
    return json.dumps(unseal(content), indent=2, sort_keys=True).encode() + b"\n"


def make_older(root: Path) -> str:
    """Make a root of format 3 with a queue and a message; return its identity."""
    with Store.open(root, shard=MINE) as store:
        store.submit(CreateQueue(name="q", settings=KEPT, labels={"team": "a"})).result()
        store.submit(Send(queue="q", bodies=[b"kept"])).result()
        identity = store.root_id
    for path in (root / CONFIG).iterdir():
        path.write_bytes(unsealed(path.read_bytes()))
    for name in (IDENTITY, SHARD):
        (root / name).write_text(unseal_text((root / name).read_bytes()) + "\n")
    (root / FORMAT).write_bytes(BEFORE)
    return identity


def state_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != layout.RESERVE
    }


def test_a_root_of_format_3_is_upgraded_once_and_keeps_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    identity = make_older(tmp_path)
    with Store.open(tmp_path) as store:
        assert (store.root_id, store.shard) == (identity, MINE)
        (queue,) = store.queues()
        assert (queue.settings, queue.labels, queue.version) == (KEPT, {"team": "a"}, 1)
        assert queue.counts.ready_count == 1
    assert (tmp_path / FORMAT).read_bytes() == layout.FORMAT_CONTENT
    assert "is upgraded to format 4, and 1 files of settings are sealed" in caplog.text
    assert not fsck.check(tmp_path).problems
    caplog.clear()
    Store.open(tmp_path).close()
    assert "upgraded" not in caplog.text


def test_a_root_that_another_process_has_open_is_not_upgraded(tmp_path: Path) -> None:
    with Store.open(tmp_path):
        (tmp_path / FORMAT).write_bytes(BEFORE)
        with pytest.raises(RootUnusable, match="stop all processes of the version before first"):
            Store.open(tmp_path)
        assert (tmp_path / FORMAT).read_bytes() == BEFORE


def test_a_look_at_a_root_of_format_3_changes_nothing(tmp_path: Path) -> None:
    make_older(tmp_path)
    before = state_of(tmp_path)
    with open_read_only(tmp_path) as store:
        assert [queue.settings for queue in store.queues()] == [KEPT]
    for look in (fsck.check, fsck.repair, lambda root: take_snapshot(root, f"{root}-copy")):
        with pytest.raises(UnknownFormat, match="the first start of a server of this version upgrades"):
            look(tmp_path)
    assert state_of(tmp_path) == before


def test_settings_that_were_damaged_before_the_upgrade_are_put_aside_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_older(tmp_path)
    (path,) = (tmp_path / CONFIG).iterdir()
    path.write_bytes(path.read_bytes().replace(b"{", b"[", 1))
    with Store.open(tmp_path) as store:
        assert store.queue("q").counts.ready_count == 1
    assert f"'{CONFIG}/{path.name}' is moved to quarantine/" in caplog.text


class Ended(Exception):
    """The process was killed."""


class Ending:
    """A disk on which the process ends before one of its calls."""

    def __init__(self, disk: PowerDisk, calls: int) -> None:
        self._disk, self._left = disk, calls

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._disk, name)
        if not callable(attribute):
            return attribute

        def called(*arguments: Any, **more: Any) -> Any:
            if not self._left:
                raise Ended
            self._left -= 1
            return attribute(*arguments, **more)

        return called


FILES: Final = {
    f"{CONFIG}/a.1.json": b'{\n  "created_at": 1\n}\n',
    f"{CONFIG}/b.12.json": b'{\n  "created_at": 2,\n  "deleted": true\n}\n',
    IDENTITY: b"0190a1b2-c3d4-4e5f-8a6b-7c8d9e0f1a2b\n",
    SHARD: b"2/8\n",
    FORMAT: BEFORE,
}


def older_disk(model: Model) -> PowerDisk:
    disk = PowerDisk(model=model)
    for folder in (CONFIG, NEW):
        disk.make_folder(folder)
    for path, content in FILES.items():
        disk.create(path, [content], sync=True)
    disk.sync_all()
    return disk


def is_sealed(content: bytes) -> bool:
    try:
        return bool(unseal_text(content))
    except NotWhole:
        return False


@pytest.mark.parametrize("model", Model)
def test_an_upgrade_that_is_cut_anywhere_goes_on_and_no_earlier_version_meets_a_part_of_it(
    model: Model,
) -> None:
    calls = 0
    is_done = False
    while not is_done:
        for keep in (Keep.ALL, Keep.NONE, Keep.SOME):
            for bytes in Bytes if keep is not Keep.SOME else (Bytes.WHOLE,):
                disk = older_disk(model)
                try:
                    upgrade(Ending(disk, calls), "root", "0owner", lambda make: make())  # type: ignore[arg-type]
                    is_done = True
                except Ended:
                    pass
                disk = disk.cut(Cut(keep, (calls,), (bytes,)))
                settled = {path: disk.read(path) for path in FILES}
                if settled[FORMAT] == BEFORE:
                    assert settled == FILES
                elif settled[FORMAT] == layout.FORMAT_CONTENT:
                    assert all(is_sealed(settled[path]) for path in FILES if path != FORMAT)
                else:
                    assert settled[FORMAT] == layout.UPGRADING
                for left in disk.scan(NEW):
                    disk.unlink(f"{NEW}/{left.name}")  # A start does, which has other owners' names.
                if settled[FORMAT] != layout.FORMAT_CONTENT:
                    upgrade(disk, "root", "1owner", lambda make: make())
                assert disk.read(FORMAT) == layout.FORMAT_CONTENT
                assert unseal(disk.read(f"{CONFIG}/a.1.json")) == {"created_at": 1}
                assert unseal(disk.read(f"{CONFIG}/b.12.json")) == {"created_at": 2, "deleted": True}
                assert disk.read(IDENTITY) == seal_text(FILES[IDENTITY].decode().strip())
                assert disk.read(SHARD) == seal_text("2/8")
        calls += 1
    assert calls > 20
