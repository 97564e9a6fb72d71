"""Files of the store's own that are removed or overwritten by hand: no message goes out of service.

Each fault is done beside a running server, or before a start. The log then names the event, its object
and a remedy.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack_store.files import layout
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import RootUnusable, UnknownFormat
from spoolrack_store.model.operations import CreateQueue, Delete, Message, Receive, Send, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support import STUCK
from tests.support.real_server import WELL, RealServer

HOUR = Millis(3_600_000)
Serve = Callable[..., RealServer]
Fault = Callable[[Path], None]


def remove_all_settings(root: Path) -> None:
    for path in (root / "config").iterdir():
        path.unlink()


def remove_config(root: Path) -> None:
    shutil.rmtree(root / "config")


def overwrite_all_settings(root: Path) -> None:
    for path in (root / "config").iterdir():
        path.write_bytes(b"\0garbage\n")


def remove_format(root: Path) -> None:
    (root / layout.FORMAT).unlink()


def removing(folder: str) -> Fault:
    def remove(root: Path) -> None:
        shutil.rmtree(root / folder)

    remove.__name__ = f"remove_{folder}"
    return remove


SETTINGS_ARE_LOST = ("the settings of the queue q are", "default settings", "spoolrack queues set q")
IS_MADE_ANEW = ("which is made anew", "only a backup has them")


def ask_all(store: Store) -> list[Message]:
    receive = Receive(queue="q", max_messages=100, visibility_timeout=HOUR)
    return messages_of(store.submit(receive).result(STUCK))


def make_root(root: Path, clock: ManualClock) -> None:
    """Make a queue with a ready, a leased, a delayed and a deleted message, and a batch."""
    with Store.open(root, clock=clock) as store:
        settings = QueueSettings(visibility_timeout=HOUR)
        store.submit(CreateQueue(name="q", settings=settings)).result(STUCK)
        for body in (b"deleted", b"leased", b"ready"):
            store.submit(Send(queue="q", bodies=[body])).result(STUCK)
        store.submit(Send(queue="q", bodies=[b"delayed"], delays={0: HOUR})).result(STUCK)
        batch = [b"batch %d" % number for number in range(5)]
        store.submit(Send(queue="q", bodies=batch)).result(STUCK)
        first, _ = messages_of(store.submit(Receive(queue="q", max_messages=2)).result(STUCK))
        receipts = [str(first.receipt)]
        assert store.submit(Delete(queue="q", receipts=receipts)).result(STUCK) == [None]


def alarms_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was said of the root, but for what kind of file system it is on."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name != "spoolrack_store.files.mounts"
    ]


ALL = {b"ready", b"leased", b"delayed", *(b"batch %d" % number for number in range(5))}
HIDDEN = {b"leased", b"delayed"}


@pytest.mark.parametrize(
    ("fault", "told", "left"),
    [
        (remove_all_settings, SETTINGS_ARE_LOST, ALL),
        (remove_config, ("config", *SETTINGS_ARE_LOST), ALL),
        (
            overwrite_all_settings,
            ("'config/q.1.json' is moved to quarantine/", *SETTINGS_ARE_LOST),
            ALL,
        ),
        (remove_format, ("no FORMAT file",), ALL),
        # Their content is lost by the fault itself; nothing else goes with it.
        (removing("delay"), ("no folder delay", *IS_MADE_ANEW), ALL - HIDDEN),
        (removing("queues"), ("no folder queues", *IS_MADE_ANEW), HIDDEN),
        (removing("queues/q"), ("the folder queues/q was missing", "only a backup has them"), HIDDEN),
        *(
            (removing(folder), (f"no folder {folder}", *IS_MADE_ANEW), ALL)
            for folder in layout.FOLDERS
            if folder not in ("config", "delay", "queues")
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_start_after_a_loss_serves_all_messages_that_are_left_and_says_what_is_lost(
    fault: Fault,
    told: tuple[str, ...],
    left: set[bytes],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    make_root(tmp_path / "root", clock)
    caplog.clear()
    fault(tmp_path / "root")
    with Store.open(tmp_path / "root", clock=clock) as store:
        alarms = alarms_in(caplog)
        clock.advance(HOUR)
        found: list[Message] = []
        while len(found) < len(left):
            found += ask_all(store)
        assert ask_all(store) == []
    assert {message.body for message in found} == left
    for text in told:
        assert any(text in alarm for alarm in alarms), alarms
    caplog.clear()
    Store.open(tmp_path / "root", clock=clock).close()
    assert alarms_in(caplog) == [], "all is mended"


@pytest.mark.parametrize("content", ["spoolrack 5\n", "maildir\n"])
def test_a_root_in_another_format_is_refused_and_left_as_it_is(content: str, tmp_path: Path) -> None:
    make_root(tmp_path / "root", ManualClock())
    (tmp_path / "root" / layout.FORMAT).write_text(content)
    before = sorted(map(str, (tmp_path / "root").rglob("*")))
    with pytest.raises(UnknownFormat) as caught:
        Store.open(tmp_path / "root")
    said = str(caught.value)
    assert str(tmp_path / "root") in said
    assert repr(content.strip()) in said
    assert "'spoolrack 4'" in said
    assert "use the version of Spoolrack that wrote it" in " ".join(said.split())
    assert sorted(map(str, (tmp_path / "root").rglob("*"))) == before


def test_a_file_in_place_of_a_folder_is_refused_and_named(tmp_path: Path) -> None:
    make_root(tmp_path / "root", ManualClock())
    shutil.rmtree(tmp_path / "root" / "keys")
    (tmp_path / "root" / "keys").write_text("")
    with pytest.raises(RootUnusable, match="keys in it is not a folder"):
        Store.open(tmp_path / "root")


@pytest.mark.parametrize("folder", ["queues", "new", "delay", "remove", "config", "owners"])
def test_a_link_in_place_of_a_folder_is_refused_and_named(tmp_path: Path, folder: str) -> None:
    make_root(tmp_path / "root", ManualClock())
    (tmp_path / "root" / folder).rename(tmp_path / "elsewhere")
    (tmp_path / "root" / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RootUnusable, match=f"{folder} in it is not a folder"):
        Store.open(tmp_path / "root")


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("fault", [remove_all_settings, remove_config, overwrite_all_settings])
def test_a_running_server_serves_on_whatever_happens_to_its_settings(
    fault: Fault, processes: str, serve: Serve
) -> None:
    server = serve(after=("--processes", processes))
    server.client.create_queue("q", visibility_timeout=600)
    sent = [server.queue().send(f"{number}") for number in range(4)]
    server.queue().receive(1)
    fault(server.root)
    sent.append(server.queue().send("after"))
    assert [message.id for message in server.queue().receive(1)] == sent[1:2]
    assert server.health() == WELL
    server.restart()
    assert [message.id for message in server.queue().peek()] == sent
    assert [message.id for message in server.queue().receive(5)] == sent[2:]
    assert server.health() == WELL
    server.until_logged("settings of the queue q")
