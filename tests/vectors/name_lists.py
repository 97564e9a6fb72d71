"""The texts from which the vectors of names are made: no behaviour, only lists."""

from __future__ import annotations

from typing import Final

ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
OTHER: Final = "01890a5d-ac97-7000-8000-000000000000"
LONG_QUEUE: Final = "q" * 80
DUE: Final = "1767323045678"
TOKEN: Final = "0123456789abc"
SET_TOKEN: Final = "g123456789abc"
KEY: Final = "7vvvvvvvvvvvvvvvvvvvvvvvvv"

ITEMS: Final = (
    ID,
    "123e4567-e89b-12d3-a456-426614174000",
    f"{ID},s5,c3610a686",
    f"{ID},s0,c00000000",
    f"{ID},s5,c3610a686,m29",
    f"{ID},s5,c3610a686,r1,f{DUE}",
    f"{ID},s5,c3610a686,r999999999,f0",
    f"{ID},s5,c3610a686,m29,r2,f{DUE},gblue,k{KEY},o0abc9",
    f"{ID},s5,c3610a686,k{KEY}",
    f"{ID},s5,c3610a686,knot-a-key-and-kept",
    f"{ID},s5,c3610a686,g",
    f"{ID},s999999999999999,cffffffff",
    f"{ID},s5,c3610a686,z1,Yof-a_later.version",
    f"{ID},s5,c3610a686,zz,z",
    f"{ID},r1",
    f"{ID},o0abc9",
    f"{ID},n1",
    f"{ID},n1000,r2,f{DUE}",
    f"{ID},n3,o0abc9",
    f"{ID},n3,u",
    f"{ID},n999999999,zlater",
    f"{ID},s5,c3610a686,m29,k{KEY},z" + "z" * 21,  # 104 bytes: as long as one may be before its leases
    f"{ID},s5,c3610a686,m29,r999999999,f{DUE},k{KEY},z" + "z" * 21,
)
NO_ITEMS: Final = (
    "",
    "README",
    ".",
    "..",
    ID.upper(),
    ID.replace("-", ""),
    ID[:-1],
    f"{ID}0",
    f" {ID}",
    f"{ID} ",
    f"{ID}\n",
    f"{ID},",
    f"{ID},,s5",
    f"{ID},s",
    f"{ID},s05,c3610a686",
    f"{ID},s-5,c3610a686",
    f"{ID},s+5,c3610a686",
    f"{ID},s\N{ARABIC-INDIC DIGIT FIVE},c3610a686",
    f"{ID},s1000000000000000,c3610a686",
    f"{ID},s5,c3610A686",
    f"{ID},s5,c610a686",
    f"{ID},s5,c03610a686",
    f"{ID},c3610a686,s5",
    f"{ID},s5,s5,c3610a686",
    f"{ID},s5,c3610a686,m0",
    f"{ID},s5,c3610a686,r0",
    f"{ID},s5,c3610a686,r01",
    f"{ID},s5,c3610a686,r1000000000",
    f"{ID},s5,c3610a686,f{DUE},r1",
    f"{ID},s5,c3610a686,f{DUE}0",
    f"{ID},s5,c3610a686,gblue green",
    f"{ID},s5,c3610a686,gbl/ue",
    f"{ID},s5,c3610a686,oABC",
    f"{ID},s5,c3610a686,o",
    f"{ID},s5,c3610a686,o01234567890123456",
    f"{ID},s5,c3610a686,zlater,r1",
    f"{ID},s5,c3610a686,1later",
    f"{ID},n0",
    f"{ID},n01",
    f"{ID},n1000000000",
    f"{ID},s5,n3",
    f"{ID},n3,s5",
    f"{ID},n3,k{KEY}",
    f"{ID},s5,c3610a686,m29,k{KEY},z" + "z" * 22,  # one byte too long to be leased
)
FILED: Final = (
    f"jobs:{ID}",
    f"jobs:{ID},s5,c3610a686",
    f"jobs:{ID},s5,c3610a686,o0abc9",
    f"jobs:{ID},n3,o0abc9",
    f"jobs:{ID},s5,c3610a686,r1,f1767323045678,o0abc9@1767323045678~0123456789abc",
    f"jobs:{ID},n3,r1,f1767323045678,o0abc9@1767323045678~0123456789abc",
    f"jobs:{ID},s5,c3610a686@{DUE}",
    f"jobs:{ID},s5,c3610a686,r1,f{DUE}@{DUE}~{TOKEN}",
    f"jobs:{ID},n3,r1,f{DUE}@{DUE}~{SET_TOKEN}",
    f"jobs:{ID},s5,c3610a686@0000000000000",
    f"9.a-b_C:{ID},n3",
    f"{LONG_QUEUE}:{ID},s5,c3610a686,r1,f{DUE}@9999999999999~vvvvvvvvvvvvv",
)
NOT_FILED: Final = (
    ID,
    f":{ID}",
    f".jobs:{ID}",
    f"-jobs:{ID}",
    f"_jobs:{ID}",
    f"jo bs:{ID}",
    f"jöbs:{ID}",
    f"../jobs:{ID}",
    f"{LONG_QUEUE}q:{ID}",
    f"jobs:jobs:{ID}",
    "jobs:",
    f"jobs:{ID}@",
    f"jobs:{ID}@176732304567",
    f"jobs:{ID}@17673230456780",
    f"jobs:{ID}@-767323045678",
    f"jobs:{ID}@{DUE}~",
    f"jobs:{ID}@{DUE}~{TOKEN[:-1]}",
    f"jobs:{ID}@{DUE}~{TOKEN}0",
    f"jobs:{ID}@{DUE}~w123456789abc",
    f"jobs:{ID}@{DUE}~{TOKEN.upper()}",
    f"jobs:{ID}~{TOKEN}",
    f"jobs:{ID}@{DUE}@{DUE}",
)
RECEIPTS: Final = (
    f"jobs:{ID}~{TOKEN}",
    f"jobs:{OTHER}/{ID}~{TOKEN}",
    f"{LONG_QUEUE}:{ID}~vvvvvvvvvvvvv",
)
NO_RECEIPTS: Final = (
    "",
    f"jobs:{ID}",
    f"jobs:{ID}~",
    f"jobs:{ID}~{TOKEN}\n",
    f"jobs:{OTHER}/{OTHER}/{ID}~{TOKEN}",
    f"jobs:/{ID}~{TOKEN}",
    f"jobs:../{ID}~{TOKEN}",
    f"jobs:{ID},s5~{TOKEN}",
)

