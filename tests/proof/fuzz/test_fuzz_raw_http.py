"""Fuzzing of the HTTP port with raw bytes: no answer is a 500, nothing refused is stored.

SPOOLRACK_FUZZ=29000 sends so many requests, and others each time.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.proof.fuzz.anything import QUEUES
from tests.proof.fuzz.fuzz_rig import Fuzzed
from tests.proof.fuzz.raw_requests import QUEUE, raw_request
from tests.support import STUCK

TRIES: Final = int(os.environ.get("SPOOLRACK_FUZZ", "400"))
UNKNOWN_END: Final = 0.2
"""Seconds for an answer to a request that may have no end. A later answer counts neither way."""
ROUND: Final = 100
"""Requests after which the server and its log are looked at."""
_STATUS: Final = re.compile(rb"^HTTP/\d\.\d (\d{3}) [^\r\n]*\r\n", re.MULTILINE)
_STORED: Final = re.compile(rb"\r\nLocation: /%s/messages/([-0-9a-f]{36})\r\n" % QUEUE)
_MARK: Final = re.compile(rb"mark-\d{6}")


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[Fuzzed]:
    with Fuzzed(tmp_path, (*QUEUES, QUEUE.decode())) as fuzzed:
        yield fuzzed


def answers(url: str, said: bytes, *, is_whole: bool) -> tuple[bytes, bool]:
    """Return all that the server says to it, and whether that is all."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=STUCK) as connection:
        heard = b""
        try:
            connection.sendall(said)
            end = time.monotonic() + (STUCK if is_whole else UNKNOWN_END)
            while not is_answered(heard, said):
                connection.settimeout(max(0.001, end - time.monotonic()))
                part = connection.recv(1 << 16)
                if not part:
                    return heard, True
                heard += part
        except TimeoutError:
            assert not is_whole, f"no answer to {said[:2_000]!r}"
        except ConnectionError:
            return heard, False  # It hung up while there was more to come: its answer may be lost.
        # To what may be more than one request, more may be said.
        return heard, is_whole


def is_answered(heard: bytes, said: bytes) -> bool:
    """Return whether the answer to one whole request is all there."""
    head, end, body = heard.partition(b"\r\n\r\n")
    if head.startswith((b"HTTP/1.1 100", b"HTTP/1.0 100")):
        return is_answered(body, said)
    if not end or said.startswith(b"HEAD"):
        return bool(end)
    length = re.search(rb"\r\nContent-Length: (\d+)", head, re.IGNORECASE)
    return length is None or len(body) >= int(length[1])


@pytest.mark.timeout(120 + TRIES)
def test_any_bytes_are_answered_or_refused_and_nothing_refused_is_stored(fuzzed: Fuzzed) -> None:
    seed = Random().getrandbits(32) if "SPOOLRACK_FUZZ" in os.environ else 1
    random = Random(seed)
    stored: set[bytes] = set()
    refused: set[bytes] = set()
    unheard = statuses_seen = 0
    for n in range(TRIES):
        mark = b"mark-%06d" % n
        request = raw_request(random, mark)
        heard, is_all = answers(fuzzed.url, request.said, is_whole=request.is_whole)
        statuses = [int(status) for status in _STATUS.findall(heard)]
        statuses_seen += len(statuses)
        told = f"seed {seed}, request {n}: {request.said[:2_000]!r}: {heard[:2_000]!r}"
        assert all(status < 500 or status == 503 for status in statuses), told
        found = _STORED.findall(heard)
        stored.update(found)
        unheard += not is_all
        if is_all and statuses and min(status for status in statuses if status != 100) >= 400:
            assert not found, told
            refused.add(mark)
        if n % ROUND == ROUND - 1:
            fuzzed.check()
            fuzzed.fill()
    fuzzed.check()

    # The fuzz is one: much is refused, and some gets through.
    assert statuses_seen > TRIES / 2
    assert len(refused) > TRIES / 4
    assert len(stored) > TRIES / 50
    bodies = fuzzed.bodies(QUEUE.decode())
    marks = {mark for body in bodies.values() for mark in _MARK.findall(body)}
    assert not marks & refused, f"seed {seed}"
    sent = {id for id, body in bodies.items() if body != fuzzed.BODY}
    assert {id.decode() for id in stored} <= sent, f"seed {seed}"
    assert len(sent) <= len(stored) + 2 * unheard, f"seed {seed}"
    fuzzed.check_for_leaks()
    fuzzed.check_folders()
