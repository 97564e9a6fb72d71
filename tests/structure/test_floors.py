"""Imports point down only: the tables say which module stands on which floor and what a floor may see.

A module that stands on no floor fails here: whoever adds one decides where it stands, and writes it
into the table. The test reads the sources and imports nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
ROOTS = (CHECKOUT / "client", CHECKOUT / "server")


@dataclass(frozen=True, kw_only=True)
class Floor:
    """`holds` names modules, "a.b.*" with all below: the most exact entry wins. `sees` names floors."""

    holds: tuple[str, ...]
    sees: tuple[str, ...] = ()
    third_party: tuple[str, ...] = ()
    sees_later: tuple[str, ...] = ()
    """Floors and third parties that it may import inside a function only."""


FLOORS = {
    # The store: the standard library only, a folder for each floor.
    "model": Floor(holds=("spoolrack_store.model.*",)),
    "files": Floor(holds=("spoolrack_store.files.*",), sees=("model",)),
    "engine": Floor(holds=("spoolrack_store.engine.*",), sees=("files", "model")),
    "fsck": Floor(holds=("spoolrack_store.fsck.*",), sees=("engine", "files", "model")),
    "store": Floor(
        holds=(
            "spoolrack_store",
            *("spoolrack_store.store", "spoolrack_store.committer", "spoolrack_store.waiting"),
            *("spoolrack_store.rereading", "spoolrack_store.tally", "spoolrack_store.overview"),
            *("spoolrack_store.listener", "spoolrack_store.looking", "spoolrack_store.testing"),
            *("spoolrack_store.drivers", "spoolrack_store.effort"),
        ),
        sees=("engine", "files", "model"),
    ),
    # What goes over the wire.
    "stubs": Floor(
        holds=("spoolrack.v1.*",),
        third_party=("grpc", "google.protobuf"),
    ),
    "client": Floor(
        holds=("spoolrack.*",),
        sees=("stubs",),
        third_party=("grpc", "google.protobuf", "google.rpc"),
        sees_later=("brokerless", "vsqs", "opentelemetry"),
    ),
    # The client's surface over a folder, without a server.
    "brokerless": Floor(
        holds=(
            *("spoolrack.transports.folder_transport", "spoolrack.transports.folder_calls"),
            *("spoolrack.transports.folder_stores", "spoolrack.transports.folder_values"),
            *("spoolrack.transports.folder_stages", "spoolrack.transports.folder_reservations"),
            "spoolrack.transports.folder_redrives",
        ),
        sees=("client", "store", "files", "model"),
    ),
    # The client's errors and stubs, inside Spark's own processes.
    "spark": Floor(
        holds=("spoolrack.spark.*", "pyspark_spoolrack"),
        sees=("client", "stubs"),
        third_party=("pyspark", "pyarrow", "grpc", "google.protobuf"),
    ),
    "vsqs": Floor(
        holds=(
            "spoolrack.vsqs.*",
            "spoolrack.transports.vsqs_transport",
            *("spoolrack.transports.vsqs_calls", "spoolrack.transports.vsqs_values"),
        ),
        sees=("client", "files", "model"),
    ),
    "server": Floor(
        holds=("spoolrack_server.*",),
        sees=("stubs", "store", "model"),
        third_party=(
            *("grpc", "grpc_health", "grpc_reflection", "google.protobuf", "google.rpc"),
            *("aiohttp", "prometheus_client", "structlog"),
        ),
        sees_later=("opentelemetry",),
    ),
    # The top: what people start.
    "cli": Floor(
        holds=("spoolrack_server.cli.*", "spoolrack_server.__main__"),
        sees=("server", "store", "fsck", "model", "client", "vsqs", "stubs"),
        third_party=("click", "rich", "grpc", "structlog"),
    ),
    "testing": Floor(
        holds=("spoolrack.testing.*",),
        sees=("client", "stubs"),
        sees_later=("brokerless", "server", "store", "model", "pytest"),
    ),
}

# Who, of the store, may touch the world. The rest gets the disk and the clock as arguments.
WORLD = {
    "spoolrack_store.files.local_disk": {
        *("os", "io", "fcntl", "ctypes", "mmap", "pathlib", "select", "socket"),
    },
    "spoolrack_store.files.calls": {"os", "fcntl", "ctypes", "platform"},
    "spoolrack_store.files.mounts": {"os", "pathlib"},
    "spoolrack_store.files.holder": {"datetime", "pathlib"},
    "spoolrack_store.files.watcher": {"os", "ctypes", "fcntl", "select"},
    "spoolrack_store.files.root": {"os", "pathlib"},
    "spoolrack_store.files.overlay": {"os", "io"},
    "spoolrack_store.model.clock": {"time"},
    "spoolrack_store.model.chance": {"os"},
    "nobody": {"asyncio", "datetime", "glob", "multiprocessing", "signal", "subprocess", "tempfile"},
}
HARMLESS = {"os.PathLike", "os.fspath"}
"""Names of those modules that touch nothing."""


def is_package(path: Path) -> bool:
    return path.name == "__init__.py"


def module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if is_package(path) else parts)


SOURCES = {module_of(path, root): path for root in ROOTS for path in sorted(root.rglob("*.py"))}
OURS = {"spoolrack", "spoolrack_store", "spoolrack_server"}


@dataclass(frozen=True, kw_only=True)
class Import:
    target: str
    line: int
    later: bool


def below(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def floor_of(module: str) -> str | None:
    """Name the floor on which a module stands: the one with the most exact entry for it."""
    entries = [
        (len(entry), floor)
        for floor, definition in FLOORS.items()
        for entry in definition.holds
        if entry == module or (entry.endswith(".*") and below(module, entry[:-2]))
    ]
    return max(entries)[1] if entries else None


def imports(module: str, tree: ast.Module, *, package: bool) -> Iterator[Import]:
    """Yield what a module imports, by absolute name; `later` if only a call or a type checker does."""

    def walk(node: ast.AST, later: bool) -> Iterator[Import]:
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield Import(target=name.name, line=node.lineno, later=later)
            case ast.ImportFrom(module=source, names=names, level=level):
                parts = module.split(".")
                around = parts if package else parts[:-1]
                base = around[: len(around) - level + 1] if level else []
                stem = ".".join([*base, *([source] if source else [])])
                for name in names:
                    yield Import(target=f"{stem}.{name.name}", line=node.lineno, later=later)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                later = True
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                later = True
        for child in ast.iter_child_nodes(node):
            yield from walk(child, later)

    yield from walk(tree, False)


def complaints(module: str, source: str, *, package: bool = False) -> list[str]:
    """Say what a module with this source does that its floor forbids."""
    floor = floor_of(module)
    if floor is None:
        return [f"{module} stands on no floor: add it to FLOORS in {Path(__file__).name}"]
    tree = ast.parse(source)
    found = [
        f"{module}:{imported.line} ({floor}) must not import {imported.target}: {why}"
        for imported in imports(module, tree, package=package)
        if (why := objection(module, floor, imported)) and not is_harmless(imported, tree)
    ]
    if below(module, "spoolrack_store") and module != "spoolrack_store.files.disk":
        found += [
            f"{module}:{node.lineno} opens a file: only the disk does"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
        ]
    return found


def is_harmless(imported: Import, tree: ast.Module) -> bool:
    """Whether only harmless names are used of what is imported."""
    used = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id == imported.target
    }
    return imported.target in HARMLESS or (bool(used) and used <= HARMLESS)


def objection(module: str, floor: str, imported: Import) -> str | None:
    definition = FLOORS[floor]
    package = imported.target.partition(".")[0]
    if package in OURS:
        target = target_of(imported)
        target_floor = floor_of(target)
        if target_floor is None:
            return f"{target} stands on no floor"
        if target_floor in (floor, *definition.sees):
            return None
        if target_floor in definition.sees_later:
            return None if imported.later else f"{target_floor} may be imported inside a function only"
        return f"{target_floor} is not below {floor}"
    if package in sys.stdlib_module_names:
        if not below(module, "spoolrack_store"):
            return None
        owners = [owner for owner, modules in WORLD.items() if package in modules]
        return None if module in owners or not owners else f"it belongs to {' and '.join(owners)}"
    if any(below(imported.target, allowed) for allowed in definition.third_party):
        return None
    if imported.later and package in definition.sees_later:
        return None
    return f"{floor} may not use it: amend its third_party if it should, and pyproject.toml"


def target_of(imported: Import) -> str:
    """Name the module of ours: in `from a.b import c`, c is a module, or else a name in a.b."""
    stem = imported.target.rpartition(".")[0]
    return stem if stem and imported.target not in SOURCES else imported.target


@pytest.mark.parametrize("module", SOURCES)
def test_imports_point_down(module: str) -> None:
    path = SOURCES[module]
    found = complaints(module, path.read_text(), package=is_package(path))
    assert not found, "\n".join(found)


def test_no_modules_import_each_other_in_a_circle() -> None:
    needs = {
        module: {
            target_of(imported)
            for imported in imports(module, ast.parse(path.read_text()), package=is_package(path))
            if not imported.later and imported.target.partition(".")[0] in OURS
        }
        for module, path in SOURCES.items()
    }
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("spoolrack_store.model.names", "from ..files.disk import Disk"),
        ("spoolrack_store.model.names", "from ..files import disk"),
        ("spoolrack_store.model.names", "def later():\n    import spoolrack_store.files.disk"),
        ("spoolrack_store.rules", "import os.path"),
        ("spoolrack_store.store", "import os\nroot: os.PathLike[str] = os.getcwd()"),
        ("spoolrack_store.rules", "from time import time"),
        ("spoolrack_store.files.layout", "from pathlib import Path"),
        ("spoolrack_store.files.layout", "open('x')"),
        ("spoolrack_store.store", "import grpc"),
        ("spoolrack_store.store", "from spoolrack.v1 import queue_pb2"),
        ("spoolrack_store.invented", ""),
        ("spoolrack", "from spoolrack_store.model.names import Entry"),
        ("spoolrack", "from .testing import server"),
        ("spoolrack.aio", "import structlog"),
        ("spoolrack.transports.url", "from .vsqs_transport import VsqsTransport"),
        ("spoolrack.transports.url", "from .folder_transport import FolderTransport"),
        ("spoolrack.transports.folder_transport", "import grpc"),
        ("spoolrack.transports.folder_transport", "from ..v1 import queue_pb2"),
        ("spoolrack.vsqs.folder", "from spoolrack_store.store import Store"),
        ("spoolrack.testing", "from spoolrack_store.model.clock import Clock"),
        ("spoolrack_server.queue_service", "from spoolrack import connect"),
        ("spoolrack_server.queue_service", "from .cli import main"),
        ("spoolrack_server.queue_service", "from spoolrack_store.files.disk import Disk"),
        ("spoolrack_server.queue_service", "import requests"),
    ],
)
def test_an_import_that_points_up_is_caught(module: str, source: str) -> None:
    assert complaints(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("spoolrack_store.model.names", "import re\nfrom .clock import Millis"),
        ("spoolrack_store.files.local_disk", "import os, fcntl"),
        ("spoolrack_store.store", "from os import PathLike\nfrom .files.disk import Disk"),
        ("spoolrack_store.store", "import os\nroot: os.PathLike[str]"),
        (
            "spoolrack.aio",
            "import os\nfrom google.rpc import error_details_pb2\nfrom .v1 import queue_pb2",
        ),
        ("spoolrack.transports.url", "def open():\n    from .vsqs_transport import VsqsTransport"),
        ("spoolrack.transports.folder_transport", "from spoolrack_store.store import Store"),
        ("spoolrack.vsqs.folder", "import os\nfrom spoolrack_store.files.watcher import Watcher"),
        ("spoolrack.testing", "def server():\n    from spoolrack_store.model.clock import Clock"),
        (
            "spoolrack_server.queue_service",
            "import grpc\nfrom spoolrack_store.model.operations import Send",
        ),
        ("spoolrack_server.cli", "import click\nfrom spoolrack import connect"),
    ],
)
def test_an_import_that_points_down_is_fine(module: str, source: str) -> None:
    assert complaints(module, source) == []
