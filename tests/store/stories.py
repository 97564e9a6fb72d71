"""Stories whose recordings are kept: what an engine does in its common cases, and in odd ones."""

from __future__ import annotations

from threading import RLock
from typing import Final
from zlib import crc32

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_content import MAX_DELAY
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Delivery,
    GiveBack,
    MessageFilter,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Send,
    UpdateQueue,
    WrittenBody,
)
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    MarkRead,
    QuarantineReserved,
    Release,
    Reserve,
    UndoReservation,
)
from spoolrack_store.model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    Fire,
    PauseSchedule,
    UpdateSchedule,
)
from spoolrack_store.model.settings import MAX_VISIBILITY, QueueSettings
from spoolrack_store.model.stage_requests import Abort, Publish, Stage
from spoolrack_store.model.transitions import State
from spoolrack_store.questions import Questions

from tests.store.recorder import Recorder, show

LEASE: Final = Millis(30_000)


def receipts_of(deliveries: list[Delivery] | None) -> list[str]:
    return [receipt for delivery in deliveries or () for receipt in delivery.receipts]


def messages(r: Recorder) -> None:
    """Sends, leases and their ends."""
    r.do(Send(queue="q", bodies=[b"a"]))
    r.do()
    r.do(Send(queue="q", bodies=[b"b", b"c", b"d"], attributes={1: {"x": "1", "y": b"\xff"}}))
    r.do()
    first = receipts_of(r.do(Receive(queue="q", max_messages=2, consumer="c1")))
    r.after(1_000)
    rest = receipts_of(r.do(Receive(queue="q", max_messages=9, visibility_timeout=Millis(5_000))))
    r.do(ChangeVisibility(queue="q", receipts=[first[0], rest[0]], visibility_timeout=Millis(60_000)))
    r.do(ReleaseMessages(queue="q", receipts=[first[1]], delay=Millis(2_000)))
    r.do(Delete(queue="q", receipts=[rest[0]]))
    r.do(Delete(queue="q", receipts=[rest[0], "q:none", first[1]]))
    r.after(5_000)
    r.do(tick=True)
    again = receipts_of(r.do(Receive(queue="q", max_messages=9)))
    r.do(GiveBack(queue="q", receipts=again[:1]))
    r.do(Delete(queue="q", receipts=again))
    r.do()
    r.after(60_000)
    r.do(tick=True)
    r.do(Purge(queue="q", states=frozenset({State.READY})))
    r.do()


def kinds(r: Recorder) -> None:
    """Groups, priorities, delays, deduplication, bounds."""
    r.do(
        Send(
            queue="q",
            bodies=[b"a", b"b", b"c", b"d", b"e"],
            groups={0: "g", 2: "g", 3: "h"},
            priorities={1: 5},
            delays={4: Millis(1_000)},
        ),
        Receive(queue="q", max_messages=1),
    )
    r.do(Send(queue="q", bodies=[b"f", b"g"], deduplication_ids={0: "k", 1: "l"}))
    r.do(Send(queue="q", bodies=[b"f", b"h", b"i"], deduplication_ids={0: "k", 1: "m", 2: "m"}))
    r.do(Receive(queue="q", max_messages=4))
    r.after(1_000)
    r.do(tick=True)
    r.do(Receive(queue="q", max_messages=9, max_bytes=2))
    r.do(Send(queue="strict", bodies=[b"1", b"2", b"3"], groups={0: "g", 1: "g", 2: "h"}))
    found = receipts_of(r.do(Receive(queue="strict", max_messages=3)))
    r.do(ReleaseMessages(queue="strict", receipts=found[:1], delay=Millis(10)))
    r.do(Receive(queue="strict", max_messages=3))
    r.after(10)
    r.do(Receive(queue="strict", max_messages=3))
    r.do(Send(queue="strict", bodies=[b"4", b"5"], groups={0: "i", 1: "i"}))
    r.do(*[Receive(queue="strict") for _ in range(2)])
    r.do(Send(queue="brief", bodies=[b"1", b"2", b"3"]))
    r.do(Send(queue="brief", bodies=[b"4", b"5"]), Send(queue="brief", bodies=[bytes(18)]))
    r.do(Send(queue="brief", bodies=[bytes(21)]))
    r.after(60_000)
    r.do(tick=True)
    r.do(Receive(queue="brief"))
    r.do(Send(queue="relaxed", bodies=[b"1"]))
    (receipt,) = receipts_of(r.do(Receive(queue="relaxed")))
    r.do(ReleaseMessages(queue="relaxed", receipts=[receipt], uncounted=True))
    r.after(300_000)
    r.do(Send(queue="q", bodies=[b"f"], deduplication_ids={0: "k"}))
    r.do(tick=True)


