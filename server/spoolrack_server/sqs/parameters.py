"""The parameters of an SQS request: typed access, and errors of missing or malformed ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from . import sqs_errors

_RULES: Final = {"DelaySeconds": "DelaySeconds must be >= 0 and <= 900."}
"""How SQS tells the bounds of a parameter where it has words of its own."""


class Parameters:
    """The parameters of one request, or of one entry of a batch."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        """Return whether a value is given that isn't empty."""
        return bool(self._values.get(name))

    def text(self, name: str) -> str | None:
        """Return a text; None if it isn't given."""
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise _wrong_type(name, "a string")

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise sqs_errors.missing_parameter(f"The request must contain the parameter {name}.")
        return value

    def integer(self, name: str, least: int, most: int) -> int | None:
        """Return a number from `least` to `most`; None if it isn't given."""
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(name, "an integer")
        if not least <= value <= most:
            rule = f"Must be between {least} and {most}, if provided."
            if not least:
                rule = f"Must be >= 0 and <= {most}, if provided."
            rule = _RULES.get(name, rule)
            raise sqs_errors.invalid_value(
                f"Value {value} for parameter {name} is invalid. Reason: {rule}"
            )
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty if it isn't given."""
        return self._list(name, str, "a list of strings")

    def mapping(self, name: str) -> dict[str, str] | None:
        """Return a map of texts; None if it isn't given."""
        return self._map(name, str, "a map of strings")

    def structures(self, name: str) -> dict[str, Parameters]:
        """Return a map of structures; empty if it isn't given."""
        values = self._map(name, dict, "a map of structures") or {}
        return {key: Parameters(each) for key, each in values.items()}

    def entries(self) -> Sequence[Parameters]:
        """Return the structures of a batch; empty if they aren't given."""
        return [Parameters(each) for each in self._list("Entries", dict, "a list of structures")]

    def _list(self, name: str, kind: type, type_name: str) -> list[Any]:
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
            raise _wrong_type(name, type_name)
        return value

    def _map(self, name: str, kind: type, type_name: str) -> dict[str, Any] | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(each, kind) for each in value.values()):
            raise _wrong_type(name, type_name)
        return value


def _wrong_type(name: str, type_name: str) -> sqs_errors.SqsError:
    return sqs_errors.unreadable(f"The parameter {name} must be {type_name}.")
