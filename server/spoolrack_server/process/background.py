"""The mover and the reaper in processes of their own, beside servers without them.

Both can start and end at any time, and several of each may run: due and deleted messages lie in
folders, and each piece of work is done once. Starting can fail as a server's can.
"""

from __future__ import annotations

import asyncio
import os

from spoolrack_store.model.background_work import ONLY_REAPS, BackgroundWork
from spoolrack_store.model.errors import StoreError
from spoolrack_store.store import Store

from ..system.logs import LogFormat, adopt_library_logs, make_log
from .garbage import frozen_afterwards
from .shutdown import EXIT_CODES, print_startup_error, shutdown_on_signals


async def move(root: str, background: BackgroundWork, log_format: LogFormat) -> int:
    """Do the due work of `root` until a signal; return the process's exit code."""
    return await _run(root, background, log_format, "moving")


async def reap(root: str, log_format: LogFormat) -> int:
    """Unlink deleted files until a signal; return the process's exit code."""
    return await _run(root, ONLY_REAPS, log_format, "reaping")


async def _run(root: str, background: BackgroundWork, log_format: LogFormat, what: str) -> int:
    """Have the root open for this background work only, until a signal."""
    log = make_log(format=log_format)
    adopt_library_logs(log)
    loop = asyncio.get_running_loop()
    ending = shutdown_on_signals(log, "stopping")
    failures: list[StoreError] = []

    def failed(error: StoreError) -> None:
        # From a thread of the store.
        failures.append(error)
        loop.call_soon_threadsafe(ending.set)

    try:
        with frozen_afterwards():
            store = await asyncio.to_thread(Store.open, root, background=background)
    except tuple(EXIT_CODES) as error:
        return print_startup_error(error, log_format)
    store.on_failure(failed)
    log.info(what, root=root)
    await ending.wait()
    await asyncio.to_thread(store.close)
    log.info("stopped", root=root)
    return print_startup_error(failures[0], log_format) if failures else os.EX_OK
