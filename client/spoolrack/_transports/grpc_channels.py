"""gRPC channels to a server: with TLS or without, and with the caller's token.

gRPC has call credentials for that, which need TLS also on the loopback, and cost each call a detour
through a thread. So each method of a channel gets its metadata here.

Proxies: gRPC connects to every address through the proxy that the environment names, the loopback
included. Here a loopback address is always connected to directly.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import grpc

from .._credentials import Credentials, is_loopback
from ..errors import Unsupported

_fitted: set[int] = set()
"""Processes in which gRPC yields to gevent."""
Metadata = tuple[tuple[str, str], ...]
Options = Sequence[tuple[str, int | str]]

_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables by which gRPC finds a proxy, the first one that is set; with TLS or without."""
_EXCEPTIONS: Final = ("no_grpc_proxy", "no_proxy")


def thread_channel(address: str, credentials: Credentials, options: Options) -> grpc.Channel:
    _fit_to_green_threads()
    options = _with_route(address, options)
    if not credentials.is_secure:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, _tls(credentials), options=options)


def _fit_to_green_threads() -> None:
    """Make gRPC yield to gevent, if gevent has replaced the threads: otherwise a call would block all
    greenlets. Raise `Unsupported` for eventlet."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        if os.getpid() not in _fitted:
            from grpc.experimental import gevent as grpc_gevent

            _fitted.add(os.getpid())
            grpc_gevent.init_gevent()
    elif eventlet is not None and eventlet.is_monkey_patched("thread"):
        raise Unsupported(
            "eventlet has replaced the threads of this program (monkey_patch), and gRPC can't run on "
            "its green threads: use gevent, threads or processes."
        )


def is_green() -> bool:
    """Return whether gRPC yields to gevent in this process."""
    return os.getpid() in _fitted


def task_channel(address: str, credentials: Credentials, options: Options) -> grpc.aio.Channel:
    logging.getLogger("asyncio").addFilter(_FOREIGN_EVENTS)
    options = _with_route(address, options)
    if not credentials.is_secure:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, _tls(credentials), options=options)


def proxy_hint(address: str) -> str:
    """Return a sentence about the proxy between this process and an address; empty if there is none."""
    host = _host_of(address)
    variable = next((name for name in _PROXIES if os.environ.get(name)), None)
    if variable is None or is_loopback(host):
        return ""
    exceptions = next(filter(None, map(os.environ.get, _EXCEPTIONS)), "")
    if any(_covers(each.strip(), host) for each in exceptions.split(",")):
        return ""
    return (
        f" The connection goes through the proxy of the environment variable {variable}: to connect "
        f"directly, add {host} to no_proxy."
    )


def _with_route(address: str, options: Options) -> Options:
    if is_loopback(_host_of(address)):
        return (*options, ("grpc.enable_http_proxy", 0))
    return options


def _host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _covers(exception: str, host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    return bool(exception) and host.lower().endswith(exception.lower())


class _ForeignEvents(logging.Filter):
    """Drop the tracebacks that gRPC causes where a process has, or had, several event loops.

    Each loop is woken for the events of all. One that finds an event taken already, or finds an event
    of a loop that is closed, fails in its callback, which harms no call:
    https://github.com/grpc/grpc/issues/25364
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        is_harmless = isinstance(error, BlockingIOError) or (
            isinstance(error, RuntimeError) and "loop is closed" in str(error)
        )
        return not (is_harmless and "PollerCompletionQueue._handle_events" in record.getMessage())


_FOREIGN_EVENTS: Final = _ForeignEvents()


