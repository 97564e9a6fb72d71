"""The command `spoolrack`: finds the subcommand, and maps its end to an exit code.

Errors are one line on standard error, and never a traceback (unless SPOOLRACK_DEBUG is set).
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TextIO

import click
from click.shell_completion import shell_complete
from spoolrack_store.model.terminal_text import printable

from .examples import end_with_example
from .kit import signals
from .kit.command_clock import system_time

PROGRAM: Final = "spoolrack"
PREFIX: Final = "SPOOLRACK"
COMPLETE: Final = "_SPOOLRACK_COMPLETE"

_COMMANDS: Final = {
    "serve": ("operators.serve_command", "command"),
    "mover": ("operators.mover_command", "command"),
    "reaper": ("operators.mover_command", "reaper"),
    "send": ("messages.send_command", "command"),
    "receive": ("messages.receive_command", "command"),
    "delete": ("messages.delete_command", "command"),
    "release": ("messages.release_command", "command"),
    "reject": ("messages.release_command", "reject"),
    "queues": ("queues.queues_command", "command"),
    "peek": ("messages.peek_command", "command"),
    "stages": ("messages.stages_command", "command"),
    "reservations": ("messages.reservations_command", "command"),
    "redrive": ("queues.redrive_command", "command"),
    "redrives": ("queues.redrives_command", "command"),
    "schedules": ("queues.schedules_command", "command"),
    "top": ("queues.top_command", "command"),
    "bench": ("operators.bench_command", "command"),
    "size": ("operators.size_command", "command"),
    "shard": ("operators.shard_command", "command"),
    "try": ("operators.try_command", "command"),
    "health": ("operators.health_command", "command"),
    "export": ("operators.export_command", "command"),
    "import": ("operators.import_command", "command"),
    "fsck": ("operators.fsck_command", "command"),
    "snapshot": ("operators.snapshot_command", "command"),
    "replay": ("queues.replay_command", "command"),
    "tokens": ("operators.tokens_command", "command"),
}
"""The module and the function of each. The module is loaded when it is asked for: a check of folders
needs no gRPC."""


class _StderrLine(logging.Formatter):
    """A record as one line that does nothing to a terminal, with its traceback if it has one."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{PROGRAM}: {printable(super().format(record))}"


class Commands(click.Group):
    """The subcommands, the most used first."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, function = _COMMANDS[name]
        found: click.Command = getattr(importlib.import_module(f".{module}", __package__), function)
        end_with_example(name, found)
        found.name = name  # Its function is mostly called `command`.
        return found

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            from difflib import get_close_matches

            for near in get_close_matches(arguments[0], _COMMANDS, 1):
                raise click.UsageError(f"{error.message} Do you mean '{near}'?", context) from None
            raise


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spoolrack", prog_name=PROGRAM)
def spoolrack() -> None:
    """Durable message queues that are nothing but files.

    Every option can also be set by the environment variable that its help names. Bodies and results go
    to standard output, and all else to standard error.
    """


def run(arguments: Sequence[str], clock: Callable[[], datetime] = system_time) -> int:
    """Run the command with these arguments; return its exit code. Ages are by `clock`, in UTC."""
    instruction = os.environ.get(COMPLETE)
    if instruction:
        found = {"auto_envvar_prefix": PREFIX, "obj": clock}
        return shell_complete(spoolrack, found, PROGRAM, COMPLETE, instruction)
    lines = logging.StreamHandler()
    lines.setFormatter(_StderrLine())
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    signals.install()
    try:
        return _run(arguments, clock)
    except BrokenPipeError:
        return _broken_pipe()


def _run(arguments: Sequence[str], clock: Callable[[], datetime]) -> int:
    try:
        code = _invoke(list(arguments), clock)
        sys.stdout.flush()
    except click.ClickException as error:
        return _misused(error)
    except BrokenPipeError:
        raise  # Of standard output or standard error: there is no way to tell.
    except (KeyboardInterrupt, click.Abort) as error:
        return _interrupted(error)
    except ModuleNotFoundError:
        raise  # The entry point knows what to say.
    except Exception as error:  # noqa: BLE001  # the last handler before the user
        return _failed(error)
    return code


def _invoke(arguments: list[str], clock: Callable[[], datetime]) -> int:
    try:
        with spoolrack.make_context(
            PROGRAM, arguments, auto_envvar_prefix=PREFIX, obj=clock
        ) as context:
            result: Any = spoolrack.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    return result if isinstance(result, int) else 0


def _misused(error: click.ClickException) -> int:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and context.params.get("log_format") == "json":
        from ..system.logs import say

        say(error.format_message(), "json")
    else:
        shown = io.StringIO()
        error.show(shown)
        sys.stderr.write("\n".join(map(printable, shown.getvalue().split("\n"))))
    return error.exit_code


def _broken_pipe() -> int:
    """End quietly after the reader of the output has gone: buffered output is dropped, too."""
    from .kit.exit_codes import BROKEN_PIPE

    for stream in (sys.stdout, sys.stderr):
        _drop_what_is_buffered(stream)
    return BROKEN_PIPE


def _drop_what_is_buffered(stream: TextIO) -> None:
    """Flush a stream; drop what can't be written, or the interpreter would fail at its end."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _interrupted(error: BaseException) -> int:
    from .kit.exit_codes import INTERRUPTED, TERMINATED

    if isinstance(error, signals.Terminated):
        return TERMINATED
    if sys.stderr.isatty():
        sys.stderr.write("\n")  # After the ^C.
    return INTERRUPTED


def _failed(error: Exception) -> int:
    from .kit.exit_codes import OUR_MISTAKE, code_of, line_of

    if os.environ.get("SPOOLRACK_DEBUG"):
        raise error
    code = code_of(error)
    if code is None:
        code = OUR_MISTAKE
        what = f"a mistake of this program, please report it: {type(error).__name__}: {error}"
        what = printable(what)
    else:
        what = line_of(error)
    _drop_what_is_buffered(sys.stdout)
    sys.stderr.write(f"{PROGRAM}: {what}\n")
    return code
