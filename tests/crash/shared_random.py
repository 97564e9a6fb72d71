"""Makes up a history of two or three engines from a seed: commits in parts, deaths, and power cuts.

Half of the commits are done at once, the others in parts, with what others do in between. Whoever has
died starts again, sooner or later. In some histories an engine's disk fails.
"""

from __future__ import annotations

from random import Random

from acts import PARTS, Act, Death, History, Line, Opening, Place, Plot, Trouble, Turn
from cuts import KILL, Cut, Keep, Model
from random_history import Inventing
from step_disk import Fault, Torn

LINES = 60
FAULTY = 0.25
"""So many of the histories have an engine whose disk fails."""
POWER = 0.25
"""So many of the deaths take the power from all."""
FAULTS = (Fault.EIO, Fault.ENOSPC, Fault.EMFILE, Fault.UNSYNCED)


def random_shared_history(seed: int) -> History:
    return _InventingShared(seed).history()


class _InventingShared:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"shared history {seed}")
        self.plot = Plot(
            seed=seed,
            model=random.choice(list(Model)),
            can_sync_all=random.random() < 0.6,
            relaxed=random.random() < 0.15,
            max_receives=random.choice((2, 3)),
            engines=random.choice((2, 2, 3)),
        )
        self.requests = Inventing(seed, has_stages=False)
        self.is_faulty = random.random() < FAULTY

    def history(self) -> History:
        lines: list[Line] = []
        while len(lines) < LINES:
            lines += self._lines()
        return History(self.plot, tuple(lines))

    def _lines(self) -> list[Line]:
        random, who = self.random, self.random.choice(self.plot.names)
        match random.randrange(20):
            case 0:
                return [(Act("pass", (random.choice((1, 1_000, 29_999, 30_000, 45_000)),)),)]
            case 1:
                return [Turn(who, "", (Act("later", (random.choice((2_000, 30_000)),)),))]
            case 2 | 3:
                return [
                    Turn(
                        who,
                        "",
                        (Act(random.choice(("tick", "tick", "heed", "reap", "lose", "deafen"))),),
                    )
                ]
            case 4:
                return [self._death(who)]
            case 5 | 6:
                return [Opening(who)]
            case 7 if random.random() < 0.3:
                return [(Act("put", (random.choice("qd"), 5)),)]
            case 8 if self.is_faulty:
                skip, times = random.randrange(12), random.choice((1, 1, 3))
                return [Trouble(who, random.choice(FAULTS), skip, times)]
            case 9 if self.is_faulty:
                return [Turn(who, "", (Act("heal"),))]
            case 10 | 11 | 12:
                return [Turn(who, random.choice(PARTS[1:]))]
            case _:
                acts = self.requests.commit()
                if random.random() < 0.2:
                    acts = (Act("tick"), *acts)
                return [Turn(who, random.choice(("", "apply")), acts)]

    def _death(self, who: str) -> Death:
        random = self.random
        torn = random.choice((None, None, Torn.HALF))
        cut = Cut(Keep.SOME, (random.randrange(1 << 30),)) if random.random() < POWER else KILL
        return Death(who, Place(random.randrange(30), torn, cut))