def dead_letters(r: Recorder) -> None:
    """Deaths, and redrives."""
    r.do(Send(queue="poor", bodies=[b"a", b"b"]), Send(queue="late", bodies=[b"c"]))
    r.do()
    found = receipts_of(r.do(Receive(queue="poor", max_messages=2)))
    r.do(RejectMessages(queue="poor", receipts=found[:1], reason="bad"))
    r.do(ReleaseMessages(queue="poor", receipts=found[1:], delay=None, reason="later"))
    r.after(1_000)
    found = receipts_of(r.do(Receive(queue="poor", max_messages=2)))
    r.after(30_000)
    r.do(tick=True)
    r.do(Receive(queue="late"))
    r.after(30_000)
    r.do(Receive(queue="late"))
    r.do()
    r.do(Receive(queue="dead", max_messages=1, visibility_timeout=Millis(1_000)))
    redrive = r.do(StartRedrive(queue="dead", max_messages_per_second=1))
    r.do(StartRedrive(queue="dead"))
    for _ in range(3):
        r.after(1_000)
        r.do(tick=True)
    r.do(CancelRedrive(id=redrive.id))
    r.do(CancelRedrive(id=redrive.id, queue="q"))
    r.tell("redrives", lambda: r.engine.redrives.listed("", "", 9))
    again = r.do(StartRedrive(queue="dead", destination="q", source_queue="late"))
    r.do()
    r.tell("redrive", lambda: r.engine.redrives.find(again.id))
    r.after(30 * 24 * 3_600_000)
    r.do(tick=True)
    r.do()


def stages(r: Recorder) -> None:
    """Stages and publications."""
    r.do(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"a", b"b"], groups={1: "g"}))
    r.do(Stage(stage="s", chunk_number=1, queue="dead", bodies=[b"c"], delay=Millis(1_000), priority=3))
    r.do(Stage(stage="s", chunk_number=1, queue="dead", bodies=[b"c"], delay=Millis(1_000), priority=3))
    r.do(Stage(stage="s", chunk_number=1, queue="dead", bodies=[b"other"]))
    r.do(Publish(writer="w", epoch=1, stages=["s"], message_count=4))
    r.do(Publish(writer="w", epoch=1, stages=["s"], message_count=3, digest="d1"))
    r.do()
    r.do(Publish(writer="w", epoch=1, stages=["s"], digest="d1"))
    r.do(Publish(writer="w", epoch=1, stages=[], digest="d2"))
    r.do(Stage(stage="t", chunk_number=0, queue="q", bodies=[b"x"], time_to_live=Millis(60_000)))
    r.do(Stage(stage="u", chunk_number=0, queue="q", bodies=[b"y"]))
    r.do(Abort(stage="u"))
    r.do(Abort(stage="u"))
    r.tell("stages", lambda: list(r.engine.stages.listed("", 9)))
    r.do(Receive(queue="q", max_messages=9))
    r.after(60_000)
    r.do(tick=True)
    r.do(Publish(writer="w", epoch=2, stages=["t"]))
    r.do(Receive(queue="dead", max_messages=9))
    r.after(29 * 24 * 3_600_000)
    r.do(Publish(writer="w", epoch=1, stages=["s"], digest="d1"), tick=True)
    r.after(2 * 24 * 3_600_000)
    r.do(tick=True)
    r.do()


