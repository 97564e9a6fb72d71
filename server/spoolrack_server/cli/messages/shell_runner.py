"""Runs a shell command on a message, and keeps the message leased meanwhile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Final

from spoolrack import Message, QueueSettings, SpoolrackError

from ..kit.connection_options import TOKEN
from ..kit.exit_codes import Failed, line_of
from ..kit.output import binary_attributes, print_status, text_attributes
from ..kit.signals import Terminated

if TYPE_CHECKING:
    from ..kit.http_bodies import HttpBodies

SHELL: Final = "/bin/sh"
EXTEND_AT: Final = 0.4
"""Of the visibility timeout, so that one extension may fail and the next still help."""
_DEFAULT: Final = QueueSettings().visibility_timeout
_LONGEST: Final = 100_000
"""Characters of one variable: the system allows 128 KiB."""
_UNFIT: Final = re.compile(r"[^A-Z0-9_]")


class Runner:
    def __init__(self, shell: str, visibility: float | None, http: Callable[[], HttpBodies]) -> None:
        """`http` gives bodies that no gRPC message holds, or raises `Failed`."""
        self._shell = shell
        self._http = http
        self._visibility = visibility
        """Seconds of a lease. None: each message tells."""

    def run(self, message: Message) -> bool:
        """Run the command on this message; return whether it exits with 0.

        After an interrupt, wait for the command's end first.
        """
        if message.is_body_left_out and message.path is not None:
            with message.path.open("rb") as body:
                return self._waited(self._start(message, body), message)
        # Without a body nothing is begun.
        feed: Callable[[IO[bytes]], object]
        if message.is_body_left_out:
            feed = partial(self._http().save, message.queue_name, message.id)
        else:
            content = message.body
            feed = lambda pipe: pipe.write(content)  # noqa: E731
        process = self._start(message, subprocess.PIPE)
        assert process.stdin is not None
        feeder = _Feeder(process.stdin, feed)
        feeder.start()
        is_done = self._waited(process, message)
        feeder.join()
        if feeder.failure is not None:
            print_status(f"the command had not all of message {message.id}: {feeder.failure}")
        return is_done and feeder.failure is None

    def _start(self, message: Message, body: IO[bytes] | int) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self._environment(message)}
        environment.pop(TOKEN, None)  # What the command works for needn't be trusted with it.
        return subprocess.Popen([SHELL, "-c", self._shell], stdin=body, env=environment)

    def _waited(self, process: subprocess.Popen[bytes], message: Message) -> bool:
        """Return whether the command has exited with 0."""
        try:
            code = self._wait(process, message)
        except BaseException as error:
            # At a terminal, Ctrl-C has reached the command as well; a SIGTERM hasn't.
            if isinstance(error, Terminated):
                process.terminate()
            _end(process)
            raise
        if code:
            ended = f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
            print_status(f"the command {ended} on message {message.id}")
        return code == 0

    def _wait(self, process: subprocess.Popen[bytes], message: Message) -> int:
        with kept_leased(message, self._visibility):
            return process.wait()

    def _environment(self, message: Message) -> Mapping[str, str]:
        text = text_attributes(message.attributes)
        variables = {
            "SPOOLRACK_MESSAGE_ID": message.id,
            "SPOOLRACK_MESSAGE_QUEUE": message.queue_name,
            "SPOOLRACK_MESSAGE_RECEIVE_COUNT": str(message.receive_count),
            "SPOOLRACK_MESSAGE_SEND_TIME": message.sent_at.isoformat(timespec="milliseconds"),
            "SPOOLRACK_MESSAGE_GROUP": message.group,
            "SPOOLRACK_MESSAGE_PRIORITY": str(message.priority),
            "SPOOLRACK_MESSAGE_PATH": "" if message.path is None else str(message.path),
            "SPOOLRACK_MESSAGE_ATTRIBUTES": json.dumps(
                {**text, **binary_attributes(message.attributes)}
            ),
        }
        for name, value in text.items():
            variables.setdefault(f"SPOOLRACK_ATTRIBUTE_{_UNFIT.sub('_', name.upper())}", value)
        unfit = [name for name, value in variables.items() if "\0" in value or len(value) > _LONGEST]
        for name in unfit:
            del variables[name]
            print_status(f"message {message.id}: {name} is not set, its value is too long or has a NUL")
        return variables


@contextmanager
def kept_leased(message: Message, visibility: float | None) -> Iterator[None]:
    """Extend the lease of a message in the background until the block ends.

    `visibility` are the seconds of a lease; None: the message tells.
    """
    # Only an older server doesn't tell: its queues begin with the same default.
    seconds = visibility or message.visibility_timeout or _DEFAULT
    has_ended = threading.Event()

    def extend() -> None:
        while not has_ended.wait(seconds * EXTEND_AT):
            try:
                message.extend(seconds)
            except SpoolrackError as error:
                print_status(f"the lease on message {message.id} can't be extended: {line_of(error)}")

    extender = threading.Thread(target=extend, daemon=True)
    extender.start()
    try:
        yield
    finally:
        has_ended.set()
        extender.join()


class _Feeder(threading.Thread):
    """Writes a body into the command's input."""

    def __init__(self, pipe: IO[bytes], feed: Callable[[IO[bytes]], object]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._feed = feed
        self.failure: Failed | None = None
        """Why the rest of the body didn't come."""

    def run(self) -> None:
        # A command needn't read its input to the end.
        with suppress(BrokenPipeError), self._pipe:
            try:
                self._feed(self._pipe)
            except Failed as error:
                self.failure = error


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the command; kill it at a second interrupt."""
    try:
        process.wait()
    except KeyboardInterrupt:
        process.kill()
        process.wait()
