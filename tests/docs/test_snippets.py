"""The Python, the commands and the daemons of the how-to pages run, each page in its order.

Pages with a test of their own are not here: celery, http, kubernetes, languages, operating, quickstart,
shards, spark and sqs. Docker's commands run where there is an engine only (tests/image).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import spoolrack.aio
from spoolrack import vsqs
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.conversation import conversation, run
from tests.support.serving import output_of

HOW_TO: Final = CHECKOUT / "docs" / "how-to"
PROGRAM: Final = f"{sys.executable} -m spoolrack_server"


class Snippet(NamedTuple):
    """What a snippet has around it, and what shows that it ran."""

    page: str
    number: int
    """Of the page's Python, from 0."""
    before: str = ""
    after: str = "print('ran')"
    prints: str = "ran"
    """The last line that it prints. A snippet without an end is killed then."""


CLIENT: Final = """
import spoolrack
client = spoolrack.connect("127.0.0.1:50051")
jobs = client.create_queue("jobs")
"""
HANDLING: Final = f"""{CLIENT}
ready_for = valid = lambda message: True
handle = lambda message: print(message.text, flush=True)
jobs.send("handled")
"""

KEYS: Final = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
}

SHARDS: Final = """
import spoolrack
from spoolrack.testing import running_shards
running = running_shards(3)
shards = running.__enter__()
"""

POSTED: Final = """
from fastapi.testclient import TestClient
with TestClient(app) as browser:
    print(browser.post("/pictures/cat.jpg").json().keys())
"""
DJANGO: Final = f"""{CLIENT}
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
"""
REQUESTED: Final = """
from django.test import Client
from django.urls import path
urlpatterns = [path("pictures/<name>", upload)]
print(Client().post("/pictures/cat.jpg").json().keys())
"""
SHOP: Final = """
import sqlite3
from types import SimpleNamespace
with sqlite3.connect("shop.db") as shop:
    shop.execute("CREATE TABLE handled (id TEXT PRIMARY KEY)")
    shop.execute("CREATE TABLE stock (article TEXT, pieces INTEGER)")
    shop.execute("INSERT INTO stock VALUES ('lamp', 10)")
jobs = SimpleNamespace(work=lambda handler: None)
"""
TWICE: Final = """
for _ in range(2):
    handler(SimpleNamespace(id="1", text="lamp"))
print(shop.execute("SELECT pieces FROM stock").fetchone()[0])
"""

SNIPPETS: Final = (
    Snippet("client", 0, prints="hello"),
    Snippet("client", 1, HANDLING, prints="handled"),
    Snippet(
        "client",
        2,
        f"{CLIENT}order = 'one'",
        "jobs.send('another', deduplication_id='order-4711'); print(jobs.info().counts.ready_count)",
        "1",
    ),
    Snippet(
        "client",
        3,
        f"{CLIENT}from types import SimpleNamespace\norder = SimpleNamespace(body=b'', customer=7)",
        "print(orders.receive()[0].group)",
        "customer-7",
    ),
    Snippet("client", 4, CLIENT, "print(jobs.receive()[0].text)", "reset a password"),
    Snippet("client", 5, f"{CLIENT}rows = [b'a', b'b']", "", "2"),
    Snippet("client", 6, f"{CLIENT}jobs.send('a')", "print(jobs.info().counts.leased_count)", "0"),
    Snippet("client", 7, CLIENT.replace("jobs =", "#"), "", "0"),
    Snippet("client", 8, f"{CLIENT}client.create_queue('urgent').send('hello')", prints="urgent hello"),
    Snippet("client", 9, f"{HANDLING}client.create_queue('mail').send('handled')", prints="handled"),
    Snippet("client", 10, SHARDS, "", "['jobs']"),
    Snippet("client", 11, "import spoolrack"),
    Snippet("client", 12),
    Snippet("limits", 0, CLIENT, "print(crawl.receive()[0].group)", "example.org"),
    Snippet("retries", 0, HANDLING, prints="handled"),
    Snippet("retries", 1, CLIENT.replace("jobs =", "#")),
    Snippet("schedules", 0, f"{CLIENT}client.create_queue('reports')"),
    Snippet("from-vsqs", 0),
    Snippet("from-vsqs", 1, prints="of vsqs"),
    Snippet("large-bodies", 0),
    Snippet("idempotent-consumers", 0, SHOP, TWICE, "9"),
    Snippet("poison-messages", 0, CLIENT.replace("jobs =", "#")),
    Snippet("poison-messages", 1, HANDLING, prints="handled"),
    Snippet("deploys", 0, HANDLING, prints="handled handled"),
    Snippet("web-apps", 0, CLIENT, POSTED, "dict_keys(['id'])"),
    Snippet("web-apps", 1, DJANGO, REQUESTED, "dict_keys(['id'])"),
    Snippet("web-apps", 2, prints="cat.jpg"),
    Snippet("from-redis-and-rabbitmq", 0, CLIENT, prints="resized cat.jpg 300"),
    Snippet("from-redis-and-rabbitmq", 1, HANDLING, prints="handled handled"),
)


