"""A small disk of its own: an image file, a loop device, a real file system that can lose its power.

It needs root, loop devices and the file system's mkfs. `why_not` says what is missing, so that a test
can skip with a reason that says what to do. The power is cut by FS_IOC_SHUTDOWN (ext4: kernel commit
783d94854499, XFS: its own since 2001) without a flush of the log: data neither synced nor written
back by then is gone, as when the plug is pulled. Btrfs refuses that call.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.waiting import comes_about

KINDS: Final = ("ext4", "xfs")
MEBIBYTE: Final = 1 << 20
_SHUTDOWN: Final = 0x8004587D
"""_IOR('X', 125, __u32): FS_IOC_SHUTDOWN, in Linux's include/uapi/linux/fs.h since 6.8."""
_WITHOUT_LOG_FLUSH: Final = 2
_SMALLEST: Final = {"ext4": 64 * MEBIBYTE, "xfs": 300 * MEBIBYTE}
_MAKE: Final = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}


@cache
def why_not(kind: str) -> str | None:
    """Return what keeps this machine from having such a disk; None if nothing does."""
    if os.geteuid() != 0:
        return "needs root, to mount file systems: run it as root, or in CI"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices: this container or kernel has none"
    maker = _MAKE[kind][0]
    if shutil.which(maker) is None:
        return f"needs {maker}: make system-tools installs it"
    return None


class LoopDisk:
    """Use as a context manager: at its end nothing stays mounted, and no loop device is left."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        size: int = 0,
        options: str = "",
        making: Sequence[str] = (),
        is_written: bool = False,
        is_direct: bool = False,
        is_hollow: bool = False,
    ) -> None:
        """Make the image in `folder` and mount it; `size` in bytes, the smallest sensible if 0.

        `options` are mount's, `making` those of the file system's mkfs. For measurements: an image that
        `is_written` costs the disk below nothing more at first use, and a loop device that `is_direct`
        has no cache of its own. One that `is_hollow` takes room below it only where it is written.
        """
        self.kind = kind
        self.image = folder / f"{kind}.img"
        self.mount_point = folder / kind
        self._options = options
        self._is_direct = is_direct
        self._device: str | None = None
        self.is_mounted = False
        folder.mkdir(parents=True, exist_ok=True)
        self.mount_point.mkdir()
        with self.image.open("xb") as image:
            # Written and not sparse, so that the disk below never runs out of room in the middle.
            size = size or _SMALLEST[kind]
            if is_written:
                for at in range(0, size, MEBIBYTE):
                    image.write(bytes(min(MEBIBYTE, size - at)))
                os.fsync(image.fileno())
            elif is_hollow:
                os.truncate(image.fileno(), size)
            else:
                os.posix_fallocate(image.fileno(), 0, size)
        try:
            _run(*_MAKE[kind], *making, str(self.image))
            self.mount()
        except OSError:
            self.close()  # A kernel or a mkfs that doesn't know an option: no loop device stays.
            raise

    def __enter__(self) -> LoopDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def mount(self) -> None:
        if self._device is None:
            direct = ("--direct-io=on",) if self._is_direct else ()
            self._device = _run("losetup", "--find", "--show", *direct, str(self.image)).strip()
        self._await_release(self._device)
        options = ("-o", self._options) if self._options else ()
        _run("mount", "-t", self.kind, *options, self._device, str(self.mount_point))
        self.is_mounted = True

    def _await_release(self, device: str) -> None:
        """Return once no mount holds the device, or raise: a further mount would be the same dead one.

        A mount namespace (`unshare --mount`, `ip netns exec`) has a copy of each mount, which stays
        when the original is unmounted.
        """
        if not comes_about(lambda: _is_free(device), 0.005):
            raise OSError(
                f"{device} is still mounted in another mount namespace, by {_holders(device)}: "
                "end what runs there, and try again"
            )

    def unmount(self) -> None:
        """Unmount. Every process that has a file open there must have ended."""
        _run("umount", str(self.mount_point))
        self.is_mounted = False

    def remount(self, options: str) -> None:
        """Such as "ro" or "rw"."""
        _run("mount", "-o", f"remount,{options}", str(self.mount_point))

    def grow(self, size: int) -> None:
        """Make the disk and its file system larger while it is mounted: XFS."""
        assert self.kind == "xfs", "ext4 wants CAP_SYS_RESOURCE, which a container's root may lack"
        assert self._device is not None
        os.truncate(self.image, size)
        _run("losetup", "--set-capacity", self._device)
        _run("xfs_growfs", str(self.mount_point))

    def cut_power(self) -> None:
        """From now on nothing reaches the disk, and every call that needs it fails."""
        folder = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))
        finally:
            os.close(folder)

    def close(self) -> None:
        """Unmount and remove it all. Can be repeated."""
        if self.is_mounted:
            self.unmount()
        if self._device is not None:
            _run("losetup", "--detach", self._device)
            self._device = None
        self.image.unlink(missing_ok=True)
        self.mount_point.rmdir()


def _is_free(device: str) -> bool:
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def _holders(device: str) -> str:
    """Return the processes that have a mount of the device."""
    number = os.stat(device).st_rdev
    mount = re.compile(rf"^\d+ \d+ {os.major(number)}:{os.minor(number)} ", re.MULTILINE)
    pids = []
    for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if mount.search(mounts.read_text()):
                pids.append(mounts.parent.name)
        except OSError:
            continue  # It has ended since.
    return f"the processes {', '.join(pids)}" if pids else "no process that can be seen"


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
