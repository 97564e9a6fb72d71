"""A program that does each operation of the store between marks, so that its calls can be counted.

    python counted_load.py ROOT [PART ...]

A mark is a look at a file that doesn't exist, whose name says what begins or ends: strace shows it
among the calls. Time stands still, so that nothing happens by itself. Each operation is done before it
is counted, so that nothing is done for the first time. And the next commit, which finds nothing to do,
is counted with it: work that an operation leaves for after its answer is its cost, too.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    Message,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Request,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.schedule_requests import CreateSchedule, Fire
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store

Answer = TypeVar("Answer")
STUCK: Final = 240.0
"""Seconds that only a defect takes. This program runs without the package of tests."""

MARK: Final = "/spoolrack-budget/"
NOTHING: Final = "receive, and find nothing"
BODY: Final = b"x" * 1024
SHARING: Final = 16
_COMMITS: Final = 5
"""Commits in which a start has done all that it has to do."""
_TIMEOUTS: Final = {
    "receive 5 and 5 of 10, one timeout": (Millis(600_000), Millis(600_000)),
    "receive 5 and 5 of 10, two timeouts": (Millis(600_000), Millis(700_000)),
}
_LEASED: Final = frozenset({State.LEASED})
_IDLE: Final = "idle"
_WARM: Final = "warm"


def mark(what: str) -> None:
    os.access(MARK + what, os.F_OK)


class ToldDisk(LocalDisk):
    """The real one. It tells of what is gone, and can be held in a sync; neither is a call more."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gone = threading.Semaphore(0)
        self.is_held = False
        self.has_come = threading.Event()
        self.may_go = threading.Event()

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.gone.release()

    def rename_new(self, source: str, target: str) -> None:
        super().rename_new(source, target)
        if target.startswith("archive/"):
            self.gone.release()

    def sync_folder(self, path: str) -> None:
        self._hold()
        super().sync_folder(path)

    def sync_all(self) -> None:
        self._hold()
        super().sync_all()

    def _hold(self) -> None:
        if self.is_held:
            self.is_held = False
            self.has_come.set()
            assert self.may_go.wait(STUCK), "held for ever"


