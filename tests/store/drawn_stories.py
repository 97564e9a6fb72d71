"""Stories that a seed draws: commits of several requests, whose choices no known story makes together.

What a request names is drawn from what the answers before it named, and sometimes from nothing.

The recordings hold a digest of each step only. This prints a story, and in what it differs from that of
the commit which wrote the recordings last:

    python -m tests.store.drawn_stories SEED
    python -m tests.store.drawn_stories --changed [SEED ...]
"""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from difflib import unified_diff
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from subprocess import run as run_program
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any, Final, TypeVar
from unittest.mock import patch
from zlib import crc32

from spoolrack_store.credits import Credits
from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.body_file import BodyFile
from spoolrack_store.files.disk import SyncFailed
from spoolrack_store.files.layout import new_body_path
from spoolrack_store.model.background_work import ALL_WORK, BackgroundWork
from spoolrack_store.model.clock import DAY, HOUR, MINUTE, SECOND, Millis
from spoolrack_store.model.operations import (
    UNFINISHED,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Delivery,
    GiveBack,
    LastReceive,
    MessageFilter,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Send,
    SendResults,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import CancelRedrive, Redrive, StartRedrive
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    MarkRead,
    QuarantineReserved,
    Release,
    Reservation,
    Reserve,
    UndoReservation,
)
from spoolrack_store.model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    Fire,
    PauseSchedule,
    QueuedSchedule,
    UpdateSchedule,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Abort, Publish, Published, Stage, Staged
from spoolrack_store.model.transitions import COUNTED
from spoolrack_store.questions import Questions

from tests.store.recorder import RECORDINGS, Recorder, Story, label_in, run
from tests.support.cuts import Bytes as Content
from tests.support.cuts import Cut, Keep

Drawn = TypeVar("Drawn")
STEPS: Final = 60
QUEUES: Final = ("q", "q", "q", "dead", "poor", "poor", "strict", "x", "x", "y", "y")
NO_ID: Final = "018bcfe5-6800-7000-8000-000000000000"
ERRORS: Final = (errno.EIO, errno.EIO, errno.ENOSPC, errno.ENOENT)
HARMED: Final = (
    *("delay", "remove", "new", "keys", "config", "staged", "published", "reserved", "redrives"),
    *("dead_letters", "bodies"),
)
SPANS: Final = (1, 500, SECOND, SECOND, 5 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, DAY)
SETTINGS: Final[Mapping[str, Sequence[Any]]] = {
    "visibility_timeout": (SECOND, MINUTE),
    "delivery_delay": (500,),
    "retention": (MINUTE, DAY),
    "max_messages": (6,),
    "max_bytes": (30,),
    "max_message_size": (4,),
    "lease_durability": ("relaxed",),
    "deduplication_window": (SECOND, HOUR),
    "messages_per_file": (1, 2),
    "group_order": ("strict",),
    "priority_aging": (SECOND,),
    "backoff_initial": (0, 5 * SECOND),
    "backoff_factor": (3,),
    "backoff_maximum": (10 * SECOND,),
    "backoff_jitter": (0,),
    "backoff_at": ("lease_end",),
    "archive_retention": (HOUR, 3 * DAY),
    "expires": (5 * MINUTE,),
    "sending": ("paused",),
    "receiving": ("paused",),
    "dead_letter_at": ("receive",),
}


