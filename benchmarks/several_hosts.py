"""The store on CephFS, at one host and at two at once, beside a local file system.

    python -m tests.ceph.cluster python -m benchmarks.several_hosts --page docs/how-to/several-hosts.md

The cluster, the hosts and the local file system share one machine, and take turns, in rounds: the
ratios tell more than the rates.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

from spoolrack_store.store import Store

from tests.ceph.cluster import HOSTS, VARIABLE, Cluster

from . import file_system_loads as loads
from .marked_parts import write_between
from .page_figures import short
from .work_folder import own_disk

BEGIN: Final = "<!-- several hosts: made by benchmarks/several_hosts.py -->"
END: Final = "<!-- end of several hosts -->"
WORKLOADS: Final = ("singles", "callers", "tens", "hundreds", "lives-1", "lives-10", "lives-100")


def _rate(workload: str, roots: Sequence[Path], seconds: float) -> float:
    """Return the messages a second of one process at each of these paths of one root."""
    return sum(messages / spent for messages, spent in loads.measure(workload, roots, seconds))


def measure(cluster: Cluster, local: Path, seconds: float, rounds: int) -> dict[str, list[list[float]]]:
    """Return by workload the rates of each round: local, one host, two hosts."""
    rates_by_workload: dict[str, list[list[float]]] = {}
    for at in range(rounds * len(WORKLOADS)):
        workload, name = WORKLOADS[at % len(WORKLOADS)], uuid4().hex
        rates = [_rate(workload, [local / name], seconds)]
        for hosts in (HOSTS[:1], HOSTS):
            name = uuid4().hex
            Store.open(cluster.at(HOSTS[0]) / name, hosts="several").close()
            rates.append(_rate(workload, [cluster.at(host) / name for host in hosts], seconds))
        rates_by_workload.setdefault(workload, []).append(rates)
        print(workload, *(f"{rate:.0f}" for rate in rates), flush=True)
    return rates_by_workload


def text_of(rates_by_workload: dict[str, list[list[float]]]) -> str:
    titles = {each.name: each.title for each in loads.WORKLOADS}
    lines = ["| | ext4 on this host | CephFS, one host | two hosts at once |", "|---|---:|---:|---:|"]
    for workload, rates in rates_by_workload.items():
        local, *others = (median(column) for column in zip(*rates, strict=True))
        cells = [short(local), *(f"{short(rate)} ({rate / local:.2f})" for rate in others)]
        lines.append(f"| {titles[workload]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", type=Path)
    options: Any = parser.parse_args()
    cluster = Cluster(os.environ[VARIABLE])
    with own_disk(Path(tempfile.gettempdir()), 2 << 30) as work:
        text = text_of(measure(cluster, work.folder, options.seconds, options.rounds))
    print(text)
    if options.page:
        write_between(BEGIN, END, f"{BEGIN}\n\n{text}\n\n{END}", options.page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
