"""A check finds whatever was done to a root behind the store's back, and a repair puts it aside."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

import damages
import pytest
from cli_rig import files_under
from damages import DAMAGES, Damage
from fsck_rig import READY, batch, batched, bodies, leased, make_root, single
from spoolrack_store import fsck
from spoolrack_store.fsck.findings import Remedy
from spoolrack_store.model.errors import RootInUse, RootUnusable, UnknownFormat
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, Outgoing, Purge, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def test_a_root_that_a_store_has_left_is_clean(root: Path) -> None:
    report = fsck.check(root)
    assert report.is_clean
    assert not report.leftovers
    tally = report.queues["q"]
    counts = {state: count for state, count in tally.counts.items() if state is not State.REMOVED}
    assert counts == {State.READY: 6, State.LEASED: 1, State.DELAYED: 1}
    assert report.checked >= 8
    assert report.unchecked == 0


def test_a_check_changes_nothing(root: Path) -> None:
    single(root).write_bytes(b"damaged")
    before = files_under(root)
    assert not fsck.check(root).is_clean
    assert files_under(root) == before


def test_progress_is_told_up_to_the_end(root: Path) -> None:
    told: list[tuple[int, int]] = []
    fsck.check(root, progress=lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] == told[-1][1]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found_where_it_is_and_put_aside_as_it_is(root: Path, damage: Damage) -> None:
    spoiled = damage(root)
    facts = spoiled.lstat()
    (problem,) = fsck.check(root).problems
    assert problem.path == str(spoiled.relative_to(root))
    assert problem.remedy is Remedy.QUARANTINE
    _, (mended,), left = fsck.repair(root)
    assert mended.problem == problem
    assert not left
    report = fsck.check(root)
    assert report.is_clean
    (aside,) = report.aside
    assert (aside.name, aside.source, aside.why) == (spoiled.name, problem.path, problem.why)
    kept = (root / "quarantine" / aside.id / aside.name).lstat()
    assert (kept.st_ino, kept.st_mode, kept.st_size) == (facts.st_ino, facts.st_mode, facts.st_size)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_after_a_repair_all_the_others_are_delivered_in_order(root: Path, damage: Damage) -> None:
    spoiled = damage(root)
    fsck.repair(root)
    lost = {
        damages.flip_a_byte,
        damages.make_huge,
        damages.link_instead_of_a_message,
        damages.forget_size_and_checksum,
    }
    expected = READY[1:] if damage in lost else READY
    if damage is damages.lengthen:
        expected = [body for body in READY if body != b"batch 0"]
    assert bodies(root) == expected
    assert not spoiled.exists()


def test_a_missing_folder_is_found_and_made_anew(root: Path) -> None:
    (root / "staged").rmdir()
    (problem,) = fsck.check(root).problems
    assert (problem.path, problem.remedy) == ("staged", Remedy.FOLDER)
    fsck.repair(root)
    assert (root / "staged").is_dir()
    assert fsck.check(root).is_clean


def test_a_queue_that_lost_its_settings_keeps_its_messages(root: Path) -> None:
    for path in (root / "config").iterdir():
        path.unlink()
    (problem,) = fsck.check(root).problems
    assert (problem.path, problem.remedy) == ("queues/q", Remedy.SETTINGS)
    assert "8 messages" in problem.why
    fsck.repair(root)
    assert fsck.check(root).is_clean
    (path,) = (root / "config").iterdir()
    assert json.loads(path.read_text())["salt"], "or two such queues have the same deduplication keys"
    assert bodies(root) == READY


def test_a_queue_whose_settings_are_damaged_keeps_its_messages(root: Path) -> None:
    (path,) = (root / "config").iterdir()
    path.write_text("{")
    assert {problem.remedy for problem in fsck.check(root).problems} == {
        Remedy.QUARANTINE,
        Remedy.SETTINGS,
    }
    fsck.repair(root)
    assert fsck.check(root).is_clean
    assert bodies(root) == READY


# What is in two places.


def test_of_a_message_in_two_states_the_later_one_is_true(root: Path) -> None:
    path = leased(root)
    entry = path.name.partition(":")[2].partition("@")[0]
    earlier = root / "queues" / "q" / entry.partition(",r")[0]
    shutil.copy(path, earlier)
    (problem,) = fsck.check(root).problems
    assert problem.path == str(earlier.relative_to(root))
    assert str(path.relative_to(root)) in problem.why
    fsck.repair(root)
    assert path.exists()
    assert bodies(root) == READY


def test_of_a_message_inside_and_outside_its_batch_the_one_outside_is_true(root: Path) -> None:
    inside = batched(root)
    shutil.copy(inside, root / "queues" / "q" / f"{inside.name},r1,f1700000000000")
    (problem,) = fsck.check(root).problems
    assert problem.path == str(inside.relative_to(root))
    fsck.repair(root)
    assert sorted(bodies(root)) == sorted(READY)


def test_a_batch_in_two_places_is_found_as_one_thing(root: Path) -> None:
    path = batch(root)
    twice = root / "delay" / f"q:{path.name},r1,f1700000000000@9999999999999~0123456789abc"
    shutil.copytree(path, twice)
    (problem,) = fsck.check(root).problems
    assert problem.path == str(path.relative_to(root))


def test_a_damaged_double_does_not_win_over_the_whole_one(root: Path) -> None:
    path = single(root)
    copy = root / "delay" / f"q:{path.name},r1,f1700000000000@9999999999999~0123456789abc"
    copy.write_bytes(b"torn")
    (problem,) = fsck.check(root).problems
    assert problem.path == str(copy.relative_to(root))
    fsck.repair(root)
    assert bodies(root) == READY


# What is only unfinished.


def test_what_was_never_sent_is_unfinished_and_no_problem(root: Path) -> None:
    torn = root / "new" / f"q:{uuid.uuid4()},s10,c00000000,oabc"
    torn.write_bytes(b"half")
    few = root / "new" / f"q:{uuid.uuid4()},n2,oabc"
    few.mkdir()
    (few / batched(root).name).write_bytes(batched(root).read_bytes())
    report = fsck.check(root)
    assert report.is_clean
    assert [leftover.path for leftover in report.leftovers] == sorted(
        str(path.relative_to(root)) for path in (torn, few)
    )


def test_a_queue_that_was_never_created_is_unfinished(root: Path) -> None:
    (root / "queues" / "nobody").mkdir()
    report = fsck.check(root)
    assert report.is_clean
    assert [leftover.path for leftover in report.leftovers] == ["queues/nobody"]


def test_settings_that_were_never_written_are_unfinished(root: Path) -> None:
    (root / "config" / "q.2.json").write_text("")
    report = fsck.check(root)
    assert report.is_clean
    assert [leftover.path for leftover in report.leftovers] == ["config/q.2.json"]
    assert bodies(root) == READY


def test_what_was_sent_whole_is_counted_as_sent(root: Path) -> None:
    path = single(root)
    path.rename(root / "new" / f"q:{path.name},oabc")
    report = fsck.check(root)
    assert report.is_clean
    assert report.queues["q"].counts[State.SENT] == 1
    assert bodies(root) == READY


def test_what_was_put_in_by_hand_waits_to_be_adopted(root: Path) -> None:
    (root / "new" / f"q:{uuid.uuid4()}").write_text("by hand")
    report = fsck.check(root)
    assert report.is_clean
    assert "adopted" in report.leftovers[0].why


def test_an_emptied_batch_folder_is_unfinished(root: Path) -> None:
    for path in batch(root).iterdir():
        path.unlink()
    report = fsck.check(root)
    assert report.is_clean
    assert [leftover.path for leftover in report.leftovers] == [str(batch(root).relative_to(root))]


def test_a_purged_queue_on_its_way_out_is_no_problem(root: Path) -> None:
    path = root / "queues" / "q"
    path.rename(root / "remove" / f"q:{uuid.uuid4()},n2")
    report = fsck.check(root)
    assert report.is_clean
    assert report.queues["q"].counts[State.REMOVED] >= 6


def test_a_damaged_message_that_is_deleted_is_no_problem(root: Path) -> None:
    path = single(root)
    os.truncate(path, 1)
    path.rename(root / "remove" / f"q:{path.name}")
    assert fsck.check(root).is_clean


def test_what_lies_beside_the_folders_is_left_alone(root: Path) -> None:
    (root / "notes.txt").write_text("mine")
    (root / "lost+found").mkdir()
    report = fsck.check(root)
    assert report.is_clean
    assert [leftover.path for leftover in report.leftovers] == ["notes.txt"]
    fsck.repair(root)
    assert (root / "notes.txt").read_text() == "mine"


# The root itself.


def test_a_repair_is_refused_while_somebody_serves_the_root(root: Path) -> None:
    with Store.open(root):
        assert fsck.check(root).is_clean
        with pytest.raises(RootInUse):
            fsck.repair(root)
        with pytest.raises(RootInUse):
            fsck.restore(root, str(uuid.uuid4()))


def test_a_folder_that_is_no_root_is_not_made_one(tmp_path: Path) -> None:
    for call in (fsck.check, fsck.repair):
        with pytest.raises(RootUnusable, match="FORMAT"):
            call(tmp_path)
        with pytest.raises(RootUnusable):
            call(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_another_format_is_left_alone(root: Path) -> None:
    (root / "FORMAT").write_text("spoolrack 2\n")
    with pytest.raises(UnknownFormat):
        fsck.repair(root)


def test_the_store_leaves_nothing_to_find_after_queues_come_and_go(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for name in ("one", "two"):
            store.submit(CreateQueue(name=name, settings=QueueSettings())).result()
            messages = [Outgoing(body=b"x")] * 10
            store.submit(Send(queue=name, messages=messages)).result()
        store.submit(Purge(queue="one")).result()
        store.submit(DeleteQueue(name="two")).result()
    report = fsck.check(tmp_path)
    assert report.is_clean
    assert report.queues["one"].messages == 0
