"""Histories of processes on several hosts that share a root: each syncs its own changes alone."""

from __future__ import annotations

from tests.proof.crash.everything_story import EverythingStory
from tests.proof.crash.troubled_story import TroubledDisk
from tests.support.engine_story import Story
from tests.support.linked_disk import LinkedDisk
from tests.support.power_disk import Model


class SharedDisk(LinkedDisk):
    """A file system that several hosts have mounted: its syncs are of single files and folders."""

    def __init__(self, *, can_sync_all: bool = False, model: Model = Model.ANY_SUBSET) -> None:
        super().__init__(can_sync_all=False, model=model)
        self.several_hosts = True

    def drop_unwritten(self) -> None:
        """Evict a host: what it wrote and hadn't synced never leaves its memory."""
        for file in self._unsynced:
            file.content = b""


class SharedTroubledDisk(SharedDisk, TroubledDisk):
    """One that refuses calls, too."""


class HostsStory(Story):
    disk_kind = SharedDisk


class EveryHostsStory(EverythingStory):
    disk_kind = SharedTroubledDisk
