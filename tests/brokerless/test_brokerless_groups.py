"""`group_access`: processes of one group share a root; to all others it is closed."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import spoolrack
from spoolrack.errors import RootUnusable
from spoolrack_store import fsck

from tests.brokerless.actor import Actor

GROUP, OTHER_GROUP = 64_100, 64_200
ANN, BOB, EVE = 64_101, 64_102, 64_201
"""Users and groups that need no names."""

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can be two users of one group: run the tests as root"
)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A root, not made yet, in a folder that every user may enter and the group may write in."""
    with tempfile.TemporaryDirectory(prefix="spoolrack-") as name:
        folder = Path(name)
        folder.chmod(0o775)
        os.chown(folder, ANN, GROUP)
        yield folder / "root"


@pytest.fixture
def user() -> Iterator[Callable[[Path, int, int, str], Actor]]:
    with ExitStack() as stack:

        def user(root: Path, uid: int, gid: int = GROUP, query: str = "") -> Actor:
            return stack.enter_context(Actor(f"file://{root}{query}", uid=uid, gid=gid))

        yield user


def modes(root: Path) -> dict[str, int]:
    """Return the modes of all that is under a root, with its own; files of a living process may go."""
    found = {".": root.stat().st_mode}
    for path in root.rglob("*"):
        found[str(path.relative_to(root))] = path.lstat().st_mode
    return found


@needs_root
def test_users_of_one_group_share_a_root_that_was_made_for_them(
    shared: Path, user: Callable[..., Actor]
) -> None:
    ann = user(shared, ANN, query="?group_access=true")
    assert ann.does("client.create_queue('jobs', visibility_timeout=1).name") == "'jobs'"
    assert ann.does("[r.ok for r in jobs.send_many(['a', 'b', 'c'])]") == "[True, True, True]"
    assert ann.does("jobs.send('d') != ''") == "True"
    bob = user(shared, BOB)
    assert bob.does("[m.text for m in jobs.receive(2)]") == "['a', 'b']"
    assert bob.does("[jobs.delete(m) for m in jobs.receive(2)]") == "[None, None]"
    assert bob.does("[r.ok for r in jobs.send_many(['e', 'f'])]") == "[True, True]"
    assert ann.does("[jobs.delete(m) or m.text for m in jobs.receive(2)]") == "['e', 'f']"
    bob.kill()
    assert ann.does("[m.text for _ in 'ab' for m in jobs.receive(wait=60)]") == "['a', 'b']"
    assert ann.does("client.queue('jobs').purge()") == "2"
    assert ann.does("client.close()") == "None"

    found = modes(shared)
    folders = {path for path, mode in found.items() if stat.S_ISDIR(mode)}
    assert {stat.S_IMODE(found[path]) for path in folders} == {0o2770}
    assert {stat.S_IMODE(found[path]) for path in found.keys() - folders} == {0o660}
    assert {path.stat().st_gid for path in shared.rglob("*")} == {GROUP}


@needs_root
def test_another_user_recovers_the_messages_of_a_killed_process(
    shared: Path, user: Callable[..., Actor]
) -> None:
    ann = user(shared, ANN, query="?group_access=true")
    assert ann.does("client.create_queue('jobs').name") == "'jobs'"
    assert ann.does("[r.ok for r in jobs.send_many(['a', 'b'])]") == "[True, True]"
    assert ann.does("len(jobs.receive(2))") == "2"
    ann.kill()

    bob = user(shared, BOB)
    assert bob.does("client.queue('jobs').info().counts.leased_count") == "2"
    assert bob.does("client.queue('jobs').purge()") == "2"
    assert bob.does("client.close()") == "None"
    assert fsck.check(shared).problems == []
    assert list((shared / "owners").iterdir()) == []


@needs_root
def test_to_a_user_of_another_group_the_root_is_closed(
    shared: Path, user: Callable[..., Actor]
) -> None:
    ann = user(shared, ANN, query="?group_access=true")
    assert ann.does("client.create_queue('jobs').name") == "'jobs'"
    eve = user(shared, EVE, OTHER_GROUP)
    assert eve.does("jobs.receive()") == "RootUnusable"
    assert eve.does("client.create_queue('mine')") == "RootUnusable"


@needs_root
def test_a_root_not_made_for_a_group_is_its_user_s_alone(
    shared: Path, user: Callable[..., Actor]
) -> None:
    ann = user(shared, ANN)
    assert ann.does("client.create_queue('jobs').name") == "'jobs'"
    assert user(shared, BOB).does("jobs.receive()") == "RootUnusable"
    assert user(shared, BOB, query="?group_access=true").does("jobs.receive()") == "RootUnusable"
    assert {stat.S_IMODE(mode) & 0o077 for mode in modes(shared).values()} == {0}


def test_the_mode_of_an_empty_folder_decides_the_root_s_permissions(root: Path, url: str) -> None:
    root.mkdir()
    root.chmod(0o2770)
    with spoolrack.connect(url) as client:
        client.create_queue("jobs")
        client.queue("jobs").send("a")
    found = modes(root)
    assert {stat.S_IMODE(mode) for mode in found.values()} == {0o2770, 0o660}


@pytest.mark.parametrize("mode", [0o775, 0o2750, 0o700])
def test_a_mode_that_may_be_chance_says_nothing(root: Path, url: str, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    with spoolrack.connect(url) as client:
        client.create_queue("jobs")
    assert stat.S_IMODE((root / "queues").stat().st_mode) & 0o777 == 0o700
    assert stat.S_IMODE(root.stat().st_mode) == mode


def test_a_root_that_others_may_not_read_is_given_to_no_group_unasked(root: Path, url: str) -> None:
    with spoolrack.connect(url) as client:
        client.create_queue("jobs")
    with (
        spoolrack.connect(f"{url}?group_access=true") as client,
        pytest.raises(RootUnusable, match="chmod"),
    ):
        client.queue("jobs").info()
