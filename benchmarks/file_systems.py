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
from .compare import chosen_from, machine, say
from .marked_parts import write_between
from .page_figures import short, summary
from .work_folder import LoopDisk, flush, why_not

BEGIN: Final = "<!-- file systems: made by benchmarks/file_systems.py -->"
END: Final = "<!-- end of the file systems -->"
_MEBIBYTE: Final = 1 << 20
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
    _ext4("ext4", note="Debian's defaults, except the number of inodes."),
    _ext4("ext4-journal", "-J", "size=512", note="A journal of 512 MiB."),
    _ext4(
        "ext4-fast-commit",
        "-O",
        "fast_commit",
        note="The journal has changes in place of changed blocks.",
    ),
    _ext4(
        "ext4-writeback",
        options="data=writeback",
        note="Synced data is as safe. After a crash a file without a sync may have old content of "
        "the disk: its checksum shows it.",
    ),
    _ext4("ext4-noatime", options="noatime", note="Reading a message writes nothing."),
    _ext4("ext4-lazytime", options="lazytime", note="Times are written with other changes."),
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
    _xfs("xfs", note="Debian's defaults."),
    _xfs(
        "xfs-log", "-l", "size=400m", options="logbsize=256k", note="A log of 400 MiB, large buffers."
    ),
    _xfs(
        "xfs-plain", "-m", "reflink=0,rmapbt=0", note="Without the structures for copies and repairs."
    ),
    _xfs("xfs-noatime", options="noatime", note="Reading a message writes nothing."),
)
"""The first is what the others are compared with."""
_BASE: Final = VARIANTS[0].name


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSystemRound:
    variant: str
    workload: str
    round: int
    messages: int
    rate: float
    """Messages a second."""


@dataclass(kw_only=True)
class FileSystemResults:
    """The findings written as JSON, from which the table is made."""

    began: str
    machine: dict[str, str]
    mebibytes: int
    seconds: float
    variants: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    rounds: list[FileSystemRound] = field(default_factory=list)


def measure_all(
    folders: dict[str, Path],
    workloads: Sequence[loads.StoreLoad],
    rounds: int,
    seconds: float,
) -> Iterator[FileSystemRound]:
    """Round by round, workload by workload, each variant in turn; another one begins each round."""
    names = list(folders)
    for round in range(rounds):
        at = round % len(names)
        for workload in workloads:
            for name in names[at:] + names[:at]:
                flush(folders[name])
                with _scratch(folders[name]) as root:
                    ((messages, spent),) = loads.measure(workload.name, [root], seconds)
                yield FileSystemRound(
                    variant=name,
                    workload=workload.name,
                    round=round,
                    messages=messages,
                    rate=messages / spent,
                )


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


def text_of(results: FileSystemResults) -> str:
    """Return the tables, as the page shows them, between their marks."""
    used = [each for each in loads.WORKLOADS if any(r.workload == each.name for r in results.rounds)]
    here = results.machine
    lines = [
        BEGIN,
        "",
        f"Measured {results.began}: {here['cores']} cores ({here['processor']}), {here['memory']}, "
        f"Linux {here['kernel']}, Python {here['python']}. Images of {results.mebibytes:,} MiB, fully "
        f"written, on loop devices with direct I/O; {results.seconds:g} s a measurement; 1 KiB bodies.",
        "",
        f"Messages a second, the median of the rounds; in brackets, how many times {_BASE}'s.",
        "",
        f"| file system | {' | '.join(each.name for each in used)} |",
        "|---|" + "---:|" * len(used),
    ]
    for variant in results.variants:
        cells = (_cell(results, variant["name"], each.name) for each in used)
        lines.append(f"| {variant['name']} | {' | '.join(cells)} |")
    noise = (f"{each.name} ± {_noise(results, each.name):.0%}" for each in used)
    rounds = 1 + max(each.round for each in results.rounds)
    lines += [
        "",
        f"{rounds} rounds. Noise, half the distance between the best and the worst round, median of "
        f"all file systems: {', '.join(noise)}. Smaller differences mean nothing.",
        "",
    ]
    lines += [f"- **{each.name}**: {each.title}." for each in used]
    lines += ["", "| file system | exactly | |", "|---|---|---|"]
    lines += [
        f"| {each['name']} | {Variant(**each).exactly} | {each['note']} |" for each in results.variants
    ]
    lines += ["", *(f"- Not measured: {name}; {reason}." for name, reason in results.missing.items())]
    return "\n".join([*lines, "", END, ""])


def _rates(results: FileSystemResults, variant: str, workload: str) -> list[float]:
    return [r.rate for r in results.rounds if (r.variant, r.workload) == (variant, workload)]


def _cell(results: FileSystemResults, variant: str, workload: str) -> str:
    rates = _rates(results, variant, workload)
    if not rates:
        return ""
    median = summary(rates).median
    base = _rates(results, _BASE, workload)
    if not base or variant == _BASE:
        return short(median)
    return f"{short(median)} ({median / summary(base).median:.2f})"


def _noise(results: FileSystemResults, workload: str) -> float:
    rates = (_rates(results, variant["name"], workload) for variant in results.variants)
    return summary([summary(each).noise for each in rates if each]).median


def _make(
    variants: Sequence[Variant], within: Path, results: FileSystemResults, stack: ExitStack
) -> dict[str, Path]:
    """Mount them until the stack is left; `results.missing` has what this machine can't make."""
    folders = {}
    for variant in variants:
        reason = why_not(variant.kind)
        try:
            if reason is not None:
                raise OSError(reason)
            disk = LoopDisk(
                variant.kind,
                within / variant.name,
                size=results.mebibytes * _MEBIBYTE,
                making=variant.making,
                options=variant.options,
                is_written=True,
                is_direct=True,
            )
        except OSError as error:
            results.missing[variant.name] = str(error).splitlines()[0].strip(" .")
            say(f"without {variant.name}: {error}")
            continue
        stack.enter_context(disk)
        folders[variant.name] = disk.mount_point
        results.variants.append(asdict(variant))
        say(f"{variant.name} is made")
    return folders


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="file_systems", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    variants, workloads = [v.name for v in VARIANTS], [w.name for w in loads.WORKLOADS]
    parser.add_argument("--variants", type=chosen_from(variants), default=variants)
    parser.add_argument("--workloads", type=chosen_from(workloads), default=workloads)
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (%(default)s)")
    parser.add_argument("--mebibytes", type=int, default=2048, help="of each image (%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="(%(default)s)")
    parser.add_argument("--json", type=Path, help="write what was found there")
    parser.add_argument("--page", type=Path, help="put the tables into that page, between their marks")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    results = FileSystemResults(
        began=time.strftime("%Y-%m-%d %H:%M:%S %z"),
        machine=machine(),
        mebibytes=options.mebibytes,
        seconds=options.seconds,
    )
    to_measure = [each for each in loads.WORKLOADS if each.name in options.workloads]
    with (
        tempfile.TemporaryDirectory(prefix="file-systems-", dir=options.folder) as within,
        ExitStack() as stack,
    ):
        folders = _make(
            [each for each in VARIANTS if each.name in options.variants], Path(within), results, stack
        )
        if not folders:
            return 1
        for measured in measure_all(folders, to_measure, options.rounds, options.seconds):
            results.rounds.append(measured)
            say(
                f"{measured.round + 1}. {measured.workload:12} {measured.variant:17}"
                f" {short(measured.rate):>7}/s"
            )
            if options.json:
                options.json.write_text(json.dumps(asdict(results), indent=1) + "\n")
    text = text_of(results)
    print(text)
    if options.page:
        write_between(BEGIN, END, text, options.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