class _Scene:
    """What a story has made so far, and the chance that decides what it does next."""

    def __init__(self, r: Recorder, seed: int) -> None:
        self.r = r
        self.random = Random(seed)
        self.only = ""
        """The queue of all requests of the commit; empty: any."""
        self.requests: list[Any] = []
        self.deliveries: list[Delivery] = []
        self.ids = [NO_ID]
        self.redrives = ["none"]
        self.schedules: list[QueuedSchedule] = []
        self.credits = [Credits(3, int), Credits(5, int, 12, concurrency=1)]
        self.numbers: Counter[str] = Counter()
        """The next of each stream."""
        self.chunks: Counter[str] = Counter()
        """The next of each stage."""
        self.stages: set[str] = set()
        """Those that wait to be published."""
        self.epochs: Counter[str] = Counter()
        self.bodies = 0

    def one(self, of: Sequence[Drawn]) -> Drawn:
        return self.random.choice(of)

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def places(self, count: int, values: Sequence[Drawn], share: float = 0.15) -> dict[int, Drawn]:
        """Return values for some of `count` positions."""
        if not self.chance(2 * share):
            return {}
        return {place: self.one(values) for place in range(count) if self.chance(0.5)}

    def queue(self) -> str:
        if self.only:
            return self.only
        there = self.r.engine.catalog.records
        return self.one(QUEUES if self.chance(0.05) else [name for name in QUEUES if name in there])

    def settings(self) -> dict[str, Any]:
        drawn = {name: self.one(SETTINGS[name]) for name in self.random.sample(sorted(SETTINGS), 4)}
        return drawn | ({"max_receives": 2, "dead_letter_queue": "dead"} if self.chance(0.5) else {})

    def receipts(self, *of: str) -> tuple[str, list[str]]:
        """Return some of the last receipts, of a queue of these names."""
        last = [each for each in self.deliveries[-9:] if not of or each.queue in of]
        if not last or self.chance(0.03):
            return self.queue(), ["none"]
        found = [self.one(last[-5:]) for _ in range(self.one((1, 1, 2)))]
        receipts = [one for each in found for one in each.receipts if self.chance(0.7)]
        return found[0].queue, receipts or found[0].receipts[:1]

    def last_receives(self, receipts: Sequence[str]) -> dict[int, LastReceive]:
        known = {one: each for each in self.deliveries for one in each.receipts}
        return {
            place: LastReceive(
                known[one].receive_count, known[one].first_received_at or known[one].lease_expires_at
            )
            for place, one in enumerate(receipts)
            if one in known and self.chance(0.3)
        }

    def do(self, requests: Sequence[Any], *, tick: bool) -> None:
        r = self.r
        commit = r.by_other if r.is_shared and self.chance(0.5) else r.do
        while requests:
            commit(*requests, tick=tick)
            for request, outcome in zip(requests, r.outcomes, strict=False):  # It may not have begun.
                self.note(request, outcome)
            requests = [
                each for each, told in zip(requests, r.outcomes, strict=False) if told is UNFINISHED
            ]

    def note(self, request: Any, outcome: Any) -> None:
        """Keep what an answer names."""
        match outcome:
            case Staged():
                self.stages.add(request.stage)
            case Published():
                self.stages.difference_update(request.stages)
            case SendResults():
                self.ids += [each for each in outcome.results if isinstance(each, str)]
            case Redrive():
                self.redrives.append(outcome.id)
            case QueuedSchedule():
                self.schedules.append(outcome)
            case [Delivery(), *_]:
                self.deliveries += outcome
            case Reservation():
                self.numbers[outcome.stream] = max(
                    self.numbers[outcome.stream], outcome.sequence_number + 1
                )

    # Requests.

    def send(self) -> Any:
        if self.chance(0.06):
            return self.send_file()
        bodies = [
            self.one((b"", b"a", b"bb", b"cccc", b"ddddd")) for _ in range(self.one((1, 2, 3, 5)))
        ]
        count = len(bodies)
        return Send(
            queue=self.queue(),
            bodies=bodies,
            attributes=self.places(count, ({"a": "1"}, {"b": b"\xff", "c": "22"})),
            deduplication_ids=self.places(count, "klm"),
            delays=self.places(count, (Millis(0), Millis(SECOND), Millis(MINUTE), Millis(-1)), 0.1),
            groups=self.places(count, "gh", 0.25),
            priorities=self.places(count, (0, 3, 9)),
            deliver_at=self.places(count, (Millis(1), Millis(self.r.clock.now + SECOND)), 0.05),
        )

    def send_file(self) -> Any:
        """Send a body in a file of its own."""
        self.bodies += 1
        file = BodyFile(
            self.r.disk.disk, new_body_path("p1", self.bodies), self.r.engine.moves.watermark
        )
        file.write(b"large")
        return Send(queue=self.queue(), bodies=[b""], written=file.finish())

    def receive(self) -> Any:
        return Receive(
            queue=self.queue(),
            max_messages=self.one((1, 2, 3, 9)),
            max_bytes=self.one((4 << 20, 4 << 20, 3, 8)),
            visibility_timeout=self.one((None, None, Millis(SECOND), Millis(MINUTE))),
            wait=self.one((Millis(0), Millis(0), None)),
            consumer=self.one(("", "c")),
            credits=self.one((None, None, *self.credits)),
        )

    def delete(self) -> Any:
        queue, receipts = self.receipts()
        if self.chance(0.2):
            return Delete(queue=queue, ids=[self.one(self.ids[-12:]) for _ in range(self.one((1, 3)))])
        return Delete(queue=queue, receipts=receipts, last_receives=self.last_receives(receipts))

    def change(self) -> Any:
        queue, receipts = self.receipts()
        return ChangeVisibility(
            queue=queue,
            receipts=receipts,
            visibility_timeout=Millis(self.one((0, 700, MINUTE))),
            last_receives=self.last_receives(receipts),
        )

    def release(self) -> Any:
        queue, receipts = self.receipts()
        return ReleaseMessages(
            queue=queue,
            receipts=receipts,
            delay=self.one((None, Millis(0), Millis(SECOND))),
            reason=self.one(("", "later")),
            uncounted=self.chance(0.3),
        )

    def reject(self) -> Any:
        queue, receipts = self.receipts(*(("poor", "x") if self.chance(0.9) else ()))
        return RejectMessages(queue=queue, receipts=receipts, reason=self.one(("", "bad", "bad " * 60)))

    def give_back(self) -> Any:
        queue, receipts = self.receipts()
        return GiveBack(queue=queue, receipts=receipts)

    def purge(self) -> Any:
        return Purge(
            queue=self.queue(),
            sent_before=self.one((None, None, Millis(self.r.clock.now - MINUTE))),
            states=frozenset(self.random.sample(COUNTED, self.one((0, 1, 2)))),
        )

    def create_queue(self) -> Any:
        name = self.one(("x", "x", "y", "y", "dead"))
        there = self.r.engine.catalog.records.get(name)
        is_same = there is not None and self.chance(0.4)
        settings = there.settings if is_same else QueueSettings(**self.settings())
        return CreateQueue(name=name, settings=settings, labels=self.one(({}, {"a": "1"})))

    def update_queue(self) -> Any:
        return UpdateQueue(
            name=self.queue(),
            changes=self.settings() if self.chance(0.5) else {"sending": "open", "receiving": "open"},
            labels=self.one(({}, {"a": "1"}, {"a": None, "b": "2"})),
            replaces_labels=self.chance(0.2),
            if_version=self.one((0, 0, 1)),
        )

    def delete_queue(self) -> Any:
        return DeleteQueue(name=self.one(("x", "x", "y", "y", "dead")), if_version=self.one((0, 0, 1)))

    def stage(self) -> Any:
        stage, count = self.one("st"), self.one((1, 2, 4))
        self.chunks[stage] += not self.chance(0.1)
        return Stage(
            stage=stage,
            chunk_number=self.chunks[stage],
            queue=self.queue(),
            bodies=[self.one((b"1", b"22", b"333")) for _ in range(count)],
            attributes=self.places(count, ({"a": "1"},)),
            groups=self.places(count, "gh"),
            delay=self.one((None, None, Millis(SECOND))),
            priority=self.one((0, 0, 4)),
            time_to_live=self.one((Millis(HOUR), Millis(MINUTE))),
            allowed=self.one((None, None, not_y)),
        )

    def publish(self) -> Any:
        if not self.stages and self.chance(0.9):
            return self.stage()
        writer = self.one("vw")
        self.epochs[writer] += not self.chance(0.2)
        return Publish(
            writer=writer,
            epoch=max(0, self.epochs[writer] - self.chance(0.1)),
            stages=sorted(self.stages) or ["s"],
            epoch_retention=self.one((Millis(30 * DAY), Millis(MINUTE))),
            digest=self.one(("", "", "d", "e")),
            message_count=self.one((0, 0, 0, 4)),
            owner=self.one(("", "", "o")),
            allowed=self.one((None, None, not_y)),
        )

    def abort(self) -> Any:
        return Abort(stage=self.one([*sorted(self.stages), "s"]), queue=self.one(("", "", "q")))

    def reserve(self) -> Any:
        stream = self.one("ab")
        return Reserve(
            queue=self.queue(),
            stream=stream,
            sequence_number=max(0, self.numbers[stream] - self.chance(0.1)),
            max_messages=self.one((1, 3, 9, 1_000)),
            max_bytes=self.one((1 << 20, 1 << 20, 6)),
            visibility_timeout=self.one((None, Millis(SECOND), Millis(MINUTE))),
            allowed=self.one((None, None, not_y)),
        )

    def set_request(self) -> Any:
        stream = self.one("ab")
        if not self.numbers[stream] and self.chance(0.9):
            return self.reserve()
        of_set = {
            "stream": stream,
            "sequence_number": max(0, self.numbers[stream] - self.one((1, 1, 2))),
        }
        match self.one("emmrruqq"):
            case "e":
                held = self.one((None, Millis(MINUTE)))
                return ExtendReservation(**of_set, visibility_timeout=held)
            case "m":
                return MarkRead(**of_set, queue=self.one(("", "q")))
            case "r":
                return Release(**of_set)
            case "u":
                return UndoReservation(**of_set)
            case _:
                return QuarantineReserved(**of_set, id=self.one(self.ids[-12:]), why="it is damaged")

    def commit_sets(self) -> Any:
        stream = self.one("ab")
        if not self.numbers[stream] and self.chance(0.9):
            return self.reserve()
        return CommitReservations(
            stream=stream,
            last_sequence_number=max(0, self.numbers[stream] - self.one((1, 1, 2))),
            queue=self.one(("", "", "q")),
            only_read=self.chance(0.2),
            allowed=self.one((None, None, not_y)),
        )

    def start_redrive(self) -> Any:
        return StartRedrive(
            queue=self.one(("dead", "dead", "q")),
            destination=self.one(("", "", "q", "x")),
            message_ids=self.one(((), (), tuple(sorted({self.one(self.ids[-12:]) for _ in range(3)})))),
            source_queue=self.one(("", "", "poor")),
            max_messages_per_second=self.one((0, 1, 2)),
        )

    def cancel_redrive(self) -> Any:
        return CancelRedrive(id=self.redrives[-1], queue=self.one(("", "dead")))

    def schedule(self) -> Any:
        queue, name = self.one("qx"), self.one("mn")
        match self.one("cccupd"):
            case "c":
                body, group = self.one((b"", b"go")), self.one(("", "g"))
                cron = self.one(("* * * * *", "0 3 * * *"))
                return CreateSchedule(
                    queue=queue, name=name, cron=cron, time_zone="UTC", body=body, group=group
                )
            case "u":
                cron, body = self.one((None, "5 * * * *")), self.one((None, b"went"))
                attributes, zone = self.one((None, {"a": "1"})), self.one((None, "Europe/Berlin"))
                return UpdateSchedule(
                    queue=queue, name=name, cron=cron, time_zone=zone, body=body, attributes=attributes
                )
            case "p":
                return PauseSchedule(queue=queue, name=name, paused=self.chance(0.5))
            case _:
                return DeleteSchedule(queue=queue, name=name)

    def fire(self) -> Any:
        if not self.schedules:
            return self.schedule()
        found = self.one(self.schedules[-3:])
        tick = self.r.clock.now // MINUTE * 60 + self.one((-60, 0, 0, 60))
        return Fire(queue=found.queue, name=found.name, token=found.schedule.token, tick=tick)

    def request(self) -> Any:
        """Return a new request, or an earlier one: a repetition, or one that still waits."""
        if self.requests and self.chance(0.06):
            return self.one(self.requests[-8:])
        (make,) = self.random.choices(REQUESTS, WEIGHTS)
        self.requests.append(make(self))
        return self.requests[-1]

    # Steps.

    def step(self, *, is_harmed: bool) -> None:
        r = self.r
        if self.chance(0.4):
            r.after(self.one(SPANS) + self.one((0, 0, -1)))
        self.only = ""
        if is_together := self.chance(0.2):
            self.only = self.queue()
        requests = [self.request() for _ in range(self.one((3, 5) if is_together else (1, 1, 1, 2, 4)))]
        chance, tick = self.random.random(), self.chance(0.3)
        if chance < 0.12:
            self.ask()
        elif chance < 0.14:
            self.start()
        elif chance < 0.16 and r.other is not None:
            r.replace_other()
        elif chance < 0.23 and is_harmed:
            self.harm()
        elif chance < 0.3:
            r.do(tick=tick)
        else:
            self.do(requests, tick=tick)

    def start(self) -> None:
        """Let another process take over, on a disk that refuses nothing meanwhile."""
        faults, self.r.disk.faults = self.r.disk.faults, int
        if self.chance(0.4):
            self.r.tell("the process leaves", self.r.engine.close)
        self.r.restart()
        self.r.disk.faults = faults

    def harm(self) -> None:
        r, disk = self.r, self.r.disk.disk
        queues = [f"queues/{each.name}" for each in disk.scan("queues")]
        folders = [each for each in (*HARMED, *queues) if disk.scan(each)]
        if self.chance(0.3) or not folders:
            contents = tuple(self.one(list(Content)) for _ in range(3))
            r.cut(Cut(Keep.SOME, (self.random.getrandbits(30),), contents))
            return
        folder = self.one(folders)
        path = f"{folder}/{self.one(sorted(each.name for each in disk.scan(folder)))}"
        match self.one("trpmcc"):
            case "t":
                r.take(path)
            case "r":
                r.tear(folder)
            case "p":
                r.put(f"{folder}/strange{self.random.randrange(10)}{self.one(('', '.json', '.body'))}")
            case "m":
                r.rename(path, f"{self.one(HARMED)}/{path.rpartition('/')[2]}")
            case _:
                to, name = self.one((folder, *folders)), path.rpartition("/")[2]
                r.copy(path, f"{to}/{self.one((name, name.replace(',v', ',v1')))}")

    # Questions.

    def ask(self) -> None:
        engine, name = self.r.engine, self.queue()
        asked = Questions(engine, self.r.disk, RLock())
        stream, id = self.one("ab"), self.one(self.ids[-12:])
        number = max(0, self.numbers[stream] - 1)
        wanted = MessageFilter(
            states=frozenset(self.random.sample(COUNTED, self.one((0, 1)))),
            sent_since=self.one((None, Millis(self.r.clock.now - MINUTE))),
            sent_before=self.one((None, Millis(self.r.clock.now - MINUTE))),
            group=self.one(("", "", "g")),
            attributes=self.one(({}, {}, {"a": "1"})),
        )
        after, skip, limit = self.one(("", id)), self.one((0, 1)), self.one((1, 3))
        bounds = (Millis(SECOND), Millis(MINUTE))
        held = engine.reservations
        record = engine.catalog.records.get(name)
        receive = Receive(queue=name)
        questions: dict[str, Callable[[], Any]] = {
            f"exact count of {name}": lambda: asked.exact(lambda: engine.ready(name)),
            f"whole message {id}": lambda: asked.open_message(name, id).message,
            f"a receive in {name}": lambda: (engine.ready(name), engine.has_nothing_for(receive)),
            "counts": lambda: (
                *(
                    held.count(),
                    engine.stages.count,
                    engine.redrives.running,
                    engine.deduplication.count,
                ),
                *(
                    engine.has_exact_metrics,
                    engine.wants_commit,
                    engine.to_be_unlinked,
                    asked.overdue(),
                ),
            ),
            f"messages of {name}": lambda: asked.page(name, wanted, after, skip, limit, 2),
            f"message {id}": lambda: asked.message(name, id),
            "queues": lambda: engine.views.queues(self.one(("", "d")), self.one(("", "p")), 2),
            f"ages in {name}": lambda: engine.views.ages(name, bounds),
            f"page {number} of {stream}, from 1": lambda: held.page(stream, number, 1, 5),
            "stage": lambda: engine.stages.shown(self.one("st"), self.one(("", "q"))),
            "epoch": lambda: engine.stages.last_epoch(self.one("vw")),
            "stages": lambda: engine.stages.listed("", 1, self.one(("", "q"))),
            "sets": lambda: held.shown(self.one(("", "q")), self.one(("", "a")), ("", 0), 3),
            f"set {number} of {stream}": lambda: held.find(stream, number),
            f"reading {number} of {stream}": lambda: held.begin_reading(stream, number, 0, 0),
            f"page {number} of {stream}": lambda: held.page(stream, number, 0, 3),
            "redrives": lambda: engine.redrives.listed(self.one(("", "dead")), "", 3),
            "redrive": lambda: engine.redrives.find(self.redrives[-1], self.one(("", "dead"))),
            "schedules": lambda: engine.schedules.listed(self.one(("", "q")), ("", ""), 3),
        }
        if record is not None:
            questions[f"queue {name}"] = lambda: engine.views.described(
                record, held.held_in(name), is_disk_full=False
            )
        what = self.one(list(questions))
        self.r.tell(what, questions[what])


