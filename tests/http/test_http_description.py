"""The description at `/-/openapi.json` says what is served: every route, every reason, nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from spoolrack.v1.queue_pb2 import Message, Queue
from spoolrack.v1.redrive_service_pb2 import Redrive
from spoolrack.v1.reservation_service_pb2 import Reservation
from spoolrack.v1.schedule_service_pb2 import Schedule
from spoolrack.v1.staging_service_pb2 import Stage
from spoolrack_server.app.application import Application
from spoolrack_server.app.caller import permission_of
from spoolrack_server.app.health import Health
from spoolrack_server.gateway.routes import routes
from spoolrack_server.http import http_errors
from spoolrack_server.http.http_context import HttpContext
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log
from spoolrack_server.wire import status
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.model.errors import InvalidSetting
from spoolrack_store.model.names import QUEUE_NAME
from spoolrack_store.model.settings import QueueSettings

from tests.support.http_rig import DESCRIPTION, Http, resolved, template

ROUTES = """\
DELETE /-/queues/{queue}/schedules/{name} manage
DELETE /-/reservations/{stream}/{sequence_number} receive
DELETE /-/stages/{stage} send
DELETE /{queue} manage
DELETE /{queue}/messages manage
DELETE /{queue}/messages/{id} receive
GET /-/ages monitor is_page
GET /-/health - is_page is_open
GET /-/health/live - is_page is_open
GET /-/health/ready - is_page is_open
GET /-/metrics monitor is_page
GET /-/openapi.json - is_page
GET /-/queues monitor is_page
GET /-/queues/{queue}/ages monitor is_page
GET /-/queues/{queue}/history monitor is_page
GET /-/queues/{queue}/messages receive is_page attribute* binary_attribute*
GET /-/queues/{queue}/messages/{id} receive is_page
GET /-/queues/{queue}/schedules manage is_page
GET /-/queues/{queue}/schedules/{name} manage is_page
GET /-/redrives monitor is_page
GET /-/redrives/{id} monitor is_page
GET /-/reservations monitor is_page
GET /-/reservations/{stream}/{sequence_number} monitor is_page
GET /-/reservations/{stream}/{sequence_number}/messages receive
GET /-/schedules manage is_page
GET /-/server - is_page
GET /-/server/resources monitor is_page
GET /-/stages monitor is_page
GET /-/stages/{stage} monitor is_page
GET /-/trends monitor is_page
GET /{queue} monitor is_page
GET /{queue}/messages receive leases
GET /{queue}/messages/{id} receive
PATCH /-/queues/{queue}/schedules/{name} manage
PATCH /{queue} manage
POST /-/publish send
POST /-/queues/{queue}/redrives manage
POST /-/queues/{queue}/reservations receive leases
POST /-/queues/{queue}/schedules/{name}/pause manage
POST /-/queues/{queue}/schedules/{name}/resume manage
POST /-/redrives/{id}/cancel manage
POST /-/reservations/{stream}/commit receive
POST /-/reservations/{stream}/{sequence_number}/extend receive
POST /{queue}/messages send
POST /{queue}/messages/{id}/extend receive
POST /{queue}/messages/{id}/reject receive
POST /{queue}/messages/{id}/release receive
PUT /-/queues/{queue}/schedules/{name} manage
PUT /{queue} manage
"""
"""Method, path and permission; `is_page`: served while the server drains; `is_open`: without
credentials; `leases`: ends with its client; and the parameters that may come several times."""
METHODS = {"get", "head", "put", "post", "delete", "patch", "options", "trace"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DESCRIPTION["paths"].items():
        for method in METHODS & item.keys():
            yield method.upper(), path, item[method]


async def test_every_route_is_described_and_nothing_else(server: Server) -> None:
    app = Application(server.store, SystemClock(), make_log())
    served = routes(HttpContext(app, SystemClock(), make_log()), Health(), server.observer)
    await app.close()
    assert {(route.method, route.path) for route in served} == {
        (method, path) for method, path, _ in operations()
    }
    for route in served:
        operation = DESCRIPTION["paths"][route.path][route.method.lower()]
        queries = [resolved(each) for each in operation.get("parameters", ())]
        described = {each["name"] for each in queries if each["in"] == "query"}
        assert (route.path, described) == (route.path, set(route.parameters))


async def test_each_route_has_its_permission_and_what_sets_it_apart(server: Server) -> None:
    app = Application(server.store, SystemClock(), make_log())
    served = routes(HttpContext(app, SystemClock(), make_log()), Health(), server.observer)
    await app.close()
    found = [
        " ".join(
            [
                *(route.method, route.path),
                "-" if route.needs is None else permission_of(route.needs).value,
                *(name for name in ("is_page", "is_open", "leases") if getattr(route, name)),
                *(f"{name}*" for name in route.repeatable),
            ]
        )
        for route in served
    ]
    assert sorted(found) == ROUTES.splitlines()


async def test_the_description_is_served_as_it_is_kept(http: Http) -> None:
    answer = await http.ask("GET", "/-/openapi.json")
    assert answer.status == 200
    assert answer.json == DESCRIPTION
    assert DESCRIPTION["openapi"].startswith("3.1.")
    assert (await http.ask("HEAD", "/-/openapi.json")).body == b""


def test_every_reference_leads_somewhere_and_every_component_is_used() -> None:
    used = set(re.findall(r'"\$ref": "#/components/(\w+/\w+)"', json.dumps(DESCRIPTION)))
    # The security scheme is compared by its name alone.
    used |= {f"securitySchemes/{name}" for way in DESCRIPTION["security"] for name in way}
    there = {f"{kind}/{name}" for kind, items in DESCRIPTION["components"].items() for name in items}
    assert used == there


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)


def test_every_parameter_in_a_path_is_described() -> None:
    for path, item in DESCRIPTION["paths"].items():
        named = {
            resolved(parameter)["name"]
            for parameter in item.get("parameters", [])
            if resolved(parameter)["in"] == "path"
        }
        assert named == set(re.findall(r"{(\w+)}", path))


def test_every_status_that_an_error_can_have_is_described() -> None:
    own = {kind.http_code for kind in http_errors.GatewayError.__subclasses__()}
    described = {int(code) for _, _, operation in operations() for code in operation["responses"]}
    # 405 is for methods that aren't described at all.
    assert {*status.HTTP_CODES.values(), *own} - {405} <= described


@pytest.mark.parametrize("kind", [Message, Queue, Redrive, Reservation, Schedule, Stage])
def test_a_resource_is_described_with_the_fields_of_the_contract(kind: Any) -> None:
    described = DESCRIPTION["components"]["schemas"][kind.DESCRIPTOR.name]["properties"].keys()
    fields = {*kind.DESCRIPTOR.fields_by_name} - {"receipt"}
    assert described >= fields
    own = {"traffic", "is_dead_letter_queue", "dead_letter_sources", "permissions"}
    assert described - fields <= own | {"binary_body", "binary_attributes"}


def test_the_description_knows_the_bounds_of_queues() -> None:
    schema = DESCRIPTION["components"]["parameters"]["queue"]["schema"]
    assert schema["pattern"].strip("^$") == QUEUE_NAME
    settings = DESCRIPTION["components"]["schemas"]["Settings"]["properties"]
    for name, setting in settings.items():
        if "enum" in setting:
            for choice in setting["enum"]:
                QueueSettings(**{name: choice})
            continue
        scale = 1_000 if setting["type"] == "number" else 1
        assert setting["default"] * scale == getattr(QueueSettings(), name)
        if "maximum" in setting and name != "max_receives":
            for bound, step in ((setting["minimum"], -1), (setting["maximum"], 1)):
                QueueSettings(**{name: round(bound * scale)})
                with pytest.raises(InvalidSetting):
                    QueueSettings(**{name: round(bound * scale) + step})


def test_requests_belong_to_the_paths_that_describe_them() -> None:
    assert template("/q") == "/{queue}"
    assert template("/q/messages?wait=1") == "/{queue}/messages"
    assert template("/q/messages/x") == "/{queue}/messages/{id}"
    assert template("/-/queues/q/messages?group=g") == "/-/queues/{queue}/messages"
    assert template("/-/redrives/x") == "/-/redrives/{id}"
    assert template("/-/reservations/s/commit") == "/-/reservations/{stream}/commit"
    assert template("/-/health") == "/-/health"
    assert template("/-/nothing") == ""
