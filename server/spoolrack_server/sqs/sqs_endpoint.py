"""The listener of SQS: its start and stop, and the beginning and end of each request.

Every path is served alike: the header `X-Amz-Target` (JSON), or the parameter `Action` (Query), says
the operation. Authentication comes first: the head is checked before any of the body is read, and the
signature over the raw body before any of it is parsed. A receive ends with its client's connection, and
its messages are released unless the kernel took the whole response; every other operation goes on
without its client. Starting raises `OSError` for an unusable address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from aiohttp import web
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import MessageTooLarge, StoreError

from ..access.access_control import AccessControl
from ..app.application import Application
from ..app.caller import Caller, Permission
from ..app.memory import MemoryLimiter
from ..app.trace_context import context_in
from ..http import request_bodies
from ..http.http_context import HttpContext
from ..http.http_errors import GatewayError
from ..http.http_front import HttpFront
from ..http.http_listener import expect_nothing
from ..http.request_bodies import HttpLimits
from ..http.request_checks import (
    consumer_of_request,
    peer_of,
    require_own_name,
    require_own_origin,
)
from ..metrics.instrumentation import Instrumentation
from ..system.logs import Log
from ..system.request_ids import HEADER, IDENTITY, REQUEST_ID
from ..wire.status import LONGEST_MESSAGE
from . import json_protocol, query_json, query_protocol, sqs_errors
from .parameters import Parameters
from .queue_attributes import queue_of_url
from .signatures import Authenticator, Claim
from .sqs_errors import SqsError
from .sqs_operations import OPERATIONS, Result, SqsCaller, SqsOperations

LARGEST: Final = 8 * 1024 * 1024
"""Bytes of a request: text of 1 MiB may be six times as long in JSON's escapes, or a form's
encoding."""
ARRIVING: Final = 4 * LARGEST
"""Bytes of all bodies together that are arriving from callers that aren't known yet."""
INLINE: Final = 64 * 1024
"""Bytes of a body that is verified and parsed in the event loop; a larger one in a thread."""
EMULATORS: Final = (
    "elasticmq",
    "host.docker.internal",
    "localstack",
    ".localhost.localstack.cloud",
)
"""Hosts by which programs know an emulator of SQS on the same machine: none of them can be the name of
another site's page, since the public DNS either hasn't them, or has them for the loopback alone."""
OPERATION: Final = web.RequestKey("sqs-operation", str)
"""Of a request: the operation that it names; "" or none if it names none of SQS."""
RECEIVE: Final = "ReceiveMessage"
READS: Final = frozenset(
    {
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "ListMessageMoveTasks",
        "ListQueueTags",
        "ListQueues",
    }
)
"""Operations that change nothing."""


class _WireProtocol(Protocol):
    """The form of responses: a module for each protocol."""

    @property
    def CONTENT_TYPE(self) -> str: ...  # noqa: N802 - a constant of both modules

    def response(self, operation: str, content: Mapping[str, Any], request_id: str) -> bytes: ...

    def error_response(self, error: SqsError, request_id: str) -> tuple[bytes, dict[str, str]]: ...


@dataclass(frozen=True, slots=True)
class _SqsCall:
    """A request that was read."""

    protocol: _WireProtocol
    operation: str
    parameters: Parameters
    claim: Claim


