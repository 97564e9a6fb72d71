"""The session that all tests of Spark share is quiet, small, and out of reach of others."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import spoolrack
from pyspark import SparkContext
from pyspark.sql import SparkSession

LISTENING = "0A"


def listeners(pid: int) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the addresses at which a process listens for TCP."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(descriptor))
        except FileNotFoundError:
            continue  # closed since it was listed
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENING and f"socket:[{inode}]" in sockets:
                raw = bytes.fromhex(local.partition(":")[0])
                words = struct.unpack(f"={len(raw) // 4}I", raw)
                address = ip_address(struct.pack(f">{len(words)}I", *words))
                mapped = getattr(address, "ipv4_mapped", None)
                yield mapped or address


def where(_: int) -> tuple[str, str]:
    return sys.prefix, spoolrack.__file__


def test_spark_listens_on_loopback_only(spark: SparkSession) -> None:
    assert SparkContext._gateway is not None
    heard = list(listeners(SparkContext._gateway.proc.pid))

    assert heard
    assert all(address.is_loopback for address in heard), heard


def test_spark_has_no_page_of_its_own(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None


def test_workers_run_this_interpreter_and_find_the_clients_package(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [where(0)]
