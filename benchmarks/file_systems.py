"""Which file system, made and mounted how: the limit and the store on each, side by side.

    python -m benchmarks.file_systems --json disks.json --page docs/reference/file-systems.md
    python -m benchmarks.file_systems --variants ext4,xfs --workloads hundreds,lives-10 --rounds 9

Needs root, and room for an image of each. They are fully written, on loop devices with direct I/O, so
that all differ in nothing but the file system; each is measured in turn, in rounds, and what counts is
the median. The store runs in the process that asks: no network, no server, nothing but the disk.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from . import file_system_loads as loads
from .compare import machine, say
from .marked_parts import put_between
from .page_figures import short, summary
from .work_folder import LoopDisk, flush, why_not

BEGIN: Final = "<!-- file systems: made by benchmarks/file_systems.py -->"
END: Final = "<!-- end of the file systems -->"
_MEBIBYTE: Final = 1 << 20
_FORK: Final = multiprocessing.get_context("fork")
_INODES: Final = ("-i", "4096")
"""An inode for every 4 KiB: a message is a file. XFS makes them as it needs them."""
_BLOCKS: Final = ("-b", "4096")
"""The default of all but small disks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    name: str
    kind: str
    making: tuple[str, ...] = ()
    """Options of its mkfs."""
    options: str = ""
    """Options of mount."""
    note: str = ""

    @property
    def exactly(self) -> str:
        made = " ".join([f"mkfs.{self.kind}", *self.making])
        return f"`{made}`, `-o {self.options}`" if self.options else f"`{made}`"


def _ext4(name: str, *making: str, options: str = "", note: str = "") -> Variant:
    return Variant(
        name=name, kind="ext4", making=(*_BLOCKS, *_INODES, *making), options=options, note=note
    )


def _xfs(name: str, *making: str, options: str = "", note: str = "") -> Variant:
    return Variant(name=name, kind="xfs", making=making, options=options, note=note)


VARIANTS: Final = (
    _ext4("ext4", note="As Debian makes it, but for the number of inodes."),
    _ext4("ext4-journal", "-J", "size=512", note="A journal of 512 MiB."),
    _ext4("ext4-fast-commit", "-O", "fast_commit", note="Small commits are logged by what they did."),
    _ext4(
        "ext4-writeback",
        options="data=writeback",
        note="Synced data is kept as ever. A file that a crash caught before its sync may hold "
        "what stood on the disk there before: its checksum gives it away.",
    ),
    _ext4("ext4-noatime", options="noatime", note="Reading a message writes nothing."),
    _ext4("ext4-lazytime", options="lazytime", note="Times are written when something else is."),
    _ext4(
        "ext4-inline",
        *("-I", "2048", "-O", "inline_data"),
        note="A body of 1 KiB fits into its inode, which is 2 KiB.",
    ),
    Variant(
        name="ext4-1k",
        kind="ext4",
        making=("-b", "1024", *_INODES),
        note="Blocks of 1 KiB instead of 4 KiB.",
    ),
    _xfs("xfs", note="As Debian makes it."),
    _xfs(
        "xfs-log", "-l", "size=400m", options="logbsize=256k", note="A log of 400 MiB, large buffers."
    ),
    _xfs("xfs-plain", "-m", "reflink=0,rmapbt=0", note="Without what copies and repairs need."),
    _xfs("xfs-noatime", options="noatime", note="Reading a message writes nothing."),
)
"""The first is what the others are compared with."""
_BASE: Final = VARIANTS[0].name


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    variant: str
    workload: str
    round: int
    messages: int
    rate: float
    """Messages a second."""


@dataclass(kw_only=True)
class Found:
    """The findings written as JSON, from which the table is made."""

    began: str
    machine: dict[str, str]
    mebibytes: int
    seconds: float
    variants: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    rounds: list[Measured] = field(default_factory=list)


def measure_all(
    folders: dict[str, Path],
    workloads: Sequence[loads.Workload],
    rounds: int,
    seconds: float,
) -> Iterator[Measured]:
    """Round by round, workload by workload, each variant in turn; another one begins each round."""
    names = list(folders)
    for round in range(rounds):
        at = round % len(names)
        for workload in workloads:
            for name in names[at:] + names[:at]:
                flush(folders[name])
                with _scratch(folders[name]) as root:
                    messages, spent = _in_a_child(workload.name, root, seconds)
                yield Measured(
                    variant=name,
                    workload=workload.name,
                    round=round,
                    messages=messages,
                    rate=messages / spent,
                )