def python_of(page: str) -> list[str]:
    text = (HOW_TO / f"{page}.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path / "root") as server:
        yield server


def typed(server: Server, folder: Path) -> dict[str, str]:
    """Return what the commands of the pages name, and what stands for it in this test."""
    program = f"SPOOLRACK_URL={server.grpc_address} {PROGRAM} "
    return {"spoolrack ": program, "ffprobe": "wc -c <", **places(server, folder)}


def places(server: Server, folder: Path) -> dict[str, str]:
    return {
        "127.0.0.1:50051": server.grpc_address,
        "http://localhost:8080": str(server.http_url),
        "/var/lib/spoolrack": f"{folder}/root",
        '"a:50051,b:50051,c:50051"': "shards.url",
        "/srv/": f"{folder}/srv/",
        "/tmp/mq": f"{folder}/mq",
    }


def put(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def vsqs_queue(folder: Path) -> None:
    """Make a queue of vsqs with a message."""
    folder.mkdir(parents=True)
    with vsqs.Queue(str(folder), capacity=1_000) as queue:
        queue.publish(b"of vsqs")


def test_all_python_of_the_pages_is_run() -> None:
    pages = dict.fromkeys(each.page for each in SNIPPETS)
    assert [(each.page, each.number) for each in SNIPPETS] == [
        (page, number) for page in pages for number in range(len(python_of(page)))
    ]
    untested = {path.stem for path in HOW_TO.glob("*.md") if "```python" in path.read_text()}
    own = {"celery", "from-localstack", "shards", "spark", "sqs"}
    assert untested - pages.keys() == own  # have tests of their own


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda each: f"{each.page}-{each.number}")
async def test_the_python_of_a_page_does_what_it_says(
    server: Server, tmp_path: Path, snippet: Snippet
) -> None:
    shown = python_of(snippet.page)[snippet.number]
    (tmp_path / "holiday.mov").write_bytes(b"film")
    if re.search("from (fastapi|django)", shown) and not find_spec("django"):
        pytest.skip("needs FastAPI and Django: make test sets them up")
    if snippet.page == "from-vsqs":
        vsqs_queue(tmp_path / "srv" / "queues" / "jobs")
    async with spoolrack.aio.connect(server.grpc_address) as client:
        if snippet.page == "large-bodies":
            await client.create_queue("videos", max_message_size=1 << 40)
        code = put("\n".join((snippet.before, shown, snippet.after)), places(server, tmp_path))
        await asyncio.to_thread(_run_until, snippet.prints, code, tmp_path)


def _run_until(wanted: str, code: str, folder: Path) -> None:
    """Run a program until it prints a line, and see that it said nothing of an error."""
    program = subprocess.Popen(
        [sys.executable, "-u", "-c", code],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    lines = []
    while line := program.stdout.readline():
        lines.append(line.rstrip("\n"))
        if wanted in line:
            program.kill()  # some never end
            break
    _, said = program.communicate(timeout=STUCK)
    assert lines, said
    assert wanted in lines[-1], said
    assert "Error" not in said, said


def blocks(page: str, kind: str = "") -> list[str]:
    text = (CHECKOUT / "docs" / f"{page}.md").read_text()
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for each, block in found if each == kind]


async def test_messages_of_another_server_of_sqs_are_moved_as_the_page_says(tmp_path: Path) -> None:
    port = ("127.0.0.1", 0)
    async with (
        Server(ServeSettings(root=str(tmp_path / "old"), sqs=port)) as old,
        Server(ServeSettings(root=str(tmp_path / "new"), sqs=port)) as new,
        spoolrack.aio.connect(old.grpc_address) as before,
        spoolrack.aio.connect(new.grpc_address) as after,
    ):
        source = await before.create_queue("jobs")
        for number in range(25):
            await source.send(f"job {number}", attributes={"colour": "red"})
        (code,) = python_of("from-localstack")
        names = {"http://localhost:4566": old.sqs_url, "http://127.0.0.1:9324": new.sqs_url}
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", put(code, {name: str(url) for name, url in names.items()})),
            env={**os.environ, **KEYS},
        )
        assert await asyncio.wait_for(done.wait(), STUCK) == 0
        moved = await after.queue("jobs").receive(100)
        assert [each.text for each in moved] == [f"job {number}" for number in range(25)]
        assert {each.attributes["colour"] for each in moved} == {"red"}
        assert (await source.info()).counts.ready_count == 0


