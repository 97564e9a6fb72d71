"""Planted bugs, and their application to a copy of the store, or of Spark's side. It never touches the
checkout. A bug names a function and a text in it, so that other code may change.

`store.txt`, `cost.txt`, `steps.txt` and `spark.txt` hold the bugs, each in this form:

    name: the promise that it breaks
        module.py:Class.method
        - lines that the method holds exactly once
        + lines in their place; none deletes them
        by a test that is expected to fail, and runs first
        fault of the ancestor that has this fault
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STORE: Final = Path("server") / "spoolrack_store"
"""From a checkout, or a copy of one."""
SPARK: Final = Path("client") / "spoolrack" / "spark"

AUDIT: Final = (
    "tests/proof/audit/test_audit_server.py"
    "::test_no_answer_leaves_before_its_syncs_and_no_body_is_touched_twice"
)
"""Alone: its neighbours plant bugs themselves."""


class DoesNotApply(ValueError):
    """The function isn't there, or doesn't hold the text exactly once: the code has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    at: str
    """A module of the package and a function in it, as in `engine/recovery.py:_finish` or
    `sink.py:Writer.write`."""
    old: str
    """Occurs in the function exactly once, however the code is formatted."""
    new: str
    """Lines after the first are indented as they are from it."""
    package: Path = STORE

    @property
    def file(self) -> str:
        return self.at.partition(":")[0]

    def applied_to(self, text: str) -> str:
        """Return the module's `text` with the edit; raise `DoesNotApply`."""
        first, last = _lines_of(text, self.at.partition(":")[2], self.at)
        lines = text.splitlines(keepends=True)
        function = "".join(lines[first:last])
        found = list(re.finditer(r"\s+".join(map(re.escape, self.old.split())), function))
        if len(found) != 1:
            raise DoesNotApply(f"{self.at} holds this {len(found)} times:\n{self.old}")
        start, end = found[0].span()
        line = function[function.rfind("\n", 0, start) + 1 :]
        indent = " " * (len(line) - len(line.lstrip()))
        new = textwrap.indent(textwrap.dedent(self.new).strip(), indent).lstrip()
        return "".join([*lines[:first], function[:start], new, function[end:], *lines[last:]])


def _lines_of(text: str, function: str, at: str) -> tuple[int, int]:
    """Return where the lines of a function begin and end."""
    nodes: list[ast.AST] = [ast.parse(text)]
    for name in function.split("."):
        nodes = [
            child
            for node in nodes
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and child.name == name
        ]
    if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef | ast.AsyncFunctionDef):
        raise DoesNotApply(f"there are {len(nodes)} functions {at}")
    end = nodes[0].end_lineno
    assert end is not None
    return nodes[0].lineno - 1, end


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    breaks: str
    """The promise that it breaks."""
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]
    """Tests that run first: quick, and expected to fail."""
    ancestor: str | None = None
    """The ancestor with this known fault."""

    def mutated(self, checkout: Path) -> dict[Path, str]:
        """Return the files as they are with the bug in them, by their paths; raises `DoesNotApply`."""
        texts: dict[Path, str] = {}
        for edit in self.edits:
            path = checkout / edit.package / edit.file
            texts[path] = edit.applied_to(texts[path] if path in texts else path.read_text())
        return texts


def read_mutants(name: str, package: Path = STORE) -> tuple[Mutant, ...]:
    """Return the mutants that `name`.txt beside this module holds."""
    lines = (Path(__file__).parent / f"{name}.txt").read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("#"))
    return tuple(_parse(record, package) for record in re.split(r"\n(?=\S)", text))


def _parse(record: str, package: Path) -> Mutant:
    title, *lines = record.splitlines()
    edits: list[tuple[str, list[str], list[str]]] = []
    caught_by, ancestor = [], None
    for line in lines:
        word, _, rest = line.removeprefix("    ").partition(" ")
        match word:
            case "-":
                edits[-1][1].append(rest)
            case "+":
                edits[-1][2].append(rest)
            case "by":
                caught_by.append(rest)
            case "fault":
                ancestor = rest.removeprefix("of ")
            case _:
                edits.append((word, [], []))
    name, _, breaks = title.partition(": ")
    return Mutant(
        name=name,
        breaks=breaks,
        edits=tuple(
            Edit(at=at, old="\n".join(old), new="\n".join(new), package=package)
            for at, old, new in edits
        ),
        caught_by=tuple(caught_by),
        ancestor=ancestor,
    )
