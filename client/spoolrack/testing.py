"""A server for the tests of programs that use Spoolrack: real, in this process, over a temporary root.

    with running_server() as server, server.client() as client:
        client.create_queue("jobs")

With pytest, `pytest_plugins = ["spoolrack.testing"]` in a conftest.py gives the fixtures
`spoolrack_server`, `spoolrack_client` and `spoolrack_clock`; a test that asks for the clock moves the
server's time itself (`spoolrack_clock.advance(30_000)`). A server needs the package's server extra.

`open_root` is the same without a server: clients of a folder, in a time that the test moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ._blocking import Client, connect

if TYPE_CHECKING:
    from spoolrack_server.process.server import Server
    from spoolrack_store.manual_clock import ManualClock
    from spoolrack_store.model.clock import Clock

__all__ = [
    "OpenRoot",
    "RunningServer",
    "RunningShards",
    "manual_clock",
    "open_root",
    "running_server",
    "running_shards",
]

START_TIMEOUT = 60.0
"""Seconds for a server to start or stop: only a defect takes longer."""


class RunningServer:
    """A server in a thread of this process; `running_server` makes one."""

    def __init__(self, root: str, clock: Clock | None, shard: str | None = None) -> None:
        self._root = root
        self._shard = shard
        self._clock = clock
        self._port = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """URL for `spoolrack.connect`; the same after a restart."""
        return f"grpc://127.0.0.1:{self._port}"

    @property
    def root(self) -> str:
        """The folder that the server serves."""
        return self._root

    @property
    def clock(self) -> Any:
        """The server's clock; `advance(milliseconds)` moves a manual one."""
        if self._clock is None:
            raise RuntimeError("this server runs by the system's clock: use running_server(clock=...)")
        return self._clock

    def client(self, *, timeout: float = 30.0) -> Client:
        """Return a new client of this server. Close it, or use it as a context."""
        return connect(self.url, timeout=timeout)

    def start(self) -> None:
        """Start the server, at the same port as before; raise the error of a failed start."""
        started: Future[int] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="spoolrack-server", daemon=True
        )
        self._thread.start()
        self._port = started.result(START_TIMEOUT)

    def stop(self) -> None:
        """Drain and stop the server; the root stays. May be repeated."""
        if self._thread is None:
            return
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_TIMEOUT)
        self._thread = None

    def restart(self) -> None:
        """Stop the server, and start it with the same root and port."""
        self.stop()
        self.start()

    async def _serve(self, started: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            server = _server(self._root, self._port, self._clock, self._shard)
            await server.start()
        except Exception as error:  # noqa: BLE001  # the thread that waits for the start raises it
            started.set_exception(error)
            return
        started.set_result(server.grpc_port)
        await self._stopping.wait()
        await server.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._thread is None else "running"
        return f"<spoolrack.testing.RunningServer {self.url} of {self._root}, {state}>"


@contextlib.contextmanager
def running_server(
    root: str | os.PathLike[str] | None = None,
    *,
    clock: Clock | None = None,
    shard: str | None = None,
) -> Iterator[RunningServer]:
    """Run a server on a free port of the loopback, until the context ends.

    Without a `root` it serves a temporary folder, which is removed afterwards. A `clock`, such as
    `manual_clock()`, is the server's time. `shard`: which one it is, as "2/8". Raises `ImportError`
    without the server extra.
    """
    with contextlib.ExitStack() as stack:
        if root is None:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="spoolrack-"))
        server = RunningServer(os.fspath(root), clock, shard)
        server.start()
        stack.callback(server.stop)
        yield server


class RunningShards:
    """A server for each shard, in this process; `running_shards` makes them."""

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        self.servers = servers
        """By the numbers of their shards."""

    @property
    def url(self) -> str:
        """URL of all for `spoolrack.connect`."""
        return ",".join(server.url for server in self.servers)

    def client(self, *, timeout: float = 30.0) -> Client:
        """Return a new client of all shards. Close it, or use it as a context."""
        return connect(self.url, timeout=timeout)


