"""The texts from which the vectors of `names.json` are made: no behaviour, only lists."""

from __future__ import annotations

from typing import Final

BATCH: Final = "018bcfe5-6800-7194-90e5-78aa9611a000"
LONE: Final = "018bcfe5-6801-7000-8000-0000000000ff"
LONG_QUEUE: Final = "q" * 80
DUE: Final = "1767323045678"
TOKEN: Final = "0123456789abc"
KEY: Final = "7vvvvvvvvvvvvvvvvvvvvvvvvv"
PLAIN: Final = f"{LONE},s5,c3610a686"
"""A lone message whose file is its body."""
FIVE: Final = f"{BATCH},n5,s25,c0000abcd,m86"
"""A batch of five."""
FULL: Final = f"{BATCH},n1000,s1000,c0000abcd,m4000"

NAMES: Final = (
    f"queues/jobs/{PLAIN}",
    f"queues/jobs/{LONE},s0,c00000000",
    f"queues/jobs/{LONE},s0,a9,c00000000,m60",
    f"queues/jobs/{LONE},s999999999999999,a999999999999999,cffffffff,m999999999999999,k{KEY}",
    f"queues/jobs/{PLAIN},k{KEY}",
    f"queues/jobs/{PLAIN},v999999999,r999999999,f0",
    f"queues/9.a-b_C/{PLAIN}",
    f"queues/dead/{PLAIN},v4,d{DUE}.m3.{DUE}.jobs",
    f"queues/dead/{FIVE},v4,i1-2,d{DUE}.r1.0.9.a-b_C",
    f"queues/dead/{PLAIN},v4,d{DUE}.m999999999..{LONG_QUEUE}",
    f"queues/dead/{PLAIN},v4,h0123uv",
    f"queues/jobs/{PLAIN},v5,d{DUE}.m3.{DUE}.jobs,t{DUE}",
    f"queues/jobs/{FIVE},v5,h0123uv,t{DUE}",
    f"delay/jobs:{PLAIN},v6,r1,f{DUE},d{DUE}.m3.{DUE}.jobs,t{DUE}@{DUE}~{TOKEN}",
    f"delay/dead:{FIVE},v6,i1,r1,f{DUE},h0123uv@{DUE}~{TOKEN}",
    f"remove/dead:{PLAIN},v7,r1,f{DUE},d{DUE}.m3.{DUE}.jobs",
    f"queues/{LONG_QUEUE}/{PLAIN}",
    "queues/jobs/123e4567-e89b-12d3-a456-426614174000,s5,c3610a686",
    f"queues/jobs/{FIVE}",
    f"queues/jobs/{FIVE},k",
    f"queues/jobs/{FIVE},g",
    f"queues/jobs/{FIVE},k,g,v2",
    f"queues/jobs/{PLAIN},p1",
    f"queues/jobs/{FIVE},k,g,p9,v2",
    f"queues/jobs/{LONE},s999999999999,c0000abcd,m44,x",
    f"queues/jobs/{LONE},s5,c0000abcd,m44,k{KEY},g,p1,x,v2",
    f"queues/jobs/{FIVE},v2",
    f"queues/jobs/{FIVE},v3,i0",
    f"queues/jobs/{FIVE},v3,i1-4",
    f"queues/jobs/{FIVE},v3,i0.4",
    f"queues/jobs/{FIVE},v3,b0.p",
    f"queues/jobs/{FULL},v3,i0-998",
    f"queues/jobs/{FULL},v3,i0.999",
    f"queues/jobs/{FULL},v3,b100.lalalalala1",
    f"queues/jobs/{BATCH},n1,s5,c0000abcd,m40",
    f"new/jobs:{PLAIN},op1",
    f"new/jobs:{FIVE},o0123456789abcdef",
    f"new/jobs:{FIVE},op1@{DUE}",
    f"new/jobs:{FIVE},v2,i0-1,r1,f{DUE},op1@{DUE}~{TOKEN}",
    f"delay/jobs:{PLAIN}@0000000000000",
    f"delay/jobs:{FIVE},v2@{DUE}",
    f"delay/jobs:{FIVE},v3,i2,r1,f{DUE}@{DUE}~{TOKEN}",
    f"delay/{LONG_QUEUE}:{FIVE},v3,i2,r1,f{DUE}@9999999999999~vvvvvvvvvvvvv",
    f"remove/jobs:{FIVE},v4,i2-3,r1,f{DUE}",
    f"remove/jobs:{PLAIN},v3",
    f"quarantine/jobs:{FIVE},v4,i1",
)
"""Paths of message files."""

