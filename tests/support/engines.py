"""Engines for tests: how one starts on a disk, and commits that are synced at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from spoolrack_store.engine.engine import Engine, Work
from spoolrack_store.files.layout import CONFIG
from spoolrack_store.files.local_disk import LocalDisk, RunningProcess, this_process
from spoolrack_store.files.root import Root, make_root, open_root
from spoolrack_store.model.settings import QueueSettings, Record, encode, settings_path


def start(
    disk: Any,
    changes: Any,
    *,
    clock: Any,
    owner: str = "p1",
    random: Random | None = None,
    is_living: Callable[[str], bool] = lambda owner: False,
    queues: Mapping[str, QueueSettings] | None = None,
    **more: Any,
) -> Engine:
    """Return an engine that has opened the root and knows the queues."""
    random = random or Random(owner)
    engine = Engine(disk, changes, clock=clock, random=random, owner=owner, is_living=is_living, **more)
    for queue, settings in (queues or {}).items():
        declare(engine, queue, settings)
    assert engine.open()
    return engine


def opened(
    path: str | os.PathLike[str],
    clock: Any,
    process: RunningProcess | None = None,
    made: type[LocalDisk] = LocalDisk,
) -> tuple[Root, Engine]:
    """Return the root in a folder, which is made where none is, and an engine that has opened it."""
    make_root(path)
    root = open_root(made(path), os.fspath(path), Random(), process or this_process())
    engine = start(
        root.disk, root.memory, clock=clock, owner=root.owner, random=Random(), is_living=root.is_living
    )
    return root, engine


def applied(engine: Engine, *requests: Any, tick: bool = False) -> Work:
    """Return a commit of `requests` that is neither synced nor finished."""
    work = engine.apply(requests, tick=tick)
    assert work is not None, "no process holds the lock"
    return work


def begun(engine: Engine, *requests: Any) -> Work:
    """Return a commit of `requests` that is synced, and not finished: no answer has left."""
    work = applied(engine, *requests)
    if work.barrier is not None:
        work.barrier.sync()
    return work


def commit(engine: Engine, *requests: Any, tick: bool = False) -> list[Any]:
    """Return the answers of a commit of `requests` that is synced at once."""
    work = applied(engine, *requests, tick=tick)
    if work.barrier is not None:
        work.barrier.sync()
    outcomes = engine.finish(work)
    assert outcomes is not None, "no process holds the lock"
    return list(outcomes)


def declare(engine: Engine, name: str, settings: QueueSettings, salt: str = "") -> None:
    """Write a queue's settings before `engine` opens, unless some are there."""
    disk, clock = engine.moves.disk, engine.moves.clock
    if any(each.name.startswith(f"{name}.") for each in disk.scan(CONFIG)):
        return
    # No two queues of a root have one salt.
    salt = salt or re.sub("[^0-9a-z]", "", name.lower())[:16]
    record = Record(settings=settings, created_at=clock.wall(), salt=salt)
    disk.create(settings_path(name, 1), [encode(record)], sync=True)
    disk.sync_folder(CONFIG)
