"""`spoolrack import --from vsqs|mq`: every message of a folder comes to be in a queue, once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack import MessageState, connect
from spoolrack.testing import RunningServer

from tests.cli.cli_rig import FAST, Spoolrack
from tests.cli.moving_rig import BODIES, FIRST, bodies_in, held, in_an_hour, vsqs_folder
from tests.support.relayed_server import Fault, relayed_server

VSQS_USER = Path(__file__).parents[1] / "vsqs" / "user.py"


@pytest.fixture
def url(root: Path) -> str:
    return f"file://{root}"


def test_a_folder_of_vsqs_comes_in_whole_and_in_order(
    bring: Spoolrack, url: str, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    vsqs_folder(jobs, BODIES, leased=[2])
    (jobs / f"{FIRST + 90}.new").write_bytes(b"unfinished")
    (jobs / f"{FIRST + 91}.{FIRST + 92}").write_bytes(b"its lease is over")
    (jobs / "notes").write_bytes(b"no message")
    done = bring("--from", "vsqs", str(jobs))
    assert (done.code, done.out) == (0, "")
    assert "imported 7 messages into jobs" in done.err
    assert "left alone: 1 file" in done.err
    messages = held(url, "jobs")
    assert [message.body for message in messages] == [*BODIES, b"its lease is over"]
    assert [m.state for m in messages].index(MessageState.DELAYED) == 2
    end = messages[2].deliver_at
    assert end is not None
    assert 3_500 < end.timestamp() - time.time() <= 3_601
    assert messages[0].attributes == {"imported-from": f"vsqs://{jobs}/{FIRST}"}
    assert sorted(path.name for path in jobs.iterdir()) == [f"{FIRST + 90}.new", "notes"]
    assert not jobs.with_name("jobs.import").exists(), "there is nothing left to be remembered"


def test_kept_files_are_not_imported_again_and_can_be_removed_later(
    bring: Spoolrack, url: str, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    before = vsqs_folder(jobs, BODIES)
    state = str(tmp_path / "elsewhere")
    how = ("--from", "vsqs", str(jobs), "--queue", "work", "--state", state)
    assert bring(*how, "--keep").code == 0
    assert {path.name: path.read_bytes() for path in jobs.iterdir()} == before
    (jobs / str(FIRST + 50)).write_bytes(b"new")
    again = bring(*how, "--keep")
    assert "imported 1 message into work" in again.err
    assert "6 messages had been imported before" in again.err
    assert bodies_in(url, "work") == [*BODIES, b"new"]
    assert bring(*how).code == 0
    assert list(jobs.iterdir()) == []
    assert not os.path.exists(state)
    assert len(held(url, "work")) == 7


def test_the_real_vsqs_is_left_for_good(bring: Spoolrack, url: str, tmp_path: Path) -> None:
    """Folders as vsqs 0.3 itself writes them, a leased message among them."""
    user = [sys.executable, str(VSQS_USER), "original", str(tmp_path), "jobs"]
    subprocess.run([*user, "produce", "a", "20"], check=True, stdout=subprocess.PIPE, timeout=60)
    lease = b'["receive", [], {"visibility_timeout": 3600}]\n'
    leased = subprocess.run(
        [*user, "obey"], input=lease, stdout=subprocess.PIPE, check=True, timeout=60
    )
    assert b"a/0" in leased.stdout
    assert bring("--from", "vsqs", str(tmp_path / "jobs")).code == 0
    messages = held(url, "jobs")
    assert [message.text for message in messages] == [f"a/{number}" for number in range(20)]
    assert [m.text for m in messages if m.state is MessageState.DELAYED] == ["a/0"]
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_root_of_mq_comes_in_with_all_its_queues(bring: Spoolrack, url: str, tmp_path: Path) -> None:
    mq = tmp_path / "mq"
    for folder in ("new", "queues/one", "queues/two", "queues/empty", "delay", "remove"):
        (mq / folder).mkdir(parents=True)
    # Of one host: their order is that of their times, which is not that of their text.
    ids = [str(uuid.UUID(fields=(low, 1, 0x11EF, 0x80, 1, 7))) for low in (0xF0, 0xF1, 0xF2, 0xF3)]
    ids.append(str(uuid.UUID(fields=(0x01, 2, 0x11EF, 0x80, 1, 7))))
    (mq / "queues/one" / ids[4]).write_bytes(b"5th")
    (mq / "queues/one" / ids[2]).write_bytes(b"3rd")
    (mq / "queues/one" / ids[0]).write_bytes(b"1st \xff")
    (mq / "delay" / f"one:{ids[1]}").write_bytes(b"2nd")
    (mq / "new" / f"one:{ids[3]}").write_bytes(b"4th")
    (mq / "new" / f"three:{ids[0]}").write_bytes(b"sent to a queue that never was")
    (mq / "new" / "nobody").write_bytes(b"no message")
    (mq / "queues/two" / ids[0]).write_bytes(b"x" * 2_000_000)
    (mq / "remove" / f"one:{ids[0]}").write_bytes(b"removed")
    done = bring("--from", "mq", str(mq), "--mover-delay", "1h")
    assert done.code == 0
    assert "imported 5 messages into one" in done.err
    messages = held(url, "one")
    assert [message.body for message in messages] == [b"1st \xff", b"2nd", b"3rd", b"4th", b"5th"]
    assert [m.body for m in messages if m.state is MessageState.DELAYED] == [b"2nd"]
    assert bodies_in(url, "two") == [b"x" * 2_000_000]
    assert bodies_in(url, "three") == [b"sent to a queue that never was"]
    assert bodies_in(url, "empty") == []
    left = sorted(str(path.relative_to(mq)) for path in mq.rglob("*") if path.is_file())
    assert left == ["new/nobody", f"remove/one:{ids[0]}"]


def test_an_unsendable_file_stays_and_is_named(
    on_root: Spoolrack, bring: Spoolrack, url: str, tmp_path: Path
) -> None:
    on_root("queues", "create", "jobs", "--max-message-size", "10")
    jobs = tmp_path / "jobs"
    vsqs_folder(jobs, [b"small", b"much too large", b"small too"])
    done = bring("--from", "vsqs", str(jobs))
    assert done.code == 65
    assert f"message {FIRST + 1} is not imported" in done.err
    assert [path.name for path in jobs.iterdir()] == [str(FIRST + 1)]
    on_root("queues", "set", "jobs", "--max-message-size", "1k")
    assert bring("--from", "vsqs", str(jobs)).code == 0
    assert bodies_in(url, "jobs") == [b"small", b"small too", b"much too large"]


def test_a_full_queue_ends_it_and_room_lets_it_go_on(
    on_root: Spoolrack, bring: Spoolrack, url: str, tmp_path: Path
) -> None:
    on_root("queues", "create", "jobs", "--max-messages", "2")
    jobs = tmp_path / "jobs"
    vsqs_folder(jobs, [b"a", b"b", b"c"])
    done = bring("--from", "vsqs", str(jobs), "--timeout", "0.9s")
    assert done.code == 75
    assert "goes on from here" in done.err
    on_root("queues", "set", "jobs", "--max-messages", "0")
    assert bring("--from", "vsqs", str(jobs)).code == 0
    assert bodies_in(url, "jobs") == [b"a", b"b", b"c"]


def test_another_queue_of_the_same_name_is_not_taken_for_the_first(
    on_root: Spoolrack, bring: Spoolrack, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    vsqs_folder(jobs, [b"a"])
    assert bring("--from", "vsqs", str(jobs), "--keep").code == 0
    assert on_root("queues", "delete", "jobs").code == 0
    done = bring("--from", "vsqs", str(jobs), "--keep")
    assert (done.code, "is not the one into which" in done.err) == (2, True)


def test_two_imports_of_one_source_do_not_meet(bring: Spoolrack, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    vsqs_folder(jobs, [b"a"])
    with (tmp_path / "jobs.import").open("wb") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        done = bring("--from", "vsqs", str(jobs))
    assert (done.code, "Another import is at work" in done.err) == (75, True)


def test_a_line_of_the_state_that_was_cut_short_is_written_again(
    bring: Spoolrack, url: str, tmp_path: Path
) -> None:
    jobs, state = tmp_path / "jobs", tmp_path / "state"
    how = ("--from", "vsqs", str(jobs), "--state", str(state), "--keep")
    vsqs_folder(jobs, BODIES)
    assert bring(*how).code == 0
    with state.open("ab") as file:
        file.write(b'{"sending":["1')
    for number, body in enumerate((b"7th", b"8th"), 60):
        (jobs / str(FIRST + number)).write_bytes(body)
        again = bring(*how)
        assert (again.code, "imported 1 message into jobs" in again.err) == (0, True), again.err
    assert bodies_in(url, "jobs") == [*BODIES, b"7th", b"8th"]


@pytest.mark.parametrize("cut", ["", "{", '{"jour', '{"journal":"spoolrack import 1","sou'])
def test_a_state_whose_first_line_was_cut_short_is_begun_again(
    bring: Spoolrack, url: str, tmp_path: Path, cut: str
) -> None:
    jobs, state = tmp_path / "jobs", tmp_path / "state"
    vsqs_folder(jobs, BODIES)
    state.write_text(cut)
    assert bring("--from", "vsqs", str(jobs), "--state", str(state), "--keep").code == 0
    assert bodies_in(url, "jobs") == [*BODIES]


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ('{"name": "notes"}\n', 2, "is not what an import has noted: name another file with --state"),
        ("spoolrack 4\n", 2, "is not what an import has noted"),
        ("notes", 2, "is not what an import has noted"),
        ("first line\nsecond line\n", 2, "is not what an import has noted"),
        (
            '{"journal": "spoolrack import 1", "source": "vsqs:///elsewhere"}\n',
            2,
            "belongs to the import of vsqs:///elsewhere, and this is vsqs://",
        ),
        ('{"journal": "spoolrack import 1", "sour\n{}\n', 65, "line 1 is damaged"),
    ],
)
def test_a_state_of_another_kind_or_import_is_refused_and_kept(
    bring: Spoolrack, tmp_path: Path, content: str, code: int, words: str
) -> None:
    jobs, state = tmp_path / "jobs", tmp_path / "state"
    before = vsqs_folder(jobs, BODIES)
    state.write_text(content)
    done = bring("--from", "vsqs", str(jobs), "--state", str(state))
    assert done.code == code
    assert f"{state}" in done.err
    assert words in done.err
    assert state.read_text() == content
    assert {path.name: path.read_bytes() for path in jobs.iterdir()} == before


def test_an_invalid_source_is_refused(
    bring: Spoolrack, on_root: Spoolrack, root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    for kind in ("vsqs", "mq"):
        assert bring("--from", kind, str(tmp_path / "absent")).code == 66
        assert bring("--from", kind, str(file)).code == 66
        assert bring("--from", kind, "").code == 2
    assert bring("--from", "mq", str(tmp_path)).code == 2
    assert bring("--from", "mq", str(tmp_path), "--queue", "jobs").code == 2
    on_root("queues", "create", "jobs")
    for kind in ("vsqs", "mq"):
        done = bring("--from", kind, str(root))
        assert (done.code, "is a root of Spoolrack" in done.err) == (2, True)


def test_the_folder_of_all_queues_is_not_taken_for_one(bring: Spoolrack, tmp_path: Path) -> None:
    vsqs_folder(tmp_path / "vsqs/jobs", [b"a"])
    done = bring("--from", "vsqs", str(tmp_path / "vsqs"))
    assert (done.code, f"such as {tmp_path}/vsqs/jobs" in done.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["vsqs"]


def test_a_folder_inside_a_root_of_ours_is_refused(
    bring: Spoolrack, on_root: Spoolrack, root: Path, url: str
) -> None:
    on_root("send", "jobs", "--create", "a")
    for kind, folder in (("vsqs", "queues/jobs"), ("vsqs", "queues"), ("mq", "queues")):
        done = bring("--from", kind, f"{root}/{folder}")
        assert (done.code, f"is in {root}, a root of Spoolrack" in done.err) == (2, True)
    assert not os.path.exists(f"{root}/queues/jobs.import")
    assert bodies_in(url, "jobs") == [b"a"]


def test_a_folder_whose_name_no_queue_can_have_needs_another(
    bring: Spoolrack, url: str, tmp_path: Path
) -> None:
    odd = tmp_path / "a queue"
    vsqs_folder(odd, [b"a"])
    done = bring("--from", "vsqs", str(odd))
    assert (done.code, "'a queue' can't be a queue's name" in done.err) == (2, True)
    assert "goes on from here" not in done.err, "it would end like this again"
    assert [path.name for path in tmp_path.iterdir() if path.name != "root"] == ["a queue"]
    assert bring("--from", "vsqs", f"{odd}/", "--queue", "jobs").code == 0
    assert bodies_in(url, "jobs") == [b"a"]


@pytest.mark.parametrize("is_after", [False, True], ids=["before the call", "before the answer"])
def test_a_call_without_an_answer_is_not_made_twice(
    offline: Spoolrack, tmp_path: Path, is_after: bool
) -> None:
    jobs = tmp_path / "jobs"
    bodies = [b"a", b"b", b"c", b"d"]
    vsqs_folder(jobs, bodies, leased=[2])  # In a call of its own.
    with relayed_server("jobs") as server:
        server.faults.append(Fault(method="Send", skip=1, is_after=is_after))
        done = offline("import", "--from", "vsqs", str(jobs), "--url", server.endpoint, *FAST)
        assert (done.code, server.faults[0].times) == (0, 0)
        assert [message.body for message in server.client.queue("jobs").peek()] == bodies


def test_an_import_without_a_server_goes_on_once_there_is_one(
    start: Callable[..., subprocess.Popen[bytes]], server: RunningServer, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    vsqs_folder(jobs, BODIES)
    how = ("import", "--from", "vsqs", str(jobs), *FAST)
    server.stop()
    assert start(*how, "--timeout", "0.3s").wait(60) == 69
    waiting = start(*how, "--timeout", "60s")
    server.start()
    assert waiting.wait(60) == 0
    assert bodies_in(server.url, "jobs") == list(BODIES)


def test_a_message_that_is_in_doubt_is_found_while_it_is_leased(
    bring: Spoolrack, url: str, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    vsqs_folder(jobs, [b"a"])
    assert bring("--from", "vsqs", str(jobs), "--keep").code == 0
    journal = tmp_path / "jobs.import"
    # As a kill leaves it after the send.
    journal.write_bytes(journal.read_bytes().rpartition(b'{"sent"')[0] + b'{"se')
    with connect(url) as client:
        assert client.queue("jobs").receive()
        done = bring("--from", "vsqs", str(jobs))
        assert (done.code, "1 message had been imported before" in done.err) == (0, True)
        assert len(held(url, "jobs")) == 1


def test_a_lease_is_never_over_too_early(bring: Spoolrack, url: str, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    end = in_an_hour()
    (jobs / f"{FIRST}.{end}").write_bytes(b"a")
    assert bring("--from", "vsqs", str(jobs)).code == 0
    (message,) = held(url, "jobs")
    assert message.deliver_at is not None
    assert message.deliver_at.timestamp() * 1_000_000 > end - 2_000_000
