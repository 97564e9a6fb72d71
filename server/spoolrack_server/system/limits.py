"""Limits on one caller: docs/how-to/security.md shows these numbers, and a test compares.

Limits on a message are in the contract; these bound a connection before any of it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spoolrack_store.model.settings import MIB

LARGEST_CALL: Final = 68 * MIB
"""Bytes of one request or response: the largest message there can be, and room around it."""
METADATA: Final = 16 * 1024
"""Bytes of a gRPC call's metadata."""
LINE: Final = 8_190
"""Bytes of an HTTP request's first line, and of each of its headers. aiohttp takes 128 of these."""

PROBES: Final = 16
"""Connections at the listener for probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that depend on the machine."""

    connections: int = 1_000
    """At each port of each process. One more is closed at once."""
    streams: int = 4_000
    """Calls and streams of one gRPC connection at a time. A client knows, and lets the next ones wait;
    one that is there too soon is refused, with nothing done, and can be repeated."""
    pending: int = 16_000
    """gRPC calls of all connections that have come and aren't begun. One more ends as CANCELLED."""
    handshake: float = 20.0
    """Seconds for a gRPC client to say that it is one, TLS included; elsewhere for TLS alone."""
    idle: float = 600.0
    """Seconds after which a gRPC connection without a call is closed; clients make a new one."""

    public: int = 16
    """gRPC calls that need no credentials, of one connection at a time. One more is refused."""
    all_public: int = 1_000
    """The same, of all connections. One more ends the oldest one."""
    public_request: float = 10.0
    """Seconds in which such a call must send its request."""
    public_lifetime: float = 600.0
    """Seconds after which such a stream is ended; clients call again."""

    keepalive: float = 30.0
    """Seconds after which a silent gRPC connection is asked for a sign of life."""
    keepalive_timeout: float = 10.0
    """Seconds that it has for that. A connection without an answer to a ping is closed after both."""

    def grpc_options(self) -> tuple[tuple[str, int], ...]:
        return (
            ("grpc.max_receive_message_length", LARGEST_CALL),
            ("grpc.max_send_message_length", LARGEST_CALL),
            ("grpc.max_concurrent_streams", self.streams),
            # By default gRPC drops the calls of a burst from 1,000 on.
            ("grpc.server.max_pending_requests", self.pending),
            ("grpc.server.max_pending_requests_hard_limit", self.pending),
            ("grpc.max_metadata_size", METADATA),
            ("grpc.absolute_max_metadata_size", METADATA),
            ("grpc.max_allowed_incoming_connections", self.connections),
            ("grpc.server_handshake_timeout_ms", round(self.handshake * 1_000)),
            ("grpc.max_connection_idle_ms", round(self.idle * 1_000)),
            ("grpc.keepalive_time_ms", round(self.keepalive * 1_000)),
            ("grpc.keepalive_timeout_ms", round(self.keepalive_timeout * 1_000)),
            # gRPC pings for reasons of its own, too, and waits a minute for the answer to such a one.
            ("grpc.http2.ping_timeout_ms", round((self.keepalive + self.keepalive_timeout) * 1_000)),
            # Clients may ask for the same, also while a stream of theirs is silent.
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        )
