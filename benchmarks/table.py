"""The output of a run at the terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .backlog import Standing
from .page_figures import short, summary
from .workloads import WORKLOADS, Round


def line_of(measured: Round) -> str:
    faults = f"  {len(measured.faults)} FAULTS" if measured.faults else ""
    return (
        f"{measured.round + 1}. {measured.workload:9} {measured.system:13} {short(measured.rate):>7}/s"
        f"  p50 {measured.p50:8.2f} ms  p99 {measured.p99:8.2f} ms  processor, us a message:"
        f" server {measured.server_processor:6.0f}  clients {measured.client_processor:6.0f}"
        f"  at rest after {measured.settling:5.2f} s{faults}"
    )


def standing_line(standing: Standing) -> str:
    depths = ", ".join(f"{short(depth)}: {short(rate)}/s" for depth, rate in standing.rates.items())
    restart = "?" if standing.restart is None else f"{standing.restart:.2f} s"
    return (
        f"   backlog   {standing.system:13} {depths}; restart {restart}"
        f" (of it imports {standing.imports:.2f} s); memory {standing.memory / (1 << 20):,.0f} MiB"
        + (f"; listing {standing.listing:.2f} s" if standing.listing is not None else "")
        + (f"  {len(standing.faults)} FAULTS" if standing.faults else "")
    )


def text_of(rounds: Sequence[Round], standing: Sequence[Standing]) -> str:
    """Medians by workload, the best first."""
    lines = []
    for workload in WORKLOADS:
        ours = [each for each in rounds if each.workload == workload.name]
        if not ours:
            continue
        lines += ["", workload.title]
        rows = []
        for name in dict.fromkeys(each.system for each in ours):
            its = [each for each in ours if each.system == name]
            rate = summary([each.rate for each in its])
            p50, p99 = summary([each.p50 for each in its]), summary([each.p99 for each in its])
            processor = summary([each.server_processor for each in its])
            worth = p50.median if workload.rate else -rate.median
            rows.append(
                (
                    worth,
                    f"  {name:13} {short(rate.median):>7}/s  ±{rate.noise:4.0%} of {rate.rounds}"
                    f"  p50 {p50.median:8.2f} ms  p99 {p99.median:8.2f} ms"
                    f"  server {processor.median:6.0f} us a message",
                )
            )
        lines += [row for _, row in sorted(rows)]
    if standing:
        lines += ["", "waiting messages: received and deleted in tens"]
        lines += [standing_line(each) for each in standing]
    return "\n".join(lines)
