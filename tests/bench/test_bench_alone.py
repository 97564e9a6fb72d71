"""One message alone: a tiny run without a look at times, and what its tables say of a run."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import alone_figures, page
from benchmarks.alone_figures import (
    AIO_ECHO,
    CLIENT,
    DISK,
    ECHO,
    FILE,
    FILE_ECHO,
    FOLDER,
    FUNCTIONS,
    GRPC,
    LOADS,
    MEMORY,
    OTHERS,
    P50,
    SERVER,
    LoneResults,
    Measurement,
    text_of,
)
from tests import CHECKOUT
from tests.support.function_calls import FunctionCalls
from tests.support.serving import output_of

OPERATIONS = ("send", "receive", "delete", "life")
MACHINE = {"cores": "2", "processor": "X", "memory": "8 GiB", "kernel": "6", "python": "3"}


def measured(row: str, round: int, subject: str, operation: str, **meters: float) -> Measurement:
    return Measurement(row=row, round=round, subject=subject, operation=operation, meters=meters)


def results() -> LoneResults:
    """Rounds of a machine that gets busier; a send takes three, four and five echoes."""
    found = []
    for round, busy in enumerate((1.0, 10.0, 100.0)):
        found += [
            measured(MEMORY, round, ECHO, "echo", p50=100 * busy, server=50, client=40),
            measured(MEMORY, round, AIO_ECHO, "echo", p50=200 * busy, server=50, client=40),
            measured(
                *(MEMORY, round, GRPC, "send"),
                **{P50: 100 * busy * (3 + round), SERVER: 400, CLIENT: 300},
            ),
        ]
    found += [
        measured(DISK, 0, FILE_ECHO, "echo", p50=1_000, server=50, client=40),
        measured(DISK, 0, FILE, "file", p50=500, client=60),
        measured(DISK, 0, FOLDER, "send", p50=800, client=200),
        measured(FUNCTIONS, 0, GRPC, "send", p50=1, server=364, client=33, others=60),
        measured(FUNCTIONS, 1, GRPC, "send", p50=1, server=400, client=33, others=70),
        measured(FUNCTIONS, 0, FOLDER, "send", p50=1, client=208),
        measured(LOADS, 0, ECHO, "an echo", p50=100, server=50, client=40),
        measured(LOADS, 0, GRPC, "in tens", server=25, client=60),
    ]
    return LoneResults(
        began="today",
        machine=MACHINE,
        rounds=3,
        count=50,
        load=[0.5, 1.5],
        places={MEMORY: "tmpfs", DISK: "ext4", FUNCTIONS: "tmpfs", LOADS: "tmpfs"},
        missing={"xfs": "needs mkfs.xfs"},
        measurements=found,
    )


def test_a_ratio_is_one_within_a_round_whatever_the_machine_does_in_others() -> None:
    text = text_of(results())
    # The median of 3, 4 and 5; the times alone would say 300, 4,000 and 50,000 beside 100 to 10,000.
    assert "| gRPC: send | 4,000 | 4.00 (3.50 to 4.50) | 2.00 (1.75 to 2.25) | 400 | 300 |" in text
    assert "| echo | 1,000 |  | 0.50 (0.50 to 0.50) | 50 | 40 |" in text


def test_each_row_is_set_beside_its_own_bases() -> None:
    text = text_of(results())
    assert "| | p50 | times an echo with a file | times a plain file | server's processor |" in text
    assert "| file://: send | 800 | 0.80 | 1.60 |  | 200 |" in text
    assert "| plain file | 500 | 0.50 |  |  | 60 |" in text
    # What the server does from time to time is in some of the rounds only.
    assert "| send | 364 | 33 | 60 | 208 |" in text
    assert "| in tens | 25.0 | 0.50 | 60.0 | 1.50 |" in text


def test_the_page_names_the_load_missing_rows_and_losses() -> None:
    text = text_of(results())
    assert "Load average: 0.5 before, 1.5 at the end." in text
    assert "- Not measured: xfs; needs mkfs.xfs." in text
    assert "At fault" not in text
    lost = results()
    lost.faults.append("in tens: 3 lost: 0/1")
    assert "- **At fault**: in tens: 3 lost: 0/1." in text_of(lost)


def test_the_figures_are_written_between_their_own_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, written = tmp_path / "alone.json", tmp_path / "performance.md"
    found.write_text(json.dumps(asdict(results())))
    others = f"# Performance\n\n{page.BEGIN}\nothers\n{page.END}\n"
    written.write_text(others)
    monkeypatch.setattr("sys.argv", ["page", str(found), str(written)])
    for _ in range(2):
        assert page.main() == 0
        assert written.read_text() == f"{others}\n{text_of(results())}"


def test_functions_are_counted_by_thread_and_no_longer_than_asked() -> None:
    def counted() -> None:
        return None

    def in_a_thread() -> None:
        thread = threading.Thread(target=counted)
        thread.start()
        thread.join()

    names = {"counted", "in_a_thread"}
    here = threading.get_ident()
    with FunctionCalls(
        lambda frame: name if (name := frame.f_code.co_name) in names else None
    ) as calls:
        assert calls.during(counted) == {"counted": 1}
        assert calls.during(in_a_thread, here) == {"in_a_thread": 1}
        assert calls.counts() == {"counted": 2, "in_a_thread": 1}
    counted()
    in_a_thread()
    assert calls.counts() == {"counted": 2, "in_a_thread": 1}


@pytest.mark.slow
def test_the_program_measures_each_subject_and_leaves_nothing(tmp_path: Path) -> None:
    folder, memory, found = tmp_path / "disk", tmp_path / "memory", tmp_path / "alone.json"
    folder.mkdir()
    memory.mkdir()
    printed = output_of(
        *(sys.executable, "-m", "benchmarks.alone", "--rows", "memory,disk,functions,loads"),
        *("--rounds", "1", "--count", "3", "--pace", "0.02", "--no-own-disk"),
        *("--folder", folder, "--memory", memory, "--json", found),
        folder=CHECKOUT,
    )
    results = alone_figures.results_of(json.loads(found.read_text()))
    assert printed.strip() == text_of(results).strip()
    assert results.faults == []
    meters = {(each.row, each.subject, each.operation): each.meters for each in results.measurements}
    times = {P50, SERVER, CLIENT}
    expected = {
        **dict.fromkeys(((MEMORY, echo, "echo") for echo in (ECHO, AIO_ECHO)), times),
        (DISK, FILE_ECHO, "echo"): times,
        (DISK, FILE, "file"): {P50, CLIENT},
        (LOADS, ECHO, "an echo"): times,
    }
    for operation in OPERATIONS:
        expected |= {
            (MEMORY, GRPC, operation): times,
            (DISK, GRPC, operation): times,
            (DISK, FOLDER, operation): {P50, CLIENT},
            (FUNCTIONS, GRPC, operation): {*times, OTHERS},
            (FUNCTIONS, FOLDER, operation): {P50, CLIENT},
        }
    assert {of: set(its) for of, its in meters.items() if of[:2] != (LOADS, GRPC)} == expected
    loads = [its for (row, subject, _), its in meters.items() if (row, subject) == (LOADS, GRPC)]
    assert [set(its) for its in loads] == [{SERVER, CLIENT}] * 3
    # A life calls each part's functions, and nothing else but what a server does from time to time.
    functions = {of[2]: its for of, its in meters.items() if of[:2] == (FUNCTIONS, GRPC)}
    assert all(functions["life"][CLIENT] > functions[part][CLIENT] > 0 for part in OPERATIONS[:3])
    assert all(each > 0 for of in functions.values() for each in of.values())
    assert not any(folder.iterdir())
    assert not any(memory.iterdir())
