"""The budget of each operation, counted in system calls.

Times drown in noise, counts don't. `tests/budget` counts the calls of a real store and fails where they
differ from this table; `make budget` counts them anew and writes them here and into
docs/explanation/performance.md, which shows the same table. Pure: knows neither the store nor strace.
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


# `make budget` writes what stands between this line and the end.
BUDGET: Final[tuple[Row, ...]] = (
    Row(
        operation="receive, and find nothing",
        messages=0,
        cost=Cost(records=1, locks=2),
    ),
    Row(
        operation="send 1",
        messages=1,
        cost=Cost(
            creates=1, opens=2, writes=1, records=2, renames=1, syncs=2, looks=1, locks=4, others=3
        ),
    ),
    Row(
        operation="send 1, right after another",
        messages=1,
        cost=Cost(
            creates=1, opens=3, writes=1, records=2, renames=1, syncs=3, looks=1, locks=4, others=4
        ),
    ),
    Row(
        operation="send 1, 16 that share a commit",
        messages=16,
        cost=Cost(creates=1, writes=1, records=2, renames=1, syncs=1, looks=2, locks=4, others=1),
    ),
    Row(
        operation="send 10",
        messages=10,
        cost=Cost(creates=1, writes=1, records=2, renames=1, syncs=1, looks=2, locks=4, others=1),
    ),
    Row(
        operation="send 100",
        messages=100,
        cost=Cost(creates=1, writes=1, records=2, renames=1, syncs=1, looks=2, locks=4, others=1),
    ),
    Row(
        operation="send 1000",
        messages=1000,
        cost=Cost(creates=1, writes=1, records=2, renames=1, syncs=1, looks=2, locks=4, others=1),
    ),
    Row(
        operation="send 1 to a receive that waits",
        messages=1,
        cost=Cost(
            creates=1, opens=2, writes=1, records=2, renames=2, syncs=2, looks=1, locks=4, others=3
        ),
    ),
    Row(
        operation="send 10 to a receive that waits",
        messages=10,
        cost=Cost(creates=1, writes=1, records=2, renames=2, syncs=1, looks=2, locks=4, others=1),
    ),
    Row(
        operation="receive 1",
        messages=1,
        cost=Cost(opens=3, records=1, renames=1, syncs=3, locks=2, others=3),
    ),
    Row(
        operation="receive 10",
        messages=10,
        cost=Cost(opens=3, records=1, renames=1, syncs=3, locks=2, others=3),
    ),
    Row(
        operation="receive 100",
        messages=100,
        cost=Cost(opens=3, records=1, renames=1, syncs=3, locks=2, others=3),
    ),
    Row(
        operation="receive 1000",
        messages=1000,
        cost=Cost(opens=3, records=1, renames=1, syncs=3, locks=2, others=3),
    ),
    Row(
        operation="receive 3 of 10",
        messages=3,
        cost=Cost(opens=3, records=1, links=1, syncs=3, locks=2, others=3),
    ),
    Row(
        operation="receive 5 and 5 of 10, one timeout",
        messages=10,
        cost=Cost(opens=2, records=1, renames=1, syncs=2, locks=2, others=2),
    ),
    Row(
        operation="receive 5 and 5 of 10, two timeouts",
        messages=10,
        cost=Cost(opens=1, records=2, links=2, syncs=1, unlinks=1, locks=4, others=1),
    ),
    Row(
        operation="receive 1, sent before a start",
        messages=1,
        cost=Cost(opens=3, reads=1, records=1, renames=1, syncs=2, looks=1, locks=2, others=3),
    ),
    Row(
        operation="receive 10, sent before a start",
        messages=10,
        cost=Cost(opens=3, reads=1, records=1, renames=1, syncs=2, looks=1, locks=2, others=3),
    ),
    Row(
        operation="receive 100, sent before a start",
        messages=100,
        cost=Cost(opens=3, reads=1, records=1, renames=1, syncs=2, looks=1, locks=2, others=3),
    ),
    Row(
        operation="receive 1000, sent before a start",
        messages=1000,
        cost=Cost(opens=3, reads=1, records=1, renames=1, syncs=2, looks=1, locks=2, others=3),
    ),
    Row(
        operation="delete 1",
        messages=1,
        cost=Cost(opens=2, records=2, renames=1, syncs=2, locks=4, others=2),
    ),
    Row(
        operation="delete 10",
        messages=10,
        cost=Cost(opens=2, records=2, renames=1, syncs=2, locks=4, others=2),
    ),
    Row(
        operation="delete 100",
        messages=100,
        cost=Cost(opens=2, records=2, renames=1, syncs=2, locks=4, others=2),
    ),
    Row(
        operation="delete 1000",
        messages=1000,
        cost=Cost(opens=2, records=2, renames=1, syncs=2, locks=4, others=2),
    ),
    Row(
        operation="delete 1, leased as it was sent",
        messages=1,
        cost=Cost(opens=3, records=2, renames=1, syncs=3, locks=4, others=3),
    ),
    Row(
        operation="delete 10, leased as they were sent",
        messages=10,
        cost=Cost(opens=3, records=2, renames=1, syncs=3, locks=4, others=3),
    ),
    Row(
        operation="delete 3 of 10, leased without the others",
        messages=3,
        cost=Cost(opens=2, records=1, renames=1, syncs=2, locks=2, others=2),
    ),
    Row(
        operation="delete 3 of 10, leased with the others",
        messages=3,
        cost=Cost(opens=1, records=1, links=1, syncs=1, locks=2, others=1),
    ),
    Row(
        operation="delete 1 by id, ready",
        messages=1,
        cost=Cost(opens=3, records=2, renames=1, syncs=3, locks=4, others=3),
    ),
    Row(
        operation="purge 100 in 10 files",
        messages=100,
        cost=Cost(opens=3, records=2, renames=10, syncs=3, locks=4, others=3),
    ),
    Row(
        operation="purge 30 that are leased, in 3 files",
        messages=30,
        cost=Cost(opens=2, records=2, renames=3, syncs=2, locks=4, others=2),
    ),
    Row(
        operation="extend 1",
        messages=1,
        cost=Cost(opens=1, records=1, renames=1, syncs=1, locks=2, others=1),
    ),
    Row(
        operation="extend 10",
        messages=10,
        cost=Cost(opens=1, records=1, renames=1, syncs=1, locks=2, others=1),
    ),
    Row(
        operation="release 1",
        messages=1,
        cost=Cost(opens=2, records=1, renames=1, syncs=2, locks=2, others=2),
    ),
    Row(
        operation="release 10",
        messages=10,
        cost=Cost(opens=2, records=1, renames=1, syncs=2, locks=2, others=2),
    ),
    Row(
        operation="release 1 with a delay",
        messages=1,
        cost=Cost(opens=1, records=1, renames=1, syncs=1, locks=2, others=1),
    ),
    Row(
        operation="release 10 with a delay",
        messages=10,
        cost=Cost(opens=1, records=1, renames=1, syncs=1, locks=2, others=1),
    ),
    Row(
        operation="reject 1",
        messages=1,
        cost=Cost(
            creates=1, opens=2, writes=1, records=2, renames=1, syncs=3, looks=1, locks=4, others=3
        ),
    ),
    Row(
        operation="reject 10",
        messages=10,
        cost=Cost(
            creates=1, opens=2, writes=1, records=2, renames=1, syncs=3, looks=1, locks=4, others=3
        ),
    ),
    Row(
        operation="send 1 to a strict group",
        messages=1,
        cost=Cost(
            creates=1, opens=2, writes=1, records=2, renames=1, syncs=2, looks=1, locks=4, others=3
        ),
    ),
    Row(
        operation="receive 1 of a strict group",
        messages=1,
        cost=Cost(opens=3, records=1, renames=1, syncs=3, locks=2, others=3),
    ),
    Row(
        operation="delete 1 of a strict group",
        messages=1,
        cost=Cost(opens=2, records=2, renames=1, syncs=2, locks=4, others=2),
    ),
    Row(
        operation="send 1 with a priority",
        messages=1,
        cost=Cost(
            creates=1, opens=2, writes=1, records=2, renames=1, syncs=2, looks=1, locks=4, others=3
        ),
    ),
    Row(
        operation="receive 1 with a priority",
        messages=1,
        cost=Cost(opens=3, records=1, renames=1, syncs=3, locks=2, others=3),
    ),
    Row(
        operation="send 1 in a file of its own",
        messages=1,
        cost=Cost(
            creates=2, opens=5, writes=2, records=2, renames=2, syncs=4, looks=2, locks=4, others=8
        ),
    ),
    Row(
        operation="receive 1 in a file of its own",
        messages=1,
        cost=Cost(opens=4, reads=1, records=1, renames=1, syncs=3, looks=1, locks=2, others=4),
    ),
    Row(
        operation="delete 1 in a file of its own",
        messages=1,
        cost=Cost(opens=2, records=2, renames=1, syncs=2, locks=4, others=2),
    ),
    Row(
        operation="send 1 by a link",
        messages=1,
        cost=Cost(
            creates=1,
            opens=4,
            writes=1,
            records=2,
            links=1,
            renames=2,
            syncs=4,
            looks=2,
            locks=4,
            others=5,
        ),
    ),
    Row(
        operation="create a schedule",
        messages=1,
        cost=Cost(creates=1, opens=2, writes=1, records=2, syncs=2, unlinks=1, locks=4, others=3),
    ),
    Row(
        operation="send a tick of a schedule",
        messages=1,
        cost=Cost(
            creates=2,
            opens=7,
            writes=2,
            records=2,
            renames=1,
            syncs=8,
            unlinks=1,
            looks=2,
            locks=4,
            others=9,
        ),
    ),
    Row(
        operation="pause a queue",
        messages=1,
        cost=Cost(creates=1, opens=2, writes=1, records=2, syncs=2, unlinks=1, locks=4, others=3),
    ),
    Row(
        operation="resume a queue",
        messages=1,
        cost=Cost(creates=1, opens=2, writes=1, records=2, syncs=2, unlinks=1, locks=4, others=3),
    ),
    Row(
        operation="a snapshot of a queue of 10 files",
        messages=10,
        cost=Cost(
            creates=4,
            mkdirs=17,
            opens=29,
            reads=4,
            writes=2,
            records=1,
            links=11,
            renames=1,
            syncs=4,
            listings=15,
            looks=59,
            locks=2,
            others=66,
        ),
    ),
    Row(
        operation="a snapshot of a queue of 100 files",
        messages=100,
        cost=Cost(
            creates=4,
            mkdirs=17,
            opens=29,
            reads=4,
            writes=2,
            records=1,
            links=101,
            renames=1,
            syncs=4,
            listings=15,
            looks=59,
            locks=2,
            others=66,
        ),
    ),
    Row(
        operation="reaper: unlink 1",
        messages=1,
        cost=Cost(unlinks=1),
    ),
    Row(
        operation="reaper: unlink 10",
        messages=10,
        cost=Cost(unlinks=1),
    ),
    Row(
        operation="reaper: unlink 100",
        messages=100,
        cost=Cost(unlinks=1),
    ),
    Row(
        operation="reaper: unlink 1000",
        messages=1000,
        cost=Cost(unlinks=1),
    ),
    Row(
        operation="reaper: unlink 2 in files of their own",
        messages=2,
        cost=Cost(unlinks=4),
    ),
    Row(
        operation="reaper: keep the first 2 of a day in the archive",
        messages=2,
        cost=Cost(mkdirs=3, opens=2, renames=3, syncs=2, others=2),
    ),
)
# The end of what `make budget` writes.
_BEGIN_ROWS: Final = "# `make budget` writes what stands between this line and the end.\n"
_END_ROWS: Final = "# The end of what `make budget` writes.\n"
_WIDTH: Final = 104


def page_text(rows: Sequence[Row]) -> str:
    """Return the table as a page shows it, between its marks."""
    used = [kind for kind in KINDS if any(getattr(row.cost, kind) for row in rows)]
    lines = [
        BEGIN,
        "",
        f"| operation | {' | '.join(used)} | all | a message |",
        "|---|" + "---:|" * (len(used) + 2),
    ]
    for row in rows:
        counts = (str(getattr(row.cost, kind) or "") for kind in used)
        share = f"{row.cost.total / row.messages:.3g}" if row.messages else ""
        lines.append(f"| {row.operation} | {' | '.join(counts)} | {row.cost.total} | {share} |")
    return "\n".join([*lines, "", END, ""])


def put(rows: Sequence[Row], page: str) -> str:
    """Return the page with this table between its marks; at its end if it has none."""
    return put_between(BEGIN, END, page_text(rows), page)


def source_text(rows: Sequence[Row]) -> str:
    """Return the table as it stands in this file."""
    return "".join(["BUDGET: Final[tuple[Row, ...]] = (\n", *map(_row_source, rows), ")\n"])


def _row_source(row: Row) -> str:
    given = [f"{kind}={count}" for kind in KINDS if (count := getattr(row.cost, kind))]
    cost = f"        cost=Cost({', '.join(given)}),\n"
    if len(cost) > _WIDTH:
        wrapped = f"            {', '.join(given)}\n"
        if len(wrapped) > _WIDTH:
            wrapped = "".join(f"            {each},\n" for each in given)
        cost = f"        cost=Cost(\n{wrapped}        ),\n"
    return (
        f'    Row(\n        operation="{row.operation}",\n'
        f"        messages={row.messages},\n{cost}    ),\n"
    )


def with_rows(source: str, rows: Sequence[Row]) -> str:
    """Return this file's source with other rows; raise `ValueError` if it has no place for them."""
    before, begin, rest = source.partition(_BEGIN_ROWS)
    _, end, after = rest.partition(_END_ROWS)
    if not begin or not end:
        raise ValueError("no place for the rows")
    return before + begin + source_text(rows) + end + after
