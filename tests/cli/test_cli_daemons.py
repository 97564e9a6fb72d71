"""softlayer/mq's three daemons (`serve`, `mover`, `reaper`), its defaults, and several servers at once.

Each is started as its users start it, and ended by its own pid.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin

import pytest
import spoolrack
from click.testing import CliRunner
from spoolrack_server.cli.operators import serve_command
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_store.files import layout
from spoolrack_store.files.changes import LOCK
from spoolrack_store.files.changes import PATH as CHANGES
from spoolrack_store.store import Store

from tests.cli.cli_rig import Spoolrack
from tests.support import STUCK
from tests.support.scrape import scrape_of
from tests.support.serving import PROGRAM
from tests.support.waiting import until

Launch = Callable[..., "Running"]
Answer = TypeVar("Answer")


class Running:
    """A daemon, and what it has said so far."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [*PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    @property
    def out(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def err(self) -> list[str]:
        return self._err.read_text().splitlines()

    def hears(self, words: str) -> None:
        until(lambda: self.is_over() or any(words in line for line in [*self.out, *self.err]))
        assert any(words in line for line in [*self.out, *self.err]), (self.out, self.err)

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(STUCK)

    def address(self, door: str) -> str:
        """Return where a server listens, once it does."""
        self.hears("HTTP ")
        (found,) = [match[1] for line in self.out if (match := re.match(rf" +{door} +(\S+)", line))]
        return found


@pytest.fixture
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    running: list[Running] = []

    def start(*arguments: object) -> Running:
        running.append(Running(tmp_path_factory.mktemp("daemon"), *arguments))
        return running[-1]

    yield start
    for each in running:
        if not each.is_over():
            each.process.kill()
        each.wait()


def serve(launch: Launch, root: Path, *more: object) -> Running:
    at = ("--root", root, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    return launch("serve", *at, *more)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_three_daemons_do_what_their_ancestors_did(launch: Launch, tmp_path: Path) -> None:
    root = tmp_path / "mq"
    server = serve(launch, root, "--no-mover", "--no-reaper", "--workers", 8, "--peers", 0)
    with spoolrack.connect(server.address("gRPC")) as client:
        client.create_queue("queue001", visibility_timeout=0.2)
        queue = client.queue("queue001")
        queue.send(b"a")
        assert queue.receive()[0].receive_count == 1
        (again,) = queue.receive(wait=30)
        assert again.receive_count == 2, "it comes back without a mover"
        queue.delete_many([spoolrack.ById(again.id)])
        assert len(names(root / "remove")) == 1
        by_hand = root / "new" / "queue001:4ad814ab-213e-11e3-a9a3-0025904f6e08"
        by_hand.write_bytes(b"by hand")
        movers = [
            launch("mover", "--source", root / folder, "--destination", root / "queues", "--delay", 0)
            for folder in ("new", "delay")
        ]
        reaper = launch("reaper", "--source", root / "remove")
        until(lambda: not by_hand.exists() and not names(root / "remove"))
        assert [message.body for message in queue.receive(9, wait=30)] == [b"by hand"]
        until(lambda: not names(root / "delay"))
        for daemon in (*movers, reaper):
            assert daemon.end() == 0, daemon.err
            assert "Traceback" not in "\n".join(daemon.err)
        (found,) = queue.receive(9)
        assert (found.body, found.receive_count) == (b"by hand", 2)
    assert server.end() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("mover", "--source", "{}/new", "--destination", "{}/elsewhere"), 2, "ROOT/queues"),
        (("mover", "--source", "{}/queues", "--destination", "{}/queues"), 2, "ROOT/new or ROOT/delay"),
        (("mover", "--source", "{}/new", "--destination", "{}/other/queues"), 66, "not a root"),
        (("mover", "--source", "{}/new"), 2, "--destination"),
        (("mover", "--destination", "{}/queues"), 2, "--source"),
        (("reaper",), 2, "--source"),
        (("reaper", "--source", "{}/new"), 2, "ROOT/remove"),
        (("reaper", "--source", "{}/nowhere/remove"), 66, "serve --root"),
    ],
)
def test_a_folder_outside_one_root_is_refused(
    offline: Spoolrack, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    Store.open(tmp_path).close()
    told = offline(*(argument.format(tmp_path) for argument in arguments))
    assert told.code == code
    assert words in told.err
    made = (*layout.FOLDERS, layout.FORMAT, layout.IDENTITY, layout.RESERVE, LOCK, CHANGES)
    assert sorted(names(tmp_path)) == sorted(made), "nothing was made"


def test_folders_of_two_roots_are_refused(offline: Spoolrack, tmp_path: Path) -> None:
    for name in ("one", "two"):
        Store.open(tmp_path / name).close()
    source, destination = tmp_path / "one" / "new", tmp_path / "two" / "queues"
    told = offline("mover", "--source", str(source), "--destination", str(destination))
    assert (told.code, "not of one root" in told.err) == (2, True)


@pytest.mark.parametrize("name", ["nowhere", "."])
@pytest.mark.parametrize(
    "option",
    ["--sqs-keys", "--tls-certificate", "--tls-key", "--tls-client-ca", "--tokens", "--permissions"],
)
def test_an_option_of_serve_whose_file_is_none_is_named(
    offline: Spoolrack, tmp_path: Path, option: str, name: str
) -> None:
    told = offline("serve", "--data", str(tmp_path / "data"), "--http", "off", option, name)
    assert (told.code, f"'{option}'" in told.err) == (2, True), told.err


def chosen(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> ServeSettings:
    """Return what `serve` would serve with."""
    found: list[ServeSettings] = []

    async def serve(settings: ServeSettings, announce: object) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr("spoolrack_server.process.serve.serve", serve)
    result = CliRunner().invoke(
        serve_command.command, arguments, standalone_mode=False, auto_envvar_prefix="SPOOLRACK_SERVE"
    )
    assert result.exception is None, result.output
    return found[0]


def test_compat_mq_takes_the_defaults_of_softlayer_mq(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chosen(monkeypatch, "--compat", "mq")
    assert (found.root, found.http) == ("/tmp/mq", ("0.0.0.0", 8080))
    assert found.workers == 8
    assert (found.mover, found.reaper) == (True, True)


def test_explicit_options_win_over_compatible_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chosen(
        monkeypatch, "--compat", "mq", "--root", "/srv/mq", "--workers", "1", "--http", "off"
    )
    assert (found.root, found.http, found.workers) == ("/srv/mq", None, 1)


def test_without_compat_nothing_is_bounded_and_nothing_is_open_to_the_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = chosen(monkeypatch)
    assert (found.root, found.grpc, found.http) == ("./data", ("127.0.0.1", 50051), ("127.0.0.1", 8080))
    assert found.workers is None


def test_a_worker_process_serves_with_the_settings_of_its_supervisor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPOOLRACK_SERVE_NO_REAPER", "1")
    told = ("--no-mover", "--health", "127.0.0.1:0", "--grace", "2s", "--memory-watermark", "1MiB")
    settings = chosen(monkeypatch, *told, "--min-free-space", "2G", "--min-free-inodes", "1000")
    assert (settings.min_free_space, settings.min_free_inodes) == (2 << 30, 1_000)
    assert ServeSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    assert (settings.mover, settings.reaper, settings.grace) == (False, False, 2.0)


# Several processes.


def children(running: Running) -> list[int]:
    pid = running.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Return whether the process runs: not if it only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False  # It may also end while it is read.


def test_several_processes_share_one_port_and_one_root(launch: Launch, tmp_path: Path) -> None:
    server = serve(launch, tmp_path / "root", "--processes", 3)
    address, health = server.address("gRPC"), server.address("HTTP")
    assert len(children(server)) == 3

    def ask(call: Callable[[spoolrack.Queue], Answer]) -> Answer:
        """By a connection of its own: clients of one process share one, as long as one is open."""
        with spoolrack.connect(address) as client:
            return call(client.queue("q"))

    def have_served() -> set[str]:
        ask(lambda queue: queue.info())
        with urllib.request.urlopen(urljoin(health, "/-/metrics")) as answer:
            found = scrape_of(answer.read().decode())
        return found.labels("spoolrack_operation_duration_seconds", "process")

    with spoolrack.connect(address) as client:
        client.create_queue("q")
    for n in range(9):
        ask(lambda queue, n=n: queue.send(b"%d" % n))
    received = [message for _ in range(9) for message in ask(lambda queue: queue.receive(wait=30))]
    assert sorted(message.body for message in received) == [b"%d" % n for n in range(9)]
    for message in received:
        (deleted,) = ask(lambda queue, message=message: queue.delete_many([message.receipt]))
        assert deleted.ok, "a receipt is good with any of them"
    assert ask(lambda queue: queue.info()).counts.leased_count == 0
    with urllib.request.urlopen(health) as answer:
        assert json.load(answer)["status"] == "SERVING"
    until(lambda: len(have_served()) == 3)
    assert server.end() == 0, server.err
    assert sum("event=stopped" in line for line in server.err) == 3


def test_a_process_that_dies_is_replaced_at_the_same_port(launch: Launch, tmp_path: Path) -> None:
    server = serve(launch, tmp_path / "root", "--processes", 2)
    address = server.address("gRPC")
    for n in range(3):
        with spoolrack.connect(address, timeout=STUCK) as client:
            client.create_queue("q")
            client.queue("q").send(b"x")
            if n == 2:
                assert len(client.queue("q").receive(9, wait=30)) == 3
        before = children(server)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(set(children(server)) - set(before)) == 1)  # noqa: B023
    assert server.end(signal.SIGINT) == 0, server.err


def test_a_supervisor_that_is_killed_leaves_no_orphans(launch: Launch, tmp_path: Path) -> None:
    server = serve(launch, tmp_path / "root", "--processes", 2)
    server.address("gRPC")
    left = children(server)
    server.process.kill()
    until(lambda: not any(map(is_alive, left)))
    assert names(tmp_path / "root" / "owners") == [], "they have drained"


def test_processes_that_cannot_start_say_why_once(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = serve(launch, tmp_path / "file", "--processes", 3)
    assert refused.wait() == os.EX_CANTCREAT
    assert sum(line.startswith("spoolrack: ") for line in refused.err) == 1
    there = serve(launch, tmp_path / "root", "--processes", 2)
    taken = ("--grpc", there.address("gRPC"), "--http", "off")
    refused = launch("serve", "--root", tmp_path / "other", *taken, "--processes", 2)
    assert refused.wait() == os.EX_UNAVAILABLE, "servers of another root never share the port"
    assert there.end() == 0
