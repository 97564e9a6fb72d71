"""A message as an open file: for bodies that shall not be in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store.model.errors import MessageDamaged, MessageNotFound
from spoolrack_store.model.operations import ById, CreateQueue, Delete, Outgoing, Receive, Send, Sent
from spoolrack_store.model.settings import MIB, QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store

BODY = bytes(range(256)) * (3 * MIB // 256) + b"and a bit"
"""Longer than one piece of what is read at once."""


def sent(store: Store, body: bytes, **attributes: str | bytes) -> str:
    store.submit(CreateQueue(name="q", settings=QueueSettings(max_message_size=64 * MIB))).result()
    (answer,) = store.submit(
        Send(queue="q", messages=[Outgoing(body=body, attributes=attributes)])
    ).result()
    assert isinstance(answer, Sent)
    return answer.id


@pytest.mark.parametrize("body", [b"", b"small", BODY])
def test_an_open_message_is_the_body_and_what_belongs_to_it(tmp_path: Path, body: bytes) -> None:
    with Store.open(tmp_path) as store:
        id = sent(store, body, kind="x", raw=b"\xff")
        found = store.open_message("q", id)
        with found.file as file:
            file.seek(0)
            assert file.read(found.message.size) == body
        assert found.message.attributes == {"kind": "x", "raw": b"\xff"}
        assert (found.message.id, found.message.body) == (id, b"")
        assert found.message.state is State.READY


def test_an_open_message_stays_readable_when_it_is_leased_and_deleted(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        id = sent(store, BODY)
        with store.open_message("q", id).file as file:
            (leased,) = store.submit(Receive(queue="q")).result()
            with store.open_message("q", id).file:
                assert leased.id == id
            store.submit(Delete(queue="q", targets=[ById(id)])).result()
            with pytest.raises(MessageNotFound):
                store.open_message("q", id)
            file.seek(0)
            assert file.read(len(BODY)) == BODY


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: b"X" + raw[1:]]
)
def test_a_damaged_message_is_not_opened(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    with Store.open(tmp_path) as store:
        id = sent(store, BODY, kind="x")
        (path,) = (tmp_path / "queues" / "q").rglob(f"{id}*")
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(MessageDamaged):
            store.open_message("q", id)