STAGES: Final = (f"nightly@{DUE}", f"nightly@{DUE}~dropped", f"{'s' * 64}@0000000000000", f"_-9@{DUE}")
NO_STAGES: Final = (
    "nightly",
    f"@{DUE}",
    "nightly@",
    "nightly@176732304567",
    f"nightly@{DUE}0",
    f"nightly@{DUE}~lost",
    f"nightly@{DUE}~dropped~dropped",
    f"night.ly@{DUE}",
    f"night ly@{DUE}",
    f"{'s' * 65}@{DUE}",
)
CHUNKS: Final = (
    f"0:jobs:{ID},n1",
    f"999999999:jobs:{ID},n1000,o0abc9",
    f"7+0:jobs:{ID},n2",
    f"7+31536000000:jobs:{ID},n2",
    f"7:{LONG_QUEUE}:{ID},n2",
)
NO_CHUNKS: Final = (
    f":jobs:{ID},n1",
    f"00:jobs:{ID},n1",
    f"01:jobs:{ID},n1",
    f"-1:jobs:{ID},n1",
    f"1000000000:jobs:{ID},n1",
    f"7+:jobs:{ID},n1",
    f"7+-1:jobs:{ID},n1",
    f"7+01:jobs:{ID},n1",
    f"7+31536000001:jobs:{ID},n1",
    f"7:.jobs:{ID},n1",
    f"7:jobs:{ID}",
    f"7:jobs:{ID},s5,c3610a686",
    f"7:{ID},n1",
    f"jobs:{ID},n1",
)
PUBLISHED: Final = (
    "writer-1.0",
    "writer_1.9223372036854775807",
    f"{'w' * 80}.7",
    f"writer-1.7.nightly@{DUE}",
)
NOT_PUBLISHED: Final = (
    "writer-1",
    "writer-1.",
    ".7",
    "writer-1.07",
    "writer-1.-7",
    "writer-1.9223372036854775808",
    f"{'w' * 81}.7",
    "wri ter.7",
    "writer-1.7.",
    "writer-1.7.nightly",
    f"writer-1.7.nightly@{DUE}~dropped",
    f"writer-1.7.night.ly@{DUE}",
)
RESERVED: Final = (
    "reader-1.0",
    "reader_1.9223372036854775807",
    f"reader-1.7@{DUE}",
    f"reader-1.7@{DUE}~lost",
    f"reader-1.7@{DUE}~read",
    f"{'r' * 80}.7@0000000000000",
)
NOT_RESERVED: Final = (
    "LOCK",
    "reader-1",
    "reader-1.",
    "reader-1.07",
    "reader-1.-7",
    "reader-1.9223372036854775808",
    f"{'r' * 81}.7",
    "rea.der.7",
    "reader-1.7@",
    "reader-1.7@176732304567",
    f"reader-1.7@{DUE}0",
    "reader-1.7~lost",
    f"reader-1.7@{DUE}~dropped",
    "reader-1.7~read",
    f"reader-1.7@{DUE}~lost~lost",
    f"reader-1.7@{DUE}~read~lost",
)
REDRIVES: Final = (
    f"{ID},m0,f0",
    f"{ID},m7,f2,wmissing.jobs,o0abc9",
    f"{ID},m7,f2,whistory",
    f"{ID},m999999999999999,f0@{DUE}",
    f"{ID},m7,f0,x@{DUE}",
    f"{ID},m7,f1,wtwice.{LONG_QUEUE},x,o0abc9@{DUE}",
)
NO_REDRIVES: Final = (
    ID,
    f"{ID},m0",
    f"{ID},f0,m0",
    f"{ID},m00,f0",
    f"{ID},m-1,f0",
    f"{ID},m0,f0,x",  # cancelled, and not ended
    f"{ID},m0,f0,wunheard",
    f"{ID},m0,f0,wmissing.",
    f"{ID},m0,f0,wmissing..jobs",
    f"{ID},m0,f0,o0abc9,x@{DUE}",
    f"{ID},m0,f0@176732304567",
    f"{ID},m0,f0@{DUE}~lost",
)

