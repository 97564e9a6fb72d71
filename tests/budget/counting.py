"""Counts the system calls of a real store, operation by operation, as strace has seen them.

    python -m tests.budget.counting            the budget as it should be
    python -m tests.budget.counting --write    the same, written where it belongs

All system calls of the process between two marks of `counted_load` are counted, on any thread, but for
the reaper's, which works in the background: its calls are counted by the queue that it cleans up
after. Calls that have to do with memory, threads, time and randomness are
none of the disk's and are not counted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks import budget
from benchmarks.budget import Cost, Row
from tests import CHECKOUT
from tests.budget.counted_load import MARK, NOTHING, SHARING
from tests.support import STUCK
from tests.support.system_calls import Call, read_calls

PAGE: Final = CHECKOUT / "docs" / "explanation" / "performance.md"
"""It has the budget."""

LOAD: Final = Path(__file__).with_name("counted_load.py")
PARTS: Final = (
    *("nothing", "life:1", "life:10", "life:100", "life:1000", "again", "together"),
    *("awaited:1", "awaited:10", "some", "timeouts", "change", "retry", "by_id", "purge", "old"),
    *("strict", "ranked", "external", "linked", "kept", "fire", "pause", "snapshot"),
)
_SHARED: Final = f"send 1, {SHARING} that share a commit"
_REAPED: Final = {
    "remove/external:": "unlink 2 in files of their own",
    "bodies/": "unlink 2 in files of their own",
    "remove/kept:": "keep the first 2 of a day in the archive",
    "archive": "keep the first 2 of a day in the archive",
}
"""Paths of the reaper's other rows."""

