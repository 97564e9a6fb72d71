"""The processes of a run: a server, senders and consumers, that are killed, stopped and started again.

The test waits for their lines of output. Each is ended by its own pid, with all others at the
latest. A process that ends without having been killed fails the test, with its last words.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Final

from tests import CHECKOUT
from tests.support.forked import ForkedProgram
from tests.support.ports import free_port

SILENCE: Final = 120.0
"""Seconds without a word from any process, after which a run is stuck: only a defect takes so long."""
STARTS: Final = 10
_LAST_WORDS: Final = 40


class Member:
    """One process."""

    def __init__(self, name: str, process: ForkedProgram) -> None:
        self.name = name
        self.process = process
        self.wanted_dead = False
        self.has_spoken = threading.Event()
        """It has told its first line: its handlers of signals are in place."""
        self.last_words: deque[str] = deque(maxlen=_LAST_WORDS)

    def __repr__(self) -> str:
        return f"{self.name} (pid {self.process.pid}, {self.process.poll()})"


@dataclass(frozen=True, slots=True)
class Told:
    """A line from a process; None when it will tell nothing any more."""

    member: Member
    line: str | None
    is_log: bool


class Crew:
    """All processes of one run, and what they tell."""

    def __init__(self, folder: Path) -> None:
        self.ledgers = folder / "ledgers"
        self.ledgers.mkdir()
        self._told: SimpleQueue[Told] = SimpleQueue()
        self._members: list[Member] = []
        self._listeners: list[threading.Thread] = []

    def start(self, name: str, module: str, *arguments: object) -> Member:
        """Start a module of `tests`, or an installed one."""
        member = Member(name, ForkedProgram(module, *arguments, folder=CHECKOUT))
        self._members.append(member)
        for stream, is_log in ((member.process.stdout, False), (member.process.stderr, True)):
            assert stream is not None
            listener = threading.Thread(
                target=self._listen, args=(member, stream, is_log), name=f"hears {name}", daemon=True
            )
            self._listeners.append(listener)
            listener.start()
        return member

    def _listen(self, member: Member, stream: IO[str], is_log: bool) -> None:
        with stream:
            for line in stream:
                member.last_words.append(line.rstrip("\n"))
                if not is_log:
                    member.has_spoken.set()
                self._told.put(Told(member, line.rstrip("\n"), is_log))
        self._told.put(Told(member, None, is_log))

    def kill(self, member: Member, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal that may end it; return at once."""
        member.wanted_dead = True
        # The pid is its own until it is waited for.
        if member.process.poll() is None:
            os.kill(member.process.pid, number)

    def say(self, member: Member, line: str) -> None:
        """Write a line to its standard input; one that is stopped reads it when it goes on."""
        member.process.stdin.write(line + "\n")
        member.process.stdin.flush()

    def freeze(self, member: Member) -> None:
        """SIGSTOP; return once all its threads stand still."""
        pid = member.process.pid
        os.kill(pid, signal.SIGSTOP)
        # The process is no child of this one, which waitid(2) would tell.
        while not _is_stopped(pid):
            pass

    def thaw(self, member: Member) -> None:
        """SIGCONT."""
        os.kill(member.process.pid, signal.SIGCONT)

    def bury(self, member: Member) -> int:
        """Kill it, if it isn't dead, and return its exit code."""
        self.kill(member)
        return member.process.wait(SILENCE)

    def told(self, until: float | None = None) -> Iterator[Told]:
        """Yield what is told, as it comes: without end, or until that moment of the monotonic clock.

        Raise if a process has ended unexpectedly, or if there is silence.
        """
        while until is None or time.monotonic() < until:
            silence = SILENCE if until is None else max(0.0, until - time.monotonic())
            try:
                told = self._told.get(timeout=silence)
            except Empty:
                assert until is not None, f"silence for {SILENCE:.0f} s: {self._members}"
                return
            self._check(told)
            yield told

    def _check(self, told: Told) -> None:
        member = told.member
        if told.line is None and not told.is_log and not member.wanted_dead:
            code = member.process.wait(SILENCE)
            words = "\n".join(member.last_words)
            assert code == 0, f"{member.name} has ended with {code}:\n{words}"

    def hear(self, member: Member, words: str) -> str:
        """Return the next line of a process that holds these words."""
        for told in self.told():
            if told.member is member and told.line is not None and words in told.line:
                return told.line
            if told.member is member and told.line is None and not told.is_log:
                raise AssertionError(f"{member.name} has ended:\n" + "\n".join(member.last_words))
        raise AssertionError("unreachable: the output has no end")

    def end(self) -> None:
        """Kill all that are alive."""
        for member in self._members:
            self.bury(member)
            with contextlib.suppress(BrokenPipeError):
                member.process.stdin.close()
        for listener in self._listeners:
            listener.join(SILENCE)


def _is_stopped(pid: int) -> bool:
    """Return whether all threads of a process are stopped, as proc_pid_stat(5) tells."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # One that was about to end has ended.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b") T " not in (thread / "stat").read_bytes():
                return False
    return True


class Served:
    """A root and a server over it, which is started any number of times at the same port.

    Several may share a root.
    """

    def __init__(
        self,
        crew: Crew,
        root: Path,
        *options: object,
        http: bool = False,
        program: Sequence[str] = ("spoolrack_server",),
    ) -> None:
        """`options` are more of `spoolrack serve`'s. HTTP is served if it is asked for."""
        self.root = root
        self.program = program
        """The beginning of the next server's command: a module and arguments."""
        self._options = options
        self.member: Member
        self._crew = crew
        self.port = free_port()
        self.http_port = free_port() if http else None
        self.restart()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        """SIGKILL; return once the process is dead."""
        assert self._crew.bury(self.member) == -signal.SIGKILL

    def kill_in_recovery(self, after: float) -> None:
        """Start it again, and SIGKILL so many seconds later, when it may serve already or not."""
        self.begin_restart()
        for _ in self._crew.told(time.monotonic() + after):
            pass
        self.kill()

    def kill_in_drain(self) -> bool:
        """SIGKILL in the middle of a drain; False if the drain had ended before."""
        self._crew.kill(self.member, signal.SIGTERM)
        self._crew.hear(self.member, "draining")
        return self._crew.bury(self.member) == -signal.SIGKILL

    def stop(self) -> None:
        """SIGTERM; return once the process has drained and ended."""
        self._crew.kill(self.member, signal.SIGTERM)
        assert self.member.process.wait(SILENCE) == 0, self.member.last_words

    def begin_restart(self) -> None:
        """Start it again, and don't wait for anything."""
        http = "off" if self.http_port is None else f"127.0.0.1:{self.http_port}"
        at = ("--grpc", self.address, "--http", http)
        self.member = self._crew.start(
            "server", *self.program, "serve", "--data", self.root, *at, *self._options
        )

    def restart(self) -> None:
        """Start it again; return once it serves."""
        # A killed server may for a moment still have its ports.
        for _ in range(STARTS):
            self.begin_restart()
            member = self.member
            member.wanted_dead = True
            for told in self._crew.told():
                if told.member is not member or told.is_log:
                    continue
                if told.line is None:
                    break
                if told.line.startswith("Next"):
                    member.wanted_dead = False
                    return
            code = member.process.wait(SILENCE)
            assert code == os.EX_UNAVAILABLE, f"{code}: " + "\n".join(member.last_words)
        why = "\n".join(self.member.last_words)
        raise AssertionError(f"{self.address} is not to be had: {why}")
