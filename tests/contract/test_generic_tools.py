"""Any call can be made with a generic tool: a shell runs the lines of docs/how-to/languages.md."""

from __future__ import annotations

import asyncio
import os
import re
import sysconfig
from pathlib import Path

from spoolrack_server.process.server import Server
from spoolrack_server.wire.contract import METHODS

from tests import CHECKOUT
from tests.support.conversation import conversation, run

PAGE = (CHECKOUT / "docs" / "how-to" / "languages.md").read_text()
TYPED = conversation(PAGE)


async def test_every_line_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    async with Server(tmp_path / "root") as server:
        names = {"127.0.0.1:50051": server.grpc_address}
        await asyncio.to_thread(run, TYPED, tmp_path, names, os.environ | {"PATH": path})


def test_the_page_has_a_line_for_every_rpc() -> None:
    called = {
        name for command, _ in TYPED for name in re.findall(r"\bcall (\w+)|/(\w+)(?: |; })", command)
    }
    assert {name for pair in called for name in pair} >= METHODS.keys()
