"""A program in a mount namespace of its own: the server returns under another address of its name.

Arguments: a folder for its files, and the seconds that the client's send may take.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import spoolrack

NAME, FIRST, SECOND = "moving.test", "127.0.0.2", "127.0.0.3"


def served(root: Path, address: str) -> tuple[subprocess.Popen[str], str]:
    """Return a server, once it serves, and its port."""
    serving = subprocess.Popen(
        [
            *(sys.executable, "-m", "spoolrack_server", "serve", "--data", root),
            *("--grpc", address, "--http", "off"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert serving.stdout is not None
    found = next(line.split()[1] for line in serving.stdout if line.split()[:1] == ["gRPC"])
    return serving, found.rpartition(":")[2]


def main(folder: Path, timeout: float) -> None:
    hosts, known = folder / "hosts", Path("/etc/hosts").read_text()
    hosts.write_text(f"{known}\n{FIRST} {NAME}\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    serving, port = served(folder / "root", f"{FIRST}:0")
    try:
        with spoolrack.connect(f"{NAME}:{port}", timeout=timeout) as client:
            client.create_queue("q")
            serving.terminate()
            serving.wait()
            hosts.write_text(f"{known}\n{SECOND} {NAME}\n")
            serving, _ = served(folder / "root", f"{SECOND}:{port}")
            client.queue("q").send(b"x")
    finally:
        serving.terminate()
        serving.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
