"""Recordings of an engine at work: each request of a story with its answer, the calls of the disk, the
log, and when work is due next, as text.

A text stands in `recordings/`, and a test compares. After an intended change write them anew, and read
the difference:

    python -m tests.store.recorder
"""

from __future__ import annotations

import errno
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from spoolrack_store import fsck
from spoolrack_store.credits import Credits
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.part import RETRY
from spoolrack_store.files.disk import FileKind, SyncFailed
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import UNFINISHED, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.statistics import QueueMetrics

from tests.store.trouble_rig import PickyDisk
from tests.support.cuts import Cut
from tests.support.engine_rig import EngineRig
from tests.support.engine_story import StillClock
from tests.support.linked_disk import LinkedDisk, made, reap
from tests.support.memory_disk import File
from tests.support.power_disk import Model
from tests.support.root_rig import Bytes, Still, make_root

QUEUES: Final[Mapping[str, QueueSettings]] = {
    "q": QueueSettings(),
    "dead": QueueSettings(),
    "poor": QueueSettings(max_receives=2, dead_letter_queue="dead", backoff_initial=Millis(500)),
    "late": QueueSettings(dead_letter_queue="dead", max_receives=1, dead_letter_at="receive"),
    "strict": QueueSettings(group_order="strict"),
    "brief": QueueSettings(retention=Millis(60_000), max_messages=4, max_bytes=20, messages_per_file=2),
    "relaxed": QueueSettings(lease_durability="relaxed"),
}
RECORDINGS: Final = Path(__file__).parent / "recordings"
GONE: Final = -1
"""In place of an error: a person removes the file before the call."""
_OF_FILES: Final = ("link ", "rename_new ", "unlink ", "open ", "read ")
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{9}(?=[0-9a-f]{3})")
_UNTOLD: Final = frozenset({"lock", "read_all", "run_at_once", "free_locks", "step"})
"""Calls that each commit makes or none, and one that raises no error of a file."""


class _Log(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"    {record.levelname}: {record.getMessage()}")


class _Enough(Exception):
    """The story has come as far as it is told."""


