"""What a batch folder promises: it moves like a message while it can, and never takes any in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from engine_rig import EngineRig
from faulty_disk import Call, FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.engine.sender import RESERVED_BYTES
from spoolrack_store.files.disk import Space
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskFull
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    Delete,
    Message,
    Outgoing,
    Receive,
    Send,
    Sent,
    Target,
    VisibilityChange,
)

SYNCS = ("sync_all", "sync_folder", "sync_file")


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(MemoryDisk())


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk)
    rig.create(visibility_timeout=30_000)
    return rig


def receipts(messages: list[Message]) -> list[str]:
    return [message.receipt for message in messages if message.receipt is not None]


def renames(disk: FaultyDisk) -> list[tuple[str, str]]:
    """Where from and where to, as folders, since the last `forget`."""
    return [
        (call.paths[0].split("/")[0], call.paths[1].split("/")[0]) for call in disk.called("rename")
    ]


def test_a_call_with_many_messages_is_published_by_one_sync_and_one_rename(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    disk.forget()
    rig.send(*[b"x"] * 50)
    assert renames(disk) == [("new", "queues")]
    assert len(disk.called(*SYNCS)) == 1
    first, last = disk.calls.index(disk.called("create")[-1]), len(disk.calls) - 1
    assert first < disk.calls.index(disk.called(*SYNCS)[0]) < last


def test_many_calls_of_one_commit_share_a_folder(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.forget()
    rig.commit(*[Send(queue="q", messages=[Outgoing(body=b"x")]) for _ in range(30)])
    assert renames(disk) == [("new", "queues")]
    assert len(rig.disk.scan("queues/q")) == 1


def test_a_call_of_many_has_a_folder_of_its_own(rig: EngineRig, disk: FaultyDisk) -> None:
    tens = [Send(queue="q", messages=[Outgoing(body=b"x")] * 10) for _ in range(3)]
    rig.commit(*tens, *[Send(queue="q", messages=[Outgoing(body=b"x")]) for _ in range(4)])
    assert sorted(folder.name.split(",n")[1] for folder in rig.disk.scan("queues/q")) == [
        *("10", "10", "10", "4"),
    ]
    disk.forget()
    first = rig.receive(10)
    assert renames(disk) == [("queues", "delay")]
    disk.forget()
    rig.ask(Delete(queue="q", targets=[ByReceipt(str(each.receipt)) for each in first]))
    assert renames(disk) == [("delay", "remove")]


class Filling(MemoryDisk):
    """Has room for so many bytes beside what the store keeps back."""

    left = 2 * RESERVED_BYTES

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        self.left -= sum(map(len, parts))
        super().create(path, parts, sync=sync)

    def space(self) -> Space:
        return Space(bytes=self.left, files=1 << 30, unlimited=False)


def test_the_batches_of_one_commit_leave_together_what_room_must_be_left() -> None:
    disk = Filling()
    rig = EngineRig(disk)
    rig.create("q", max_message_size=RESERVED_BYTES)
    large = [Outgoing(body=bytes(RESERVED_BYTES // 10))] * 8
    first, second = rig.commit(*[Send(queue="q", messages=large) for _ in range(2)])
    assert {type(each) for each in first} == {Sent}
    assert {type(each) for each in second} == {DiskFull}
    assert disk.left >= RESERVED_BYTES


def test_a_batch_is_leased_deleted_and_brought_back_by_one_rename_each(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    ids = rig.send(*[b"x"] * 20)
    disk.forget()
    assert [message.id for message in rig.receive(20)] == ids
    assert renames(disk) == [("queues", "delay")]
    rig.clock.advance(30_000)
    disk.forget()
    rig.commit()
    assert renames(disk) == [("delay", "queues")]
    disk.forget()
    messages = rig.receive(100)
    assert renames(disk) == [("queues", "delay")]
    disk.forget()
    targets: list[Target] = [ByReceipt(each) for each in receipts(messages)]
    rig.ask(Delete(queue="q", targets=targets))
    assert renames(disk) == [("delay", "remove")]
    assert rig.states() == {}
    rig.check()


def test_a_batch_whose_leases_get_one_new_end_moves_once(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(*[b"x"] * 9)
    messages = rig.receive(9)
    disk.forget()
    changes = [VisibilityChange(each, Millis(60_000)) for each in receipts(messages)]
    rig.ask(ChangeVisibility(queue="q", changes=changes))
    assert renames(disk) == [("delay", "delay")]
    disk.forget()
    changes = [VisibilityChange(each, Millis(0)) for each in receipts(messages)]
    rig.ask(ChangeVisibility(queue="q", changes=changes))
    assert renames(disk) == [("delay", "queues")]
    rig.check()


def test_deletes_of_one_commit_that_name_all_of_a_batch_move_it_once(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    ids = rig.send(*[b"x"] * 6)
    disk.forget()
    rig.commit(*[Delete(queue="q", targets=[ById(id)]) for id in ids])
    assert renames(disk) == [("queues", "remove")]


def test_what_is_left_of_a_batch_is_still_leased_whole(rig: EngineRig, disk: FaultyDisk) -> None:
    ids = rig.send(*[b"x"] * 6)
    assert [message.id for message in rig.receive(2)] == ids[:2]
    disk.forget()
    assert [message.id for message in rig.receive(10)] == ids[2:]
    assert renames(disk) == [("queues", "delay")]
    rig.check()


def test_after_its_second_failed_lease_a_batch_is_leased_singly(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    rig.send(*[b"x"] * 4)
    for _ in range(2):
        rig.receive(4)
        rig.clock.advance(30_000)
    disk.forget()
    messages = rig.receive(4)
    assert [message.receives for message in messages] == [3] * 4
    singly = [pair for pair in renames(disk) if pair == ("queues", "delay")]
    assert len(singly) == 4
    rig.check()


def test_a_poisonous_message_does_not_bury_its_neighbours() -> None:
    rig = EngineRig(MemoryDisk())
    rig.create("dead")
    rig.create("q", max_receives=3, dead_letter_queue="dead", visibility_timeout=1_000)
    ids = rig.send(b"a", b"poison", b"c")
    for _ in range(2):
        rig.receive(3)
        rig.clock.advance(1_000)
    # From here on each goes its own way: those that are well are deleted.
    for _ in range(3):
        for message in rig.receive(3):
            if message.body != b"poison":
                rig.ask(Delete(queue="q", targets=[ByReceipt(message.receipt or "")]))
        rig.clock.advance(1_000)
    assert rig.states("q") == {}
    assert rig.states("dead") == {ids[1]: "ready"}
    rig.check()


def test_an_entry_that_leaves_its_batch_takes_count_and_token_along(rig: EngineRig) -> None:
    rig.send(b"a", b"b", b"c")
    messages = rig.receive(3)
    one = messages[1]
    assert one.receipt is not None
    rig.ask(ChangeVisibility(queue="q", changes=[VisibilityChange(one.receipt, Millis(90_000))]))
    rig.clock.advance(30_000)
    rig.commit()
    assert list(rig.states().values()) == ["ready", "leased", "ready"]
    rig.restart()
    again = {sight.entry.id: sight.entry for sight in rig.sights()}
    assert {entry.receives for entry in again.values()} == {1}
    assert rig.ask(Delete(queue="q", targets=[ByReceipt(one.receipt)])) == [None]
    rig.check()


@pytest.mark.parametrize("relaxed", [True, False])
@pytest.mark.parametrize("can_sync_all", [True, False])
def test_nothing_moves_into_a_published_folder_and_none_goes_before_what_left_it_is_synced(
    can_sync_all: bool,
    relaxed: bool,
) -> None:
    disk = FaultyDisk(MemoryDisk(can_sync_all=can_sync_all))
    rig = EngineRig(disk)
    rig.create(visibility_timeout=1_000, relaxed_leases=relaxed)
    disk.forget()
    for round in range(6):
        ids = rig.send(*[b"x"] * 5)
        messages = rig.receive(3 + round)
        held = receipts(messages)
        rig.commit(
            ChangeVisibility(
                queue="q", changes=[VisibilityChange(each, Millis(0)) for each in held[:1]]
            ),
            Delete(queue="q", targets=[ByReceipt(each) for each in held[1:2]]),
            Receive(queue="q", max_messages=2),
        )
        rig.commit(
            Delete(queue="q", targets=[ById(ids[3])]),
            Delete(queue="q", targets=[ById(ids[4]), ById(ids[0])]),
        )
        rig.clock.advance(1_000)
        rig.commit(Delete(queue="q", targets=[ById(id) for id in ids]))
        rig.engine.reaper.reap(1_000)
        rig.check()
        # One leaves, the folder moves on, and then goes: with relaxed leases no answer asks for a sync.
        ids = rig.send(*[b"x"] * 4)
        rig.commit(Delete(queue="q", targets=[]))
        rig.receive(1)
        rig.receive(3)
        rig.commit(Delete(queue="q", targets=[ById(id) for id in ids[1:]]))
        rig.commit(Delete(queue="q", targets=[ById(ids[0])]))
        rig.check()
    left_since_sync: set[str] = set()
    for call in disk.calls:
        if call.name in SYNCS:
            left_since_sync.clear()
        elif call.name in ("rename", "remove_folder"):
            _check_move(call, left_since_sync)


def _check_move(call: Call, left_since_sync: set[str]) -> None:
    """`left_since_sync` are the batch folders that something left since the last sync. Any sync counts
    as one of all: which folders it names is the syncer's own business, and tested there."""
    source = call.paths[0]
    folder = source.rpartition("/")[0]
    if call.name == "remove_folder" or call.paths[1].startswith("remove/"):
        assert source not in left_since_sync, f"{call} before what left it was synced"
    if call.name == "rename":
        target_folder = call.paths[1].rpartition("/")[0]
        assert ",n" not in target_folder, f"{call} moves something into a published folder"
        if ",n" in folder:
            left_since_sync.add(folder)
        if source in left_since_sync:
            left_since_sync.discard(source)
            left_since_sync.add(call.paths[1])


