"""Requests over HTTP that are wrong in their bytes: heads, targets, headers, framing, anything.

Knows HTTP's grammar and where servers stumble over it, and nothing of what the server answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

QUEUE: Final = b"fuzzed"
"""The queue that messages are sent to. No request deletes it, or anything in it."""
OTHER: Final = b"jobs"
ID: Final = b"01890a5d-ac96-774b-bcce-b302099a8057"


def _words(text: str) -> Sequence[bytes]:
    """Return the words of a command, in which a byte is written as in Python."""
    return [word.encode().decode("unicode_escape").encode("latin-1") for word in text.split()]


METHODS: Final = _words("POST POST POST GET PUT DELETE HEAD")
ODD_METHODS: Final = (
    *_words(r"OPTIONS TRACE CONNECT PATCH PRI post \xffGET G\x00T"),
    b"",
    b"X" * 9_000,
)
ODD_TARGETS: Final = (
    *_words(
        r"/%q /%q/messages/01890a5d-ac96-774b-bcce-b302099a8057 /-/health /-/dashboard / /-/metrics"
    ),
    *_words(r"/-/queues /-/openapi.json /-/ /%q/ //%q /%q/../%q /. * localhost:80 http://[::1/%q"),
    *_words(r"http://localhost/%q http://evil.example/%q gopher://x/%q /%%ff /%%00 /%%1b[2J /%% /%%zz"),
    *_words(r"/%q%%2fmessages /\xff /\x00 /\x20/x /%q#x /%q/messages/%%c2%%9b/x /%q/messages/x\x20y"),
    *(b"", b"/" + b"a" * 9_000),
)
ODD_QUERIES: Final = (
    *_words(r"? ?wait=0 ?visibility_timeout=1 ?visibility_timeout=1&visibility_timeout=2"),
    *_words(r"?vsibility=60 ?wait=-1 ?wait=1e9"),
    *_words(r"?wait=%ff ?= ?&&& ?a=b;c=d ?\xff ?% ?wait=0%00 ?limit=x&state=y"),
    *(b"?visibility_timeout=" + b"9" * 500, b"?" + b"&" * 2_000),
)
ODD_VERSIONS: Final = (
    *_words(
        r"\x20HTTP/1.0 \x20HTTP/0.9 \x20HTTP/2.0 \x20HTTP/9.9 \x20http/1.1 \x20HTTP/1.1\x20 \x20HTTP/1"
    ),
    b"",
)
ODD_NEWLINES: Final = (b"\n", b"\r", b"\r\r\n", b"\n\r")
NAMES: Final = (
    *_words("Expect Expect Transfer-Encoding Content-Length Content-Type Content-Encoding Host Origin"),
    *_words("Sec-Fetch-Site X-Forwarded-Host Authorization Connection Upgrade Accept Accept-Encoding"),
    *_words("Range If-Range If-Match If-None-Match Cookie TE Trailer HTTP2-Settings traceparent"),
    *_words("X-Message-Delay X-Message-Deduplication-Id X-Message-Dely X-Request-Id X-Attribute-A"),
    *_words(r"X-Attribute-%ff X-Binary-Attribute-B X-Attribute- X-\xff A\x20B Content-Length\x20"),
    *(b"", b"X" * 9_000),
)
VALUES: Final = (
    *_words(r"x \xff \xc2\x9b31m \xe2\x80\xae a\x00b \x1b[2J a\x7fb a\tb 100-continue 100-CONTINUE"),
    *_words(
        r"100-continue\xff 100-continue,x chunked gzip,chunked chunked,gzip identity 0 1 -1 +1 1,1"
    ),
    *_words(r"0x1 1_0 1.5 1e3 nan bytes=0- bytes=-1 bytes=\xff- * application/json text/html null"),
    *_words(
        r"application/json;charset=\xff http://evil.example http://localhost cross-site same-origin"
    ),
    *_words(
        r"none close upgrade websocket h2c localhost localhost: [::1 a\x20b Bearer\x20\xff Basic\x20x"
    ),
    *_words(r"%ff = a\r\x20b a\n\x20b a\r\n\x20b a\r\nX-Attribute-B:c \x22x\x22"),
    *(b"", b"9" * 30, b"1" * 8_000, b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-00"),
)
ODD: Final = 0.05
"""How often a part is odd: a request with too many odd parts meets the first check alone."""


@dataclass(frozen=True, kw_only=True)
class RawRequest:
    said: bytes
    is_whole: bool
    """Whether the server knows where it ends: of another one it may wait for more."""


def raw_request(random: Random, mark: bytes) -> RawRequest:
    """Return a message of any kind; `mark` is its body, and unlike that of any other."""
    method = random.choice(METHODS)
    queue = OTHER if method in (b"DELETE", b"PUT") else QUEUE
    target = b"/" + queue + random.choice((b"/messages", b"/messages", b"/messages", b""))
    if random.random() < 4 * ODD:
        target = random.choice(ODD_TARGETS).replace(b"%q", queue).replace(b"%%", b"%")
    method = _or_odd(random, method, ODD_METHODS)
    target += _or_odd(random, b"", ODD_QUERIES)
    line = method + b" " + target + _or_odd(random, b" HTTP/1.1", ODD_VERSIONS)
    newline = _or_odd(random, b"\r\n", ODD_NEWLINES)
    headers = [b"Host: localhost"] * _or_odd(random, 1, (0, 2))
    for _ in range(random.choice((0, 0, 0, 0, 1, 1, 2))):
        headers.append(random.choice(NAMES) + b": " + random.choice(VALUES))
    framing, body, is_whole = random.choice(FRAMINGS)(random, mark)
    headers += framing
    random.shuffle(headers)
    said = newline.join([line, *headers, b"", b""]) + body
    # A header's length of the body may be wrong, or not be understood.
    names = [header.partition(b":")[0].strip().lower() for header in headers]
    framed = names.count(b"content-length") + names.count(b"transfer-encoding")
    is_whole = is_whole and newline == b"\r\n" and framed <= 1 and b"upgrade" not in names
    if random.random() < 2 * ODD:
        return RawRequest(said=_broken(random, said), is_whole=False)
    return RawRequest(said=said, is_whole=is_whole)


def _or_odd(random: Random, usual: T, odd: Sequence[T]) -> T:
    return random.choice(odd) if random.random() < ODD else usual


def _broken(random: Random, said: bytes) -> bytes:
    """Return the same with a few bytes changed, lost or added, or cut off."""
    broken = bytearray(said)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(broken) + 1)
        match random.randrange(4):
            case 0:
                broken[at : at + 1] = random.randbytes(1)
            case 1:
                del broken[at : at + random.choice((1, 2, 9))]
            case 2:
                broken[at:at] = random.choice(
                    (b"\r\n", b"\0", b"\xff", b" ", b":", random.randbytes(5))
                )
            case _:
                del broken[at:]
    return bytes(broken)


# How a body is framed: headers, what follows them, and whether its end is known.

Framing = tuple[Sequence[bytes], bytes, bool]


def _none(random: Random, mark: bytes) -> Framing:
    return [], b"", True


def _length(random: Random, mark: bytes) -> Framing:
    return [b"Content-Length: %d" % len(mark)], mark, True


def _wrong_length(random: Random, mark: bytes) -> Framing:
    length = random.choice(
        (b"-1", b"0", b"1", b"99", b"9" * 18, b"9" * 30, b"", b"x", b"5 5", b"\xff", b"0x5")
    )
    return [b"Content-Length: " + length], mark, False


def _lengths(random: Random, mark: bytes) -> Framing:
    lengths = [
        b"Content-Length: %d" % len(mark),
        b"Content-Length: " + random.choice((b"1", b"%d" % len(mark))),
    ]
    return lengths, mark, False


def _chunks(random: Random, mark: bytes) -> Framing:
    odd_codings = (b"Chunked", b"gzip, chunked", b"chunked, gzip", b"gzip", b"x", b"", b"\xff")
    odd_sizes = (b"%x;a=b", b"0%x", b"%x ", b"-%x", b"0x%x", b"%xg", b"zz%x")
    odd_trailers = (b"X-Message-Delay: 9\r\n", b"Content-Length: 1\r\n", b"\xff: x\r\n", b"x")
    coding = random.choice(odd_codings) if random.random() < 0.4 else b"chunked"
    size = _or_odd(random, b"%x", odd_sizes) % len(mark)
    ended, trailer = (
        _or_odd(random, b"\r\n", (b"\n", b"", b"x\r\n")),
        _or_odd(random, b"", odd_trailers),
    )
    body = size + b"\r\n" + mark + ended + b"0\r\n" + trailer + b"\r\n"
    return [b"Transfer-Encoding: " + coding], body, False


def _huge_chunk(random: Random, mark: bytes) -> Framing:
    return (
        [b"Transfer-Encoding: chunked"],
        random.choice((b"f" * 15, b"f" * 40, b"7" * 16)) + b"\r\n" + mark,
        False,
    )


def _both(random: Random, mark: bytes) -> Framing:
    framing, body, _ = _chunks(random, mark)
    return [*framing, b"Content-Length: %d" % random.choice((0, len(mark), len(body)))], body, False


def _expecting(random: Random, mark: bytes) -> Framing:
    expected = random.choice((b"100-continue", b"100-Continue", b"\xff", b"100-continue\xff", b"x"))
    return [b"Content-Length: %d" % len(mark), b"Expect: " + expected], mark, True


def _smuggled(random: Random, mark: bytes) -> Framing:
    """Return a second request right behind the first."""
    second = b"POST /%s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx" % QUEUE
    return (
        [b"Content-Length: %d" % random.choice((len(mark), len(mark) + len(second)))],
        mark + second,
        False,
    )


FRAMINGS: Final[Sequence[Callable[[Random, bytes], Framing]]] = (
    *((_length,) * 8),
    *(_none, _wrong_length, _lengths, _chunks, _chunks, _chunks, _huge_chunk, _both),
    *(_expecting, _expecting, _expecting, _smuggled),
)
