"""The endpoints of schedules, stages, reservations and redrives: the contract's requests as JSON.

A reservation whose response the client did not take is undone. What one shows of a resource is the
contract's, with what the caller may do with it: its permissions on all queues of the resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from aiohttp import web
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message as Contract
from spoolrack.v1 import redrive_service_pb2 as redrive_rpc
from spoolrack.v1 import reservation_service_pb2 as reservation_rpc
from spoolrack.v1 import schedule_service_pb2 as schedule_rpc
from spoolrack.v1 import staging_service_pb2 as staging_rpc
from spoolrack_store.model.operations import Message
from spoolrack_store.model.redrive_requests import Redrive
from spoolrack_store.model.reservation_requests import Reservation
from spoolrack_store.model.stage_requests import StageInfo

from ..app.bounds import MAX_COUNT, place
from ..app.caller import Caller
from ..wire import convert
from ..wire.json_form import parsed, rendered
from . import request_bodies
from .context import HttpContext, answer
from .request_checks import CALLER

_NAMES: Final = ("queue", "name", "schedule")
"""Of a schedule, which its path tells."""


class ScheduleEndpoints:
    """The handlers of schedules. Lives in one event loop."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._schedules = context.app.schedules

    async def list_schedules(self, request: web.Request) -> web.StreamResponse:
        # One page: a queue can't have more.
        queue = request.match_info["queue"]
        page = await self._schedules.list(request[CALLER], queue=queue, page_size=MAX_COUNT)
        return answer({"schedules": [rendered(convert.schedule(each)) for each in page.items]})

    async def put(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        asked = await self._context.asked(request, schedule_rpc.Schedule, without=_NAMES)
        made = await self._schedules.create(
            request[CALLER],
            names["queue"],
            names["schedule"],
            cron_text=asked.cron,
            time_zone=asked.time_zone,
            body=asked.body,
            attributes=convert.attributes(asked.attributes),
            group=asked.group,
        )
        return answer(rendered(convert.schedule(made)), status=201)

    async def get(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        found = await self._schedules.get(request[CALLER], names["queue"], names["schedule"])
        return answer(rendered(convert.schedule(found)))

    async def patch(self, request: web.Request) -> web.StreamResponse:
        """Change the fields that are named; attributes are replaced as a whole."""
        names, content = request.match_info, await self._context.json(request)
        asked = parsed(content, schedule_rpc.Schedule, without=_NAMES)
        mask = FieldMask(paths={name.removeprefix("binary_") for name in content})
        changes = convert.schedule_changes(asked, mask)
        changed = await self._schedules.update(
            request[CALLER], names["queue"], names["schedule"], changes
        )
        return answer(rendered(convert.schedule(changed)))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        await self._schedules.delete(request[CALLER], names["queue"], names["schedule"])
        return web.Response(status=204)

    async def pause(self, request: web.Request) -> web.StreamResponse:
        return await self._set_paused(request, is_paused=True)

    async def resume(self, request: web.Request) -> web.StreamResponse:
        return await self._set_paused(request, is_paused=False)

    async def _set_paused(self, request: web.Request, *, is_paused: bool) -> web.StreamResponse:
        names = request.match_info
        paused = await self._schedules.pause(
            request[CALLER], names["queue"], names["schedule"], is_paused=is_paused
        )
        return answer(rendered(convert.schedule(paused)))


class StageEndpoints:
    """The handlers of stages. Lives in one event loop."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._stages = context.app.stages

    async def list_stages(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, staging_rpc.ListStagesRequest)
        page = await self._stages.list(
            request[CALLER],
            queue=asked.queue,
            page_size=asked.page_size,
            page_token=asked.page_token,
        )
        stages = [_stage(request[CALLER], each) for each in page.items]
        return answer({"stages": stages, "next_page_token": page.next_token})

    async def publish(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, staging_rpc.PublishRequest)
        published = await self._stages.publish(
            request[CALLER],
            writer=asked.writer,
            epoch=asked.epoch,
            stages=asked.stages,
            epoch_retention=convert.optional_span(asked, "epoch_retention", None),
            digest=asked.digest,
            queue=asked.queue,
            messages=asked.message_count,
        )
        return answer(
            {
                "message_count": published.messages,
                "duplicate": published.is_already,
                "last_epoch": published.last_epoch,
            }
        )

    async def abort(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, staging_rpc.AbortStageRequest)
        dropped = await self._stages.abort(request[CALLER], asked.stage, queue=asked.queue)
        return answer({"message_count": dropped})


class ReservationEndpoints:
    """The handlers of reservations. Lives in one event loop."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._reservations = context.app.reservations
        self._root_id = context.app.access.store.root_id
        self._read = context.app.access.read

    async def list_reservations(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, reservation_rpc.ListReservationsRequest)
        page = await self._reservations.list(
            request[CALLER],
            queue=asked.queue,
            stream=asked.stream,
            page_size=asked.page_size,
            page_token=asked.page_token,
        )
        found = [self._shown(request[CALLER], each) for each in page.items]
        return answer({"reservations": found, "next_page_token": page.next_token})

    async def reserve(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, reservation_rpc.ReserveRequest)
        made = await self._reservations.reserve(
            request[CALLER],
            asked.queue,
            stream=asked.stream,
            sequence_number=asked.sequence_number,
            max_messages=asked.max_messages,
            max_bytes=asked.max_bytes,
            visibility_timeout=convert.optional_span(asked, "visibility_timeout", None),
            wait=convert.millis(asked.wait, "wait", most=convert.MAX_WAIT),
        )
        if made is None:
            return web.Response(status=204)
        response = answer(self._shown(request[CALLER], made))
        try:
            await request_bodies.write(request, response, self._context.http_limits)
        except BaseException:
            self._reservations.undo(made)
            raise
        return response

    async def extend(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, reservation_rpc.ExtendReservationRequest)
        extended = await self._reservations.extend(
            request[CALLER],
            asked.stream,
            asked.sequence_number,
            queue=asked.queue,
            visibility_timeout=convert.optional_span(asked, "visibility_timeout", None),
        )
        return answer(self._shown(request[CALLER], extended))

    async def read(self, request: web.Request) -> web.StreamResponse:
        """Return a page of the messages, and the index of the next."""
        asked = await self._context.asked(
            request, reservation_rpc.ReadReservationRequest, without=("by_column",)
        )
        pages = self._reservations.read(
            request[CALLER],
            asked.stream,
            asked.sequence_number,
            queue=asked.queue,
            begin=asked.begin_index,
            end=asked.end_index,
            mark_read=asked.mark_read,
        )
        page = await anext(pages, None)
        if page is None:
            return answer({"messages": [], "next_index": None})
        shown = await self._read(partial(_messages, page.messages))
        return answer({"messages": shown, "next_index": page.following})

    async def commit(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, reservation_rpc.CommitReservationsRequest)
        committed = await self._reservations.commit(
            request[CALLER],
            asked.stream,
            asked.last_sequence_number,
            queue=asked.queue,
            only_read=asked.only_read,
        )
        lost = [str(each) for each in committed.lost]
        return answer({"deleted_count": committed.messages, "lost_sequence_numbers": lost})

    async def release(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, reservation_rpc.ReleaseReservationRequest)
        await self._reservations.release(
            request[CALLER], asked.stream, asked.sequence_number, queue=asked.queue
        )
        return web.Response(status=204)

    def _shown(self, caller: Caller, each: Reservation) -> dict[str, Any]:
        return _shown(caller, convert.reservation(each, self._root_id), each.queue)


class RedriveEndpoints:
    """The handlers of redrives. Lives in one event loop."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._redrives = context.app.redrives

    async def list_redrives(self, request: web.Request) -> web.StreamResponse:
        caller, last = request[CALLER], request.query.get("last")
        asked = await self._context.asked(request, redrive_rpc.ListRedrivesRequest, without=("last",))
        if last is not None:
            most = place(int(last) if last.isdecimal() else -1, "last", most=MAX_COUNT)
            redrives, token = await self._redrives.last(caller, most, queue=asked.queue), ""
        else:
            page = await self._redrives.list(
                caller, queue=asked.queue, page_size=asked.page_size, page_token=asked.page_token
            )
            redrives, token = page.items, page.next_token
        shown = [_redrive(caller, each) for each in redrives]
        return answer({"redrives": shown, "next_page_token": token})

    async def start(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, redrive_rpc.StartRedriveRequest)
        started = await self._redrives.start(
            request[CALLER],
            asked.queue,
            destination=asked.destination,
            source_queue=asked.source_queue,
            ids=asked.message_ids,
            rate=asked.max_messages_per_second,
        )
        return answer(_redrive(request[CALLER], started), status=201)

    async def get(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, redrive_rpc.GetRedriveRequest)
        found = await self._redrives.get(request[CALLER], asked.id, queue=asked.queue)
        return answer(_redrive(request[CALLER], found))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        asked = await self._context.asked(request, redrive_rpc.CancelRedriveRequest)
        ended = await self._redrives.cancel(request[CALLER], asked.id, queue=asked.queue)
        return answer(_redrive(request[CALLER], ended))


def _messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    # As many as fit into a page: not in the event loop.
    return [rendered(convert.message(each), without=("receipt",)) for each in messages]


def _stage(caller: Caller, each: StageInfo) -> dict[str, Any]:
    return _shown(caller, convert.stage(each), *each.messages)


def _redrive(caller: Caller, each: Redrive) -> dict[str, Any]:
    return _shown(caller, convert.redrive(each), each.queue)


def _shown(caller: Caller, resource: Contract, *queues: str) -> dict[str, Any]:
    permissions = [each.value for each in caller.permissions(*queues)]
    return {**rendered(resource), "permissions": permissions}
