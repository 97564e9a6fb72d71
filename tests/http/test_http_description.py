"""The description at `/-/openapi.json` says what is served: every route, every reason, nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from spoolrack_server.app.application import Application
from spoolrack_server.app.health import Health
from spoolrack_server.http import http_errors
from spoolrack_server.http.admin_endpoints import AdminEndpoints
from spoolrack_server.http.context import HttpContext
from spoolrack_server.http.message_endpoints import MessageEndpoints
from spoolrack_server.http.queue_endpoints import QueueEndpoints
from spoolrack_server.http.routes import routes
from spoolrack_server.http.schedule_endpoints import ScheduleEndpoints
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log
from spoolrack_server.wire import status
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.model.names import QUEUE_NAME
from spoolrack_store.model.settings import QueueSettings

from tests.support.http_rig import DESCRIPTION, Http, resolved, template

METHODS = {"get", "head", "put", "post", "delete", "patch", "options", "trace"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DESCRIPTION["paths"].items():
        for method in METHODS & item.keys():
            yield method.upper(), path, item[method]


async def test_every_route_is_described_and_nothing_else(server: Server) -> None:
    app = Application(server.store, SystemClock(), make_log())
    asking = HttpContext(app, make_log())
    pages = AdminEndpoints(Health(), server.observer)
    queues = QueueEndpoints(asking, SystemClock())
    schedules = ScheduleEndpoints(app.schedules, queues)
    served = routes(queues, MessageEndpoints(asking), schedules, pages)
    await app.close()
    assert {(route.method, route.path) for route in served} == {
        (method, path) for method, path, _ in operations()
    }


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
            for bound in (setting["minimum"], setting["maximum"]):
                QueueSettings(**{name: round(bound * scale)})


def test_requests_belong_to_the_paths_that_describe_them() -> None:
    assert template("/q") == "/{queue}"
    assert template("/q/messages?wait=1") == "/{queue}/messages"
    assert template("/q/messages/x") == "/{queue}/messages/{id}"
    assert template("/-/queues/q/messages?group=g") == "/-/queues/{queue}/messages"
    assert template("/-/health") == "/-/health"
