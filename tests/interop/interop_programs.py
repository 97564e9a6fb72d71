"""The example's own programs, the producer and the worker, as processes that tell what they do."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from queue import Empty, SimpleQueue

from tests.interop.interop_languages import Language
from tests.support import STUCK


class Program:
    """One process."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        """All that it has told and that was heard."""
        self._name = name
        self._process = process
        self._told: SimpleQueue[str | None] = SimpleQueue()
        self._complaints: list[str] = []
        self._listeners = [
            threading.Thread(target=listen, daemon=True)
            for listen in (self._listen, self._hear_complaints)
        ]
        for listener in self._listeners:
            listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self, word: str) -> str:
        """Return the next line that begins with this word."""
        while True:
            try:
                line = self._told.get(timeout=STUCK)
            except Empty:
                raise AssertionError(f"{self._name} was silent: {self._tail()}") from None
            assert line is not None, f"{self._name} has ended: {self._tail()}"
            self.lines.append(line)
            if line.split(" ", 1)[0] == word:
                return line

    def wait(self) -> int:
        """Return the exit code, once all that it told is among the `lines`."""
        code = self._process.wait(STUCK)
        for listener in self._listeners:
            listener.join(STUCK)
        while (line := self._told.get(timeout=STUCK)) is not None:
            self.lines.append(line)
        return code

    def end(self) -> None:
        """Kill it, if it hasn't ended."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(STUCK)
        for listener in self._listeners:
            listener.join(STUCK)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._told.put(line.rstrip("\n"))
        self._told.put(None)

    def _hear_complaints(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._complaints.append(line)

    def _tail(self) -> str:
        return "\n".join([*self.lines[-20:], *self._complaints[-40:]])


class Programs:
    """Those of one test, which end with it."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._started: list[Program] = []

    def start(self, name: str, *arguments: object) -> Program:
        process = subprocess.Popen(
            [*self._language.command(name), *map(str, arguments)],
            cwd=self._language.folder,
            env=self._language.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._started.append(Program(f"the {name} in {self._language.name}", process))
        return self._started[-1]

    def end(self) -> None:
        for program in self._started:
            program.end()
