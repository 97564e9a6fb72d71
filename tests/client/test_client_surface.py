"""The packages of the Python client: offered names, and underscores on all else."""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, assert_type

import pytest
import spoolrack
import spoolrack.aio
import spoolrack.spark
import spoolrack.testing
import spoolrack.vsqs
from spoolrack._help import LEFT
from spoolrack.errors import InvalidRequest
from spoolrack.testing import open_root

from tests import CHECKOUT

PACKAGE = CHECKOUT / "client" / "spoolrack"
OFFERED = {"aio", "errors", "kombu", "spark", "testing", "tracing", "vsqs", "vsqs.queue", "v1"}

PACKAGES = (spoolrack, spoolrack.aio, spoolrack.vsqs, spoolrack.testing)
DEFAULTS = """\
Backoff: initial=1.0, factor=2.0, maximum=300.0, jitter=50
Client: timeout=30.0
Client.list_queues: prefix=''
Client.messages: order='fair'
Client.work: order='fair'
Client.worker: order='fair'
CommitResult: lost_sequence_numbers=()
DeadLetterRecord: redrive_queue='', explanation=''
Message.delete: allow_expired=False
Message.extend: allow_expired=False
Message.nack: delay=0.0, reason='', count=True
Message.reject: reason=''
Message.release: delay=0.0, reason='', count=True
MessageStream.receive: max_messages=1
OldLease: consumer=''
OpenRoot.client: timeout=30.0
Outgoing: attributes=<factory>, deduplication_id='', group='', priority=0
PublishResult: duplicate=False
Queue.delete: allow_expired=False
Queue.delete_many: allow_expired=False
Queue.extend: allow_expired=False
Queue.extend_many: allow_expired=False
Queue.peek: states=(), group=''
Queue.purge: states=()
Queue.receive: max_messages=1, wait=0.0
Queue.receive: visibility_timeout=10
Queue.redrive: destination='', source_queue='', max_messages_per_second=0
Queue.reject: reason=''
Queue.reject_many: reason=''
Queue.release: delay=0.0, reason='', count=True
Queue.release_many: delay=0.0, reason='', count=True
Queue.reserve: max_messages=1000, max_bytes=67108864, wait=0.0
Queue.send_file: link=False
QueueCounts: ready_count=0, leased_count=0, delayed_count=0, byte_count=0
QueueInfo: settings=<factory>, counts=<factory>, labels=<factory>, obstacles=(),
    oldest_leases=(), shard=''
QueueManager: path=''
QueueSettings: visibility_timeout=30.0, delivery_delay=0.0, max_receives=0, dead_letter_queue='',
    dead_letter_at='lease_end', retention=0.0, max_messages=0, max_bytes=0,
    max_message_size=1048576, lease_durability='strict', deduplication_window=300.0,
    messages_per_file=0, group_order='fair', max_leased=0, group_max_leased=0, rate=0.0,
    rate_burst=1, group_rate=0.0, group_rate_burst=1, priority_aging=0.0, backoff_initial=1.0,
    backoff_factor=2, backoff_maximum=300.0, backoff_jitter=50, backoff_at='release',
    archive_retention=0.0, expires=0.0, sending='open', receiving='open'
Redrives.cancel: queue=''
Redrives.get: queue=''
Redrives.list: queue=''
Reject: reason=''
Reservation: state=held, read_count=0
ReservationHandle: state=held, read_count=0
ReservationHandle.read: begin_index=0
Reservations.commit: queue=''
Reservations.extend: queue=''
Reservations.get: queue=''
Reservations.list: queue='', stream=''
Reservations.read: begin_index=0, queue=''
Reservations.release: queue=''
Retry: reason='', count=True
RetryPolicy: initial=0.05, factor=2.0, maximum=5.0
RunningServer.client: timeout=30.0
RunningShards.client: timeout=30.0
Schedule: owner='', obstacles=()
Schedules.create: body=b'', time_zone='UTC', group=''
Schedules.list: queue=''
SendResult: duplicate=False
SpoolrackError: message=''
StageInfo: message_counts=<factory>
StageResult: duplicate=False
Staging.abort: queue=''
Staging.get: queue=''
Staging.list: queue=''
Staging.publish: queue=''
connect: url='127.0.0.1:50051', timeout=30.0
"""


def modules() -> set[str]:
    paths = [*PACKAGE.rglob("*.py"), *(path.parent for path in PACKAGE.rglob("__init__.py"))]
    names = (path.relative_to(PACKAGE).with_suffix("").parts for path in paths if path != PACKAGE)
    return {".".join(parts) for parts in names if parts[-1] != "__init__"}


def is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split(".")) or module.startswith("v1.")


def test_every_module_that_is_not_offered_is_underscored() -> None:
    assert {module for module in modules() if not is_private(module)} == OFFERED


@pytest.mark.parametrize("package", [spoolrack, spoolrack.aio, spoolrack.vsqs, spoolrack.spark])
def test_a_package_offers_what_its_init_lists(package: ModuleType) -> None:
    listed = set(package.__all__)
    assert [
        name for name in listed if not name.endswith("DataSource") and not hasattr(package, name)
    ] == []
    found = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "").startswith("spoolrack")
    }
    assert found - listed == set()


