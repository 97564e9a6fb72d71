"""Plots as SVG, drawn by hand: no library, and the same figures make the same bytes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from .page_figures import short

_WIDTH: Final = 760
_ROW: Final = 26
_LABEL: Final = 230
_END: Final = 90
_INK: Final = "#24292f"
_FAINT: Final = "#d0d7de"
_OURS: Final = "#0969da"
_THEIRS: Final = "#8c959f"
_LINES: Final = ("#0969da", "#54aeff", "#cf222e", "#bc4c00", "#1a7f37", "#8250df", "#6e7781", "#9a6700")
_TOP: Final = 40
_HEIGHT: Final = 300


def bars(
    title: str, rows: Sequence[tuple[str, float, float]], *, ours: frozenset[str], unit: str = ""
) -> str:
    """Return a bar for each row: its label, its value, and the noise as a part of that."""
    most = max((value * (1 + noise) for _, value, noise in rows), default=0.0) or 1.0
    room = _WIDTH - _LABEL - _END
    height = _TOP + _ROW * len(rows) + 10
    shapes = [_text(10, 22, title, weight="bold")]
    for at, (label, value, noise) in enumerate(rows):
        y = _TOP + at * _ROW
        width = room * value / most
        colour = _OURS if label in ours else _THEIRS
        shapes.append(_text(_LABEL - 8, y + 15, label, anchor="end"))
        shapes.append(
            f'<rect x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="16" fill="{colour}"/>'
        )
        if noise:
            low, high = (_LABEL + room * value * (1 + sign * noise) / most for sign in (-1, 1))
            shapes.append(_line(low, y + 11, high, y + 11, _INK))
        at_end = _LABEL + room * min(1.0, value * (1 + noise) / most) + 6
        shapes.append(_text(at_end, y + 15, short(value) + unit))
    return _svg(height, title, shapes)


def curves(
    title: str, lines: Mapping[str, Sequence[tuple[float, float]]], *, across: str, up: str
) -> str:
    """Return a line for each name, both axes logarithmic. Points with nothing are left out."""
    points = [point for line in lines.values() for point in line if min(point) > 0]
    if not points:
        return _svg(_TOP, title, [_text(10, 22, title, weight="bold")])
    first, right = _span([x for x, _ in points])
    low, high = _span([y for _, y in points])
    width = _WIDTH - 80 - 200

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            70 + width * (math.log10(x) - first) / (right - first),
            _TOP + _HEIGHT - _HEIGHT * (math.log10(y) - low) / (high - low),
        )

    shapes = [_text(10, 22, title, weight="bold")]
    steps = [
        step * 10.0**power for power in range(math.floor(low), math.ceil(high)) for step in (1, 2, 5)
    ]
    for step in steps:
        if low <= math.log10(step) <= high:
            _, y = place(10**first, step)
            shapes += [
                _line(70, y, 70 + width, y, _FAINT),
                _text(64, y + 4, short(step), anchor="end"),
            ]
    for x in sorted({x for x, _ in points}):
        at, _ = place(x, 10**low)
        shapes.append(_text(at, _TOP + _HEIGHT + 18, short(x), anchor="middle"))
    shapes.append(_text(70 + width / 2, _TOP + _HEIGHT + 38, f"{across}; up: {up}", anchor="middle"))
    for at, (name, line) in enumerate(lines.items()):
        colour = _LINES[at % len(_LINES)]
        places = [place(x, y) for x, y in line if min(x, y) > 0]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shapes.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        y = _TOP + 10 + at * 20
        shapes += [
            _line(90 + width, y, 110 + width, y, colour),
            _text(116 + width, y + 4, name),
        ]
    return _svg(max(_TOP + _HEIGHT + 50, _TOP + 20 * len(lines)), title, shapes)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Of the logarithms, with some room."""
    low, high = math.log10(min(values)), math.log10(max(values))
    return (low - 0.1, high + 0.1)


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" '
        f'stroke="{colour}" stroke-width="1.5"/>'
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{_INK}">{escape(words)}</text>'
    )


def _svg(height: float, title: str, shapes: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="13">'
    )
    ground = f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, ground, *shapes, "</svg>"]) + "\n"