class Recorder(EngineRig):
    """One root with a first process, whose story is told in `lines`."""

    def __init__(self, *, is_shared: bool, steps: int, refuses: int, code: int, **options: Any) -> None:
        """The story is told up to so many `steps`, or until the call with the number `refuses` was
        refused."""
        self.lines: list[str] = []
        self.calls: dict[int, int] = {}
        """The number of the call that a line tells."""
        self.unswept: set[int] = set()
        """The lines of calls that no run refuses: another story does."""
        self.is_swept = True
        self.is_shared = is_shared
        self.prepare: Callable[[Engine], None] = lambda engine: None
        """What is done to an engine of the story that has just started."""
        self.outcomes: list[Any] = []
        """Those of the last commit."""
        self.steps = 0
        self.ends: list[int] = []
        """The number of lines at the end of each step."""
        self._published: Mapping[str, QueueMetrics] = {}
        self._has_engine = True
        self.other: Engine | None = None
        self._most = steps
        self.handler = _Log(self.lines)
        # Two processes need a disk that can sync all; then no call tells which folders are synced.
        there = made(tuple(QUEUES), can_sync_all=is_shared, model=Model.ANY_SUBSET)
        disk = _RefusingOne(there)
        super().__init__(QUEUES, disk=disk, changes=Bytes(), clock=StillClock(), **options)
        self.queues = {}  # They are there: another start writes no settings.
        disk.called.clear()
        disk.count, disk.refuses, disk.code = 0, refuses, code

    def join(self) -> Engine:
        """Start an engine whose requests all take the general way, which defines what happens."""
        engine = super().join()
        engine.short_way = None
        return engine

    def do(self, *requests: Any, tick: bool = False) -> Any:
        """Make a commit of `requests`; return the first answer, None if that is an error."""
        self.lines += [show(request) for request in requests] or ["tick" if tick else "commit"]
        self._commit(*requests, tick=tick)
        return next((each for each in self.outcomes if not isinstance(each, Exception)), None)

    def _commit(self, *requests: Any, tick: bool = False) -> None:
        try:
            work = self.engine.apply(requests, tick=tick)
        except StoreError as error:
            self.lines.append(f"  not begun: {show(error)}")
            self.outcomes = []
            self._end_step()
            return
        assert work is not None
        if work.barrier is not None:
            work.barrier.sync()
        self.outcomes = self.engine.finish(work) or []
        self.lines += [f"  = {show(each)}" for each in self.outcomes]
        reap(self.engine)
        waits, due = self.engine.next_work(self.clock.monotonic())
        when = "" if due is None else f" {due - self.clock.monotonic():+}"
        if waits or when:
            self.lines.append(f"  next:{' now' if waits else ''}{when}")
        for name, now in self.engine.index.metrics.items():
            if self._published.get(name) != now:
                self.lines.append(f"  {show(now)}")
        self._published = dict(self.engine.index.metrics)
        self._end_step()

    def tell(self, what: str, answer: Callable[[], Any]) -> None:
        """Tell the answer to a question."""
        self.lines.append(what)
        try:
            self.lines.append(f"  = {show(answer())}")
        except StoreError as error:
            self.lines.append(f"  = {show(error)}")
        self._end_step()

    def restart(self) -> None:
        """Let another process take over."""
        self.lines.append("another process takes over")
        self.living.clear()
        self.disk.free_locks()
        self.other = None
        try:
            self.engine = self.join()
            self.prepare(self.engine)
        except StoreError as error:
            self.lines.append(f"  = {show(error)}")
            self._has_engine = False
        self._end_step()

    def by_other(self, *requests: Any, tick: bool = False) -> Any:
        """Make a commit in the second process; the first is asked again from then on."""
        self.lines.append("by the second process:")
        if self.other is None:
            try:
                self.other = self.join()
                self.prepare(self.other)
            except StoreError as error:
                self.lines.append(f"  = {show(error)}")
                raise _Enough from error
        self.engine, self.other = self.other, self.engine
        try:
            return self.do(*requests, tick=tick)
        finally:
            self.engine, self.other = self.other, self.engine

    def die(self, owner: str) -> None:
        self.lines.append(f"{owner} dies")
        self.living.discard(owner)

    def replace_other(self) -> None:
        """Let the second process die; the next commit in it is another process's."""
        self.die(f"p{self.starts}")
        self.other = None

    def after(self, millis: int) -> None:
        self.lines.append(f"after {millis} ms")
        self.clock.now += millis

    def _end_step(self) -> None:
        for number, (name, arguments) in enumerate(
            (each for each in self.disk.called if each[0] not in _UNTOLD),
            self.disk.count - sum(each[0] not in _UNTOLD for each in self.disk.called) + 1,
        ):
            told = [each for each in arguments if isinstance(each, str | int)]
            self.calls[len(self.lines)] = number
            if not self.is_swept or name.startswith("sync"):  # A failed sync ends the store.
                self.unswept.add(len(self.lines))
            self.lines.append(f"    {name} {' '.join(map(str, told))}".rstrip())
        self.disk.called.clear()
        self.steps += 1
        self.ends.append(len(self.lines))
        if self.steps >= self._most or self.disk.refused:
            raise _Enough

    def end(self) -> None:
        """Go on after a while, then let another process take over, and tell what it finds."""
        self._most, self.disk.refuses, self.disk.refused = 1 << 30, 0, ""
        self.disk.faults = int
        self.clock.now += RETRY
        try:
            for _ in range(4 if self._has_engine else 0):
                self.tick()
        except SyncFailed as error:
            self.lines.append(f"the store ends: {error}")
        self.lines.append(f"  counted: {show(self.engine.moves.statistics.messages)}")
        self.living.clear()
        self.disk.free_locks()
        self.engine = self.join()
        self.settle()
        self.lines.append("another start")
        folders = [each.name for each in self.disk.disk.scan(".") if each.kind is FileKind.FOLDER]
        for folder in sorted(folders):
            for each in sorted(self.disk.disk.scan(folder), key=lambda each: each.name):
                path = f"{folder}/{each.name}"
                if each.kind is FileKind.FOLDER:
                    folders.append(path)
                elif folder != "config":
                    self.lines.append(f"  {path}")
        for name in sorted(self.engine.catalog.records):
            (sent,) = self.commit(Send(queue=name, bodies=[b"p"], deduplication_ids={0: "k"}))
            self.tick()
            found = self.ask(Receive(queue=name, max_messages=99))
            bodies = [body for delivery in found for body in delivery.bodies]
            again = ", a duplicate" if getattr(sent, "duplicates", ()) else ""
            self.lines.append(f"  {name}: {show(bodies)}{again}")

    # What a person does.

    def put(self, path: str, content: bytes = b"") -> None:
        self.lines.append(f"a person puts {path}")
        folder, there = path.rpartition("/")[0], self.disk.disk
        if folder and folder.rpartition("/")[2] not in [
            each.name for each in there.scan(folder.rpartition("/")[0] or ".")
        ]:
            there.make_folder(folder)
        there.create(path, [content], sync=True)

    def take(self, path: str) -> None:
        self.lines.append(f"a person removes {path}")
        self.disk.disk.unlink(path)

    def rename(self, path: str, target: str) -> None:
        self.lines.append(f"a person renames {path} to {target}")
        self.disk.disk.rename(path, target)

    def copy(self, path: str, target: str) -> None:
        self.lines.append(f"a person copies {path} to {target}")
        content = self.disk.disk.read(path)
        with suppress(FileExistsError):
            self.disk.disk.create(target, [content], sync=True)

    def cut(self, cut: Cut) -> None:
        """Cut the power."""
        self.lines.append("the power fails")
        self.disk.disk = self.disk.disk.cut(cut)
        self.changes = Bytes()
        self.restart()

    def damage(self, path: str, old: bytes, new: bytes) -> None:
        self.lines.append(f"{path} is damaged")
        node = self.disk.disk.node(path)
        assert isinstance(node, File)
        assert old in node.content
        node.content = node.content.replace(old, new, 1)

    def tear(self, folder: str) -> None:
        """Cut the end off the first file in a folder."""
        path = self.path_of(folder)
        self.lines.append(f"{path} is torn")
        node = self.disk.disk.node(path)
        assert isinstance(node, File)
        node.content = node.content[:-3] + bytes(3)

    def path_of(self, folder: str, of: str = "") -> str:
        """Return the first path in a folder whose name holds this text."""
        return min(f"{folder}/{each.name}" for each in self.disk.disk.scan(folder) if of in each.name)