@contextlib.contextmanager
def running_shards(count: int, *, clock: Clock | None = None) -> Iterator[RunningShards]:
    """Run a server for each of `count` shards, over temporary folders, until the context ends.

    All have the `clock`, if there is one. Raises `ImportError` without the server extra.
    """
    with contextlib.ExitStack() as stack:
        shards = [running_server(clock=clock, shard=f"{number}/{count}") for number in range(count)]
        yield RunningShards([stack.enter_context(shard) for shard in shards])


class OpenRoot:
    """A root that clients of this process share, with no server; `open_root` makes one."""

    def __init__(self, root: str, url: str, clock: Clock) -> None:
        self.root = root
        self.url = url
        """For `spoolrack.connect`."""
        self.clock: Any = clock

    def client(self, *, timeout: float = 30.0) -> Client:
        """Return a new client of this root: close it, or use it as a context."""
        return connect(self.url, timeout=timeout)


@contextlib.contextmanager
def open_root(
    root: str | os.PathLike[str] | None = None, *, clock: Clock | None = None
) -> Iterator[OpenRoot]:
    """Return a root for the clients of its URL in this process, until the context ends; calls of a
    client that is left open fail from then on.

    Without a `root` it is a temporary folder, which is gone afterwards. With a `clock`, such as
    `manual_clock()`, these clients live in that one's time.
    """
    from ._transports.folder_stores import SharedStore
    from ._transports.folder_values import FolderUrl

    with contextlib.ExitStack() as stack:
        if root is None:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="spoolrack-"))
        place = FolderUrl(root=os.path.abspath(root))
        share = stack.enter_context(SharedStore(place, clock))
        store = share.store(make=True).result(START_TIMEOUT)
        # A client that was left open would write into the folder as it goes.
        stack.callback(store.close)
        yield OpenRoot(place.root, place.url, share.clock)


def manual_clock() -> ManualClock:
    """Return a clock that stands still until `advance(milliseconds)` moves it."""
    try:
        from spoolrack_store.manual_clock import ManualClock
    except ImportError as error:
        raise _missing(error) from error
    return ManualClock()


def _server(root: str, port: int, clock: Any, shard: str | None) -> Server:
    try:
        from spoolrack_server.process.serve_settings import ServeSettings
        from spoolrack_server.process.server import Server
    except ImportError as error:
        raise _missing(error) from error
    settings = ServeSettings(root=root, grpc=("127.0.0.1", port), http=None, grace=1.0, shard=shard)
    return Server(settings, clock=clock)


def _missing(error: ImportError) -> ImportError:
    return ImportError(
        f"spoolrack.testing runs a real server, and that needs the server extra ({error}): "
        "pip install '.[server]' in a clone"
    )


def _define_fixtures() -> None:
    """Put the fixtures into this module, where pytest looks for those of a plugin."""
    import pytest

    @pytest.fixture
    def spoolrack_clock() -> ManualClock:
        """The clock of `spoolrack_server`, which stands still until the test moves it."""
        return manual_clock()

    @pytest.fixture
    def spoolrack_server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
        """A server for this test alone; by the manual clock if the test asks for that as well."""
        asked = "spoolrack_clock" in request.fixturenames
        clock = request.getfixturevalue("spoolrack_clock") if asked else None
        with running_server(clock=clock) as server:
            yield server

    @pytest.fixture
    def spoolrack_client(spoolrack_server: RunningServer) -> Iterator[Client]:
        """A client of `spoolrack_server`."""
        with spoolrack_server.client() as client:
            yield client

    fixtures = (spoolrack_clock, spoolrack_server, spoolrack_client)
    globals().update({fixture.__name__: fixture for fixture in fixtures})


if importlib.util.find_spec("pytest") is not None:
    _define_fixtures()