def reservations(r: Recorder) -> None:
    """Sets of leases."""
    send = Send(queue="q", bodies=[b"a", b"b", b"c"], attributes={2: {"x": "1"}})
    r.do(send, Send(queue="q", bodies=[b"d"]))
    ids = r.do(Send(queue="q", bodies=[b"e"])).results
    r.do()
    r.do(Reserve(queue="q", stream="s", sequence_number=0, max_messages=1, visibility_timeout=LEASE))
    r.do(Reserve(queue="q", stream="s", sequence_number=1, max_messages=2))
    reading = r.engine.reservations
    r.tell("begin", lambda: r.engine.with_exact_index(lambda: reading.begin_reading("s", 1, 0, 0)))
    r.tell("page", lambda: r.engine.with_exact_index(lambda: reading.page("s", 1, 0, 2)))
    r.do(Reserve(queue="q", stream="s", sequence_number=2))
    r.do(Reserve(queue="q", stream="s", sequence_number=3))
    r.do(Reserve(queue="q", stream="s", sequence_number=0))
    r.do(QuarantineReserved(stream="s", sequence_number=2, id=ids[0], why="it is damaged"))
    r.after(20_000)
    r.do(ExtendReservation(stream="s", sequence_number=0))
    r.do(MarkRead(stream="s", sequence_number=0))
    r.do(CommitReservations(stream="s", last_sequence_number=1, only_read=True))
    r.after(15_000)
    r.do(tick=True)
    r.do(ExtendReservation(stream="s", sequence_number=2))
    r.tell("set", lambda: r.engine.reservations.find("s", 0))
    r.do(CommitReservations(stream="s", last_sequence_number=1))
    r.do()
    r.do(CommitReservations(stream="s", last_sequence_number=1))
    r.do(Reserve(queue="q", stream="t", sequence_number=0))
    r.do(Release(stream="t", sequence_number=0))
    r.do()
    r.do(Reserve(queue="q", stream="u", sequence_number=0))
    r.do(UndoReservation(stream="u", sequence_number=0))
    r.do()
    r.put("new/p1-1.body", b"large")
    body = WrittenBody(path="new/p1-1.body", size=5, crc=crc32(b"large"))
    r.do(Send(queue="dead", bodies=[b""], written=body))
    r.do(Reserve(queue="dead", stream="v", sequence_number=0))
    r.tell("page", lambda: r.engine.with_exact_index(lambda: reading.page("v", 0, 0, 9)))
    r.do(Receive(queue="q", max_messages=9))
    r.after(31 * 24 * 3_600_000)
    r.do(tick=True)
    r.do()


def queues(r: Recorder) -> None:
    """Queues and schedules."""
    r.do(CreateQueue(name="new", settings=QueueSettings(retention=Millis(5_000)), labels={"a": "b"}))
    r.do(CreateQueue(name="new", settings=QueueSettings(), labels={"a": "b"}))
    r.do(UpdateQueue(name="new", changes={"retention": 0, "dead_letter_queue": "dead"}))
    r.do(UpdateQueue(name="new", changes={"dead_letter_queue": "none"}))
    made = r.do(CreateSchedule(queue="new", name="n", cron="0 3 * * *", time_zone="UTC", body=b"go"))
    r.do(CreateSchedule(queue="new", name="n", cron="0 4 * * *", time_zone="UTC"))
    tick = 1_700_000_060
    r.do(Fire(queue="new", name="n", token=made.schedule.token, tick=tick))
    r.do(Fire(queue="new", name="n", token=made.schedule.token, tick=tick))
    r.do(PauseSchedule(queue="new", name="n", paused=True))
    r.do(Fire(queue="new", name="n", token=made.schedule.token, tick=tick + 60))
    r.after(120_000)
    r.do(PauseSchedule(queue="new", name="n", paused=False))
    r.do(UpdateSchedule(queue="new", name="n", body=b"went", attributes={"k": "v"}, group="g"))
    r.do(Fire(queue="new", name="n", token=made.schedule.token, tick=tick + 120))
    r.do(Receive(queue="new", max_messages=5))
    r.do(DeleteSchedule(queue="new", name="n"))
    r.do(DeleteSchedule(queue="new", name="n"))
    r.do(Send(queue="new", bodies=[b"a"]))
    r.do(DeleteQueue(name="new"))
    r.do(Send(queue="new", bodies=[b"b"]))
    r.do(CreateQueue(name="new", settings=QueueSettings()))
    r.do(DeleteQueue(name="none"))
    r.do()
    schedules = [
        r.do(CreateSchedule(queue="q", name=name, cron="* * * * *", time_zone="UTC")).schedule
        for name in "ab"
    ]
    fired = zip("ab", schedules, strict=True)
    r.do(*(Fire(queue="q", name=name, token=each.token, tick=tick + 120) for name, each in fired))