NO_NAMES: Final = (
    ("", "it is empty"),
    ("FORMAT", "no folder of messages"),
    (f"elsewhere/jobs:{PLAIN}", "no folder of messages"),
    (f"queues/jobs:{PLAIN}", "in queues/ the queue is a folder"),
    (f"remove/jobs/{PLAIN}", "in remove/ the queue is in the name"),
    (f"/queues/jobs/{PLAIN}", "an absolute path"),
    (f"queues//{PLAIN}", "no queue"),
    (f"queues/../{PLAIN}", "no queue's name begins with a dot"),
    (f"queues/.jobs/{PLAIN}", "no queue's name begins with a dot"),
    (f"queues/-jobs/{PLAIN}", "no queue's name begins with a hyphen"),
    (f"queues/jo bs/{PLAIN}", "a space in the queue's name"),
    (f"queues/jöbs/{PLAIN}", "a letter that isn't ASCII"),
    (f"queues/{LONG_QUEUE}q/{PLAIN}", "a queue's name of 81 characters"),
    (f"queues/jobs/more/{PLAIN}", "a folder in a queue's folder"),
    (f"queues/jobs/{PLAIN}\n", "a line feed behind the name"),
    (f"queues/jobs/ {PLAIN}", "a space before the name"),
    (f"queues/jobs/{LONE}", "neither size nor CRC"),
    (f"queues/jobs/{LONE},s5", "no CRC"),
    (f"queues/jobs/{LONE},c3610a686,s5", "tags in another order"),
    (f"queues/jobs/{PLAIN},s5", "a tag twice"),
    (f"queues/jobs/{PLAIN},zlater", "a tag that isn't known"),
    (f"queues/jobs/{PLAIN},", "a comma without a tag"),
    (f"queues/jobs/{LONE.upper()},s5,c3610a686", "an id in upper case"),
    (f"queues/jobs/{LONE.replace('-', '')},s5,c3610a686", "an id without hyphens"),
    (f"queues/jobs/{LONE},s05,c3610a686", "a leading zero"),
    (f"queues/jobs/{LONE},s+5,c3610a686", "a sign"),
    (f"queues/jobs/{LONE},s\N{ARABIC-INDIC DIGIT FIVE},c3610a686", "a digit that isn't ASCII"),
    (f"queues/jobs/{LONE},s1000000000000000,c3610a686", "a size of 16 digits"),
    (f"queues/jobs/{LONE},s5,c3610A686", "a CRC in upper case"),
    (f"queues/jobs/{LONE},s5,c610a686", "a CRC of 7 digits"),
    (f"queues/jobs/{LONE},s0,a0,c00000000,m60", "attributes of 0 bytes have no tag"),
    (f"queues/jobs/{LONE},s0,c00000000,a9,m60", "the tags stand in another order"),
    (f"queues/jobs/{PLAIN},m0", "a line of 0 bytes has no tag"),
    (f"queues/jobs/{PLAIN},d1", "a count of deaths is of format 2"),
    (f"queues/jobs/{PLAIN},d{DUE}", "neither a reason nor a queue"),
    (f"queues/jobs/{PLAIN},d{DUE}.m3.{DUE}", "no queue that it came from"),
    (f"queues/jobs/{PLAIN},d{DUE}.m3.{DUE}.", "no queue that it came from"),
    (f"queues/jobs/{PLAIN},d{DUE}.m3.{DUE}..jobs", "no queue's name begins with a dot"),
    (f"queues/jobs/{PLAIN},d{DUE}.m03.{DUE}.jobs", "a leading zero"),
    (f"queues/jobs/{PLAIN},d{DUE}.x3.{DUE}.jobs", "no reason"),
    (f"queues/jobs/{PLAIN},d{DUE}.3.{DUE}.jobs", "no reason"),
    (f"queues/jobs/{PLAIN},d{DUE[1:]}.m3.{DUE}.jobs", "a time of a death has 13 digits"),
    (f"queues/jobs/{PLAIN},h0123u", "a file of 5 digits"),
    (f"queues/jobs/{PLAIN},h0123uw", "no base32 digit"),
    (f"queues/jobs/{PLAIN},d{DUE}.m3.{DUE}.jobs,h0123uv", "the file says it, or the name"),
    (f"queues/jobs/{PLAIN},h0123uv,r1", "tags in another order"),
    (f"queues/jobs/{PLAIN},t{DUE}", "a redrive without a death"),
    (f"new/jobs:{PLAIN},h0123uv,op1", "a death in new/"),
    (f"queues/jobs/{PLAIN},v1", "version 1 has no tag"),
    (f"queues/jobs/{PLAIN},v1000000000", "a version of 10 digits"),
    (f"queues/jobs/{PLAIN},t1", "a time of a redrive has 13 digits"),
    (f"queues/jobs/{PLAIN},t{DUE},r1", "tags in another order"),
    (f"queues/jobs/{PLAIN},r0", "no receives have no tag"),
    (f"queues/jobs/{PLAIN},f{DUE},r1", "tags in another order"),
    (f"queues/jobs/{PLAIN},k", "a lone message's key is in its name"),
    (f"queues/jobs/{PLAIN},k8{KEY[1:]}", "a key of more than 128 bits"),
    (f"queues/jobs/{FIVE},k{KEY}", "a batch's keys are in its line"),
    (f"queues/jobs/{PLAIN},g", "groups are in a line"),
    (f"queues/jobs/{FIVE},g,k", "tags in another order"),
    (f"queues/jobs/{PLAIN},p0", "no priority has no tag"),
    (f"queues/jobs/{PLAIN},p10", "a priority above 9"),
    (f"queues/jobs/{FIVE},p1,g", "tags in another order"),
    (f"queues/jobs/{PLAIN},x", "a body in a file of its own, and no line"),
    (f"queues/jobs/{FIVE},x", "a batch whose body is in a file of its own"),
    (f"queues/jobs/{PLAIN},i0", "all members have no tag"),
    (f"queues/jobs/{FIVE},i0-4", "all members have no tag"),
    (f"queues/jobs/{FIVE},i5", "a batch of 5 has no member 5"),
    (f"queues/jobs/{FIVE},i1.0", "ranges in another order"),
    (f"queues/jobs/{FIVE},i0.1", "members in a row are a range"),
    (f"queues/jobs/{FIVE},i0-0", "a range of one"),
    (f"queues/jobs/{FIVE},i01", "a leading zero"),
    (f"queues/jobs/{FIVE},i0.3-4", "a bitmap is shorter"),
    (f"queues/jobs/{FIVE},b0.1", "ranges are shorter"),
    (f"queues/jobs/{FIVE},b0.p0", "a bitmap that ends with 0"),
    (f"queues/jobs/{FIVE},b0.", "a bitmap without a digit"),
    (f"queues/jobs/{FIVE},b0.w", "no digit of a bitmap"),
    (f"queues/jobs/{FIVE},i", "no members"),
    (f"queues/jobs/{BATCH},n0,s5,c0000abcd", "a batch of none"),
    (f"queues/jobs/{BATCH},n1001,s5,c0000abcd", "a batch of more than 1,000"),
    (f"queues/jobs/{LONE},n5,s25,c0000abcd,m86", "a batch's id ends with 000"),
    (f"queues/jobs/{PLAIN},op1", "an owner outside new/"),
    (f"queues/jobs/{PLAIN}@{DUE}", "a due in queues/"),
    (f"remove/jobs:{PLAIN}@{DUE}", "a due in remove/"),
    (f"quarantine/jobs:{PLAIN}@{DUE}", "a due in quarantine/"),
    (f"delay/jobs:{PLAIN}", "no due in delay/"),
    (f"delay/jobs:{PLAIN},op1@{DUE}", "an owner outside new/"),
    (f"delay/jobs:{PLAIN}@", "a due of no digits"),
    (f"delay/jobs:{PLAIN}@176732304567", "a due of 12 digits"),
    (f"delay/jobs:{PLAIN}@{DUE}0", "a due of 14 digits"),
    (f"delay/jobs:{PLAIN}@{DUE}~", "no token behind the tilde"),
    (f"delay/jobs:{PLAIN}@{DUE}~{TOKEN[:-1]}", "a token of 12 digits"),
    (f"delay/jobs:{PLAIN}@{DUE}~{TOKEN.upper()}", "a token in upper case"),
    (f"delay/jobs:{PLAIN}~{TOKEN}", "a token without a due"),
    (f"new/jobs:{PLAIN}", "no owner in new/"),
    (f"new/jobs:{LONE}", "put there by hand: it waits to be adopted"),
    (f"new/jobs:{PLAIN},oP1", "an owner in upper case"),
    (f"new/jobs:{PLAIN},o01234567890123456", "an owner of 17 characters"),
)
"""Paths that are none, and why."""

