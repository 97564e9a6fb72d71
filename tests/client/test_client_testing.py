"""`spoolrack.testing`, for the tests of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack.testing import manual_clock, running_server

pytest_plugins = ["pytester"]


def test_a_server_serves_a_folder_and_keeps_it(tmp_path: Path) -> None:
    for _ in range(2):
        with running_server(tmp_path / "root") as server, server.client() as client:
            client.create_queue("jobs")
            client.queue("jobs").send("a")
            assert server.root == str(tmp_path / "root")
    with running_server(tmp_path / "root") as server, server.client() as client:
        assert client.queue("jobs").info().counts.ready_count == 2


def test_an_unnamed_folder_is_removed_afterwards() -> None:
    with running_server() as server:
        root = Path(server.root)
        assert root.exists()
    assert not root.exists()


def test_the_test_moves_the_time_of_a_server() -> None:
    with running_server(clock=manual_clock()) as server, server.client() as client:
        client.create_queue("jobs", visibility_timeout=3600)
        jobs = client.queue("jobs")
        jobs.send("a")
        jobs.receive()
        server.clock.advance(3_600_000)
        assert jobs.receive()[0].receive_count == 2


def test_a_server_that_can_not_start_says_why(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.write_text("a file")
    with pytest.raises(Exception, match=str(root)), running_server(root):
        pass


def test_a_server_by_the_systems_clock_has_none_to_move() -> None:
    with running_server() as server, pytest.raises(RuntimeError, match="clock="):
        server.clock.advance(1)


def test_the_fixtures_are_there_for_a_conftest_that_asks(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["spoolrack.testing"]')
    pytester.makepyfile(
        """
        def test_system_time(spoolrack_client, spoolrack_server):
            assert spoolrack_server.url in repr(spoolrack_client)
            spoolrack_client.create_queue("jobs")

        def test_manual_time(spoolrack_client, spoolrack_clock):
            assert not list(spoolrack_client.list_queues())
            spoolrack_client.create_queue("jobs")
            jobs = spoolrack_client.queue("jobs")
            jobs.send("a", delay=60)
            assert not jobs.receive()
            spoolrack_clock.advance(60_000)
            assert jobs.receive()[0].text == "a"
        """
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)
