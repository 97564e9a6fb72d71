"""A folder as it may be: on a disk that fails, with other files in it, removed and replaced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack.vsqs import Queue

from tests.vsqs.vsqs_rig import Beside, Micros, files, received

# Durability.


def test_nothing_is_answered_before_it_is_on_stable_media(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def recorded(name: str, what: Callable[[object], str]) -> None:
        real = getattr(os, name)

        def call(target: object, *rest: object, **more: object) -> object:
            steps.append(f"{name} {what(target)}")
            return real(target, *rest, **more)

        monkeypatch.setattr(os, name, call)

    def kind(descriptor: object) -> str:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        return "folder" if path == folder else "new" if path.suffix == ".new" else "file"

    recorded("fsync", kind)
    recorded("rename", lambda path: "new" if str(path).endswith(".new") else "other")
    recorded("unlink", lambda path: "message")
    id = queue.publish(b"foo")
    assert steps == ["fsync new", "rename new", "fsync folder"]
    steps.clear()
    queue.delete(id)
    assert steps == ["unlink message", "fsync folder"]


def test_a_message_that_can_not_be_written_is_not_there(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    queue.capacity = 1
    for name in ("write", "fsync", "rename"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, full)
            with pytest.raises(OSError, match="No space left"):
                queue.publish(b"foo")
        assert files(folder) == {}
    queue.publish(b"foo", timeout=0)


def test_a_large_message_is_written_whole(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(range(256)) * 4_096
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, content: real(file, content[:100_000]))
    id = queue.publish(body)
    monkeypatch.undo()
    assert queue.receive() == (id, body)


# Other entries in the folder, and accidents to it.


def test_a_file_that_is_no_message_is_left_alone(queue: Queue, folder: Path, micros: Micros) -> None:
    queue.size()  # it listens from here on
    (folder / "1").mkdir()
    (folder / "2").symlink_to("note")
    names = ["note", "007", "-1", "1_0", "3.x", "3.4.x", ".3", "3.", "\u0663", "x\udcff"]
    for name in names:
        (folder / name).touch()
    id = queue.publish(b"foo")
    assert received(queue, 3600) == ["foo"]
    assert queue.size() == 1
    queue.delete(id)
    assert {path.name for path in folder.iterdir()} == {"1", "2", *names}


def test_a_folder_that_was_removed_is_said_and_can_be_made_again(queue: Queue, folder: Path) -> None:
    queue.size()
    waiting = Beside(queue.receive)
    assert not waiting.is_done(0.05)
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        waiting.result()
    with pytest.raises(FileNotFoundError):
        queue.publish(b"foo")
    folder.mkdir()
    waiting = Beside(queue.receive)
    assert not waiting.is_done(0.05)
    id = queue.publish(b"foo")
    assert waiting.result() == (id, b"foo")


def test_a_folder_that_was_put_in_the_place_of_another_is_the_queue(
    queue: Queue, folder: Path, tmp_path: Path
) -> None:
    queue.publish(b"old")
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "5").write_bytes(b"new")
    folder.rename(tmp_path / "old")
    (tmp_path / "next").rename(folder)
    assert received(queue) == ["new"]
    queue.publish(b"newer")
    assert received(queue) == ["newer"]
