"""What can be done to a root behind the store's back."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path

from fsck_rig import batch, batched, delayed, leased, single

Damage = Callable[[Path], Path]
"""Does something to a root; answers with the path that it has spoiled."""


def flip_a_byte(root: Path) -> Path:
    path = single(root)
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    return path


def flip_a_byte_of_the_attributes(root: Path) -> Path:
    path = leased(root)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    return path


def truncate(root: Path) -> Path:
    os.truncate(delayed(root), 3)
    return delayed(root)


def lengthen(root: Path) -> Path:
    path = batched(root)
    path.write_bytes(path.read_bytes() + b"more")
    return path


def make_huge(root: Path) -> Path:
    os.truncate(single(root), 1 << 40)
    return single(root)


def link_out(root: Path) -> Path:
    path = root / "queues" / "q" / "passwd"
    path.symlink_to("/etc/passwd")
    return path


def link_instead_of_a_message(root: Path) -> Path:
    path = single(root)
    path.unlink()
    path.symlink_to("/etc/passwd")
    return path


def put_a_foreign_file(root: Path) -> Path:
    path = root / "delay" / "notes.txt"
    path.write_text("mine")
    return path


def put_a_foreign_file_into_a_batch(root: Path) -> Path:
    path = batch(root) / ".notes.swp"
    path.write_text("mine")
    return path


def put_a_name_that_is_no_text(root: Path) -> Path:
    path = root / "new" / os.fsdecode(b"q:\xff\xfe\x1b[31m")
    path.write_text("mine")
    return path


def put_a_pipe(root: Path) -> Path:
    path = root / "queues" / "q" / f"{uuid.uuid4()},s1,c00000000"
    os.mkfifo(path)
    return path


def put_a_socket(root: Path) -> Path:
    path = root / "queues" / "q" / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    return path


def put_a_folder_instead_of_a_message(root: Path) -> Path:
    path = root / "queues" / "q" / f"{uuid.uuid4()},s1,c00000000"
    path.mkdir()
    return path


def put_a_file_instead_of_a_batch(root: Path) -> Path:
    path = root / "queues" / "q" / f"{uuid.uuid4()},n3"
    path.write_text("")
    return path


def forget_size_and_checksum(root: Path) -> Path:
    path = root / "queues" / "q" / str(uuid.uuid4())
    return single(root).rename(path)


def forget_the_due(root: Path) -> Path:
    path = delayed(root)
    return path.rename(path.with_name(path.name.partition("@")[0]))


def put_a_file_among_the_queues(root: Path) -> Path:
    path = root / "queues" / "README"
    path.write_text("")
    return path


def put_a_foreign_settings_file(root: Path) -> Path:
    path = root / "config" / "q.json.bak"
    path.write_text("{}")
    return path


def damage_newer_settings(root: Path) -> Path:
    path = root / "config" / "q.2.json"
    path.write_text('{"created_at": 1, "visib')
    return path


def put_a_foreign_history(root: Path) -> Path:
    path = root / "history" / f"q:{uuid.uuid4()}"
    path.write_text("{")
    return path


def put_a_link_among_the_owners(root: Path) -> Path:
    path = root / "owners" / "0123abcd"
    path.symlink_to("/etc/passwd")
    return path


def put_a_foreign_file_among_the_owners(root: Path) -> Path:
    path = root / "owners" / "READ.me"
    path.write_text("")
    return path


def put_a_foreign_file_among_the_keys(root: Path) -> Path:
    path = root / "keys" / "READ.me"
    path.write_text("")
    return path


def put_a_folder_among_the_keys(root: Path) -> Path:
    path = root / "keys" / "0123abcd.1"
    path.mkdir()
    return path


DAMAGES: list[Damage] = [
    put_a_foreign_file_among_the_keys,
    put_a_folder_among_the_keys,
    put_a_link_among_the_owners,
    put_a_foreign_file_among_the_owners,
    flip_a_byte,
    flip_a_byte_of_the_attributes,
    truncate,
    lengthen,
    make_huge,
    link_out,
    link_instead_of_a_message,
    put_a_foreign_file,
    put_a_foreign_file_into_a_batch,
    put_a_name_that_is_no_text,
    put_a_pipe,
    put_a_socket,
    put_a_folder_instead_of_a_message,
    put_a_file_instead_of_a_batch,
    forget_size_and_checksum,
    forget_the_due,
    put_a_file_among_the_queues,
    put_a_foreign_settings_file,
    damage_newer_settings,
    put_a_foreign_history,
]
