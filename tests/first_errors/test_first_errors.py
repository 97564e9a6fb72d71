"""The mistakes that a newcomer makes: what is said by each door says what happened, to what, and what
to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from tests.first_errors.surroundings import (
    QUEUE_URL,
    Act,
    Call,
    Surroundings,
    after_release,
    aio,
    celery,
    cli,
    curl,
    folder,
    mortal,
    python,
    spark,
    sqs,
)

JSON: Final = ("-XPUT", "-HContent-Type:application/json")
PLAIN: Final = "{plain_grpc}"
READER: Final = {"token": "{reader}"}
JOBS: Final = QUEUE_URL.format("jobs")
POLICY: Final = (
    '{"maxReceiveCount":3,"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:absent"}'
)

Row = tuple[str, str, Act, tuple[str, ...]]


def said(mistake: str, door: str, act: Act, *words: str) -> Row:
    return (mistake, door, act, words)


def both(mistake: str, url: str, *words: str, call: Call | None = None, **options: str) -> list[Row]:
    """The same call of both clients, by threads and by asyncio."""
    calls = () if call is None else (call,)
    return [
        said(mistake, "python", python(url, *calls, **options), *words),
        said(mistake, "aio", aio(url, *calls, **options), *words),
    ]


def create(**settings: object) -> Call:
    return lambda client: client.create_queue("new", **settings)


def on(queue: str, call: Call) -> Call:
    return lambda client: call(client.queue(queue))


def schedule(cron: str, time_zone: str = "UTC") -> Call:
    return lambda client: client.schedules.create("jobs", "nightly", cron, time_zone=time_zone)


NOT_THERE: Final = ("No answer from {closed}", "Start one with spoolrack serve", "check host and port")
NO_GRPC: Final = ("speaks HTTP/1 and not gRPC", "HTTP or SQS", "Use the port for gRPC")
NO_TOKEN: Final = ("isn't known", "send a token", "Authorization: Bearer", "token=", "SPOOLRACK_TOKEN")
BAD_TOKEN: Final = ("isn't known", "not in the server's tokens file", "spoolrack tokens new")
DENIED: Final = ("reader may not", "at this server", "ask the server's operator", "--permissions")
FULL: Final = ("full", "nothing was stored", "make room", "sends need")
NO_QUEUE: Final = ("no queue job:", "Check its name", "create it")
BAD_NAME: Final = ("can't be a queue's name", "1 to 80 letters, digits")
TOO_LARGE: Final = ("2000 bytes", "queue small takes 1024", "split the message", "max_message_size")
NO_DEAD_LETTER_QUEUE: Final = ("dead_letter_queue", "'absent'", "must exist already")
SCHEMES: Final = ("host:port", "grpc://host:port", "file:///root")
NO_ROOT: Final = ("{other}", "it is none yet", "check the path", "create a queue in it")

MISTAKES: Final[list[Row]] = [
    # Where the server is.
    *both("no server", "{closed}", *NOT_THERE),
    said("no server", "cli", cli("queues list --url {closed}"), *NOT_THERE),
    said("no server", "celery", celery("spoolrack://{closed}//"), *NOT_THERE),
    *both("unknown host", "no-such-host.invalid:1", "no-such-host.invalid", "check the host name"),
    *both("the port of HTTP", "{plain_http}", "{plain_http} ", *NO_GRPC),
    said("the port of HTTP", "cli", cli("queues list --url {plain_http}"), *NO_GRPC),
    said("the port of HTTP", "celery", celery("spoolrack://{plain_http}//"), *NO_GRPC),
    *both("the port of SQS", "{plain_sqs}", *NO_GRPC),
    said(
        "the port of HTTP",
        "sqs",
        sqs(lambda client: client.list_queues(), "http://{plain_http}"),
        *("POST can't be done at /", "this is the HTTP port", "serve --sqs"),
    ),
    said(
        "the port of SQS",
        "curl",
        curl("/-/queues", server="http://{plain_sqs}"),
        *("port for clients of Amazon SQS", "serve --http"),
    ),
    *both("a page of a proxy", "{html}", *NO_GRPC),
    said(
        "a page of a proxy",
        "cli",
        cli("send jobs --file {large} --url {plain_grpc} --http-url http://{html}"),
        *("http://{html} answered 502", "check --http-url"),
    ),
    *both("http://", "http://{plain_http}", "http://", "HTTP port", "speaks gRPC", *SCHEMES),
    *both("a mistyped scheme", "gprc://{plain_grpc}", "gprc:// is not known", *SCHEMES),
    *both("a path in the URL", "grpc://{plain_grpc}/jobs", "names no server", *SCHEMES),
    *both("a user without a scheme", "me:s/secret@{plain_grpc}", "'…@", "token=", *SCHEMES),
    *both("a user in the URL", "grpc://me:secret@{plain_grpc}", "…@", "token=", *SCHEMES),
    said("http://", "cli", cli("queues list --url http://{plain_http}"), "--url", *SCHEMES),
    said(
        "a mistyped scheme", "celery", celery("spoolrak://{plain_grpc}//"), "spoolrak", "mean spoolrack"
    ),
    # TLS.
    *both("TLS to a server without", "grpcs://{plain_grpc}", "no TLS is spoken", "Use grpc://"),
    *both("no TLS to a server with", "grpc://{tls_grpc}", "closes each new", "use grpcs://"),
    said("no TLS to a server with", "cli", cli("queues list --url {tls_grpc}"), "use grpcs://"),
    *both("no CA", "grpcs://{tls_grpc}", "no CA that this client trusts", "ca=, --ca"),
    *both("another CA", "grpcs://{tls_grpc}", "no CA that", "ca=, --ca", ca="{other_ca}"),
    *both("another name", "grpcs://{misnamed_grpc}", "is for other names", "a name of the", ca="{ca}"),
    *both("no certificate", "grpcs://{mutual_grpc}", "want a client's certificate", ca="{ca}"),
    *both("a CA without TLS", PLAIN, "Certificates go with grpcs://", ca="{ca}"),
    *both("a CA that is none", "grpcs://{tls_grpc}", "{file} can't be used as cert", ca="{file}"),
    *both("no such CA", "grpcs://{tls_grpc}", "/no/ca.pem can't be used", "No such", ca="/no/ca.pem"),
    # Tokens and permissions.
    *both("no token", "{guarded_grpc}", *NO_TOKEN),
    said("no token", "cli", cli("send jobs x --url {guarded_grpc}"), *NO_TOKEN),
    said("no token", "curl", curl("/jobs", server="http://{guarded_http}"), *NO_TOKEN),
    said("no token", "celery", celery("spoolrack://{guarded_grpc}//"), *NO_TOKEN),
    *both("wrong token", "{guarded_grpc}", *BAD_TOKEN, token="{wrong_token}"),
    said(
        "wrong token",
        "cli",
        cli("send jobs x --url {guarded_grpc} --token-file {wrong_file}"),
        *BAD_TOKEN,
    ),
    said(
        "a password in place of a token",
        "curl",
        curl("/jobs", "-uadmin:{admin}", server="http://{guarded_http}"),
        *("no Bearer token", *NO_TOKEN),
    ),
    *both("no token at all", PLAIN, "spaces, is empty or too long", token="a b"),
    *both("a token in clear", "192.0.2.1:1", "in clear", "use grpcs://", token="{reader}"),
    *both("no permission", "{guarded_grpc}", *DENIED, **READER),
    said(
        "no permission",
        "cli",
        cli("send jobs x --url {guarded_grpc} --token-file {reader_file}"),
        *DENIED,
    ),
    *both("no permission to make", "{guarded_grpc}", *DENIED, call=create(), **READER),
    *both(
        "no permission to redrive",
        "{guarded_grpc}",
        *DENIED,
        call=on("jobs", lambda queue: queue.redrive()),
        **READER,
    ),
    *both(
        "no permission on this queue",
        "{guarded_grpc}",
        *("reader may not receive at the queue small", "ask the server's operator"),
        call=on("small", lambda queue: queue.receive()),
        **READER,
    ),
    # The disk.
    *both("full disk", "{full_grpc}", *FULL),
    said("full disk", "curl", curl("/jobs/messages", body="x", server="http://{full_http}"), *FULL),
    said(
        "full disk",
        "sqs",
        sqs(lambda client: client.send_message(QueueUrl=JOBS, MessageBody="x"), "http://{full_sqs}"),
        *FULL,
    ),
    # Queues.
    *both("no queue", PLAIN, *NO_QUEUE, call=on("job", lambda queue: queue.send(b"x"))),
    *both("no queue", PLAIN, *NO_QUEUE, call=on("job", lambda queue: queue.receive())),
    said("no queue", "cli", cli("send job x --url {plain_grpc}"), *NO_QUEUE, "nearest name is jobs"),
    said("no queue", "curl", curl("/job/messages", body="x"), *NO_QUEUE),
    said(
        "no queue",
        "sqs",
        sqs(lambda client: client.get_queue_url(QueueName="job")),
        "The specified queue does not exist",
    ),
    *both("an invalid name", PLAIN, *BAD_NAME, call=lambda client: client.create_queue("my queue")),
    said("an invalid name", "cli", cli("queues create my/queue --url {plain_grpc}"), *BAD_NAME),
    said("an invalid name", "curl", curl("/_queue", *JSON, body="{}"), *BAD_NAME),
    said(
        "an invalid name",
        "sqs",
        sqs(lambda client: client.create_queue(QueueName="my queue")),
        "alphanumeric characters, hyphens, or underscores",
    ),
    *both(
        "another queue of the name",
        PLAIN,
        "exists with other settings",
        "7 s",
        "choose another name",
        call=lambda client: client.create_queue("jobs", visibility_timeout=7),
    ),
    # Settings.
    *both("an unknown setting", PLAIN, "max_recieves", "max_receives is", call=create(max_recieves=3)),
    said(
        "an unknown setting", "cli", cli("queues create new --max-recieves 3"), "mean", "--max-receives"
    ),
    said(
        "an unknown setting",
        "curl",
        curl("/new", *JSON, body='{"max_recieves": 3}'),
        *("max_recieves", "not a setting of a queue", "the nearest is max_receives"),
    ),
    said(
        "an unknown setting",
        "sqs",
        sqs(lambda client: client.create_queue(QueueName="new", Attributes={"VisibilityTimeOut": "3"})),
        "Unknown Attribute VisibilityTimeOut",
    ),
    *both(
        "a bad span",
        PLAIN,
        "'5 minutes'",
        "number of seconds",
        call=create(visibility_timeout="5 minutes"),
    ),
    said("a bad span", "cli", cli("queues create new --visibility-timeout soon"), "'soon'", "30s, 5m"),
    said(
        "a bad span",
        "curl",
        curl("/new", *JSON, body='{"visibility_timeout": "5m"}'),
        *("visibility_timeout", "'5m'", "must be a number of seconds"),
    ),
    *both(
        "receives without a dead-letter queue",
        PLAIN,
        "max_receives",
        "set both or neither",
        call=create(max_receives=3),
    ),
    *both(
        "no dead-letter queue",
        PLAIN,
        *NO_DEAD_LETTER_QUEUE,
        call=create(max_receives=3, dead_letter_queue="absent"),
    ),
    said(
        "no dead-letter queue",
        "sqs",
        sqs(lambda client: client.create_queue(QueueName="new", Attributes={"RedrivePolicy": POLICY})),
        *("RedrivePolicy", "Dead letter target does not exist"),
    ),
    *both("a bad cron", PLAIN, "'every day'", "five fields", call=schedule("every day")),
    *both("a bad time zone", PLAIN, "'Berlin'", "Europe/Berlin", call=schedule("0 2 * * *", "Berlin")),
    # JSON and paths.
    said(
        "no JSON",
        "curl",
        curl("/new", *JSON, body="max_receives: 3"),
        "'max_receives: 3'",
        "must be JSON",
    ),
    said("a list", "curl", curl("/new", *JSON, body="[]"), "the body", "'[]'", "a JSON object"),
    said(
        "a text for a number",
        "curl",
        curl("/new", *JSON, body='{"max_receives": "three"}'),
        "'three'",
        "an integer",
    ),
    said("a mistyped path", "curl", curl("/jobs/mesages"), "/jobs/mesages", "openapi.json"),
    said(
        "another method",
        "curl",
        curl("/jobs", body="x"),
        "POST can't be done at /jobs",
        "use DELETE, GET",
    ),
    said(
        "a mistyped parameter", "curl", curl("/jobs/messages?waits=1"), "no parameter 'waits'", "wait"
    ),
    # Messages.
    *both(
        "a large message", PLAIN, *TOO_LARGE, call=on("small", lambda queue: queue.send(b"x" * 2_000))
    ),
    said("a large message", "cli", cli("send small --file {body} --url {plain_grpc}"), *TOO_LARGE),
    said("a large message", "curl", curl("/small/messages", body="x" * 2_000), *TOO_LARGE),
    said(
        "a large message",
        "sqs",
        sqs(
            lambda client: client.send_message(
                QueueUrl=QUEUE_URL.format("small"), MessageBody="x" * 2_000
            )
        ),
        "must be shorter than 1024 bytes",
    ),
    said(
        "a large batch",
        "sqs",
        sqs(
            lambda client: client.send_message_batch(
                QueueUrl=JOBS, Entries=[{"Id": str(n), "MessageBody": "x"} for n in range(11)]
            )
        ),
        "Maximum number of entries per request are 10. You have sent 11",
    ),
    *both(
        "a large receive",
        PLAIN,
        "5000",
        "from 1 to 1000",
        call=on("jobs", lambda queue: queue.receive(5_000)),
    ),
    *both(
        "a long wait",
        PLAIN,
        "'2 h'",
        "from 0 s to 1 h",
        call=on("jobs", lambda queue: queue.receive(wait=7_200)),
    ),
    said("a long wait", "curl", curl("/jobs/messages?wait=7200"), "wait", "'2 h'", "from 0 s to 1 h"),
    said(
        "a long wait",
        "sqs",
        sqs(lambda client: client.receive_message(QueueUrl=JOBS, WaitTimeSeconds=21)),
        *("WaitTimeSeconds", "<= 20"),
    ),
    *both(
        "no receipt",
        PLAIN,
        "'abc' is not a receipt",
        "unchanged",
        call=on("jobs", lambda queue: queue.delete("abc")),
    ),
    said(
        "no receipt", "cli", cli("delete jobs abc --url {plain_grpc}"), "'abc'", "a UUID such as a send"
    ),
    said("no id", "curl", curl("/jobs/messages/abc", "-XDELETE"), "'abc'", "a UUID such as a send"),
    said("a lease that is over", "python", after_release(PLAIN), "is over", "extend the lease in time"),
    # Folders.
    said("no root", "folder", folder("file://{other}"), *NO_ROOT),
    said("no root", "cli", cli("send jobs x --root {other}"), *NO_ROOT),
    said("no folder", "folder", folder("file://{folder}/absent"), "no such folder", "check the path"),
    said("no absolute path", "folder", folder("file://data"), "'file://data'", "an absolute path"),
    said("a file for a folder", "folder", folder("file://{file}"), "{file}", "it is no folder"),
    said("a file for a folder", "cli", cli("serve --root {file}"), "{file}", "it is no folder"),
    said(
        "another's folder", "cli", cli("serve --root {other}"), "'notes.txt'", "choose an empty folder"
    ),
    said("a newer root", "folder", folder("file://{newer}"), "spoolrack 99", "or a newer one"),
    said("a newer root", "cli", cli("serve --root {newer}"), "spoolrack 99", "or a newer one"),
    said(
        "a root of format 2",
        "cli",
        cli("serve --root {older}"),
        "'spoolrack 2'",
        "spoolrack export",
        "import",
    ),
    said(
        "a locked folder",
        "cli",
        mortal("serve --root {locked}/root --http off"),
        "{locked}/root",
        "Permission denied",
        "let this user write there",
    ),
    # Spark's options.
    said("no option", "spark", spark({"queue": "jobs"}), "endpoint is missing", ".option('endpoint'"),
    said("a mistyped option", "spark", spark({"endpiont": "x"}), "'endpiont'", "is it endpoint?"),
    said("Kafka's option", "spark", spark({"subscribe": "jobs"}), "'subscribe' is Kafka's"),
    # Starts.
    said(
        "a taken port",
        "cli",
        cli("serve --root {folder}/new --grpc {plain_grpc} --http off"),
        *("Can't listen at {plain_grpc}", "in use", "stop what listens there, or choose another"),
    ),
    said(
        "a taken port of HTTP",
        "cli",
        cli("serve --root {folder}/new --grpc 127.0.0.1:0 --http {plain_http}"),
        *("Can't listen at {plain_http}", "choose another"),
    ),
    said(
        "an open port",
        "cli",
        cli("serve --root {folder}/new --grpc 0.0.0.0:0"),
        "--tls-certificate",
        "--insecure",
    ),
    said(
        "no address", "cli", cli("serve --grpc 50051"), "'50051' is not an address", "127.0.0.1:50051"
    ),
    said(
        "a certificate alone", "cli", cli("serve --tls-certificate {certificate}"), "--tls-key together"
    ),
    said(
        "another key",
        "cli",
        cli("serve --tls-certificate {certificate} --tls-key {misnamed_key}"),
        *("{certificate}", "no pair"),
    ),
    said(
        "no tokens file",
        "cli",
        cli("serve --tokens {permissions}"),
        "{permissions}",
        "line 1",
        "two words",
    ),
    said(
        "a token for all eyes",
        "cli",
        cli("serve --tokens {open_tokens}"),
        "others may read it",
        "chmod 0640",
    ),
    said("a mistyped command", "cli", cli("sned jobs x"), "No such command 'sned'", "mean 'send'"),
]
"""Mistake, door, call, and the words that a reader finds in the answer."""


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    with ExitStack() as stack:
        yield Surroundings(tmp_path_factory.mktemp("first"), stack)


@pytest.mark.parametrize(
    ("act", "words"),
    [row[2:] for row in MISTAKES],
    ids=[f"{mistake}, {door}" for mistake, door, *_ in MISTAKES],
)
def test_a_first_mistake_is_told_with_what_to_do(
    around: Surroundings, act: Act, words: tuple[str, ...]
) -> None:
    told = " ".join(act(around).split())
    missing = [word for word in map(around, words) if word not in told]
    assert not missing, told
    assert "Traceback" not in told
    assert "secret" not in told


def test_the_table_has_forty_mistakes_and_every_door() -> None:
    assert len({mistake for mistake, *_ in MISTAKES}) >= 40
    assert {door for _, door, *_ in MISTAKES} == {
        *("python", "aio", "curl", "sqs", "cli", "celery", "folder", "spark")
    }
