"""How the commands reach their server: the two options that all of them have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from spoolrack import Client, QueueInfo, RetryPolicy, connect

from .plain import option
from .units import Span

_FEW: Final = RetryPolicy(attempts=4)


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the server is, and how long to wait for it."""

    url: str
    timeout: float

    def quick(self) -> Client:
        """For somebody who waits at a terminal: says within moments that no server is there."""
        return connect(self.url, timeout=self.timeout, retry=_FEW)

    def patient(self) -> Client:
        """For long work: goes on after a restart of the server, if that takes less than the timeout."""
        return connect(self.url, timeout=self.timeout)

    def look_at(self, queue: str) -> QueueInfo:
        """The queue, before long work on it begins."""
        with self.quick() as client:
            return client.get_queue(queue)


def reaches_server(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where its server is: its first argument is a `Reach`."""

    @option(
        "--url",
        envvar="SPOOLRACK_URL",
        default="127.0.0.1:50051",
        show_default=True,
        help="The server: HOST:PORT or grpc://HOST:PORT.",
    )
    @option(
        "--timeout",
        envvar="SPOOLRACK_TIMEOUT",
        type=Span(),
        default="30s",
        show_default=True,
        help="How long a call may take, with all its repetitions.",
    )
    @wraps(command)
    def with_reach(*arguments: Any, url: str, timeout: float, **options: Any) -> Any:
        return command(Reach(url, timeout), *arguments, **options)

    return with_reach
