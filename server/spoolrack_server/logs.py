"""The server's log for its operator: one line an event, on standard error.

Quiet by default: start, stop, warnings and errors, and nothing for a call that went well. A logger is
made here and handed down; nothing is configured globally except by `adopt_library_logs`, which only a
process that is nothing but the server calls.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Literal, TextIO

import structlog
from spoolrack_store.model.terminal_text import printable
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from .observability.request_ids import REQUEST_ID

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


def make_log(
    *, format: LogFormat = "logfmt", level: int = logging.INFO, stream: TextIO | None = None
) -> Log:
    """Return a logger of lines in `format`: `time=… level=… event=…` and facts, or the same as JSON."""
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
    # A line in one write: several processes may share the stream, and Python may be told not to buffer.
    log: Log = structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return log


class _Handover(logging.Handler):
    """Gives the records of the standard `logging` to a log of ours."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or None
        )


def adopt_library_logs(log: Log) -> None:
    """Pass warnings and errors of the libraries (grpc, aiohttp, asyncio) to `log`."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Handover(log)], force=True)
