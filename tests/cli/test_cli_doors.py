"""Common to all commands: exit codes, errors in one line, options, and the environment."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from spoolrack_server.cli.kit.units import (
    SETTING_TYPES,
    Address,
    Label,
    Moment,
    Size,
    Span,
    Text,
    Watermark,
    Word,
    age_text,
    left_text,
    moment_text,
    plural,
    size_text,
    span_text,
)
from spoolrack_server.cli.program import spoolrack as program
from spoolrack_store.model.settings import SCHEMA, Setting, SettingKind

from tests.cli.cli_rig import Spoolrack, commands
from tests.support.serving import ANY_PORTS, output_of, serving

COMMANDS = dict(commands(program))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_names_its_environment_variable(offline: Spoolrack, path: tuple[str, ...]) -> None:
    told = offline(*path, "--help")
    assert told.code == 0
    text = re.sub(r"\s+", " ", told.out.partition("Options:")[2])
    options = [option for option in re.findall(r" (--[a-z-]+)", text) if option != "--help"]
    flags = {option for option in options if f"{option} " in text}
    for flag in flags:
        assert re.search(rf"SPOOLRACK_([A-Z]+_)*{flag[2:].replace('-', '_').upper()}\b", text), flag


OF_EVERY_CALL = {"--url": "127.0.0.1:50051", "--timeout": "30s"}
DEFAULTS: dict[str, dict[str, object]] = {
    "bench": {"--size": "1k", "--seconds": "60s"},
    "export": {"--output": "-"},
    "fsck": {"--root": "data"},
    "health": {"--health": "127.0.0.1:8081", "--timeout": "3s"},
    "import": {"--from": "archive", "--mover-delay": "10s", "--settle": "5s"},
    "mover": {"--delay": "0s", "--log-format": "logfmt"},
    "peek": {"--max": 10},
    "reaper": {"--log-format": "logfmt"},
    "receive": {"--order": "fair", "--wait": "0s"},
    "release": {"--delay": "0s"},
    "replay": {"--until": "now"},
    "reservations show": {"--max": 10},
    "schedules create": {"--time-zone": "UTC"},
    "send": {"--in-flight": 1},
    "serve": {
        "--data": "./data",
        "--grpc": "127.0.0.1:50051",
        "--http": "127.0.0.1:8080",
        "--sqs": "off",
        "--sqs-account": "000000000000",
        "--health": "off",
        "--processes": 1,
        "--connections": 1000,
        "--memory-watermark": "0.5",
        "--min-free-space": "4M",
        "--min-free-inodes": 256,
        "--grace": "10s",
        "--metrics-queues": 1000,
        "--log-format": "logfmt",
    },
    "size": {"--backlog": 100_000, "--batch": 1, "--body": "1k"},
    "snapshot": {"--root": "data"},
    "top": {"--interval": "1s", "--sort": "backlog"},
}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_an_option_that_is_left_out_has_this_default(path: tuple[str, ...]) -> None:
    defaults = {
        max(each.opts, key=len): each.default
        for each in COMMANDS[path].params
        if isinstance(each, click.Option) and isinstance(each.default, int | str) and each.default
    }
    expected = DEFAULTS.get(" ".join(path), {})
    assert defaults == (expected if "--url" not in defaults else OF_EVERY_CALL | expected)


def test_an_option_can_come_from_the_environment(
    spoolrack: Spoolrack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOOLRACK_SEND_CREATE", "1")
    monkeypatch.setenv("SPOOLRACK_RECEIVE_DELETE", "yes")
    monkeypatch.setenv("SPOOLRACK_RECEIVE_MAX", "0")
    assert spoolrack("send", "jobs", "x").code == 0
    assert spoolrack("receive", "jobs").out == "x\n"
    assert spoolrack("receive", "jobs").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["send", "jobs", "x"],
        ["send", "jobs", "--lines", os.devnull],
        ["receive", "jobs"],
        ["receive", "jobs", "--follow"],
        ["delete", "jobs", "01890000-0000-7000-8000-000000000000"],
        ["peek", "jobs"],
        ["queues", "list"],
        ["top", "--once"],
        ["bench"],
    ],
    ids=" ".join,
)
def test_a_server_that_is_not_there_is_told_in_one_line(
    offline: Spoolrack, arguments: list[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nothing listens, and no other program gets the port.
        port = taken.getsockname()[1]
        result = offline(*arguments, "--url", f"127.0.0.1:{port}")
    assert (result.code, result.out) == (69, "")
    assert result.err.startswith(f"spoolrack: No answer from 127.0.0.1:{port}")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["send", "absent", "x"], 1, "no queue absent"),
        (["receive", "absent"], 1, "no queue absent"),
        (["peek", "absent"], 1, "no queue absent"),
        (["queues", "show", "absent"], 1, "no queue absent"),
        (["queues", "create", "no/name"], 2, "can't be a queue's name"),
        (["queues", "create", "q", "--max-receives", "3"], 2, "max_receives"),
        (["send", "q", "--file", "/no/such/file"], 66, "/no/such/file: No such file"),
        (["send", "q", "--file", "/"], 66, "/: Is a directory"),
        (["send", "q", "x", "--url", "http://x"], 2, "http://"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_error_is_one_line_on_standard_error(
    spoolrack: Spoolrack, arguments: list[str], code: int, words: str
) -> None:
    result = spoolrack(*arguments)
    assert (result.code, result.out) == (code, "")
    (line,) = result.err.splitlines()
    assert line.startswith("spoolrack: ")
    assert words in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("bogus", "No such command 'bogus'."),
        ("send", "Missing argument 'QUEUE'."),
        ("send q x --file y", "Error: Choose one of BODY, --file, --link and --lines."),
        ("send q x --attribute no-value", "--attribute: 'no-value' is not NAME=VALUE"),
        ("send q x --attribute =v", "--attribute: '=v' is not NAME=VALUE"),
        ("send q x --delay soon", ": 'soon' is not a span of time: write 250ms, 30s, 5m, 2h or 1d"),
        ("send q x --delay 1s --deliver-at 2h", "Error: Choose one of --delay and --deliver-at."),
        (
            "send q --lines - --batch --deliver-at 2h",
            "--deliver-at can't go with --batch, whose delays count from its end.",
        ),
        ("send q x --batch", "Error: --batch goes with --lines."),
        ("send q --writer w --epoch 1", "--writer, --epoch and --no-publish go with --batch."),
        ("send q --lines x --no-publish", "--writer, --epoch and --no-publish go with --batch."),
        ("send q --lines x --batch --writer w", "--writer and --epoch go together."),
        ("send q --lines x --batch --epoch 1", "--writer and --epoch go together."),
        (
            "send q --lines x --batch --writer w --epoch 1 --no-publish",
            "Without publishing there is no writer: leave --writer out.",
        ),
        (
            "send q --lines - --deduplication-id 1",
            "--deduplication-id is of one message, and can't go with --lines.",
        ),
        ("send q --link f", "Error: --link goes with --root: a file is linked into a folder."),
        ("send q x --priority 10", ": 10 is not in the range 0<=x<=9."),
        (
            "send q x --deliver-at then",
            ": 'then' is not a time: write 2026-11-23T10:00Z, or 2h for in two hours",
        ),
        ("send q x --deliver-at 36501d", ": '36501d' is more than 36500d ahead"),
        (
            "receive q --follow --wait 3",
            "--follow waits for ever: leave --wait out, or use --max 0 --wait.",
        ),
        (
            "receive q --exec true --delete",
            "--exec prints nothing and deletes by itself: leave --delete, --raw, --json and --to out.",
        ),
        (
            "receive q --exec true --to d",
            "--exec prints nothing and deletes by itself: leave --delete, --raw, --json and --to out.",
        ),
        ("receive q --raw --json", "Error: Choose one of --raw, --json and --to."),
        ("receive q --json --to d", "Error: Choose one of --raw, --json and --to."),
        ("receive q --max -1", ": -1 is not in the range 0<=x<=1000000000."),
        ("receive q r", "Error: Several queues, or a pattern, need --follow."),
        ("receive q*", "Error: Several queues, or a pattern, need --follow."),
        ("receive q --visibility-timeout 0s", ": '0s' is not from 1ms to 12h"),
        ("receive q --visibility-timeout 13h", ": '13h' is not from 1ms to 12h"),
        ("peek q --raw --json", "Error: Choose one of --raw and --json."),
        ("queues set q", "Error: Name at least one setting or label."),
        ("queues create q --max-bytes much", ": 'much' is not a size: write 4096, 64k, 10M or 2G"),
        ("queues create q --label team", ": 'team' is not a label: write team=checkout"),
        ("serve --grpc nowhere", ": 'nowhere' is not an address: write 127.0.0.1:50051 or [::1]:50051"),
        ("serve --memory-watermark 1.5", ": '1.5' is no watermark: write 0.5, 2G or off"),
        ("serve --memory-watermark 0.0", ": '0.0' is no watermark: write 0.5, 2G or off"),
        ("serve --shard 2/2", "with a count of 1 to 1024 and numbers from 0 to one below it"),
        ("fsck --queue q", "Error: --queue goes with --restore."),
        ("stages publish a --writer w", "Error: --writer and --epoch go together."),
        ("stages publish a b", "Error: Several stages need a --writer and an --epoch."),
        ("stages publish a.b", ": 'a.b' is not a name of 1 to 64 letters, digits, '_' and '-'"),
        ("reservations show s 0 --raw --json", "Error: Choose one of --raw and --json."),
        (["fsck", ""], ": it is empty: give a value, or leave it out"),
        (["queues", "list", "--root", ""], ": it is empty: give a value, or leave it out"),
        (["serve", "--root", ""], ": it is empty: give a value, or leave it out"),
        (["send", "q", "x", "--deduplication-id", ""], ": it is empty: give a value, or leave it out"),
        (["send", "q", "x", "--group", ""], ": it is empty: give a value, or leave it out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    offline: Spoolrack, arguments: str | list[str], told: str
) -> None:
    result = offline(*(arguments.split() if isinstance(arguments, str) else arguments))
    assert (result.code, result.out) == (2, "")
    *_, line = result.err.splitlines()
    assert line.startswith("Error: ")
    assert line.endswith(told)


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['click'] = None; from spoolrack_server.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 69
    (line,) = ended.stderr.splitlines()
    assert line.startswith("spoolrack: click is missing")
    assert "pip install '.[server]'" in line


def test_the_version_is_told(offline: Spoolrack) -> None:
    assert re.fullmatch(r"spoolrack, version \d+\.\d+\.\d+\S*\n", offline("--version").out)


# serve


def test_serve_says_what_it_serves_where_and_what_to_type_next(tmp_path: Path) -> None:
    with serving("--data", tmp_path / "root", *ANY_PORTS) as server:
        assert server.said[0] == f"Spoolrack serves the queues in {tmp_path}/root"
        assert server.said[1].startswith("gRPC  127.0.0.1:")
        assert server.said[2].startswith("HTTP  http://127.0.0.1:")
        typed = re.sub(r"python[0-9.]*(?= -m)", sys.executable, server.said[4])
        assert output_of("sh", "-c", typed).splitlines()[1] == "Hello, world"


# units


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (Span(), "30", 30.0),
        (Span(), " 30s ", 30.0),
        (Span(), "5m", 300.0),
        (Span(), "2 h", 7200.0),
        (Span(), "1d", 86400.0),
        (Span(), "250ms", 0.25),
        (Span(), "1.5h", 5400.0),
        (Span(), 5, 5.0),
        (Span(1, 2), "1s", 1.0),
        (Span(1, 2), "2s", 2.0),
        (Size(), "4096", 4096),
        (Size(), "64k", 65536),
        (Size(), "64KiB", 65536),
        (Size(), "10M", 10 << 20),
        (Size(), "2GB", 2 << 30),
        (Size(), "1t", 1 << 40),
        (Size(), "1.5k", 1536),
        (Size(), 7, 7),
        (Size(1, 2), "1", 1),
        (Size(1, 2), "2", 2),
        (Watermark(), "off", None),
        (Watermark(), None, None),
        (Watermark(), "0.5", 0.5),
        (Watermark(), ".25", 0.25),
        (Watermark(), "2G", 2 << 30),
        (Watermark(), "1.5k", 1536),
        (Watermark(), 0.5, 0.5),
        (Address(), "127.0.0.1:0", ("127.0.0.1", 0)),
        (Address(), "[::1]:50051", ("::1", 50051)),
        (Address(), ":80", ("0.0.0.0", 80)),
        (Address(), "host.example:1", ("host.example", 1)),
        (Address(), "h:65535", ("h", 65535)),
        (Label(), "a=b=c", ("a", "b=c")),
        (Label(), "a=", ("a", "")),
        (Label(), ("a", "b"), ("a", "b")),
        (Text(), "ä", "ä"),
        (Text(any_bytes=True), "\udcff", "\udcff"),
        (Text(may_be_empty=True), "", ""),
        (Word(3), "a_-", "a_-"),
        (Moment(), "2026-11-23T10:00Z", datetime(2026, 11, 23, 10, tzinfo=UTC)),
        (Moment(), "2026-11-23T10:00+01:00", datetime(2026, 11, 23, 9, tzinfo=UTC)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, click.ParamType) else str(value),
)
def test_a_value_may_have_its_unit(kind: click.ParamType, value: object, found: object) -> None:
    read = kind.convert(value, None, None)
    assert (read, type(read)) == (found, type(found))


SIZE = "is not a size: write 4096, 64k, 10M or 2G"
SPAN = "is not a span of time: write 250ms, 30s, 5m, 2h or 1d"
WATERMARK = "is no watermark: write 0.5, 2G or off"
ADDRESS = "is not an address: write 127.0.0.1:50051 or [::1]:50051"
BELOW_TWO = "is not from 1 B to 2 B"


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        *((Span(), text, f"{text!r} {SPAN}") for text in ("", "s", "-1", "1w", "1h30m", "1e3")),
        *((Span(), text, f"{text!r} {SPAN}") for text in ("nan", "٣s")),
        (Span(1, 2), "0.9s", "'0.9s' is not from 1s to 2s"),
        (Span(1, 2), "2.1s", "'2.1s' is not from 1s to 2s"),
        (Span(), float("nan"), "nan is not from 0s to 36500d"),
        (Size(), 10**400, f"1{'0' * 58}… is not from 0 B to 1024.0 TiB"),
        (Span(), 10**400, f"1{'0' * 58}… is not from 0s to 36500d"),
        (Span(), -(10**400), f"-1{'0' * 57}… is not from 0s to 36500d"),
        *((Size(), text, f"{text!r} {SIZE}") for text in ("", "k", "-1", "1p", "1e3", "٣k")),
        (Size(1, 2), "0", f"'0' {BELOW_TWO}"),
        (Size(1, 2), "3", f"'3' {BELOW_TWO}"),
        *((Watermark(), text, f"{text!r} {WATERMARK}") for text in ("", "1", "0.0", "0G", "on")),
        *(
            (Address(), text, f"{text!r} {ADDRESS}")
            for text in ("", "host", "host:", "host:65536", "::1:80", "a b:1", "x:y", "x..y:1")
        ),
        *((Label(), text, f"{text!r} is not a label: write team=checkout") for text in ("a", "=b")),
        (Text(), "", "it is empty: give a value, or leave it out"),
        (Text(), "a\0b", "'a\\x00b' has a NUL character"),
        (Text(), "a\udcff", "'a\\udcff' is not UTF-8"),
        (Word(3), "abcd", "'abcd' is not a name of 1 to 3 letters, digits, '_' and '-'"),
        (Moment(), "then", "'then' is not a time: write 2026-11-23T10:00Z, or 2h for two hours ago"),
        (Moment(), "36501d", "'36501d' is more than 36500d ago"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_value_that_can_not_be_is_told_with_the_form_that_can(
    kind: click.ParamType, value: object, told: str
) -> None:
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(value, None, None)
    assert refused.value.message == told


@pytest.mark.parametrize("setting", SCHEMA.values(), ids=SCHEMA)
def test_a_setting_is_read_up_to_its_bounds(setting: Setting) -> None:
    kind = SETTING_TYPES[setting.name]
    if setting.kind not in (SettingKind.SPAN, SettingKind.COUNT, SettingKind.SIZE):
        return
    unit = "ms" if setting.kind is SettingKind.SPAN else ""
    for bound in (setting.least, setting.most):
        expected = bound / 1_000 if unit else bound
        assert kind.convert(f"{bound}{unit}", None, None) == expected
    for beyond in (setting.least - 1, setting.most + 1):
        with pytest.raises(click.BadParameter):
            kind.convert(f"{beyond}{unit}", None, None)


def test_a_span_is_a_moment_before_now_or_after_it() -> None:
    now = datetime(2026, 11, 23, 10, tzinfo=UTC)
    with click.Context(program, obj=lambda: now):
        assert Moment().read("2h") == now - timedelta(hours=2)
        assert Moment(is_ahead=True).read("2h") == now + timedelta(hours=2)
        assert Moment().read(" now ") is now
        assert Moment().read(now) is now


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0004, "0ms"),
        (0.25, "250ms"),
        (1, "1s"),
        (1.25, "1.2s"),
        (9, "9s"),
        (10.4, "10s"),
        (59.6, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (3601, "1h 1s"),
        (90061, "1d 1h"),
        (86400 * 400, "400d"),
    ],
)
def test_a_span_is_shown_in_its_two_largest_units(seconds: float, text: str) -> None:
    moment = datetime(2026, 11, 23, tzinfo=UTC)
    later = moment + timedelta(seconds=seconds)
    assert span_text(seconds) == text
    assert (age_text(moment, later), left_text(later, moment)) == (text, text)
    assert (age_text(later, moment), left_text(moment, later)) == ("0s", "0s")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (5 << 29, "2.5 GiB"),
        (1 << 40, "1.0 TiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_a_size_is_shown_in_its_largest_unit(size: int, text: str) -> None:
    assert size_text(size) == text


def test_moments_and_counts_are_shown_in_utc_and_words() -> None:
    moment = datetime.fromisoformat("2026-11-23T10:00:01.9+01:00")
    assert moment_text(moment) == "2026-11-23 09:00:01 UTC"
    counts = [plural(count, "message") for count in (0, 1, 2, 1000)]
    assert counts == ["0 messages", "1 message", "2 messages", "1,000 messages"]
