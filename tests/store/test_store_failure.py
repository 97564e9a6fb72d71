"""After a failed sync nothing is promised: all is refused until a restart has read the folders."""

from __future__ import annotations

import errno
import gc
from pathlib import Path

import pytest
from faulty_disk import CHANGES
from spoolrack_store.model.errors import DiskError, OutcomeUnknown, StoreError, StoreFailed
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Receive,
    Request,
    Send,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from store_rig import GIVE_UP, opened

SYNCS = ("sync_all", "sync_folder", "sync_file")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_after_a_failed_sync_everything_is_refused_and_a_restart_recovers(
    tmp_path: Path, code: int
) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        (kept,) = rig.send(b"kept")
        told: list[StoreError] = []
        rig.store.on_failure(told.append)
        waiting = rig.wait_for(queue="in-turn")
        rig.disk.fail(code, *SYNCS, times=1)
        with pytest.raises(OutcomeUnknown):
            rig.send(b"unknown", b"too")
        # The next sync would succeed, and prove nothing.
        for request in (
            Send(queue="q", messages=[Outgoing(body=b"x")]),
            Receive(queue="q"),
            Delete(queue="q", targets=[]),
            CreateQueue(name="other", settings=QueueSettings()),
        ):
            with pytest.raises(StoreFailed):
                rig.ask(request)
        with pytest.raises(StoreFailed):
            waiting.result(GIVE_UP)
        assert isinstance(rig.store.failure, StoreFailed)
        assert told == [rig.store.failure]
        rig.store.on_failure(told.append)
        assert told == [rig.store.failure] * 2
        assert rig.store.message("q", kept).body == b"kept"
    with opened(tmp_path / "root") as rig:
        assert rig.store.failure is None
        # A retry of what was unknown may be a duplicate: it had taken place.
        assert [message.body for message in rig.receive(10)] == [b"kept", b"unknown", b"too"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize(
    "request_",
    [
        Send(queue="q", messages=[Outgoing(body=b"x")]),
        CreateQueue(name="n", settings=QueueSettings()),
        DeleteQueue(name="q"),
    ],
)
def test_a_new_file_whose_own_sync_fails_fails_the_store(
    tmp_path: Path, request_: Request[object], code: int
) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        rig.disk.fail(code, "sync_new", times=1)
        with pytest.raises(OutcomeUnknown):
            rig.ask(request_)
        with pytest.raises(StoreFailed):
            rig.send(b"x")


@pytest.mark.parametrize(
    "request_",
    [
        Send(queue="q", messages=[Outgoing(body=b"x")]),
        Send(queue="q", messages=[Outgoing(body=b"x")] * 20),
        Receive(queue="q"),
        Purge(queue="q"),
        CreateQueue(name="n", settings=QueueSettings()),
    ],
)
def test_a_disk_that_refuses_the_very_first_change_and_can_sync_nothing_fails_the_store(
    tmp_path: Path, request_: Request[object]
) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        rig.send(b"leased", b"ready")
        rig.receive()  # Its commit leaves nothing to be synced.
        # As after a shutdown of ext4: what is cached can be read, and nothing can be changed.
        rig.disk.fail(errno.EIO, *CHANGES)
        with pytest.raises(OutcomeUnknown):
            rig.ask(request_)
        assert isinstance(rig.store.failure, StoreFailed)


def test_a_disk_that_refuses_a_change_and_still_syncs_costs_only_that_call(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        rig.disk.fail(errno.EIO, *CHANGES - set(SYNCS))
        (refused,) = rig.ask(Send(queue="q", messages=[Outgoing(body=b"refused")]))
        assert isinstance(refused, DiskError)
        rig.disk.heal()
        rig.send(b"taken")
        assert rig.store.failure is None
        assert [message.body for message in rig.receive(10)] == [b"taken"]


def test_all_that_shared_the_failed_sync_get_an_unknown_outcome(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        reached, go_on = rig.disk.hold("create", "config/hold")
        first = rig.store.submit(CreateQueue(name="hold", settings=QueueSettings()))
        assert reached.wait(GIVE_UP)
        together = [rig.store.submit(Send(queue="q", messages=[Outgoing(body=b"x")])) for _ in range(5)]
        # The first commit syncs its new settings file's folder; the second syncs the file system.
        rig.disk.fail(errno.EIO, "sync_all")
        go_on.set()
        first.result(GIVE_UP)
        for future in together:
            assert isinstance(future.exception(GIVE_UP), OutcomeUnknown)


def test_that_the_store_has_failed_is_known_before_anybody_is_told_an_error(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        reached, go_on = rig.disk.hold("create", "config/hold")
        first = rig.store.submit(CreateQueue(name="hold", settings=QueueSettings()))
        assert reached.wait(GIVE_UP)
        later = rig.store.submit(Send(queue="q", messages=[Outgoing(body=b"x"), Outgoing(body=b"y")]))
        told: list[bool] = []
        rig.store.on_failure(lambda failure: told.append(later.done()))
        rig.disk.fail(errno.EIO, "sync_all")
        go_on.set()
        first.result(GIVE_UP)
        assert isinstance(later.exception(GIVE_UP), OutcomeUnknown)
        assert told == [False]


def test_a_fault_of_ours_stops_the_store_and_tells_everybody(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        bad = Outgoing(body=7)  # type: ignore[arg-type]
        with pytest.raises(OutcomeUnknown):
            rig.ask(Send(queue="q", messages=[bad]))
        with pytest.raises(StoreFailed):
            rig.send(b"x")


def test_a_start_that_cannot_sync_raises_and_leaves_the_root_to_others(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        disk = rig.disk
    disk.fail(errno.EIO, "sync_all", "sync_folder")
    with pytest.raises(StoreFailed):
        Store.open(tmp_path / "root", disk=disk)
    Store.open(tmp_path / "root").close()


def test_a_start_that_fails_half_way_leaves_the_root_to_others(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        disk = rig.disk
    disk.fail(errno.ENOSPC, "create", path="owners/")
    with pytest.raises(StoreError):
        Store.open(tmp_path / "root", disk=disk)
    Store.open(tmp_path / "root").close()


def test_a_store_closes_also_on_a_disk_that_refuses(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        rig.disk.fail(errno.EIO, "unlink", "remove_folder", *SYNCS)
    Store.open(tmp_path / "root").close()


def test_opening_and_closing_leaks_no_handle(tmp_path: Path) -> None:
    Store.open(tmp_path / "root").close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        Store.open(tmp_path / "root").close()
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 10