class SqsEndpoint(HttpFront):
    """The listener of SQS. Lives in one event loop, and is started once."""

    id_headers = (HEADER, "x-amzn-RequestId")

    def __init__(
        self,
        app: Application,
        clock: Clock,
        log: Log,
        http_limits: HttpLimits | None,
        instrumentation: Instrumentation,
        access_control: AccessControl,
        memory: MemoryLimiter,
        authenticator: Authenticator,
        url: str | None,
        account: str,
    ) -> None:
        """`url` is where clients reach this server, without a path; None: where each request says."""
        super().__init__(HttpContext(app, clock, log, http_limits, memory), log, instrumentation)
        self._authenticator = authenticator
        self._access_control = access_control
        self._url = url
        self._account = account
        self._hosts = (*EMULATORS, *(() if url is None else (urlsplit(url).hostname or "localhost",)))
        self._operations = SqsOperations(app, memory, clock)
        self._arriving = request_bodies.UploadMemory(ARRIVING, evicts=True)
        """Of bodies from callers that aren't known yet: one that dawdles delays no other."""
        self._key_by_connection: WeakKeyDictionary[asyncio.Transport, str] = WeakKeyDictionary()
        """By connection, the access key of the last request whose signature was verified."""
        self._application.router.add_route(
            "*", "/{path:.*}", self._respond, expect_handler=expect_nothing
        )

    # Each request.

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        call: _SqsCall | Exception
        # A body counts until its request is answered: it is held as long.
        with self._context.upload_memory.share() as share:
            try:
                call = await self._call_in(request, share)
                operation = call.operation
            except Exception as error:  # noqa: BLE001 - each is answered
                call, operation = error, _operation_in_head(request)
            request[OPERATION] = operation
            return await self._observed(
                request,
                operation,
                partial(self._answer, request, call),
                ends_with_client=operation == RECEIVE,
                is_read=True,  # Of responses without leases only a list is large.
                operation=f"SQS {operation}" if operation else None,
            )

    async def _call_in(self, request: web.Request, share: request_bodies.UploadShare) -> _SqsCall:
        """Return the call that a request makes, once its caller is known."""
        self._check_origin(request)
        claim = self._authenticator.claim(request)
        body = await self._read(request, claim, share)
        if len(body) > INLINE:
            call = await self._context.app.in_thread(_verified, request, claim, body)
        else:
            call = _verified(request, claim, body)
        if request.transport is not None:
            self._key_by_connection[request.transport] = claim.access_key
        self._check_method(request, call)
        self._operations.find(call.operation)
        return call

    async def _answer(self, request: web.Request, call: _SqsCall | Exception) -> web.StreamResponse:
        if isinstance(call, Exception):
            raise call
        self._require_open(request)
        caller = self._caller(request, call)
        self._listener.know(request)
        if call.operation == RECEIVE:
            self._recheck(call)
        result = await self._operations.find(call.operation)(caller, call.parameters)
        return await self._written(request, call, result)

    async def _written(
        self, request: web.Request, call: _SqsCall, result: Result
    ) -> web.StreamResponse:
        """Return the response to an operation. Write it first if it has leased messages, and give them
        back if the client doesn't get them."""
        id = REQUEST_ID.get()

        def response() -> web.Response:
            return web.Response(
                body=call.protocol.response(call.operation, result.content, id),
                content_type=call.protocol.CONTENT_TYPE,
            )

        leased = result.leased
        if leased is None:
            return response()
        with leased.handing_over():
            made = await self._context.app.in_thread(response) if result.is_large else response()
            result.content = {}  # All of it is in the response.
            if not leased.receipts:
                return made
            leased.resize(len(made.body) if isinstance(made.body, bytes) else 0)
            return await request_bodies.write(request, made, self._context.http_limits)

    def _recheck(self, call: _SqsCall) -> None:
        """Let the permission of a receive be checked again when permissions change."""
        queue = call.parameters.text("QueueUrl")
        if not queue or self._authenticator.is_open:
            return

        def check() -> None:
            self._authenticator.require_known(call.claim)
            self._caller_of(call).require(Permission.RECEIVE, queue_of_url(queue))

        self._access_control.cancel_unless(check)

    def _caller_of(self, call: _SqsCall) -> Caller:
        return self._access_control.caller_of(call.claim.identity)

    def _caller(self, request: web.Request, call: _SqsCall) -> SqsCaller:
        caller = self._caller_of(call)
        IDENTITY.set(caller.name)
        return SqsCaller(
            caller.identity,
            caller.access,
            region=call.claim.region,
            account=call.claim.account or self._account,
            url=self._url or f"{request.scheme}://{request.host}",
            peer=peer_of(request),
            consumer=consumer_of_request(request, caller),
            trace=context_in(request.headers.items()),
            trace_header=request.headers.get("X-Amzn-Trace-Id", ""),
        )

    def _check_origin(self, request: web.Request) -> None:
        require_own_origin(request)
        if self._authenticator.is_open:
            require_own_name(request, self._hosts, "--sqs-keys, or with --sqs-url http://HOST:PORT")

    def _check_method(self, request: web.Request, call: _SqsCall) -> None:
        """Refuse a change by GET that nothing signs: a browser sends one for a page of another site."""
        if request.method == "GET" and self._authenticator.is_open and call.operation not in READS:
            raise sqs_errors.unknown_operation(
                f"{call.operation} is sent by POST. By GET, a server without --sqs-keys answers only "
                f"{', '.join(sorted(READS))}."
            )

    async def _read(
        self, request: web.Request, claim: Claim, share: request_bodies.UploadShare
    ) -> bytes:
        transport = request.transport
        is_known = transport is not None and self._key_by_connection.get(transport) == claim.access_key
        memory = self._context.upload_memory if is_known else self._arriving
        try:
            with memory.share() as arriving:
                body = await request_bodies.read(
                    request,
                    queue="",
                    limit=LARGEST,
                    http_limits=self._context.http_limits,
                    share=arriving,
                )
        except MessageTooLarge as error:
            raise sqs_errors.invalid_value(f"The request has over {LARGEST} bytes.") from error
        share.reserve(len(body))
        return body

    def _refusal(self, request: web.BaseRequest, error: Exception) -> web.Response:
        operation = request.get(OPERATION, "")
        sqs_error = _error_of(operation, error)
        if sqs_error is None:
            self._log.error(
                "a request failed by a defect of the server", method=operation, exc_info=error
            )
            sqs_error = sqs_errors.internal(sqs_errors.FAULT)
        else:
            self._instrumentation.refusals.log(
                f"SQS {operation or 'unknown'}",
                sqs_error.code,
                str(sqs_error)[:LONGEST_MESSAGE],
                is_fault=sqs_error.is_fault,
            )
        protocol = query_protocol if query_protocol.has_no_operation(sqs_error) else _protocol(request)
        body, headers = protocol.error_response(sqs_error, REQUEST_ID.get())
        return web.Response(
            status=sqs_error.status, body=body, headers=headers, content_type=protocol.CONTENT_TYPE
        )


