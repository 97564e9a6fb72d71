"""Names in `staged/` and `published/`, and manifests: what parses is formatted as it was."""

from __future__ import annotations

import zlib

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.manifest import Manifest, decode, encode
from spoolrack_store.model.names import MAX_NAME_BYTES, Batch, NotAName
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.settings import MAX_DELAY
from spoolrack_store.model.stage_names import (
    Chunk,
    Claim,
    Publication,
    StageFolder,
    parse_chunk,
    parse_published,
    parse_stage_folder,
)
from spoolrack_store.model.staging import MAX_CHUNK, MAX_EPOCH

ID = "018bcfe5-6700-7000-8000-000000000001"
DUE = Millis(1_700_000_000_000)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_stages_folder_comes_back_from_its_name(is_dropped: bool) -> None:
    folder = StageFolder(stage="a_-Z9", due=DUE, is_dropped=is_dropped)
    assert parse_stage_folder(str(folder)) == folder


@pytest.mark.parametrize("delay", [None, 0, 5_000])
@pytest.mark.parametrize("owner", [None, "abc"])
def test_a_chunk_comes_back_from_its_name(delay: int | None, owner: str | None) -> None:
    late = None if delay is None else Millis(delay)
    chunk = Chunk(number=7, queue="q.1", batch=Batch(id=ID, count=9, owner=owner), delay=late)
    assert parse_chunk(str(chunk)) == chunk


def test_what_is_published_comes_back_from_its_name() -> None:
    by = Publication(writer="w-1", epoch=0)
    claim = Claim(by=by, folder=StageFolder(stage="s", due=DUE))
    assert (parse_published(str(by)), parse_published(str(claim))) == (by, claim)


def test_the_longest_names_have_room() -> None:
    by = Publication(writer="w" * 80, epoch=MAX_EPOCH)
    claim = Claim(by=by, folder=StageFolder(stage="s" * 64, due=DUE))
    batch = Batch(id=ID, count=999_999_999, owner="o" * 16)
    chunk = Chunk(number=MAX_CHUNK, queue="q" * 80, batch=batch, delay=MAX_DELAY)
    for name in (str(claim), str(chunk)):
        assert len(name) <= MAX_NAME_BYTES
    assert parse_published(str(claim)) == claim
    assert parse_chunk(str(chunk)) == chunk


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "s@",
        "s@17",
        f"@{DUE}",
        f"s@{DUE}~",
        f"s@{DUE}~dropped~dropped",
        f"a.b@{DUE}",
        f"s@{DUE}x",
    ],
)
def test_what_is_no_stages_folder_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        parse_stage_folder(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0:q",
        f"0:q:{ID}",
        f"0:q:{ID},s1,c00000000",
        f"00:q:{ID},n1",
        f"-1:q:{ID},n1",
        f"1000000000:q:{ID},n1",
        f"0+:q:{ID},n1",
        f"0+01:q:{ID},n1",
        f"0+{MAX_DELAY + 1}:q:{ID},n1",
        f"0:.q:{ID},n1",
        f"0::{ID},n1",
        f"0:q:{ID},n1@{DUE}",
    ],
)
def test_what_is_no_chunk_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        parse_chunk(text)


@pytest.mark.parametrize(
    "text",
    ["", "w", "w.", "w.01", f"w.{2**63}", ".1", "w.1.", "w.1.s", f"w.1.s@{DUE}~dropped", f"w..s@{DUE}"],
)
def test_what_nobody_published_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        parse_published(text)


MANIFEST = Manifest(
    stages={f"s@{DUE}": ID},
    queues={"q": (DUE, 3)},
    messages=5,
    digest="5-abc",
    published_at=DUE,
    memory=Millis(60_000),
)


def test_a_manifest_comes_back_from_its_content() -> None:
    assert decode(encode(MANIFEST)) == MANIFEST
    assert MANIFEST.forget_at == DUE + 60_000


def test_a_manifest_that_is_not_whole_is_none() -> None:
    content = encode(MANIFEST)
    for torn in (*(content[:at] for at in range(len(content))), bytes(len(content)), content + b"\n"):
        with pytest.raises(NotWhole):
            decode(torn)


@pytest.mark.parametrize("line", [b"[]\n", b"{}\n", b'{"stages":1}\n', b"\xff\n"])
def test_what_has_a_checksum_and_says_nothing_is_no_manifest(line: bytes) -> None:
    with pytest.raises(NotWhole):
        decode(line + f"{zlib.crc32(line):08x}\n".encode())
