"""Whether a file system has what batches need: hard links, and renames that replace nothing."""

from __future__ import annotations

from contextlib import suppress

from spoolrack_store.model.errors import RootUnusable

from .disk import Disk
from .moves import COPY


def require_links(disk: Disk, root: str, owner: str) -> None:
    """Try a link and a rename in `new/`; raise `RootUnusable` if the file system hasn't both.

    A process that dies here leaves files that the next start unlinks.
    """
    first, second = f"new/{owner}-1{COPY}", f"new/{owner}-2{COPY}"
    try:
        disk.create(first, [b""], sync=False)
        try:
            disk.link(first, second)
        except OSError as error:
            raise RootUnusable(
                root=root,
                why=f"its file system has no hard links ({error.strerror}); use one that has, such as "
                "ext4, XFS, Btrfs or tmpfs",
            ) from error
        try:
            disk.rename_new(first, second)
        except FileExistsError:
            return
        except OSError as error:
            raise RootUnusable(
                root=root,
                why="its file system can't rename without replacing what is there "
                f"({error.strerror}); use one that can, such as ext4, XFS, Btrfs or tmpfs",
            ) from error
        raise RootUnusable(root=root, why="its file system replaces files that a rename must not")
    finally:
        for path in (first, second):
            with suppress(FileNotFoundError):
                disk.unlink(path)