LISTINGS: Final = (
    ("sent and not published", (f"new/jobs:{FIVE},op1",)),
    (
        "never sent: a message is listed by none, and all names are in new/",
        (f"new/jobs:{FIVE},v2,i0-3,r1,f{DUE},op1@{DUE}~{TOKEN}",),
    ),
    (
        "leased as it was sent: a part, and the rest waits",
        (f"new/jobs:{FIVE},op1", f"new/jobs:{FIVE},v2,i0-1,r1,f{DUE},op1@{DUE}~{TOKEN}"),
    ),
    (
        "ready, two leased, one deleted",
        (
            f"queues/jobs/{FIVE},v2",
            f"delay/jobs:{FIVE},v3,i0-1,r1,f{DUE}@{DUE}~{TOKEN}",
            f"remove/jobs:{FIVE},v4,i0,r1,f{DUE}",
        ),
    ),
    (
        "an extended lease: the old name says nothing any more",
        (
            f"queues/jobs/{FIVE},v2",
            f"delay/jobs:{FIVE},v3,i0-1,r1,f{DUE}@{DUE}~{TOKEN}",
            f"delay/jobs:{FIVE},v4,i0-1,r1,f{DUE}@1767323099999~{TOKEN}",
        ),
    ),
    (
        "a released lease: the higher version counts, whatever the folder",
        (
            f"delay/jobs:{FIVE},v3,i0-1,r1,f{DUE}@{DUE}~{TOKEN}",
            f"queues/jobs/{FIVE},v4,i0,r1,f{DUE}",
            f"queues/jobs/{FIVE},v2",
        ),
    ),
    (
        "all deleted: the names in remove/ may be unlinked",
        (f"remove/jobs:{FIVE},v4,i0-1", f"remove/jobs:{FIVE},v5,i2-4"),
    ),
    (
        "a message that no name lists: deleted and unlinked too early, or lost",
        (f"queues/jobs/{FIVE},v4,i0-1", f"remove/jobs:{FIVE},v5,i2-3"),
    ),
    (
        "equal versions can't come about; the later state counts",
        (f"queues/jobs/{FIVE},v3", f"remove/jobs:{FIVE},v3,i0"),
    ),
    ("one message in quarantine", (f"queues/jobs/{FIVE},v2", f"quarantine/jobs:{FIVE},v3,i4")),
    (
        "the names of a batch may be in several queues",
        (
            f"queues/jobs/{FIVE},v2",
            f"queues/dead/{FIVE},v4,i2-3,d{DUE}.m1.{DUE}.jobs",
            f"remove/dead:{FIVE},v5,i3,h0123uv",
        ),
    ),
)
"""A name, and all paths of a root."""

