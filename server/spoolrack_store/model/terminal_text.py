"""Escaping of texts from outside, for a terminal and a line of a log. Pure."""

from __future__ import annotations


def printable(text: str | bytes) -> str:
    """Return the text on one line, with an escape as Python writes it for each character that isn't
    printable.

    Escaped are the controls of C0 and C1, line feeds among them, the characters of Unicode that reorder
    or hide text, and bytes that are no UTF-8.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
