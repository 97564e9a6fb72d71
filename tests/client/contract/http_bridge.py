"""A bridge from gRPC to HTTP, so that the contract suite tells what HTTP promises.

A unary call of the contract becomes requests of a server's HTTP, by the paths of its description, and
their responses become the response. HTTP has one message a request: a call of many makes as many, one
after the other. A call that HTTP lacks, such as a stream, is unknown here.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urlencode

import grpc
import spoolrack
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import reservation_service_pb2 as reservations
from spoolrack.v1 import schedule_service_pb2 as schedules
from spoolrack_server.gateway.headers import attributes_of, headers_of
from spoolrack_server.process.server import Server
from spoolrack_server.wire import convert
from spoolrack_server.wire.contract import METHODS
from spoolrack_server.wire.status import CODES, Failure
from spoolrack_store.model.clock import Millis

from tests.support.http_rig import DESCRIPTION, Answer, Http, http_to

ROUTES = {
    operation["operationId"]: (method.upper(), path)
    for path, operations in DESCRIPTION["paths"].items()
    for method, operation in operations.items()
    if method != "parameters"
}
AS_ONE_REQUEST = {
    *("ListQueues", "PurgeQueue", "ListMessages", "Reserve", "ExtendReservation", "GetReservation"),
    *("CommitReservations", "ReleaseReservation", "ListReservations"),
    *("StartRedrive", "GetRedrive", "ListRedrives", "CancelRedrive"),
    *("GetSchedule", "ListSchedules", "PauseSchedule", "ResumeSchedule", "DeleteSchedule"),
}
"""Calls that are one request of HTTP, with the same fields."""
AS_MANY_REQUESTS = {
    "Delete": "deleteMessage",
    "ExtendLeases": "extendLease",
    "Release": "releaseMessage",
    "Reject": "rejectMessage",
}
"""Calls of many, each of which is a request of HTTP."""
EMPTY_RESULTS = {"Delete": {"deleted": {}}, "Reject": {"rejected": {}}}
"""Results of those whose response has no body."""
NO_ID = "01890000-0000-7000-8000-000000000000"


class Refused(Exception):
    def __init__(self, answer: Answer) -> None:
        error, seconds = answer.json, answer.headers.get("Retry-After")
        # An empty name makes a path that isn't served.
        reason = "INVALID_REQUEST" if error["reason"] == "NO_SUCH_PAGE" else error["reason"]
        self.failure = Failure(
            code=CODES[reason],
            http_code=answer.status,
            reason=reason,
            message=error["message"],
            metadata=error["metadata"],
            retry_after=None if seconds is None else Millis(1_000 * int(seconds)),
        )


class Bridge(grpc.GenericRpcHandler):
    """The calls by their names in the contract."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = details.method.rpartition("/")[2]
        call = getattr(self, name, None)
        if name in AS_ONE_REQUEST:
            call = partial(self._one_request, name)
        elif name in AS_MANY_REQUESTS:
            call = partial(self._many_requests, name)
        if call is None:
            return None

        async def responses(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                if METHODS[name].server_streaming:
                    async for response in call(request):
                        yield response
                else:
                    yield await call(request)
            except Refused as refused:
                failure = refused.failure
                await context.abort(failure.code, failure.message, failure.trailing_metadata())
            except Exception as error:  # noqa: BLE001  # the client raises it, and makes no second call
                await context.abort(grpc.StatusCode.INTERNAL, f"Exception in the bridge: {error!r}")

        async def response(request: Any, context: Any) -> Any:
            return await anext(responses(request, context))

        read = GetMessageClass(METHODS[name].input_type).FromString
        write = GetMessageClass(METHODS[name].output_type).SerializeToString
        if METHODS[name].server_streaming:
            return grpc.unary_stream_rpc_method_handler(responses, read, write)
        return grpc.unary_unary_rpc_method_handler(response, read, write)

    async def ask(
        self, operation: str, body: Any = None, headers: Any = None, /, **named: Any
    ) -> Answer:
        """Make a request with what is `named` in path and query. A body that isn't bytes is JSON."""
        method, path = ROUTES[operation]
        for name in [name for name in named if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", quote(str(named.pop(name)), safe=""))
        if body is not None and not isinstance(body, bytes):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        if named:
            path += "?" + urlencode({name: text_of(value) for name, value in named.items()})
        answer = await self._http.ask(method, path, body, headers)
        if answer.status >= 400:
            raise Refused(answer)
        return answer

    async def _one_request(self, name: str, request: Any) -> Any:
        operation = name[0].lower() + name[1:]
        method, path = ROUTES[operation]
        fields = {field: getattr(request, field) for field in request.DESCRIPTOR.fields_by_name}
        named = {field: value for field, value in fields.items() if f"{{{field}}}" in path}
        rest = {field: value for field, value in fields_of(request).items() if field not in named}
        if name == "PurgeQueue":
            named["queue"] = rest.pop("name", "")
        if name == "ListMessages":
            for field in ("view", "max_body_bytes", "attributes"):
                rest.pop(field, None)
            for key, attribute in request.attributes.items():
                named["attribute"] = f"{key}={attribute.string_value}"
        if method == "POST":
            answer = await self.ask(operation, rest, **named)
        else:
            answer = await self.ask(operation, **named, **rest)
        kind = GetMessageClass(METHODS[name].output_type)
        content = answer.json if answer.body else {}
        first = next(iter(kind.DESCRIPTOR.fields), None)
        if content and first.message_type is not None and not first.is_repeated:
            content = {first.name: content}
        response = message_of(kind, content)
        if name == "ListMessages" and request.view == rpc.MESSAGE_VIEW_FULL:
            for message in response.messages:
                await self._read(request.queue, message, request.max_body_bytes)
        return response

    async def _many_requests(self, name: str, request: Any) -> Any:
        response = GetMessageClass(METHODS[name].output_type)()
        (wanted,) = (value for field, value in request.ListFields() if field.is_repeated)
        for each in wanted:
            named, headers = fields_of(each), {}
            receipt, last = named.pop("receipt", ""), named.pop("last_receive", None)
            if "id" not in named:
                named["id"] = receipt.partition(":")[2].partition("~")[0] or NO_ID
                headers["If-Match"] = quote(receipt, safe=":~")
            if last is not None:
                last = fields_of(last)
                named["allow_expired"] = True
                headers["X-Message-Receive-Count"] = str(last["receive_count"])
                headers["X-Message-First-Receive-Time"] = last["first_receive_time"]
            try:
                answer = await self.ask(
                    AS_MANY_REQUESTS[name], None, headers, queue=request.queue, **named
                )
            except Refused as refused:
                response.results.add(error=error_of_one(refused))
            else:
                result = response.results.add()
                result.CopyFrom(message_of(type(result), EMPTY_RESULTS.get(name) or answer.json))
        return response

    # Queues.

    async def CreateQueue(self, request: Any) -> Any:
        queue = request.queue
        settings = {**fields_of(queue.settings), "labels": dict(queue.labels)}
        await self.ask("createQueue", settings, queue=queue.name)
        return rpc.CreateQueueResponse(queue=await self._queue(queue.name))

    async def GetQueue(self, request: Any) -> Any:
        return rpc.GetQueueResponse(queue=await self._queue(request.name))

    async def UpdateQueue(self, request: Any) -> Any:
        queue, changes, labels = request.queue, {}, {}
        for path in request.update_mask.paths:
            kind, _, name = path.partition(".")
            if kind == "labels":
                labels[name] = queue.labels.get(name)
            else:  # Its default goes by its value.
                default = getattr(spoolrack.QueueSettings(), name)
                changes[name] = fields_of(queue.settings).get(name, default)
        await self.ask("updateQueue", {**changes, "labels": labels}, version(queue), queue=queue.name)
        return rpc.UpdateQueueResponse(queue=await self._queue(queue.name))

    async def DeleteQueue(self, request: Any) -> Any:
        await self.ask("deleteQueue", None, version(request), queue=request.name)
        return rpc.DeleteQueueResponse()

    async def _queue(self, name: str) -> Any:
        return message_of(pb.Queue, (await self.ask("getQueue", queue=name)).json)

    # Messages.

    async def Send(self, request: Any) -> Any:
        response = rpc.SendResponse()
        for message in request.messages:
            headers = headers_of(convert.attributes(message.attributes))
            if "content-type" not in message.attributes:
                del headers["Content-Type"]
            for field, value in fields_of(message).items():
                if field not in ("body", "attributes"):
                    headers[f"X-Message-{field.replace('_', '-')}"] = quote(text_of(value), safe=":")
            try:
                answer = await self.ask("sendMessage", message.body, headers, queue=request.queue)
                response.results.add(sent=message_of(rpc.SentMessage, header_fields(answer)))
            except Refused as refused:
                response.results.add(error=error_of_one(refused))
        return response

    async def Receive(self, request: Any) -> Any:
        response = rpc.ReceiveResponse()
        named = {"max_messages": 1, **fields_of(request)}
        most = named.pop("max_messages")
        while len(response.messages) < most:
            answer = await self.ask("receiveMessage", **named)
            if answer.status == 204:
                break
            named["wait"] = 0
            size = len(answer.body)
            message = message_of(
                pb.Message, {**header_fields(answer), "body": answer.body, "body_size": size}
            )
            response.messages.append(message)
        return response

    async def GetMessage(self, request: Any) -> Any:
        named = {"queue": request.queue, "id": request.id}
        message = message_of(pb.Message, (await self.ask("showMessage", **named)).json)
        answer = await self.ask("getMessage", **named)
        message.body = answer.body
        content = {**header_fields(answer), "body": answer.body, "body_size": len(answer.body)}
        in_headers = message_of(pb.Message, content)
        in_headers.dead_letter_records.extend(message.dead_letter_records)  # JSON's alone.
        assert message == in_headers
        return rpc.GetMessageResponse(message=message)

    async def _read(self, queue: str, message: Any, most: int) -> None:
        headers = {"Range": f"bytes=0-{most - 1}"} if most and message.body_size else None
        message.body = (await self.ask("getMessage", None, headers, queue=queue, id=message.id)).body

    async def ReadReservation(self, request: Any) -> AsyncIterator[Any]:
        named = {"sequence_number": 0, **fields_of(request)}
        while named.setdefault("begin_index", 0) is not None:
            page = (await self.ask("readReservation", **named)).json
            named["begin_index"] = page["next_index"]
            yield message_of(reservations.ReadReservationResponse, page)

    # Schedules.

    async def CreateSchedule(self, request: Any) -> Any:
        names = [field.name for field, _ in request.schedule.ListFields()]
        made = await self._put_schedule("createSchedule", request.schedule, names)
        return schedules.CreateScheduleResponse(schedule=made)

    async def UpdateSchedule(self, request: Any) -> Any:
        names = request.update_mask.paths
        changed = await self._put_schedule("updateSchedule", request.schedule, names)
        return schedules.UpdateScheduleResponse(schedule=changed)

    async def _put_schedule(self, operation: str, schedule: Any, names: Sequence[str]) -> Any:
        content: dict[str, Any] = {}
        for name in names:
            value = getattr(schedule, name)
            if name == "body":
                content["binary_body"] = b64encode(value).decode()
            elif name == "attributes":
                texts = {key: each.string_value for key, each in value.items() if each.string_value}
                content["attributes"] = texts
                content["binary_attributes"] = {
                    key: b64encode(each.binary_value).decode()
                    for key, each in value.items()
                    if key not in texts
                }
            elif name not in ("queue", "name"):
                content[name] = value
        answer = await self.ask(operation, content, queue=schedule.queue, name=schedule.name)
        return message_of(schedules.Schedule, answer.json)


def error_of_one(refused: Refused) -> Any:
    """Return the error of one message of many; raise one of the whole call."""
    if refused.failure.reason == "QUEUE_NOT_FOUND":
        raise refused
    return refused.failure.status()


def version(wanted: Any) -> dict[str, str] | None:
    return {"If-Match": f'"{wanted.version}"'} if wanted.version else None


def header_fields(answer: Answer) -> dict[str, Any]:
    """Return the fields of a message in the headers of a response."""
    own = "X-Message-"
    fields: dict[str, Any] = {
        name.removeprefix(own).lower().replace("-", "_"): unquote(value)
        for name, value in answer.headers.items()
        if name.startswith(own)
    }
    attributes = attributes_of(answer.headers)
    if attributes.get("content-type") == "application/octet-stream":
        del attributes["content-type"]
    return {**fields, "attributes": attributes}


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.9f}"
    return ",".join(value) if isinstance(value, list) else str(value)


# JSON of HTTP.


def prefix_of(enum: Any) -> str:
    return str(enum.values_by_number[0].name.removesuffix("UNSPECIFIED"))


def fields_of(message: Any) -> dict[str, Any]:
    """Return the fields of a request that are set, as HTTP has them."""

    def value_of(field: Any, value: Any) -> Any:
        if field.enum_type is not None:
            name = field.enum_type.values_by_number[value].name
            return name.removeprefix(prefix_of(field.enum_type)).lower()
        if isinstance(value, Duration):
            return value.ToNanoseconds() / 1e9
        return value.ToJsonString() if isinstance(value, Timestamp) else value

    return {
        field.name: [value_of(field, each) for each in value]
        if field.is_repeated
        else value_of(field, value)
        for field, value in message.ListFields()
    }


def message_of(kind: Any, content: Mapping[str, Any]) -> Any:
    """Return the message of the contract in JSON or headers; fields that only HTTP has are left out."""
    fields = kind.DESCRIPTOR.fields_by_name
    content = dict(content)
    if (binary := content.pop("binary_body", None)) is not None:
        content["body"] = b64decode(binary)
    if "attributes" in fields:
        binaries = content.pop("binary_attributes", {})
        texts = content.get("attributes", {}) | {
            name: b64decode(each) for name, each in binaries.items()
        }
        content["attributes"] = {
            name: pb.Attribute(**{"string_value" if isinstance(each, str) else "binary_value": each})
            for name, each in texts.items()
        }
    return kind(
        **{
            name: value_in(fields[name], value)
            for name, value in content.items()
            if name in fields and value is not None
        }
    )


def value_in(field: Any, value: Any, *, is_one: bool = False) -> Any:
    kind = field.message_type
    if isinstance(value, list) and not is_one:
        return [value_in(field, each, is_one=True) for each in value]
    if kind is Timestamp.DESCRIPTOR:
        moment = Timestamp()
        moment.FromJsonString(value)
        return moment
    if kind is Duration.DESCRIPTOR:
        return Duration(seconds=int(value), nanos=round(value % 1 * 1e9))
    if kind is not None:
        return value if kind.GetOptions().map_entry else message_of(GetMessageClass(kind), value)
    if field.enum_type is not None:
        return field.enum_type.values_by_name[prefix_of(field.enum_type) + value.upper()].number
    if field.cpp_type == field.CPPTYPE_BOOL:
        return value in (True, "true")
    if field.type == field.TYPE_BYTES:
        return value if isinstance(value, bytes) else value.encode()
    is_text = isinstance(value, str) and field.cpp_type == field.CPPTYPE_STRING
    return value if is_text or isinstance(value, float) else int(value)


@asynccontextmanager
async def bridged(server: Server) -> AsyncIterator[str]:
    """Yield the URL of a bridge to a server."""
    async with http_to(server) as http:
        bridge = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        bridge.add_generic_rpc_handlers([Bridge(http)])
        port = bridge.add_insecure_port("127.0.0.1:0")
        await bridge.start()
        try:
            yield f"grpc://127.0.0.1:{port}"
        finally:
            await bridge.stop(0)