def _protocol(request: web.BaseRequest) -> _WireProtocol:
    if json_protocol.TARGET in request.headers:
        return json_protocol
    wants_json = request.headers.get("Accept", "").startswith(query_json.CONTENT_TYPE)
    return query_json if wants_json else query_protocol


def _operation_in_head(request: web.Request) -> str:
    """Return the operation that the head names; empty if it names none of SQS."""
    operation = request.headers.get(json_protocol.TARGET, "").rpartition(".")[2]
    return operation if operation in OPERATIONS else ""


def _verified(request: web.Request, claim: Claim, body: bytes) -> _SqsCall:
    """Return what a request asks for, in either protocol, once its signature is verified. In any
    thread."""
    claim.verify(request, body)
    target = request.headers.get(json_protocol.TARGET)
    if target is not None:
        operation = json_protocol.operation_in(target)
        if request.method != "POST":
            raise sqs_errors.unknown_operation("AWS JSON 1.0 is sent by POST.")
        return _SqsCall(json_protocol, operation, json_protocol.parameters_in(body), claim)
    form = query_protocol.form_in(body, request.rel_url.raw_query_string)
    operation = query_protocol.operation_in(form, request.path)
    if request.method not in ("POST", "GET"):
        raise sqs_errors.unknown_operation("AWS Query is sent by POST or GET.")
    parameters = query_protocol.parameters_in(form, request.path)
    return _SqsCall(_protocol(request), operation, parameters, claim)


def _error_of(operation: str, error: Exception) -> SqsError | None:
    match error:
        case SqsError():
            return error
        case GatewayError() if error.http_code == 503:
            return sqs_errors.unavailable(str(error))
        case GatewayError():
            return SqsError("InvalidRequest", "InvalidRequest", str(error), status=error.http_code)
        case StoreError() if error.reason == "QUEUE_BEING_DELETED" and operation != "CreateQueue":
            return sqs_errors.queue_not_found()
        case StoreError():
            return sqs_errors.of_store(error)
    return None


assert RECEIVE in OPERATIONS