SMALL: Final[Mapping[str, int]] = {
    "engine.adoption.BYTES_LIKE_A_FILE": 60,
    "engine.deduplication.MAX_KEYS": 3,
    "engine.sorted_names._CHUNK": 1,
    "engine.sorted_names._OPEN": 2,
    "engine.index._PACKS": 2,
    "engine.leaser.QUEUES_OF_A_TICK": 2,
    "engine.turns.PORTION": 3,
    "engine.turns._FEW": 1,
    "questions._AT_ONCE": 2,
    "questions._MOST_LOOKS": 3,
    "questions._PAGE_BYTES": 3,
    "engine.recovery.BYTES_LIKE_A_FILE": 60,
    "engine.recovery.FOLLOWED": 2,
    "engine.recovery.TOLD": 6,
    "engine.recovery._SORTED": 2,
    "engine.redriver.AT_ONCE": 2,
    "engine.redriver.MOST_WAITING": 2,
    "engine.reserver.MAX_EFFORT": 3,
    "engine.reserver.PORTION": 2,
    "engine.reserver.REMEMBERED_SETS": 1,
    "engine.sender.FILE_BYTES": 6,
    "engine.sender.MOST_FILES": 2,
    "engine.set_reader.PAGE_MESSAGES": 2,
}
"""The bounds of each third story."""
Make = Callable[[_Scene], Any]
WEIGHED: Final[Sequence[tuple[Make, int]]] = (
    (_Scene.send, 14),
    (_Scene.receive, 12),
    (_Scene.delete, 5),
    (_Scene.change, 3),
    (_Scene.release, 4),
    (_Scene.reject, 3),
    (_Scene.give_back, 1),
    (_Scene.purge, 2),
    (_Scene.create_queue, 2),
    (_Scene.update_queue, 2),
    (_Scene.delete_queue, 1),
    (_Scene.stage, 5),
    (_Scene.publish, 4),
    (_Scene.abort, 1),
    (_Scene.reserve, 6),
    (_Scene.set_request, 4),
    (_Scene.commit_sets, 3),
    (_Scene.start_redrive, 3),
    (_Scene.cancel_redrive, 1),
    (_Scene.schedule, 3),
    (_Scene.fire, 2),
)
REQUESTS: Final = [make for make, _ in WEIGHED]
WEIGHTS: Final = [weight for _, weight in WEIGHED]


