"""The endpoints of schedules, stages, reservations and redrives: the contract's calls as JSON.

What one shows of a resource is the contract's, with what the caller may do with it: its permissions on
all queues of the resource. A reservation whose response the client did not take is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from aiohttp import web
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message as Contract
from google.protobuf.message_factory import GetMessageClass
from spoolrack.v1 import redrive_service_pb2 as redrive_rpc
from spoolrack.v1 import reservation_service_pb2 as reservation_rpc
from spoolrack.v1 import schedule_service_pb2 as schedule_rpc
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.operations import Message

from ..app.bounds import MAX_COUNT
from ..app.caller import Caller
from ..http import request_bodies
from ..http.http_context import HttpContext, answer
from ..http.request_checks import CALLER
from ..http.route import Route
from ..wire import convert
from ..wire.contract import METHODS
from ..wire.contract_calls import CONTRACT, ContractCalls
from ..wire.json_form import parsed, rendered

_QUEUES: Final[Mapping[str, Callable[[Any], Iterable[str]]]] = {
    "Redrive": lambda redrive: (redrive.queue,),
    "Reservation": lambda reservation: (reservation.queue,),
    "Stage": lambda stage: stage.message_counts,
}
"""The queues of a resource that is shown with permissions, by its kind."""


class ContractEndpoints:
    """The handlers of these resources. Lives in one event loop."""

    def __init__(self, context: HttpContext, calls: ContractCalls) -> None:
        self._context = context
        self._calls = calls
        self._app = context.app

    def route(
        self,
        method: str,
        path: str,
        name: str,
        *,
        status: int = 200,
        parameters: Collection[str] = (),
        is_page: bool = False,
    ) -> Route:
        """Return the route of a call of the contract, whose request is in the path and the body, or
        without a body in path and query."""
        kind = GetMessageClass(METHODS[name].input_type)
        if method in ("GET", "DELETE"):
            parameters = [
                field for field in kind.DESCRIPTOR.fields_by_name if f"{{{field}}}" not in path
            ]

        async def endpoint(request: web.Request) -> web.StreamResponse:
            call = await self._context.call_in(request, kind)
            return await self._answer(request[CALLER], name, call, status=status)

        needs = CONTRACT[name].use_case
        return Route(method, path, endpoint, needs, is_page=is_page, parameters=parameters)

    async def _answer(
        self, caller: Caller, name: str, contract_request: Contract, *, status: int = 200
    ) -> web.Response:
        call = self._calls.call_of(name)
        assert call is not None
        found = await call(caller, contract_request)
        if found is None:
            return web.Response(status=204)
        is_response = METHODS[name].output_type == found.DESCRIPTOR
        return answer((_response_json if is_response else _resource_json)(caller, found), status=status)

    # Schedules.

    async def put_schedule(self, request: web.Request) -> web.StreamResponse:
        schedule = _schedule_in(request, await self._context.json(request))
        call = schedule_rpc.CreateScheduleRequest(schedule=schedule)
        return await self._answer(request[CALLER], "CreateSchedule", call, status=201)

    async def patch_schedule(self, request: web.Request) -> web.StreamResponse:
        """Change the fields that are named; attributes are replaced as a whole, and null resets a
        field."""
        content = await self._context.json(request)
        mask = FieldMask(paths={name.removeprefix("binary_") for name in content})
        given = {name: value for name, value in content.items() if value is not None}
        call = schedule_rpc.UpdateScheduleRequest(
            schedule=_schedule_in(request, given), update_mask=mask
        )
        return await self._answer(request[CALLER], "UpdateSchedule", call)

    # Reservations.

    async def reserve(self, request: web.Request) -> web.StreamResponse:
        call = await self._context.call_in(request, reservation_rpc.ReserveRequest)
        reservation = await self._calls.reserve(request[CALLER], call)
        if reservation is None:
            return web.Response(status=204)
        response = answer(_resource_json(request[CALLER], self._calls.reservation(reservation)))
        try:
            await request_bodies.write(request, response, self._context.http_limits)
        except BaseException:
            self._app.reservations.undo(reservation)
            raise
        return response

    async def read_reservation(self, request: web.Request) -> web.StreamResponse:
        """Return a page of the messages, and the index of the next."""
        call = await self._context.call_in(
            request, reservation_rpc.ReadReservationRequest, without=("by_column",)
        )
        page = await anext(self._calls.reserved_pages(request[CALLER], call), None)
        if page is None:
            return answer({"messages": [], "next_index": None})
        shown = await self._app.in_thread(partial(_messages, page.messages))
        return answer({"messages": shown, "next_index": page.next_index})

    # Redrives.

    async def list_redrives(self, request: web.Request) -> web.StreamResponse:
        caller, last = request[CALLER], request.query.get("last")
        call = await self._context.call_in(request, redrive_rpc.ListRedrivesRequest, without=("last",))
        if last is None:
            return await self._answer(caller, "ListRedrives", call)
        if not (last.isascii() and last.isdecimal() and len(last) < 5 and int(last) <= MAX_COUNT):
            raise InvalidRequest(what="last", value=last, rule=f"must be from 0 to {MAX_COUNT}")
        found = await self._app.redrives.last(caller, int(last), queue=call.queue)
        shown = [_resource_json(caller, convert.redrive(each)) for each in found]
        return answer({"redrives": shown, "next_page_token": ""})


def _schedule_in(request: web.Request, content: Mapping[str, Any]) -> schedule_rpc.Schedule:
    """Return the schedule that the path names, with the fields in a body."""
    schedule = parsed(content, schedule_rpc.Schedule, without=request.match_info)
    schedule.MergeFrom(parsed(request.match_info, schedule_rpc.Schedule))
    return schedule


def _messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    # As many as fit into a page: not in the event loop.
    return [rendered(convert.message(each), without=("receipt",)) for each in messages]


def _response_json(caller: Caller, response: Contract) -> dict[str, Any]:
    lists = [each.name for each in response.DESCRIPTOR.fields if each.is_repeated and each.message_type]
    return {
        **rendered(response, without=lists),
        **{name: [_resource_json(caller, each) for each in getattr(response, name)] for name in lists},
    }


def _resource_json(caller: Caller, resource: Contract) -> dict[str, Any]:
    queues = _QUEUES.get(resource.DESCRIPTOR.name)
    if queues is None:
        return rendered(resource)
    permissions = [each.value for each in caller.permissions(*queues(resource))]
    return {**rendered(resource), "permissions": permissions}
