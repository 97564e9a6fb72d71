"""The command line for deployments: queues from a file, one message's life, and health."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack import Client
from spoolrack.testing import RunningServer

from tests.cli.cli_rig import Spoolrack
from tests.support.fixed_answers import answering
from tests.support.serving import PROGRAM

Declare = Callable[..., Path]


@pytest.fixture
def declare(tmp_path: Path) -> Declare:
    def write(declared: object) -> Path:
        path = tmp_path / "queues.json"
        path.write_text(declared if isinstance(declared, str) else json.dumps(declared))
        return path

    return write


def test_declared_queues_are_created_with_their_settings_dead_letter_queues_first(
    spoolrack: Spoolrack, client: Client, declare: Declare
) -> None:
    declared = declare(
        {
            "jobs": {"visibility_timeout": "5m", "max_receives": 3.0, "dead_letter_queue": "dead"},
            "dead": None,
            "mail": {"max_bytes": "1G", "max_message_size": 65536, "retention": 86400, "rate": 0.5},
        }
    )
    applied = spoolrack("queues", "apply", str(declared))
    assert (applied.code, applied.out) == (0, "")
    said = applied.err.splitlines()
    assert said.index("spoolrack: dead: created") < said.index("spoolrack: jobs: created")
    jobs, mail = client.queue("jobs").info().settings, client.queue("mail").info().settings
    assert (jobs.visibility_timeout, jobs.max_receives, jobs.dead_letter_queue) == (300.0, 3, "dead")
    assert (mail.max_bytes, mail.max_message_size, mail.retention) == (1 << 30, 65536, 86400.0)
    assert mail.rate == 0.5


def test_a_second_apply_changes_nothing_and_a_changed_file_changes_what_differs(
    spoolrack: Spoolrack, client: Client, declare: Declare
) -> None:
    declared = declare({"jobs": {"max_messages": 5, "visibility_timeout": 60}})
    spoolrack("queues", "apply", str(declared))
    client.queue("jobs").send("stays")
    version = client.queue("jobs").info().version
    again = spoolrack("queues", "apply", str(declared))
    assert (again.code, again.err) == (0, "spoolrack: jobs: is as declared\n")
    assert client.queue("jobs").info().version == version
    changed = spoolrack("queues", "apply", str(declare({"jobs": {"max_messages": 7}})))
    assert changed.code == 0
    assert "visibility_timeout from 1m to 30s, max_messages from 5 to 7" in changed.err
    settings = client.queue("jobs").info().settings
    # A setting no longer declared goes back to its default: so a rollback restores the state before.
    assert (settings.max_messages, settings.visibility_timeout) == (7, 30.0)
    assert client.queue("jobs").info().counts.ready_count == 1


def test_declared_labels_become_the_queues_labels(
    spoolrack: Spoolrack, client: Client, declare: Declare
) -> None:
    spoolrack("queues", "apply", str(declare({"jobs": {"labels": {"team": "a", "tier": "gold"}}})))
    assert client.queue("jobs").info().labels == {"team": "a", "tier": "gold"}
    changed = spoolrack("queues", "apply", str(declare({"jobs": {"labels": {"team": "b"}}})))
    assert changed.err == "spoolrack: jobs: set label team to 'b', removed label tier\n"
    kept = spoolrack("queues", "apply", str(declare({"jobs": {}})))
    assert kept.err == "spoolrack: jobs: is as declared\n"
    assert client.queue("jobs").info().labels == {"team": "b"}
    wrong = spoolrack("queues", "apply", str(declare({"jobs": {"labels": {"team": 5}}})))
    assert (wrong.code, "the labels of 'jobs' are no object of texts" in wrong.err) == (65, True)


def test_queues_that_are_not_declared_are_left_alone(
    spoolrack: Spoolrack, client: Client, declare: Declare
) -> None:
    client.create_queue("mine", max_messages=9)
    assert spoolrack("queues", "apply", str(declare({"jobs": {}}))).code == 0
    assert client.queue("mine").info().settings.max_messages == 9
    assert spoolrack("queues", "apply", str(declare({}))).code == 0
    assert [info.name for info in client.list_queues()] == ["jobs", "mine"]


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("nonsense", "declares no queues"),
        ([], "declares no queues"),
        ('{"jobs": {}, "jobs": {}}', "'jobs' is declared twice"),
        ({"jobs": 5}, "the settings of 'jobs' are no object"),
        ({"jobs": {"retries": 3}}, "retries of 'jobs' is no setting; there are visibility_timeout"),
        ({"jobs": {"retention": "soon"}}, "retention of 'jobs' is \"soon\", and should be a span"),
        (
            {"jobs": {"max_receives": 1.5}},
            "max_receives of 'jobs' is 1.5, and should be a whole number",
        ),
        ({"jobs": {"max_messages": True}}, "should be a whole number"),
        ({"jobs": {"max_bytes": [1]}}, "should be a size"),
        ({"jobs": {"rate": "fast"}}, "should be a number from 0 to 1e+06"),
        ({"jobs": {"lease_durability": 1}}, "should be strict or relaxed"),
        ({"jobs": {"group_order": "odd"}}, "should be fair or strict"),
        ('{"jobs": {"max_bytes": NaN}}', "declares no queues: NaN is not JSON"),
        ('{"jobs": {"max_bytes": 1e400}}', "should be a size from 0 B to 1024.0 TiB"),
        ('{"jobs": {"retention": 1e400}}', "should be a span of time from 0s to 3650d"),
        ('{"jobs": {"max_receives": 1e400}}', "should be a whole number from 0 to 1000000000"),
        ('{"jobs": {"visibility_timeout": "13h"}}', "should be a span of time from 1ms to 12h"),
        ("[" * 100_000, "declares no queues"),
        ('{"a": ' * 100_000, "declares no queues"),
        ('{"jobs": {"retention": ' + "9" * 5_000 + "}}", "declares no queues"),
        ('{"\\ud800": {}}', "it is not UTF-8"),
        ('{"jobs": {"dead_letter_queue": "\\ud800", "max_receives": 1}}', "should be text"),
        (
            {"a": {"dead_letter_queue": "b"}, "b": {"dead_letter_queue": "a"}},
            "dead letters would go in a circle",
        ),
    ],
)
def test_a_file_that_declares_nonsense_is_refused_before_anything_is_done(
    spoolrack: Spoolrack, client: Client, declare: Declare, declared: object, says: str
) -> None:
    refused = spoolrack("queues", "apply", str(declare(declared)))
    assert refused.code == 65
    assert says in refused.err
    assert refused.err.count("\n") == 1
    assert list(client.list_queues()) == []


def test_a_refusal_of_the_server_is_reported_with_its_reason(
    spoolrack: Spoolrack, declare: Declare
) -> None:
    refused = spoolrack("queues", "apply", str(declare({"../etc": {}})))
    assert refused.code == 2
    assert "Traceback" not in refused.err
    missing = spoolrack("queues", "apply", "/nowhere/queues.json")
    assert missing.code == 2
    assert "/nowhere/queues.json" in missing.err


def test_try_lives_one_message_and_leaves_no_queue(spoolrack: Spoolrack, client: Client) -> None:
    tried = spoolrack("try")
    assert tried.code == 0
    assert tried.out.startswith("sent, received and deleted a message in ")
    assert list(client.list_queues()) == []


def test_try_says_that_no_server_is_there(server: RunningServer) -> None:
    with server.client() as client:
        client.create_queue("x")
    url = server.url.rpartition(":")[0] + ":1"
    tried = subprocess.run(
        [*PROGRAM, "try", "--url", url, "--timeout", "1s"], capture_output=True, text=True, check=False
    )
    assert tried.returncode == 69
    assert tried.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "body", "code", "says"),
    [
        (200, b'{"status": "SERVING"}', 0, ""),
        (503, b'{"status": "NOT_SERVING", "why": "the disk failed"}', 1, "the disk failed"),
        (503, b"<html>", 1, "it answers 503"),
    ],
)
@pytest.mark.parametrize("which", ["ready", "live"])
def test_health_is_told_by_the_exit_code(
    offline: Spoolrack, which: str, status: int, body: bytes, code: int, says: str
) -> None:
    paths = ("/-/health/ready", "/-/health/live")
    with answering(lambda path: (status if path in paths else 404, "text/plain", body)) as port:
        address = f"127.0.0.1:{port}"
        asked = offline("health", which, "--health", address)
        everywhere = offline("health", which, "--health", address.replace("127.0.0.1", "0.0.0.0"))
    assert (asked.code, asked.out) == (code, "")
    assert says in asked.err
    assert everywhere.code == code


def test_health_reports_an_unreachable_server(offline: Spoolrack) -> None:
    asked = offline("health", "--health", "127.0.0.1:1")
    assert asked.code == 69
    assert "no server answers at 127.0.0.1:1" in asked.err
