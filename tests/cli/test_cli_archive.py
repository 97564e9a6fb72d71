"""`spoolrack export` and `import`: an archive brings the same queues and messages anywhere, once."""

from __future__ import annotations

import json
import subprocess
import time
import zlib
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from spoolrack import Client, MessageState, Outgoing, connect
from spoolrack.testing import RunningServer
from spoolrack_server.cli.operators.transfer.archive_format import FORMAT

from tests.cli.cli_rig import Spoolrack
from tests.cli.moving_rig import BODIES, bodies_in, held
from tests.support.serving import PROGRAM

ORIGIN = "imported-from"
ID = "01890000-0000-7000-8000-000000000000"
LARGE = bytes(range(256)) * 4_000 + b"y" * 2_000_000


@pytest.fixture
def there(tmp_path: Path) -> str:
    """A root with queues to be copied."""
    root = str(tmp_path / "there")
    with connect(f"file://{root}") as client:
        client.create_queue("dead")
        client.create_queue(
            "jobs",
            visibility_timeout=7.5,
            delivery_delay=60,
            max_receives=3,
            dead_letter_queue="dead",
            max_message_size=4_000_000,
            labels={"team": "checkout"},
        )
        jobs = client.queue("jobs")
        first = [
            Outgoing(body=body, attributes={"n": str(n), "ö": b"\xff\x00"}, delay=0)
            for n, body in enumerate(BODIES)
        ]
        more = Outgoing(body="later", delay=3600, group="ä g", priority=9)
        jobs.send_many([*first, Outgoing(body=LARGE, delay=0), more])
        client.queue("dead").send("dead")
    return root


@pytest.fixture
def archive(offline: Spoolrack, there: str, tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    assert offline("export", "jobs", "dead", "--root", there, "-o", str(path)).code == 0
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_messages_and_queues_come_back_as_they_were(
    bring: Spoolrack, archive: Path, there: str, root: Path
) -> None:
    done = bring(str(archive))
    assert (done.code, done.out) == (0, "")
    assert "imported 8 messages into jobs" in done.err
    before, after = held(f"file://{there}", "jobs"), held(f"file://{root}", "jobs")
    assert [m.body for m in after] == [m.body for m in before] == [*BODIES, LARGE, b"later"]
    for name in ("state", "group", "priority"):
        assert [getattr(m, name) for m in after] == [getattr(m, name) for m in before]
    assert [{k: v for k, v in m.attributes.items() if k != ORIGIN} for m in after] == [
        dict(m.attributes) for m in before
    ]
    assert after[-1].deliver_at is not None
    assert 3_400 < after[-1].deliver_at.timestamp() - time.time() <= 3_600
    assert bodies_in(f"file://{root}", "dead") == [b"dead"]
    with connect(f"file://{there}") as old, connect(f"file://{root}") as new:
        for name in ("jobs", "dead"):
            assert old.queue(name).info().settings == new.queue(name).info().settings
            assert old.queue(name).info().labels == new.queue(name).info().labels
            assert list(old.queue(name).peek()), "an export takes nothing away"


def test_an_archive_is_imported_once(bring: Spoolrack, archive: Path, root: Path) -> None:
    assert bring(str(archive)).code == 0
    again = bring(str(archive))
    assert "9 messages had been imported before" in again.err
    assert "imported 0" not in again.err
    assert len(held(f"file://{root}", "jobs")) == 8
    assert bring(str(archive), "--state", f"{archive}.again").code == 0
    assert len(held(f"file://{root}", "jobs")) == 16


def test_it_goes_through_pipes_and_between_a_server_and_a_root(
    spoolrack: Spoolrack, client: Client, server: RunningServer, root: Path, tmp_path: Path
) -> None:
    client.create_queue("jobs")
    client.queue("jobs").send_many(BODIES)
    client.queue("jobs").receive()
    exporting = [*PROGRAM, "export", "jobs", "--url", server.url]
    importing = [*PROGRAM, "import", "-", "--root", str(root), "--queue", "work"]
    with subprocess.Popen(exporting, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        second = subprocess.run(importing, stdin=first.stdout, cwd=tmp_path, capture_output=True)
        assert first.stderr is not None
        assert b"1 of them leased, and ready in the archive" in first.stderr.read()
    assert second.returncode == 0, second.stderr
    messages = held(f"file://{root}", "work")
    assert [(m.body, m.state) for m in messages] == [(body, MessageState.READY) for body in BODIES]
    assert len(list(tmp_path.glob("*.import"))) == 1


def test_bytes_that_are_cut_off_are_missed_and_can_follow(
    bring: Spoolrack, archive: Path, root: Path
) -> None:
    """However far a copy came, its whole messages come in; the whole archive brings the rest."""
    whole = archive.read_bytes()
    part = archive.with_name("part")
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    imported = 0
    for end in (ends[2], ends[3] + 10, ends[5] - 1, ends[8], ends[10], len(whole) - 2):
        part.write_bytes(whole[:end])
        done = bring(str(part), "--queue", "x") if end < ends[2] else bring(str(part))
        assert done.code == 65
        imported = max(0, whole[:end].count(b"\n") - 3)
        if imported:
            assert f"after {imported} whole message" in done.err
        assert ("ends in the middle of line" if end not in ends else "has no end") in done.err
        count = sum(len(held(f"file://{root}", name)) for name in ("jobs", "dead"))
        assert count == imported
    part.write_bytes(whole)
    assert bring(str(part)).code == 0
    assert bodies_in(f"file://{root}", "jobs") == [*BODIES, LARGE, b"later"]


def test_a_changed_byte_is_noticed_wherever_it_is(bring: Spoolrack, archive: Path, root: Path) -> None:
    whole = archive.read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(whole) if byte == ord("\n"))]
    for number in (0, 1, 4, len(starts) - 2):
        changed = bytearray(whole)
        middle = (starts[number] + starts[number + 1]) // 2
        changed[middle] ^= 1
        archive.write_bytes(changed)
        done = bring(str(archive))
        assert done.code == 65, (number, done)
        assert ("is not an archive" if not number else f"line {number + 1} is damaged") in done.err
    archive.write_bytes(whole)
    assert bring(str(archive)).code == 0
    assert bodies_in(f"file://{root}", "jobs") == [*BODIES, LARGE, b"later"]