def by_hand(r: Recorder) -> None:
    """What persons do in the folders."""
    r.do(Send(queue="q", bodies=[b"aa", b"bb"]))
    r.do(Send(queue="q", bodies=[b"cc"]))
    r.do(Send(queue="q", bodies=[b"dd"]))
    r.do(Send(queue="q", bodies=[b"ee"]))
    r.do()
    r.damage(r.path_of("queues/q", "e000,n2"), b"bb", b"bX")
    r.do(Receive(queue="q", max_messages=2))
    r.take(r.path_of("queues/q", "000,s2"))
    found = receipts_of(r.do(Receive(queue="q", max_messages=2)))
    r.do(Delete(queue="q", receipts=found))
    for path in ("queues/q/strange", "delay/strange", "remove/strange", "staged/strange", "new/hello"):
        r.put(path, b"by hand")
    for path in ("reserved/strange", "published/strange", "redrives/strange", "keys/strange"):
        r.put(path)
    r.put("queues/strange")
    r.put("config/strange.1.json", b"{}")
    r.do(tick=True)
    r.after(60_000)
    r.do(tick=True)
    r.do(Receive(queue="q", max_messages=9))
    r.restart()
    r.do()
    r.do(tick=True)
    r.put("queues/new")
    r.do(CreateQueue(name="new", settings=QueueSettings()))
    r.do(Send(queue="new", bodies=[b"1", b"2", b"3", b"4"]))
    r.do()
    first, second, _ = receipts_of(r.do(Receive(queue="new", max_messages=3)))
    r.do(ReleaseMessages(queue="new", receipts=[first, second]))
    again = receipts_of(r.do(Receive(queue="new")))
    r.take(r.path_of("delay", "v5"))
    r.do(Delete(queue="new", receipts=again))
    r.do(Receive(queue="new", max_messages=9))


def _fill(r: Recorder) -> None:
    """Bring about a file of each kind."""
    r.is_swept = False
    r.do(Send(queue="poor", bodies=[b"a", b"b"], deduplication_ids={0: "k"}, delays={1: Millis(9_000)}))
    r.do(Send(queue="late", bodies=[b"c"], groups={0: "g"}), Receive(queue="late"))
    r.do(Send(queue="late", bodies=[b"c"]))
    found = receipts_of(r.do(Receive(queue="poor", max_messages=2)))
    r.do(RejectMessages(queue="poor", receipts=found, reason="bad " * 60))
    r.do(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"x", b"y"]))
    r.do(Publish(writer="w", epoch=1, stages=["s"], digest="d"))
    r.do(Stage(stage="t", chunk_number=0, queue="q", bodies=[b"z"]))
    r.do(Send(queue="q", bodies=[b"1", b"2", b"3"], attributes={1: {"x": "1"}, 2: {"y": b"\xff"}}))
    r.do()
    r.do(Reserve(queue="q", stream="s", sequence_number=0, max_messages=1))
    r.do(Reserve(queue="q", stream="s", sequence_number=1, max_messages=3))
    r.do(CommitReservations(stream="s", last_sequence_number=0))
    r.do(StartRedrive(queue="dead", max_messages_per_second=1))
    r.do(Send(queue="q", bodies=[b"last"]), Send(queue="brief", bodies=[b"1"]))
    r.is_swept = True


def starts(r: Recorder) -> None:
    """Another process takes over, whatever the first has left."""
    _fill(r)
    r.restart()
    for _ in range(3):
        r.do()
    r.do(Send(queue="poor", bodies=[b"a"], deduplication_ids={0: "k"}))
    r.do(Receive(queue="q", max_messages=9), Receive(queue="late", max_messages=9))
    r.do(CommitReservations(stream="s", last_sequence_number=1))
    r.do(Publish(writer="w", epoch=1, stages=["s"], digest="d"))
    r.do(tick=True)