def test_a_value_of_the_client_can_not_be_changed_and_has_a_hash() -> None:
    offered = [getattr(spoolrack, name) for name in spoolrack.__all__]
    values = [each for each in offered if dataclasses.is_dataclass(each)]
    assert spoolrack.SendResult in values
    assert [each for each in values if not each.__dataclass_params__.frozen or not each.__hash__] == []


@pytest.mark.parametrize(
    ("owner", "former", "present"),
    [
        (spoolrack.QueueCounts(ready_count=1), "ready", "ready_count"),
        (spoolrack.QueueCounts(leased_count=2), "leased", "leased_count"),
        (spoolrack.QueueCounts(delayed_count=3), "delayed", "delayed_count"),
        (spoolrack.QueueCounts(byte_count=4), "bytes", "byte_count"),
        (spoolrack.vsqs, "State", "FileState"),
        (spoolrack.vsqs, "Stored", "ListedMessage"),
        (spoolrack.errors, "BY_REASON", "_BY_REASON"),
        (spoolrack.errors, "error_of", "_error_of"),
    ],
)
def test_a_name_of_the_last_release_works_and_warns(owner: Any, former: str, present: str) -> None:
    advice = "it is private now" if present.startswith("_") else f"use {present}"
    with pytest.warns(DeprecationWarning, match=advice) as warned:
        assert getattr(owner, former) is getattr(owner, present)
    assert warned[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = owner.other


async def awaited(message: object, *_: object) -> None:
    raise AssertionError


def yielding(message: object, *_: object) -> Iterator[None]:
    yield


async def yielding_to_tasks(message: object, *_: object) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("call", "name", "unknown", "near"),
    [
        (lambda client: client.queue("q").send("a", dely=1), "Queue.send", "dely", "delay"),
        (lambda client: client.queue("q").send_file("a", lnk=1), "Queue.send_file", "lnk", "link"),
        (lambda client: client.queue("q").batch(wirter=""), "Queue.batch", "wirter", "writer"),
        (lambda client: client.batch(epok=1), "Client.batch", "epok", "epoch"),
        (lambda client: client.batch().send_to("q", "a", gruop=""), "Batch.send_to", "gruop", "group"),
        (lambda client: client.queue("q").messages(timeot=1), "Queue.messages", "timeot", "timeout"),
        (lambda client: client.messages("q", oder=""), "Client.messages", "oder", "order"),
        (lambda client: client.queue("q").worker(print, grase=1), "Queue.worker", "grase", "grace"),
        (lambda client: client.worker("q", print, zzz=1), "Client.worker", "zzz", None),
        (lambda client: spoolrack.connect("a", timeot=1), "connect", "timeot", "timeout"),
        (lambda client: spoolrack.connect("a", tokn=""), "connect", "tokn", "token"),
    ],
)
def test_an_unknown_option_is_told_with_the_call_and_the_nearest_one(
    call: Callable[[Any], object], name: str, unknown: str, near: str | None, tmp_path: Path
) -> None:
    with spoolrack.connect(f"file://{tmp_path}") as client, pytest.raises(TypeError) as raised:
        call(client)
    hint = f". Did you mean {near!r}?" if near else ""
    assert str(raised.value) == f"{name}() got an unexpected keyword argument {unknown!r}{hint}"


@pytest.mark.parametrize("handler", [yielding, yielding_to_tasks])
async def test_no_worker_takes_a_function_that_yields(handler: Any) -> None:
    with open_root() as root, root.client() as client:
        async with spoolrack.aio.connect(root.url) as of_tasks:
            for worker in (client.queue("jobs").worker, of_tasks.queue("jobs").worker):
                with pytest.raises(InvalidRequest, match=r"handler .* without yield"):
                    worker(handler)


def test_a_worker_of_threads_takes_no_function_whose_result_must_be_awaited() -> None:
    errors: list[Exception] = []

    def on_error(_: object, error: Exception) -> None:
        errors.append(error)
        worker.stop()

    with open_root() as root, root.client() as client:
        jobs = client.create_queue("jobs")
        jobs.send("a")
        for make in (jobs.worker, partial(client.worker, "jobs")):
            with pytest.raises(InvalidRequest, match=r"handler .* without async"):
                make(awaited)
            with pytest.raises(InvalidRequest, match=r"on_error .* without async"):
                make(print, on_error=awaited)
        worker = jobs.worker(lambda message: awaited(message), on_error=on_error)
        worker.run()
        assert [message.text for message in jobs.peek()] == ["a"], "it isn't handled"
    assert [str(error) for error in errors] == [
        "the handler returned a coroutine: only a handler of spoolrack.aio is awaited"
    ]


