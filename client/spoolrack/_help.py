"""Signatures as `help` and editors of notebooks show them: with each option by its name.

Type checkers read `**options: Unpack[SendOptions]`, and a running Python shows it as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, Final

_UNPACKED: Final = re.compile(r"Unpack\[(\w+)\]")


class _Left:
    """The default of an option that is left out: its class says which value that means."""

    def __repr__(self) -> str:
        return "..."


LEFT: Final = _Left()


def spell_out(function: Any, returns: Callable[[str], str] = lambda name: name) -> None:
    """Let a function show its options; `returns` changes the name of what it returns."""
    found = signature(function)
    parameters: list[Parameter] = []
    for parameter in found.parameters.values():
        options = _UNPACKED.fullmatch(str(parameter.annotation))
        if options is None:
            parameters.append(parameter)
            continue
        where = getattr(function, "__wrapped__", function).__globals__
        annotations = where[options[1]].__annotations__
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=LEFT, annotation=_text_of(annotation))
            for name, annotation in annotations.items()
        ]
    shown = found.return_annotation
    if isinstance(shown, str):
        shown = returns(shown)
    function.__signature__ = Signature(parameters, return_annotation=shown)


def spell_out_all(*classes: type) -> None:
    """Let the methods of classes show their options."""
    for each in classes:
        for method in vars(each).values():
            hints = getattr(method, "__annotations__", {}).values()
            if not hasattr(method, "__signature__") and any("Unpack[" in str(hint) for hint in hints):
                spell_out(method)


def _text_of(annotation: Any) -> str:
    text: str = getattr(annotation, "__forward_arg__", None) or str(annotation)
    return text