def test_lines_that_are_left_out_or_added_are_noticed(bring: Spoolrack, archive: Path) -> None:
    parts = archive.read_bytes().splitlines(keepends=True)
    archive.write_bytes(b"".join([*parts[:5], *parts[6:]]))
    assert bring(str(archive)).code == 65
    archive.write_bytes(b"".join([*parts[:-2], parts[-1]]))
    assert "says it has another number" in bring(str(archive)).err
    archive.write_bytes(b"".join([*parts, parts[0]]))
    assert "has more after its end" in bring(str(archive)).err
    archive.write_bytes(b"".join(parts))
    assert bring(str(archive)).code == 0


def test_every_line_of_an_archive_has_its_checksum(archive: Path) -> None:
    for line in archive.read_bytes().splitlines():
        head, _, tail = line.rpartition(b',"crc32":"')
        assert int(tail[:8], 16) == zlib.crc32(head)
    first, *queues_and_messages, last = lines(archive)
    assert first["format"] == "spoolrack archive 1"
    assert [line["type"] for line in queues_and_messages] == ["queue"] * 2 + ["message"] * 9
    assert last["messages"] == 9


def test_text_is_readable_in_an_archive(archive: Path) -> None:
    bodies = [line.get("body") for line in lines(archive) if line["type"] == "message"]
    assert bodies == ["", "text\n", None, "ö", None, '"\\\n' * 50, None, "later", "dead"]


def test_nothing_is_written_over(offline: Spoolrack, there: str, archive: Path) -> None:
    before = archive.read_bytes()
    done = offline("export", "jobs", "--root", there, "--output", str(archive))
    assert (done.code, "is there already" in done.err) == (1, True)
    assert archive.read_bytes() == before
    assert list(archive.parent.glob("*.part")) == []


def test_a_queue_that_is_not_there_leaves_no_file(
    offline: Spoolrack, there: str, tmp_path: Path
) -> None:
    path = tmp_path / "new"
    assert offline("export", "jobs", "absent", "--root", there, "-o", str(path)).code == 1
    assert not path.exists()


def test_a_queue_that_is_there_keeps_its_settings(
    on_root: Spoolrack, bring: Spoolrack, archive: Path
) -> None:
    on_root("queues", "create", "dead", "--retention", "1d")
    done = bring(str(archive))
    assert (done.code, "dead is there already, and keeps its own retention" in done.err) == (0, True)