def damages(r: Recorder) -> None:
    """A power cut has torn files of all kinds."""
    _fill(r)
    for folder in ("dead_letters", "staged", "published", "reserved", "redrives", "queues/q", "new"):
        r.tear(folder)
    r.put("keys/018bcfe5-6800-7000-8000-000000000000")
    r.restart()
    for _ in range(3):
        r.do()
    r.do(tick=True)
    r.do(Receive(queue="q", max_messages=9), Receive(queue="dead", max_messages=9))


def questions(r: Recorder) -> None:
    """What is told of messages."""
    asked = Questions(r.engine, r.disk, RLock())
    ids = r.do(
        Send(
            queue="q",
            bodies=[b"a", b"bb", b"ccc"],
            attributes={0: {"x": "1"}, 2: {"x": "2"}},
            groups={1: "g"},
            delays={2: Millis(1_000)},
        )
    ).results
    r.do()
    r.do(Receive(queue="q", max_messages=1, consumer="c"))
    for wanted in (
        MessageFilter(),
        MessageFilter(group="g"),
        MessageFilter(attributes={"x": "2"}),
        MessageFilter(states=frozenset({State.LEASED, State.DELAYED})),
        MessageFilter(sent_before=r.clock.wall()),
    ):
        r.tell(f"page {show(wanted)}", lambda wanted=wanted: asked.page("q", wanted, "", 0, 2, 2))
    for of in (*ids, "no id"):
        r.tell(f"message {of}", lambda of=of: asked.message("q", of))
    r.do(Reserve(queue="q", stream="s", sequence_number=0))
    r.do(Send(queue="poor", bodies=[b"d", b"e"]))
    for _ in range(2):
        r.do(Receive(queue="poor", visibility_timeout=Millis(1)))
        r.after(1)
        r.do(tick=True)
    r.do(DeleteQueue(name="dead"))
    for name in ("q", "poor", "poor", "poor"):
        if name == "poor":
            r.do(Receive(queue="poor", visibility_timeout=Millis(1)))
            r.after(1)
            r.do(tick=True)
        record = r.engine.catalog.records[name]
        held = r.engine.reservations.held_in(name)
        r.tell(
            f"queue {name}",
            lambda record=record, held=held: r.engine.views.described(record, held, is_disk_full=False),
        )


def shared(r: Recorder) -> None:
    """Two processes."""
    r.do(Send(queue="q", bodies=[b"a", b"b"]))
    r.by_other(Receive(queue="q", max_messages=1))
    r.by_other(Send(queue="q", bodies=[b"c"]))
    r.do(Receive(queue="q", max_messages=5))
    r.by_other(Send(queue="strict", bodies=[b"1"], groups={0: "g"}))
    found = receipts_of(r.do(Receive(queue="strict", max_messages=5)))
    r.by_other(Delete(queue="strict", receipts=found))
    r.by_other(Send(queue="q", bodies=[b"d"], deduplication_ids={0: "k"}))
    r.do(Send(queue="q", bodies=[b"d"], deduplication_ids={0: "k"}))
    r.by_other(Purge(queue="q"))
    r.by_other(CreateQueue(name="new", settings=QueueSettings(retention=Millis(5_000))))
    r.do(Send(queue="new", bodies=[b"e"]))
    r.by_other(DeleteQueue(name="new"))
    r.do(Send(queue="new", bodies=[b"e"]))
    r.by_other(Send(queue="q", bodies=[b"f"]), Receive(queue="q"))
    r.by_other(Send(queue="q", bodies=[b"g"]))
    r.die("p2")
    r.do(tick=True)
    r.do()
    r.do(Receive(queue="q", max_messages=5))
    r.after(30_000)
    r.do(Receive(queue="q", max_messages=5))


