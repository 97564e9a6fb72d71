"""`spoolrack replay`: archived messages are sent again, into their queue or another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.operations import CreateQueue, Delete, Receive, RejectMessages, Send
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.cli.cli_rig import Result, Spoolrack

GIVE_UP = 60.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root whose queue has had three messages, and another queue."""
    root = tmp_path / "root"
    with Store.open(root) as store:
        settings = QueueSettings(archive_retention=Millis(DAY))
        store.submit(CreateQueue(name="jobs", settings=settings)).result(GIVE_UP)
        store.submit(CreateQueue(name="other", settings=QueueSettings())).result(GIVE_UP)
        bodies = [b"a", b"b", b"c"]
        sent = Send(queue="jobs", bodies=bodies, attributes={1: {"k": "v"}}, groups={2: "g"})
        store.submit(sent).result(GIVE_UP)
        for delivery in store.submit(Receive(queue="jobs", max_messages=3)).result(GIVE_UP):
            store.submit(Delete(queue="jobs", receipts=delivery.receipts)).result(GIVE_UP)
    with Store.open(root):
        pass  # Closing has unlinked what the first one had no time for.
    return root


def received(on_root: Spoolrack, queue: str) -> list[str]:
    return on_root("receive", queue, "--max", "10", "--delete").out.split()


def test_deleted_messages_are_replayed_in_order_and_whole(on_root: Spoolrack) -> None:
    replayed = on_root("replay", "jobs")
    assert (replayed.code, replayed.out, replayed.err) == (0, "3 messages sent to jobs.\n", "")
    shown = on_root("peek", "jobs", "--json").out.splitlines()
    found = [json.loads(line) for line in shown]
    assert [each.get("group") for each in found] == [None, None, "g"]
    assert [each["attributes"] for each in found] == [{}, {"k": "v"}, {}]
    assert received(on_root, "jobs") == ["a", "b", "c"]


def test_another_queue_gets_them_if_it_is_named(on_root: Spoolrack) -> None:
    replayed = on_root("replay", "jobs", "--into", "other")
    assert replayed.out == "3 messages sent to other.\n"
    assert received(on_root, "jobs") == []
    assert received(on_root, "other") == ["a", "b", "c"]


def test_a_dry_run_only_counts(on_root: Spoolrack) -> None:
    counted = on_root("replay", "jobs", "--dry-run")
    assert (counted.code, counted.out) == (0, "3 messages would be sent to jobs.\n")
    assert received(on_root, "jobs") == []


def test_a_range_without_messages_sends_none_and_exits_with_1(on_root: Spoolrack) -> None:
    for arguments in (("--until", "1h"), ("--since", "2100-01-01T00:00Z")):
        replayed = on_root("replay", "jobs", *arguments)
        assert (replayed.code, replayed.out) == (1, "0 messages sent to jobs.\n")


def test_a_foreign_file_is_named_and_the_others_are_sent(on_root: Spoolrack, root: Path) -> None:
    (kept,) = (root / "archive" / "jobs").glob("*/*")
    kept.with_name("foreign").write_bytes(b"")
    replayed = on_root("replay", "jobs")
    assert replayed.code == 65
    assert replayed.out == "3 messages sent to jobs.\n"
    assert "foreign: this is not the name of a message file" in replayed.err


def test_a_queue_without_an_archive_is_named(on_root: Spoolrack, offline: Spoolrack) -> None:
    refused = on_root("replay", "other")
    assert refused.code == 66
    assert "there is no archive of this queue" in refused.err
    assert offline("replay", "jobs", "--url", "127.0.0.1:1").code == 2


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "3", ""])
def test_an_invalid_time_is_refused(on_root: Spoolrack, text: str) -> None:
    refused = on_root("replay", "jobs", "--since", text)
    assert refused.code == 2
    assert "is not a time: write 2026-11-23T10:00Z" in refused.err


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]], ids=["alone", "in a batch"])
def test_a_redriven_dead_letter_is_replayed_once(
    offline: Spoolrack, tmp_path: Path, bodies: list[bytes]
) -> None:
    root = tmp_path / "mended"

    def on_mended(*arguments: str) -> Result:
        return offline(*arguments, "--root", str(root))

    with Store.open(root) as store:
        dead = QueueSettings(archive_retention=Millis(DAY))
        store.submit(CreateQueue(name="dead", settings=dead)).result(GIVE_UP)
        settings = dead.changed({"max_receives": 5, "dead_letter_queue": "dead"})
        store.submit(CreateQueue(name="jobs", settings=settings)).result(GIVE_UP)
        store.submit(Send(queue="jobs", bodies=bodies)).result(GIVE_UP)
        (delivery,) = store.submit(Receive(queue="jobs")).result(GIVE_UP)
        store.submit(RejectMessages(queue="jobs", receipts=delivery.receipts)).result(GIVE_UP)
        store.submit(StartRedrive(queue="dead")).result(GIVE_UP)
        left = set(bodies)
        while left:
            request = Receive(queue="jobs", max_messages=9, wait=Millis(60_000))
            for each in store.submit(request).result(GIVE_UP):
                left -= set(each.bodies)
                store.submit(Delete(queue="jobs", receipts=each.receipts)).result(GIVE_UP)
    with Store.open(root):
        pass  # Closing has unlinked what the first one had no time for.
    assert len(list((root / "archive" / "jobs").glob("*/*"))) == 1
    replayed = on_mended("replay", "jobs")
    assert (replayed.code, replayed.err) == (0, "")
    assert received(on_mended, "jobs") == [body.decode() for body in bodies]
