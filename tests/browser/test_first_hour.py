"""docs/tutorials/first-hour.md, followed as a reader would: a shell, workers and the dashboard."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests import CHECKOUT
from tests.browser.browser_rig import Desk, Served
from tests.support import STUCK
from tests.support.conversation import conversation, run, section

PAGE: Final = (CHECKOUT / "docs" / "tutorials" / "first-hour.md").read_text()


class Reader:
    """The folder of a reader, in which the commands of the page's sections are typed."""

    def __init__(self, server: Served, folder: Path) -> None:
        address = server.server.grpc_address
        assert address is not None
        self._folder = folder
        self._address = address
        self._names = {
            ". .venv/bin/activate": "true",
            "spoolrack ": f"SPOOLRACK_URL={address} {sys.executable} -m spoolrack_server ",
        }
        self._worker = ""

    def types(self, heading: str, instead: Mapping[str, str] = MappingProxyType({})) -> None:
        """Type the commands of a section, some parts replaced."""
        typed = conversation(section(PAGE, f"## {heading}"))
        assert all(any(part in each.command for each in typed) for part in instead)
        run(typed, self._folder, {**self._names, **instead})

    def saves(self, heading: str) -> None:
        """Save the worker, or replace its function by the one of this section."""
        (code,) = re.findall(r"```python\n(.*?)```", section(PAGE, f"## {heading}"), re.DOTALL)
        if self._worker:
            code = re.sub(
                r"^def .*?(?=^with )", f"{code}\n\n", self._worker, flags=re.DOTALL | re.MULTILINE
            )
        self._worker = code
        (self._folder / "worker.py").write_text(code.replace("127.0.0.1:50051", self._address))

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        """Run `python worker.py` in a terminal of its own."""
        worker = subprocess.Popen(
            [sys.executable, "worker.py"],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield worker
        finally:
            worker.terminate()
            worker.communicate(timeout=STUCK)


def until(worker: subprocess.Popen[str], *wanted: str) -> str:
    """Return what a worker prints until it has printed all of this, in any order."""
    assert worker.stdout is not None
    missing, said = list(wanted), ""
    while missing:
        line = worker.stdout.readline()
        assert line, said
        said += line
        if found := next((each for each in missing if each in line), ""):
            missing.remove(found)
    return said


def test_the_first_hour_goes_as_the_tutorial_says(
    server: Served, open_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    reader = Reader(server, tmp_path)
    reader.types("Two queues")
    reader.saves("A worker")
    with reader.worker() as worker:
        reader.types("A worker")
        until(worker, f"{worker.pid} resized cat.jpg", *3 * ["ValueError: dog.gif is a GIF"])
    server.until_ready("failed", 1)
    desk = open_desk(server, "queue/failed")
    desk.page.locator("table.messages tbody tr td.body").first.click()  # anywhere in the row
    desk.text("ValueError: dog.gif is a GIF")
    reader.types("A dead letter")

    reader.saves("A dead letter")
    with reader.worker() as first, reader.worker() as second:
        desk.expected = ("404",)  # the page looks once more for the message that it shows
        desk.button("Redrive all…").click()
        desk.button("Start").click()
        desk.text("The redrive of failed has begun.")
        desk.until("() => document.querySelectorAll('table.messages [data-row]').length === 0")
        reader.types("A second worker", {" 500": " 50"})  # in a tenth of the time
        said = until(second, "resized photo-", "resized photo-")
        reader.types("A kill", {"4711": str(second.pid)})
        assert second.stdout is not None
        said += second.stdout.read()
        photos = {f"photo-{number}.jpg" for number in range(1, 51)}
        rest = photos - set(re.findall(r"resized (\S+)", said))
        assert len(rest) > 1
        until(first, *(f"resized {each}\n" for each in rest))
