"""`spoolrack receive`: leases messages, and prints them or passes them to a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, Literal

import click
from spoolrack import Message, MessageStream, Queue, SpoolrackError
from spoolrack.errors import Draining, PermissionDenied, Unreachable

from ..kit import signals
from ..kit.command_base import option
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues, http_url
from ..kit.exit_codes import NOTHING, OK, USAGE, Failed, line_of
from ..kit.output import Output, message_line, print_empty, print_status
from ..kit.units import COUNT, VISIBILITY, Span, Text, plural
from .body_files import BodyFolder
from .shell_runner import Runner

LONGEST_WAIT: Final = 3600.0
"""Seconds that a receive may wait, on a server and on a folder."""
BATCH: Final = 500
"""Messages in one call, if they are only printed."""
LONG_POLL: Final = 20.0
"""Seconds of one call while it follows."""
Order = Literal["fair", "strict"]
LAST_WORDS: Final = 5.0
"""Seconds that giving leases back may take, when all is over."""


@click.command()
@queue_argument("queues", nargs=-1, required=True, metavar="QUEUE...")
@option(
    "--max",
    "-n",
    type=COUNT,
    help="Stop after this number of messages; 0: when none is left.  [default: 1; with --follow: 0]",
)
@option(
    "--wait",
    "-w",
    type=Span(0, LONGEST_WAIT),
    default="0s",
    help="Longest wait for a message.",
)
@option(
    "--follow", "-F", is_flag=True, help="Receive until stopped, also through restarts of the server."
)
@option(
    "--order",
    type=click.Choice(["fair", "strict"]),
    default="fair",
    help="With several queues: a message of each in turn, or of the first that has one.",
)
@option("--delete", "-d", is_flag=True, help="Delete each message, once its body was written.")
@option(
    "--exec",
    "-x",
    metavar="CMD",
    type=Text(any_bytes=True),
    help="Run CMD in a shell for each message, with the body as its standard input; delete the "
    "message if CMD exits with 0, and release it otherwise.",
)
@option("--raw", is_flag=True, help="Print the bodies unchanged, with nothing in between.")
@option("--json", is_flag=True, help="Print a line of JSON for each message.")
@option(
    "--to",
    metavar="DIR",
    help="Write each body into a file in DIR, named by the message's id, and print its path.",
)
@http_url
@option(
    "--visibility-timeout",
    type=VISIBILITY,
    help="Length of the leases.  [default: the queue's]",
)
@connects_to_queues
def command(
    connection: Connection,
    queues: tuple[str, ...],
    max: int | None,
    wait: float,
    follow: bool,
    order: Order,
    delete: bool,
    exec: str | None,
    raw: bool,
    json: bool,
    to: str | None,
    visibility_timeout: float | None,
) -> int:
    """Receive messages of the queue QUEUE and print their bodies.

    A line feed follows each body, unless --raw is given. The body of a single message, without --max
    and --follow, goes to a file or a pipe as it is. With --follow there may be several queues, and
    patterns, such as "jobs-*": queues that are created later, and match, are found within 10 s.

    Without --delete or --exec the messages are only leased: they are hidden from other consumers for
    the visibility timeout, and then ready again. With --delete a message is deleted after its body was
    written; if the output is a file, after it is on stable media. A body of more than 64 MiB needs --to
    or --exec; over gRPC it is read by --http-url.

    The environment of CMD has SPOOLRACK_MESSAGE_ID, SPOOLRACK_MESSAGE_QUEUE,
    SPOOLRACK_MESSAGE_RECEIVE_COUNT, SPOOLRACK_MESSAGE_SEND_TIME, SPOOLRACK_MESSAGE_PATH (with --root,
    of a body that was sent as a file), SPOOLRACK_MESSAGE_ATTRIBUTES (JSON) and
    SPOOLRACK_ATTRIBUTE_<NAME> for each attribute. The message stays leased while CMD runs. If CMD
    fails, the message is ready again when this command ends; with --follow after 1 s, then 2 s, and so
    on to 1 min.

    Exits with 0 if there was a message, and with 1 if there was none, or if CMD has failed.
    """
    if follow and wait:
        raise click.UsageError("--follow waits for ever: leave --wait out, or use --max 0 --wait.")
    if exec is not None and (delete or raw or json or to is not None):
        raise click.UsageError(
            "--exec prints nothing and deletes by itself: leave --delete, --raw, --json and --to out."
        )
    if raw + json + (to is not None) > 1:
        raise click.UsageError("Choose one of --raw, --json and --to.")
    are_several = len(queues) > 1 or any(sign in queues[0] for sign in "*?[")
    if are_several and not follow:
        raise click.UsageError("Several queues, or a pattern, need --follow.")
    most = max if max is not None else 0 if follow else 1
    visibility = visibility_timeout
    if not visibility and not are_several:
        visibility = _visibility_of(connection, queues[0])
    with connection.patient_client() if follow else connection.client() as client:

        def batches(size: int) -> Iterator[list[Message]]:
            if are_several:

                def open_stream() -> MessageStream:
                    return client.messages(
                        queues, order=order, max_in_flight=size, visibility_timeout=visibility_timeout
                    )

                # A message that stays leased takes a place of its stream.
                places = None if delete or exec is not None else size // 2 or 1
                return _streamed(open_stream, most, size, places)
            for_ever = LONG_POLL if follow else None
            return _batches(client.queue(queues[0]), most, size, for_ever, wait, visibility_timeout)

        if exec is not None:
            runner = Runner(exec, visibility, connection.http)
            return _run_each(batches(1), runner, follow, holds=not are_several)

        output = Output()
        folder = None if to is None else BodyFolder(to, visibility, connection.http)

        def show(message: Message) -> None:
            if folder is not None:
                output.write(f"{folder.add(message)}\n".encode(errors="surrogateescape"))
            elif json:
                output.write(message_line(message, message.queue_name))
            elif message.is_body_left_out and message.path is None:
                raise Failed(
                    f"message {message.id} has {message.body_size} bytes, and a body of more than 64 "
                    "MiB isn't printed: give --to DIR or --exec CMD, with --http-url http://HOST:PORT",
                    USAGE,
                )
            elif raw:
                output.write(message.body)
            else:
                output.write_body(message.body, is_only=most == 1)

        sync = output.sync if folder is None else folder.sync
        return _print_each(batches(BATCH if folder is None else 1), sync, show, delete)


def _visibility_of(connection: Connection, queue: str) -> float | None:
    """Return the queue's visibility timeout, and so check that the queue exists. None: the caller's
    permission is for receives alone; the messages carry it, too."""
    try:
        return connection.check_queue(queue).settings.visibility_timeout
    except PermissionDenied:
        return None


def _batches(
    queue: Queue,
    most: int,
    size: int,
    long_poll: float | None,
    wait: float,
    visibility_timeout: float | None,
) -> Iterator[list[Message]]:
    """Yield leases as they come: up to `most` messages (0: no limit), `size` at once.

    Ends when none came in time; with a `long_poll` never, whatever happens to the server.
    """
    received = 0
    is_away = False
    while not most or received < most:
        signals.check()
        wanted = min(size, most - received) if most else size
        try:
            messages = queue.receive(
                wanted,
                wait=wait if long_poll is None else long_poll,
                visibility_timeout=visibility_timeout,
            )
        except (Unreachable, Draining) as error:
            if long_poll is None:
                raise
            if not is_away:
                print_status(f"waiting for the server to come back: {line_of(error)}")
            is_away = True
            continue
        is_away = False
        if not messages and long_poll is None:
            return
        received += len(messages)
        if messages:
            yield messages


def _streamed(
    open_stream: Callable[[], MessageStream], most: int, size: int, places: int | None
) -> Iterator[list[Message]]:
    """Yield leases on messages of several queues as they come, as `_batches` does; without end. A new
    stream follows one that has given `places` messages; None: one goes on."""
    received = 0
    is_away = False
    while not most or received < most:
        with open_stream() as stream:
            given = 0
            try:
                while (not most or received < most) and (places is None or given < places):
                    signals.check()
                    messages = stream.receive(min(size, most - received) if most else size)
                    is_away = False
                    received += len(messages)
                    given += len(messages)
                    yield messages
            except (Unreachable, Draining) as error:
                # Before there was a connection: the stream itself waits for a server that comes back.
                if not is_away:
                    print_status(f"waiting for the server: {line_of(error)}")
                is_away = True


def _print_each(
    batches: Iterator[list[Message]],
    sync: Callable[[], None],
    show: Callable[[Message], None],
    delete: bool,
) -> int:
    received = 0
    for messages in batches:
        received += len(messages)
        written: list[Message] = []
        try:
            for message in messages:
                show(message)
                written.append(message)
        finally:
            with signals.deferred():
                if delete and written:
                    sync()
                    _delete(written)
                _give_back(messages[len(written) :])
    if not received:
        print_empty("no message came")
    return OK if received else NOTHING


def _delete(messages: Sequence[Message]) -> None:
    """Delete messages of one queue."""
    for message, result in zip(messages, messages[0].queue.delete_many(messages), strict=True):
        if result.error is not None:
            print_status(
                f"message {message.id} was printed, and is not deleted: {line_of(result.error)}"
            )


def _give_back(messages: Sequence[Message]) -> None:
    """Make ready again what was not printed. If that fails, the visibility timeout does it."""
    for queue in {message.queue for message in messages}:
        with suppress(SpoolrackError):
            those = [message for message in messages if message.queue is queue]
            queue.release_many(those, timeout=LAST_WORDS)


def _run_each(batches: Iterator[list[Message]], runner: Runner, follow: bool, *, holds: bool) -> int:
    """Run the command on each message; return the exit code.

    `holds`: with `follow`, a message that the command has failed on stays leased until its next turn.
    Else it is delayed: a leased one would take the place of others of its stream.
    """
    received = failed = 0
    failures: list[Message] = []
    """Those that the command has failed on, or was stopped on. They stay leased to the end, so that
    the others have their turn."""
    put_off: dict[str, tuple[float, Message]] = {}
    """With `follow`, those that come back by themselves, by id, and when."""
    try:
        for message in _singly(batches):
            received += 1
            failures.append(message)
            if runner.run(message):
                _finish(message, message.delete, "is done, and is not deleted")
                failures.pop()
                continue
            failed += 1
            if follow:
                pause = min(60.0, 2.0 ** min(max(0, message.receive_count - 1), 6))
                if not holds:
                    _finish(message, lambda: message.release(delay=pause), "can't be put off")  # noqa: B023
                    failures.pop()
                    continue
                now = monotonic()
                put_off = {id: late for id, late in put_off.items() if late[0] > now}
                put_off[message.id] = now + pause, message
                _finish(message, lambda: message.extend(pause), "can't be put off")  # noqa: B023
                failures.pop()
    finally:
        with signals.deferred():
            _give_back([*failures, *(message for _, message in put_off.values())])
    if failed:
        print_status(f"the command failed on {plural(failed, 'message')} of {received:,}")
    if not received:
        print_empty("no message came")
    return OK if received and not failed else NOTHING


def _singly(batches: Iterator[list[Message]]) -> Iterator[Message]:
    for messages in batches:
        yield from messages


def _finish(message: Message, sync: Callable[[], object], otherwise: str) -> None:
    try:
        with signals.deferred():
            sync()
    except SpoolrackError as error:
        print_status(f"message {message.id} {otherwise}: {line_of(error)}")
