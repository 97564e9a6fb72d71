"""TLS for both ports: certificates from files, replaced for new connections when the files change.

gRPC asks for the certificate with each handshake; asyncio gets a context whose SNI callback puts the
newest context in its place. A certificate that doesn't match its key is refused before either sees it,
and so is one that gRPC can't serve, or its clients can't accept. TLS 1.2 and newer. With a CA for
clients, a client without a certificate of it is refused in the handshake.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
from spoolrack_store.model.clock import stopwatch

from ..system.logs import Log
from .file_format import UnreadableAccessFile
from .watched_files import PUBLIC, SECRET, WatchedFiles

_ALPN: Final = ["http/1.1"]
_HANDSHAKE: Final = 10.0
"""Seconds for a handshake within this process; a longer one tells nothing of the certificate."""
_PEER: Final = struct.Struct("3i")
"""Of a peer on a Unix socket: its process, user and group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The paths of files in PEM."""

    certificate: str
    """The server's, with those between it and its CA behind it."""
    key: str
    client_ca: str | None = None
    """Certificates of CAs, one of which must have signed a client's. None: clients need none."""


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """The content of the files at one time."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None
    context: ssl.SSLContext


class Tls:
    """The certificates of one server."""

    def __init__(self, files: TlsFiles, log: Log) -> None:
        """Raises `AccessUnusable`."""
        paths = [(files.certificate, PUBLIC), (files.key, SECRET)]
        if files.client_ca is not None:
            paths.append((files.client_ca, PUBLIC))
        self.files = WatchedFiles("certificate", paths, _version, log)

    def for_grpc(self) -> grpc.ServerCredentials:
        # gRPC asks in threads of its own, and never two at a time for one server.
        current = self.files.current

        def newest() -> Any:
            nonlocal current
            version = self.files.current
            if version is current:
                return None
            current = version
            return _for_grpc(version)

        return grpc.dynamic_ssl_server_credentials(
            _for_grpc(current), newest, require_client_authentication=current.client_ca is not None
        )

    def for_asyncio(self) -> ssl.SSLContext:
        return _Newest(lambda: self.files.current.context)


class _Newest(ssl.SSLContext):
    """Makes each connection one of the context that is the newest then. asyncio needs no more of it."""

    _newest: Callable[[], ssl.SSLContext]

    def __new__(cls, newest: Callable[[], ssl.SSLContext]) -> _Newest:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._newest = newest
        return made

    def __init__(self, newest: Callable[[], ssl.SSLContext]) -> None:
        pass

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self._newest().wrap_bio(*arguments, **options)


def _for_grpc(version: Version) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(version.key, version.certificate)], root_certificates=version.client_ca
    )


def _version(contents: Sequence[bytes]) -> Version:
    certificate, key, *more = contents
    client_ca = more[0] if more else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_ALPN)
    try:
        # Only files can be loaded; these are in memory, and hold the very bytes that gRPC gets.
        with _in_memory(certificate) as one, _in_memory(key) as other:
            context.load_cert_chain(one, other, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise UnreadableAccessFile(
            None, f"the certificate and the key are no pair in PEM without a password ({error})"
        ) from error
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise UnreadableAccessFile(
                None, f"the clients' CA is no certificate in PEM ({error})"
            ) from error
    _check_by_grpc(certificate, key, client_ca, context)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return Version(certificate, key, client_ca, context)


def _check_by_grpc(
    certificate: bytes, key: bytes, client_ca: bytes | None, context: ssl.SSLContext
) -> None:
    """Raise `UnreadableAccessFile` unless gRPC can serve these files, and its clients can connect then.

    gRPC brings along a TLS library that reads, and offers, less than OpenSSL. Its server would fail to
    listen, and its client be disconnected, both without a reason: so one of each is tried here.
    """
    server = grpc.server(ThreadPoolExecutor(1))
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], client_ca, require_client_auth=client_ca is not None
    )
    try:
        server.add_secure_port(f"unix-abstract:{_free_name()}", credentials)
    except RuntimeError as error:
        raise _not_by_grpc("gRPC can't read the files, though OpenSSL can") from error
    finally:
        server.stop(None)
    name = _free_name()
    with (
        socket.socket(socket.AF_UNIX) as listening,
        grpc.secure_channel(
            f"unix-abstract:{name}", grpc.ssl_channel_credentials(certificate)
        ) as channel,
        suppress(TimeoutError),
    ):
        listening.bind(f"\0{name}")
        listening.listen()
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/spoolrack/None")
        call = method.future(b"")
        connection = _own_connection(listening)
        connection.settimeout(_HANDSHAKE)
        with closing(connection):
            _shake_hands(context, connection)
        call.cancel()


def _own_connection(listening: socket.socket) -> socket.socket:
    """Return the connection of this process's client. Any account of the machine can connect to an
    abstract socket: such a connection is closed. Raise `TimeoutError`."""
    end = stopwatch() + _HANDSHAKE
    while True:
        listening.settimeout(max(0.001, end - stopwatch()))
        connection, _ = listening.accept()
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        if _PEER.unpack(peer)[0] == os.getpid():
            return connection
        connection.close()
        if stopwatch() > end:
            raise TimeoutError


def _shake_hands(context: ssl.SSLContext, connection: socket.socket) -> None:
    try:
        context.wrap_socket(connection, server_side=True).close()
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
        pass  # The client has seen the certificate. Whether it trusts it is not asked here.
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            raise _not_by_grpc(str(error.reason)) from error


def _not_by_grpc(why: str) -> UnreadableAccessFile:
    return UnreadableAccessFile(
        None,
        f"clients of gRPC couldn't connect ({why}): take a key of RSA, or of ECDSA on P-256 or P-384",
    )


def _free_name() -> str:
    return f"spoolrack-{os.getpid()}-{secrets.token_hex(8)}"


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Return the path of a file that exists in memory only."""
    with open(os.memfd_create("spoolrack"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _no_password() -> str:
    # Otherwise OpenSSL would ask a terminal for one, and the server would wait.
    return ""
