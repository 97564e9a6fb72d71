"""A root is a table without a server: each message in one row, with what its names and files tell."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spoolrack
from pyspark.sql import SparkSession
from spoolrack.spark import _root_reader
from spoolrack.spark._options import InvalidOption
from spoolrack_store.files import layout
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord, encode_records
from spoolrack_store.model.sealed import seal
from spoolrack_store.model.stage_names import Manifest

from benchmarks.made_root import MadeRoot

NOW = 1_800_000_000_000
DAY = 86_400_000
NAMES = "queue,state,id,sent_at,receive_count,is_dead_letter,approximate_size,file,error"


@pytest.fixture
def made(tmp_path: Path) -> MadeRoot:
    return MadeRoot(tmp_path / "root")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def client(root: Path) -> Iterator[spoolrack.Client]:
    with spoolrack.connect(f"file://{root}") as client:
        yield client


def rows_of(path: Path, **options: object) -> list[dict[str, Any]]:
    """Return all rows, without Spark."""
    read = _root_reader.root_options(
        {"path": str(path), **{name: str(it) for name, it in options.items()}}
    )
    shares = _root_reader.ranges(read)
    return [
        row for share in shares for batch in _root_reader.read(read, share) for row in batch.to_pylist()
    ]


def test_every_message_is_a_row_with_its_queue_and_its_state(
    spark: SparkSession, root: Path, client: spoolrack.Client
) -> None:
    client.create_queue("dead")
    client.create_queue("jobs", max_receives=1, dead_letter_queue="dead")
    jobs = client.queue("jobs")
    poisonous = jobs.send(b"poisonous")
    for message in jobs.receive(1):
        message.release(reason="no such order")
    jobs.receive(1)
    together = {sent.id for sent in jobs.send_many([b"one", b"two", b"three"])}
    leased = {message.id for message in jobs.receive(2)}
    late = jobs.send(b"later", delay=3600)
    jobs.delete_by_id(jobs.send(b"deleted"))
    own = client.queue("dead").send(b"sent to the dead-letter queue itself")
    with jobs.batch(publish=False) as batch:
        batch.send(b"not published")

    table = spark.read.format("spoolrack.root").option("bodies", True).load(str(root))
    rows = {row.id: row for row in table.collect()}

    assert table.count() == len(rows)
    staged = {id for id, row in rows.items() if row.state == "staged"}
    assert len(staged) == 1
    found = {
        id: (row.queue, row.state, row.is_dead_letter, row.receive_count) for id, row in rows.items()
    }
    assert found == {
        poisonous: ("dead", "ready", True, 0),
        own: ("dead", "ready", False, 0),
        late: ("jobs", "delayed", False, 0),
        **dict.fromkeys(staged, ("jobs", "staged", False, 0)),
        **dict.fromkeys(leased, ("jobs", "leased", False, 1)),
        **dict.fromkeys(together - leased, ("jobs", "ready", False, 0)),
    }
    assert {row.body.decode(): row.body_size for row in rows.values()} == {
        text: len(text)
        for text in [
            *("poisonous", "one", "two", "three", "later", "not published"),
            "sent to the dead-letter queue itself",
        ]
    }
    assert all((row.lease_expires_at is None) == (row.state != "leased") for row in rows.values())
    assert all((row.deliver_at is None) == (row.state != "delayed") for row in rows.values())
    assert not [row.error for row in rows.values() if row.error]
    (record,) = rows[poisonous].dead_letter_records
    assert (record.source_queue, record.reason, record.receive_count) == ("jobs", "max_receives", 1)
    assert record.explanation == "no such order"
    assert not rows[own].dead_letter_records


def test_attributes_group_and_key_are_in_columns(root: Path, client: spoolrack.Client) -> None:
    client.create_queue("jobs")
    jobs = client.queue("jobs")
    jobs.send(
        b"alone", attributes={"kind": "a", "raw": b"\xff"}, group="g", priority=2, deduplication_id="1"
    )
    jobs.send_many(
        [spoolrack.Outgoing(body=b"two", attributes={"kind": "b"}, deduplication_id="2"), b"three"]
    )

    alone, two, three = sorted(rows_of(root), key=lambda row: row["id"])

    assert (alone["attributes"], alone["binary_attributes"]) == ([("kind", "a")], [("raw", b"\xff")])
    assert (alone["group"], alone["priority"]) == ("g", 2)
    assert len(alone["deduplication_key"]) == 26
    assert two["attributes"] == [("kind", "b")]
    assert len(two["deduplication_key"]) == 26
    assert (three["attributes"], three["group"], three["deduplication_key"]) == ([], None, None)
    assert "body" not in three


def test_the_lease_of_a_reserved_message_ends_with_the_hold_of_its_set(
    root: Path, client: spoolrack.Client
) -> None:
    client.create_queue("jobs")
    jobs = client.queue("jobs")
    jobs.send(b"alone")
    jobs.send_many([b"one", b"two"])
    jobs.reserve("s", 0, visibility_timeout=60)
    ends = client.reservations.extend("s", 0, 3600).expires_at

    for columns in ("id,lease_expires_at", "id,lease_expires_at,body_size"):
        rows = rows_of(root, columns=columns)
        assert [row["lease_expires_at"] for row in rows] == [ends] * 3


def test_a_table_has_the_columns_that_are_asked_for_and_opens_no_file_for_those_of_names(
    spark: SparkSession, made: MadeRoot
) -> None:
    made.batch("jobs", NOW, 7)  # its file is empty: one that is opened is an error

    table = (
        spark.read.format("spoolrack.root").option("columns", "state, id, error").load(str(made.path))
    )

    assert table.columns == ["state", "id", "error"]
    assert {(row.state, row.error) for row in table.collect()} == {("ready", None)}
    assert table.count() == 7


def test_a_name_of_the_highest_version_that_lists_a_message_counts(made: MadeRoot) -> None:
    stem = made.stem(NOW, 5)
    (made.path / "queues" / "jobs").mkdir()
    made.put(
        [
            f"queues/jobs/{stem.text},v2",
            f"delay/jobs:{stem.text},v3,i0-2,r1,f{NOW}@{NOW}~0123456789abc",
            f"remove/jobs:{stem.text},v4,i0,r1,f{NOW}",
        ]
    )

    rows = rows_of(made.path, columns=NAMES, numPartitions=2)

    assert Counter(row["state"] for row in rows) == {"ready": 2, "leased": 2}
    assert sum(row["approximate_size"] for row in rows) == 400
    with_deleted = rows_of(made.path, columns=NAMES, states="ready,leased,removed")
    assert Counter(row["state"] for row in with_deleted) == {"ready": 2, "leased": 2, "removed": 1}


def test_each_message_of_a_batch_is_a_row_of_the_queue_that_it_died_into(made: MadeRoot) -> None:
    stem, file = made.stem(NOW, 4), "0123uv"
    for queue in ("jobs", "dead"):
        (made.path / "queues" / queue).mkdir()
    made.put(
        [
            f"queues/jobs/{stem.text},v2",
            f"queues/dead/{stem.text},v3,i1,d{NOW}.m2..jobs",
            f"queues/dead/{stem.text},v4,i2,h{file}",
            f"queues/dead/{stem.text},v5,i3,hvvvvvv",
        ]
    )
    record = DeadLetterRecord(
        source_queue="jobs",
        reason="rejected",
        receive_count=1,
        first_received_at=None,
        dead_lettered_at=Millis(NOW),
        explanation="why",
    )
    (made.path / "dead_letters" / f"{stem.id}.{file}").write_bytes(encode_records([record]))

    rows = rows_of(made.path, columns="id,queue,is_dead_letter,dead_letter_records,error")

    found = {row["id"]: row for row in rows}
    assert [found[id]["queue"] for id in map(stem.message_id, range(4))] == ["jobs", *["dead"] * 3]
    told = [found[id]["dead_letter_records"] for id in map(stem.message_id, range(4))]
    assert told[0] == []
    assert [each["reason"] for each in told[1]] == ["max_receives"]
    assert [each["explanation"] for each in told[2]] == ["why"]
    assert told[3] is None
    assert "hvvvvvv" in found[stem.message_id(3)]["error"]
    are_dead = [found[id]["is_dead_letter"] for id in map(stem.message_id, range(4))]
    assert are_dead == [False, True, True, True]


def test_a_redriven_message_is_no_dead_letter_and_one_of_a_strict_queue_is(made: MadeRoot) -> None:
    """A death in a strict queue begins a message's age anew, as a redrive does, by the same tag."""
    stem, file, later = made.stem(NOW, 4), "0123uv", NOW + 5
    for queue in ("jobs", "dead"):
        (made.path / "queues" / queue).mkdir()
    made.put(
        [
            f"queues/jobs/{stem.text},v2,i0,d{NOW}.m2..jobs,t{later}",
            f"queues/dead/{stem.text},v3,i1,d{NOW}.m2..jobs,t{NOW}",
            f"queues/jobs/{stem.text},v4,i2,h{file},t{later}",
            f"queues/dead/{stem.text},v5,i3,h{file},t{NOW}",
        ]
    )
    record = DeadLetterRecord(
        source_queue="jobs",
        reason="rejected",
        receive_count=1,
        first_received_at=None,
        dead_lettered_at=Millis(NOW),
        explanation="why",
    )
    (made.path / "dead_letters" / f"{stem.id}.{file}").write_bytes(encode_records([record]))

    rows = {row["id"]: row["is_dead_letter"] for row in rows_of(made.path, columns="id,is_dead_letter")}

    assert [rows[id] for id in map(stem.message_id, range(4))] == [False, True, False, True]


