"""A check knows deduplication ids: those in names, and in segments, of which it finds damaged lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_rig import files_under
from fsck_rig import make_root
from spoolrack_store import fsck
from spoolrack_store.fsck.findings import Remedy
from spoolrack_store.model.operations import ById, Delete, Outgoing, Send, Sent
from spoolrack_store.store import Store


def send(store: Store, *ids: str) -> list[Sent]:
    messages = [Outgoing(body=b"x", deduplication_id=id) for id in ids]
    results = store.submit(Send(queue="q", messages=messages)).result()
    return [each for each in results if isinstance(each, Sent)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_root(tmp_path / "root")
    with Store.open(root) as one, Store.open(root) as other:
        sent = send(one, "a", "b", "c")
        assert all(each.is_duplicate for each in send(other, "a", "b", "c"))
        one.submit(Delete(queue="q", targets=[ById(each.id) for each in sent])).result()
        send(other, "d")
    return root


def the_segments(root: Path) -> list[Path]:
    return sorted(path for path in (root / "keys").iterdir() if path.name != "LOCK")


def test_a_root_with_deduplication_ids_is_clean(root: Path) -> None:
    assert the_segments(root)

    report = fsck.check(root)

    assert report.is_clean
    assert not report.leftovers


@pytest.mark.parametrize("end", ["", "q:torn", "\0" * 200])
def test_a_torn_end_of_a_segment_is_no_problem(root: Path, end: str) -> None:
    segment = the_segments(root)[0]
    segment.write_text(segment.read_text() + end)

    assert fsck.check(root).is_clean


def test_a_damaged_line_is_found_and_nothing_is_done_about_it(root: Path) -> None:
    segment = the_segments(root)[0]
    segment.write_text("q:damaged\n" + segment.read_text())

    (problem,) = fsck.check(root).problems

    assert problem.path == f"keys/{segment.name}"
    assert "line 1 " in problem.why
    assert problem.remedy is Remedy.HAND
    before = files_under(root / "keys")
    fsck.repair(root)
    assert files_under(root / "keys") == before
