"""What is not decided yet: a commit under way, or one that failed, may have done it or not."""

from __future__ import annotations

from dataclasses import dataclass, field

from redrive_fates import Lead
from spoolrack_store.model.settings import QueueSettings


@dataclass(slots=True)
class Open:
    """What the commit under way, or one that failed, may have done or not."""

    calls: list[list[bytes]] = field(default_factory=list)
    """The bodies of each send, by what must appear together."""
    dying: set[str] = field(default_factory=set)
    """Ids that may be deleted."""
    doomed: set[str] = field(default_factory=set)
    """Ids that may be deleted by the commit of their set, which then is committed."""
    changing: set[str] = field(default_factory=set)
    """Ids whose leases may be changed, or over."""
    receiving: set[str] = field(default_factory=set)
    """Queues of which something may be leased."""
    emptied: set[str] = field(default_factory=set)
    """Queues of which anything may be deleted."""
    redriving: list[Lead] = field(default_factory=list)
    """Redrives that may have begun."""
    settings: dict[str, list[QueueSettings | None]] = field(default_factory=dict)
    """What the queues may be set to; None: there may be no such queue."""
    is_of_dead: bool = False
    """Whether it was left by a process that died while others lived."""

    def copy(self) -> Open:
        return Open(
            list(self.calls),
            set(self.dying),
            set(self.doomed),
            set(self.changing),
            set(self.receiving),
            set(self.emptied),
            list(self.redriving),
            {name: list(settings) for name, settings in self.settings.items()},
            self.is_of_dead,
        )

    def sends(self, body: bytes) -> bool:
        return any(body in call for call in self.calls)

    def add(self, other: Open) -> None:
        """What the other may have done, too."""
        self.calls += other.calls
        self.dying |= other.dying
        self.doomed |= other.doomed
        self.changing |= other.changing
        self.receiving |= other.receiving
        self.emptied |= other.emptied
        self.redriving += other.redriving
        for name, settings in other.settings.items():
            self.settings.setdefault(name, []).extend(settings)
