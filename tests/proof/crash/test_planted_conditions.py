"""What `make proof` plants names code that is there: each planted condition can be planted."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def planted() -> Iterator[tuple[str, str, Any]]:
    """Yield the module, the condition, and what is planted, of all tests of crashes."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = import_module(f"{__package__}.{path.stem}")
        for name, conditions in vars(module).items():
            if name.startswith("PLANTED"):
                yield from ((path.stem, condition, bug) for condition, bug in conditions.items())


def test_each_planted_condition_replaces_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that one of them replaced had been gone for days before a whole proof was run."""
    found = list(planted())
    for module, condition, bug in found:
        with monkeypatch.context() as patched:
            try:
                if callable(bug):
                    bug(patched)
                else:
                    patched.setattr(*bug[:3])
            except AttributeError as error:
                pytest.fail(f"{module}: {condition}: {error}")
    assert len(found) > 100
