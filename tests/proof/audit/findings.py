"""Findings of the auditor about a trace that was written by hand."""

from __future__ import annotations

from tests.proof.audit.audit import Report, audit
from tests.proof.audit.trace_text import ROOT, TraceText


def report(trace: TraceText) -> Report:
    return audit(trace.lines, ROOT)


def finding(trace: TraceText) -> str:
    """Return what the last line of the trace, and no other, is blamed for."""
    findings = report(trace).findings
    assert findings, "the auditor has found nothing"
    assert {each.partition(":")[0] for each in findings} == {f"line {len(trace.lines)}"}, findings
    return "\n".join(findings)