_NOT_OURS: Final = (
    *("futex", "mmap", "munmap", "mremap", "mprotect", "madvise", "brk"),
    *("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "nanosleep"),
    *("clock_nanosleep", "clock_gettime", "gettimeofday", "time", "getrandom"),
    *("sched_yield", "gettid", "getpid", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn"),
    *("clone", "clone3", "rseq", "set_robust_list", "restart_syscall", "exit", "exit_group"),
)
"""Memory, waiting, threads, time, randomness."""
_KINDS: Final = {
    **dict.fromkeys(("open", "openat", "openat2"), "opens"),
    "creat": "creates",
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdirs"),
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "preadv2"), "reads"),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2"), "writes"),
    **dict.fromkeys(("link", "linkat"), "links"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "renames"),
    **dict.fromkeys(("fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "msync"), "syncs"),
    **dict.fromkeys(("unlink", "unlinkat"), "unlinks"),
    "rmdir": "rmdirs",
    **dict.fromkeys(("stat", "lstat", "fstat", "newfstatat", "fstatat64", "statx"), "looks"),
    **dict.fromkeys(("statfs", "fstatfs", "access", "faccessat", "faccessat2"), "looks"),
    **dict.fromkeys(("readlink", "readlinkat"), "looks"),
    "flock": "locks",
}


def trace(folder: Path, parts: Sequence[str], *, root: Path | None = None) -> str:
    """Return what strace wrote of a load with these parts, in a new root if none is given."""
    root = folder / "root" if root is None else root
    root.mkdir(exist_ok=True)
    found = folder / "trace"
    store = CHECKOUT / "server"
    done = subprocess.run(
        [
            *("strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", "16", "-o", str(found)),
            *("-e", "trace=!" + ",".join(f"?{name}" for name in _NOT_OURS), "-e", "signal=none"),
            *(sys.executable, str(LOAD), str(root), *parts),
        ],
        env={**os.environ, "PYTHONPATH": str(store)},
        capture_output=True,
        text=True,
        timeout=STUCK,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return found.read_text()


def counted(text: str) -> dict[str, Cost]:
    """Return what each operation of a trace has cost, without the commit that was waited for after
    it."""
    counts: dict[str, Counter[str]] = {}
    reapers, now = set(), ""
    for call in read_calls(text.splitlines()):
        said = _mark_in(call)
        if said is not None:
            # It stands where it begins: a call that had begun by then was before.
            word, _, name = said.partition("/") if not call.ended else ("", "", "")
            if word == "reaper":
                reapers.add(int(name))
            elif word:
                now = name
                counts.setdefault(now, Counter())
            continue
        kind = _kind_of(call) if call.ended else None
        if kind is None:
            continue
        if call.thread in reapers:
            counts.setdefault(_reaped(call), Counter())[kind] += 1
        elif now:
            counts[now][kind] += 1
    counts.pop("", None)
    costs = {name: Cost(**count) for name, count in counts.items()}
    idle = costs.get(NOTHING, Cost())
    return {
        name: cost if name == NOTHING or name.startswith("reaper") else cost.less(idle)
        for name, cost in costs.items()
    }


def measured_rows(costs: dict[str, Cost]) -> list[Row]:
    """Return the rows of the budget in the order of its table, which new ones follow; raise `KeyError`
    if an operation of the table was not counted."""
    known = {name: cost for name, cost in costs.items() if not name.startswith("reaper, ")}
    table = [row.operation for row in budget.rows_in(PAGE.read_text())]
    if lacking := sorted(set(table) - set(known)):
        raise KeyError(f"in the table, and not counted: {lacking}")
    names = [*table, *(name for name in known if name not in table)]
    return [Row(operation=name, messages=_messages_in(name), cost=known[name]) for name in names]


def _messages_in(operation: str) -> int:
    """Return how many messages share what an operation costs, as its name says."""
    if operation == NOTHING:
        return 0
    if operation == _SHARED:
        return SHARING
    if both := re.search(r"(\d+) and (\d+)", operation):
        return int(both[1]) + int(both[2])
    first = re.search(r"\d+", operation)
    return 1 if first is None else int(first[0])


def _mark_in(call: Call) -> str | None:
    if "access" not in call.name:
        return None
    (name,) = (each.decode() for each in call.strings)
    return name.removeprefix(MARK) if name.startswith(MARK) else None


def _kind_of(call: Call) -> str | None:
    """Return the kind that it is counted as; None if it isn't: a listing is counted once, at its
    end."""
    if call.name == "getdents64":
        return "listings" if call.result == 0 else None
    kind = _KINDS.get(call.name, "others")
    if kind == "opens" and call.has("O_CREAT"):
        return "creates"
    if call.name == "unlinkat" and call.has("AT_REMOVEDIR"):
        return "rmdirs"
    if call.name == "fcntl" and (call.has("F_SETLK") or call.has("F_OFD_SETLK")):
        return "locks"
    if kind == "writes" and call.descriptors[0].endswith("/CHANGES"):
        return "records"
    if kind == "looks" and _is_above(call):
        return None  # As many as the place of the root is deep.
    if kind == "reads" and call.descriptors[0].startswith("/proc/"):
        return None  # As many as the machine has mounts.
    if kind in ("reads", "writes") and not call.descriptors[0].startswith("/"):
        return "others"  # A pipe, or what the kernel tells of others.
    return kind


def _is_above(call: Call) -> bool:
    """Return whether a path leads to a folder above the roots of a load."""
    is_within = any(
        _hex(f"/{root}") in call.arguments for root in ("root", "snapshot", "copy", "linked")
    )
    return f'"{_hex("/")}' in call.arguments and not is_within


def _reaped(call: Call) -> str:
    """Return what the reaper was at."""
    for count in (1, 10, 100, 1_000):
        if _hex(f"remove/life{count}:") in call.arguments:
            return f"reaper: unlink {count}"
    for path, what in _REAPED.items():
        if _hex(path) in call.arguments:
            return f"reaper: {what}"
    return "reaper, elsewhere" if _hex("remove/") not in call.arguments else "reaper, for other rows"


def _hex(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def difference(found: Iterable[Row], budget_rows: Iterable[Row]) -> list[str]:
    """Return a line for each operation that doesn't keep its budget."""
    wanted = {row.operation: row.cost for row in budget_rows}
    lines = []
    for row in found:
        cost = wanted.get(row.operation, Cost())
        if not row.cost.keeps(cost):
            changes = (
                f"{kind} {before} -> {after}"
                for kind in budget.KINDS
                if (before := getattr(cost, kind)) != (after := getattr(row.cost, kind))
            )
            lines.append(f"{row.operation}: {', '.join(changes)}")
    return lines


def main() -> int:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="budget-") as folder:
        rows = measured_rows(counted(trace(Path(folder), PARTS)))
    if sys.argv[1:] != ["--write"]:
        print(budget.page_text(rows))
        return 0
    page = PAGE.read_text()
    PAGE.write_text(budget.put(rows, page))
    print("\n".join(difference(rows, budget.rows_in(page))) or "The budget is as it was.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
