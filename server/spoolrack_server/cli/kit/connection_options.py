"""Connection options, which all commands on queues share.

The queues are a server's, or those of a folder, which this process then opens itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import islice
from os.path import abspath
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack
from urllib.parse import quote

import click
from click.core import ParameterSource
from spoolrack import (
    Client,
    CredentialOptions,
    Queue,
    QueueInfo,
    RetryPolicy,
    Settings,
    SpoolrackError,
    connect,
)
from spoolrack.errors import InvalidUrl, QueueFull, QueueNotFound

from . import signals
from .command_base import file_option, shared_option
from .exit_codes import NOTHING, TRY_AGAIN, USAGE, Failed, line_of
from .output import print_status
from .units import FolderPath, Span

if TYPE_CHECKING:
    from .http_bodies import HttpBodies

Routing = Literal["header"]
TOKEN: Final = "SPOOLRACK_TOKEN"
LISTING: Final = 3_600.0
"""Seconds for a command that only looks at a folder: the listing of millions of files takes minutes."""


class _FewAttempts(RetryPolicy):
    """Gives up within moments if no server is there, but waits for room in a full queue until the
    timeout."""

    def pause(self, error: SpoolrackError, *, failed: int, left: float, random: Random) -> float | None:
        failed = 1 if isinstance(error, QueueFull) else failed
        return super().pause(error, failed=failed, left=left, random=random)


NAMES: Final = 10_000
"""Queues that are searched for the name that a user may have meant."""
_FEW: Final = _FewAttempts(attempts=4)


@dataclass(frozen=True, slots=True)
class Connection:
    """Location of the queues, and the timeout of a call."""

    url: str
    timeout: float
    root: str | None = None
    """The folder, if there is no server."""
    routing: Routing | None = None
    """How a proxy routes calls to shards."""
    http_url: str | None = None
    """The server's HTTP port."""
    credentials: CredentialOptions = field(default_factory=CredentialOptions, repr=False)

    def client(self) -> Client:
        """Return a client for a user at a terminal: it fails within moments without a server."""
        return self.patient_client(_FEW)

    def patient_client(self, retry: RetryPolicy | None = None) -> Client:
        """Return a client for long work: it retries through a restart of the server that takes less
        than the timeout."""
        try:
            return connect(
                self.url,
                timeout=self.timeout,
                retry=retry,
                routing=self.routing,
                **self.credentials,
            )
        except InvalidUrl as error:
            raise Failed(f"--url: {error}", USAGE) from error

    def http(self) -> HttpBodies:
        """Return a client of the server's HTTP port, for bodies that are too large for gRPC; raise
        `Failed` without one."""
        if self.http_url is None:
            raise Failed(
                "a body of more than 64 MiB goes over HTTP, or into a folder on this machine: give "
                "--http-url http://HOST:PORT, or --root DIR",
                USAGE,
            )
        # aiohttp takes longer to import than most commands to run.
        from .http_bodies import HttpBodies

        return HttpBodies(self.http_url, self.credentials)

    def check_queue(self, queue: str) -> QueueInfo:
        """Check that the queue exists, before long work on it begins."""
        with self.client() as client:
            return client.queue(queue).info()


@contextmanager
def temporary_queue(client: Client, name: str, **settings: Unpack[Settings]) -> Iterator[Queue]:
    """Create a queue for the time of this block, and delete it at the end, also after an interrupt."""
    client.create_queue(name, **settings)
    try:
        yield client.queue(name)
    finally:
        with signals.deferred():
            try:
                client.delete_queue(name)
            except SpoolrackError as error:
                print_status(f"the queue {name} is not deleted: {line_of(error)}")


http_url = shared_option(
    "--http-url",
    metavar="URL",
    help="The server's HTTP port, http://HOST:PORT, by which a body of more than 64 MiB goes.",
)


