"""A real server's system calls, held against its promises: nothing is answered before it is durable,
and a body is written once and unlinked once.

The server runs under strace. That it is seen when it lies, servers with a planted bug show.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.proof.audit import audit_load
from tests.proof.audit.audit import Report, audit
from tests.proof.audit.audit_load import Client
from tests.proof.mutants import mutant_called
from tests.support.traced_server import TracedServer, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


def audited(server: TracedServer) -> Report:
    with server.trace.open() as trace:
        return audit(trace, str(server.root))


def test_no_answer_leaves_before_its_syncs_and_no_body_is_touched_twice(tmp_path: Path) -> None:
    with TracedServer(tmp_path) as server:
        audit_load.step_by_step(server.address)
        audit_load.at_once(server.address)

    report = audited(server)

    assert not report.findings, "\n".join(report.findings)
    seen = report.seen
    assert seen.answers >= 150
    assert seen.answers_alone >= 50
    assert seen.bodies >= 130
    assert seen.unlinked >= 40
    assert seen.moves >= 200
    assert seen.syncs >= 100


@pytest.mark.parametrize(
    ("bug", "finding"),
    [
        ("answers-before-the-sync", "an answer"),
        ("published-before-the-sync", "isn't durable yet"),
        ("bodies-are-written-twice", "bytes were written to it"),
    ],
)
def test_a_server_with_a_planted_bug_is_found_out(tmp_path: Path, bug: str, finding: str) -> None:
    code = tmp_path / "code"
    shutil.copytree(CHECKOUT / "server", code / "server", ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in mutant_called(bug).mutated(code).items():
        path.write_text(text)

    with TracedServer(tmp_path, code=code / "server") as server:
        client = Client(server.address)
        client.create("q", max_messages=100)  # Sends to it take the general way, where the bugs are.
        client.send(b"one")
        client.delete(*client.receive(1))
        client.close()

    assert finding in "\n".join(audited(server).findings)
