"""`spoolrack replay`: sends archived messages again, into their queue or another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TypedDict

import click
from spoolrack import Attributes, Client, Outgoing
from spoolrack.errors import InvalidRequest
from spoolrack_store.archive_reader import ArchivedMessage, archive_of, read_archive
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import is_queue_name

from ..kit.command_base import option
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues, http_url
from ..kit.exit_codes import BAD_CONTENT, NO_INPUT, NOTHING, OK, Failed
from ..kit.output import print_results, print_status
from ..kit.units import FolderPath, Moment, plural, quoted


@click.command()
@queue_argument()
@option("--since", metavar="TIME", type=Moment(), help="Messages sent from TIME on: all by default.")
@option("--until", metavar="TIME", type=Moment(), default="now", help="And before TIME.")
@option("--into", metavar="QUEUE", help="Send to this queue; by default to the messages' own.")
@option(
    "--archive",
    metavar="DIR",
    type=FolderPath(),
    help="The folder archive/ of a root or of a copy of it. With --root: that root's by default.",
)
@option("--dry-run", is_flag=True, help="Only count the messages.")
@http_url
@connects_to_queues
def command(
    connection: Connection,
    queue: str,
    since: datetime | None,
    until: datetime,
    into: str | None,
    archive: str | None,
    dry_run: bool,
) -> int:
    """Send the messages of QUEUE's archive again, in the order of the first sends.

    All of them appear at one moment, or none does; a body of more than 64 MiB is sent by itself between
    those before and after it. The messages have new ids, the same bodies, attributes, groups and
    priorities, and no delay. Messages that were replayed before are sent again.
    A queue archives messages if it has an archive retention: spoolrack queues set QUEUE
    --archive-retention 7d.

    TIME is an ISO 8601 time, such as 2026-11-23T10:00Z, or a span such as 2h: two hours ago. Exits with
    1 if there was nothing to send. Each file that can't be read is named, with the cause.
    """
    for name, hint in ((queue, "QUEUE"), (queue if into is None else into, "--into")):
        if not is_queue_name(name):
            raise click.BadParameter(f"{quoted(name)} can't be a queue's name.", param_hint=hint)
    if archive is None:
        if connection.root is None:
            raise click.UsageError("Give --archive, or --root: the archive lies in the root.")
        archive = archive_of(connection.root)
    unreadable = 0

    def problem(path: str, why: str) -> None:
        nonlocal unreadable
        unreadable += 1
        print_status(f"{queue}/{path}: {why}")

    target = into or queue
    messages = read_archive(
        Path(archive, queue), Millis(0) if since is None else _millis(since), _millis(until), problem
    )
    try:
        if dry_run:
            count = sum(1 for _ in messages)
        else:
            with connection.patient_client() as client:
                count = _Replay(connection, client, target, problem).send(messages)
    except FileNotFoundError as error:
        raise Failed(f"{error.filename}: there is no archive of this queue", NO_INPUT) from error
    print_results(f"{plural(count, 'message')} {'would be sent' if dry_run else 'sent'} to {target}.")
    if unreadable:
        return BAD_CONTENT
    return OK if count else NOTHING


def _millis(moment: datetime) -> Millis:
    return Millis(round(moment.timestamp() * 1_000))


class _Replay:
    """Sends messages in their order: in batches, and between them each large body by itself."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        target: str,
        problem: Callable[[str, str], None],
    ) -> None:
        self._connection = connection
        self._client = client
        self._target = target
        self._problem = problem
        self._count = 0
        self._step_start: Millis | None = None
        """When the first message of the last step was sent at first."""

    def send(self, messages: Iterable[ArchivedMessage]) -> int:
        """Return how many were sent. If it fails after some of them, say where to go on."""
        try:
            for is_large, run in groupby(filter(self._can_be_sent, messages), _is_large):
                (self._send_files if is_large else self._send_batch)(run)
        except BaseException:
            if self._count and self._step_start is not None:
                sent = f"{plural(self._count, 'message')} sent to {self._target}"
                since = datetime.fromtimestamp(self._step_start / 1_000, UTC)
                print_status(f"{sent}; go on with --since {since.isoformat(timespec='milliseconds')}")
            raise
        return self._count

    def _can_be_sent(self, message: ArchivedMessage) -> bool:
        if not _is_large(message) or self._connection.root or self._connection.http_url:
            return True
        self._problem(message.id, "its body has more than 64 MiB: give --http-url http://HOST:PORT")
        return False

    def _send_batch(self, messages: Iterable[ArchivedMessage]) -> None:
        count = 0
        with self._client.batch() as batch:
            for message in messages:
                self._step_start = message.sent_at if not count else self._step_start
                batch.send_to(self._target, message.body, **_properties_of(message))
                count += 1
        self._count += count

    def _send_files(self, messages: Iterable[ArchivedMessage]) -> None:
        for message in messages:
            self._step_start = message.sent_at
            self._send_file(message)
            self._count += 1

    def _send_file(self, message: ArchivedMessage) -> None:
        """Link the body into the root; where no link can be, copy it."""
        assert message.body_path is not None
        if self._connection.root is None:
            http = self._connection.http()
            http.send(
                self._target,
                message.body_path,
                Outgoing(body=b"", **_properties_of(message)),
                lambda messages, size: None,
                wait=self._connection.timeout,
            )
            return
        queue, properties = self._client.queue(self._target), _properties_of(message)
        try:
            queue.send_file(message.body_path, link=True, **properties)
        except InvalidRequest:  # Another file system, or a file of another user.
            queue.send_file(message.body_path, **properties)


class _Properties(TypedDict):
    """What a message keeps when it is sent again."""

    attributes: Attributes
    group: str
    priority: int


def _properties_of(message: ArchivedMessage) -> _Properties:
    return _Properties(attributes=message.attributes, group=message.group, priority=message.priority)


def _is_large(message: ArchivedMessage) -> bool:
    return message.body_path is not None
