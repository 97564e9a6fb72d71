"""The packages of the Python client: offered names, and underscores on all else."""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from types import ModuleType

import pytest
import spoolrack
import spoolrack.aio
import spoolrack.spark
import spoolrack.vsqs

from tests import CHECKOUT

PACKAGE = CHECKOUT / "client" / "spoolrack"
OFFERED = {"aio", "errors", "kombu", "spark", "testing", "tracing", "vsqs", "vsqs.queue", "v1"}


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


def members(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_the_package_knows_its_version() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert spoolrack.__version__ == project["version"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spoolrack.nothing