class Load:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._open()
        self._create(_IDLE, _WARM)

    def _open(self) -> None:
        self._disk = ToldDisk(self._root)
        self._store = Store.open(self._root, clock=ManualClock(), disk=self._disk)
        (reaper,) = (each for each in threading.enumerate() if each.name == "spoolrack-reaper")
        mark(f"reaper/{reaper.native_id}")

    def close(self) -> None:
        self._store.close()

    # Parts.

    def life(self, count: int) -> None:
        """Send, receive, delete, one after the other, as they are done all day."""
        self._create(f"life{count}")
        self._live(_WARM, count, lambda what, act: act())
        self._live(f"life{count}", count, self._counted)

    def _live(self, queue: str, count: int, do: Callable[[str, Callable[[], Any]], Any]) -> None:
        ids = do(f"send {count}", lambda: self._send(queue, count))
        assert len(ids) == count
        found = do(f"receive {count}", lambda: self._receive(queue, count))
        assert len(found) == count
        do(f"delete {count}", lambda: self._delete(*found))
        self._wait_for_the_reaper()

    def awaited(self, count: int) -> None:
        """Send to a receive that waits, which then has it: the two are answered by one commit."""
        for queue, do in ((_WARM, _uncounted), (f"awaited{count}", self._counted)):
            self._create(queue)
            self._settle()
            waiting = self._store.submit(Receive(queue=queue, max_messages=count, wait=None))
            do(f"send {count} to a receive that waits", partial(self._send, queue, count))
            found = messages_of(waiting.result(STUCK))
            assert len(found) == count
            how = "it was sent" if count == 1 else "they were sent"
            do(f"delete {count}, leased as {how}", partial(self._delete, *found))
            self._wait_for_the_reaper()

    def nothing(self) -> None:
        self._settle()
        self._counted(NOTHING, lambda: None)

    def again(self) -> None:
        """Send after another send: it also makes durable what the first one leaves."""
        self._create("again")
        self._send("again", 1)
        self._send("again", 1)
        self._counted("send 1, right after another", lambda: self._send("again", 1))

    def together(self) -> None:
        """Calls of one message each, which come while a commit waits for the disk."""
        self._create("together")
        self._send("together", 1)
        what = f"send 1, {SHARING} that share a commit"
        calls = self._behind_a_sync(
            "create-together", lambda: mark(f"begin/{what}"), [_sending("together", 1)] * SHARING
        )
        for call in calls:
            (id,) = call.result(STUCK).results
            assert isinstance(id, str)
        self._settle()
        mark("end")

    def some(self) -> None:
        """Count operations on a part of a batch."""
        for queue, do in ((_WARM, _uncounted), ("some", self._counted)):
            self._create(queue)
            self._send(queue, 10)
            found = do("receive 3 of 10", partial(self._receive, queue, 3))
            assert len(found) == 3
            do("delete 3 of 10, leased without the others", partial(self._delete, *found))
            self._delete(*self._receive(queue, 7))
            self._send(queue, 10)
            found = self._receive(queue, 10)
            do("delete 3 of 10, leased with the others", partial(self._delete, *found[:3]))
            self._delete(*found[3:])

    def old(self) -> None:
        """Count operations on messages sent before a start, so that none is in memory."""
        self._create("old")
        for count in (1, 10, 100, 1_000):
            self._send("old", count)
        self._store.close()
        self._open()
        self._live(_WARM, 1, _uncounted)
        # The collector closes the files of the closed store in no operation's count.
        gc.collect()
        for count in (1, 10, 100, 1_000):
            what = f"receive {count}, sent before a start"
            assert len(self._counted(what, partial(self._receive, "old", count))) == count

    def change(self) -> None:
        for count in (1, 10):
            for queue, do in ((_WARM, _uncounted), ("change", self._counted)):
                self._create(queue)
                self._send(queue, count)
                found = self._receive(queue, count)
                do(f"extend {count}", partial(self._change, found, 600_000))
                do(f"release {count}", partial(self._change, found, 0))
                self._delete(*self._receive(queue, count))

    def retry(self) -> None:
        for count in (1, 10):
            for queue, do in ((_WARM, _uncounted), ("retry", self._counted)):
                self._create(f"dead-{queue}")
                settings = QueueSettings(max_receives=9, dead_letter_queue=f"dead-{queue}")
                self._ask(CreateQueue(name=f"r-{queue}", settings=settings))
                self._send(f"r-{queue}", count)
                found = self._receive(f"r-{queue}", count)
                do(f"release {count} with a delay", partial(self._release, found, Millis(HOUR)))
                self._send(f"r-{queue}", count)
                found = self._receive(f"r-{queue}", count)
                do(f"reject {count}", partial(self._reject, found))

    def _release(self, messages: Sequence[Message], delay: Millis) -> None:
        receipts = [message.receipt or "" for message in messages]
        request = ReleaseMessages(queue=messages[0].queue, receipts=receipts, delay=delay)
        results = self._ask(request)
        assert all(isinstance(result, int) for result in results)

    def _reject(self, messages: Sequence[Message]) -> None:
        receipts = [message.receipt or "" for message in messages]
        request = RejectMessages(queue=messages[0].queue, receipts=receipts, reason="bad")
        assert self._ask(request) == [None] * len(receipts)
        # Another commit deletes the originals, and the one after it what is left of their names.
        self._settle()

    def timeouts(self) -> None:
        """Two receives of one batch that share a commit, with one visibility timeout and with two."""
        for queue, do in ((_WARM, _unmarked), ("timeouts", mark)):
            self._create(queue)
            for title, spans in _TIMEOUTS.items():
                self._send(queue, 10)
                self._settle()
                calls = self._behind_a_sync(
                    f"create-{title[:3]}-{queue}",
                    lambda title=title, do=do: do(f"begin/{title}"),
                    [Receive(queue=queue, max_messages=5, visibility_timeout=span) for span in spans],
                )
                found = [messages_of(call.result(STUCK)) for call in calls]
                assert [len(each) for each in found] == [5, 5]
                self._settle()
                do("end")
                self._delete(*found[0], *found[1])

    def _behind_a_sync(
        self, holder: str, begin: Callable[[], None], requests: Sequence[Request[Any]]
    ) -> list[Future[Any]]:
        """Submit requests that one commit does, while another commit, of a new queue, is held in its
        sync; `begin` is called between the two."""
        self._disk.has_come.clear()
        self._disk.may_go.clear()
        self._disk.is_held = True
        first = self._store.submit(CreateQueue(name=holder, settings=QueueSettings()))
        # Called in the committer's thread, before it begins with those that have come meanwhile.
        first.add_done_callback(lambda _: begin())
        assert self._disk.has_come.wait(STUCK), "no sync"
        calls = [self._store.submit(request) for request in requests]
        self._disk.may_go.set()
        return calls

    def start(self, number: int) -> None:
        """Open another root, and publish what is in `new/`."""
        root = self._root.parent / f"start{number}"
        mark(f"begin/start {number}")
        store = Store.open(root, clock=ManualClock())
        for _ in range(_COMMITS):
            assert store.submit(Receive(queue=_IDLE, wait=Millis(0))).result(STUCK) == []
        assert not any((root / "new").iterdir())
        mark("end")
        store.close()

    def by_id(self) -> None:
        for queue, do in ((_WARM, _uncounted), ("ids", self._counted)):
            self._create(queue)
            ids = self._send(queue, 1)
            do("delete 1 by id, ready", partial(self._delete_ids, queue, *ids))

    def purge(self) -> None:
        """Ten files of ten messages: all of them, and then those of a state that has three files."""
        for queue, do in ((_WARM, _uncounted), ("purged", self._counted)):
            self._create(queue)
            everything = Purge(queue=queue)
            for what, request in (
                ("purge 100 in 10 files", everything),
                ("purge 30 that are leased, in 3 files", replace(everything, states=_LEASED)),
            ):
                for _ in range(10):
                    self._send(queue, 10)
                self._receive(queue, 30)
                do(what, partial(self._ask, request))
                self._ask(everything)
                self._wait_for_the_reaper()

    def depth(self, depth: int) -> None:
        """With so many waiting: the oldest a lone message, then a batch of eight, then the rest."""
        queue = f"depth{depth}"
        self._live(_WARM, 1, _uncounted)
        (one,) = self._counted(f"{depth}/receive 1", lambda: self._receive(queue, 1))
        self._counted(f"{depth}/delete 1", lambda: self._delete(one))
        eight = self._counted(f"{depth}/receive 8", lambda: self._receive(queue, 8))
        assert len(eight) == 8
        self._counted(f"{depth}/delete 8", lambda: self._delete(*eight))
        self._counted(f"{depth}/send 1", lambda: self._send(queue, 1))

    def strict(self) -> None:
        """Count the life of a message of a group in a strict queue."""
        for queue, do in ((_WARM, _uncounted), ("strict", self._counted)):
            self._ask(CreateQueue(name=f"g-{queue}", settings=QueueSettings(group_order="strict")))
            request = replace(_sending(f"g-{queue}", 1), groups={0: "group"})
            do("send 1 to a strict group", partial(self._ask, request))
            found = do("receive 1 of a strict group", partial(self._receive, f"g-{queue}", 1))
            do("delete 1 of a strict group", partial(self._delete, *found))

    def ranked(self) -> None:
        """Count the life of a message with a priority."""
        for queue, do in ((_WARM, _uncounted), ("ranked", self._counted)):
            self._create(queue)
            request = replace(_sending(queue, 1), priorities={0: 9})
            do("send 1 with a priority", partial(self._ask, request))
            found = do("receive 1 with a priority", partial(self._receive, queue, 1))
            self._delete(*found)

    def external(self) -> None:
        """Count the life of a body in a file of its own."""
        self._create("external")
        for do in (_uncounted, self._counted):
            do("send 1 in a file of its own", partial(self._send_file, "external"))
            found = do("receive 1 in a file of its own", partial(self._receive, "external", 1))
            do("delete 1 in a file of its own", partial(self._delete, *found))
            self._wait_for_the_reaper()

    def linked(self) -> None:
        """Send a body that is another link of a file."""
        self._create("linked")
        file = self._root.with_name("linked")
        file.write_bytes(BODY)
        for do in (_uncounted, self._counted):
            do("send 1 by a link", partial(self._send_link, file))
            self._receive("linked", 1)

    def _send_link(self, file: Path) -> None:
        self._ask(Send(queue="linked", bodies=[b""], written=self._store.link_body(file)))

    def _send_file(self, queue: str) -> None:
        file = self._store.begin_body(expected=len(BODY))
        file.write(BODY)
        self._ask(Send(queue=queue, bodies=[b""], written=file.finish()))

    def kept(self) -> None:
        """Count the archiving of a message: the first of a day makes the day's folder."""
        self._ask(CreateQueue(name="kept", settings=QueueSettings(archive_retention=Millis(HOUR))))
        for _ in range(2):
            self._send("kept", 1)
            self._delete(*self._receive("kept", 1))
            self._settle()
            self._wait_for_the_reaper()

    def fire(self) -> None:
        """Count a tick of a schedule: the first has no last tick to forget, as the later ones have."""
        self._create("fired")
        made = CreateSchedule(queue="fired", name="often", cron="* * * * *", time_zone="UTC", body=BODY)
        schedule = self._counted("create a schedule", partial(self._ask, made)).schedule
        tick = schedule.since // 60_000 * 60 + 60
        for number, do in enumerate((_uncounted, _uncounted, self._counted)):
            request = Fire(queue="fired", name="often", token=schedule.token, tick=tick + 60 * number)
            assert do("send a tick of a schedule", partial(self._ask, request))

    def pause(self) -> None:
        """Count a pause of a queue, as any change of its settings."""
        self._create("paused")
        for do in (_uncounted, self._counted):
            for state in ("paused", "open"):
                what = {"paused": "pause a queue", "open": "resume a queue"}[state]
                do(what, partial(self._ask, UpdateQueue(name="paused", changes={"sending": state})))

    def snapshot(self) -> None:
        """Take snapshots of roots at rest, whose queues have 1, 10 and 100 files."""
        for count, do in ((1, _uncounted), (10, self._counted), (100, self._counted)):
            root = self._root.with_name(f"snapshot{count}")
            with Store.open(root, clock=ManualClock()) as store:
                settings = QueueSettings(messages_per_file=1)
                store.submit(CreateQueue(name="q", settings=settings)).result(STUCK)
                store.submit(_sending("q", count)).result(STUCK)
            do(
                f"a snapshot of a queue of {count} files",
                partial(take_snapshot, root, self._root.with_name(f"copy{count}")),
            )

    # Operations.

    def _counted(self, what: str, act: Callable[[], Answer]) -> Answer:
        self._settle()
        mark(f"begin/{what}")
        answer = act()
        self._settle()
        mark("end")
        return answer

    def _settle(self) -> None:
        """Return when all that was begun before has come to its end."""
        assert self._ask(Receive(queue=_IDLE, wait=Millis(0))) == []

    def _ask(self, request: Request[Answer]) -> Answer:
        return self._store.submit(request).result(STUCK)

    def _create(self, *queues: str) -> None:
        for queue in queues:
            self._ask(CreateQueue(name=queue, settings=QueueSettings()))

    def _send(self, queue: str, count: int) -> list[str]:
        return [id for id in self._ask(_sending(queue, count)).results if isinstance(id, str)]

    def _receive(self, queue: str, most: int) -> list[Message]:
        return messages_of(self._ask(Receive(queue=queue, max_messages=most)))

    def _delete(self, *messages: Message) -> None:
        receipts = [each.receipt or "" for each in messages]
        deleted = self._ask(Delete(queue=messages[0].queue, receipts=receipts))
        assert deleted == [None] * len(messages)

    def _delete_ids(self, queue: str, *ids: str) -> None:
        assert self._ask(Delete(queue=queue, ids=ids)) == [None] * len(ids)

    def _change(self, messages: Sequence[Message], visibility: int) -> None:
        receipts = [each.receipt or "" for each in messages]
        queue, until = messages[0].queue, Millis(visibility)
        self._ask(ChangeVisibility(queue=queue, receipts=receipts, visibility_timeout=until))

    def _wait_for_the_reaper(self) -> None:
        while any((self._root / "remove").iterdir()):
            assert self._disk.gone.acquire(timeout=STUCK), "the reaper does nothing"


def _unmarked(_: str) -> None:
    """For what isn't counted."""


def _uncounted(_: str, act: Callable[[], Any]) -> Any:
    return act()


def _sending(queue: str, count: int) -> Send:
    return Send(queue=queue, bodies=[BODY] * count)


def main() -> None:
    root, *parts = sys.argv[1:]
    load = Load(Path(root))
    for part in parts:
        name, _, count = part.partition(":")
        getattr(load, name)(*([int(count)] if count else []))
    load.close()


if __name__ == "__main__":
    main()