async def test_a_worker_of_tasks_tells_that_its_handler_is_no_coroutine() -> None:
    errors: list[Exception] = []

    def on_error(_: object, error: Exception) -> None:
        errors.append(error)
        worker.stop()

    with open_root() as root:
        async with spoolrack.aio.connect(root.url) as client:
            jobs = await client.create_queue("jobs")
            await jobs.send("a")
            worker = jobs.worker(lambda message: None, on_error=on_error)  # type: ignore[arg-type, return-value]
            await worker.run()
    assert [str(error) for error in errors] == ["the handler returned None: define it with `async def`"]


def test_threads_and_tasks_have_one_surface() -> None:
    for name in spoolrack.aio.__all__:
        one, other = getattr(spoolrack, name), getattr(spoolrack.aio, name)
        if inspect.isclass(one):
            assert members(one) == members(other), name


def test_a_blocking_method_has_the_parameters_of_the_asynchronous_one_and_a_docstring() -> None:
    compared = 0
    for name in spoolrack.aio.__all__:
        one, other = getattr(spoolrack, name), getattr(spoolrack.aio, name)
        if not inspect.isclass(one):
            continue
        for member in members(one):
            method, suspends = getattr(one, member), getattr(other, member)
            if not inspect.isfunction(method) or method is suspends:
                continue
            assert parameters(method) == parameters(suspends), f"{name}.{member}"
            assert not inspect.iscoroutinefunction(method), f"{name}.{member}"
            assert inspect.getdoc(method), f"{name}.{member}"
            compared += 1
    assert compared >= 50


def parameters(of: object) -> list[tuple[str, object, object]]:
    found = inspect.signature(of).parameters.values()  # type: ignore[arg-type]  # a function
    return [(each.name, each.kind, each.default) for each in found]


def test_what_is_left_out_has_these_defaults() -> None:
    found = {line for package in PACKAGES for line in package_defaults(package)}
    assert found == set(DEFAULTS.replace("\n    ", " ").splitlines())


def package_defaults(package: ModuleType) -> Iterator[str]:
    """Yield each function and class of a package with the parameters that have a default, but None."""
    for name in package.__all__:
        each = getattr(package, name)
        is_class = inspect.isclass(each)
        if not (is_class or inspect.isfunction(each)) or (is_class and issubclass(each, Enum | dict)):
            continue
        methods = inspect.getmembers(each, inspect.isfunction) if is_class else []
        named = [(f"{name}.{method}", call) for method, call in methods if method[0] != "_"]
        made_by = each.__init__ if is_class else each
        for called, call in [(name, made_by), *named]:
            if inspect.isfunction(call) and (told := call_defaults(call)):
                yield f"{called}: {told}"


def call_defaults(call: Callable[..., object]) -> str:
    return ", ".join(
        f"{each.name}={each.default.value if isinstance(each.default, Enum) else repr(each.default)}"
        for each in inspect.signature(call).parameters.values()
        if each.default not in (each.empty, None, LEFT)
    )


def members(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_the_package_knows_its_version() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert spoolrack.__version__ == project["version"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spoolrack.nothing


BLOCKING = [
    (f"{name}.{member}", getattr(getattr(spoolrack, name), member))
    for name in spoolrack.aio.__all__
    if inspect.isclass(getattr(spoolrack, name))
    for member in sorted(members(getattr(spoolrack, name)))
    if inspect.isfunction(getattr(getattr(spoolrack, name), member))
]


@pytest.mark.parametrize(("name", "method"), BLOCKING)
def test_help_of_a_blocking_method_shows_no_asynchronous_type(name: str, method: Any) -> None:
    shown = str(inspect.signature(method))
    assert not [word for word in ("Async", "Awaitable", "Coroutine", "aio.") if word in shown], shown


@pytest.mark.parametrize("package", [spoolrack, spoolrack.aio])
def test_help_shows_each_option_by_its_name(package: Any) -> None:
    send = inspect.signature(package.Queue.send)
    assert {"delay", "deliver_at", "deduplication_id", "group", "priority"} < send.parameters.keys()
    assert "delay: 'Seconds | None' = ..." in str(send)
    for called in (
        package.connect,
        package.Client.create_queue,
        package.Client.ensure_queue,
        package.Client.messages,
        package.Client.worker,
        package.Queue.update,
        package.Queue.messages,
        package.Queue.work,
        package.Queue.batch,
        package.Batch.send,
        package.Batch.send_to,
    ):
        kinds = {each.kind for each in inspect.signature(called).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, called
    assert inspect.iscoroutinefunction(spoolrack.aio.Queue.send)


def test_handles_of_the_blocking_client_return_blocking_handles() -> None:
    with open_root() as root, root.client() as client:
        letters = client.create_queue("letters")
        jobs = client.create_queue("jobs", dead_letter_queue="letters", max_receives=3)
        redrive = letters.redrive()
        assert_type(redrive.get(), spoolrack.RedriveHandle)
        assert type(assert_type(redrive.cancel(), spoolrack.RedriveHandle)) is spoolrack.RedriveHandle
        jobs.send("a")
        reservation = jobs.reserve("stream", 1)
        assert reservation is not None
        extended = assert_type(reservation.extend(60), spoolrack.ReservationHandle)
        assert type(extended) is spoolrack.ReservationHandle
