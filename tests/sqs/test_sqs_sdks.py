"""The AWS CLI and the AWS SDK for JavaScript v3, as pip and npm install them, against a real server;
and the examples of docs/how-to/sqs.md for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import CHECKOUT
from tests.docs.test_sqs_page import blocks, environment, exported, served

SDK = Path(__file__).with_name("aws-sdk-js")
INSTALL = 300.0
SERVE = "spoolrack serve --sqs 127.0.0.1:9324 --data data"
QUEUE = "q"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL,
        check=False,
    )


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with served(SERVE, tmp_path) as url:
        yield url


@pytest.fixture
def settings(url: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a client: that of the page, and no file of this machine's user."""
    return {**environment(), **exported(blocks("sh")[0], url), "HOME": str(tmp_path)}


# The AWS CLI.


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of the AWS CLI's program."""
    folder = tmp_path_factory.mktemp("cli")
    venv.create(folder, with_pip=True)
    pins = str(CHECKOUT / "requirements" / "sqs-cli.txt")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
    done = run(*pip, "-r", pins, folder=folder, env=os.environ)
    assert done.returncode == 0, done.stderr
    yield folder / "bin"
    shutil.rmtree(folder)


class Cli:
    """The commands of `aws sqs`, by their names with underscores."""

    def __init__(self, program: Path, folder: Path, env: Mapping[str, str]) -> None:
        self._program = str(program / "aws")
        self._folder = folder
        self._env = env

    def run(self, operation: str, **options: Any) -> subprocess.CompletedProcess[str]:
        # Version 1 ignores AWS_ENDPOINT_URL_SQS in Amazon's regions.
        words = [self._program, "sqs", "--endpoint-url", self._env["AWS_ENDPOINT_URL_SQS"]]
        words.append(operation.replace("_", "-"))
        for name, value in options.items():
            words.append(f"--{name.replace('_', '-')}")
            words += value if isinstance(value, list) else [str(value)]
        return run(*words, folder=self._folder, env=self._env)

    def __getattr__(self, operation: str) -> Any:
        def call(**options: Any) -> Any:
            done = self.run(operation, **options)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout) if done.stdout.strip() else {}

        return call


