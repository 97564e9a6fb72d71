"""Writes what strace would have written, for servers that we are glad not to have."""

from __future__ import annotations

import zlib
from typing import Final

from tests.proof.audit.http2_frames import PREFACE, frame, message

ROOT: Final = "/the root"
FOLDERS: Final = ("config", "owners", "new", "queues", "delay", "remove")
TOKEN: Final = "0123456789abc"
DUE: Final = "@1700000000000"


def id_of(number: int) -> str:
    return f"018bcfe5-6700-7000-8000-{number:012x}"


def entry_of(number: int, body: bytes = b"body") -> str:
    return f"{id_of(number)},s{len(body)},c{zlib.crc32(body):08x}"


def receipt_of(number: int) -> str:
    return f"q:{id_of(number)}~{'0' * 16}"


def new(stem: str) -> str:
    return f"new/q:{stem},oabc"


ENTRY: Final = entry_of(1)
SENT: Final = new(ENTRY)
READY: Final = f"queues/q/{ENTRY},v2"
LEASED: Final = f"delay/q:{ENTRY},v3,r1{DUE}~{TOKEN}"
REMOVED: Final = f"remove/q:{ENTRY},v4,r1"
"""Where the message 1 lies in each of its states."""
BATCH: Final = f"{id_of(0x9000)},n2,s8,c00000000,m10"
"""Two messages in one file."""


class TraceText:
    """A trace that begins with a root whose folders are durable."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._greeted: set[int] = set()
        for folder in FOLDERS:
            self.make_folder(folder)
        self.sync("")

    # Calls.

    def call(self, name: str, arguments: str, result: int = 0, *, thread: int = 1) -> None:
        self.lines.append(f"{thread} {name}({arguments}) = {_result(result)}")

    def begins(self, name: str, arguments: str, *, thread: int) -> None:
        self.lines.append(f"{thread} {name}({arguments} <unfinished ...>")

    def ends(self, name: str, *, thread: int, result: int = 0) -> None:
        self.lines.append(f"{thread} <... {name} resumed>) = {_result(result)}")

    # Files.

    def make_folder(self, path: str) -> None:
        self.call("mkdirat", f"{root()}, {text(path)}, 0700")

    def open(self, path: str, flags: str) -> None:
        self.call("openat", f"{root()}, {text(path)}, {flags}, 0600", 7)

    def write(self, path: str, body: bytes) -> None:
        self.call("write", f"{opened(path)}, {text(body)}, {len(body)}", len(body))

    def make(self, path: str, body: bytes = b"body", *, synced: bool = True) -> None:
        """Make a file; with `synced` its content is durable, and its name isn't."""
        self.open(path, "O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC")
        self.write(path, body)
        if synced:
            self.sync(path)

    def rename(self, source: str, target: str) -> None:
        self.call("renameat", move(source, target))

    def link(self, source: str, target: str) -> None:
        self.call("linkat", f"{move(source, target)}, 0")

    def unlink(self, path: str, result: int = 0) -> None:
        self.call("unlinkat", f"{root()}, {text(path)}, 0", result)

    def sync(self, *paths: str, result: int = 0) -> None:
        for path in paths:
            self.call("fsync", opened(path), result)

    def sync_all(self) -> None:
        self.call("syncfs", root())

    # Messages on the wire.

    def ask(self, stream: int, words: str = "", *, client: int = 1, more: bool = False) -> None:
        """Send a request; the last of its stream, but with `more`."""
        said = b"" if client in self._greeted else PREFACE
        self._greeted.add(client)
        said += frame(1, stream) + message(stream, words.encode(), ends=not more)
        self.call("recvmsg", f"{socket(client)}, {vector(said)}, 0", len(said), thread=2)

    def answer(self, stream: int, words: str = "", *, client: int = 1) -> None:
        said = frame(1, stream) + message(stream, words.encode()) + frame(1, stream, flags=1)
        self.say(said, client=client)

    def say(self, said: bytes, *, client: int = 1, taken: int | None = None) -> None:
        taken = len(said) if taken is None else taken
        arguments = f"{socket(client)}, {vector(said)}, MSG_NOSIGNAL"
        self.call("sendmsg", arguments, taken, thread=2)

    # Calls of a correct server.

    def send(self, number: int, *, stream: int = 1) -> str:
        """Return a message is sent, answered and published; where it lies then."""
        entry = entry_of(number)
        self.ask(stream, "q body")
        self.make(new(entry))
        self.sync("new")
        self.rename(new(entry), f"queues/q/{entry},v2")
        self.answer(stream, id_of(number))
        return f"queues/q/{entry},v2"

    def send_batch(self, *, stream: int = 1) -> str:
        """Return the same with the two messages of BATCH, settled; where they lie."""
        self.ask(stream, "q bodies")
        self.make(new(BATCH), b"x" * 18)
        self.sync("new")
        self.rename(new(BATCH), f"queues/q/{BATCH},v2")
        self.answer(stream, f"{id_of(0x9000)} {id_of(0x9001)}")
        self.sync("new", "queues/q")
        return f"queues/q/{BATCH},v2"

    def lease(self, *, stream: int = 3, settled: bool = True) -> None:
        """Lease the message 1; with `settled` durably, and with an answer."""
        self.ask(stream, "q")
        self.rename(READY, LEASED)
        if settled:
            self.sync("new", "queues/q", "delay")
            self.answer(stream, f"{id_of(1)} {receipt_of(1)}")

    def queue(self, name: str = "q", settings: bytes = b"{}") -> None:
        self.make_folder(f"queues/{name}")
        self.make(f"config/{name}.1.json", settings)
        self.sync("queues", "config")


def text(content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    return '"' + "".join(f"\\x{byte:02x}" for byte in raw) + '"'


def opened(path: str) -> str:
    return f"7<{text(f'{ROOT}/{path}'.rstrip('/'))[1:-1]}>"


def root() -> str:
    return opened("")


def move(source: str, target: str) -> str:
    return f"{root()}, {text(source)}, {root()}, {text(target)}"


def socket(client: int) -> str:
    return f"9<{text(f'socket:[{client}]')[1:-1]}>"


def vector(said: bytes) -> str:
    return (
        f"{{msg_name=NULL, msg_namelen=0, msg_iov=[{{iov_base={text(said)}, iov_len={len(said)}}}], "
        "msg_iovlen=1, msg_controllen=0, msg_flags=0}"
    )


def _result(number: int) -> str:
    return str(number) if number >= 0 else f"-1 E{-number} (refused)"