class _RefusingOne(PickyDisk):
    def __init__(self, disk: LinkedDisk) -> None:
        super().__init__(disk)
        self.refuses = self.code = self.count = 0
        self.refused = ""
        self.faults: Callable[[], int] = int
        """Returns the errno of the next call, 0 for most."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = super().__getattr__(name)

        def passed(*arguments: Any, **named: Any) -> Any:
            if name not in _UNTOLD:
                self.count += 1
                if self.count == self.refuses:
                    self.refused = name
                    if self.code == GONE:
                        self.disk.unlink(arguments[0])
                    else:
                        self.fail(self.code, name, times=1)
                elif name != "touch" and (code := self.faults()):
                    self.fail(code, name, times=1)
            return call(*arguments, **named)

        return passed


Story = Callable[[Recorder], None]


def label_in(line: str, labels: dict[str, str]) -> str:
    """Return a line with short labels in place of ids."""
    return _ID.sub(lambda found: labels.setdefault(found[0], f"<{len(labels) + 1}>"), line)


def show(value: Any) -> str:
    """Return a value as text; of a dataclass the fields that aren't as by default."""
    if isinstance(value, StoreError):  # Without its text, which is that of its class.
        facts = ", ".join(f"{name}={show(fact)}" for name, fact in value.facts.items())
        return f"{type(value).__name__}({facts})"
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        told = []
        for each in fields(value):
            found = getattr(value, each.name)
            default = each.default
            if default is MISSING and each.default_factory is not MISSING:
                default = each.default_factory()
            if default is MISSING or found != default:
                told.append(f"{each.name}={show(found)}")
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, Credits):
        return f"{value.in_flight} of {value.limit}, {value.bytes_in_flight} bytes"
    if isinstance(value, FunctionType):
        return value.__name__
    if value is UNFINISHED:
        return "it goes on"
    if isinstance(value, list):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(show, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{show(key)}: {show(each)}' for key, each in value.items())}}}"
    return repr(value)


def record(story: Story) -> str:
    """Return the text of a story; under each call of the disk stands what changes if it is refused, or
    if its file is gone."""
    labels: dict[str, str] = {}
    whole = run(story)
    ends: dict[int, list[str]] = {}
    lines = list[str]()
    for place, line in enumerate(whole.lines):
        lines.append(label_in(line, labels))
        if place not in whole.calls or place in whole.unswept:
            continue
        for code in (errno.EIO, GONE) if line.strip().startswith(_OF_FILES) else (errno.EIO,):
            other = run(story, refuses=whole.calls[place], code=code)
            if other.steps not in ends:
                ends[other.steps] = _told(run(story, steps=other.steps))
            word = "gone" if code == GONE else "refused"
            before, after = Counter(ends[other.steps]), Counter(_told(other))
            lines += [
                f"        {word}: {sign} {label_in(each.strip(), labels)}"
                for sign, changed in (("-", before - after), ("+", after - before))
                for each in changed.elements()
                if sign == "+" or "/" in each.partition(" = ")[0]
            ]
    return "".join(f"{line}\n" for line in lines)


def _told(recorder: Recorder) -> list[str]:
    """Return the lines but for calls; each folder of quarantine has an id of its own."""
    return [
        re.sub(r"quarantine/[0-9a-f-]{36}", "quarantine/*", line)
        for place, line in enumerate(recorder.lines)
        if place not in recorder.calls and not line.startswith("  QueueMetrics(")
    ]


def run(
    story: Story,
    *,
    steps: int = 1 << 30,
    refuses: int = 0,
    code: int = 0,
    **options: Any,
) -> Recorder:
    store_log = logging.getLogger("spoolrack_store")
    is_shared = "shared" in story.__name__
    recorder = Recorder(is_shared=is_shared, steps=steps, refuses=refuses, code=code, **options)
    store_log.addHandler(recorder.handler)
    level, propagates = store_log.level, store_log.propagate
    store_log.setLevel(logging.INFO)
    try:
        try:
            story(recorder)
        except _Enough:
            pass
        except SyncFailed as error:
            recorder.steps += 1
            recorder.lines.append(f"the store ends: {error}")
        recorder.end()
    finally:
        store_log.removeHandler(recorder.handler)
        store_log.setLevel(level)
        store_log.propagate = propagates
    return recorder


def inspect(folder: Path, damages: Mapping[str, Callable[[Path], object]]) -> str:
    """Return the text of an inspection after each of the damages, and of the repair; the roots are made
    in `folder`. The order in which a disk lists its folders makes no difference."""
    lines = list[str]()
    for number, (name, damage) in enumerate(damages.items()):
        root = make_root(folder / str(number))
        damage(root)
        _, mended, left = fsck.repair(root, clock=Still())
        report = fsck.check(root, clock=Still())
        told = [f"  {each.how}: {show(each.problem)}" for each in mended]
        told += [f"  left: {show(each)}" for each in left]
        told += [f"  still: {show(each)}" for each in report.problems]
        told += [f"  leftover: {show(each)}" for each in report.leftovers]
        told += [f"  in quarantine: {each.source}: {each.why}" for each in report.quarantined]
        for queue, tally in report.queues.items():
            counts = sorted((state.value, count) for state, count in tally.counts.items())
            told.append(f"  {queue}: {counts}, {tally.bytes} bytes")
        lines += [name, *sorted(told)]
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace").decode()


def path_of(story: Story) -> Path:
    return RECORDINGS / f"{story.__name__}.txt"


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    from tests.store.drawn_stories import DRAWN, SEEDS, digests
    from tests.store.stories import STORIES
    from tests.store.test_store_fsck_damage import INSPECTED

    for each in STORIES:
        path_of(each).write_text(record(each))
    with TemporaryDirectory() as folder:
        (RECORDINGS / "fsck.txt").write_text(inspect(Path(folder), INSPECTED))
    DRAWN.write_text("".join(f"{' '.join(digests(seed)[1])}\n" for seed in SEEDS))
