"""`make mutants`: plant each bug in a copy of the checkout, and show which test catches it.

First the tests run that are expected to catch it, then, if they don't, all that test the store. Only a
test that fails counts: not a bug that can't be imported, nor one that only a linter sees. Beside the
bugs, the expected tests run once on a copy without any, where they must pass. Exits with 1 if a bug
has survived, 2 if the run proves nothing.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests import CHECKOUT
from tests.proof.mutants import MUTANTS
from tests.proof.mutants.mutant import AUDIT, Mutant

ALL: Final = ("tests/store", "tests/unit", "tests/proof/crash", AUDIT, "tests/server")
"""Tests of the store. Not the tests of style and of these bugs: they would fail for wrong reasons."""
SELECTION_LIMIT: Final = 600.0
"""Seconds that no selection takes for one bug. The run without a bug is bounded by each test's own."""
STORIES: Final = "15"
"""At least as many as `make test` tells: a bug is looked for here."""
_NOT_COPIED: Final = (
    ".git",
    ".venv",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "data",
    "dist",
    "build",
    "node_modules",
    ".toolchains",
)
_FAILED: Final = re.compile(r"(?:FAILED|ERROR) (?P<test>\S.*?)(?: - .*)?")
_PASSED, _A_TEST_FAILED = 0, 1
"""Exit codes of pytest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    name: str
    caught_by: str | None = None
    """The test that failed."""
    note: str = ""
    seconds: float

    @property
    def row(self) -> tuple[str, str, str]:
        caught = f"`{self.caught_by}`" if self.caught_by else "**nothing**"
        return self.name, f"{caught} {self.note}".strip(), f"{self.seconds:.1f}"


class Copy:
    """A checkout of one's own, to plant bugs in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(CHECKOUT, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        # By their content: two bugs may come and go within one tick of a file's time.
        by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
        for part in ("server", "client"):
            compileall.compile_dir(folder / part, quiet=1, invalidation_mode=by_hash)
        found = self._run("-c", "import spoolrack_store as s; print(s.__file__)").stdout
        if not found.startswith(str(folder)):
            raise RuntimeError(f"the tests would run on {found.strip()} in place of {folder}")

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        texts = mutant.mutated(self.folder)
        before = {path: path.read_text() for path in texts}
        for path, text in texts.items():
            path.write_text(text)
        try:
            yield
        finally:
            for path, text in before.items():
                path.write_text(text)

    def test(self, selection: Sequence[str], *, to_the_end: bool = False) -> tuple[int, str]:
        """pytest's exit code, and the first test that failed or the last words."""
        how = () if to_the_end else ("-x",)
        try:
            done = self._run(
                *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "--timeout=120"),
                *(*how, *selection),
                timeout=None if to_the_end else SELECTION_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return -1, f"stuck for {SELECTION_LIMIT:.0f} s"
        lines = done.stdout.splitlines()
        failed = next((match["test"] for each in lines if (match := _FAILED.fullmatch(each))), None)
        return done.returncode, failed or "\n".join([*lines[-5:], done.stderr.strip()])

    def _run(
        self, *arguments: str, timeout: float | None = SELECTION_LIMIT
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(str(self.folder / part) for part in ("server", "client"))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={"SPOOLRACK_STORIES": STORIES, **os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def judge(copy: Copy, mutant: Mutant, by: Sequence[str] | None) -> Verdict:
    """Plant it, and look who notices, or with `by` whether those tests do."""
    started = time.monotonic()
    caught_by, notes = None, [] if mutant.ancestor is None else [f"(a fault of {mutant.ancestor})"]
    with copy.planted(mutant):
        for selection in (mutant.caught_by, ALL) if by is None else (by,):
            code, words = copy.test(selection)
            if code == _A_TEST_FAILED:
                caught_by = words
                break
            if code != _PASSED:
                notes.append(f"pytest ended with {code}: {words}")
                break
            if by is None and selection is not ALL:
                notes.append("(not where it was expected)")
    seconds = time.monotonic() - started
    return Verdict(name=mutant.name, caught_by=caught_by, note=" ".join(notes), seconds=seconds)


def is_sound(copy: Copy, mutants: Sequence[Mutant], by: Sequence[str] | None) -> bool:
    """Return whether the tests that should catch these pass as long as there is nothing to catch."""
    selection = by or sorted({each for mutant in mutants for each in mutant.caught_by})
    code, words = copy.test(selection, to_the_end=True)
    if code != _PASSED:
        print(f"without any bug, pytest ends with {code}: {words}", file=sys.stderr)
    return code == _PASSED


def plant_all(
    mutants: Sequence[Mutant], jobs: int, by: Sequence[str] | None
) -> tuple[list[Verdict], bool]:
    """Return the verdicts, and whether they mean anything."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            free.put(Copy(Path(folder).resolve() / str(number)))

        def in_turn(mutant: Mutant) -> Verdict:
            copy = free.get()
            try:
                verdict = judge(copy, mutant, by)
            finally:
                free.put(copy)
            print(f"{verdict.seconds:6.1f} s  {mutant.name}: {verdict.row[1]}", file=sys.stderr)
            return verdict

        def without_any() -> bool:
            copy = free.get()
            try:
                return is_sound(copy, mutants, by)
            finally:
                free.put(copy)

        sound = pool.submit(without_any)
        verdicts = list(pool.map(in_turn, mutants))
        return verdicts, sound.result()


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the text in Markdown."""
    rows = [("bug", "caught by", "seconds"), ("---", "---", "---:"), *(each.row for each in verdicts)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="this bug; may be repeated")
    parser.add_argument(
        "--by", action="append", metavar="TESTS", help="let only these try; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=2, help="so many copies at work at once (2)")
    parser.add_argument("--list", action="store_true", help="only say which bugs there are")
    options = parser.parse_args(arguments)
    unknown = set(options.only or ()) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"there is no bug called {', '.join(sorted(unknown))}")
    mutants = [mutant for mutant in MUTANTS if not options.only or mutant.name in options.only]
    if options.list:
        for mutant in mutants:
            whose = "" if mutant.ancestor is None else f" (a fault of {mutant.ancestor})"
            print(f"{mutant.name}: against the promise that {mutant.breaks}{whose}")
        return 0
    started = time.monotonic()
    verdicts, sound = plant_all(mutants, max(1, options.jobs), options.by)
    survivors = [verdict.name for verdict in verdicts if verdict.caught_by is None]
    print(table(verdicts))
    print(
        f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} bugs were caught, "
        f"in {time.monotonic() - started:.0f} s."
    )
    if survivors:
        print(f"These survive: {', '.join(survivors)}")
    if not sound:
        return 2
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
