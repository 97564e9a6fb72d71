"""The file system under a root that several hosts have mounted.

Three things differ from a file system of one host:

- The kernel's cache of a file misses writes by other hosts. So `CHANGES` is read past it (O_DIRECT),
  and each write is on the servers at return.
- There is no renameat2(2) with RENAME_NOREPLACE. A name is looked for before the rename: all processes
  rename under `LOCK`, so no other one makes the name in between.
- No process can sync what another host wrote. So each syncs its own changes before it releases `LOCK`.

`LOCK` is safe only where the file system fences: a host that has lost its locks can never write again.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Final

from ..model.errors import RootUnusable
from . import layout
from .disk import SyncFailed
from .local_disk import LocalDisk, TouchWatch, closer
from .mounts import is_written_by_other_hosts, kind_of

FENCES: Final = frozenset({"fuse.ceph-fuse"})
"""File systems on which a host that was evicted can't write any more."""
_REFUSED: Final = {
    "ceph": "the kernel's client of CephFS isn't tested: mount it by ceph-fuse",
    "fuse.glusterfs": "on GlusterFS a host that has lost its locks goes on writing beside the next one",
    # MooseFS gives no other type.
    "fuse": "on MooseFS, if it is that, no other host got a dead host's locks within 45 s",
    **dict.fromkeys(
        ("nfs", "nfs4"), "NFS revokes the locks of a host that is gone, and not its renames"
    ),
}
_PAGE: Final = 4096


def disk_of(root: str | os.PathLike[str], hosts: str | None = None) -> LocalDisk:
    """Return the disk of a root, as its `FORMAT` says: of "one" host, or of "several".

    `hosts` decides for a new root; None: of one. Raise `RootUnusable` if the root was made for others;
    `OSError`.
    """
    name = os.fspath(root)
    hosts_of_root = _hosts_of(name)
    if hosts_of_root is not None and hosts not in (None, hosts_of_root):
        made_for = "one host" if hosts_of_root == layout.ONE_HOST else f"{hosts_of_root} hosts"
        why = f"it was made for {made_for}: leave out --hosts {hosts}, or choose another folder"
        raise RootUnusable(root=name, why=why)
    is_of_one = (hosts_of_root or hosts or layout.ONE_HOST) == layout.ONE_HOST
    return LocalDisk(root) if is_of_one else HostsDisk(root)


def require_fencing(root: str | os.PathLike[str]) -> None:
    """Raise `RootUnusable` if a host that has lost its locks may still write, for all that is known."""
    kind = kind_of(root)
    if kind in FENCES:
        return
    if is_written_by_other_hosts(kind):
        known = _REFUSED.get(kind)
        why = known or f"{kind} isn't known to keep out a host that has lost its locks"
        why += ". CephFS, mounted by ceph-fuse, can hold a root of several hosts"
    else:
        why = (
            f"one host at a time can mount {kind or 'its file system'}: leave out --hosts several; for "
            'a copy of a root of several hosts write "spoolrack 4" and a line feed into its FORMAT'
        )
    raise RootUnusable(root=os.fspath(root), why=why)


def _hosts_of(root: str) -> str | None:
    try:
        content = Path(root, layout.FORMAT).read_bytes()
    except FileNotFoundError:
        return None
    return layout.HOSTS_OF.get(content) or layout.UPGRADABLE.get(content)


class HostsDisk(LocalDisk):
    """A file system that other hosts have mounted, too. Its syncs are of single files and folders."""

    several_hosts = True

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        # It would wait for what all programs of this host wrote, and tells nothing of other hosts.
        self._syncfs, self.can_sync_all = None, False
        self.overwrites = False

    def rename_new(self, source: str, target: str) -> None:
        try:
            os.stat(target, dir_fd=self._root, follow_symlinks=False)
        except FileNotFoundError:
            self.rename(source, target)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)

    def watch(self, path: str) -> TouchWatch | None:
        """Return None: inotify(7) doesn't tell of other hosts."""
        return None

    def map(self, path: str, size: int) -> UncachedBytes:
        return UncachedBytes(self._root, path)


class UncachedBytes:
    """The bytes of a file that processes of several hosts share.

    A write is on the file system's servers at return: the record of a move must outlive its host, as
    the move does.
    """

    def __init__(self, folder: int, path: str) -> None:
        self._path = path
        flags = os.O_NOFOLLOW | os.O_CLOEXEC
        self._written = os.open(path, flags | os.O_WRONLY | os.O_DSYNC, dir_fd=folder)
        try:
            self._read = os.open(path, flags | os.O_RDONLY | os.O_DIRECT, dir_fd=folder)
        except BaseException:
            os.close(self._written)
            raise
        self._close = closer(self, self._read, self._written)

    def read(self, offset: int, length: int) -> bytes:
        try:
            return self._read_pages(offset, length)
        except OSError as error:
            raise SyncFailed(str(error)) from error

    def _read_pages(self, offset: int, length: int) -> bytes:
        # Whole pages, into whole pages: O_DIRECT may take nothing else.
        begin = offset - offset % _PAGE
        end = offset + length + -(offset + length) % _PAGE
        with mmap.mmap(-1, end - begin) as pages:
            with memoryview(pages) as view:
                found = os.preadv(self._read, [view], begin)
            if found < offset + length - begin:
                raise OSError(errno.EIO, "it is shorter than it was made", self._path)
            return pages[offset - begin : offset - begin + length]

    def write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        while content:
            written = os.pwrite(self._written, content, offset)
            content, offset = content[written:], offset + written

    def close(self) -> None:
        self._close()
