"""Queues whose settings are there before an engine opens."""

from __future__ import annotations

from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.layout import CONFIG
from spoolrack_store.model.settings import QueueSettings, Record, encode, settings_path


def declare(engine: Engine, name: str, settings: QueueSettings, salt: str = "") -> None:
    """Write a queue's settings before `engine` opens, unless some are there."""
    disk, clock = engine.moves.disk, engine.moves.clock
    if any(each.name.startswith(f"{name}.") for each in disk.scan(CONFIG)):
        return
    record = Record(settings=settings, created_at=clock.wall(), salt=salt)
    disk.create(settings_path(name, 1), [encode(record)], sync=True)
    disk.sync_folder(CONFIG)
