"""Options are checked before any row is touched, and say what to write instead."""

from __future__ import annotations

import pytest
from spoolrack.spark._options import InvalidOption, read_options, write_options

PLACE = {"endpoint": "queues:50051", "queue": "jobs"}


def test_options_have_defaults_and_any_case() -> None:
    options = read_options({"ENDPOINT": "grpc://queues", "Queue": "jobs", "maxmessagespertrigger": "7"})

    assert options.place.address == "queues:50051"
    assert options.max_messages == 7
    assert options.hold_seconds == 600
    assert options.on_lost == "fail"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("endpoint", "", "missing"),
        ("endpoint", "http://queues:80", "host:port"),
        ("endpoint", "queues:99999", "host:port"),
        ("endpoint", "one,one", "host:port"),
        ("queue", "", "missing"),
        ("queue", "../etc", "name"),
        ("credentials", "srk_secret", "parts NAME=VALUE"),
        ("credentials", "tokne=srk_secret", "no part 'tokne'"),
        ("credentials", "token=srk_secret", "in clear"),
        ("credentials", "token=a;token=b", "each once"),
        ("credentials", "token=a;token-file=b", "choose one"),
        ("credentials", "file=/nowhere", "The driver reads it"),
        ("credentials", "file=/nowhere;token=a", "file stands alone"),
        ("credentials", "ca=/nowhere", "go with grpcs://"),
        ("credentials", "insecure=yes", "insecure is 'true'"),
        ("maxMessagesPerTrigger", "0", "1 to 100000"),
        ("maxMessagesPerTrigger", "100001", "1 to 100000"),
        ("maxBytesPerTrigger", "1e6", "whole number"),
        ("numPartitions", "-1", "whole number"),
        ("holdSeconds", "nan", "seconds"),
        ("holdSeconds", "0.5", "from 1"),
        ("onLostReservation", "ignore", "redeliver"),
        ("maxMessagePerTrigger", "5", "is it maxMessagesPerTrigger"),
        ("holdSecond", "5", "is it holdSeconds"),
        ("waitSeconds", "21", "from 0 to 20"),
        ("minMessagesPerTrigger", "-1", "whole number"),
        ("maxTriggerDelaySeconds", "-1", "from 0 to 86400"),
        ("onMissingQueue", "create", "'fail' or 'wait'"),
        ("minOffsetsPerTrigger", "5", "Kafka's: use minMessagesPerTrigger"),
        ("maxTriggerDelay", "5m", "Kafka's: use maxTriggerDelaySeconds"),
        ("maxOffsetsPerTrigger", "5", "Kafka's: use maxMessagesPerTrigger"),
        ("failOnDataLoss", "false", "Kafka's: use onLostReservation"),
        ("kafka.bootstrap.servers", "queues:9092", "Kafka's: use endpoint"),
        ("startingOffsets", "earliest", "no offsets"),
    ],
)
def test_a_wrong_option_says_what_it_may_be(name: str, value: str, says: str) -> None:
    with pytest.raises(InvalidOption, match=says) as caught:
        read_options({**PLACE, name: value})
    assert "srk_secret" not in str(caught.value)


def test_sparks_own_options_are_let_be() -> None:
    read_options({**PLACE, "checkpointLocation": "/tmp/c", "path": "x", "queryName": "q"})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"mode": "fast"}, "'staged' or 'direct'"),
        ({"txnId": "a b"}, "letters"),
        ({"txnId": "a", "mode": "direct"}, "deduplication_id"),
    ],
)
def test_a_wrong_option_of_a_write_says_what_it_may_be(more: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        write_options({**PLACE, **more})
