"""Deduplication ids on the command line."""

from __future__ import annotations

from spoolrack import Client

from tests.cli.cli_rig import Spoolrack


def test_a_message_with_a_deduplication_id_is_sent_once(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("jobs")
    first = spoolrack("send", "jobs", "a", "--deduplication-id", "order-1")
    again = spoolrack("send", "jobs", "a", "--deduplication-id", "order-1")
    assert (first.code, again.code) == (0, 0)
    assert first.out == again.out
    assert client.queue("jobs").info().counts.ready_count == 1


def test_the_window_is_a_setting(spoolrack: Spoolrack, client: Client) -> None:
    assert spoolrack("queues", "create", "jobs", "--deduplication-window", "2h").code == 0
    assert client.queue("jobs").info().settings.deduplication_window == 7_200.0
    assert "deduplication window  2h" in spoolrack("queues", "show", "jobs").out
    assert spoolrack("queues", "set", "jobs", "--reset", "deduplication_window").code == 0
    assert client.queue("jobs").info().settings.deduplication_window == 300.0
