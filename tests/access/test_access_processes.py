"""Servers as processes that ask who calls, and the command line that says it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import spoolrack
import trustme
from spoolrack import RetryPolicy
from spoolrack.errors import SpoolrackError
from spoolrack_server.access.tokens import Tokens

from tests.support import STUCK
from tests.support.access_rig import Files, looks
from tests.support.forked import run_forked
from tests.support.serving import ANY_PORTS, serving

pytestmark = pytest.mark.timeout(300)  # It starts processes.


def spoolrack_says(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return run_forked("spoolrack_server", *arguments)


@pytest.mark.parametrize(
    "options", [("--grpc", "0.0.0.0:0"), ("--http", "0.0.0.0:0"), ("--compat", "mq")]
)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_others_than_this_machine_are_served_only_with_tls_or_in_as_many_words(
    tmp_path: Path, options: tuple[str, ...], processes: str
) -> None:
    said = spoolrack_says("serve", "--root", str(tmp_path / "root"), *options, "--processes", processes)
    assert said.returncode == os.EX_USAGE
    (line,) = said.stderr.splitlines()
    assert line.startswith("spoolrack: 0.0.0.0:")
    assert "--insecure" in line
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    "options",
    ["tokens", "tokens 0.0.0.0", "tokens tls", "tls client_ca", "tokens tls client_ca"],
)
def test_the_commands_that_serve_suggests_work(
    tmp_path: Path, files: Files, ca: trustme.CA, options: str
) -> None:
    started: list[str] = []
    # Values that a reader puts in place of the names.
    named = {"CA": files.write_ca(ca), "TOKEN": str(tmp_path / "my token")}
    tls, mine = files.write_certificate(ca), files.write_client(ca, "me")
    named |= {"CERTIFICATE": mine.certificate, "KEY": mine.key}
    if "tokens" in options:
        started += ["--tokens", files.write_tokens("alice")]
    if "0.0.0.0" in options:
        started += ["--grpc", "0.0.0.0:0", "--insecure"]
    if "tls" in options:
        started += ["--tls-certificate", tls.certificate, "--tls-key", tls.key]
    if "client_ca" in options:
        started += ["--tls-client-ca", files.write_ca(ca, "clients.pem")]
    with serving("--root", tmp_path / "root", *ANY_PORTS, *started) as server:
        typed = server.said[-1]
        count = (" CA" in typed) + ("TOKEN" in typed or "KEY" in typed)
        assert server.process.stdout is not None
        hints = [server.process.stdout.readline() for _ in range(count)]

        def type_in(line: str) -> subprocess.CompletedProcess[str]:
            for name, path in named.items():
                line = re.sub(rf"\b{name}\b(?!:)", shlex.quote(path), line)
            line = re.sub(r"python[0-9.]*(?= -m)", shlex.quote(sys.executable), line)
            return subprocess.run(
                f"umask 077; {line}",
                shell=True,
                capture_output=True,
                text=True,
                timeout=STUCK,
                check=False,
            )

        for hint in hints:
            assert re.match(r"  (CA|TOKEN|CERTIFICATE, KEY): ", hint)
            if "tokens new" in hint:
                made = hint.partition("makes one: ")[2].replace("NAME", "me")
                assert type_in(made).returncode == 0
        for _ in looks():
            ended = type_in(typed)
            if ended.returncode != os.EX_NOPERM:
                break  # The new token is known within a moment.
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.splitlines()[1] == "Hello, world"


def test_insecure_serves_other_machines_without_tls(tmp_path: Path) -> None:
    ports = ("--grpc", "0.0.0.0:0", "--http", "0.0.0.0:0", "--insecure")
    with serving("--root", tmp_path / "root", *ports) as server:
        assert server.grpc.startswith("0.0.0.0:")
        assert server.at("HTTP").startswith("http://0.0.0.0:")
        port = server.grpc.rpartition(":")[2]
        with spoolrack.connect(f"127.0.0.1:{port}") as client:
            client.create_queue("q")


def test_several_processes_share_certificates_and_tokens_and_read_both_again(
    tmp_path: Path, files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    tls, trusted = files.write_certificate(ca), files.write_ca(ca)
    options = [
        *("--grpc", "0.0.0.0:0", "--http", "127.0.0.1:0", "--processes", "2"),
        *("--tls-certificate", tls.certificate, "--tls-key", tls.key),
    ]
    tokens = files.write_tokens("alice")
    rules = files.write_permissions("alice all *")
    environment = {"SPOOLRACK_TOKENS": tokens, "SPOOLRACK_PERMISSIONS": rules}
    with serving("--root", tmp_path / "root", *options, environment=environment) as server:
        assert server.at("HTTP").startswith("https://127.0.0.1:")
        at = f"grpcs://127.0.0.1:{server.grpc.rpartition(':')[2]}"
        alice = {"SPOOLRACK_URL": at, "SPOOLRACK_CA": trusted}
        said = spoolrack_says("queues", "create", "q", **alice, SPOOLRACK_TOKEN=files.tokens["alice"])
        assert said.returncode == 0, said.stderr
        # By a file, as a container gets it.
        path = files.write("token", files.tokens["alice"] + "\n")
        said = spoolrack_says("send", "--token-file", path, "q", "hello", **alice)
        assert said.returncode == 0, said.stderr
        said = spoolrack_says("receive", "q", **alice)
        assert (said.returncode, said.stdout) == (os.EX_NOPERM, "")
        assert "send a token" in said.stderr
        # All of them learn of a new certificate and of a new identity, and forget the old one.
        files.write_certificate(other_ca)
        files.write_tokens("bob")
        files.write_permissions("bob all *")
        trusted = files.write_ca(other_ca, "other.pem")

        def who_may() -> set[str]:
            found = set()
            for name in ("alice", "bob"):
                with spoolrack.connect(
                    at, ca=trusted, token=files.tokens[name], retry=RetryPolicy(attempts=1)
                ) as client:
                    try:
                        client.queue("q").info()
                        found.add(name)
                    except SpoolrackError:
                        continue
            return found

        in_a_row = 0
        for _ in looks():
            in_a_row = in_a_row + 1 if who_may() == {"bob"} else 0
            if in_a_row == 20:
                break
        assert in_a_row == 20


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--tls-key", "{key}"], "give --tls-certificate and --tls-key together"),
        (["--tls-client-ca", "{key}"], "give --tls-certificate and --tls-key together"),
        (["--permissions", "{key}"], "no caller can show an identity"),
        (["--tokens", "{key}", "--processes", "2"], "line 1: "),
    ],
)
def test_files_that_can_not_be_used_are_told_in_one_line(
    tmp_path: Path, files: Files, ca: trustme.CA, options: list[str], why: str
) -> None:
    key = files.write_certificate(ca).key
    said = spoolrack_says(
        *("serve", "--root", str(tmp_path / "root"), "--grpc", "127.0.0.1:0", "--http", "off"),
        *(option.format(key=key) for option in options),
    )
    assert said.returncode == os.EX_CONFIG, said.stderr
    line = said.stderr.splitlines()[0]
    assert line.startswith("spoolrack: ")
    assert why in line
    assert "PRIVATE" not in said.stderr


def test_a_new_token_and_its_line_go_where_they_belong(files: Files) -> None:
    said = spoolrack_says("tokens", "new", "spiffe://example.org/reports")
    assert said.returncode == 0
    token = said.stdout.strip()
    found = Tokens.parsed(said.stderr)
    assert [identity.name for identity in found] == ["spiffe://example.org/reports"]
    assert found.identity_of(token) is not None
    said = spoolrack_says("tokens", "new", "no such name")
    assert (said.returncode, said.stdout) == (2, "")
    assert "can't be the name of an identity" in said.stderr
