"""The context of the engine's parts: what they share, and the numbers of commits.

The disk, the clock and the syncs; the index of all names; what a commit may still do; and what it
leaves for others to see. All of it belongs to the holder of the store's lock, as the engine does.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from ..files.changes import Changes
from ..files.disk import Disk
from ..files.disk_room import HeldRoom
from ..files.removed import RemovedFiles
from ..files.spares import Spares
from ..files.syncer import Barrier, Syncer
from ..model.clock import CommitClock, Millis
from ..model.disk_watermark import DiskWatermark
from ..model.message_ids import FileIds
from .effort import Effort
from .entries import Entry
from .index import Index

MARGIN: Final = 1_000
"""By so many milliseconds the clocks of hosts that share a root may differ: a host ends leases that
another one made so much later."""
FIRST_FILE_SECONDS: Final = 0.001
"""Of a file, before any is measured: ten times what a local disk takes."""


class Context:
    """What all parts of one engine share. Not thread-safe."""

    def __init__(
        self,
        disk: Disk,
        clock: CommitClock,
        owner: str,
        ids: FileIds,
        *,
        is_living: Callable[[str], bool] = lambda owner: False,
        watermark: DiskWatermark | None = None,
    ) -> None:
        """`is_living` tells whether another process, by its owner, has the root open; below the free
        room of `watermark` nothing is stored."""
        self.disk = disk
        self.changes: Changes | None = None
        """Where moves are told to other processes; None: there never are any."""
        self.clock = clock
        self.owner = owner
        self.ids = ids
        self.index = Index()
        self.syncer = Syncer(disk)
        self.statistics: Final = self.syncer.statistics
        """Counts of all work since the start."""
        self.effort = Effort()
        """Background work draws on it."""
        self.request_effort = Effort()
        """Each move draws on it, for `run_in`."""
        self.commit = 1
        """The number of the commit under way."""
        self.synced = 0
        """The last commit whose sync is complete."""
        self.margin = MARGIN if disk.several_hosts else 0
        """So many milliseconds late other processes end a lease."""
        self.held_room = HeldRoom(disk)
        """Room on a full disk, for moves: deletes make room, and a delete needs a receive."""
        self.watermark = watermark or DiskWatermark()
        self.removed_files = RemovedFiles(disk)
        """Names that the reaper may unlink: room on a full disk, too."""
        self.spares = Spares(disk, owner)
        """Files that were made before, for sends."""
        self.to_enqueue: list[Entry] = []
        """Entries in `new/` that must be where other processes look before this commit is answered:
        leases, and messages of strict groups, as what is sent after the answer comes after them."""
        self.foreign_files: dict[str, str] = {}
        """Paths of what was found in the folders and is none of ours, and why."""
        self.quarantined = 0
        """Messages and foreign files that were put into quarantine."""
        self.queues: Container[str] | None = None
        """The names of all queues; None: they aren't known."""
        self.is_living = is_living
        self.full_at: Millis | None = None
        """When the disk had no room for a file that was sent, though its free space says otherwise: a
        quota. None: there was room for the last one."""
        self.refused_at: Millis | None = None
        """The monotonic time at which the disk refused something last."""
        self.unlinked = 0
        """Messages that were unlinked from `remove/`."""
        self.file_seconds = FIRST_FILE_SECONDS
        """Seconds that it took of late to make, rename or unlink a file: a moving mean."""
        self.unread_files: dict[str, None] = {}
        """Files of parts that the disk refused to show: each commit looks at them again."""

    def begin_sync(self) -> tuple[int, Barrier]:
        """End the current commit; return its number and the objects to sync."""
        number, self.commit = self.commit, self.commit + 1
        return number, self.syncer.begin()

    def begin_data_sync(self) -> Barrier:
        """End the current commit; return the spares to sync. Its changes of names wait for a later
        sync, so `synced` doesn't reach it by this one."""
        self.commit += 1
        return self.syncer.begin_data()

    def end_sync(self, number: int) -> None:
        self.synced = max(self.synced, number)

    @property
    def is_shared(self) -> bool:
        """Whether other processes have the root open."""
        return self.changes is not None and self.changes.is_shared
