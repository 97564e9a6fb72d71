"""Writes what strace would have written, for servers that we are glad not to have."""

from __future__ import annotations

import zlib
from typing import Final, Self

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
WHOLE: Final = f"queues/q/{BATCH},v2"
"""Where they lie when they are sent."""


class TraceText:
    """A trace that begins with a root whose folders are durable. Each call returns it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._greeted: set[int] = set()
        for folder in FOLDERS:
            self.make_folder(folder)
        self.sync("")

    # Calls.

    def call(self, name: str, arguments: str, result: int = 0, *, thread: int = 1) -> Self:
        self.lines.append(f"{thread} {name}({arguments}) = {_result(result)}")
        return self

    def begins(self, name: str, arguments: str, *, thread: int) -> Self:
        self.lines.append(f"{thread} {name}({arguments} <unfinished ...>")
        return self

    def ends(self, name: str, *, thread: int, result: int = 0) -> Self:
        self.lines.append(f"{thread} <... {name} resumed>) = {_result(result)}")
        return self

    # Files.

    def make_folder(self, path: str) -> Self:
        return self.call("mkdirat", f"{root()}, {text(path)}, 0700")

    def open(self, path: str, flags: str) -> Self:
        return self.call("openat", f"{root()}, {text(path)}, {flags}, 0600", 7)

    def write(self, path: str, body: bytes) -> Self:
        return self.call("write", f"{opened(path)}, {text(body)}, {len(body)}", len(body))

    def overwrite(self, path: str, body: bytes, offset: int) -> Self:
        arguments = f"{opened(path)}, {text(body)}, {len(body)}, {offset}"
        return self.call("pwrite64", arguments, len(body))

    def make(self, path: str, body: bytes = b"body", *, synced: bool = True) -> Self:
        """Make a file; with `synced` its content is durable, and its name isn't."""
        self.open(path, "O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC")
        self.write(path, body)
        if synced:
            self.sync(path)
        return self

    def rename(self, source: str, target: str) -> Self:
        return self.call("renameat", move(source, target))

    def link(self, source: str, target: str) -> Self:
        return self.call("linkat", f"{move(source, target)}, 0")

    def unlink(self, path: str, result: int = 0) -> Self:
        return self.call("unlinkat", f"{root()}, {text(path)}, 0", result)

    def sync(self, *paths: str, result: int = 0) -> Self:
        for path in paths:
            self.call("fsync", opened(path), result)
        return self

    def sync_all(self) -> Self:
        return self.call("syncfs", root())

    # Messages on the wire.

    def ask(self, stream: int, words: str = "", *, client: int = 1) -> Self:
        """Send the only request of a stream."""
        said = b"" if client in self._greeted else PREFACE
        self._greeted.add(client)
        said += frame(1, stream) + message(stream, words.encode(), ends=True)
        return self.call("recvmsg", f"{socket(client)}, {vector(said)}, 0", len(said), thread=2)

    def answer(self, stream: int, words: str = "", *, client: int = 1) -> Self:
        said = frame(1, stream) + message(stream, words.encode()) + frame(1, stream, flags=1)
        return self.say(said, client=client)

    def say(self, said: bytes, *, client: int = 1, taken: int | None = None) -> Self:
        taken = len(said) if taken is None else taken
        arguments = f"{socket(client)}, {vector(said)}, MSG_NOSIGNAL"
        return self.call("sendmsg", arguments, taken, thread=2)

    # Calls of a correct server.

    def send(self, number: int) -> Self:
        """Send a message, answer, and publish it."""
        entry = entry_of(number)
        self.ask(1, "q body").make(new(entry)).sync("new")
        return self.rename(new(entry), f"queues/q/{entry},v2").answer(1, id_of(number))

    def send_batch(self) -> Self:
        """Send the two messages of BATCH, answer, publish them, and sync that."""
        self.ask(1, "q bodies").make(new(BATCH), b"x" * 18).sync("new").rename(new(BATCH), WHOLE)
        return self.answer(1, f"{id_of(0x9000)} {id_of(0x9001)}").sync("new", "queues/q")

    def lease(self, *, settled: bool = True) -> Self:
        """Lease the message 1; with `settled` durably, and with an answer."""
        self.ask(3, "q").rename(READY, LEASED)
        if settled:
            self.sync("new", "queues/q", "delay").answer(3, f"{id_of(1)} {receipt_of(1)}")
        return self

    def queue(self) -> Self:
        return self.make_folder("queues/q").make("config/q.1.json", b"{}").sync("queues", "config")


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
