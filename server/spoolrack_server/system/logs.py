"""The server's log for its operator: one line an event, on standard error.

No line fails, delays or ends anything: `LineWriter` drops what can't be written.

Quiet by default: start, stop, warnings and errors, and nothing for a call that went well. A logger is
made here and handed down; nothing is configured globally except by `adopt_library_logs`, which only a
process that is nothing but the server calls.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import Any, Final, Literal, TextIO, cast

import structlog
from spoolrack_store.model.terminal_text import printable
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from .line_writer import LineWriter
from .request_ids import REQUEST_ID

STDERR: Final = 2
LogFormat = Literal["logfmt", "json"]
Log = FilteringBoundLogger


class _LogfmtLine(structlog.processors.LogfmtRenderer):
    """Renders an event as one line, tracebacks included, that does nothing to a terminal.

    Any part of an event may have come with a request.
    """

    def __call__(self, logger: WrappedLogger, name: str, event_dict: EventDict) -> str:
        return printable(super().__call__(logger, name, event_dict))


def _json(event: EventDict, **options: Any) -> str:
    # JSON in ASCII escapes all that isn't printable, but for this.
    return json.dumps(event, **options).replace("\x7f", "\\u007f")


def _with_request(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Say for which request it is, if it is for one."""
    id = REQUEST_ID.get()
    if id:
        event["request"] = id
    return event


def _processors(format: LogFormat) -> list[Processor]:
    processors: list[Processor] = [
        _with_request,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", key="time", utc=True),
        structlog.processors.format_exc_info,
    ]
    if format == "json":
        processors.append(structlog.processors.JSONRenderer(_json))
    else:
        processors.append(_LogfmtLine(key_order=["time", "level", "event"], drop_missing=True))
    return processors


_WRITERS: Final[dict[int, LineWriter]] = {}


def writer_to(fd: int, format: LogFormat = "logfmt") -> LineWriter:
    """Return the writer of this process to a file descriptor: one, so that lines stay in order."""
    if fd not in _WRITERS:

        def notice(count: int) -> str:
            event: Any = {"event": "log lines that could not be written were dropped", "count": count}
            for processor in _processors(format):
                event = processor(None, "warning", event)
            return f"{event}\n"

        _WRITERS[fd] = LineWriter(fd, notice)
    return _WRITERS[fd]


def dropped_lines() -> int:
    """Return how many lines of this process could not be written."""
    return sum(writer.dropped for writer in _WRITERS.values())


def finish_logs() -> None:
    """Return once all lines are written or dropped, or soon after."""
    for writer in _WRITERS.values():
        writer.finish()


def say(text: str, format: LogFormat) -> None:
    """Write a message for the operator on standard error; in a log of JSON it is a line of the log."""
    if format == "json":
        make_log(format=format).error(text)
    else:
        stream = _stderr(format)
        stream.write(f"spoolrack: {printable(text)}\n")
        stream.flush()


def _stderr(format: LogFormat) -> TextIO:
    """Return the writer to this process's standard error; or a stream that a program has put in its
    place, whose descriptor it may close, and another file get."""
    try:
        is_own = sys.stderr.fileno() == STDERR
    except (io.UnsupportedOperation, ValueError):
        is_own = False
    return cast(TextIO, writer_to(STDERR, format)) if is_own else sys.stderr


def make_log(
    *, format: LogFormat = "logfmt", level: int = logging.INFO, stream: TextIO | None = None
) -> Log:
    """Return a logger of lines in `format`: `time=… level=… event=…` and facts, or the same as JSON.

    `stream` is where the lines are written to, in place of standard error.
    """
    # A line in one write: several processes may share the stream, and Python may be told not to buffer.
    log: Log = structlog.wrap_logger(
        structlog.WriteLogger(stream or _stderr(format)),
        processors=_processors(format),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return log


class _Handover(logging.Handler):
    """Gives the records of the standard `logging` to a log of ours."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or None
        )


_PROGRESS: Final = "spoolrack_store.engine.recovery"
"""Logs how far the start of a large root is."""


def adopt_library_logs(log: Log) -> None:
    """Pass warnings and errors of the libraries (grpc, aiohttp, asyncio) to `log`, and the progress of
    the start."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Handover(log)], force=True)
    logging.getLogger(_PROGRESS).setLevel(logging.INFO)
