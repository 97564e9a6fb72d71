"""PostgreSQL as a queue: the SQL of pgmq (send, read, delete), without the extension.

A read marks messages invisible for a while, and passes over what another is about to take. Nothing
tells a reader that there is something to read: it asks again and again.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Sequence
from typing import Any, Final, cast

import psycopg

from .. import server_processes
from .base import WAIT, Driver, Received, System, SystemFacts

_USER: Final = "postgres"
"""PostgreSQL refuses to be run by root."""
_PAUSE: Final = 0.005
"""Seconds between two looks at an empty queue; pgmq's own default, 0.1, would be worse for it."""

_CREATE: Final = """
    CREATE TABLE "{0}" (
        msg_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        read_ct integer NOT NULL DEFAULT 0,
        enqueued_at timestamptz NOT NULL DEFAULT now(),
        vt timestamptz NOT NULL,
        message bytea
    );
    CREATE INDEX "{0}-vt" ON "{0}" (vt ASC);
"""
_SEND: Final = 'INSERT INTO "{0}" (vt, message) SELECT clock_timestamp(), unnest(%b::bytea[])'
_READ: Final = """
    WITH cte AS (
        SELECT msg_id FROM "{0}" WHERE vt <= clock_timestamp()
        ORDER BY msg_id ASC LIMIT %s FOR UPDATE SKIP LOCKED
    )
    UPDATE "{0}" m SET vt = clock_timestamp() + interval '600 seconds', read_ct = read_ct + 1
    FROM cte WHERE m.msg_id = cte.msg_id RETURNING m.msg_id, m.message
"""
_DELETE: Final = 'DELETE FROM "{0}" WHERE msg_id = ANY(%s)'


def _connect(address: str) -> Any:
    host, _, port = address.rpartition(":")
    return psycopg.connect(host=host, port=int(port), user=_USER, dbname="postgres", autocommit=True)


class PostgresDriver(Driver):
    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._connection = _connect(address)
        self._cursor = self._connection.cursor(binary=True)
        self._send, self._read, self._delete = (
            statement.format(queue) for statement in (_SEND, _READ, _DELETE)
        )
        self._cursor.execute(f'SELECT 1 FROM "{queue}" LIMIT 1')

    def send(self, body: bytes) -> None:
        self.send_many([body])

    def send_many(self, bodies: Sequence[bytes]) -> None:
        self._cursor.execute(self._send, [list(bodies)], prepare=True)

    def receive(self, count: int) -> list[Received]:
        end = time.monotonic() + WAIT
        while True:
            self._cursor.execute(self._read, [count], prepare=True)
            found = [Received(bytes(body), id) for id, body in self._cursor.fetchall()]
            if found or time.monotonic() > end:
                return found
            time.sleep(_PAUSE)

    def delete(self, messages: Sequence[Received]) -> None:
        self._cursor.execute(self._delete, [[message.handle for message in messages]], prepare=True)

    def close(self) -> None:
        self._connection.close()


class Postgres(System):
    name = "postgres"
    driver = PostgresDriver
    program = "postgres"
    facts = SystemFacts(
        title="PostgreSQL",
        configuration="fsync on, synchronous_commit on, full_page_writes on (the defaults); "
        "pgmq's SQL: FOR UPDATE SKIP LOCKED, a visibility timeout, one transaction a call",
        note=f"A reader of an empty queue asks every {_PAUSE * 1_000:.0f} ms.",
    )

    @classmethod
    def why_not(cls) -> str | None:
        reason = super().why_not()
        if reason is None and os.geteuid() == 0:
            try:
                pwd.getpwnam(_USER)
            except KeyError:
                return f"there is no user {_USER}, and root it can't be"
        return reason

    def start(self) -> None:
        super().start()
        user = _USER if os.geteuid() == 0 else None
        files = self.folder / "data"
        if not files.exists():
            files.mkdir(mode=0o700)
            if user is not None:
                os.chown(files, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
            subprocess.run(
                [
                    *(server_processes.find("initdb") or "initdb", "-D", files, "-U", _USER),
                    *("-A", "trust", "-E", "UTF8", "--no-instructions"),
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                user=user,
                group=user,
                cwd="/",
            )
        port = server_processes.free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": "",
            "max_connections": 200,
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.run(port, "-D", str(files), *flags, user=user)

    def version(self) -> str:
        self.connect_as_user().close()
        with _connect(self.address) as connection:
            return str(connection.execute("SHOW server_version").fetchone()[0])

    def connect_as_user(self, timeout: float = 60.0) -> Any:
        """Return a connection, once it accepts any: its port is open before."""
        end = time.monotonic() + timeout
        while True:
            try:
                return _connect(self.address)
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def create_queue(self, queue: str) -> None:
        with _connect(self.address) as connection:
            connection.execute(_CREATE.format(queue))

    def delete_queue(self, queue: str) -> None:
        with _connect(self.address) as connection:
            connection.execute(f'DROP TABLE "{queue}"')

    def count(self, queue: str) -> int | None:
        with _connect(self.address) as connection:
            return cast(int, connection.execute(f'SELECT count(*) FROM "{queue}"').fetchone()[0])
