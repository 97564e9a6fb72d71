"""A call on gRPC's core: one thread takes its events, and any thread writes.

gRPC's public call for threads has a thread that writes, one that takes the events of the channel and
one that wakes the reader: 52 functions of Python for a request and its response. Here the reader takes
the events itself. That needs gRPC's private names, those of its own calls. Where one of them is
missing, and where an interceptor or gevent has replaced the call, the public call serves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .grpc_channels import is_green, plain_method

cygrpc: Any = None
plain_type: Any = None
with suppress(ImportError, AttributeError):
    cygrpc = import_module("grpc._cython.cygrpc")
    plain_type = import_module("grpc._channel")._StreamStreamMultiCallable

log = logging.getLogger("spoolrack")

UNREADABLE = "Exception deserializing response!"
"""As gRPC says it."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class CallFailure(grpc.RpcError):
    """The status of a call that has failed."""

    def __init__(self, code: grpc.StatusCode, details: str, trailing_metadata: Any) -> None:
        super().__init__(details)
        self._code, self._details, self._metadata = code, details, trailing_metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        return self._metadata


def core_call(
    method: Any, waiting: SimpleQueue[Any], next_message: Callable[[], Any]
) -> CoreCall | None:
    """Open a call of a method with streams in both directions; None: the public call is to be used.
    Raise ValueError if the channel is closed.

    `next_message` makes a message of what is in the queue `waiting`; None: it can't be sent any more.
    """
    plain, metadata = plain_method(method)
    if is_green() or type(plain) is not plain_type:
        return None
    try:
        return CoreCall(plain, metadata, waiting, next_message)
    except (AttributeError, TypeError) as error:
        log.debug("this gRPC has another core than the client knows: %s", error)
        return None


class CoreCall:
    """An open call."""

    def __init__(
        self, method: Any, metadata: Any, waiting: SimpleQueue[Any], next_message: Callable[[], Any]
    ) -> None:
        self._waiting, self._next_message = waiting, next_message
        self._serialize, self._parse = method._request_serializer, method._response_deserializer
        self._send = cygrpc.SendMessageOperation
        self._receive = (cygrpc.ReceiveMessageOperation(0),)
        self._lock = threading.Lock()
        """Held to write. A reader of an ended call would wait forever for the event of a write."""
        self._is_over = False
        self.is_writing = False
        """Whether gRPC has not taken the last message yet. Until then no other is written."""
        begin = cygrpc.SendInitialMetadataOperation(metadata, 0)
        self._call = method._channel.segregated_call(
            0,
            method._method,
            None,
            None,
            metadata,
            None,
            (
                ((begin, cygrpc.ReceiveStatusOnClientOperation(0)), None),
                ((cygrpc.ReceiveInitialMetadataOperation(0),), None),
                (self._receive, None),
            ),
            method._context,
            method._registered_call_handle,
        )

    def write(self) -> None:
        """Write the next message, unless one is being written."""
        with self._lock:
            if self.is_writing or self._is_over:
                return
            message = self._next_message()
            if message is not None:
                operations = (self._send(self._serialize(message), 0),)
                self.is_writing = True
                if not self._call.operate(operations, None):
                    self.is_writing = False  # The call has ended: there is no event.

    def read(self, on_response: Callable[[Any], object]) -> None:
        """Call `on_response` with each response, and write what waits. Return after the last event;
        raise `CallFailure` if the call has failed."""
        kinds = cygrpc.OperationType
        sent, received = kinds.send_message, kinds.receive_message
        is_beginning = is_receiving = True
        status: Any = None
        try:
            while status is None or is_beginning or is_receiving or self.is_writing:
                for operation in self._call.next_event().batch_operations:
                    kind = operation.type()
                    if kind == received:
                        raw = operation.message()
                        is_receiving = raw is not None and self._call.operate(self._receive, None)
                        if raw is not None:
                            on_response(self._parse(raw))
                    elif kind == sent:
                        self.is_writing = False
                        if not self._waiting.empty():
                            self.write()
                    elif kind == kinds.receive_initial_metadata:
                        is_beginning = False
                    elif kind == kinds.receive_status_on_client:
                        status = operation
                        with self._lock:
                            self._is_over = True
        except DecodeError as error:
            raise CallFailure(grpc.StatusCode.INTERNAL, f"{UNREADABLE}: {error}", ()) from error
        finally:
            if status is None:
                self.cancel()
        code = _CODES.get(status.code(), grpc.StatusCode.UNKNOWN)
        if code is not grpc.StatusCode.OK:
            raise CallFailure(code, status.details(), status.trailing_metadata())

    def cancel(self) -> None:
        self._call.cancel(grpc.StatusCode.CANCELLED.value[0], "cancelled by the client")
