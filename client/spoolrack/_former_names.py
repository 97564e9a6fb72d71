"""Former names: those of an earlier release, which still work and warn."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def former_name(owner: object, name: str, present_names: Mapping[str, str]) -> Any:
    """Return what `name` of a module or an object is called now, with a `DeprecationWarning`; raise
    `AttributeError` for any other name."""
    where = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__name__
    if name not in present_names:
        raise AttributeError(f"{where!r} has no attribute {name!r}")
    present = present_names[name]
    instead = "it is private now" if present.startswith("_") else f"use {present}"
    warnings.warn(f"{where}.{name} is deprecated: {instead}", DeprecationWarning, stacklevel=3)
    return getattr(owner, present)
