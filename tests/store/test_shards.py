"""A root that is a shard remembers it, and refuses each name of a queue that belongs elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store import fsck
from spoolrack_store.files.layout import SHARD
from spoolrack_store.model.errors import (
    InvalidRequest,
    InvalidSetting,
    RootUnusable,
    StoreError,
    WrongShard,
)
from spoolrack_store.model.message_ids import is_id
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    MessageFilter,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Request,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    Release,
    Reserve,
)
from spoolrack_store.model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    PauseSchedule,
    UpdateSchedule,
)
from spoolrack_store.model.sealed import seal_text
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.shards import Shard, shard_of
from spoolrack_store.model.stage_requests import Abort, Publish, Stage
from spoolrack_store.read_only_root import open_read_only
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store

from tests.store.test_root_identity import recording

MINE = Shard(3, 8)
"""That of the queue `jobs`."""
ELSEWHERE = "jobs-dead"
"""On shard 0."""
ID = "018bcfe5-6801-7000-8000-0000000000ff"

REQUESTS: dict[str, Request[Any]] = {
    "create": CreateQueue(name=ELSEWHERE, settings=QueueSettings()),
    "update": UpdateQueue(name=ELSEWHERE, changes={}),
    "delete": DeleteQueue(name=ELSEWHERE),
    "send": Send(queue=ELSEWHERE, bodies=[b"1"]),
    "receive": Receive(queue=ELSEWHERE),
    "delete messages": Delete(queue=ELSEWHERE, receipts=["r"]),
    "extend": ChangeVisibility(queue=ELSEWHERE, receipts=["r"], visibility_timeout=1000),  # type: ignore[arg-type]
    "release": ReleaseMessages(queue=ELSEWHERE, receipts=["r"]),
    "reject": RejectMessages(queue=ELSEWHERE, receipts=["r"]),
    "purge": Purge(queue=ELSEWHERE),
    "stage": Stage(stage="s", chunk_number=0, queue=ELSEWHERE, bodies=[b"1"]),
    "publish": Publish(writer="w", epoch=0, stages=[], queue=ELSEWHERE),
    "abort": Abort(stage="s", queue=ELSEWHERE),
    "reserve": Reserve(queue=ELSEWHERE, stream="s", sequence_number=0),
    "extend a set": ExtendReservation(stream="s", sequence_number=0, queue=ELSEWHERE),
    "release a set": Release(stream="s", sequence_number=0, queue=ELSEWHERE),
    "commit sets": CommitReservations(stream="s", last_sequence_number=0, queue=ELSEWHERE),
    "redrive": StartRedrive(queue=ELSEWHERE),
    "cancel a redrive": CancelRedrive(id=ID, queue=ELSEWHERE),
    "schedule": CreateSchedule(queue=ELSEWHERE, name="s", cron="0 0 * * *", time_zone="UTC", body=b""),
    "change a schedule": UpdateSchedule(queue=ELSEWHERE, name="s", cron="0 0 * * *"),
    "pause a schedule": PauseSchedule(queue=ELSEWHERE, name="s", paused=True),
    "delete a schedule": DeleteSchedule(queue=ELSEWHERE, name="s"),
}
QUESTIONS: dict[str, Callable[[Store], object]] = {
    "queue": lambda store: store.queue(ELSEWHERE),
    "summary": lambda store: store.summary(ELSEWHERE),
    "settings": lambda store: store.settings(ELSEWHERE),
    "message": lambda store: store.message(ELSEWHERE, ID),
    "open message": lambda store: store.open_message(ELSEWHERE, ID),
    "page": lambda store: store.page(ELSEWHERE, MessageFilter()),
    "stages": lambda store: store.stages(queue=ELSEWHERE),
    "stage": lambda store: store.stage("s", ELSEWHERE),
    "schedules": lambda store: store.schedules(queue=ELSEWHERE),
    "redrive": lambda store: store.redrive(ID, ELSEWHERE),
    "redrives": lambda store: store.redrives(queue=ELSEWHERE),
    "reservation": lambda store: store.reservation("s", 0, ELSEWHERE),
    "reservations": lambda store: store.reservations(queue=ELSEWHERE),
    "read": lambda store: store.read_reservation("s", 0, queue=ELSEWHERE),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Store.open(tmp_path_factory.mktemp("shard") / "root", shard=MINE) as opened:
        opened.submit(CreateQueue(name="jobs", settings=QueueSettings())).result()
        yield opened


def outcome(store: Store, request: Request[Any]) -> Any:
    """Return the error of a request, or of the only thing that it asks for."""
    try:
        answer = store.submit(request).result()
    except StoreError as error:
        return error
    found = getattr(answer, "results", answer)
    return found[0] if isinstance(found, list) and found else found


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_each_request_for_a_queue_of_another_shard_is_told_which_one(
    store: Store, request_: Request[Any]
) -> None:
    refused = outcome(store, request_)
    assert isinstance(refused, WrongShard), refused
    facts = {name: refused.facts[name] for name in ("queue", "tag", "shard", "shards", "this")}
    assert facts == {"queue": ELSEWHERE, "tag": ELSEWHERE, "shard": 0, "shards": 8, "this": 3}
    assert "The queue jobs-dead, by its tag jobs-dead, belongs to shard 0 of 8" in str(refused)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_each_question_for_a_queue_of_another_shard_is_told_which_one(
    store: Store, question: Callable[[Store], object]
) -> None:
    with pytest.raises(WrongShard, match="belongs to shard 0 of 8, and this server is shard 3 of 8"):
        question(store)


def test_a_dead_letter_queue_elsewhere_is_refused_with_the_tag(store: Store) -> None:
    settings = QueueSettings(max_receives=1, dead_letter_queue=ELSEWHERE)
    for request in (
        CreateQueue(name="jobs--new", settings=settings),
        UpdateQueue(name="jobs", changes={"max_receives": 1, "dead_letter_queue": ELSEWHERE}),
    ):
        refused = outcome(store, request)
        assert isinstance(refused, InvalidSetting)
        assert "choose a name with the tag jobs, such as jobs--dead" in str(refused)


@pytest.mark.parametrize("what", ["destination", "source_queue"])
def test_a_redrive_to_or_of_a_queue_elsewhere_is_refused_with_the_tag(store: Store, what: str) -> None:
    refused = outcome(store, StartRedrive(queue="jobs", **{what: ELSEWHERE}))
    assert isinstance(refused, InvalidRequest)
    assert "choose a name with the tag jobs, such as jobs--dead" in str(refused)


def test_queues_with_a_tag_of_the_shard_work_as_on_one_server(store: Store) -> None:
    for name in ("jobs--dead", "jobs.fifo", "jobs--dead.fifo"):
        assert outcome(store, CreateQueue(name=name, settings=QueueSettings())).name == name
    assert is_id(outcome(store, Send(queue="jobs--dead", bodies=[b"1"])))
    assert {queue.name for queue in store.queues()} >= {"jobs", "jobs--dead"}


def test_a_root_is_the_shard_that_it_was_made_as(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Store.open(root, shard=MINE) as store:
        assert store.shard == store.metrics.root().shard == MINE
    assert (root / SHARD).read_bytes() == seal_text("3/8")
    for shard in (None, MINE):
        with Store.open(root, shard=shard) as store:
            assert store.shard == MINE
    take_snapshot(root, tmp_path / "copy")
    for path in (root, tmp_path / "copy"):
        assert fsck.check(path).shard == MINE
        with open_read_only(path) as store, pytest.raises(WrongShard):
            store.queue(ELSEWHERE)


def test_a_root_is_never_served_as_another_shard(tmp_path: Path) -> None:
    Store.open(tmp_path, shard=MINE).close()
    for other in (Shard(2, 8), Shard(3, 16)):
        with pytest.raises(RootUnusable) as caught:
            Store.open(tmp_path, shard=other)
        assert f"it is shard 3/8, not {other}" in str(caught.value)
        for command in (f"`spoolrack export --root {tmp_path}", "`spoolrack import --url"):
            assert command in str(caught.value)
    with Store.open(tmp_path) as store:
        assert store.shard == MINE


def test_a_root_with_queues_of_other_shards_becomes_no_shard(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for name in ("jobs", ELSEWHERE):
            store.submit(CreateQueue(name=name, settings=QueueSettings())).result()
    with pytest.raises(RootUnusable, match=f"belong to other shards than 3/8, {ELSEWHERE}: "):
        Store.open(tmp_path, shard=MINE)
    others = [ELSEWHERE, *(f"{ELSEWHERE}{number}" for number in range(30))]
    others = [name for name in others if not MINE.has(name)][:5]
    for name in others[1:]:
        (tmp_path / "queues" / name).mkdir()
    told = ", ".join(sorted(others)[:3])
    with pytest.raises(RootUnusable, match=f"{told} and 2 more: "):
        Store.open(tmp_path, shard=MINE)
    for name in others[1:]:
        (tmp_path / "queues" / name).rmdir()
    assert not (tmp_path / SHARD).exists()
    with Store.open(tmp_path) as store:
        assert store.shard is None
        store.submit(DeleteQueue(name=ELSEWHERE)).result()
    while (tmp_path / "queues" / ELSEWHERE).exists():
        Store.open(tmp_path).close()
    with Store.open(tmp_path, shard=MINE) as store:
        assert [queue.name for queue in store.queues()] == ["jobs"]


def test_a_root_that_is_open_becomes_no_shard(tmp_path: Path) -> None:
    with Store.open(tmp_path), pytest.raises(RootUnusable, match="other processes as no shard"):
        Store.open(tmp_path, shard=MINE)
    with Store.open(tmp_path, shard=MINE), Store.open(tmp_path) as other:
        assert other.shard == MINE


@pytest.mark.parametrize(
    "torn", [b"", b"3", b"3/8\n", seal_text("3/8").replace(b"3", b"2"), seal_text("9/8"), b"\0\0\0\0"]
)
def test_a_damaged_file_is_written_anew_only_by_a_start_that_says_the_shard(
    tmp_path: Path, torn: bytes
) -> None:
    Store.open(tmp_path, shard=MINE).close()
    (tmp_path / SHARD).write_bytes(torn)
    with pytest.raises(RootUnusable, match="start its server with --shard"):
        Store.open(tmp_path)
    (problem,) = fsck.check(tmp_path).problems
    assert problem.path == SHARD
    with Store.open(tmp_path, shard=MINE) as store:
        assert store.shard == MINE
    assert (tmp_path / SHARD).read_bytes() == seal_text("3/8")


@pytest.mark.parametrize("is_there", [False, True])
def test_the_shard_is_durable_before_a_queue_is_served(tmp_path: Path, is_there: bool) -> None:
    root = tmp_path / "root"
    if is_there:
        Store.open(root, shard=MINE).close()
    disk = recording(root)
    Store.open(root, disk=disk, shard=MINE).close()
    assert "." in disk.synced[disk.synced.index(SHARD) :]


def test_a_start_that_died_before_the_format_goes_on(tmp_path: Path) -> None:
    Store.open(tmp_path, shard=MINE).close()
    (tmp_path / "FORMAT").unlink()
    with Store.open(tmp_path) as store:
        assert store.shard == MINE


def test_fsck_names_a_queue_of_another_shard(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.submit(CreateQueue(name=ELSEWHERE, settings=QueueSettings())).result()
    (tmp_path / SHARD).write_bytes(seal_text("3/8"))
    (problem,) = fsck.check(tmp_path).problems
    assert "the queue jobs-dead belongs to shard 0, and this root is shard 3/8" in problem.why


def test_the_names_of_these_tests_belong_where_they_say() -> None:
    assert (shard_of("jobs", 8), shard_of(ELSEWHERE, 8)) == (3, 0)
