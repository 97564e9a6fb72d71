"""The manifest of a publication. The names of stages and publications are in tests/vectors."""

from __future__ import annotations

import zlib

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.stage_names import Manifest

ID = "018bcfe5-6700-7000-8000-000000000001"
DUE = Millis(1_700_000_000_000)
MANIFEST = Manifest(
    stages={f"s@{DUE}": ID},
    queues={"q": (DUE, 3)},
    messages=5,
    digest="5-abc",
    published_at=DUE,
    epoch_retention=Millis(60_000),
)


def test_a_manifest_comes_back_from_its_content() -> None:
    assert Manifest.decode(MANIFEST.encode()) == MANIFEST
    assert MANIFEST.expires_at == DUE + 60_000


def test_a_manifest_that_is_not_whole_is_none() -> None:
    content = MANIFEST.encode()
    for torn in (*(content[:at] for at in range(len(content))), bytes(len(content)), content + b"\n"):
        with pytest.raises(NotWhole):
            Manifest.decode(torn)


@pytest.mark.parametrize("line", [b"[]\n", b"{}\n", b'{"stages":1}\n', b"\xff\n"])
def test_an_empty_object_with_a_checksum_is_no_manifest(line: bytes) -> None:
    with pytest.raises(NotWhole):
        Manifest.decode(line + f"{zlib.crc32(line):08x}\n".encode())
