"""The transport: a connection of kombu, which is one client with its channels.

Delivers what the channels' streams have brought: to a program that drains events, which sleeps until
one of them brings more, or from the event loop of a Celery worker, which a byte in a socket wakes. What
can fail: the connection at its opening, and each call after it, with a `SpoolrackError`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any, Final

from kombu.exceptions import ChannelError
from kombu.transport import virtual

from .. import errors
from .._blocking import connect
from .._credentials import CredentialOptions
from .._runtime import ThreadSignal, run
from ._broker import Broker, Retries, runs_event_loop
from ._channel import Channel

DEFAULT_PORT: Final = 50051


DECLARE_EVERY: Final = 5.0
"""Seconds between two tries of what the server has refused to declare."""
_LOST: Final = (
    *virtual.Transport.connection_errors,
    errors.ClientClosed,
    errors.Draining,
    errors.ForkedClient,
    errors.QueueBeingDeleted,
    errors.QueueNotFound,  # A new connection declares its queues again.
    errors.StoreFailed,
    errors.Timeout,
    errors.Unauthenticated,  # A new connection has the token of now.
    errors.Unreachable,
)
"""Errors after which a call succeeds on a new connection."""
_REFUSED: Final = (
    errors.DiskError,
    errors.DiskFull,
    errors.InternalError,
    errors.MemoryLimit,
    errors.OutcomeUnknown,
)
"""Errors of a server in trouble. They end no worker, which connects again; a publication isn't
repeated: the client has repeated what it may."""


class Transport(virtual.Transport):
    """kombu's transport to the server at `spoolrack://host:port`."""

    Channel = Channel

    default_port = DEFAULT_PORT
    driver_type = "spoolrack"
    driver_name = "spoolrack"
    connection_errors = _LOST + _REFUSED
    recoverable_connection_errors = _LOST
    channel_errors = (*virtual.Transport.channel_errors, ChannelError, errors.SpoolrackError)
    recoverable_channel_errors = ()
    implements = virtual.Transport.implements.extend(
        asynchronous=True,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self._broker: Broker | None = None
        self._arrival = ThreadSignal()
        """Of the last check for deliverable messages."""
        self._hub: Any = None
        """The event loop that delivers, if one does."""
        self._timer: Any = None
        """Of the event loop."""
        self._waker: tuple[socket.socket, socket.socket] | None = None
        """The end that the event loop reads, and the end that wakes it."""
        self._pid = os.getpid()
        self._turn = 0

    @property
    def broker(self) -> Broker:
        if self._broker is None:
            raise errors.ClientClosed("The connection of kombu is closed: open a new one.")
        return self._broker

    @property
    def is_forked(self) -> bool:
        """Whether the process is a child of the one that connected: the connection is its parent's."""
        return self._pid != os.getpid()

    def driver_version(self) -> str:
        from spoolrack import __version__

        return __version__

    def establish_connection(self) -> Transport:
        """Connect, and wait for an answer of the server for `connect_timeout` seconds."""
        info = self.client
        options = info.transport_options
        credentials, is_secure = _credentials(info)
        client = connect(
            _url(info, is_secure),
            timeout=options.get("timeout", 30.0),
            retry=Retries(has_alternates=bool(info.alt)),
            routing=options.get("routing"),
            **credentials,
        )
        broker = Broker(client, options.get("queue_name_prefix", ""))
        try:
            broker.open(info.connect_timeout or 5.0)
        except BaseException:
            client.close()
            raise
        self._pid = os.getpid()
        self._broker = broker
        self.state.clear()  # Declared queues may be gone.
        self._avail_channels.append(self.create_channel(self))
        return self

    def close_connection(self, connection: Transport) -> None:
        broker, self._broker = self._broker, None
        if broker is None:
            return
        self._leave_event_loop()
        if self.is_forked:
            for channel in [*self.channels, *self._avail_channels]:
                channel.closed = True  # For those who use it; at the server it is the parent's.
                self.close_channel(channel)
            self._avail_channels.clear()
            return
        self._broker = broker
        try:
            super().close_connection(connection)
        finally:
            self._broker = None
            broker.close()

    def _collect(self, connection: Transport | None) -> None:
        """Close a connection that is lost, or a parent's; kombu calls this before it connects again."""
        if self._broker is None:
            return
        self._broker.keep_queues()
        with contextlib.suppress(*self.connection_errors, *self.channel_errors):
            self.close_connection(self)

    def wake(self) -> None:
        """Check again for deliverable messages. From any thread."""
        self._arrival.set()
        if self._waker is not None:
            # A full socket wakes, too; a closed one ends no wait.
            with contextlib.suppress(OSError):
                self._waker[1].send(b"\0")

    def register_with_event_loop(self, connection: Transport, loop: Any) -> None:
        """Deliver from kombu's event loop, which a worker of Celery runs."""
        self._leave_event_loop()
        self._waker = socket.socketpair()
        for end in self._waker:
            end.setblocking(False)
        self._hub = loop
        loop.add_reader(self._waker[0], self._on_wake)
        runs_event_loop(True)
        self._timer = loop.call_repeatedly(DECLARE_EVERY, self._declare_deferred)
        self.wake()

    def _leave_event_loop(self) -> None:
        if self._waker is None:
            return
        ends, self._waker = self._waker, None
        if not self.is_forked:  # The parent's poller would lose it, too.
            self._hub.remove_reader(ends[0])
            runs_event_loop(False)
            self._timer.cancel()
        self._hub = None
        for end in ends:
            end.close()

    def _on_wake(self) -> None:
        """Deliver one message; the rest in the next turns of the loop, beside what else is due."""
        if self._waker is None:
            return
        with contextlib.suppress(BlockingIOError):
            self._waker[0].recv(4_096)
        if self._deliver_next():
            self.wake()

    def _declare_deferred(self) -> None:
        if self._broker is not None:
            self._broker.declare_deferred()
            self.wake()

    def drain_events(self, connection: Transport, timeout: float | None = None) -> None:
        """Deliver one message; raise `TimeoutError` if none comes within `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            # Before the check: a `wake` after it is not missed.
            arrived = self._arrival = ThreadSignal()
            if self._deliver_next():
                return
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            run(arrived.wait(left))

    def _deliver_next(self) -> bool:
        """Deliver a message of one of the channels, which are asked in turn."""
        channels = list(self.channels)
        self._turn += 1
        turn = self._turn % len(channels) if channels else 0
        return any(channel.deliver_next() for channel in [*channels[turn:], *channels[:turn]])

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {"port": self.default_port, "hostname": "127.0.0.1"}


def _url(info: Any, is_secure: bool) -> str:
    """Return the URL of the server, or of all shards: `a,b:50051` is two hosts with one port."""
    servers = info.transport_options.get("servers")
    if servers is None:
        hosts = (info.hostname or "127.0.0.1").split(",")
        port = info.port or DEFAULT_PORT
        servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts)
    return f"{'grpcs' if is_secure else 'grpc'}://{servers}"


def _credentials(info: Any) -> tuple[CredentialOptions, bool]:
    """Return the client's credentials, and whether the connection is one of TLS."""
    credentials: CredentialOptions = {}
    token = info.transport_options.get("token") or info.password
    if token:
        credentials["token"] = token
    if info.transport_options.get("insecure"):
        credentials["insecure"] = True
    if not info.ssl:
        return credentials, False
    if isinstance(info.ssl, dict):
        if "ca_certs" in info.ssl:
            credentials["ca"] = info.ssl["ca_certs"]
        if "certfile" in info.ssl:
            credentials["certificate"] = info.ssl["certfile"]
        if "keyfile" in info.ssl:
            credentials["key"] = info.ssl["keyfile"]
    return credentials, True
