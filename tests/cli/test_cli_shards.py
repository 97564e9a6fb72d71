"""The command line over the addresses of several shards: all of them are shown, and one that is away is
told in a line of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack.testing import RunningShards, running_shards
from spoolrack_server.cli.kit.exit_codes import NOTHING, OK, UNAVAILABLE, USAGE
from spoolrack_store.model.shards import shard_of

from tests.cli.cli_rig import Result, Spoolrack

OF = {shard: next(f"q{n}" for n in range(100) if shard_of(f"q{n}", 3) == shard) for shard in range(3)}
"""A queue of each shard."""
LIVING = sorted([OF[0], OF[2]])


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningShards]:
    with running_shards(3) as shards:
        monkeypatch.setenv("SPOOLRACK_URL", shards.url.replace("grpc://", ""))
        with shards.client() as client:
            for name in OF.values():
                client.create_queue(name)
        yield shards


def said(result: Result) -> list[str]:
    """Return the lines of the command: the servers of this process write to the same place."""
    return [line for line in result.err.splitlines() if line.startswith("spoolrack: ")]


def names_in(table: str) -> list[str]:
    return [line.split()[0] for line in table.splitlines()[1:]]


@pytest.mark.parametrize("command", [["queues", "list"], ["top", "--once"]])
def test_the_queues_of_all_shards_are_listed(
    shards: RunningShards, offline: Spoolrack, command: list[str]
) -> None:
    result = offline(*command)
    assert (result.code, said(result)) == (OK, [])
    assert names_in(result.out) == sorted(OF.values())


def test_an_archive_of_all_queues_has_those_of_each_shard_or_is_not_made(
    shards: RunningShards, offline: Spoolrack, tmp_path: Path
) -> None:
    whole, partial = tmp_path / "whole", tmp_path / "partial"
    assert offline("export", "--all", "--output", str(whole)).code == OK
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    assert [each["name"] for each in lines if each["type"] == "queue"] == sorted(OF.values())
    shards.servers[1].stop()
    export = ("export", "--all", "--timeout", "1", "--output", str(partial))
    assert offline(*export).code == UNAVAILABLE
    assert not partial.exists()


@pytest.mark.parametrize("queues", [[], ["jobs", "--all"]])
def test_an_export_is_of_named_queues_or_of_all(offline: Spoolrack, queues: list[str]) -> None:
    result = offline("export", *queues)
    assert (result.code, "Name the queues, or give --all." in result.err) == (USAGE, True)


@pytest.mark.parametrize("command", [["queues", "list"], ["top", "--once"]])
def test_a_shard_that_is_away_has_a_line_and_the_exit_code_says_so(
    shards: RunningShards, offline: Spoolrack, command: list[str]
) -> None:
    shards.servers[1].stop()
    result = offline(*command)
    assert result.code == UNAVAILABLE
    assert names_in(result.out) == LIVING
    (line,) = said(result)
    assert line.startswith(f"spoolrack: Shard 1/3 at {shards.servers[1].url} has been away for ")
    shards.servers[0].stop()
    two = offline("queues", "list", "--json")
    assert two.code == UNAVAILABLE
    assert [json.loads(line)["name"] for line in two.out.splitlines()] == [OF[2]]
    assert [line.split(" at ")[0] for line in said(two)] == [
        "spoolrack: Shard 0/3",
        "spoolrack: Shard 1/3",
    ]


def test_a_declaration_reaches_the_other_shards_of_one_that_is_away(
    shards: RunningShards, offline: Spoolrack, tmp_path: Path
) -> None:
    file = tmp_path / "queues.json"
    file.write_text(
        json.dumps({name: {"max_messages": 7} for name in (*OF.values(), f"{OF[1]}--dead")})
    )
    shards.servers[1].stop()
    result = offline("queues", "apply", "--timeout", "1s", str(file))
    assert result.code == UNAVAILABLE
    told = dict(line.removeprefix("spoolrack: ").split(": ", 1) for line in said(result))
    assert {name: told[name].split()[0] for name in told} == {
        **dict.fromkeys(LIVING, "set"),
        **dict.fromkeys((OF[1], f"{OF[1]}--dead"), "left"),
    }


def test_a_queue_is_described_and_used_wherever_it_is(
    shards: RunningShards, offline: Spoolrack
) -> None:
    for name in OF.values():
        assert offline("send", name, "hello").code == OK
        _, counts, *_ = offline("queues", "describe", name).out.splitlines()
        assert counts.split()[:4] == [name, "1", "0", "0"]
        assert offline("receive", name, "--delete").out == "hello"


@pytest.mark.parametrize("how", [["--delete"], ["--exec", "cat; echo"]])
def test_a_receive_that_follows_takes_several_queues_and_patterns(
    shards: RunningShards, offline: Spoolrack, how: list[str]
) -> None:
    with shards.client() as client:
        for name in OF.values():
            client.queue(name).send_many([f"{name} {number}" for number in range(3)])
        result = offline("receive", OF[0], "q[1-9]*", "q0", "--follow", "--max", "9", *how)
        assert result.code == OK
        assert sorted(result.out.split("\n")[:-1]) == sorted(
            f"{name} {number}" for name in OF.values() for number in range(3)
        )
        for name in OF.values():
            counts = client.queue(name).info().counts
            assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_a_receive_that_follows_gets_more_messages_than_a_stream_has_places(
    shards: RunningShards, offline: Spoolrack
) -> None:
    busy, idle = OF[0], OF[1]
    with shards.client() as client:
        client.queue(busy).send_many([str(number) for number in range(700)])
        result = offline(
            *("receive", busy, idle, "--follow", "--max", "700", "--visibility-timeout", "1h")
        )
        assert sorted(map(int, result.out.split())) == list(range(700))
        assert client.queue(busy).info().counts.leased_count == 700


def test_a_message_that_a_command_fails_on_is_delayed_and_holds_up_no_other(
    shards: RunningShards, offline: Spoolrack
) -> None:
    with shards.client() as client:
        jobs = client.queue(OF[0])
        jobs.send_many(["bad", "good"])
        command = 'test "$(cat)" = good'
        result = offline("receive", OF[0], OF[1], "--follow", "--max", "2", "--exec", command)
        assert result.code == NOTHING
        counts = jobs.info().counts
        assert (counts.ready_count, counts.leased_count, counts.delayed_count) == (0, 0, 1)


def test_a_proxy_that_routes_by_queues_is_told_the_queue_of_each_call(
    shards: RunningShards, offline: Spoolrack
) -> None:
    proxy = "--url", shards.servers[0].url, "--routing", "header"
    assert offline("send", OF[0], "hello", *proxy).code == OK
    listed = offline("queues", "list", *proxy)
    assert listed.code == USAGE
    assert "routes by queues" in listed.err
