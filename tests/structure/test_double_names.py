"""One name is one class, and one module: a search for a name finds one thing.

A class or module of client and server may have the name of another one for one of four reasons.

- Mirror: a value, setting, rule or error of the client, and the store's of the same idea in `model/`.
  For a name of the contract the client's side may be a pair (`Message`, `Queue`).
- Pair: the client for threads (`_blocking/`) and the one for asyncio (`aio/`).
- Use case: `app/` has the contract's names of queues, redrives and others, as client and store have.
- Prescribed: the name is that of another library's interface.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from spoolrack.v1 import (
    queue_pb2,
    queue_service_pb2,
    redrive_service_pb2,
    reservation_service_pb2,
    schedule_service_pb2,
    staging_service_pb2,
)

from tests import CHECKOUT

GENERATED: Final = {"v1", "keda"}
PRESCRIBED: Final = {
    ("Queue", "client/spoolrack/vsqs/queue.py"),
    ("queue", "client/spoolrack/vsqs/queue.py"),
}
"""vsqs's own class, in a module of vsqs's name."""
CONTRACT: Final = {
    name
    for module in (
        queue_pb2,
        queue_service_pb2,
        redrive_service_pb2,
        reservation_service_pb2,
        schedule_service_pb2,
        staging_service_pb2,
    )
    for name in (*module.DESCRIPTOR.message_types_by_name, *module.DESCRIPTOR.enum_types_by_name)
}


def names_of(path: Path) -> Iterator[str]:
    """Yield the name of a module, unless Python prescribes it, and those of its classes, without the
    underscores that mark them private."""
    if not path.stem.startswith("__"):
        yield path.stem.lstrip("_")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")


def side_of(path: str) -> str:
    """Return the part of the project whose names may be those of another part."""
    folder, _, module = path.rpartition("/")
    is_value = module.endswith("_values.py") or module in ("_settings.py", "_shards.py", "errors.py")
    return {
        "client/spoolrack": "values" if is_value else "",
        "client/spoolrack/_blocking": "blocking",
        "client/spoolrack/aio": "aio",
        "server/spoolrack_server/app": "use case",
        "server/spoolrack_store/model": "model",
    }.get(folder, "")


def is_allowed(name: str, paths: Collection[str]) -> bool:
    """Return whether a mirror or a pair explains all places of a name."""
    sides = [side_of(path) for path in paths if (name, path) not in PRESCRIBED]
    if sides.count("use case") == 1:
        sides.remove("use case")
    if len(sides) <= 1:
        return True
    match sorted(side for side in sides if side != "model"):
        case ["values"]:
            return sides.count("model") == 1
        case ["aio", "blocking"]:
            return "model" not in sides or (sides.count("model") == 1 and name in CONTRACT)
        case _:
            return False


def test_a_name_is_one_class_and_one_module() -> None:
    places = defaultdict[str, list[str]](list)
    for folder in ("client/spoolrack", "server"):
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            if path.parent.name not in GENERATED:
                for name in names_of(path):
                    places[name].append(str(path.relative_to(CHECKOUT)))
    wrong = {name: paths for name, paths in places.items() if not is_allowed(name, paths)}
    assert not wrong, (
        f"{wrong}: keep the name where a user meets it, and rename the other one by what sets it apart "
        "(BatchFile, Redriver). This file's first paragraph says which double names are right."
    )
