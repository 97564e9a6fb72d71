"""docs/how-to/sqs.md tells the truth: its commands and programs run, and its tables are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from spoolrack_server.sqs.queue_attributes import NAMES
from spoolrack_server.sqs.sqs_operations import OPERATIONS

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.serving import output_of, serving

PAGE = (CHECKOUT / "docs/how-to/sqs.md").read_text()
ADDRESS = "127.0.0.1:9324"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SPOOLRACK_")}


@contextmanager
def served(command: str, folder: Path) -> Iterator[str]:
    """Run the page's `spoolrack serve`, at a free port; yield the URL that it tells."""
    words = command.replace(ADDRESS, "127.0.0.1:0").split()[2:]
    with serving(*words, "--grpc", "127.0.0.1:0", "--http", "off", folder=folder) as server:
        yield server.at("SQS")


def printed(program: str, folder: Path, exports: dict[str, str]) -> list[str]:
    told = {**environment(), **exports}
    return output_of(sys.executable, "-c", program, folder=folder, environment=told).splitlines()


def exported(text: str, url: str) -> dict[str, str]:
    found = dict(re.findall(r"(AWS_\w+)=(\S+)", text))
    return {name: value.replace(f"http://{ADDRESS}", url) for name, value in found.items()}


def test_the_programs_of_the_page_run_with_its_environment(tmp_path: Path) -> None:
    command = re.search(r"`(spoolrack serve --sqs [^`]*)`", PAGE)
    assert command is not None
    first, second = blocks("python")
    with served(command[1], tmp_path) as url:
        exports = exported(blocks("sh")[0], url)
        assert exports["AWS_ENDPOINT_URL_SQS"] == url
        assert printed(first, tmp_path, exports) == ["resize cat.jpg"]
        assert printed(second, tmp_path, exports) == ["ordered", "paid", "sent"]


def test_the_keys_of_the_page_are_those_that_its_server_takes(tmp_path: Path) -> None:
    (keys_block,) = [block for block in blocks("sh") if "sqs-key" in block]
    make, serve = keys_block.splitlines()
    run = make.replace("spoolrack ", f"{sys.executable} -m spoolrack_server ", 1)
    subprocess.run(run, shell=True, cwd=tmp_path, env=environment(), check=True, timeout=STUCK)
    keys = exported((tmp_path / "worker.env").read_text(), "")
    with served(serve, tmp_path) as url:
        exports = exported(blocks("sh")[0], url)
        program = blocks("python")[0]
        assert printed(program, tmp_path, {**exports, **keys}) == ["resize cat.jpg"]
        lines = "\n".join(f"    {line}" for line in program.splitlines())
        refused = f"try:\n{lines}\nexcept Exception as error:\n    print(error)"
        assert "InvalidClientTokenId" in printed(refused, tmp_path, exports)[0]


def test_the_tables_have_every_operation_and_every_attribute() -> None:
    model = boto3.client("sqs", region_name="us-east-1").meta.service_model
    told = set(re.findall(r"\w+", "\n".join(re.findall(r"^\| ([^|]*) \|", PAGE, re.MULTILINE))))
    assert frozenset(model.operation_names) == OPERATIONS
    assert told >= OPERATIONS
    known = set(model.shape_for("QueueAttributeName").enum) - {"All"}
    assert known == NAMES
    assert told >= known