CONTENTS: Final[tuple[tuple[tuple[bytes, dict[str, str | bytes]], ...], ...]] = (
    ((b"", {}),),
    ((b"hello", {}),),
    ((bytes(range(256)), {}),),
    ((b"hello", {"kind": "greeting"}),),
    ((b"", {"kind": "", "bytes": b""}),),
    (
        (
            b'hello\n{"sizes":[1],"crcs":[7]}\n',
            {'a "name"': "Grüße, 世界 \N{SNAKE}\n", "b": b"\xff\x00"},
        ),
    ),
    ((b"one", {}), (b"", {}), (b"three", {})),
    ((b"one", {"n": "1"}), (b"two", {}), (b"\n\n", {"n": b"\x03", "kind": "Ж"})),
)
"""The messages of a file: body and attributes."""

LINES: Final = (
    ('{"sizes":[3,2],"crcs":[2053932785]}', "as many sizes as messages, and as many CRCs"),
    ('{"sizes":[3],"crcs":[2053932785]}', "as many sizes as messages, and as many CRCs"),
    ('{"sizes":[3,3],"crcs":[2053932785,1]}', "the sizes are those of the bodies"),
    ('{"sizes":[6,-1],"crcs":[2053932785,1]}', "no negative number"),
    ('{"sizes":[3,true],"crcs":[2053932785,1]}', "numbers only"),
    ('{"sizes":[3,2.0],"crcs":[2053932785,1]}', "whole numbers only"),
    ('{"sizes":"32","crcs":[2053932785,1]}', "a list"),
    ('{"crcs":[2053932785,1]}', "sizes must be there"),
    ("[[3,2],[1,2]]", "an object"),
    ('{"sizes":[3,2],"crcs":[1,2],"attributes":[]}', "attributes are an object"),
    ('{"sizes":[3,2],"crcs":[1,2],"binary_attributes":{"0":{"a":"%"}}}', "base64"),
    ('{"sizes":[3,2],"crcs":[1,2],"attributes":{"one":{}}}', "members are numbers"),
    ("not JSON", "JSON"),
)
"""Lines of a file of "onetw", a batch of 2, that must be refused though their CRC is right."""

RECEIPTS: Final = (
    ("jobs", "0123456789abc", BATCH, (0, 1, 7, 8, 999)),
    ("jobs", "vvvvvvvvvvvvv", BATCH, (0,)),
    (LONG_QUEUE, "0123456789abc", BATCH, (3,)),
)
"""Queue, token, a batch's id, and indexes."""

RECORDS: Final = (
    (1, 7_654_321, f"queues/jobs/{FIVE},v2", f"delay/jobs:{FIVE},v3,i0,r1,f{DUE}@{DUE}~{TOKEN}"),
    (2, 0, f"new/jobs:{FIVE},op1", f"queues/jobs/{FIVE},v2"),
    (3, 0, f"remove/jobs:{FIVE},v9", ""),
    (4, 0, "", "config/jobs.1.json"),
)
"""Records of CHANGES: kind, due, source, target."""
