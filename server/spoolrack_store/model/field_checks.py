"""Checks of requests. Each raises `InvalidRequest`, which names the field and the rule. Pure."""

from __future__ import annotations

from .clock import span_text
from .errors import InvalidRequest
from .names import is_word


def check_number(what: str, value: int, least: int, most: int | None = None) -> None:
    if value < least or (most is not None and value > most):
        rule = f"must be at least {least}" if most is None else f"must be from {least} to {most}"
        raise InvalidRequest(what=what, value=value, rule=rule)


def check_span(what: str, span: int, least: int, most: int) -> None:
    """Check a span in milliseconds."""
    if not least <= span <= most:
        rule = f"must be from {span_text(least)} to {span_text(most)}"
        raise InvalidRequest(what=what, value=span_text(span), rule=rule)


def check_word(what: str, text: str, most: int) -> None:
    """Check a name of up to `most` characters that its user has chosen and that becomes part of a
    file's."""
    if not is_word(text, most):
        rule = f"must have 1 to {most} letters, digits, '_' and '-'"
        raise InvalidRequest(what=what, value=text, rule=rule)
