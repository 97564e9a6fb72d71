"""A caller that is alone does its commit itself, where no signal's handler can interrupt it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spoolrack
from spoolrack._transports import folder_calls
from spoolrack.errors import OutcomeUnknown
from spoolrack_store.store import Store


def _in_a_thread(action: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    (result,) = found
    return result


@pytest.mark.parametrize("is_main", [True, False])
def test_a_plain_call_is_done_in_its_thread_unless_that_is_the_main_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_main: bool
) -> None:
    tried: list[str] = []
    try_now = Store.try_now
    monkeypatch.setattr(folder_calls, "QUICK", 3600.0)
    with spoolrack.connect(f"file://{tmp_path}/root") as client:
        jobs = client.create_queue("jobs")

        def noted(store: Store, request: Any, within: float) -> Any:
            tried.append(type(request).__name__)
            return try_now(store, request, within)

        monkeypatch.setattr(Store, "try_now", noted)

        def life() -> list[str]:
            jobs.send("a")
            (message,) = jobs.receive()
            message.delete()
            return [each.text for each in jobs.receive(wait=0)]

        assert (life() if is_main else _in_a_thread(life)) == []
    # Where the store's own thread is at work just then, the call is submitted all the same.
    assert tried == ([] if is_main else ["Send", "Receive", "Delete", "Receive"])


def test_a_sync_that_fails_in_the_callers_thread_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_calls, "QUICK", 3600.0)
    with spoolrack.connect(f"file://{tmp_path}/root") as client:
        jobs = client.create_queue("jobs")

        def fails(*_: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("spoolrack_store.files.local_disk.LocalDisk.sync_file", fails)

        def send() -> object:
            try:
                return jobs.send("a")
            except spoolrack.SpoolrackError as error:
                return error

        assert isinstance(_in_a_thread(send), OutcomeUnknown)