@pytest.mark.parametrize("page", ["poison-messages", "monitoring", "sizing"])
async def test_the_commands_of_a_short_page_succeed(server: Server, tmp_path: Path, page: str) -> None:
    async with spoolrack.aio.connect(server.grpc_address) as client:
        await client.create_queue("failed")
        jobs = await client.create_queue("jobs", max_receives=5, dead_letter_queue="failed")
        await jobs.send("bad")
        await jobs.send("good")
        await (await jobs.receive())[0].reject("it is bad")
    shown = conversation((HOW_TO / f"{page}.md").read_text())
    assert shown
    shown[0] = shown[0]._replace(command=f"set -e -o pipefail; {shown[0].command}")
    await asyncio.to_thread(run, shown, tmp_path, typed(server, tmp_path))


async def test_a_large_body_is_sent_and_received_as_the_page_says(
    server: Server, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: make system-tools installs it")
    (tmp_path / "holiday.mov").write_bytes(bytes(2_000_000))
    # In the output that the page shows, too.
    page = (HOW_TO / "large-bodies.md").read_text().replace("/srv/videos", "videos")
    await asyncio.to_thread(run, conversation(page), tmp_path, typed(server, tmp_path))
    assert (tmp_path / "part").stat().st_size == 1_000_000


async def test_queues_are_imported_and_exported_as_the_pages_say(
    server: Server, tmp_path: Path
) -> None:
    commands = [
        line
        for page in ("how-to/import-export", "how-to/from-vsqs")
        for block in blocks(page)
        for line in block.splitlines()
        if line.startswith("spoolrack ")
    ]
    assert len(commands) == 6
    vsqs_queue(tmp_path / "srv" / "vsqs" / "jobs")
    vsqs_queue(tmp_path / "srv" / "queues" / "jobs")
    for folder in ("new", "delay", "remove", "queues/mails"):
        (tmp_path / "mq" / folder).mkdir(parents=True)
    (tmp_path / "mq" / "queues" / "mails" / str(uuid.uuid4())).write_bytes(b"of mq")
    for command in commands:
        await asyncio.to_thread(
            subprocess.run,
            put(command, typed(server, tmp_path)),
            shell=True,
            cwd=tmp_path,
            check=True,
            timeout=STUCK,
        )
    async with spoolrack.aio.connect(server.grpc_address) as client:
        found = {each.name: each.counts.ready_count async for each in client.list_queues()}
    assert found == {"jobs": 3, "mails": 2}  # the archive has one of each again


async def test_the_servers_and_daemons_of_the_pages_start_and_end(tmp_path: Path) -> None:
    commands = [
        line.partition("#")[0].split()[1:]
        for page in ("how-to/from-softlayer-mq", "explanation/several-processes")
        for block in blocks(page)
        for line in block.splitlines()
    ]
    assert len(commands) == 9
    for command in commands:
        text = (
            " ".join(command).replace("ROOT", f"{tmp_path}/root").replace("/tmp/mq", f"{tmp_path}/mq")
        )
        if command[0] == "serve":
            root = "mq" if "mq" in command else "root"
            text += f" --root {tmp_path}/{root} --grpc 127.0.0.1:0 --http 127.0.0.1:0"
        daemon = subprocess.Popen(
            [*PROGRAM.split(), *text.split()], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        # A daemon says nothing until it has begun, and then a line.
        await asyncio.to_thread(daemon.stderr.readline)
        daemon.terminate()
        _, said = await asyncio.to_thread(daemon.communicate, timeout=STUCK)
        assert daemon.returncode == 0, (text, said)


async def test_a_server_with_tls_and_tokens_is_set_up_as_the_page_says(tmp_path: Path) -> None:
    if shutil.which("openssl") is None or shutil.which("curl") is None:
        pytest.skip("needs openssl and curl: make system-tools installs them")
    certificates, tokens = blocks("how-to/security", "sh")
    serve, use = blocks("how-to/security")[0].split("\n\n")
    script = put(
        f"set -e\n{certificates}\n{tokens}\n{serve} >said 2>&1 &\nserver=$!\n"
        "trap 'kill $server; wait $server' EXIT\n"
        "until grep -q event=serving said; do kill -0 $server || { cat said; exit 1; }; done\n"
        "grpc=$(sed -n 's/.* grpc=[^ ]*:\\([0-9]*\\) .*/\\1/p' said)\n"
        "http=$(sed -n 's/.* http=[^ ]*:\\([0-9]*\\) .*/\\1/p' said)\n"
        f"{use}",
        {
            "spoolrack ": f"{PROGRAM} ",
            "0.0.0.0:50051": "127.0.0.1:0",
            "0.0.0.0:8080": f"127.0.0.1:0 --root {tmp_path}/root",
            "localhost:50051": "localhost:$grpc",
            "localhost:8080": "localhost:$http",
        },
    )
    assert "hello" in await asyncio.to_thread(output_of, "bash", "-c", script, folder=tmp_path)