def refusals(r: Recorder) -> None:
    """What requests may not ask for."""
    r.is_swept = False
    (id,) = r.do(Send(queue="q", bodies=[b"a"])).results
    (receipt,) = receipts_of(r.do(Receive(queue="q")))
    for queue in ("none", "no/queue", ""):
        r.do(Send(queue=queue, bodies=[b""]), Receive(queue=queue), Purge(queue=queue))
        r.do(
            Delete(queue=queue, ids=[id]),
            ChangeVisibility(queue=queue, receipts=[], visibility_timeout=LEASE),
        )
        r.do(DeleteQueue(name=queue), UpdateQueue(name=queue, changes={}))
        r.do(Reserve(queue=queue, stream="s", sequence_number=0))
        r.do(Stage(stage="s", chunk_number=0, queue=queue, bodies=[b"a"]), StartRedrive(queue=queue))
        r.do(CreateSchedule(queue=queue, name="n", cron="* * * * *", time_zone="UTC"))
    for count in (0, -1):
        r.do(Receive(queue="q", max_messages=count), Receive(queue="q", max_bytes=count))
    for visibility in (-1, 0, MAX_VISIBILITY, MAX_VISIBILITY + 1):
        r.do(Receive(queue="q", visibility_timeout=Millis(visibility)))
        r.do(ChangeVisibility(queue="q", receipts=["q"], visibility_timeout=Millis(visibility)))
        r.do(ReleaseMessages(queue="q", receipts=["q"], delay=Millis(visibility)))
        r.do(Reserve(queue="q", stream="s", sequence_number=0, visibility_timeout=Millis(visibility)))
    for delay in (-1, MAX_DELAY, MAX_DELAY + 1):
        r.do(Send(queue="q", bodies=[b"d"], delays={0: Millis(delay)}))
        r.do(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"a"], delay=Millis(delay)))
        r.do(Send(queue="q", bodies=[b"d"], deliver_at={0: Millis(r.clock.wall() + delay)}))
    for priority in (-1, 9, 10):
        r.do(Send(queue="q", bodies=[b"p"], priorities={0: priority}))
    for length in (128, 129):
        r.do(Send(queue="q", bodies=[b"g"], groups={0: "g" * length}))
    r.do(Send(queue="q", bodies=[b"x", b"y", b"z"], groups={0: "\udc00"}, attributes={1: {"": "v"}}))
    for bodies in ([b"x"], [b"x", b"y"]):
        r.do(Stage(stage="fresh", chunk_number=0, queue="q", bodies=bodies, groups={0: "g" * 129}))
    for name in ("a" * 64, "a" * 65, "a b"):
        r.do(Stage(stage=name, chunk_number=0, queue="q", bodies=[b"a"]), Abort(stage=name))
        r.do(CreateSchedule(queue="q", name=name, cron="* * * * *", time_zone="UTC"))
    for name in ("a" * 80, "a" * 81, "a b"):
        r.do(Publish(writer=name, epoch=1, stages=[]))
        r.do(Reserve(queue="q", stream=name, sequence_number=0))
        r.do(CommitReservations(stream=name, last_sequence_number=0))
    for number in (-1, 2**63 - 1, 2**63):
        r.do(Publish(writer="w", epoch=number, stages=[]))
        r.do(Reserve(queue="q", stream="n", sequence_number=number))
    for chunk in (-1, 999_999_999, 1_000_000_000):
        r.do(Stage(stage="c", chunk_number=chunk, queue="q", bodies=[b"a"]))
    for rate in (-1, 100_000, 100_001):
        r.do(StartRedrive(queue="dead", max_messages_per_second=rate))
    r.do(StartRedrive(queue="dead", destination="none"), StartRedrive(queue="dead", destination="dead"))
    r.do(
        StartRedrive(queue="dead", message_ids=["no id"]), StartRedrive(queue="dead", message_ids=[id])
    )
    r.do(CancelRedrive(id="none"), Fire(queue="q", name="none", token="t", tick=0))
    for name in ("a" * 80, "a" * 81, "a b", "a/b"):
        r.do(CreateQueue(name=name, settings=QueueSettings()))
    for explanation in ("why", "w" * 5_000):
        r.do(RejectMessages(queue="q", receipts=[receipt, "q"], reason=explanation))
    r.do(Delete(queue="q", ids=["no id", id, id.replace("0", "1")], receipts=["dead" + receipt[1:]]))


STORIES: Final = (
    messages,
    kinds,
    dead_letters,
    stages,
    reservations,
    queues,
    by_hand,
    starts,
    damages,
    questions,
    shared,
    refusals,
)
