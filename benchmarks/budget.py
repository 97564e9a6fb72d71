"""The budget of each operation, counted in system calls.

Times drown in noise, counts don't. The budget is a table in docs/explanation/performance.md.
`tests/budget` counts the calls of a real store and fails where they differ from it; `make budget`
counts them anew and writes it. Pure: knows neither the store nor strace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from .marked_parts import put_between

BEGIN: Final = "<!-- budget: made by benchmarks/budget.py -->"
END: Final = "<!-- end of the budget -->"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """How many system calls of each kind."""

    creates: int = 0
    """Files made."""
    mkdirs: int = 0
    opens: int = 0
    """Of what is there: files, and folders that are synced or listed."""
    reads: int = 0
    writes: int = 0
    """Of files that are to be durable."""
    records: int = 0
    """Writes to `CHANGES`, the memory that processes share: they are never synced."""
    links: int = 0
    renames: int = 0
    syncs: int = 0
    """fsync, fdatasync, syncfs: each waits for the disk, and all else is answered from memory."""
    unlinks: int = 0
    rmdirs: int = 0
    listings: int = 0
    """Folders read to their end."""
    looks: int = 0
    """At attributes: of a file by its name or its descriptor, or of the room that is left."""
    locks: int = 0
    others: int = 0
    """Mostly closes. Memory, threads, time and randomness are nowhere counted."""

    @property
    def total(self) -> int:
        return sum(getattr(self, kind) for kind in KINDS)

    def less(self, other: Cost) -> Cost:
        """Return what is left without the calls of `other`."""
        return Cost(**{kind: getattr(self, kind) - getattr(other, kind) for kind in KINDS})

    def keeps(self, budget: Cost) -> bool:
        """Return whether it is the budget: to the last call, but for `others`, of which it may have
        fewer.

        How many of those a listing takes depends on the C library.
        """
        exact = (kind for kind in KINDS if kind != "others")
        return self.others <= budget.others and all(
            getattr(self, kind) == getattr(budget, kind) for kind in exact
        )


KINDS: Final = tuple(field.name for field in fields(Cost))


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    operation: str
    messages: int
    """How many share the cost."""
    cost: Cost


def page_text(rows: Sequence[Row]) -> str:
    """Return the table as a page shows it, between its marks."""
    used = [kind for kind in KINDS if any(getattr(row.cost, kind) for row in rows)]
    lines = [
        BEGIN,
        "",
        f"| operation | messages | {' | '.join(used)} | all | a message |",
        "|---|" + "---:|" * (len(used) + 3),
    ]
    for row in rows:
        counts = (str(getattr(row.cost, kind) or "") for kind in used)
        share = f"{row.cost.total / row.messages:.3g}" if row.messages else ""
        cells = (row.operation, str(row.messages), *counts, str(row.cost.total), share)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", END, ""])


def put(rows: Sequence[Row], page: str) -> str:
    """Return the page with this table between its marks; at its end if it has none."""
    return put_between(BEGIN, END, page_text(rows), page)


def rows_in(page: str) -> list[Row]:
    """Return the table of a page; raise `ValueError` if it has none."""
    table = page.partition(BEGIN)[2].partition(END)[0].strip()
    cells = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    (_, _, *kinds, _, _), _, *rows = cells
    return [
        Row(
            operation=operation,
            messages=int(messages),
            cost=Cost(**{kind: int(count or 0) for kind, count in zip(kinds, counts, strict=True)}),
        )
        for operation, messages, *counts, _, _ in rows
    ]
