"""Use cases: each declares its permission, and one that names a queue looks at nothing without it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.app.application import Application
from spoolrack_server.app.caller import ALL_QUEUES, Caller, Identity, Permission, permission_of
from spoolrack_server.app.messages import Messages
from spoolrack_server.app.queues import Queues
from spoolrack_server.app.redrives import Redrives
from spoolrack_server.app.reservations import Reservations
from spoolrack_server.app.schedules import Schedules
from spoolrack_server.app.stages import Stages
from spoolrack_server.system.logs import make_log
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.model.errors import InvalidQueueName, PermissionDenied
from spoolrack_store.model.operations import CreateQueue, UpdateQueue
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    Release,
    Reserve,
)
from spoolrack_store.model.schedule_requests import CreateSchedule, UpdateSchedule
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Abort, Publish
from spoolrack_store.store import Store


class OnlyAt:
    """One permission on one queue."""

    def __init__(self, permission: Permission | None = None, queue: str = "") -> None:
        self._allowed = (permission, queue)

    def allows(self, identity: Identity, permission: Permission, queue: str) -> bool:
        return (permission, queue) == self._allowed

    def allows_somewhere(self, identity: Identity, permission: Permission) -> bool:
        return permission is self._allowed[0]


OF_STREAM = {"queue": "q", "stream": "s", "last_sequence_number": 0}
OF_SET = {"queue": "q", "stream": "s", "sequence_number": 0}
OF_SCHEDULE = {"queue": "q", "name": "s"}
STRANGER = Caller(Identity("eve"), OnlyAt())


def use_cases() -> Iterator[Callable[..., Any]]:
    for kind in (Messages, Queues, Redrives, Reservations, Schedules, Stages):
        for name, use in vars(kind).items():
            if (
                callable(use)
                and not name.startswith("_")
                and "caller" in inspect.signature(use).parameters
            ):
                yield use


def names_a_queue(use: Callable[..., Any]) -> bool:
    _, _, *others = inspect.signature(use).parameters.values()
    return (
        bool(others)
        and others[0].name in ("queue", "name")
        and others[0].kind not in (inspect.Parameter.KEYWORD_ONLY,)
    )


USES = [pytest.param(use, id=use.__qualname__) for use in use_cases()]
ON_A_QUEUE = [pytest.param(use, id=use.__qualname__) for use in use_cases() if names_a_queue(use)]


@pytest.mark.parametrize("use", USES)
def test_a_use_case_declares_its_permission(use: Callable[..., Any]) -> None:
    assert permission_of(use) in Permission


@pytest.mark.parametrize("use", ON_A_QUEUE)
def test_a_use_case_on_a_queue_looks_at_nothing_without_the_permission(use: Callable[..., Any]) -> None:
    with pytest.raises(PermissionDenied) as refused:
        use(None, STRANGER, "q")
    assert refused.value.facts == {
        "identity": "eve",
        "permission": permission_of(use).value,
        "queue": "q",
    }
    with pytest.raises(InvalidQueueName):
        use(None, STRANGER, "no/queue")


def test_there_are_use_cases_on_a_queue() -> None:
    assert len(ON_A_QUEUE) > 10


@pytest.mark.parametrize(
    ("use", "request_type", "content"),
    [
        (Queues.create, CreateQueue, {"name": "q", "settings": QueueSettings()}),
        (Queues.update, UpdateQueue, {"name": "q", "changes": {}}),
        (Redrives.start, StartRedrive, {"queue": "q"}),
        (Reservations.reserve, Reserve, OF_SET),
        (Reservations.extend, ExtendReservation, OF_SET),
        (Reservations.release, Release, OF_SET),
        (Reservations.commit, CommitReservations, OF_STREAM),
        (Schedules.create, CreateSchedule, {**OF_SCHEDULE, "cron": "* * * * *", "time_zone": "UTC"}),
        (Schedules.update, UpdateSchedule, OF_SCHEDULE),
        (Stages.publish, Publish, {"queue": "q", "writer": "w", "epoch": 1, "stages": []}),
        (Stages.abort, Abort, {"queue": "q", "stage": "s"}),
    ],
)
async def test_a_use_case_with_a_request_looks_at_nothing_without_the_permission(
    tmp_path: Path,
    use: Callable[..., Any],
    request_type: Callable[..., Any],
    content: dict[str, Any],
) -> None:
    with Store.open(tmp_path / "root") as store:
        app = Application(store, SystemClock(), make_log())
        with pytest.raises(PermissionDenied) as refused:
            await app.bound(use)(STRANGER, request_type(**content))
        await app.close()
    assert refused.value.facts["permission"] == permission_of(use).value
    assert refused.value.facts["queue"] == "q"


def test_a_permission_on_one_queue_is_none_on_another() -> None:
    alice = Caller(Identity("alice"), OnlyAt(Permission.SEND, "a"))
    assert alice.may(Permission.SEND, "a")
    assert not alice.may(Permission.SEND, "a", "b")
    assert not alice.may(Permission.RECEIVE, "a")
    assert alice.may_somewhere(Permission.SEND)
    assert alice.permissions("a") == [Permission.SEND]
    allowed = alice.queues_for(Permission.SEND)
    assert allowed is not None
    assert [queue for queue in ("a", "b") if allowed(queue)] == ["a"]
    with pytest.raises(PermissionDenied):
        alice.require_everywhere(Permission.SEND)


def test_a_server_without_authentication_lets_everybody_do_everything() -> None:
    anybody = Caller()
    assert anybody.permissions("q") == list(Permission)
    assert anybody.queues_for(Permission.SEND) is None
    assert (anybody.name, anybody.owner) == ("", "")
    anybody.require_everywhere(Permission.MANAGE)


def test_only_where_there_are_permissions_a_name_has_an_owner() -> None:
    assert Caller(Identity("alice"), OnlyAt(Permission.SEND, ALL_QUEUES)).owner == "alice"
    assert Caller(Identity("alice")).owner == ""


async def test_a_list_of_queues_has_what_all_of_its_filters_want(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "root")
    app = Application(store, SystemClock(), make_log())
    try:
        for name in ("jobs", "jobs-old", "mail", "mail-old"):
            await app.queues.create(Caller(), CreateQueue(name=name, settings=QueueSettings()))
        page = await app.queues.list(
            Caller(), contains="old", is_wanted=lambda queue: queue.name != "mail-old"
        )
        assert [queue.name for queue in page.items] == ["jobs-old"]
    finally:
        await app.close()
        store.close()
