"""gRPC channels to a server: with TLS or without, and with the caller's token.

gRPC has call credentials for that, which need TLS also on the loopback, and cost each call a detour
through a thread. So each method of a channel gets its metadata here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from .._credentials import Credentials

Metadata = tuple[tuple[str, str], ...]


def thread_channel(
    address: str, credentials: Credentials, options: Sequence[tuple[str, int | str]]
) -> grpc.Channel:
    if not credentials.is_secure:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, _tls(credentials), options=options)


def task_channel(
    address: str, credentials: Credentials, options: Sequence[tuple[str, int | str]]
) -> grpc.aio.Channel:
    if not credentials.is_secure:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, _tls(credentials), options=options)


def with_metadata(channel: Any, credentials: Credentials) -> Any:
    """Wrap a channel for stubs so that each call carries the caller's token."""
    metadata = credentials.metadata
    return channel if metadata is None else _MetadataChannel(channel, metadata)


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
        self._metadata = metadata

    def __call__(self, *requests: Any, metadata: Any = None, **options: Any) -> Any:
        return self._method(*requests, metadata=(*self._metadata, *(metadata or ())), **options)

    def future(self, *requests: Any, metadata: Any = None, **options: Any) -> Any:
        return self._method.future(*requests, metadata=(*self._metadata, *(metadata or ())), **options)
