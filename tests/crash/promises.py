"""What a story knows about each message: what was promised, and what was left open by a crash."""

from __future__ import annotations

from dataclasses import dataclass, field

from spoolrack_store.engine.views import Sight
from spoolrack_store.model.names import parse_receipt


class Broken(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Lease:
    receipt: str
    due: int
    """Unix time, as the name on disk has it."""
    ends: int
    """The same on the monotonic clock of the process that gave it."""

    @property
    def token(self) -> str:
        return parse_receipt(self.receipt).token


@dataclass(slots=True)
class Promises:
    alive: dict[str, bytes] = field(default_factory=dict)
    """Acknowledged, by id, with the body; and not acknowledged as deleted."""
    bodies: set[bytes] = field(default_factory=set)
    """Everything that anybody ever tried to send."""
    dead: set[str] = field(default_factory=set)
    """Acknowledged as deleted, or found to be so by a restart."""
    leases: dict[str, Lease] = field(default_factory=dict)
    """What consumers hold by acknowledged leases."""
    over: list[tuple[str, str]] = field(default_factory=list)
    """Queue and receipt of leases that have ended."""

    # Left open by the commit under way.
    calls: list[list[bytes]] = field(default_factory=list)
    """The bodies of each send under way, by what must appear together."""
    dying: set[str] = field(default_factory=set)
    """Ids that a delete or a purge under way names."""
    changing: set[str] = field(default_factory=set)
    """Ids whose leases are being changed."""
    blurred: bool = False
    """Whether a whole queue was being deleted."""

    def settle(self) -> None:
        """The commit under way was acknowledged, and its answers were noted."""
        self.calls.clear()
        self.dying.clear()
        self.changing.clear()
        self.blurred = False

    def sent(self, id: str, body: bytes) -> None:
        if id in self.alive or id in self.dead:
            raise Broken(f"the id {id} was given twice")
        self.alive[id] = body

    def deleted(self, id: str) -> None:
        self.alive.pop(id, None)
        self.leases.pop(id, None)
        self.dead.add(id)

    def leased(self, id: str, body: bytes, lease: Lease, now: int) -> None:
        self.seen(id, body)
        held = self.leases.get(id)
        if held is not None:
            if held.ends > now:
                raise Broken(f"{id} is leased twice at once: until {held.ends}, and again at {now}")
            self.over.append((held.receipt.partition(":")[0], held.receipt))
        self.leases[id] = lease

    def released(self, queue: str, id: str) -> None:
        lease = self.leases.pop(id, None)
        if lease is not None:
            self.over.append((queue, lease.receipt))

    def seen(self, id: str, body: bytes) -> None:
        """A message was delivered, or found."""
        if id in self.dead:
            raise Broken(f"{id} is deleted, and was delivered")
        if body not in self.bodies:
            raise Broken(f"{id} has a body that nobody sent: {body[:40]!r}")
        if self.alive.get(id, body) != body:
            raise Broken(f"{id} has another message's body")

    def judge(self, found: dict[str, tuple[bytes, Sight]]) -> None:
        """After a crash, hold what is there against what was promised."""
        for id, (body, _) in found.items():
            self.seen(id, body)
        missing = self.alive.keys() - found.keys() - self.dying
        if missing and not self.blurred:
            raise Broken(f"lost: {sorted(missing)}")
        there = {body for body, _ in found.values()}
        for call in self.calls:
            arrived = [body for body in call if body in there]
            if arrived and len(arrived) != len(call):
                raise Broken(f"{len(arrived)} of the {len(call)} messages of one send are there")

    def judge_leases(self, found: dict[str, tuple[bytes, Sight]], wall: int, monotonic: int) -> None:
        """After a crash, of strict queues: what was leased is leased, until it is due.

        That is past at the Unix time `wall`, or by `monotonic`, the dead process's last.
        """
        for id, lease in self.leases.items():
            if id in self.changing or id in self.dying or self.blurred:
                continue
            if lease.due <= wall or lease.ends <= monotonic:
                continue
            sight = found[id][1]
            if lease.token not in sight.path or sight.due != lease.due:
                raise Broken(f"{id} was leased until {lease.due}, and is {sight.state.value}")

    def accept(self, found: dict[str, tuple[bytes, Sight]], wall: int, monotonic: int) -> None:
        """What a restart found is how it is from now on."""
        self.dead |= self.alive.keys() - found.keys()
        self.alive = {id: body for id, (body, _) in found.items()}
        for id, lease in list(self.leases.items()):
            if id not in found or lease.token not in found[id][1].path:
                del self.leases[id]
                continue
            lease.due = found[id][1].due or 0
            lease.ends = monotonic + lease.due - wall
        self.settle()