def _in_a_child(workload: str, root: Path, seconds: float) -> loads.Done:
    """Run it in a process of its own, which takes with it whatever it has open there."""
    ours, theirs = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=loads.run, args=(workload, root, seconds, theirs))
    child.start()
    theirs.close()
    try:
        done: loads.Done = ours.recv()
    except EOFError as error:
        raise RuntimeError(f"{workload} has failed in {root}; its output stands above") from error
    finally:
        child.join()
        ours.close()
    return done


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Make a folder for one measurement; when it is gone, nothing waits to be written."""
    root = folder / "root"
    root.mkdir()
    try:
        yield root
    finally:
        shutil.rmtree(root)
        flush(folder)


def text_of(found: Found) -> str:
    """Return the tables, as the page shows them, between their marks."""
    used = [each for each in loads.WORKLOADS if any(r.workload == each.name for r in found.rounds)]
    here = found.machine
    lines = [
        BEGIN,
        "",
        f"Measured {found.began}: {here['cores']} cores ({here['processor']}), {here['memory']}, "
        f"Linux {here['kernel']}, Python {here['python']}. Images of {found.mebibytes:,} MiB, fully "
        f"written, on loop devices with direct I/O; {found.seconds:g} s a measurement; 1 KiB bodies.",
        "",
        f"Messages a second, the median of the rounds; in brackets, how many times {_BASE}'s.",
        "",
        f"| file system | {' | '.join(each.name for each in used)} |",
        "|---|" + "---:|" * len(used),
    ]
    for variant in found.variants:
        cells = (_cell(found, variant["name"], each.name) for each in used)
        lines.append(f"| {variant['name']} | {' | '.join(cells)} |")
    noise = (f"{each.name} ± {_noise(found, each.name):.0%}" for each in used)
    rounds = 1 + max(each.round for each in found.rounds)
    lines += [
        "",
        f"{rounds} rounds. Half of what lies between the best and the worst, in the middle of all file "
        f"systems: {', '.join(noise)}. Smaller differences mean nothing.",
        "",
    ]
    lines += [f"- **{each.name}**: {each.title}." for each in used]
    lines += ["", "| file system | exactly | |", "|---|---|---|"]
    lines += [
        f"| {each['name']} | {Variant(**each).exactly} | {each['note']} |" for each in found.variants
    ]
    lines += ["", *(f"- Not measured: {name}; {reason}." for name, reason in found.missing.items())]
    return "\n".join([*lines, "", END, ""])


def _rates(found: Found, variant: str, workload: str) -> list[float]:
    return [r.rate for r in found.rounds if (r.variant, r.workload) == (variant, workload)]


def _cell(found: Found, variant: str, workload: str) -> str:
    rates = _rates(found, variant, workload)
    if not rates:
        return ""
    median = summary(rates).median
    base = _rates(found, _BASE, workload)
    if not base or variant == _BASE:
        return short(median)
    return f"{short(median)} ({median / summary(base).median:.2f})"


def _noise(found: Found, workload: str) -> float:
    rates = (_rates(found, variant["name"], workload) for variant in found.variants)
    return summary([summary(each).noise for each in rates if each]).median


def _chosen(text: str, known: Sequence[str]) -> list[str]:
    given = text.split(",")
    if unknown := sorted(set(given) - set(known)):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}; there are {', '.join(known)}")
    return [name for name in known if name in given]


def _make(variants: Sequence[Variant], within: Path, found: Found, stack: ExitStack) -> dict[str, Path]:
    """Mount them until the stack is left; `found` tells those that this machine can't make."""
    folders = {}
    for variant in variants:
        reason = why_not(variant.kind)
        try:
            if reason is not None:
                raise OSError(reason)
            disk = LoopDisk(
                variant.kind,
                within / variant.name,
                size=found.mebibytes * _MEBIBYTE,
                making=variant.making,
                options=variant.options,
                is_written=True,
                is_direct=True,
            )
        except OSError as error:
            found.missing[variant.name] = str(error).splitlines()[0].strip(" .")
            say(f"without {variant.name}: {error}")
            continue
        stack.enter_context(disk)
        folders[variant.name] = disk.mount_point
        found.variants.append(asdict(variant))
        say(f"{variant.name} is made")
    return folders


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="file_systems", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    variants, workloads = [v.name for v in VARIANTS], [w.name for w in loads.WORKLOADS]
    parser.add_argument("--variants", type=lambda text: _chosen(text, variants), default=variants)
    parser.add_argument("--workloads", type=lambda text: _chosen(text, workloads), default=workloads)
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (%(default)s)")
    parser.add_argument("--mebibytes", type=int, default=2048, help="of each image (%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="(%(default)s)")
    parser.add_argument("--json", type=Path, help="write what was found there")
    parser.add_argument("--page", type=Path, help="put the tables into that page, between their marks")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    found = Found(
        began=time.strftime("%Y-%m-%d %H:%M:%S %z"),
        machine=machine(),
        mebibytes=asked.mebibytes,
        seconds=asked.seconds,
    )
    wanted = [each for each in loads.WORKLOADS if each.name in asked.workloads]
    with (
        tempfile.TemporaryDirectory(prefix="file-systems-", dir=asked.folder) as within,
        ExitStack() as stack,
    ):
        folders = _make(
            [each for each in VARIANTS if each.name in asked.variants], Path(within), found, stack
        )
        if not folders:
            return 1
        for measured in measure_all(folders, wanted, asked.rounds, asked.seconds):
            found.rounds.append(measured)
            say(
                f"{measured.round + 1}. {measured.workload:12} {measured.variant:17}"
                f" {short(measured.rate):>7}/s"
            )
            if asked.json:
                asked.json.write_text(json.dumps(asdict(found), indent=1) + "\n")
    text = text_of(found)
    print(text)
    if asked.page:
        page = asked.page.read_text() if asked.page.exists() else "# Which file system\n"
        asked.page.write_text(put_between(BEGIN, END, text, page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
