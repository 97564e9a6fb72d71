"""The dashboard's files with their headers: what it shows it asks over public HTTP."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
import spoolrack_server.dashboard
from spoolrack.v1.queue_pb2 import DeadLetterRecord
from spoolrack_server.process.server import Server

from tests import CHECKOUT
from tests.support.http_rig import Answer, Http, raw_to

STATIC = Path(spoolrack_server.dashboard.__file__).parent / "static"


async def get(http: Http, path: str, **headers: str) -> Answer:
    return await http.ask(
        "GET", path, headers={"Accept-Encoding": "identity", **headers}, described=False
    )


def assets() -> list[str]:
    return sorted(
        str(path.relative_to(STATIC))
        for path in STATIC.rglob("*")
        if path.is_file() and path.suffix != ".json"
    )


async def test_the_page_and_every_file_of_it_are_served_with_the_headers_that_bind_them(
    http: Http,
) -> None:
    for path in ["", *(f"/{asset}" for asset in assets())]:
        answer = await get(http, f"/-/dashboard{path}")
        assert answer.status == 200, path
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        kind = answer.headers["Content-Type"]
        wanted = {
            "js": "text/javascript",
            "css": "text/css",
            "svg": "image/svg+xml",
            "txt": "text/plain",
        }
        assert kind.startswith(wanted.get(path.rpartition(".")[2], "text/html")), path
        head = await http.ask("HEAD", f"/-/dashboard{path}", described=False)
        assert (head.status, head.body) == (200, b"")


async def test_the_page_itself_holds_no_script_no_style_and_no_address_of_another_host(
    http: Http,
) -> None:
    page = (await get(http, "/-/dashboard")).body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=|//", page)
    named_files = re.findall(r'(?:src|href)="(?!#)([^"]+)"', page)
    assert {"dashboard/app.js", "dashboard/style.css"} <= set(named_files)
    for named in named_files:
        assert (await get(http, f"/-/{named}")).status == 200, named


async def test_a_cached_asset_is_not_sent_again(http: Http) -> None:
    first = await get(http, "/-/dashboard/app.js")
    again = await get(http, "/-/dashboard/app.js", **{"If-None-Match": first.headers["ETag"]})
    other = await get(http, "/-/dashboard/app.js", **{"If-None-Match": 'W/"other"'})
    assert (again.status, again.body) == (304, b"")
    assert (other.status, other.body) == (200, first.body)
    assert first.headers["Cache-Control"] == "no-cache"


async def test_a_client_that_accepts_gzip_gets_it(http: Http) -> None:
    plain = await get(http, "/-/dashboard/style.css", **{"Accept-Encoding": "identity"})
    packed = await get(http, "/-/dashboard/style.css", **{"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 2


async def test_nothing_but_its_files_can_be_asked_for(http: Http) -> None:
    for path in (
        "../permits.py",
        "%2e%2e/permits.py",
        "..%2fpermits.py",
        "pages/../../permits.py",
        "/etc/passwd",
        "vendor/vendored.json",
        "nobody.js",
        "app.js/",
        "%00",
    ):
        answer = await get(http, f"/-/dashboard/{path}")
        assert (path, answer.status, answer.reason) == (path, 404, "NO_SUCH_PAGE")


async def test_a_slash_too_many_leads_to_the_page(http: Http) -> None:
    assert (await get(http, "/-/dashboard/")).status == 200  # aiohttp's client follows


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_root_leads_browsers_to_the_page_and_programs_nowhere(
    http: Http, server: Server, method: str
) -> None:
    async with raw_to(server) as raw:
        await raw.say(f"{method} / HTTP/1.1", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
        status, headers = await raw.head()
    # Relative: a proxy may serve it under a prefix.
    assert (status, headers["location"]) == (303, "-/dashboard")
    assert (await get(http, "/", Accept="text/html")).headers["Content-Type"].startswith("text/html")
    answer = await get(http, "/", Accept="*/*")
    assert (answer.status, answer.reason) == (404, "NO_SUCH_PAGE")


@pytest.mark.parametrize("noted", [STATIC / "vendor", CHECKOUT / "tests" / "browser" / "vendor"])
def test_vendored_files_equal_npm_s_with_their_licence_beside_them(noted: Path) -> None:
    files = set()
    for package in json.loads((noted / "vendored.json").read_text()):
        assert package["integrity"].startswith("sha512-")
        assert any("LICENSE" in name for name in package["files"]), package["name"]
        for name, facts in package["files"].items():
            assert hashlib.sha256((noted / name).read_bytes()).hexdigest() == facts["sha256"], name
            files.add(noted / name)
    assert files == {
        path for path in noted.rglob("*") if path.is_file() and path.name != "vendored.json"
    }


def test_no_script_of_ours_makes_html_of_a_text() -> None:
    ours = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    assert len(ours) > 10
    for path in ours:
        script = path.read_text()
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert danger not in script, path
        assert not re.search(r"https?://(?!www\.w3\.org/)", script), path


def test_the_pages_read_no_field_of_a_dead_letter_record_that_is_not_there() -> None:
    pages = [(STATIC / "pages" / name).read_text() for name in ("message.js", "messages.js")]
    read = {field for page in pages for field in re.findall(r"\b(?:record|last)\.(\w+)", page)}
    assert {"reason", "source_queue"} <= read <= set(DeadLetterRecord.DESCRIPTOR.fields_by_name)
