"""A CephFS on this machine's loopback, mounted by ceph-fuse once for each host that a test needs.

    python -m tests.ceph.cluster COMMAND...

It stands a cluster up in a new folder (one monitor, manager and metadata server, two OSDs that hold the
same), runs the command with the folder in SPOOLRACK_CEPH, and takes all down. As root, with Debian's
ceph-mon, ceph-mgr, ceph-mds, ceph-osd and ceph-fuse. Each daemon is ended by its own pid.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

VARIABLE: Final = "SPOOLRACK_CEPH"
HOSTS: Final = ("a", "b")
_OSDS: Final = (0, 1)
_PORT: Final = 51300
_LIMIT: Final = 120.0
"""Seconds that any step may take."""
_SETTINGS: Final = """[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{port},v1:127.0.0.1:{next_port}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = {osds}
osd pool default min size = 1
osd crush chooseleaf type = 0
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon data avail crit = 1
mon osd min down reporters = 1
osd heartbeat grace = 6
osd heartbeat interval = 1
run dir = {folder}/run
pid file = {folder}/run/$name.pid
admin socket = {folder}/run/$name.$pid.asok
log file = {folder}/log/$name.log
mon cluster log file = {folder}/log/cluster.log
mon data = {folder}/mon
mgr data = {folder}/mgr
mds data = {folder}/mds
osd data = {folder}/osd$id
bluestore block size = 6442450944
osd memory target = 939524096
osd objectstore = bluestore
ms bind port min = {first_port}
ms bind port max = {last_port}
mgr initial modules =
[client]
pid file =
"""


class Cluster:
    """The cluster in a folder, whether or not its daemons run."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.conf = self.folder / "ceph.conf"

    def start(self) -> None:
        """Return once the file system is mounted for each host."""
        for name in (*HOSTS, "run", "log", "mon", "mgr", "mds"):
            (self.folder / name).mkdir(parents=True)
        fsid = str(uuid4())
        settings = _SETTINGS.format(
            fsid=fsid,
            folder=self.folder,
            osds=len(_OSDS),
            port=_PORT,
            next_port=_PORT + 1,
            first_port=_PORT + 10,
            last_port=_PORT + 99,
        )
        self.conf.write_text(settings)
        monitors, addresses = self.folder / "monmap", f"[v2:127.0.0.1:{_PORT},v1:127.0.0.1:{_PORT + 1}]"
        _run("monmaptool", "--create", "--addv", "a", addresses, "--fsid", fsid, str(monitors))
        self._run("ceph-mon", "-i", "a", "--mkfs", "--monmap", str(monitors))
        self._run("ceph-mon", "-i", "a")
        self._until(lambda: bool(self.ask("-s")))
        self._run("ceph-mgr", "-i", "x")
        for number in _OSDS:
            (self.folder / f"osd{number}").mkdir()
            identity = str(uuid4())
            self.ask("osd", "new", identity)
            self._run("ceph-osd", "-i", str(number), "--mkfs", "--osd-uuid", identity)
            self.start_osd(number)
        self.start_mds("up:standby")
        for pool in ("meta", "data"):
            self.ask("osd", "pool", "create", pool, "8")
        self.ask("fs", "new", "fs", "meta", "data")
        self._until(lambda: "up:active" in self.ask("mds", "stat"))
        for host in HOSTS:
            self.mount(host)

    def stop(self) -> None:
        """Unmount, end all daemons, and remove the folder."""
        for host in HOSTS:
            self.unmount(host)
        for name in ("mds.x", *(f"osd.{number}" for number in _OSDS), "mgr.x", "mon.a"):
            pid = self.pid(name)
            if pid:
                os.kill(pid, signal.SIGKILL)
        self._until(lambda: not any(map(_lives, self.pids())))
        shutil.rmtree(self.folder)

    # Daemons.

    def pid(self, name: str) -> int:
        """Return the pid of a daemon, such as "osd.0"; 0 if it doesn't run."""
        return _pid_in(self.folder / "run" / f"{name}.pid")

    def pids(self) -> list[int]:
        return [pid for path in (self.folder / "run").glob("*.pid") if (pid := _pid_in(path))]

    def start_osd(self, number: int) -> None:
        self._run("ceph-osd", "-i", str(number))

    def start_mds(self, state: str = "up:active") -> None:
        """Start the metadata server, and again if it crashes before it has this state, as Ceph 16.2 did
        twice."""

        def is_up() -> bool:
            pid = self.pid("mds.x")
            if not pid:
                self._run("ceph-mds", "-i", "x")
                return False
            socket = self.folder / "run" / f"mds.x.{pid}.asok"
            return f'"state": "{state}"' in self.ask("daemon", str(socket), "status")

        self._until(is_up)

    # Hosts.

    def at(self, host: str) -> Path:
        """Return where a host has the file system mounted."""
        return self.folder / host

    def mount(self, host: str) -> None:
        at = self.at(host)
        self._run("ceph-fuse", "--id", "admin", str(at))
        # A new cluster reports no room until its manager has counted it.
        self._until(lambda: os.path.ismount(at) and os.statvfs(at).f_bavail > 0)
        (self.folder / "run" / f"{host}.pid").write_text(str(self._session(host)["pid"]))

    def unmount(self, host: str) -> None:
        """Take a mount down, whatever state its daemon is in."""
        pid = self.pid(host)
        if pid:
            os.kill(pid, signal.SIGKILL)
        subprocess.run(["umount", "-l", str(self.at(host))], check=False, capture_output=True)
        if pid:
            self._until(lambda: not _lives(pid))

    def evict(self, host: str) -> None:
        """Shut a host out: it can't write any more, and other hosts get its locks."""
        self.ask("tell", "mds.x", "client", "evict", f"id={self._session(host)['id']}")

    def _session(self, host: str) -> dict[str, Any]:
        for session in json.loads(self.ask("tell", "mds.x", "client", "ls")):
            about = session["client_metadata"]
            if about.get("mount_point") == str(self.at(host)):
                return {"id": session["id"], "pid": about["pid"]}
        raise AssertionError(f"{host} has no session")

    # Commands.

    def ask(self, *arguments: str) -> str:
        command = ["ceph", "-c", str(self.conf), "--connect-timeout", "20", *arguments]
        found = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
        return found.stdout

    def _run(self, program: str, *arguments: str) -> None:
        _run(program, "-c", str(self.conf), *arguments)

    @staticmethod
    def _until(is_so: Any) -> None:
        end = time.monotonic() + _LIMIT
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError(f"not within {_LIMIT} s")
            time.sleep(0.2)


def _run(*command: str) -> None:
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_LIMIT
    )


def _pid_in(path: Path) -> int:
    try:
        pid = int(path.read_text() or 0)
    except FileNotFoundError:
        return 0
    return pid if _lives(pid) else 0


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def main() -> int:
    cluster = Cluster(tempfile.mkdtemp(prefix="spoolrack-ceph-"))
    began = time.monotonic()
    try:
        cluster.start()
        print(f"CephFS is up after {time.monotonic() - began:.0f} s: {cluster.folder}", flush=True)
        return subprocess.run(
            sys.argv[1:], env={**os.environ, VARIABLE: str(cluster.folder)}, check=False
        ).returncode
    finally:
        cluster.stop()


if __name__ == "__main__":
    raise SystemExit(main())
