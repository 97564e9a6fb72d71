"""The lines of a run at the terminal. Pure."""

from __future__ import annotations

from .backlog import Standing
from .page_figures import short
from .workloads import Round


def line_of(measured: Round) -> str:
    faults = f"  {len(measured.faults)} FAULTS" if measured.faults else ""
    return (
        f"{measured.round + 1}. {measured.workload:9} {measured.system:14} {short(measured.rate):>7}/s"
        f"  p50 {measured.p50:8.2f} ms  p99 {measured.p99:8.2f} ms  processor, us a message:"
        f" server {measured.server_processor:6.0f}  clients {measured.client_processor:6.0f}"
        f"  at rest after {measured.settling:5.2f} s{faults}"
    )


def standing_line(standing: Standing) -> str:
    depths = ", ".join(f"{short(depth)}: {short(rate)}/s" for depth, rate in standing.rates.items())
    restart = "?" if standing.restart is None else f"{standing.restart:.2f} s"
    return (
        f"   backlog   {standing.system:14} {depths}; restart {restart}"
        f" (of it imports {standing.imports:.2f} s); memory {standing.memory / (1 << 20):,.0f} MiB"
        + (f"; listing {standing.listing:.2f} s" if standing.listing is not None else "")
        + (f"  {len(standing.faults)} FAULTS" if standing.faults else "")
    )