def test_a_queue_comes_without_its_dead_letter_queue(
    offline: Spoolrack, bring: Spoolrack, there: str, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "jobs-only"
    assert offline("export", "jobs", "--root", there, "-o", str(path)).code == 0
    done = bring(str(path), "--queue", "work")
    assert (done.code, "without a dead-letter queue" in done.err) == (0, True)
    assert len(held(f"file://{root}", "work")) == 8
    with connect(f"file://{root}") as client:
        assert client.queue("work").info().labels == {"team": "checkout"}


def test_one_name_is_not_for_two_queues(bring: Spoolrack, archive: Path) -> None:
    done = bring(str(archive), "--queue", "work")
    assert (done.code, "has 2 queues" in done.err) == (65, True)


def written(path: Path, *changed: dict[str, Any]) -> Path:
    """Return an archive of one message with these changes to its lines, and sums that are right."""
    usual: list[dict[str, Any]] = [
        {"type": "archive", "format": FORMAT, "id": ID, "time": "2026-01-01T00:00:00+00:00"},
        {"type": "queue", "name": "jobs", "settings": {}},
        {"type": "message", "number": 1, "queue": "jobs", "body": "a"},
        {"type": "end", "messages": 1},
    ]
    whole = zip_longest(usual, changed, fillvalue={})
    # As other languages may write JSON, in ASCII alone.
    heads = [json.dumps({**line, **change}).encode()[:-1] for line, change in whole]
    path.write_bytes(b"".join(b'%s,"crc32":"%08x"}\n' % (head, zlib.crc32(head)) for head in heads))
    return path


@pytest.mark.parametrize(
    "changed",
    [
        [{"id": "jobs"}],
        [{"id": None}],
        [{"id": "\ud800"}],
        [{}, {"name": 5}],
        [{}, {"settings": None}],
        [{}, {"settings": {"visibility_timeout": float("inf")}}],
        [{}, {"settings": {"retention": float("nan")}}],
        [{}, {"settings": {"dead_letter_queue": ["jobs"], "max_receives": 1}}],
        [{}, {}, {"number": 2}],
        [{}, {}, {"queue": ["jobs"]}],
        [{}, {}, {"queue": "another"}],
        [{}, {}, {"body": 5}],
        [{}, {}, {"body": "\ud800"}],
        [{}, {}, {"attributes": {"a": 1}}],
        [{}, {}, {"attributes": ["ab"]}],
        [{}, {}, {"attributes": {"a": {"b": "c"}}}],
        [{}, {}, {"binary_attributes": {"a": "%"}}],
        [{}, {}, {"visible_at": "soon"}],
        [{}, {}, {}, {"messages": 2}],
        [{}, {}, {}, {}, {"type": "message", "number": 2}],
    ],
    ids=str,
)
def test_a_line_that_no_export_writes_is_refused_though_its_sum_is_right(
    bring: Spoolrack, tmp_path: Path, changed: list[dict[str, Any]]
) -> None:
    done = bring(str(written(tmp_path / "archive", *changed)))
    assert done.code == 65, done.err
    assert f"{tmp_path}/archive " in done.err


def test_an_archive_from_a_pipe_names_no_file_elsewhere(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    path = written(tmp_path / "archive", {"id": "../outside"})
    with path.open("rb") as content:
        done = subprocess.run(
            [*PROGRAM, "import", "-", "--root", "root"], stdin=content, cwd=here, timeout=60
        )
    assert done.returncode == 65
    assert list(here.iterdir()) == []
    assert {each.name for each in tmp_path.iterdir()} == {"archive", "here"}


def test_an_archive_by_hand_is_as_good(bring: Spoolrack, tmp_path: Path, root: Path) -> None:
    changes = {"attributes": {"a": "b"}, "binary_attributes": {"c": "AA=="}, "later": "a new field"}
    assert bring(str(written(tmp_path / "archive", {}, {}, changes))).code == 0
    (message,) = held(f"file://{root}", "jobs")
    assert message.attributes == {"a": "b", "c": b"\0", ORIGIN: f"archive:{ID}/1"}


def test_an_import_that_is_refused_leaves_no_trace(
    bring: Spoolrack, tmp_path: Path, root: Path
) -> None:
    done = bring(str(written(tmp_path / "archive", {}, {"name": "../jobs"}, {"queue": "../jobs"})))
    assert (done.code, "'../jobs' can't be a queue's name" in done.err) == (2, True)
    assert "goes on from here" not in done.err, "it would end like this again"
    assert [path.name for path in tmp_path.iterdir() if path.name != "root"] == ["archive"]
    assert bring(str(tmp_path / "archive"), "--queue", "jobs").code == 0


def test_an_invalid_archive_is_refused(bring: Spoolrack, tmp_path: Path, root: Path) -> None:
    other = tmp_path / "other"
    for content in (b"", b"hello", b"hello\n", b"{}\n", b"\x00" * 10_000):
        other.write_bytes(content)
        assert bring(str(other)).code == 65
    assert bring(str(tmp_path / "absent")).code == 66
    assert not root.exists()
    assert list(tmp_path.glob("*.import")) == []
