"""Names of stages and publications, and manifests: a parsed name is formatted as it was."""

from __future__ import annotations

import zlib

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.manifest import Manifest, decode, encode
from spoolrack_store.model.names import NotAName, Stem
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.settings import MAX_DELAY
from spoolrack_store.model.stage_names import (
    Chunk,
    Publication,
    StageLife,
    parse_chunk,
    parse_published,
    parse_stage_life,
)
from spoolrack_store.model.stage_requests import MAX_CHUNK, MAX_EPOCH

ID = "018bcfe5-6700-7000-8000-000000000001"
DUE = Millis(1_700_000_000_000)
LIFE = StageLife(stage="s", due=DUE)
LONE = Stem(id=ID, size=5, crc=0)
BATCH = Stem(id="018bcfe5-6700-7000-8000-000000000000", count=9, size=5, crc=0, line=80)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_stages_folder_comes_back_from_its_name(is_dropped: bool) -> None:
    folder = StageLife(stage="a_-Z9", due=DUE, is_dropped=is_dropped)
    assert parse_stage_life(str(folder)) == folder


@pytest.mark.parametrize("delay", [None, 0, 5_000])
@pytest.mark.parametrize("stem", [BATCH, LONE])
def test_a_chunk_comes_back_from_its_name(stem: Stem, delay: int | None) -> None:
    late = None if delay is None else Millis(delay)
    chunk = Chunk(life=LIFE, number=7, queue="q.1", stem=stem, delay=late)
    assert parse_chunk(chunk.path.removeprefix("staged/")) == chunk


def test_a_published_name_is_parsed_to_its_value() -> None:
    by = Publication(writer="w" * 80, epoch=MAX_EPOCH)
    assert parse_published(str(by)) == by


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
def test_an_invalid_stage_folder_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        parse_stage_life(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        f"0:q:{BATCH.text}",
        f"s:0:q:{BATCH.text}",
        f"s@{DUE}~dropped:0:q:{BATCH.text}",
        f"s@{DUE}:0:q",
        f"s@{DUE}:0:q:{ID}",
        f"s@{DUE}:0:q:{BATCH.text},v2",
        f"s@{DUE}:00:q:{BATCH.text}",
        f"s@{DUE}:-1:q:{BATCH.text}",
        f"s@{DUE}:{MAX_CHUNK + 1}:q:{BATCH.text}",
        f"s@{DUE}:0+:q:{BATCH.text}",
        f"s@{DUE}:0+01:q:{BATCH.text}",
        f"s@{DUE}:0+{MAX_DELAY + 1}:q:{BATCH.text}",
        f"s@{DUE}:0:.q:{BATCH.text}",
        f"s@{DUE}:0:../q:{BATCH.text}",
        f"s@{DUE}:0::{BATCH.text}",
        f"s@{DUE}:0:q:{BATCH.text}@{DUE}",
        f"s@{DUE}:{'9' * 5_000}:q:{BATCH.text}",
    ],
    ids=lambda text: text[:40],
)
def test_an_invalid_chunk_name_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        parse_chunk(text)


@pytest.mark.parametrize(
    "text",
    ["", "w", "w.", "w.01", f"w.{2**63}", ".1", "w.1.", "w.1.s", f"w.1.s@{DUE}~dropped", f"w..s@{DUE}"],
)
def test_an_invalid_published_name_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        parse_published(text)


MANIFEST = Manifest(
    stages={f"s@{DUE}": ID},
    queues={"q": (DUE, 3)},
    messages=5,
    digest="5-abc",
    published_at=DUE,
    epoch_retention=Millis(60_000),
)


def test_a_manifest_comes_back_from_its_content() -> None:
    assert decode(encode(MANIFEST)) == MANIFEST
    assert MANIFEST.expires_at == DUE + 60_000


def test_a_manifest_that_is_not_whole_is_none() -> None:
    content = encode(MANIFEST)
    for torn in (*(content[:at] for at in range(len(content))), bytes(len(content)), content + b"\n"):
        with pytest.raises(NotWhole):
            decode(torn)


@pytest.mark.parametrize("line", [b"[]\n", b"{}\n", b'{"stages":1}\n', b"\xff\n"])
def test_an_empty_object_with_a_checksum_is_no_manifest(line: bytes) -> None:
    with pytest.raises(NotWhole):
        decode(line + f"{zlib.crc32(line):08x}\n".encode())
