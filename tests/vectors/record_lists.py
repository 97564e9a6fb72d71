"""The texts from which the vectors of `records.json` are made: no behaviour, only lists."""

from __future__ import annotations

from typing import Final

ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
OTHER: Final = "01890a5d-ac97-7000-8000-000000000000"
LONG_QUEUE: Final = "q" * 80
DUE: Final = "1767323045678"
STEM: Final = f"{OTHER},n2,s5,c3610a686,m29"

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
    f"nightly@{DUE}:0:jobs:{ID},s5,c3610a686",
    f"nightly@{DUE}:999999999:jobs:{STEM}",
    f"nightly@{DUE}:7+0:jobs:{STEM}",
    f"nightly@{DUE}:7+31536000000:jobs:{STEM}",
    f"{'s' * 64}@{DUE}:7:{LONG_QUEUE}:{STEM}",
)
NO_CHUNKS: Final = (
    f"nightly@{DUE}",
    f"7:jobs:{STEM}",
    f"nightly:7:jobs:{STEM}",
    f"nightly@{DUE}~dropped:7:jobs:{STEM}",
    f"nightly@{DUE}::jobs:{STEM}",
    f"nightly@{DUE}:00:jobs:{STEM}",
    f"nightly@{DUE}:01:jobs:{STEM}",
    f"nightly@{DUE}:-1:jobs:{STEM}",
    f"nightly@{DUE}:1000000000:jobs:{STEM}",
    f"nightly@{DUE}:7+:jobs:{STEM}",
    f"nightly@{DUE}:7+-1:jobs:{STEM}",
    f"nightly@{DUE}:7+01:jobs:{STEM}",
    f"nightly@{DUE}:7+31536000001:jobs:{STEM}",
    f"nightly@{DUE}:7:.jobs:{STEM}",
    f"nightly@{DUE}:7:jobs:{ID}",
    f"nightly@{DUE}:7:jobs:{ID},n2",
    f"nightly@{DUE}:7:jobs:{STEM},v2",
    f"nightly@{DUE}:7:{STEM}",
)
PUBLISHED: Final = ("writer-1.0", "writer_1.9223372036854775807", f"{'w' * 80}.7")
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
    f"writer-1.7.nightly@{DUE}",
    f"writer-1.7@{DUE}",
)
RESERVED: Final = (
    "reader-1.0",
    "reader_1.9223372036854775807",
    f"reader-1.7@{DUE}",
    f"reader-1.7@{DUE}~lost",
    f"reader-1.7@{DUE}~read",
    f"reader-1.7@{DUE}~read~lost",
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
    f"reader-1.7@{DUE}~lost~read",
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

KEYS: Final = (
    ("order-1", ""),
    ("order-1", "0123456789abcdef"),
    ("order-1", "salt"),
    ("order-2", "salt"),
    ("Bestellung 世界", "salt"),
    ("x" * 128, "z"),
)
"""A deduplication id and the salt of its queue."""
SEALED: Final = (
    '{"sets":[0,1],"made_at":1767323045678}\n',
    '{"queue":"jobs","queue_created_at":1767323045678,"token":"g123456789abc","hold":30000,'
    '"made_at":1767323045678,"messages":2,"bytes":5,'
    f'"files":[["{STEM}","i0-1"]],"receives":[1]}}\n',
    f'{{"7vvvvvvvvvvvvvvvvvvvvvvvvv":"{ID}"}}\n',
    f'{{"queue":"dead","queue_created_at":1767323045678,"destination":"","source_queue":"jobs","ids":["{ID}"],'
    '"rate":7,"started_at":1767323045678}\n',
    f'{{"stages":{{"stage-1@{DUE}":"{ID}"}},"queues":{{"jobs":[1767323045678,1]}},"messages":1,'
    '"digest":"1-d41d8cd98f00b204e9800998ecf8427e","published_at":1767323045678,"memory":60000}\n',
)
"""The first lines of files in `reserved/`, `keys/`, `redrives/` and `published/`."""
