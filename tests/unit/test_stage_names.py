"""Names of stages and publications, and manifests: what parses is formatted as it was."""

from __future__ import annotations

import zlib

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.manifest import Manifest, decode, encode
from spoolrack_store.model.names import NotAName
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.stage_names import (
    Publication,
    StageFolder,
    parse_published,
    parse_stage_folder,
)
from spoolrack_store.model.staging import MAX_EPOCH

ID = "018bcfe5-6700-7000-8000-000000000001"
DUE = Millis(1_700_000_000_000)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_stages_folder_comes_back_from_its_name(is_dropped: bool) -> None:
    folder = StageFolder(stage="a_-Z9", due=DUE, is_dropped=is_dropped)
    assert parse_stage_folder(str(folder)) == folder


def test_what_is_published_comes_back_from_its_name() -> None:
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
def test_what_is_no_stages_folder_is_refused(text: str) -> None:
    with pytest.raises(NotAName):
        parse_stage_folder(text)


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
