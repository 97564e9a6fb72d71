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
ROWS: Final = {
    NOTHING: 0,
    "send 1": 1,
    "send 1, right after another": 1,
    _SHARED: SHARING,
    "send 10": 10,
    "send 100": 100,
    "send 1000": 1_000,
    "send 1 to a receive that waits": 1,
    "send 10 to a receive that waits": 10,
    "receive 1": 1,
    "receive 10": 10,
    "receive 100": 100,
    "receive 1000": 1_000,
    "receive 3 of 10": 3,
    "receive 5 and 5 of 10, one timeout": 10,
    "receive 5 and 5 of 10, two timeouts": 10,
    "receive 1, sent before a start": 1,
    "receive 10, sent before a start": 10,
    "receive 100, sent before a start": 100,
    "receive 1000, sent before a start": 1_000,
    "delete 1": 1,
    "delete 10": 10,
    "delete 100": 100,
    "delete 1000": 1_000,
    "delete 1, leased as it was sent": 1,
    "delete 10, leased as they were sent": 10,
    "delete 3 of 10, leased without the others": 3,
    "delete 3 of 10, leased with the others": 3,
    "delete 1 by id, ready": 1,
    "purge 100 in 10 files": 100,
    "purge 30 that are leased, in 3 files": 30,
    "extend 1": 1,
    "extend 10": 10,
    "release 1": 1,
    "release 10": 10,
    "release 1 with a delay": 1,
    "release 10 with a delay": 10,
    "reject 1": 1,
    "reject 10": 10,
    "send 1 to a strict group": 1,
    "receive 1 of a strict group": 1,
    "delete 1 of a strict group": 1,
    "send 1 with a priority": 1,
    "receive 1 with a priority": 1,
    "send 1 in a file of its own": 1,
    "receive 1 in a file of its own": 1,
    "delete 1 in a file of its own": 1,
    "send 1 by a link": 1,
    "create a schedule": 1,
    "send a tick of a schedule": 1,
    "pause a queue": 1,
    "resume a queue": 1,
    "a snapshot of a queue of 10 files": 10,
    "a snapshot of a queue of 100 files": 100,
    "reaper: unlink 1": 1,
    "reaper: unlink 10": 10,
    "reaper: unlink 100": 100,
    "reaper: unlink 1000": 1_000,
    "reaper: unlink 2 in files of their own": 2,
    "reaper: keep the first 2 of a day in the archive": 2,
}
"""All operations, as the table lists them, and how many messages share what each costs."""

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
    """Return the rows of the budget; raises `KeyError` if an operation was not counted, or isn't
    known."""
    known = {name: cost for name, cost in costs.items() if not name.startswith("reaper, ")}
    if unknown := sorted(set(known) ^ set(ROWS)):
        raise KeyError(f"counted, or in the table, and not both: {unknown}")
    return [Row(operation=name, messages=messages, cost=known[name]) for name, messages in ROWS.items()]


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