SEGMENTS: Final = (
    "",
    f"jobs:{ID},k{KEY}\n",
    f"+jobs:{ID},k{KEY}\n{LONG_QUEUE}:{OTHER},k{'0' * 26}\n",
    f"jobs:{ID},k{KEY}\njobs:{OTHER},k{'0' * 26}",  # the second has no end yet
    f"damaged\n\njobs:{ID},k8{'0' * 25}\n ++jobs:{ID},k{KEY}\n"
    f"jobs:{ID},k{KEY},o1\njobs:{OTHER},k{'1' * 26}\n",
)
KEYS: Final = (
    ("order-1", ""),
    ("order-1", "0123456789abcdef"),
    ("order-1", "salt"),
    ("order-2", "salt"),
    ("Bestellung 世界", "salt"),
    ("x" * 128, "z"),
)
"""A deduplication id and the salt of its queue."""
CONTENTS: Final[tuple[tuple[bytes, dict[str, str | bytes]], ...]] = (
    (b"", {}),
    (b"hello", {}),
    (bytes(range(256)), {}),
    (b"hello", {"kind": "greeting"}),
    (b"", {"kind": "", "bytes": b""}),
    (
        b'hello\n{"attributes":{"kind":"none"}}\n',
        {'a "name"': "Grüße, 世界 \N{SNAKE}\n", "b": b"\xff\x00"},
    ),
)
"""A body and attributes."""
SEALED: Final = (
    '{"sets":[0,1],"made_at":1767323045678}\n',
    '{"queue":"jobs","token":"g123456789abc","hold":30000,"made_at":1767323045678,"messages":1,"bytes":5,'
    f'"ids":["{ID}"]}}\n',
    f'{{"stages":{{"stage-1@{DUE}":"{ID}"}},"queues":{{"jobs":[1767323045678,1]}},"messages":1,'
    '"digest":"1-d41d8cd98f00b204e9800998ecf8427e","published_at":1767323045678,"memory":60000}\n',
)
"""The first lines of files in `reserved/` and `published/`."""
