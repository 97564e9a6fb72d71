"""The comparison of SQS with gRPC: a short run of it, on real servers."""

from __future__ import annotations

from pathlib import Path

import spoolrack

from benchmarks import sqs

SHORT = 0.2


def test_both_protocols_of_one_server_are_measured(tmp_path: Path) -> None:
    found = sqs.compare(tmp_path, rounds=1, seconds=SHORT)
    assert {sqs.GRPC, sqs.SQS, sqs.LEAN} <= found.keys()
    for system in found.values():
        assert len(system.rates) == 1
        assert system.rate > 0
        assert system.microseconds >= 0
        assert system.client_microseconds > 0
    assert found[sqs.GRPC].server is found[sqs.SQS].server


def test_a_batch_is_ten_messages_over_both_protocols(tmp_path: Path) -> None:
    server, grpc, url = sqs.start_spoolrack(tmp_path)
    try:
        with spoolrack.connect(grpc) as client:
            client.create_queue("q")
            for protocol, address in (("grpc", grpc), ("sqs", url)):
                sqs.sender(protocol, address, "q")()
                assert client.queue("q").purge() == sqs.BATCH
    finally:
        server.end()
