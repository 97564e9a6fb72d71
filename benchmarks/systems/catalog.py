"""All systems, in the order of the page. A module whose packages are missing is not loaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Final

from .base import System

_PACKAGE: Final = "benchmarks.systems"
_WHERE: Final[Mapping[str, tuple[str, str]]] = {
    "limit": ("limit", "Limit"),
    "empty-call": ("empty_call", "EmptyCall"),
    "spoolrack": ("spoolrack", "Spoolrack"),
    "spoolrack-acks": ("spoolrack", "SpoolrackAcks"),
    "spoolrack-2": ("spoolrack", "SpoolrackTwo"),
    "spoolrack-n": ("spoolrack", "SpoolrackProcesses"),
    "spoolrack-file": ("spoolrack", "SpoolrackFile"),
    "spoolrack-slow": ("spoolrack", "SpoolrackSlow"),
    "redis": ("redis_stream", "RedisStream"),
    "redis-slow": ("redis_stream", "RedisSlow"),
    "quorum": ("rabbitmq", "Quorum"),
    "classic": ("rabbitmq", "Classic"),
    "postgres": ("postgres", "Postgres"),
    "beanstalkd": ("beanstalkd", "Beanstalkd"),
    "nats": ("nats_stream", "NatsStream"),
    "vsqs": ("vsqs_folder", "Vsqs"),
    "persist-queue": ("persist_queue", "PersistQueue"),
    "dirq": ("dirq_folder", "Dirq"),
    "litequeue": ("lite_queue", "LiteQueue"),
}
NAMES: Final = tuple(_WHERE)


def find(names: Sequence[str]) -> tuple[list[type[System]], dict[str, str]]:
    """Return the systems that can be run here, and why the others can't."""
    systems: list[type[System]] = []
    missing: dict[str, str] = {}
    for name in names:
        module, kind = _WHERE[name]
        try:
            system: type[System] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), kind)
        except ModuleNotFoundError as error:
            missing[name] = f"the Python package {error.name} is not installed"
            continue
        reason = system.why_not()
        if reason is None:
            systems.append(system)
        else:
            missing[name] = reason
    return systems, missing