def reads_queues(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the connection options of a command that changes nothing: with --root, the folder stays
    as it is, and no other process waits."""
    return connects_to_queues(command, only_looks=True)


def follows_queues(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the connection options of a command that changes nothing, and passes over no message that
    other processes move: beside them, it opens a folder as they do."""
    return connects_to_queues(command, only_looks=True, follows=True)


def connects_to_queues(
    command: Callable[..., Any], only_looks: bool = False, follows: bool = False
) -> Callable[..., Any]:
    """Add the connection options to a command, whose first argument is a `Connection`."""

    @shared_option(
        "--url",
        default="127.0.0.1:50051",
        help="The server: HOST:PORT or grpc://HOST:PORT, with TLS grpcs://HOST:PORT. Of shards all, in "
        "order, with commas.",
    )
    @shared_option(
        "--routing",
        type=click.Choice(["header"]),
        help="header: the URL is a proxy that routes calls to shards, by the queue in a header.",
    )
    @file_option(
        "--token-file", "The token, for a server that requires one; or put it into SPOOLRACK_TOKEN."
    )
    @file_option("--ca", "With grpcs://: the CAs that may have signed the server's certificate.")
    @file_option(
        "--certificate", "With grpcs://: this client's own certificate, for a server that asks for one."
    )
    @file_option("--key", "The key of the certificate.")
    @shared_option(
        "--insecure",
        is_flag=True,
        help="Send the token to other machines without TLS, too.",
    )
    @shared_option(
        "--root",
        metavar="DIR",
        type=FolderPath(),
        help="Work on the queues of the folder DIR, without a server, beside other processes.",
    )
    @shared_option(
        "--group-access",
        is_flag=True,
        help="With --root: make a new root accessible to all processes of its group.",
    )
    @shared_option(
        "--timeout",
        type=Span(0.001),
        default="30s",
        help="Time for a call, with all its retries.",
    )
    @wraps(command)
    def with_reach(
        *arguments: Any,
        url: str,
        routing: Routing | None,
        root: str | None,
        group_access: bool,
        timeout: float,
        token_file: str | None,
        ca: str | None,
        certificate: str | None,
        key: str | None,
        insecure: bool,
        http_url: str | None = None,
        **options: Any,
    ) -> Any:
        is_at_rest = None
        with ExitStack() as stack:
            if root is not None and not is_folder_meant():
                root = None
            if root is not None:
                url = f"file://{quote(abspath(root), errors='surrogateescape')}"
                url += "?group_access=true" if group_access else ""
                is_at_rest = _rest_of(root, follows=follows) if only_looks else None
                if only_looks and not _is_given("timeout"):
                    timeout = LISTING
                if is_at_rest is not None:
                    url = f"file://{quote(abspath(root), errors='surrogateescape')}?read_only=true"
                # Every command would say it again: `serve` is there to say it.
                logging.getLogger("spoolrack_store.files.mounts").setLevel(logging.ERROR)
                # All clients of the command share the store, which is opened with the first call.
                stack.enter_context(connect(url))
            connection = Connection(url, timeout, root, http_url=http_url)
            if root is None:
                credentials = credentials_of(
                    {
                        "token_file": token_file,
                        "ca": ca,
                        "certificate": certificate,
                        "key": key,
                        "insecure": insecure,
                    }
                )
                connection = replace(connection, routing=routing, credentials=credentials)
            try:
                result = command(connection, *arguments, **options)
            except QueueNotFound as error:
                raise Failed(f"{error}{_similar(connection, error)}", NOTHING) from error
            if root is not None and is_at_rest is not None:
                if not is_at_rest():
                    raise Failed(
                        f"another process has opened {root} meanwhile, and what it has moved may be "
                        "missing: try again",
                        TRY_AGAIN,
                    )
                from spoolrack_store.read_only_root import may_have_owners

                if not os.access(root, os.W_OK) and may_have_owners(root):
                    print_status(
                        f"{root} can't be written by this user, and may be a folder in use: "
                        "messages that other processes moved meanwhile may be missing"
                    )
            return result

    return with_reach


def _similar(connection: Connection, error: QueueNotFound) -> str:
    """Return what a user may have meant by the name of a queue that there isn't."""
    from difflib import get_close_matches

    try:
        with connection.client() as client:
            names = [queue.name for queue in islice(client.list_queues(), NAMES)]
    except SpoolrackError:
        return ""  # The error itself matters.
    near = get_close_matches(error.metadata.get("queue", ""), names, 1)
    if near:
        return f" The nearest name is {near[0]}."
    if names:
        return ""
    # One shard of several speaks for itself alone.
    where = connection.url if connection.root is None else connection.root
    return f" {where} has no queue yet: spoolrack queues create NAME makes one."


def _rest_of(root: str, *, follows: bool) -> Callable[[], bool] | None:
    """Return a check that the folder is as it was listed; None if the command opens the folder as other
    processes do, and `follows` their moves.

    Beside other processes a look is of the moment of its listing, and needs no check.
    """
    # A command that asks a server doesn't load the store.
    from spoolrack_store.read_only_root import has_owners, owners_changed_ns

    try:
        if os.access(root, os.W_OK) and has_owners(root):
            return None if follows else lambda: True
        before = owners_changed_ns(root)
    except OSError:
        return None  # The opening will report it.
    return lambda: owners_changed_ns(root) == before


def credentials_of(options: Mapping[str, Any]) -> CredentialOptions:
    """Return the credentials that a command's connection options name."""
    file = options["token_file"]
    return CredentialOptions(
        token=_token() if file is None else partial(_token_in, file),
        ca=options["ca"],
        certificate=options["certificate"],
        key=options["key"],
        insecure=options["insecure"],
    )


def _token() -> str | None:
    """Return the token of the environment: every user can read a command line."""
    return os.environ.get(TOKEN) or None


def _token_in(path: str) -> str:
    """Return the token of a file, which may have another one later."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        return file.readline(2_048).strip()


def _is_given(option: str) -> bool:
    """Return whether an option has another source than its default."""
    return click.get_current_context().get_parameter_source(option) is not ParameterSource.DEFAULT


def is_folder_meant() -> bool:
    """Return whether the root counts: an option precedes the environment, and in each of them a server
    precedes the folder that it may serve."""
    source = click.get_current_context().get_parameter_source
    root, url = source("root"), source("url")
    if root is ParameterSource.COMMANDLINE and url is ParameterSource.COMMANDLINE:
        raise click.UsageError("Choose one of --url and --root.")
    return root is ParameterSource.COMMANDLINE or url is ParameterSource.DEFAULT
