"""`spoolrack shard`: the shard of a name, for those who address a server by hand."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from spoolrack_server.cli.program import run

from tests import CHECKOUT

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    (CHECKOUT / "tests" / "vectors" / "shards.json").read_text()
)["vectors"]


def test_it_prints_the_number_alone_for_use_in_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for vector in VECTORS[:20]:
        for count, number in vector["shards"].items():
            assert run(("shard", vector["queue"], "--shards", count)) == 0
            assert capsys.readouterr().out == f"{number}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a/b", "--shards", "8"), "'a/b' can't be a queue's name"),
        (("jobs", "--shards", "0"), "'--shards'"),
        (("jobs",), "Missing option '--shards'"),
    ],
)
def test_what_is_no_queue_or_no_number_of_shards_is_refused(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(("shard", *arguments)) == 2
    assert says in " ".join(capsys.readouterr().err.split())
