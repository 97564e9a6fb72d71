"""Runs the container's own commands as an engine would confine them, and says what was seen.

    python confined.py PLACE.json

It is started by `unshare` with mounts, processes and a network of its own: nothing that is done here is
seen outside, and the ports are free. The root file system is read-only, the volume is the only folder
that can be written, and every command runs as the image's user, without a capability. Standard library
only: it runs in whatever Python the machine has. The last line on standard output is JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STUCK = 240.0


@dataclass(frozen=True)
class Container:
    source: str
    """The folder that becomes "/"."""
    root: str
    """Where it is mounted."""
    binds: dict[str, str]
    """Paths of the container that are folders of this machine, read-only."""
    volume: str
    """The path of the volume in the container."""
    storage: str
    """The folder of this machine that it is."""
    user: str
    folder: str
    environment: dict[str, str]
    entry: list[str]
    command: list[str]
    check: list[str]

    def confine(self) -> None:
        """Mount everything as it will be seen."""
        root = Path(self.root)
        # In a chroot "/" is no mount, and this fails: `release` takes away what others then see.
        subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True)
        mount("--bind", self.source, self.root)
        if self.binds:
            # Room for the points of mounting, which a read-only root may lack.
            mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", f"{root}/mnt")
        for path, source in {**self.binds, self.volume: self.storage}.items():
            target = root / path.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            mount("--bind", source, str(target))
        if self.binds:
            mount("-o", "remount,ro", f"{root}/mnt")
        for path in self.binds:
            mount("-o", "remount,bind,ro", str(root / path.lstrip("/")))
        mount("-t", "proc", "proc", f"{root}/proc")
        mount("--rbind", "/dev", f"{root}/dev")
        mount("-o", "remount,bind,ro", self.root)

    def release(self) -> None:
        subprocess.run(["umount", "--recursive", "--lazy", self.root], check=True)

    def words(self, command: list[str]) -> list[str]:
        pairs = [f"{name}={value}" for name, value in self.environment.items()]
        enter = [
            "chroot",
            f"--userspec={self.user}",
            "--groups=",
            self.root,
            "/usr/bin/env",
            "-i",
            *pairs,
        ]
        return [*enter, f"--chdir={self.folder}", *command]

    def run(self, *command: str) -> dict[str, Any]:
        ended = subprocess.run(
            self.words([*self.entry, *command]), capture_output=True, text=True, timeout=STUCK
        )
        return {"code": ended.returncode, "out": ended.stdout, "err": ended.stderr}


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def loopback_up() -> None:
    """Set the loopback interface up, as `ip link set lo up`, which not every machine has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name_and_flags = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, name_and_flags)  # SIOCSIFFLAGS


def status_of(process: subprocess.Popen[Any], root: str) -> dict[str, str]:
    """Of the processes that are seen in here: this machine's /proc shows others."""
    lines = Path(f"{root}/proc/{process.pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: fields[name].strip() for name in ("Uid", "Gid", "Groups", "CapEff", "CapPrm")}


def main(container: Container) -> dict[str, Any]:
    loopback_up()
    container.confine()
    try:
        return see(container)
    finally:
        container.release()


def see(container: Container) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for folder in ("/", "/tmp", container.volume):
        touch = ["touch", f"{folder}/written"]
        seen[f"write to {folder}"] = subprocess.run(
            container.words(touch), capture_output=True, text=True
        ).stderr
    with open(f"{container.storage}/../server.log", "w+") as log:
        server = subprocess.Popen(
            container.words([*container.entry, *container.command]), stdout=log, stderr=log
        )
        try:
            stuck = time.monotonic() + STUCK
            looks = 0
            while subprocess.run(container.words(container.check), capture_output=True).returncode != 0:
                looks += 1
                if server.poll() is not None or time.monotonic() > stuck:
                    break
            seen["looks"] = looks
            seen["healthy"] = subprocess.run(
                container.words(container.check), capture_output=True
            ).returncode
            seen["status"] = status_of(server, container.root) if server.poll() is None else {}
            seen["send"] = container.run("send", "--create", "hello", "Hello, container!")
            seen["receive"] = container.run("receive", "hello", "--delete")
            seen["try"] = container.run("try")
            server.send_signal(signal.SIGTERM)
            seen["ended"] = server.wait(STUCK)
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
        log.seek(0)
        seen["log"] = log.read()
    owners = {(info.st_uid, info.st_gid) for info in map(os.stat, Path(container.storage).rglob("*"))}
    seen["owners"] = sorted(owners)
    seen["gone"] = subprocess.run(container.words(container.check), capture_output=True).returncode
    return seen


if __name__ == "__main__":
    print(json.dumps(main(Container(**json.loads(Path(sys.argv[1]).read_text())))))
