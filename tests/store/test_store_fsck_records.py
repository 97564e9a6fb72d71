"""An inspection looks at reservations, stages, publications and redrives, too."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store import fsck
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.fsck.findings import Remedy, Report
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.redrive_names import RedriveOrder
from spoolrack_store.model.reservation_names import Marker, ReservationRecord
from spoolrack_store.model.stage_names import Manifest

from tests.support.root_rig import NOW, Still, leased, make_root

ID = "018bcfe5-6800-7194-90e5-78aa9611a000"
SET_TOKEN = "g123456789abc"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def check(root: Path) -> Report:
    return fsck.check(root, clock=Still())


def put_a_set(root: Path) -> Path:
    path = root / "reserved" / f"reader.0@{NOW + 1000}"
    record = ReservationRecord(
        queue="q",
        token=SET_TOKEN,
        visibility_timeout=Millis(1000),
        made_at=NOW,
        size=0,
        files=(),
        receives=(),
    )
    path.write_bytes(record.encode())
    return path


def put_a_marker(root: Path) -> Path:
    path = root / "reserved" / "reader.7"
    path.write_bytes(Marker(sets=(7,), made_at=NOW).encode())
    return path


def put_a_manifest(root: Path) -> Path:
    path = root / "published" / "writer.7"
    made = Manifest(
        stages={f"nightly@{NOW}": ID},
        queues={"q": (NOW, 1)},
        messages=1,
        digest="",
        published_at=NOW,
        epoch_retention=Millis(1000),
    )
    path.write_bytes(made.encode())
    return path


def put_a_redrive(root: Path) -> Path:
    path = root / "redrives" / f"{ID},m0,f0@{NOW}"
    order = RedriveOrder(
        queue="dead",
        queue_created_at=NOW,
        destination="q",
        source_queue="",
        ids=(),
        rate=0,
        started_at=NOW,
    )
    path.write_bytes(order.encode())
    return path


RECORDS = [put_a_set, put_a_marker, put_a_manifest, put_a_redrive]
Put = Callable[[Path], Path]


def put_a_chunk(root: Path, name: str = f"nightly@{NOW + 1000}:7:q:{ID[:-1]}1,s5,c3610a686") -> Path:
    path = root / "staged" / name
    path.write_bytes(b"hello")
    return path


def test_a_whole_root_is_counted_and_has_no_problem(root: Path) -> None:
    for put in RECORDS:
        put(root)
    put_a_chunk(root)
    put_a_chunk(root, f"nightly@{NOW + 1000}:8+60000:q:{ID[:-1]}2,s5,c3610a686")
    report = check(root)
    assert not report.problems
    assert report.leftovers == []
    assert (report.reserved, report.published, report.staged) == (1, 1, 1)


@pytest.mark.parametrize("put", RECORDS, ids=lambda put: put.__name__)
def test_a_damaged_record_is_put_aside_and_a_torn_one_was_never_answered(root: Path, put: Put) -> None:
    path = put(root)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b":", b";", 1))
    (problem,) = check(root).problems
    assert problem.path == str(path.relative_to(root))
    assert problem.remedy is Remedy.QUARANTINE
    for torn in (whole[:-1], whole.splitlines(keepends=True)[0], b"", bytes(len(whole))):
        path.write_bytes(torn)
        report = check(root)
        assert not report.problems
        assert [each.path for each in report.leftovers] == [str(path.relative_to(root))]
    path.write_bytes(whole.replace(b":", b";", 1))
    fsck.repair(root, clock=Still())
    report = check(root)
    assert not report.problems
    assert [file.source for file in report.quarantined] == [problem.path]


def test_a_damaged_chunk_is_put_aside(root: Path) -> None:
    path = put_a_chunk(root)
    path.write_bytes(b"jello")
    (problem,) = check(root).problems
    assert (problem.path, problem.remedy) == (str(path.relative_to(root)), Remedy.QUARANTINE)
    fsck.repair(root, clock=Still())
    assert [file.source for file in check(root).quarantined] == [problem.path]


def test_a_chunk_that_is_torn_was_never_staged(root: Path) -> None:
    path = put_a_chunk(root)
    for content in (b"hell", bytes(5)):
        path.write_bytes(content)
        report = check(root)
        assert not report.problems
        assert "never staged" in report.leftovers[0].why


@pytest.mark.parametrize("call", ["facts", "read"])
def test_a_chunk_that_the_disk_refuses_to_show_is_left_to_the_operator(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = put_a_chunk(root)
    passed = getattr(LocalDisk, call)

    def refused(disk: LocalDisk, at: str, *rest: Any, **named: Any) -> Any:
        if at.startswith("staged/"):
            raise OSError(errno.EIO, "Input/output error")
        return passed(disk, at, *rest, **named)

    monkeypatch.setattr(LocalDisk, call, refused)
    (problem,) = check(root).problems
    assert (problem.path, problem.remedy) == (f"staged/{path.name}", Remedy.HAND)
    assert problem.why == "it can't be read: Input/output error"


def test_a_dropped_stage_and_a_redrive_under_way_are_unfinished(root: Path) -> None:
    (root / "staged" / f"nightly@{NOW}~dropped").write_bytes(b"")
    ended = put_a_redrive(root)
    ended.rename(ended.with_name(ended.name.partition("@")[0]))
    report = check(root)
    assert not report.problems
    words = [each.why for each in report.leftovers]
    assert "goes on" in words[0]
    assert "dropped" in words[1]


@pytest.mark.parametrize(
    "path",
    [
        "reserved/LOCK",
        "reserved/reader.07",
        "reserved/.hidden",
        "reserved/a.b.3",
        "reserved/s.3@17",
        f"reserved/s.3@{NOW}~los",
        f"reserved/s.{2**63}",
        f"staged/nightly@{NOW}",
        f"staged/nightly@{NOW}:q:{ID},s5,c3610a686",
        f"staged/nightly@{NOW}:07:q:{ID},s5,c3610a686",
        f"staged/nightly@{NOW}:7+:q:{ID},s5,c3610a686",
        f"staged/nightly@{NOW}:7:q:{ID},s5,c3610a686,v2",
        f"staged/nightly@{NOW}:7:../q:{ID},s5,c3610a686".replace("/q", "q"),
        f"staged/nightly@{NOW}~dropped:7:q:{ID},s5,c3610a686",
        "published/writer",
        f"published/writer.7.nightly@{NOW}",
        "redrives/notes",
    ],
)
def test_foreign_files_beside_the_messages_are_found(root: Path, path: str) -> None:
    (root / path).write_bytes(b"hello")
    (problem,) = check(root).problems
    assert (problem.path, problem.remedy) == (path, Remedy.QUARANTINE)


def test_a_lease_of_a_set_ends_when_its_record_says(root: Path) -> None:
    path = leased(root)
    name = path.name.partition("@")[0]
    lease = path.rename(path.with_name(f"{name}@{NOW + 50_000_000}~{SET_TOKEN}"))
    report = check(root)
    assert not report.problems
    assert [each.path for each in report.leftovers] == [str(lease.relative_to(root))]
    assert "never made" in report.leftovers[0].why
    put_a_set(root)
    assert check(root).leftovers == []


def test_a_file_that_a_start_has_put_into_quarantine_is_listed(root: Path) -> None:
    (root / "quarantine" / "config.q.2.json.0123456789abc").write_text("{")
    report = check(root)
    assert not report.problems
    (file,) = report.quarantined
    assert (file.path, file.source) == ("quarantine/config.q.2.json.0123456789abc", "")
    with pytest.raises(fsck.NotRestorable, match="not the name of a message"):
        fsck.restore(root, file.id, clock=Still())
