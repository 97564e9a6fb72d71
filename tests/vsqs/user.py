"""A program that uses vsqs's names, over vsqs itself or over ours: only the import differs.

    python user.py original|ours FOLDER QUEUE obey
    python user.py original|ours FOLDER QUEUE produce TAG COUNT
    python user.py original|ours FOLDER QUEUE consume STOP

`obey` reads calls as lines of JSON, [name, arguments, keywords], and answers each with a line: the
returned value, or the exception. `produce` and `consume` write their operations, a line each, and
`consume` ends when there is nothing for a second and the file STOP exists.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

if sys.argv[1] == "original":
    from vsqs import queue as names  # type: ignore[import-untyped]
else:
    from spoolrack.vsqs import queue as names


def say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def plain(answer: Any) -> Any:
    if isinstance(answer, bytes):
        return answer.decode()
    return [plain(part) for part in answer] if isinstance(answer, tuple) else answer


def obey(queue: Any) -> None:
    for line in sys.stdin:
        name, arguments, keywords = json.loads(line)
        if name == "publish":
            arguments = [arguments[0].encode()]
        try:
            if name == "capacity":
                (queue.capacity,) = arguments
                say(None)
            elif name == "clock":
                names.micros = iter(arguments).__next__
                say(None)
            else:
                say(plain(getattr(queue, name)(*arguments, **keywords)))
        except Exception as error:  # noqa: BLE001  # the test asks for it
            say({"error": type(error).__name__})


def produce(queue: Any, tag: str, count: str) -> None:
    for number in range(int(count)):
        body = f"{tag}/{number}"
        say([queue.publish(body.encode()), body])


def consume(queue: Any, stop: str) -> None:
    while True:
        id, body = queue.receive(visibility_timeout=3600, timeout=1)
        if body is not None:
            say([id, body.decode()])
            queue.delete(id)
        elif os.path.exists(stop):
            return


def main() -> None:
    manager = names.QueueManager(sys.argv[2])
    queue = manager.get_queue(sys.argv[3])
    part = {"obey": obey, "produce": produce, "consume": consume}[sys.argv[4]]
    part(queue, *sys.argv[5:])
    queue.close()
    manager.close()


if __name__ == "__main__":
    main()