class RenewableChannel:
    """A channel for the stubs of one client: each call carries the caller's token, and `metadata`.

    gRPC fixes the certificates of a channel. So other certificates make another channel, for the calls
    from then on; calls that run keep theirs. Thread-safe.
    """

    def __init__(
        self, open: Callable[[Credentials], Any], credentials: Credentials, metadata: Metadata
    ) -> None:
        self._open = open
        self._credentials = credentials
        self._own_metadata = metadata
        self._lock = threading.Lock()
        self.generation = 0
        """Number of the credentials, which grows when they change."""
        self.channel = open(credentials)
        self.metadata: Metadata = (*(credentials.metadata or ()), *metadata)

    def for_stubs(self) -> Any:
        """Return what stubs take for a channel."""
        if self._credentials.origin is None:
            metadata = self.metadata
            return _MetadataChannel(self.channel, metadata) if metadata else self.channel
        return self

    def renew(self, generation: int) -> bool:
        """Read the credentials again, after they failed; return whether there are other ones than those
        of this `generation`."""
        if self._credentials.origin is None:
            return False
        with self._lock:
            if generation == self.generation:
                found = self._credentials.renewed()
                if found == self._credentials:
                    return False
                if replace(found, token="") != replace(self._credentials, token=""):
                    self.channel = self._open(found)
                self._credentials = found
                self.metadata = (*(found.metadata or ()), *self._own_metadata)
                self.generation += 1
            return True

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        return _RenewableMethod(self, "unary_unary", arguments, options)

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        return _RenewableMethod(self, "unary_stream", arguments, options)

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        return _RenewableMethod(self, "stream_unary", arguments, options)

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        return _RenewableMethod(self, "stream_stream", arguments, options)


class _RenewableMethod:
    """A method of the present channel, with the present token."""

    def __init__(
        self, channel: RenewableChannel, kind: str, arguments: Any, options: dict[str, Any]
    ) -> None:
        self._channel = channel
        self._kind, self._arguments, self._options = kind, arguments, options
        self._made: tuple[Any, Any] = (None, None)
        """A channel, and its method."""

    @property
    def metadata(self) -> Metadata:
        return self._channel.metadata

    def plain(self) -> Any:
        """Return gRPC's own method."""
        channel, method = self._made
        present = self._channel.channel
        if channel is not present:
            method = getattr(present, self._kind)(*self._arguments, **self._options)
            self._made = present, method
        return method

    def __call__(self, *requests: Any, metadata: Any = None, **options: Any) -> Any:
        metadata = (*self._channel.metadata, *(metadata or ()))
        return self.plain()(*requests, metadata=metadata, **options)

    def future(self, *requests: Any, metadata: Any = None, **options: Any) -> Any:
        metadata = (*self._channel.metadata, *(metadata or ()))
        return self.plain().future(*requests, metadata=metadata, **options)


def _tls(credentials: Credentials) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=credentials.ca,
        private_key=credentials.key,
        certificate_chain=credentials.certificate,
    )


class _MetadataChannel:
    """A channel of either kind, as far as stubs use it."""

    def __init__(self, channel: Any, metadata: Metadata) -> None:
        self._channel = channel
        self._metadata = metadata

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        return Method(self._channel.unary_unary(*arguments, **options), self._metadata)

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        return Method(self._channel.unary_stream(*arguments, **options), self._metadata)

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        return Method(self._channel.stream_unary(*arguments, **options), self._metadata)

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        return Method(self._channel.stream_stream(*arguments, **options), self._metadata)


class Method:
    """A method that is called with this metadata, beside what a call has of its own."""

    def __init__(self, method: Any, metadata: Metadata) -> None:
        self._method = method
        self.metadata = metadata

    def plain(self) -> Any:
        return self._method

    def __call__(self, *requests: Any, metadata: Any = None, **options: Any) -> Any:
        return self._method(*requests, metadata=(*self.metadata, *(metadata or ())), **options)

    def future(self, *requests: Any, metadata: Any = None, **options: Any) -> Any:
        return self._method.future(*requests, metadata=(*self.metadata, *(metadata or ())), **options)


def plain_method(method: Any) -> tuple[Any, Metadata]:
    """Return gRPC's own method in one of a channel's stubs, and the metadata that each call gets."""
    metadata: Metadata = ()
    while isinstance(method, Method | _RenewableMethod):
        metadata = (*metadata, *method.metadata)
        method = method.plain()
    return method, metadata