@pytest.mark.parametrize("partitions", [0, 1, 2, 7])
def test_each_message_is_in_one_partition(made: MadeRoot, partitions: int) -> None:
    made.ready("jobs", NOW, 300)
    made.dead("dead", NOW - DAY, 300)
    made.hidden("jobs", NOW - 2 * DAY, 300, due=NOW, leased=True)
    for number in range(30):
        made.batch("jobs", NOW - number * DAY, 10)

    options = {"path": str(made.path), "columns": "id", "numPartitions": str(partitions)}
    read = _root_reader.root_options(options)
    shares = [
        [id for batch in _root_reader.read(read, share) for id in batch.column("id").to_pylist()]
        for share in _root_reader.ranges(read)
    ]

    ids = [id for share in shares for id in share]
    assert len(ids) == len(set(ids)) == 1200
    assert len(shares) == max(1, partitions)
    assert all(len(share) > 100 for share in shares)


def test_a_staged_message_is_told_apart_and_a_dropped_one_is_not_told(made: MadeRoot) -> None:
    made.staged(f"load@{NOW}", 0, "jobs", NOW, 3)
    made.staged(f"older@{NOW}", 0, "jobs", NOW, 4)
    made.put([f"staged/older@{NOW}~dropped"])

    rows = rows_of(made.path, columns=NAMES, numPartitions=2)

    assert Counter(row["state"] for row in rows) == {"staged": 3}


