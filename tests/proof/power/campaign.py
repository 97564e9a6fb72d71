"""Power cuts on one kind of file system, run after run: a campaign of `make torture`.

    campaign.py --kind ext4|xfs [--cuts N] [--seconds S] [--seed N] [--runs N]

A run is a new file system with mount options of its own, and some cuts. Its ledgers are taken away with
it, unless it broke a promise: then the folder that holds them is told.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Final

from tests.proof.power.outages import Report, run
from tests.proof.power.witness import Survey
from tests.support.loop_disk import KINDS, why_not
from tests.support.namespaces import enter_own_mounts
from tests.support.run_counts import Tally, run_campaign

CUTS: Final = 10


def once(kind: str, cuts: int, seed: int, survey: Survey) -> Tally:
    folder = Path(tempfile.mkdtemp(prefix=f"spoolrack-power-{kind}-"))
    arguments = f"--kind {kind} --cuts {cuts} --seed {seed} --runs 1"
    again = f".venv/bin/python -m tests.proof.power.campaign {arguments}; see {folder}"
    try:
        report = run(kind, folder, seed, cuts=cuts)
    except Exception:  # noqa: BLE001  # One run that can't be judged must not end the campaign.
        told = traceback.format_exc()
        return Tally(campaign=kind, runs=1, other=1, broken=[f"{again}:\n{told}"])
    print(f"seed {seed}: {report.verdict}; {len(report.unwritten)} unwritten put aside", flush=True)
    survey.add(report.survey)
    tally = tally_of(kind, report)
    tally.broken = [f"{again}: {broken}" for broken in report.broken]
    if not tally.broken:
        shutil.rmtree(folder)
    return tally


def tally_of(kind: str, report: Report) -> Tally:
    verdict = report.verdict
    return Tally(
        campaign=kind,
        runs=1,
        crashes=report.survey.cuts,
        messages=len(verdict.acknowledged),
        lost=len(verdict.lost),
        resurrected=len(verdict.resurrected),
        doubled=len(verdict.doubled | verdict.copied),
        torn=len(verdict.altered),
        invented=len(verdict.invented),
        other=len(report.quarantined) + bool(report.inspection) + (not report.survey.lost),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--cuts", type=int, default=CUTS, help="in one run")
    own, others = parser.parse_known_args()
    reason = why_not(own.kind)
    if reason is not None:
        sys.exit(f"power cuts on {own.kind}: {reason}")
    enter_own_mounts()
    survey = Survey()
    name = f"power cuts, {own.kind}"
    result = run_campaign(name, lambda seed: once(own.kind, own.cuts, seed, survey), others)
    print(f"{own.kind}: {survey}", file=sys.stderr)
    return result


if __name__ == "__main__":
    sys.exit(main())
