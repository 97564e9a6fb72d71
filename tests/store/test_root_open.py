"""A folder becomes a root of format 4, several processes open it, and one that dies delays no other."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.changes import Changes
from spoolrack_store.files.local_disk import LocalDisk, RunningProcess, this_process
from spoolrack_store.files.root import Root, make_root, open_root
from spoolrack_store.model.clock import Millis, SystemClock
from spoolrack_store.model.errors import RootInUse, RootUnusable, UnknownFormat
from spoolrack_store.model.operations import CreateQueue, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP
from tests.support import engines
from tests.support.engines import commit

WHILE_HOLDING_LOCK = """
import os, sys, time
from random import Random
from tests.store.test_root_open import opened
from tests.support.engines import commit
from spoolrack_store.model.operations import Send

root, engine = opened(sys.argv[1])
commit(engine, Send(queue="q", bodies=[b"from the other"]))
lock = root.disk.lock("LOCK")
assert lock is not None
if len(sys.argv) > 2:
    ready, other = os.pipe()
    if not os.fork():
        print("ready", os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
else:
    print("ready", os.getpid(), flush=True)
sys.stdin.read()
"""


def opened(path: str | os.PathLike[str]) -> tuple[Root, Engine]:
    return engines.opened(path, SystemClock())


def refused(path: Path, place: RunningProcess | None = None) -> str:
    with pytest.raises((RootUnusable, UnknownFormat, RootInUse)) as caught:
        open_root(LocalDisk(path), os.fspath(path), Random(), place or this_process())
    return str(caught.value)


def test_an_empty_folder_becomes_a_root_that_is_its_users_alone(tmp_path: Path) -> None:
    opened(tmp_path / "root")
    assert (tmp_path / "root/FORMAT").read_text() == "spoolrack 4\n"
    for each in (tmp_path / "root").rglob("*"):
        assert not stat.S_IMODE(each.stat().st_mode) & 0o077, each


def test_the_files_of_a_root_with_group_access_are_its_groups(tmp_path: Path) -> None:
    make_root(tmp_path / "root", group_access=True)
    opened(tmp_path / "root")
    for name in ("CHANGES", "LOCK", "FORMAT"):
        assert stat.S_IMODE((tmp_path / "root" / name).stat().st_mode) == 0o660


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    assert "letter.txt" in refused(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


def test_a_new_file_system_may_be_a_root(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    opened(tmp_path)


@pytest.mark.parametrize("number", [1, 2])
def test_a_root_of_a_format_before_is_refused_and_left_as_it_is(tmp_path: Path, number: int) -> None:
    (tmp_path / "FORMAT").write_text(f"spoolrack {number}\n")
    told = refused(tmp_path)
    assert f"'spoolrack {number}'" in told
    assert "the version that wrote it" in told
    assert [each.name for each in tmp_path.iterdir()] == ["FORMAT"]


def test_a_root_of_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("spoolrack 5\n")
    assert "spoolrack 5" in refused(tmp_path)


@pytest.mark.parametrize("length", [0, 5, 11])
def test_a_first_start_that_was_killed_is_finished_by_the_next(tmp_path: Path, length: int) -> None:
    (tmp_path / "FORMAT").write_text("spoolrack 4\n"[:length])
    opened(tmp_path)
    assert (tmp_path / "FORMAT").read_text() == "spoolrack 4\n"


def test_a_root_that_several_open_first_at_the_same_time_is_one_root(tmp_path: Path) -> None:
    count = 6
    together = threading.Barrier(count)

    def store(number: int) -> None:
        together.wait(GIVE_UP)
        with Store.open(tmp_path / "root") as store:
            name = f"q{number}"
            store.submit(CreateQueue(name=name, settings=QueueSettings())).result(GIVE_UP)
            store.submit(Send(queue=name, bodies=[b"a"])).result(GIVE_UP)
            together.wait(GIVE_UP)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(store, range(count)))
    with Store.open(tmp_path / "root") as one:
        assert len(one.queues()) == count
        for number in range(count):
            (found,) = one.submit(Receive(queue=f"q{number}")).result(GIVE_UP)
            assert found.bodies == [b"a"]
    assert list((tmp_path / "root/owners").iterdir()) == []


SETTINGS = QueueSettings(visibility_timeout=Millis(7_000))


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("what", ["config/q.1.json", "config"])
def test_settings_that_are_removed_by_hand_are_written_again_at_the_next_tick(
    tmp_path: Path, what: str, processes: int
) -> None:
    opened_engines = [opened(tmp_path)[1] for _ in range(processes)]
    commit(opened_engines[0], CreateQueue(name="q", settings=SETTINGS))
    for engine in opened_engines * 3:
        commit(engine, tick=True)
    shutil.rmtree(tmp_path / what) if what == "config" else (tmp_path / what).unlink()
    for engine in opened_engines:
        commit(engine, tick=True)
    commit(opened_engines[-1])
    for engine in [*opened_engines, opened(tmp_path)[1]]:
        assert [each.settings for each in engine.catalog.records.values()] == [SETTINGS]
    assert [each.name for each in (tmp_path / "config").iterdir()] == ["q.1.json"]


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_queue_outlives_that_another_process_finds_its_settings_damaged_or_gone(
    tmp_path: Path, is_removed: bool
) -> None:
    _, one = opened(tmp_path)
    _, other = opened(tmp_path)
    commit(one, CreateQueue(name="q", settings=SETTINGS))
    commit(one, Send(queue="q", bodies=[b"hello"]))
    settings = tmp_path / "config" / "q.1.json"
    settings.unlink() if is_removed else settings.write_bytes(b"garbage")
    for engine in (other, one, other):
        commit(engine, tick=True)
        commit(engine)
    for engine in (one, other):
        assert [each.settings for each in engine.catalog.records.values()] == [SETTINGS]
    (got,) = commit(other, Receive(queue="q", max_messages=1, max_bytes=100))
    assert [delivery.bodies for delivery in got] == [[b"hello"]]  # type: ignore[attr-defined]


def test_a_start_begins_changes_anew_after_any_power_cut(tmp_path: Path) -> None:
    root, engine = opened(tmp_path)
    commit(engine, CreateQueue(name="q", settings=QueueSettings()))
    root.close()
    (tmp_path / "CHANGES").write_bytes(Random(7).randbytes(5_000))
    _, engine = opened(tmp_path)
    assert list(engine.catalog.records) == ["q"]


def test_a_living_process_of_another_host_is_told_of(tmp_path: Path) -> None:
    opened_here = opened(tmp_path)
    told = refused(tmp_path, RunningProcess(1, "elsewhere", "another-boot"))
    assert "another host" in told
    assert opened_here


@pytest.mark.parametrize("forks", [[], ["a child that lives on"]], ids=["alone", "with-a-child"])
def test_a_process_killed_with_the_lock_holds_up_no_other(tmp_path: Path, forks: list[str]) -> None:
    root, engine = opened(tmp_path)
    commit(engine, CreateQueue(name="q", settings=QueueSettings()))
    with subprocess.Popen(
        [sys.executable, "-c", WHILE_HOLDING_LOCK, os.fspath(tmp_path), *forks],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().startswith(b"ready")
        assert engine.apply([]) is None
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        commit(engine, tick=True)
        commit(engine)
        (got,) = commit(engine, Receive(queue="q", max_messages=1, max_bytes=100))
        assert [delivery.bodies for delivery in got] == [[b"from the other"]]  # type: ignore[attr-defined]
    assert root.is_living(root.owner)


def test_the_log_of_another_version_is_not_overwritten_while_its_process_lives(tmp_path: Path) -> None:
    root, _ = opened(tmp_path / "root")
    root.memory.write(0, b"changes9")
    with pytest.raises(RootInUse, match="CHANGES another version"):
        opened(tmp_path / "root")
    assert (tmp_path / "root/CHANGES").read_bytes().startswith(b"changes9")


def test_the_log_of_another_version_is_begun_anew_when_its_process_is_gone(tmp_path: Path) -> None:
    root, engine = opened(tmp_path / "root")
    commit(engine, CreateQueue(name="q", settings=QueueSettings()))
    root.memory.write(0, b"changes9")
    root.close()
    _, engine = opened(tmp_path / "root")
    assert engine.catalog.records.keys() == {"q"}
    assert (tmp_path / "root/CHANGES").read_bytes().startswith(b"changes2")


def test_a_process_more_than_there_is_room_for_is_told_what_to_do(tmp_path: Path) -> None:
    root, _ = opened(tmp_path / "root")
    changes = Changes(root.memory, root.owner)
    changes.read_header()
    changes.set_owners((root.owner, *(f"{number:08d}" for number in range(446))))
    opened(tmp_path / "root")
    with pytest.raises(RootUnusable, match=r"448 processes have it open, .*: end one of them"):
        opened(tmp_path / "root")
