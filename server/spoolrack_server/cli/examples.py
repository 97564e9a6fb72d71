"""An example of each command, which its help ends with. Knows nothing of what the commands do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

EXAMPLES: Final[Mapping[str, str]] = {
    "serve": "serve --root /srv/queues --grpc 127.0.0.1:50051 --http 127.0.0.1:8080",
    "mover": "mover --source /srv/queues/new --destination /srv/queues/queues",
    "reaper": "reaper --source /srv/queues/remove",
    "send": "send jobs 'resize cat.jpg' --attribute priority=low --delay 5m",
    "receive": "receive jobs --follow --exec './resize'",
    "delete": "delete jobs 01a2250d-8129-76aa-b8ba-a2b8ce436000",
    "release": "release jobs 01a2250d-8129-76aa-b8ba-a2b8ce436000 --delay 1m",
    "reject": "reject jobs 01a2250d-8129-76aa-b8ba-a2b8ce436000 --reason 'no such picture'",
    "queues create": "queues create jobs --dead-letter-queue failed --max-receives 5",
    "queues list": "queues list mail. --json",
    "queues show": "queues show jobs",
    "queues describe": "queues describe jobs",
    "queues why": "queues why jobs",
    "queues set": "queues set jobs --visibility-timeout 2m --reset retention",
    "queues apply": "queues apply queues.json",
    "queues pause": "queues pause jobs --receiving",
    "queues resume": "queues resume jobs",
    "queues delete": "queues delete jobs --yes",
    "queues purge": "queues purge jobs --state ready",
    "peek": "peek jobs --max 20 --state ready --attribute priority=low",
    "stages list": "stages list",
    "stages publish": "stages publish night-run",
    "stages abort": "stages abort night-run",
    "reservations list": "reservations list",
    "reservations show": "reservations show spark-1 7",
    "reservations release": "reservations release spark-1 7",
    "redrive": "redrive failed --rate 10",
    "redrives list": "redrives list failed",
    "redrives cancel": "redrives cancel 01a2250d-8129-76aa-b8ba-a2b8ce436000",
    "schedules create": "schedules create reports nightly '0 2 * * *' 'build the report'",
    "schedules list": "schedules list reports",
    "schedules update": "schedules update reports nightly --cron '0 3 * * *'",
    "schedules pause": "schedules pause reports nightly",
    "schedules resume": "schedules resume reports nightly",
    "schedules delete": "schedules delete reports nightly",
    "top": "top --sort age",
    "bench": "bench --size 4k --seconds 10s",
    "size": "size --rate 500 --body 4k --backlog 1000000",
    "shard": "shard jobs --shards 8",
    "try": "try --url grpcs://queues.example:50051 --ca ca.pem",
    "health": "health ready --health 127.0.0.1:8081",
    "export": "export jobs --output jobs.jsonl",
    "import": "import jobs.jsonl",
    "fsck": "fsck /srv/queues",
    "snapshot": "snapshot --root /srv/queues /srv/copies/monday",
    "replay": "replay jobs --since 2026-11-23T10:00Z --into jobs.again",
    "tokens new": "tokens new worker-1",
    "tokens sqs-key": "tokens sqs-key worker-1 --keys sqs.keys",
}


def end_with_example(path: str, command: click.Command) -> None:
    """End the help of a command, or of each command of a group, with its example."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            end_with_example(f"{path} {name}", each)
    elif path in EXAMPLES:
        command.epilog = f"\b\nExample:\n  spoolrack {EXAMPLES[path]}"
