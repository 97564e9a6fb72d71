"""Makes up a history from a seed: a few lives of one root, with one to three consumers, and crashes.

Some have a disk that fails, some a clock that is set. Most lines are commits of one to three requests.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from acts import Act, Crash, Fail, History, Line, Place, Plot
from asking import CONSUMERS, FEW_IDS, QUEUES
from cuts import KILL, Cut, Keep, Model
from step_disk import Fault, Torn

LINES = 25
"""So many in each life."""
FAULTY = 0.3
"""So many of the histories have a disk that fails."""
WHOLE_QUEUE = 0.04
"""So many of the commits are about whole queues, which end most of what the story is about."""
AWAITED = 0.12
"""So many of the commits send what is received in the same commit, where nothing older is ready."""
POWER = 0.8
"""So many of the crashes take the power, too."""


def random_history(seed: int) -> History:
    return Inventing(seed).history()


def plot_of(random: Random, seed: int) -> Plot:
    return Plot(
        seed=seed,
        model=random.choice(list(Model)),
        can_sync_all=random.random() < 0.5,
        relaxed=random.random() < 0.2,
        max_receives=random.choice((2, 3)),
    )


class Inventing:
    """Makes up what happens, from a seed."""

    def __init__(self, seed: int, *, has_stages: bool = True) -> None:
        self.seed = seed
        self.random = random = Random(f"history {seed}")
        self.plot = plot_of(random, seed)
        self.queues = QUEUES if random.random() < 0.5 else ("q", "d")
        self.consumers = random.randint(1, CONSUMERS)
        self.is_faulty = random.random() < FAULTY
        self.has_stages = has_stages

    def history(self) -> History:
        lines: list[Line] = []
        for _ in range(self.random.randint(1, 4)):
            life = [self._line() for _ in range(LINES)]
            life.insert(self.random.randrange(LINES), self._crash())
            if self.is_faulty:
                for _ in range(self.random.randint(1, 3)):
                    at = self.random.randrange(LINES)
                    life.insert(at, self._fail())
                    life.insert(at + self.random.randint(2, 5), (Act("heal"),))
            lines += life
        return History(self.plot, tuple(lines))

    def _line(self) -> Line:
        match self.random.randrange(12):
            case 0:
                return (Act("pass", (self._pick(1, 1_000, 29_999, 30_000, 45_000),)),)
            case 1:
                return (Act("later", (self._pick(2_000, 30_000, 30_000, 60_000),)),)
            case 2:
                return (Act("reap"),) if self.random.random() < 0.7 else (Act("tick"),)
            case 3 if self.random.random() < 0.3:
                return (Act("wall", (self._pick(-3_600_000, 3_600_000),)),)
            case 3 if self.random.random() < 0.5:
                return (Act("put", (self._queue(), self._pick(0, 5, 60))),)
            case _:
                return self.commit()

    def commit(self) -> tuple[Act, ...]:
        """One to three requests that are made together."""
        if self.random.random() < AWAITED:
            return self._awaited()
        makers: list[Callable[[], Act]] = [
            *[self._send] * 3,
            *[self._send_ids] * 2,
            *[self._receive] * 4,
            *[self._delete] * 3,
            self._delete_by_id,
            *[self._change] * 2,
            self._give_back,
            self._create,
            *[self._reserve] * 2,
            self._about_set,
            self._mark_read,
            self._commit_sets,
            *[self._stage, self._stage, self._publish] * self.has_stages,
            self._redrive,
        ]
        if self.has_stages and self.random.random() < 0.03:
            makers = [self._abort]
        if self.random.random() < WHOLE_QUEUE:
            makers = [self._purge, self._delete_queue, self._update]
        count = self._pick(1, 1, 2, 3)
        return tuple(self.random.choice(makers)() for _ in range(count))

    def _awaited(self) -> tuple[Act, ...]:
        queue, consumer = self._queue(), self._consumer()
        sends = [
            Act("send", (queue, self._pick(1, 1, 3, 9), 5, 0))
            if self.random.random() < 0.7
            else Act("send-id", (queue, self._pick(1, 3), 5, self.random.randrange(FEW_IDS)))
            for _ in range(self._pick(1, 1, 2))
        ]
        receives = [Act("receive", (consumer, queue, most, 0)) for most in self._some((1, 3, 10, 20))]
        # First it takes what is ready.
        return (Act("receive", (consumer, queue, 20, 0)), *sends, *receives)

    def _some(self, numbers: tuple[int, ...]) -> list[int]:
        return self.random.sample(numbers, self._pick(1, 2))

    def _crash(self) -> Crash:
        random = self.random
        torn = random.choice((None, None, *Torn))
        places = [Place(random.randrange(60), torn, self._cut())]
        while random.random() < 0.3:
            # The next start dies as well, or the disk fails during it.
            if random.random() < 0.8:
                places.append(Place(random.randrange(16), random.choice((None, *Torn)), self._cut()))
            elif self.is_faulty:
                fault = random.choice((Fault.EIO, Fault.ENOSPC, Fault.EMFILE))
                places.append(Place(random.randrange(30), fault, self._cut()))
        return Crash(tuple(places))

    def _fail(self) -> Fail:
        fault = self.random.choice(list(Fault))
        often = 1 << 20
        times = often if fault is Fault.FULL else self._pick(1, 1, 1, 2, 5, often)
        return Fail(fault, self.random.randrange(20), times, self._cut())

    def _cut(self) -> Cut:
        if self.random.random() >= POWER:
            return KILL
        return Cut(Keep.SOME, (self.random.randrange(1 << 30),))

    # The requests.

    def _pick(self, *numbers: int) -> int:
        return self.random.choice(numbers)

    def _queue(self) -> str:
        return self.random.choice(self.queues)

    def _some_receipts(self) -> tuple[int, str, int, int]:
        """Whose, of the good ones or of the used ones, and which."""
        whose = "held" if self.random.random() < 0.85 else "old"
        count = self._pick(0, 0, 0, 1, 1, 2, 3)
        return self._consumer(), whose, self.random.randrange(8), count

    def _consumer(self) -> int:
        return self.random.randrange(self.consumers)

    def _send(self) -> Act:
        count, size = self._pick(1, 1, 2, 3, 7), self._pick(0, 5, 60)
        return Act("send", (self._queue(), count, size, self._pick(0, 0, 0, 10_000)))

    def _send_ids(self) -> Act:
        args = self._pick(1, 1, 2, 3), self._pick(0, 5, 60), self.random.randrange(FEW_IDS)
        return Act("send-id", (self._queue(), *args))

    def _receive(self) -> Act:
        most, visibility = self._pick(1, 2, 3, 10), self._pick(0, 30_000, 5_000)
        return Act("receive", (self._consumer(), self._queue(), most, visibility))

    def _delete(self) -> Act:
        return Act("delete", self._some_receipts())

    def _delete_by_id(self) -> Act:
        args = self._queue(), self.random.randrange(20), self._pick(1, 1, 2, 3, 6)
        return Act("delete-id", args)

    def _change(self) -> Act:
        return Act("change", (*self._some_receipts(), self._pick(0, 60_000)))

    def _give_back(self) -> Act:
        return Act("give-back", self._some_receipts())

    def _reserve(self) -> Act:
        most, hold = self._pick(1, 3, 10), self._pick(0, 30_000, 60_000)
        return Act("reserve", (self._stream(), self._queue(), self._pick(0, 1, 2, 3), most, hold))

    def _about_set(self) -> Act:
        if self.random.random() < 0.3:
            return Act("release", (self._stream(), self._pick(0, 1, 2, 3)))
        hold = self._pick(0, 5_000, 60_000, 90_000)
        return Act("confirm", (self._stream(), self._pick(0, 1, 2, 3), hold))

    def _mark_read(self) -> Act:
        return Act("mark-read", (self._stream(), self._pick(0, 1, 2, 3)))

    def _commit_sets(self) -> Act:
        return Act("commit", (self._stream(), self._pick(0, 0, 1, 1, 2, 3)))

    def _stream(self) -> str:
        return self.random.choice(("s", "t"))

    def _stage(self) -> Act:
        stage, queue = self.random.choice("stu"), self._queue()
        delay = self._pick(0, 0, 0, 10_000)
        return Act("stage", (stage, self._pick(0, 1, 2), queue, self._pick(1, 2, 3), delay))

    def _publish(self) -> Act:
        stages = self.random.choice(("s", "t", "u", "st", "stu"))
        return Act("publish", (self._pick(0, 0, 1), self._pick(0, 1, 1, 1, 2), stages))

    def _abort(self) -> Act:
        return Act("abort", (self.random.choice("stu"),))

    def _redrive(self) -> Act:
        if self.random.random() < 0.2:
            return Act("end-redrive", (self._queue(),))
        destination = "-" if self.random.random() < 0.7 else self._queue()
        return Act("redrive", (self._pick_dead(), destination, self._pick(0, 0, 1, 10)))

    def _pick_dead(self) -> str:
        return "d" if self.random.random() < 0.9 else self._queue()

    def _create(self) -> Act:
        return Act("create", (self._queue(),))

    def _purge(self) -> Act:
        return Act("purge", (self._queue(),))

    def _delete_queue(self) -> Act:
        return Act("delete-queue", (self._queue(),))

    def _update(self) -> Act:
        return Act("update", (self._queue(), self._pick(10_000, 30_000, 60_000)))
