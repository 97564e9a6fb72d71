"""`--root` of a command that only looks: no file of the root changes, and it may be read-only."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import spoolrack
from spoolrack.errors import Unsupported
from spoolrack_server.cli.kit.connection_options import LISTING, Connection, connects_to_queues

from tests.cli.cli_rig import Result, Spoolrack
from tests.support.serving import PROGRAM

LOOKS = (
    ("queues", "list", "--json"),
    ("queues", "show", "jobs", "--json"),
    ("peek", "jobs", "--json"),
    ("peek", "dead", "--json"),
    ("export", "jobs", "dead", "--quiet"),
    ("stages", "list", "--json"),
    ("reservations", "list", "--json"),
    ("redrives", "list", "--json"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with messages in all states, a batch, a dead letter, a stage and a reservation."""
    root = tmp_path / "root"
    with spoolrack.connect(f"file://{root}") as client:
        client.create_queue("dead")
        client.create_queue("jobs", dead_letter_queue="dead", max_receives=1, visibility_timeout=600)
        jobs = client.queue("jobs")
        jobs.send("poison")
        jobs.receive()[0].release()
        jobs.send("leased", attributes={"colour": "red"})
        jobs.receive(visibility_timeout=3600)
        jobs.send_many([f"{number}" for number in range(20)])
        jobs.send("delayed", delay=3600)
        jobs.reserve("stream", 0, max_messages=2)
        with jobs.batch(publish=False) as batch:
            batch.send("staged")
    return root


def fingerprint(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return all that a look must leave as it is: names, inodes, modes, times of change and
    contents."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        facts = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (facts.st_ino, facts.st_mode, facts.st_mtime_ns, content)
    return found


@pytest.fixture
def looked_at(offline: Spoolrack) -> Callable[[Path], list[Result]]:
    return lambda root: [offline(*look, "--root", str(root)) for look in LOOKS]


def without_times(look: Result) -> object:
    """Return what a look has told, without what depends on the moment."""
    if look.out.startswith('{"type'):
        return [line.partition('"body"')[2] for line in look.out.splitlines() if '"body"' in line]
    whole = look.out.startswith("{\n")
    told = [json.loads(text) for text in ([look.out] if whole else look.out.splitlines())]
    for each in told:
        each.get("counts", {}).pop("oldest_age", None)
    return told


def test_a_look_changes_no_file_and_tells_what_a_start_would(
    offline: Spoolrack, looked_at: Callable[[Path], list[Result]], root: Path
) -> None:
    before = fingerprint(root)
    looks = looked_at(root)
    assert fingerprint(root) == before
    assert [look.code for look in looks] == [0] * len(LOOKS)
    with spoolrack.connect(f"file://{root}") as owner:
        assert owner.queue("dead").info().counts.ready_count == 1
        # Beside an owner each of them lists the root, or opens it as the owner does.
        joined = looked_at(root)
    assert [without_times(look) for look in looks] == [without_times(look) for look in joined]


def test_files_left_by_a_crash_are_shown_as_a_start_would_finish_them_and_stay(
    on_root: Spoolrack, root: Path
) -> None:
    """A message that was written whole into new/ counts; the file stays where it is."""
    with spoolrack.connect(f"file://{root}") as client:
        client.create_queue("sent")
        client.queue("sent").send("whole")
    (ready,) = (root / "queues" / "sent").iterdir()
    stem = ready.name.partition(",v")[0]
    ready.rename(root / "new" / f"sent:{stem},oabc")
    before = fingerprint(root)
    assert on_root("peek", "sent", "--raw").out == "whole\n"
    assert fingerprint(root) == before


def test_a_root_that_was_opened_meanwhile_is_told(root: Path) -> None:
    with spoolrack.connect(f"file://{root}") as client:
        client.queue("dead").send_many([bytes(1_000)] * 100)
    line = [*PROGRAM, "export", "dead", "--root", str(root)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        fcntl.fcntl(export.stdout, fcntl.F_SETPIPE_SZ, 4_096)
        # Its output is more than the pipe holds: it has opened the root, and can't end yet.
        export.stdout.read(1)
        with spoolrack.connect(f"file://{root}") as other:
            other.queue("jobs").info()
        export.stdout.read()
        assert b"another process has opened" in export.stderr.read()
        assert export.wait() == 75


def test_a_client_that_only_looks_refuses_every_change(root: Path) -> None:
    before = fingerprint(root)
    with spoolrack.connect(f"file://{root}?read_only=true") as client:
        jobs = client.queue("jobs")
        assert len(list(jobs.peek())) == 22
        for change in (
            lambda: jobs.send("x"),
            jobs.receive,
            lambda: client.create_queue("other"),
            lambda: client.queue("jobs").purge(),
            lambda: client.delete_queue("jobs"),
            lambda: jobs.delete_many([next(iter(jobs.peek())).id]),
            lambda: jobs.reserve("stream", 1),
        ):
            with pytest.raises(Unsupported, match="connect without read_only=true"):
                change()
    assert fingerprint(root) == before


@pytest.fixture
def read_only(root: Path, tmp_path: Path) -> Iterator[Path]:
    """The root as a read-only mount."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a folder read-only: run it as root, or in CI")
    place = tmp_path / "mounted"
    place.mkdir()
    subprocess.run(["mount", "--bind", root, place], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
        yield place
    finally:
        # A closed store keeps its folder open until no read can be in flight.
        gc.collect()
        subprocess.run(["umount", place], check=True)


def test_a_root_on_a_read_only_mount_can_be_looked_at(
    looked_at: Callable[[Path], list[Result]], root: Path, read_only: Path
) -> None:
    from_there = looked_at(read_only)
    assert [look.code for look in from_there] == [0] * len(LOOKS)
    assert [without_times(look) for look in from_there] == [
        without_times(look) for look in looked_at(root)
    ]


@pytest.mark.parametrize(
    ("only_looks", "arguments", "timeout"),
    [(True, [], LISTING), (True, ["--timeout", "5s"], 5), (False, [], 30)],
    ids=["a look", "a look with a timeout", "a change"],
)
def test_a_look_waits_for_the_listing_of_any_folder_unless_it_has_a_timeout(
    root: Path, only_looks: bool, arguments: list[str], timeout: float
) -> None:
    found: list[float] = []

    def looked(connection: Connection) -> int:
        found.append(connection.timeout)
        return 0

    command = click.command()(connects_to_queues(looked, only_looks=only_looks))
    command.main(["--root", str(root), *arguments], standalone_mode=False)
    assert found == [timeout]