def bound(engine: Engine) -> None:
    """Let an engine work in small slices, and pack what waits."""
    engine.moves.effort.files = engine.moves.request_effort.files = 4
    engine.index.unpacked = 3


def not_y(queue: str) -> bool:
    return queue != "y"


class _Faults:
    """Chooses the error of each call of the disk: mostly none, sometimes one, or many for a while."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.left = 0
        self.code = 0

    def __call__(self) -> int:
        if self.left:
            self.left -= 1
            return self.random.choice((0, self.code))
        if self.random.random() > 0.008:
            return 0
        self.left, self.code = self.random.choice((0, 0, 9)), self.random.choice(ERRORS)
        return self.code


def story(seed: int) -> Story:
    """Return the story of a seed: by one process or two, on a disk that works, one that refuses calls,
    or one whose files persons and power cuts change."""

    def told(r: Recorder) -> None:
        scene = _Scene(r, seed)
        r.is_swept = False
        if seed % 3 == 0:
            r.prepare = bound
            bound(r.engine)
        r.do(*(CreateQueue(name=name, settings=QueueSettings(**scene.settings())) for name in "xy"))
        if seed % 4 == 2:
            r.disk.faults = _Faults(Random(seed))
        for _ in range(STEPS):
            try:
                scene.step(is_harmed=seed % 4 == 3)
            except SyncFailed as error:
                r.lines.append(f"the store ends: {error}")
                scene.start()

    told.__name__ = "shared" if seed % 2 else "lone"
    return told


def digests(seed: int) -> tuple[list[str], list[str]]:
    """Return the steps of a story as text, and a digest of each."""
    labels: dict[str, str] = {}
    with ExitStack() as patched:
        for name, value in SMALL.items() if seed % 3 == 0 else ():
            patched.enter_context(patch(f"spoolrack_store.{name}", value))
        recorder = run(
            story(seed),
            cache_bytes=0 if seed % 5 == 1 else 1 << 20,
            background=BackgroundWork(wait=SECOND) if seed % 7 == 1 else ALL_WORK,
        )
    lines = [label_in(line, labels) for line in recorder.lines]
    steps = ["\n".join(lines[begin:end]) for begin, end in pairwise([0, *recorder.ends, len(lines)])]
    return steps, [f"{crc32(step.encode(errors='surrogateescape')):08x}"[:4] for step in steps]


DRAWN: Final = RECORDINGS / "drawn.txt"
"""A line for each seed."""
SEEDS: Final = range(140)
_TOP: Final = Path(__file__).parents[2]
_LINES: Final = 60
"""Of a difference that are shown."""


def told_before(seed: int, folder: Path) -> str:
    """Return a story by the code of the commit that wrote the recordings last, unpacked into `folder`.

    Raise `CalledProcessError` outside a repository of git.
    """
    if not any(folder.iterdir()):
        asked = ("git", "log", "-1", "--format=%H", "--", str(DRAWN))
        commit = run_program(asked, cwd=_TOP, check=True, capture_output=True, text=True).stdout.strip()
        packed = run_program(("git", "archive", commit), cwd=_TOP, check=True, capture_output=True)
        run_program(("tar", "-x", "-C", str(folder)), input=packed.stdout, check=True)
    paths = os.pathsep.join(str(folder / each) for each in ("", "server", "client"))
    return run_program(
        (sys.executable, "-m", "tests.store.drawn_stories", str(seed)),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def changed(seed: int, folder: Path) -> str:
    """Return the first lines in which a story differs from the one before, beside these."""
    old, new = told_before(seed, folder).splitlines(), "\n".join(digests(seed)[0]).splitlines()
    differences = unified_diff(old, new, f"{seed} as recorded", f"{seed} now", lineterm="")
    return "\n".join(islice(differences, _LINES))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--changed"]:
        with TemporaryDirectory(prefix="spoolrack-") as name:
            for number in sys.argv[2:] or SEEDS:
                print(changed(int(number), Path(name)))
    else:
        for number in sys.argv[1:]:
            print("\n".join(digests(int(number))[0]))
