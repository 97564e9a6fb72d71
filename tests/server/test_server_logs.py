"""One line an event, whatever is in it."""

from __future__ import annotations

import io
import json
import logging

import pytest
from spoolrack_server.system.logs import LogFormat, adopt_library_logs, make_log
from spoolrack_store.engine import recovery, stages


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_an_event_is_one_line_with_its_traceback_in_it(format: LogFormat) -> None:
    stream = io.StringIO()
    log = make_log(format=format, stream=stream)
    try:
        raise ValueError('two\nlines, "quoted"')
    except ValueError:
        log.exception("it broke", queue="a b", why='x="y"')
    (line,) = stream.getvalue().splitlines()
    assert "ValueError" in line
    assert "it broke" in line
    if format == "json":
        assert json.loads(line)["queue"] == "a b"


RAW = '\x1b[2J\x9b31m\r\nlevel=error event=forged \x7f\u202e\u2028 \\ " = é'


@pytest.mark.parametrize("format", ["logfmt", "json"])
@pytest.mark.parametrize("value", [RAW, [RAW], {RAW: RAW}, RAW.encode(), ValueError(RAW)])
def test_no_value_of_an_event_reaches_a_terminal_raw(format: LogFormat, value: object) -> None:
    stream = io.StringIO()
    log = make_log(format=format, stream=stream)
    log.warning(RAW, detail=value)
    try:
        raise ValueError(RAW)
    except ValueError:
        log.exception("it broke")
    assert all(line.isprintable() for line in stream.getvalue().split("\n"))
    assert stream.getvalue().count("\n") == 2
    if format == "json":
        first = json.loads(stream.getvalue().split("\n")[0])
        assert first["event"] == RAW
        assert value != RAW or first["detail"] == RAW


def test_records_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    make_log(stream=stream).debug("a call")
    assert stream.getvalue() == ""


def test_an_event_is_one_write_so_that_servers_can_share_a_stream() -> None:
    class Counted(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            return super().write(text)

    stream = Counted()
    make_log(stream=stream).info("stopped")
    assert (stream.writes, stream.getvalue()[-1]) == (1, "\n")


def test_the_progress_of_a_start_is_in_the_log_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    level = logging.root.level
    stream = io.StringIO()
    try:
        adopt_library_logs(make_log(stream=stream))
        recovery.log.info("%d names of the root are read", 100_000)
        stages.log.info("the stage s has expired")
    finally:
        logging.root.setLevel(level)
        recovery.log.setLevel(logging.NOTSET)
    (line,) = stream.getvalue().splitlines()
    assert "100000 names of the root are read" in line