def test_the_messages_of_a_published_stage_that_are_not_yet_in_their_queue_are_new(
    made: MadeRoot,
) -> None:
    made.staged(f"load@{NOW}", 0, "jobs", NOW, 3)
    made.staged(f"other@{NOW}", 0, "jobs", NOW, 4)
    published = Manifest(
        stages={f"load@{NOW}": ""},
        queues={},
        messages=3,
        digest="",
        published_at=Millis(NOW),
        epoch_retention=Millis(DAY),
    )
    (made.path / "published" / "load.0").write_bytes(published.encode())
    (made.path / "published" / "other.0").write_bytes(b"torn")

    rows = rows_of(made.path, columns=NAMES)

    assert Counter(row["state"] for row in rows) == {"new": 3, "staged": 4}


def test_the_messages_of_a_deleted_queue_are_deleted(made: MadeRoot) -> None:
    made.ready("jobs", NOW, 2)
    made.ready("other", NOW, 3)
    for version, is_deleted in ((1, False), (2, True)):
        sealed = seal({"created_at": 1, "deleted": is_deleted})
        (made.path / "config" / f"jobs.{version}.json").write_bytes(sealed)
    (made.path / "config" / "jobs.3.json").write_text("{")

    assert Counter(row["queue"] for row in rows_of(made.path, columns=NAMES)) == {"other": 3}
    assert len(rows_of(made.path, columns=NAMES, states="removed")) == 2


