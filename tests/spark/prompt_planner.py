"""Runs the process in which Spark plans a streaming source, and connects it to Spark before all else.

    prompt_planner.py -m MODULE

Spark waits ten seconds for that connection, and no setting changes that. Python has its imports to do
before it connects, which take longer on a machine that is busy: then the query ends with "Python worker
failed to connect back". After the connection Spark has more patience.
"""

from __future__ import annotations

import os
import socket
import struct
import sys


def connected() -> socket.socket:
    """Return the connection that Spark waits for, with the secret on its way."""
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    if path is not None:
        made = socket.socket(socket.AF_UNIX)
        made.connect(path)
        return made
    made = socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    made.sendall(struct.pack("!i", len(secret)) + secret)
    return made


def main() -> None:
    connection = connected()

    import runpy

    from pyspark import worker_util
    from pyspark.serializers import UTF8Deserializer

    def connect(_: object, secret: str | None) -> tuple[object, socket.socket]:
        file = connection.makefile("rwb")
        if secret is not None:
            answer = UTF8Deserializer().loads(file)
            assert answer == "ok", answer
        return file, connection

    worker_util.local_connect_and_auth = connect
    _, _, module, *rest = sys.argv
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