def test_the_aws_cli_does_all_that_it_can(cli: Path, settings: dict[str, str], tmp_path: Path) -> None:
    aws = Cli(cli, tmp_path, settings)
    dead = aws.create_queue(queue_name="dead")["QueueUrl"]
    shown = aws.get_queue_attributes(queue_url=dead, attribute_names="QueueArn")
    arn = shown["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    attributes = json.dumps({"VisibilityTimeout": "30", "RedrivePolicy": policy})
    queue = aws.create_queue(queue_name=QUEUE, attributes=attributes, tags="a=1")["QueueUrl"]
    assert queue == f"{settings['AWS_ENDPOINT_URL_SQS']}/000000000000/{QUEUE}"
    assert aws.get_queue_url(queue_name=QUEUE)["QueueUrl"] == queue
    assert aws.list_queues(queue_name_prefix="d")["QueueUrls"] == [dead]
    # The CLI follows the tokens of pages.
    assert aws.list_queues(page_size=1)["QueueUrls"] == [dead, queue]
    assert aws.list_dead_letter_source_queues(queue_url=dead)["queueUrls"] == [queue]
    aws.tag_queue(queue_url=queue, tags="b=2")
    aws.untag_queue(queue_url=queue, tag_keys="a")
    assert aws.list_queue_tags(queue_url=queue)["Tags"] == {"b": "2"}
    aws.set_queue_attributes(queue_url=queue, attributes="DelaySeconds=0")

    given = {"color": {"DataType": "String", "StringValue": "red"}}
    sent = aws.send_message(
        queue_url=queue, message_body="<a>&\u00e4", message_attributes=json.dumps(given)
    )
    everything = {"message_system_attribute_names": "All", "message_attribute_names": "All"}
    (got,) = aws.receive_message(queue_url=queue, wait_time_seconds=1, **everything)["Messages"]
    assert (got["MessageId"], got["Body"]) == (sent["MessageId"], "<a>&\u00e4")
    assert got["MessageAttributes"] == given
    assert got["Attributes"]["ApproximateReceiveCount"] == "1"
    handle = got["ReceiptHandle"]
    aws.change_message_visibility(queue_url=queue, receipt_handle=handle, visibility_timeout=0)
    assert aws.receive_message(queue_url=queue) == {}
    counts = aws.get_queue_attributes(queue_url=dead, attribute_names="All")["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "1"
    task = aws.start_message_move_task(source_arn=arn)["TaskHandle"]
    moved = "RUNNING"
    while moved == "RUNNING":
        (found,) = aws.list_message_move_tasks(source_arn=arn)["Results"]
        moved = found["Status"]
    assert (moved, found["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    (back,) = aws.receive_message(queue_url=queue, wait_time_seconds=20)["Messages"]
    aws.delete_message(queue_url=queue, receipt_handle=back["ReceiptHandle"])

    entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(3)]
    batch = aws.send_message_batch(queue_url=queue, entries=json.dumps(entries))
    assert len(batch["Successful"]) == 3
    messages = aws.receive_message(queue_url=queue, max_number_of_messages=10)["Messages"]
    assert [message["Body"] for message in messages] == ["m0", "m1", "m2"]
    targets = [
        {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)
    ]
    changes = json.dumps([{**target, "VisibilityTimeout": 60} for target in targets])
    changed = aws.change_message_visibility_batch(queue_url=queue, entries=changes)
    assert len(changed["Successful"]) == 3
    deleted = aws.delete_message_batch(queue_url=queue, entries=json.dumps(targets))
    assert len(deleted["Successful"]) == 3

    aws.add_permission(queue_url=queue, label="x", aws_account_ids="1", actions="*")
    aws.remove_permission(queue_url=queue, label="x")
    for code, operation, options in (
        ("AWS.SimpleQueueService.NonExistentQueue", "get_queue_url", {"queue_name": "none"}),
        (
            "QueueAlreadyExists",
            "create_queue",
            {"queue_name": QUEUE, "attributes": "VisibilityTimeout=31"},
        ),
        ("ReceiptHandleIsInvalid", "delete_message", {"queue_url": queue, "receipt_handle": "x"}),
        ("ResourceNotFoundException", "cancel_message_move_task", {"task_handle": task}),
        ("InvalidParameterValue", "remove_permission", {"queue_url": queue, "label": "x"}),
    ):
        refused = aws.run(operation, **options)
        assert refused.returncode != 0
        assert f"({code})" in refused.stderr
    aws.purge_queue(queue_url=queue)
    aws.delete_queue(queue_url=queue)
    assert aws.list_queues()["QueueUrls"] == [dead]


def test_the_commands_of_the_page_run(cli: Path, settings: dict[str, str], tmp_path: Path) -> None:
    (commands,) = [block for block in blocks("sh") if "aws sqs" in block]
    install, _, commands = commands.partition("\n")
    assert install == "pip install awscli"
    path = f"{cli}{os.pathsep}{settings['PATH']}"
    done = run("sh", "-euc", commands, folder=tmp_path, env={**settings, "PATH": path})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "resize dog.jpg"


# The AWS SDK for JavaScript.


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with the SDK in its node_modules, and the program on it."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: install Node 20 or newer")
    folder = tmp_path_factory.mktemp("sdk")
    for path in SDK.glob("*.js*"):
        shutil.copy(path, folder)
    npm = ["npm", "ci", "--no-progress", "--no-audit", "--no-fund", "--loglevel=error"]
    done = run(*npm, folder=folder, env=with_certificates())
    assert done.returncode == 0, done.stderr
    yield folder
    shutil.rmtree(folder)


def with_certificates() -> dict[str, str]:
    """Let Node know the CA that pip knows: where a proxy inspects what comes from the registry."""
    names = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "PIP_CERT")
    paths = [os.environ.get(name, "") for name in names]
    known = [path for path in (*paths, "/etc/ssl/certs/ca-certificates.crt") if os.path.exists(path)]
    return {**os.environ, **({"NODE_EXTRA_CA_CERTS": known[0]} if known else {})}


def test_the_sdk_for_javascript_does_all_that_it_can(
    sdk: Path, url: str, settings: dict[str, str]
) -> None:
    done = run("node", "client.js", url, folder=sdk, env=settings)
    assert done.stdout == "all of it works\n", done.stderr


def test_the_program_of_the_page_in_javascript_runs(sdk: Path, settings: dict[str, str]) -> None:
    (program,) = blocks("js")
    (sdk / "page.mjs").write_text(program)
    done = run("node", "page.mjs", folder=sdk, env=settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "resize cow.jpg\n"
