"""The comparison of SQS with gRPC: a short run of it, on real servers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import spoolrack
from spoolrack_server.access.sqs_keys import issue

from benchmarks import sqs

pytestmark = pytest.mark.slow

SHORT = 0.2


def test_both_protocols_of_one_server_are_measured(tmp_path: Path) -> None:
    found = sqs.compare(tmp_path, rounds=1, seconds=SHORT)
    assert {sqs.GRPC, sqs.PLAIN, sqs.SQS} <= found.keys()
    for system in found.values():
        assert len(system.rates) == 1
        assert system.rate > 0
        assert system.microseconds >= 0
        assert system.client_microseconds > 0
    assert found[sqs.GRPC].server is found[sqs.SQS].server


def test_a_batch_is_ten_messages_whatever_client_sends_it(tmp_path: Path) -> None:
    server, grpc, url = sqs.start_spoolrack(tmp_path)
    try:
        with spoolrack.connect(grpc) as client:
            client.create_queue("q")
            for protocol, address in (("grpc", grpc), ("plain", url), ("sqs", url)):
                with sqs.senders(protocol, address, "q", 2) as sends:
                    for send in sends:
                        send()
                assert client.queue("q").purge() == 2 * sqs.BATCH
    finally:
        server.end()


def test_the_plain_client_signs_as_sqs_wants_it(tmp_path: Path) -> None:
    keys = str(tmp_path / "keys")
    access_key, secret = issue(keys, "writer")
    server, _, url = sqs.start_spoolrack(tmp_path, "--sqs-keys", keys)
    try:
        with closing(sqs.PlainClient(url, access_key, secret)) as client:
            client.call("CreateQueue", {"QueueName": "q"})
        with (
            closing(sqs.PlainClient(url, access_key, "another")) as client,
            pytest.raises(SystemExit, match="signature"),
        ):
            client.call("CreateQueue", {"QueueName": "q"})
    finally:
        server.end()
