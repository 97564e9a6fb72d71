"""Validation of arguments in the call that they are passed to.

All raise `InvalidRequest`, which names the argument, its value and the rule, but a `TypeError` for an
unknown option. The bounds are those of the contract's types, and of all transports. A server checks its
own limits. Pure.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from operator import index
from typing import Any, Final, TypeVar

from ._values import Seconds
from .errors import InvalidRequest

T = TypeVar("T")

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1
MAX_IN_FLIGHT: Final = 10_000
"""Messages that a stream may hold leased at once."""
LONGEST: Final = 10 * 365 * 86_400
"""Seconds of the longest span, ten years: the longest that any setting may have."""
MAX_DELAY: Final = 365 * 86_400
"""Seconds of the longest delay of a message."""
MAX_REASON: Final = 1_024
"""Characters of the reason of a release or a rejection."""
NOT_AWAITED: Final = "only a handler of spoolrack.aio is awaited"
_SHOWN: Final = 80
"""Characters of a value in an error."""


def refusal(name: str, value: object, rule: str) -> InvalidRequest:
    shown = repr(value).encode("utf-8", "backslashreplace").decode()
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}…"
    return InvalidRequest(f"{name} can't be {shown}: it must be {rule}.")


def check_options(given: Mapping[str, Any], known: type) -> None:
    """Raise `TypeError` for an option that isn't in `known`, a `TypedDict`, as Python does, but with
    the name of the public call that the options were passed to."""
    unknown = [name for name in given if name not in known.__annotations__]
    if not unknown:
        return
    frame = sys._getframe(2)
    while frame.f_code.co_name.startswith("_") and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    near = get_close_matches(unknown[0], [*own, *known.__annotations__], 1)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    raise TypeError(f"{code.co_qualname}() got an unexpected keyword argument {unknown[0]!r}{hint}")


def integer(name: str, value: int, least: int = 0, most: int = INT64) -> int:
    """Return `value` if it is an integer from `least` to `most`; raise `InvalidRequest` otherwise."""
    rule = f"an integer from {least} to {most}"
    if isinstance(value, bool):
        raise refusal(name, value, rule)
    try:
        number = index(value)
    except TypeError:
        raise refusal(name, value, rule) from None
    if not least <= number <= most:
        raise refusal(name, number, rule)
    return number


def number(name: str, value: float, least: float, most: float = math.inf) -> float:
    """Return `value` if it is a finite number from `least` to `most`; raise `InvalidRequest`
    otherwise."""
    rule = f"a number from {least:g}" + (f" to {most:g}" if most < math.inf else "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal(name, value, rule)
    try:
        found = float(value)
    except OverflowError:
        raise refusal(name, value, rule) from None
    if not least <= found <= most or math.isinf(found):
        raise refusal(name, value, rule)  # NaN is in no range.
    return found


def span(name: str, value: Seconds, *, is_positive: bool = False, most: float = LONGEST) -> float:
    """Return the seconds of a span from 0, or above 0, to `most` (ten years without one)."""
    least = "more than 0" if is_positive else "0"
    rule = f"a timedelta or a number of seconds, from {least} to {most:.0f}"
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, bool | str | bytes | bytearray):
        raise refusal(name, value, rule)
    else:
        try:
            seconds = float(value)
        except (TypeError, ValueError, OverflowError):
            raise refusal(name, value, rule) from None
    if not 0.0 <= seconds <= most or (is_positive and seconds == 0.0):
        raise refusal(name, value, rule)  # NaN is in no range.
    return seconds


def optional_span(
    name: str, value: Seconds | None, *, is_positive: bool = False, most: float = LONGEST
) -> float | None:
    return None if value is None else span(name, value, is_positive=is_positive, most=most)


def optional_moment(name: str, value: datetime | None) -> datetime | None:
    """Return `value` if it is None or a datetime with its zone."""
    if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
        raise refusal(name, value, "a datetime with its zone, such as datetime.now(UTC)")
    return value


def timeout(value: Seconds | None) -> float | None:
    return optional_span("timeout", value)


def text(name: str, value: str) -> str:
    """Return `value` if it is text that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise refusal(name, value, "a str")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            rule = "text that can be encoded as UTF-8, without surrogates"
            raise refusal(name, value, rule) from None
    return value


def reason(value: str) -> str:
    """Return `value` if it can be the reason of a release or a rejection."""
    if len(text("reason", value)) > MAX_REASON:
        raise refusal("reason", value, f"a str of up to {MAX_REASON} characters")
    return value


def queue_name(queue: Any) -> str:
    """Return the name of a queue's handle, or the name itself."""
    return text("queue", getattr(queue, "name", queue))


def flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise refusal(name, value, "True or False")
    return value


def some(name: str, values: Iterable[T], of: str) -> Iterable[T]:
    """Return `values` if they can be iterated, and aren't one text or body."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | bytearray | memoryview):
        raise refusal(name, values, f"an iterable of {of}, such as a list")
    return values


def function(name: str, value: Callable[..., Any], *, is_awaited: bool = False) -> None:
    if not callable(value):
        raise refusal(name, value, "callable")
    if isgeneratorfunction(value) or isasyncgenfunction(value):
        raise refusal(name, value, "a function without yield: a call would not begin it")
    if not is_awaited and iscoroutinefunction(value):
        raise refusal(name, value, f"a function without async: {NOT_AWAITED}")


def body(name: str, value: bytes | str) -> bytes:
    """Return the bytes of a body; text is encoded as UTF-8."""
    if isinstance(value, str):
        return text(name, value).encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise refusal(name, value, "bytes or str: encode it, say as JSON")


def version(value: int | None) -> int:
    """Return the version that a queue must have; 0 for any."""
    return 0 if value is None else integer("if_version", value, 1)


def labels(value: Mapping[str, Any], *, may_remove: bool = False) -> None:
    """Check a queue's labels and return them. With `may_remove` a value may be None, which removes the
    label."""
    rule = "a mapping of str to str" + (" or None" if may_remove else "")
    if not isinstance(value, Mapping):
        raise refusal("labels", value, rule)
    for name, content in value.items():
        text("the name of a label", name)
        if not (content is None and may_remove):
            text(f"the label {name!r}", content)


def attributes(value: Mapping[str, str | bytes]) -> None:
    if not isinstance(value, Mapping):
        raise refusal("attributes", value, "a mapping of str to str or bytes")
    for name, content in value.items():
        text("the name of an attribute", name)
        if isinstance(content, str):
            text(f"the attribute {name!r}", content)
        elif not isinstance(content, bytes):
            raise refusal(f"the attribute {name!r}", content, "str or bytes: encode it")
