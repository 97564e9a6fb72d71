"""What one message is by the last answer about it, or by how it was found."""

from __future__ import annotations

from dataclasses import dataclass

from seen import Found


@dataclass(frozen=True, slots=True)
class Fate:
    """One message that was promised, as it is by the last answer about it."""

    body: bytes
    queue: str
    receives: int = 0
    token: str | None = None
    """Of the lease that it is under."""
    due: int = 0
    """Unix time at which lease or delay ends; 0 if there is neither."""
    ends: int = 0
    """The same on the monotonic clock of the process that knows it."""
    was: Fate | None = None
    """What it was before it came back, or was buried, on its own: nobody was told, so a crash may undo
    that."""

    def lies_as(self, other: Fate) -> bool:
        mine, its = (self.queue, self.receives), (other.queue, other.receives)
        return mine == its and (self.token, self.due) == (other.token, other.due)

    def is_untold(self, now: Now) -> bool:
        """Whether it is a lease that was found, and that nobody was told of: it may be undone."""
        return self.token is not None and self.ends <= now.monotonic and self.due > now.wall


@dataclass(frozen=True, slots=True)
class Now:
    wall: int
    monotonic: int


def fate_of(found: Found, now: Now, before: Fate | None, *, crashed: bool) -> Fate:
    """What a message is, as it was found, that was `before` then."""
    name = found.name
    due = name.due or 0
    ends = now.monotonic + due - now.wall if due else 0
    was = None
    if before is not None and not crashed:
        is_same = before.queue == name.queue and before.due == due
        # Leased to nobody, since its reading failed: by what the clock said then, which isn't known.
        ends = before.ends if is_same else min(ends, now.monotonic)
        was = before.was if is_same else before
    return Fate(
        # It may be damaged where that is nobody's fault.
        body=found.body if before is None else before.body,
        queue=name.queue,
        receives=name.receives,
        token=name.token,
        due=due,
        ends=ends,
        was=was,
    )
