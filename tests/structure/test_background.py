"""Background work has an owner: what the server starts and does not await is listed here."""

from __future__ import annotations

import ast
from collections import Counter

from tests import CHECKOUT

SERVER = CHECKOUT / "server"
STARTS = frozenset({"create_task", "ensure_future", "Thread"})

OWNED = {
    "spoolrack_server/app/background_tasks.py": 1,  # The owner of the server's loops.
    # Tasks of a call, which its handler awaits, or ends with.
    "spoolrack_server/app/leases.py": 1,
    "spoolrack_server/http/http_front.py": 1,
    "spoolrack_server/http/listen_sockets.py": 1,
    "spoolrack_server/rpc/calls.py": 2,
    "spoolrack_server/rpc/public_calls.py": 1,
    "spoolrack_server/rpc/receive_streams.py": 4,
    "spoolrack_server/rpc/streams.py": 1,
    # A channel's end ends the worker process; an answer's error is the asker's timeout.
    "spoolrack_server/process/supervisor.py": 4,
    "spoolrack_server/process/worker_main.py": 1,
    "spoolrack_server/siblings/control_channel.py": 1,
    # Threads. The committer's fails the store; the other three go on.
    "spoolrack_server/process/loop_driver.py": 1,
    "spoolrack_server/system/line_writer.py": 1,
    "spoolrack_store/files/removed.py": 1,
    "spoolrack_store/files/spares.py": 1,
    "spoolrack_store/listener.py": 1,
    "spoolrack_store/thread_driver.py": 1,
    "spoolrack_server/access/security.py": 1,  # Its result is awaited.
    "spoolrack_server/system/loop_thread.py": 1,  # It goes on, and ends with its owner.
    # They are joined where they were started.
    "spoolrack_server/cli/operators/bench_command.py": 1,
    "spoolrack_server/cli/messages/shell_runner.py": 1,
    "spoolrack_server/system/system_limits.py": 1,
    # For tests.
    "spoolrack_store/manual_clock.py": 1,
}


def test_no_task_or_thread_is_started_without_an_owner() -> None:
    found: Counter[str] = Counter()
    for path in SERVER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _name(node.func) in STARTS:
                found[str(path.relative_to(SERVER))] += 1
    assert dict(found) == OWNED, "start loops by BackgroundTasks; say here who owns anything else"


def _name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""
