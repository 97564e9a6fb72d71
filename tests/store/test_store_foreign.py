"""Foreign things under the root: put aside and counted, never delivered, no reason to stop."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from planting import Root, batch_of, entry_of, id_of
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.files.opening import take
from spoolrack_store.model.errors import RootUnusable

NOW = 1_700_000_000_000
TOKEN = "0123456789abc"

FOLDERS = ["new", "queues", "queues/q", "delay", "remove", "config"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


def make_file(path: Path) -> None:
    path.write_bytes(b"mine")


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"mine")


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def make_folder_link(path: Path) -> None:
    path.symlink_to("/etc")


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # A socket's path may have 107 bytes.
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


KINDS = [make_file, make_folder, make_link, make_folder_link, make_pipe, make_socket]
NAMES = [
    "README",
    ".hidden",
    "q",
    "q:",
    ":x",
    "q:x",
    "a b\n*",
    b"\xff\xfe".decode(errors="surrogateescape"),
    "ä" * 100,
    "x" * 255,
    id_of(1).upper(),
    f"{id_of(1)},n0",
]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_stranger_is_put_aside(root: Root, folder: str, make: Callable[[Path], None]) -> None:
    make(root.path / folder / "stranger")
    rig = root.start()
    if folder == "queues" and make is make_folder:
        assert root.put_aside() == ["stranger"]
    assert rig.engine.quarantined == 1
    assert root.put_aside() == ["stranger"]
    rig.send(b"well")
    assert [m.body for m in rig.receive(5)] == [b"well"]
    rig.restart()
    assert rig.engine.quarantined == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", ["new", "queues/q", "delay", "remove", "config"])
def test_a_strange_name_is_put_aside(root: Root, folder: str, name: str) -> None:
    make_file(root.path / folder / name)
    rig = root.start()
    assert rig.engine.quarantined == 1
    assert len(root.put_aside()) == 1
    rig.check()


@pytest.mark.parametrize("make", KINDS[1:])
@pytest.mark.parametrize(
    "place",
    [
        f"new/q:{entry_of(1, b'x')}",
        f"new/q:{id_of(1)}",
        f"queues/q/{entry_of(1, b'x')}",
        f"delay/q:{entry_of(1, b'x')}@{NOW}~{TOKEN}",
        f"delay/q:{entry_of(1, b'x')}@{NOW}",
    ],
)
def test_what_has_a_messages_name_and_is_no_file_is_put_aside(
    root: Root, place: str, make: Callable[[Path], None]
) -> None:
    make(root.path / place)
    rig = root.start()
    assert rig.engine.quarantined == 1
    assert rig.states() == {}


@pytest.mark.parametrize("make", [KINDS[0], *KINDS[2:]])
@pytest.mark.parametrize("folder", ["new/q:", "queues/q/", "delay/q:"])
def test_what_has_a_batchs_name_and_is_no_folder_is_put_aside(
    root: Root, folder: str, make: Callable[[Path], None]
) -> None:
    suffix = f"@{NOW}" if folder.startswith("delay") else ""
    make(root.path / f"{folder}{batch_of(1, 2)}{suffix}")
    assert root.start().engine.quarantined == 1


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("folder", ["new/q:", "queues/q/", "delay/q:"])
def test_a_stranger_in_a_batch_costs_nobody_else(
    root: Root, folder: str, make: Callable[[Path], None]
) -> None:
    suffix = f"@{NOW}" if folder.startswith("delay") else ""
    ids = root.batch(folder, 1, [b"a", b"b"], suffix=suffix)
    make(root.path / f"{folder}{batch_of(1, 2)}{suffix}" / "stranger")
    rig = root.start()
    assert rig.engine.quarantined == 1
    assert [m.id for m in rig.receive(5)] == ids


@pytest.mark.parametrize("make", [KINDS[0], *KINDS[2:]])
def test_what_stands_where_a_queues_folder_must_be_is_put_aside(
    root: Root, make: Callable[[Path], None]
) -> None:
    (root.path / "queues/q").rmdir()
    make(root.path / "queues/q")
    rig = root.start()
    assert rig.engine.quarantined == 1
    rig.send(b"a")
    rig.send(b"b", b"c")
    assert [m.body for m in rig.receive(5)] == [b"a", b"b", b"c"]
    rig.check()


@pytest.mark.parametrize("make", KINDS)
def test_a_stranger_among_the_owners_stops_no_start(root: Root, make: Callable[[Path], None]) -> None:
    make(root.path / "owners" / "stranger.")
    make(root.path / "owners" / "abc")
    rig = root.start()
    rig.send(b"a")
    assert len(rig.receive()) == 1


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("folder", ["staged", "published"])
def test_strangers_among_the_stages_are_put_aside(
    root: Root, folder: str, make: Callable[[Path], None]
) -> None:
    make(root.path / folder / "stranger")
    assert root.start().engine.quarantined == 1
    assert os.listdir(root.path / folder) == []


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("folder", ["history", "quarantine", "."])
def test_strangers_elsewhere_stop_no_start(
    root: Root, folder: str, make: Callable[[Path], None]
) -> None:
    make(root.path / folder / "stranger")
    rig = root.start()
    assert rig.engine.quarantined == 0
    assert os.path.lexists(root.path / folder / "stranger")


@pytest.mark.parametrize("folder", ["queues", "new", "delay", "remove", "config", "quarantine"])
def test_a_link_in_place_of_one_of_the_roots_folders_is_refused(root: Root, folder: str) -> None:
    (root.path / folder).rename(root.path / "elsewhere")
    (root.path / folder).symlink_to("elsewhere")
    with pytest.raises(RootUnusable, match=folder):
        root.start()


def test_a_send_to_an_unknown_queue_is_put_aside(root: Root) -> None:
    root.message("new/unknown:", 1)
    assert root.start().engine.quarantined == 1


@pytest.mark.parametrize("name", ["not a queue", "-x", "x" * 81])
def test_a_folder_that_has_messages_and_no_name_of_a_queue_is_put_aside(root: Root, name: str) -> None:
    (root.path / "queues" / name).mkdir()
    root.message(f"queues/{name}/", 3)
    assert root.start().engine.quarantined == 1


def test_an_empty_batch_folder_in_delay_makes_no_queue(root: Root) -> None:
    (root.path / f"delay/unknown:{batch_of(1, 2)}@{NOW}~{TOKEN}").mkdir()
    assert list(root.start().engine.catalog.queues) == ["q"]


def test_what_is_put_aside_lies_beside_a_note_that_says_why(root: Root) -> None:
    root.file("new/stranger", b"keep me")
    root.start()
    (folder,) = (root.path / "quarantine").iterdir()
    assert (folder / "stranger").read_bytes() == b"keep me"
    assert (folder / "stranger.why").read_text().startswith("'new/stranger': ")


def test_unknown_tags_are_kept(root: Root) -> None:
    id = root.message("queues/q/", 1, b"x", unknown=("zfoo", "y1"))
    root.batch("queues/q/", 10, [b"a", b"b"], unknown=("zbar",))
    rig = root.start()
    messages = rig.receive(10)
    assert messages[0].id == id
    held = [each.name for each in rig.disk.scan("delay")]
    assert any(",zfoo,y1@" in name for name in held)
    assert any(",zbar@" in name for name in held)
    rig.clock.advance(30_000)
    rig.restart()
    assert len(rig.receive(10)) == 3
    rig.check()


def test_the_longest_names_go_through_every_state(tmp_path: Path) -> None:
    root = Root(tmp_path / "root")
    rig = root.start()
    queue = "Q" * 80
    rig.create(queue, visibility_timeout=1_000, max_message_size=10_000)
    rig.create("D" * 80)
    rig.send(b"x" * 10_000, queue=queue)
    rig.send(b"x" * 10_000, b"y", queue=queue, delay=1)
    rig.clock.advance(1)
    for receives in range(1, 5):
        messages = rig.receive(10, queue=queue)
        assert [m.receives for m in messages] == [receives] * 3
        rig.clock.advance(1_000)
        rig.restart()
        rig.check()


def test_a_name_too_long_for_a_lease_is_put_aside(root: Root) -> None:
    root.message("queues/q/", 1, b"x", unknown=("z" * 120,))
    assert root.start().engine.quarantined == 1


def test_a_folder_with_other_things_is_no_root_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(RootUnusable, match="letters"):
        take(LocalDisk(tmp_path), "here", __import__("random").Random(1))
    assert os.listdir(tmp_path) == ["letters"]
