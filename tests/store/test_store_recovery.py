"""What a start makes of what it finds: finished, undone, clamped or put aside; never lost or twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from planting import Root, batch_of, entry_of, id_of
from spoolrack_store.model.clock import DAY, HOUR
from spoolrack_store.model.operations import ByReceipt, CreateQueue, Delete, Receive
from spoolrack_store.model.settings import MAX_DELAY, MAX_VISIBILITY, QueueSettings

NOW = 1_700_000_000_000
TOKEN = "0123456789abc"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


# What was being sent.


def test_a_whole_message_in_new_is_delivered(root: Root) -> None:
    id = root.message("new/q:", 1, b"whole", owner="someone")
    rig = root.start()
    assert [(m.id, m.body) for m in rig.receive()] == [(id, b"whole")]
    assert rig.recovery.delivered == 1


@pytest.mark.parametrize("left", [b"", b"who"])
def test_a_torn_message_in_new_was_never_sent(root: Root, left: bytes) -> None:
    root.file(f"new/q:{entry_of(1, b'whole')}", left)
    rig = root.start()
    assert rig.states() == {}
    assert (rig.recovery.undone, rig.engine.quarantined) == (1, 0)
    rig.engine.reaper.reap(10)
    assert os.listdir(root.path / "remove") == []


@pytest.mark.parametrize("left", [b"WHOLE", b"whole and more"])
def test_a_message_in_new_that_is_not_what_was_written_is_put_aside(root: Root, left: bytes) -> None:
    root.file(f"new/q:{entry_of(1, b'whole')}", left)
    rig = root.start()
    assert rig.states() == {}
    assert rig.engine.quarantined == 1


def test_a_whole_batch_in_new_is_delivered(root: Root) -> None:
    ids = root.batch("new/q:", 1, [b"a", b"b", b"c"], owner="someone")
    rig = root.start()
    assert [m.id for m in rig.receive(10)] == ids


def test_a_batch_in_new_that_misses_a_message_is_undone_with_all_of_it(root: Root) -> None:
    root.batch("new/q:", 1, [b"a", b"b"], count=3)
    rig = root.start()
    assert rig.states() == {}
    assert (rig.recovery.undone, rig.engine.quarantined) == (1, 0)


def test_a_batch_in_new_with_a_torn_message_is_undone_with_all_of_it(root: Root) -> None:
    root.batch("new/q:", 1, [b"a", b"b"], count=3)
    root.file(f"new/q:{batch_of(1, 3)}/{entry_of(9, b'torn')}", b"to")
    rig = root.start()
    assert rig.states() == {}
    assert rig.recovery.undone == 1


def test_a_delayed_send_in_new_keeps_its_due(root: Root) -> None:
    one = root.message("new/q:", 1, suffix=f"@{NOW + 5_000}")
    many = root.batch("new/q:", 10, [b"a", b"b"], suffix=f"@{NOW + 9_000}")
    rig = root.start()
    assert set(rig.states().values()) == {"delayed"}
    assert {sight.due for sight in rig.sights()} == {NOW + 5_000, NOW + 9_000}
    rig.clock.advance(5_000)
    assert [m.id for m in rig.receive(10)] == [one]
    rig.clock.advance(4_000)
    assert [m.id for m in rig.receive(10)] == many


# Leases and clocks.


def test_a_lease_survives_a_restart_until_it_is_due(root: Root) -> None:
    rig = root.start()
    rig.send(b"a")
    rig.send(b"b", b"c")
    messages = rig.receive(10, visibility=20_000)
    rig.restart()
    rig.clock.advance(19_999)
    assert rig.receive(10) == []
    done = [ByReceipt(m.receipt or "") for m in messages[:2]]
    assert rig.ask(Delete(queue="q", targets=done)) == [None, None]
    rig.clock.advance(1)
    (again,) = rig.receive(10)
    assert (again.body, again.receives) == (b"c", 2)
    rig.check()


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_step_of_the_wall_clock_ends_no_lease_and_freezes_none(root: Root, step: int) -> None:
    rig = root.start()
    rig.send(b"a")
    rig.receive(visibility=20_000)
    rig.clock.step_wall(step)
    rig.clock.advance(19_999)
    assert rig.receive() == []
    rig.clock.advance(1)
    assert len(rig.receive()) == 1


def test_a_wall_clock_that_went_back_while_away_holds_a_lease_no_longer_than_the_maximum(
    root: Root,
) -> None:
    rig = root.start()
    rig.send(b"a")
    rig.receive(visibility=20_000)
    rig.clock.step_wall(-30 * DAY)
    rig.restart()
    rig.clock.advance(MAX_VISIBILITY - 1)
    assert rig.receive() == []
    rig.clock.advance(1)
    assert len(rig.receive()) == 1
    rig.check()


@pytest.mark.parametrize("hidden", ["leased", "delayed", "leased batch"])
def test_a_wall_clock_that_was_set_back_lengthens_what_is_hidden_by_no_more_than_that(
    root: Root, hidden: str
) -> None:
    rig = root.start()
    bodies = [b"a", b"b"] if "batch" in hidden else [b"a"]
    rig.send(*bodies, delay=20_000 if hidden == "delayed" else None)
    if hidden != "delayed":
        rig.receive(10, visibility=20_000)
    rig.clock.step_wall(-HOUR)
    rig.restart()
    rig.clock.advance(HOUR + 19_999)
    assert rig.receive(10) == []
    rig.clock.advance(1)
    assert [message.body for message in rig.receive(10)] == bodies


@pytest.mark.parametrize(("suffix", "most"), [(f"~{TOKEN}", MAX_VISIBILITY), ("", MAX_DELAY)])
def test_a_due_beyond_the_maximum_is_clamped(root: Root, suffix: str, most: int) -> None:
    root.message("delay/q:", 1, suffix=f"@{NOW + 9_000 * DAY}{suffix}")
    rig = root.start()
    assert rig.engine.next_due() == rig.clock.monotonic() + most


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_new_messages_stand_behind_old_ones_whatever_the_clock_did_meanwhile(
    root: Root, step: int
) -> None:
    rig = root.start()
    old = [*rig.send(b"a"), *rig.send(b"b", b"c")]
    rig.clock.step_wall(step)
    rig.restart()
    new = rig.send(b"d")
    assert [m.id for m in rig.receive(10)] == old + new


def test_an_implausible_id_on_disk_does_not_carry_ours_away(root: Root) -> None:
    far = "ffffffff-ffff-7fff-bfff-ffffffffffff"
    root.file(f"queues/q/{far},s1,c{0xE8B7BE43:08x}", b"a")
    rig = root.start()
    (id,) = rig.send(b"b")
    assert id.startswith("018bcfe5")
    assert [m.id for m in rig.receive(5)] == [id, far]


# One id in two places: the later state is the true one.

PLACES = {
    "removed": "remove/q:",
    "leased": "delay/q:",
    "delayed": "delay/q:",
    "ready": "queues/q/",
    "sent": "new/q:",
}
SUFFIXES = {"leased": f"@{NOW + 9_000}~{TOKEN}", "delayed": f"@{NOW + 9_000}"}
LATER = ["removed", "leased", "ready", "sent"]
PAIRS = [(a, b) for a in LATER for b in LATER if LATER.index(a) < LATER.index(b)]
PAIRS += [("removed", "delayed"), ("delayed", "ready"), ("delayed", "sent")]


@pytest.mark.parametrize("in_batch", ["neither", "the later", "the earlier"])
@pytest.mark.parametrize(("later", "earlier"), PAIRS)
def test_of_one_message_in_two_places_the_later_state_is_true(
    root: Root, later: str, earlier: str, in_batch: str
) -> None:
    for place, in_folder in ((later, in_batch == "the later"), (earlier, in_batch == "the earlier")):
        suffix = SUFFIXES.get(place, "")
        if in_folder:
            root.batch(PLACES[place], 1, [b"body", b"next"], suffix=suffix)
        else:
            root.message(PLACES[place], 2, b"body", suffix=suffix)
    rig = root.start()
    state = rig.states().get(id_of(2))
    assert state == {"removed": None, "sent": "ready"}.get(later, later)


def test_of_one_message_ready_twice_one_is_delivered(root: Root) -> None:
    root.message("queues/q/", 2, b"body")
    root.message("queues/q/", 2, b"body", receives=1)
    rig = root.start()
    assert [m.receives for m in rig.receive(10)] == [2]


def test_of_one_message_in_two_ready_batches_one_is_delivered(root: Root) -> None:
    root.batch("queues/q/", 1, [b"body", b"next"])
    (root.path / f"queues/q/{batch_of(70, 2)}").mkdir()
    root.message(f"queues/q/{batch_of(70, 2)}/", 2, b"body")
    root.message(f"queues/q/{batch_of(70, 2)}/", 9, b"other")
    rig = root.start()
    assert [m.id for m in rig.receive(10)] == [id_of(2), id_of(3), id_of(9)]
    rig.clock.advance(30_000)
    assert len(rig.receive(10)) == 3
    rig.check()


def test_of_one_message_in_new_twice_one_is_delivered(root: Root) -> None:
    root.message("new/q:", 2, b"body")
    root.message("new/q:", 2, b"body", owner="someone")
    root.batch("new/q:", 1, [b"body"], owner="someone")
    rig = root.start()
    assert [m.id for m in rig.receive(10)] == [id_of(2)]
    rig.check()


def test_a_batch_in_two_states_is_served_from_the_later(root: Root) -> None:
    root.batch("delay/q:", 1, [b"a", b"b"], suffix=f"@{NOW + 9_000}~{TOKEN}")
    root.batch("queues/q/", 1, [b"a", b"b"])
    rig = root.start()
    assert list(rig.states().values()) == ["leased", "leased"]


def test_an_emptied_batch_folder_is_removed(root: Root) -> None:
    (root.path / f"queues/q/{batch_of(1, 3)}").mkdir()
    (root.path / f"delay/q:{batch_of(5, 3)}@{NOW}~{TOKEN}").mkdir()
    rig = root.start()
    assert os.listdir(root.path / "queues/q") == os.listdir(root.path / "delay") == []
    assert rig.engine.quarantined == 0


# Settings.


def test_the_newest_readable_settings_count(root: Root) -> None:
    rig = root.start()
    rig.die()
    first = (root.path / "config/q.1.json").read_bytes()
    root.file("config/q.2.json", first.replace(b"30000", b"44000"))
    root.file("config/q.3.json", first[: len(first) // 2])
    rig = root.start()
    live = rig.engine.catalog.queues["q"]
    assert (live.version, live.settings.visibility_timeout) == (2, 44_000)
    assert root.put_aside() == ["q.3.json"]
    assert os.listdir(root.path / "config") == ["q.2.json"]


def test_a_queue_whose_settings_are_damaged_keeps_its_messages(root: Root) -> None:
    rig = root.start()
    rig.send(b"a")
    rig.die()
    root.file("config/q.1.json", b"{")
    rig = root.start()
    assert rig.engine.catalog.queues["q"].settings == QueueSettings()
    assert rig.bodies() == [b"a"]
    rig.restart()
    assert rig.bodies() == [b"a"]


def test_settings_of_a_later_version_are_taken_as_far_as_they_are_known(root: Root) -> None:
    content = (root.path / "config/q.1.json").read_bytes()
    root.file("config/q.1.json", content.replace(b"{", b'{"colour": "red",', 1))
    assert root.start().engine.catalog.queues["q"].settings == QueueSettings()


@pytest.mark.parametrize("left", ["all", "half", "nothing"])
def test_a_deleted_queue_is_emptied_however_far_that_had_come(root: Root, left: str) -> None:
    rig = root.start()
    rig.send(b"a")
    rig.send(b"b", b"c")
    rig.receive(2)
    rig.send(b"later", delay=9_000)
    rig.die()
    root.message("new/q:", 77, b"on its way")
    root.file("config/q.2.json", b'{"created_at": 1, "deleted": true}')
    if left != "all":
        for each in (root.path / "queues/q").iterdir():
            each.rename(root.path / f"remove/q:{each.name}")
        (root.path / "queues/q").rmdir()
    if left == "nothing":
        for folder in ("delay", "new"):
            for each in (root.path / folder).iterdir():
                each.rename(root.path / f"remove/{each.name.partition('@')[0]}")
    rig = root.start()
    assert rig.engine.catalog.queues == {}
    assert rig.engine.quarantined == 0
    for folder in ("config", "queues", "delay", "new"):
        assert os.listdir(root.path / folder) == []
    rig.ask(CreateQueue(name="q", settings=QueueSettings()))
    assert rig.ask(Receive(queue="q", max_messages=10)) == []
    rig.restart()
    assert rig.states() == {}


def test_an_empty_folder_of_no_queue_is_a_creation_that_never_was(root: Root) -> None:
    (root.path / "queues/never").mkdir()
    rig = root.start()
    assert rig.engine.quarantined == 0
    assert os.listdir(root.path / "queues") == ["q"]


def test_a_batch_in_new_of_which_a_message_has_gone_on_is_delivered_with_the_rest(root: Root) -> None:
    root.batch("new/q:", 1, [b"a", b"b", b"c"], owner="someone")
    root.message("remove/q:", 3, b"b")
    rig = root.start()
    assert [m.body for m in rig.receive(10)] == [b"a", b"c"]