def test_rows_are_chosen_by_queue_state_and_time(made: MadeRoot) -> None:
    made.ready("orders-a", NOW, 1)
    made.ready("orders-b", NOW - DAY, 2)
    made.batch("orders-b", NOW, 4)
    made.ready("jobs", NOW, 8)
    made.hidden("jobs", NOW - DAY, 16, due=NOW, leased=True)
    moment = "2027-01-15T08:00:00"  # NOW

    def count(**options: str) -> int:
        return len(rows_of(made.path, columns="id", **options))

    assert count() == 31
    assert count(queue="orders-*") == 7
    assert count(queue="orders-a, jobs") == 25
    assert count(states="leased") == 16
    assert count(sentAfter=moment) == 13
    assert count(sentBefore=moment) == 18
    assert count(sentAfter="2027-01-14T09:00:00+01:00", sentBefore=moment, queue="jobs") == 16


def test_a_damaged_file_costs_its_own_rows_and_says_so(root: Path, client: spoolrack.Client) -> None:
    client.create_queue("jobs")
    jobs = client.queue("jobs")
    for number in range(4):
        jobs.send_many([f"{number}-{body}".encode() for body in "abc"])
    files = sorted((root / "queues" / "jobs").iterdir())
    with files[0].open("r+b") as file:
        file.write(b"X")  # the first body
    with files[1].open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"X")  # the line
    with files[2].open("r+b") as file:
        file.truncate(5)

    rows = sorted(rows_of(root, bodies=True), key=lambda row: row["id"])

    assert len(rows) == 12
    assert [row["body"] for row in rows] == [None, b"0-b", b"0-c", *[None] * 6, b"3-a", b"3-b", b"3-c"]
    errors = [row["error"] for row in rows]
    assert "its checksum differs" in errors[0]
    assert errors[0].startswith(f"queues/jobs/{files[0].name}: ")
    assert all("checksum of its line" in error for error in errors[3:6])
    assert all("5 bytes instead of" in error for error in errors[6:9])
    assert errors[1:3] + errors[9:] == [None] * 5
    with pytest.raises(_root_reader.UnreadableFile, match="onError"):
        rows_of(root, bodies=True, onError="fail")


def test_a_file_that_is_no_message_is_a_row_and_stops_nothing(made: MadeRoot) -> None:
    made.ready("jobs", NOW, 2)
    made.put(["queues/jobs/README", "delay/what is this", "new/jobs:0@soon", "staged/?", "new/x.copy"])
    (made.path / "queues" / "jobs" / os.fsdecode(b"\xff")).touch()
    pipe = f"queues/jobs/{made.stem(NOW).text}"
    os.mkfifo(made.path / pipe)

    rows = rows_of(made.path, columns=f"{NAMES},body", bodies=True)

    assert Counter(row["state"] for row in rows) == {"ready": 3, "foreign": 5}
    assert all("not the name of a message" in row["error"] for row in rows if row["state"] == "foreign")
    (found,) = [row["error"] for row in rows if row["file"] == pipe]
    assert "no regular file" in found
    assert Counter(row["queue"] for row in rows if row["state"] == "foreign") == {"jobs": 3, "": 2}


