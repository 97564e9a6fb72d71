"""A queue over HTTP: whether it is there, create, delete."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack_server.gateway.queue_endpoints import _FIELDS, _WITH_PARTS

from tests.support.http_rig import DESCRIPTION, Http
from tests.support.server_rig import Client

JSON = {"Content-Type": "application/json"}


async def test_a_queue_of_the_ancestors_readme_lives_and_dies(http: Http) -> None:
    assert (await http.ask("GET", "/queue001")).status == 404
    created = await http.ask("PUT", "/queue001")
    assert (created.status, created.body) == (201, b"")
    assert (await http.ask("GET", "/queue001")).status == 200
    deleted = await http.ask("DELETE", "/queue001")
    assert (deleted.status, deleted.body) == (200, b"")
    assert (await http.ask("GET", "/queue001")).status == 404


async def test_every_queue_name_is_a_path(http: Http, client: Client) -> None:
    for name in ("queue001", "A", "0", "a.b-c_d", "messages", "x" * 80, "favicon.ico"):
        await http.create(name)
        id = await http.send(b"x", name)
        assert (await http.receive(queue=name)).id == id
        assert (await client.counts(name)).leased_count == 1


async def test_to_create_a_queue_again_is_no_error_and_changes_nothing(
    http: Http, client: Client
) -> None:
    await client.create("q", visibility_timeout=Duration(seconds=7))
    await http.send()
    for body, headers in [(None, None), (b"anything", None), (b" ", JSON), (b"{}", JSON)]:
        assert (await http.ask("PUT", "/q", body, headers)).status == 201
    found = (await http.ask("GET", "/q")).json
    assert found["settings"]["visibility_timeout"] == 7
    assert found["counts"]["ready_count"] == 1


async def test_to_delete_a_queue_that_is_not_there_is_no_error(http: Http) -> None:
    assert (await http.ask("DELETE", "/never")).status == 200


SETTINGS: dict[str, Any] = {
    "sending": "open",
    "receiving": "open",
    "visibility_timeout": 1.5,
    "delivery_delay": 2,
    "max_receives": 3,
    "dead_letter_queue": "dead",
    "retention": 86_400,
    "max_messages": 10,
    "max_bytes": 1_000_000,
    "max_message_size": 500,
    "lease_durability": "relaxed",
    "deduplication_window": 60.5,
    "archive_retention": 86400.5,
    "expires": 3600,
    "messages_per_file": 1,
    "group_order": "fair",
    "priority_aging": 90,
    "dead_letter_at": "receive",
    "backoff_initial": 2,
    "backoff_factor": 3,
    "backoff_maximum": 60,
    "backoff_jitter": 0,
    "backoff_at": "lease_end",
}


async def test_settings_can_be_given_as_json_and_are_shown_in_the_same_words(http: Http) -> None:
    await http.create("dead")
    await http.create("q", **SETTINGS)
    found = (await http.ask("GET", "/q")).json
    assert found["name"] == "q"
    assert found["settings"] == (await http.ask("GET", "/dead")).json["settings"] | SETTINGS
    assert found["counts"] == {
        "ready_count": 0,
        "leased_count": 0,
        "delayed_count": 0,
        "byte_count": 0,
        "oldest_age": None,
    }
    await http.create("q", **SETTINGS)
    again = await http.ask("PUT", "/q", b'{"max_messages": 11}', JSON)
    assert (again.status, again.reason) == (409, "QUEUE_EXISTS")


async def test_a_change_is_bound_to_the_etag_that_was_read(http: Http) -> None:
    await http.create("q", max_messages=3, labels={"team": "a"})
    tag = (await http.ask("GET", "/q")).headers["ETag"]
    body = b'{"max_bytes": 5, "labels": {"tier": "gold"}}'
    replaced = await http.ask("PUT", "/q", body, {**JSON, "If-Match": tag})
    assert (replaced.status, replaced.headers["ETag"]) == (200, '"2"')
    found = (await http.ask("GET", "/q")).json
    assert (found["settings"]["max_bytes"], found["settings"]["max_messages"]) == (5, 0)
    assert found["labels"] == {"tier": "gold"}
    for method, content in [("PUT", b"{}"), ("PATCH", b"{}"), ("DELETE", None)]:
        late = await http.ask(method, "/q", content, {**JSON, "If-Match": tag})
        assert (late.status, late.reason) == (412, "VERSION_MISMATCH")
    wrong = await http.ask("DELETE", "/q", None, {"If-Match": "2"})
    assert (wrong.status, wrong.reason) == (400, "INVALID_REQUEST")
    assert (await http.ask("PUT", "/none", b"{}", {**JSON, "If-Match": "*"})).status == 404
    assert (await http.ask("DELETE", "/q", None, {"If-Match": '"2"'})).status == 200


async def test_a_patch_with_null_resets_a_setting_and_removes_a_label(http: Http) -> None:
    labels = {"team": "a", "tier": "gold"}
    await http.create("q", visibility_timeout=7, sending="paused", max_messages=3, labels=labels)
    changes = b'{"visibility_timeout": null, "sending": null, "labels": {"team": null}}'
    assert (await http.ask("PATCH", "/q", changes, JSON)).status == 200
    found = (await http.ask("GET", "/q")).json
    assert found["settings"]["visibility_timeout"] == 30
    assert found["settings"]["sending"] == "open"
    assert found["settings"]["max_messages"] == 3
    assert found["labels"] == {"tier": "gold"}
    assert (await http.ask("PATCH", "/q", b'{"labels": null}', JSON)).status == 200
    assert (await http.ask("GET", "/q")).json["labels"] == {}


async def test_a_span_below_a_millisecond_is_one_and_never_none(http: Http) -> None:
    # As over gRPC: a retention of nothing would be one for ever.
    await http.create(retention=0.0004, delivery_delay=1.0001, max_receives=0)
    shown = (await http.ask("GET", "/q")).json["settings"]
    assert (shown["retention"], shown["delivery_delay"]) == (0.001, 1.001)


@pytest.mark.parametrize("name", sorted(_FIELDS))
async def test_each_field_of_a_list_has_parts_or_says_so(http: Http, name: str) -> None:
    await http.create()
    answer = await http.ask("GET", f"/-/queues?fields={name}.x")
    expected = (200, "") if name in _WITH_PARTS else (400, "INVALID_REQUEST")
    assert (answer.status, answer.reason if answer.status != 200 else "") == expected


async def test_queues_are_listed_by_page_by_name_and_by_field(http: Http) -> None:
    await http.create("dead")
    for n in range(3):
        await http.create(f"jobs-{n}", max_receives=3, dead_letter_queue="dead")
    await http.send(queue="jobs-0")
    page = (await http.ask("GET", "/-/queues?prefix=jobs&page_size=2")).json
    assert [each["name"] for each in page["queues"]] == ["jobs-0", "jobs-1"]
    token = page["next_page_token"]
    rest = (await http.ask("GET", f"/-/queues?prefix=jobs&page_size=2&page_token={token}")).json
    assert ([each["name"] for each in rest["queues"]], rest["next_page_token"]) == (["jobs-2"], "")
    (dead,) = (await http.ask("GET", "/-/queues?contains=ea")).json["queues"]
    queue = (await http.ask("GET", "/dead")).json
    assert queue.pop("dead_letter_sources") == ["jobs-0", "jobs-1", "jobs-2"]
    assert (dead.pop("traffic").keys(), dead) == (queue.pop("traffic").keys(), queue)
    assert dead["is_dead_letter_queue"]
    fields = "name,counts.ready_count,settings.dead_letter_queue,blocking_message,traffic.entered_count"
    picked = (await http.ask("GET", f"/-/queues?contains=s-0&fields={fields}")).json["queues"]
    assert picked == [
        {
            "name": "jobs-0",
            "counts": {"ready_count": 1},
            "settings": {"dead_letter_queue": "dead"},
            "traffic": {"entered_count": 1},
        }
    ]


async def test_head_says_whether_a_queue_is_there(http: Http) -> None:
    await http.create()
    there, missing = await http.ask("HEAD", "/q"), await http.ask("HEAD", "/nope")
    assert (there.status, there.body, missing.status, missing.body) == (200, b"", 404, b"")


async def test_every_get_that_leases_nothing_has_a_head(http: Http) -> None:
    await http.create()
    id = await http.send()
    names = {"{queue}": "q", "{id}": id, "{name}": "s", "{stage}": "s", "{stream}": "s"}
    for path, item in DESCRIPTION["paths"].items():
        if "get" in item and path != "/{queue}/messages":
            for name, value in {**names, "{sequence_number}": "0"}.items():
                path = path.replace(name, value)
            looked, head = await http.ask("GET", path), await http.ask("HEAD", path)
            assert (path, head.status, head.body) == (path, looked.status, b"")
            assert looked.status in (200, 404)


async def test_a_wrong_method_is_told_the_right_ones(http: Http) -> None:
    for method, path, allowed in (
        ("POST", "/q", "DELETE, GET, HEAD, PATCH, PUT"),
        ("HEAD", "/q/messages", "DELETE, GET, POST"),
        ("PUT", "/q/messages", "DELETE, GET, POST"),
        ("POST", "/q/messages/01890000-0000-7000-8000-000000000000", "DELETE, GET, HEAD"),
        ("DELETE", "/-/health", "GET, HEAD"),
    ):
        answer = await http.ask(method, path)
        assert (path, answer.status, answer.headers["Allow"]) == (path, 405, allowed)
        assert method == "HEAD" or answer.reason == "METHOD_NOT_ALLOWED"


async def test_a_missing_resource_is_reported_as_not_found(http: Http) -> None:
    for path in ("/", "/-", "/-/", "/-/x", "/-/messages", "/q/other", "/q/messages/a/b"):
        answer = await http.ask("GET", path)
        assert (path, answer.status, answer.reason) == (path, 404, "NO_SUCH_PAGE")
        assert "/-/openapi.json" in answer.json["message"]