def test_an_emptied_batch_folder_is_removed(rig: EngineRig) -> None:
    ids = rig.send(*[b"x"] * 3)
    for id in ids[:2]:
        rig.ask(Delete(queue="q", targets=[ById(id)]))
    rig.receive(1, visibility=60_000)
    assert rig.disk.scan("queues/q") == []
    rig.check()


def test_batches_stay_near_the_usual_credit_and_a_call_is_never_split(rig: EngineRig) -> None:
    calls = [Send(queue="q", messages=[Outgoing(body=b"x")] * 60) for _ in range(3)]
    rig.commit(*calls, Send(queue="q", messages=[Outgoing(body=b"x")] * 250))
    sizes = sorted(len(rig.disk.scan(f"queues/q/{each.name}")) for each in rig.disk.scan("queues/q"))
    assert sizes == [60, 60, 60, 250]


@pytest.mark.parametrize("relaxed", [True, False])
def test_nothing_leaves_a_batch_before_its_publication_is_durable(
    disk: FaultyDisk, relaxed: bool
) -> None:
    # Else a crash could put the folder back into `new/` without it, and the rest with it out of reach.
    rig = EngineRig(disk)
    rig.create(relaxed_leases=relaxed)
    rig.send(b"a", b"b", b"c")
    disk.forget()
    rig.receive(1)
    names = [call.name for call in disk.calls if call.name in (*SYNCS, "rename")]
    assert names[0] in SYNCS