def test_a_message_that_moves_while_it_is_read_is_a_row(root: Path, client: spoolrack.Client) -> None:
    client.create_queue("jobs")
    jobs = client.queue("jobs")
    for number in range(3):
        jobs.send(str(number).encode())
    options = _root_reader.root_options({"path": str(root), "bodies": "true"})
    (share,) = _root_reader.ranges(options)
    reading = _root_reader._RangeReader(options, share)
    listed = reading._root.all_names

    def move_after_the_list() -> dict[str, list[str]]:
        found = listed()
        reading._root.all_names = listed  # type: ignore[method-assign]
        leased = jobs.receive(2)
        leased[0].delete()
        for name in (root / "queues" / "jobs").iterdir():
            # As the reaper does: names that hold nothing go.
            if leased[0].id in name.name or leased[1].id in name.name:
                name.unlink()
        return found

    reading._root.all_names = move_after_the_list  # type: ignore[method-assign]
    rows = [row for batch in reading.batches() for row in batch.to_pylist()]

    assert sorted((row["body"], row["state"]) for row in rows) == [(b"1", "leased"), (b"2", "ready")]


def test_beside_a_store_at_work_each_message_that_stays_is_one_row(
    root: Path, client: spoolrack.Client
) -> None:
    client.create_queue("jobs")
    jobs = client.queue("jobs")
    stay = {sent.id for _ in range(5) for sent in jobs.send_many([b"stays"] * 40)}
    ended = threading.Event()
    moves = 0

    def move() -> None:
        nonlocal moves
        while not ended.is_set():
            gone = {sent.id for sent in jobs.send_many([b"goes"] * 5)}
            for message in jobs.receive(60):
                if message.id in gone:
                    message.delete()
                else:
                    message.release()
                moves += 1

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for bodies in (False, True) * 10:
            rows = rows_of(root, columns="id, error", bodies=bodies, numPartitions=2)
            ids = [row["id"] for row in rows]
            assert len(ids) == len(set(ids))
            assert stay <= set(ids)
            assert [row["error"] for row in rows if row["error"]] == []
    finally:
        ended.set()
        mover.join()
    assert moves


def test_a_message_of_an_archive_is_a_row_if_that_is_asked_for(made: MadeRoot) -> None:
    made.ready("jobs", NOW, 1)
    (made.path / "archive" / "jobs" / "2026-11-23").mkdir(parents=True)
    made.put([f"archive/jobs/2026-11-23/{made.stem(NOW, 3).text}"])

    assert len(rows_of(made.path, columns=NAMES)) == 1
    rows = rows_of(made.path, columns=NAMES, states="archived")
    assert [(row["queue"], row["state"]) for row in rows] == [("jobs", "archived")] * 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"columns": "id,size"}, "columns has size"),
        ({"states": "redy"}, "states has redy"),
        ({"sentAfter": "yesterday"}, "2026-11-23T16:00:00"),
        ({"onError": "ignore"}, "'report' or 'fail'"),
        ({"bodies": "yes"}, "'true' or 'false'"),
        ({"queues": "jobs"}, "is it queue"),
    ],
)
def test_an_option_that_cannot_be_is_refused(
    made: MadeRoot, options: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidOption, match=says):
        rows_of(made.path, **options)


def test_a_folder_that_is_no_root_is_an_error_and_not_an_empty_table(
    tmp_path: Path, made: MadeRoot
) -> None:
    with pytest.raises(InvalidOption, match="has no file FORMAT"):
        rows_of(tmp_path)
    (made.path / layout.FORMAT).write_bytes(b"spoolrack 1\n")
    with pytest.raises(InvalidOption, match="use the version that wrote it"):
        rows_of(made.path)


def test_without_the_store_an_error_names_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    from spoolrack.spark import _root_source

    monkeypatch.delattr("spoolrack.spark._root_reader")
    for name in [name for name in sys.modules if name.startswith("spoolrack_store")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "spoolrack.spark._root_reader")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not entry.endswith("/server")])

    with pytest.raises(ImportError, match="install 'spoolrack\\[spark\\]'"):
        _root_source.SpoolrackRootDataSource({"path": "/srv/queues"}).schema()
