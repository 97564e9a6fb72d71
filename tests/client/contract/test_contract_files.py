"""The sends of files, over every transport."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
import spoolrack
from spoolrack import Queue, aio
from spoolrack.errors import MessageTooLarge, Unsupported

from tests.client.contract.conftest import World

pytestmark = pytest.mark.needs("a client")

HUGE = 64 * 1024 * 1024 + 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file"
    path.write_bytes(b"of some lines\n" * 100)
    return path


def test_a_file_is_a_message(jobs: Queue, file: Path) -> None:
    id = jobs.send_file(file)
    (message,) = jobs.receive(1)
    assert (message.id, message.body, message.body_size) == (id, file.read_bytes(), file.stat().st_size)
    assert not message.is_body_left_out
    message.delete()
    assert file.exists()


@pytest.mark.needs("attributes", "delays")
def test_a_file_has_what_other_messages_have(jobs: Queue, file: Path, world: World) -> None:
    jobs.send_file(str(file), attributes={"k": "v"}, delay=timedelta(seconds=10))
    assert jobs.receive(1) == []
    world.advance(10)
    (message,) = jobs.receive(1, wait=10)
    assert message.attributes == {"k": "v"}


def test_a_file_that_is_not_there_is_told_by_its_name(jobs: Queue, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        jobs.send_file(tmp_path / "nowhere")


@pytest.mark.needs("validation")
def test_a_file_beyond_the_limit_is_refused(jobs: Queue, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(1024 * 1024 + 1))
    with pytest.raises(MessageTooLarge):
        jobs.send_file(path)


async def test_a_file_is_sent_by_tasks(world: World, file: Path, jobs: Queue) -> None:
    async with world.connect_aio() as client:
        queue = client.queue("jobs")
        assert isinstance(queue, aio.Queue)
        await queue.send_file(file)
        (message,) = await queue.receive(1)
        assert message.body == file.read_bytes()


def test_a_folder_takes_files_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(b"begin")
    os.truncate(path, HUGE)
    with spoolrack.connect(f"file://{tmp_path}/root") as client:
        client.create_queue("jobs", max_message_size=2 * HUGE)
        jobs = client.queue("jobs")
        ids = [jobs.send_file(path), jobs.send_file(path, link=True)]
        found = [*jobs.receive(1), *jobs.receive(1)]
        assert [message.id for message in found] == ids
        for message in found:
            assert (message.body_size, message.is_body_left_out) == (HUGE, True)
            with pytest.raises(Unsupported, match="bodies/"):
                _ = message.body
            assert message.path is not None
            with message.path.open("rb") as body:
                assert body.read(5) == b"begin"
        assert message.path.samefile(path)
        assert [message.path for message in jobs.peek()] == [message.path for message in found]
        assert "bytes" in repr(found[0])


@pytest.mark.needs("calls of limited size")
def test_elsewhere_a_large_file_and_a_link_are_refused(jobs: Queue, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, HUGE)
    with pytest.raises(Unsupported, match="over HTTP"):
        jobs.send_file(path)
    with pytest.raises(Unsupported, match="file:///DIR"):
        jobs.send_file(file, link=True)


def test_a_body_that_a_server_leaves_out_is_told(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, HUGE)
    with spoolrack.testing.running_server() as server:
        with spoolrack.connect(f"file://{server.root}") as folder:
            folder.create_queue("jobs", max_message_size=HUGE)
            folder.queue("jobs").send_file(path, link=True)
        with server.client() as client:
            (message,) = client.queue("jobs").receive(1, wait=20)
            assert (message.body_size, message.is_body_left_out, message.path) == (HUGE, True, None)
            with pytest.raises(Unsupported, match="read it over HTTP"):
                _ = message.body
            message.delete()
