"""A second reader of roots, written from docs/reference/disk-format.md with the standard library alone.

It imports nothing of the store: a rule that the page lacks shows as a difference. `Root` lists a root
that no process changes, once. It reads queues, messages in every state, the archive and deduplication
keys; of stages, reservations and redrives their names alone.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from zlib import crc32

FORMATS: Final = (b"spoolrack 4\n", b"spoolrack 4 several hosts\n")
FOLDERS: Final = (
    *("config", "owners", "new", "queues", "delay", "remove", "quarantine", "staged", "published"),
    *("reserved", "redrives", "keys", "archive", "bodies", "dead_letters"),
)
STATES: Final = ("sent", "ready", "delayed", "leased", "removed", "quarantined")
"""The later one of two states stands behind the other."""
DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
DEFAULTS: Final[Mapping[str, int | str]] = {
    "visibility_timeout": 30_000,
    "delivery_delay": 0,
    "max_receives": 0,
    "dead_letter_queue": "",
    "dead_letter_at": "lease_end",
    "retention": 0,
    "max_messages": 0,
    "max_bytes": 0,
    "max_message_size": 1_048_576,
    "lease_durability": "strict",
    "deduplication_window": 300_000,
    "messages_per_file": 0,
    "group_order": "fair",
    "max_leased": 0,
    "group_max_leased": 0,
    "rate": 0,
    "rate_burst": 1,
    "group_rate": 0,
    "group_rate_burst": 1,
    "priority_aging": 0,
    "backoff_initial": 1_000,
    "backoff_factor": 2,
    "backoff_maximum": 300_000,
    "backoff_jitter": 50,
    "backoff_at": "release",
    "archive_retention": 0,
    "expires": 0,
    "sending": "open",
    "receiving": "open",
}

# Names.

_QUEUE: Final = "[A-Za-z0-9][A-Za-z0-9_.-]{0,79}"
_UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PATH: Final = re.compile(
    rf"(?:(?P<folder>new|delay|remove|quarantine)/(?P<queue>{_QUEUE}):|queues/(?P<ready>{_QUEUE})/)"
    r"(?P<name>[^/@]+)(?:@(?P<due>[0-9]{13})(?:~(?P<token>[0-9a-v]{13}))?)?"
)
_TAGS: Final = tuple(
    (tags, re.compile(value))
    for tags, value in (
        ("n", "[1-9][0-9]{0,3}"),
        ("s", "0|[1-9][0-9]{0,14}"),
        ("a", "[1-9][0-9]{0,14}"),
        ("c", "[0-9a-f]{8}"),
        ("m", "[1-9][0-9]{0,14}"),
        ("k", "(?:[0-7][0-9a-v]{25})?"),
        ("g", ""),
        ("p", "[1-9]"),
        ("x", ""),
        ("v", "(?!1$)[1-9][0-9]{0,8}"),
        ("ib", "[0-9a-v.-]+"),
        ("r", "[1-9][0-9]{0,8}"),
        ("f", "0|[1-9][0-9]{0,12}"),
        ("dh", r"[^,]+"),
        ("t", "[0-9]{13}"),
        ("o", "[a-z0-9]{1,16}"),
    )
)
_DEATH: Final = re.compile(
    r"d(?P<died>[0-9]{13})\.(?P<why>[mr])(?P<receives>0|[1-9][0-9]{0,8})"
    rf"\.(?P<first>0|[1-9][0-9]{{0,12}})?\.(?P<source>{_QUEUE})|h(?P<file>[0-9a-v]{{6}})"
)
_UNFINISHED: Final = re.compile(r"new/(?:[a-z0-9]{1,16}-[0-9]+\.(?:body|spare)|.*\.copy)")
"""A body or a copy that a dead process was writing, or a spare."""
SEAL: Final = 512
"""Bytes at the end of a spare."""
_STEM_TAGS: Final = "nsacmkgpx"
MOST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """One link of a file, and what it says."""

    path: str
    state: str
    queue: str
    stem: str
    id: str
    count: int
    """0: the file is one message's."""
    size: int
    attributes: int
    crc: int
    line: int
    key: str | None
    is_grouped: bool
    priority: int
    external: bool
    version: int
    members: frozenset[int]
    receives: int
    first: int | None
    death: Mapping[str, Any] | None
    """How the messages died, with `file` in place of all that a file says."""
    renewed: int | None
    owner: str | None
    due: int | None
    token: str | None

    @property
    def everything(self) -> frozenset[int]:
        """The indexes of all messages of the file."""
        return frozenset(range(self.count or 1))

    def message_id(self, index: int) -> str:
        return f"{self.id[:-3]}{index:03x}" if self.count else self.id


def parse(path: str) -> Name | None:
    """Return the name at `path`, which is relative to the root; None for anything else."""
    place = _PATH.fullmatch(path)
    if place is None:
        return None
    id, *tags = place["name"].split(",")
    said = _tags_of(tags)
    if not _UUID.fullmatch(id) or said is None or "s" not in said or "c" not in said:
        return None
    count, folder = int(said.get("n", 0)), place["folder"] or "queues"
    everything = frozenset(range(count or 1))
    members = _members_of(said, everything)
    due, token = place["due"], place["token"]
    death = _death_of(said)
    if (
        ("d" in said or "h" in said) != (death is not None)
        or ((death is not None or "t" in said) and folder == "new")
        or count > MOST
        or (count and not id.endswith("000"))
        or members is None
        or ("k" in said and bool(said["k"]) == bool(count))
        or ("g" in said and "m" not in said)
        or ("x" in said and (count or "m" not in said))
        or (folder == "new") != ("o" in said)
        or (folder == "delay" and not due)
        or (due and folder not in ("new", "delay"))
    ):
        return None
    states = {"new": "sent", "queues": "ready", "remove": "removed", "quarantine": "quarantined"}
    return Name(
        path=path,
        state=states.get(folder, "leased" if token else "delayed"),
        queue=place["queue"] or place["ready"],
        stem=",".join([id, *(tag for tag in tags if tag[0] in _STEM_TAGS)]),
        id=id,
        count=count,
        size=int(said["s"]),
        attributes=int(said.get("a", 0)),
        crc=int(said["c"], 16),
        line=int(said.get("m", 0)),
        key=said.get("k"),
        is_grouped="g" in said,
        priority=int(said.get("p", 0)),
        external="x" in said,
        version=int(said.get("v", 1)),
        members=members,
        receives=int(said.get("r", 0)),
        first=int(said["f"]) if "f" in said else None,
        death=death,
        renewed=int(said["t"]) if "t" in said else None,
        owner=said.get("o"),
        due=int(due) if due else None,
        token=token,
    )


def _death_of(said: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what the tags say of a death; None if they say nothing, or nothing valid."""
    tag = next((kind + said[kind] for kind in "dh" if kind in said), "")
    match = _DEATH.fullmatch(tag)
    if match is None:
        return None
    if match["file"]:
        return {"file": match["file"]}
    return {
        "at": int(match["died"]),
        "reason": {"m": "max_receives", "r": "rejected"}[match["why"]],
        "receives": int(match["receives"]),
        "first": int(match["first"]) if match["first"] else None,
        "source": match["source"],
    }


def _tags_of(tags: Sequence[str]) -> dict[str, str] | None:
    """Return the values of tags by their names, if they stand in their order, each once."""
    said: dict[str, str] = {}
    rest = iter(_TAGS)
    for tag in tags:
        kind, value = tag[:1], tag[1:]
        for kinds, pattern in rest:
            if kind and kind in kinds:
                if not pattern.fullmatch(value):
                    return None
                said[kind] = value
                break
        else:
            return None
    return said


def _members_of(said: Mapping[str, str], everything: frozenset[int]) -> frozenset[int] | None:
    kind = next((kind for kind in "ib" if kind in said), None)
    if kind is None:
        return everything
    found = members_in(kind + said[kind])
    return found if found is not None and found < everything else None


def members_in(text: str) -> frozenset[int] | None:
    """Return the indexes that a tag lists; None if that is not its one spelling."""
    try:
        if text.startswith("i"):
            ranges = [[int(end) for end in part.split("-")] for part in text[1:].split(".")]
            if any(each[-1] >= MOST for each in ranges):
                return None
            found = {index for each in ranges for index in range(each[0], each[-1] + 1)}
        else:
            start, digits = text[1:].split(".")
            bits = sum(DIGITS.index(digit) << 5 * place for place, digit in enumerate(digits))
            if int(start) >= MOST or bits.bit_length() > MOST:
                return None
            found = {int(start) + bit for bit in range(bits.bit_length()) if bits >> bit & 1}
    except ValueError:
        return None
    return frozenset(found) if found and max(found) < MOST and members_text(found) == text else None


def members_text(members: frozenset[int] | set[int]) -> str:
    """Return the tag that lists `members`: ranges, unless a bitmap is shorter."""
    ranges: list[list[int]] = []
    for index in sorted(members):
        if ranges and ranges[-1][-1] == index - 1:
            ranges[-1][1:] = [index]
        else:
            ranges.append([index])
    text = "i" + ".".join("-".join(map(str, each)) for each in ranges)
    start = min(members)
    bits = sum(1 << index - start for index in members)
    digits = [DIGITS[bits >> at & 31] for at in range(0, bits.bit_length(), 5)]
    bitmap = f"b{start}.{''.join(digits)}"
    return bitmap if len(bitmap) < len(text) else text


# Names of files that hold no messages, or none yet.

_NUMBER: Final = "0|[1-9][0-9]*"
_RECORDS: Final = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "stage": r"(?P<stage>[A-Za-z0-9_-]{1,64})@(?P<due>[0-9]{13})(?P<dropped>~dropped)?",
        "chunk": rf"(?P<stage>[A-Za-z0-9_-]{{1,64}})@(?P<due>[0-9]{{13}}):(?P<number>{_NUMBER})"
        rf"(?:\+(?P<delay>{_NUMBER}))?:(?P<queue>{_QUEUE}):(?P<stem>.+)",
        "published": rf"(?P<writer>[A-Za-z0-9_-]{{1,80}})\.(?P<epoch>{_NUMBER})",
        "reserved": rf"(?P<stream>[A-Za-z0-9_-]{{1,80}})\.(?P<seq>{_NUMBER})"
        r"(?:@(?P<due>[0-9]{13})(?P<read>~read)?(?P<lost>~lost)?)?",
        "redrive": rf"(?P<id>{_UUID.pattern}),m(?P<moved>{_NUMBER}),f(?P<failed>{_NUMBER})"
        rf"(?:,w(?P<why>history|damaged|missing|old|twice)(?:\.(?P<queue>{_QUEUE}))?)?(?P<cancelled>,x)?"
        r"(?:,o(?P<owner>[a-z0-9]{1,16}))?(?:@(?P<ended>[0-9]{13}))?",
    }.items()
}
_BOUNDS: Final = {
    **dict.fromkeys(("epoch", "seq"), 2**63 - 1),
    **dict.fromkeys(("moved", "failed"), 10**15 - 1),
    "number": 999_999_999,
    "delay": 365 * 86_400_000,
}


def parse_record(kind: str, text: str) -> dict[str, str] | None:
    """Return the parts of the name of a record; None if it is none."""
    match = _RECORDS[kind].fullmatch(text)
    if match is None:
        return None
    said = {part: value for part, value in match.groupdict().items() if value is not None}
    if any(int(said[part]) > most for part, most in _BOUNDS.items() if part in said):
        return None
    if "cancelled" in said and "ended" not in said:
        return None
    if "stem" in said and getattr(parse(f"queues/q/{said['stem']}"), "stem", None) != said["stem"]:
        return None
    return said


# Contents.


class Damaged(Exception):
    """Neither the file nor one of its messages may be delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One message of a file."""

    body: bytes | None
    """None: it is damaged."""
    attributes: Mapping[str, str | bytes]
    group: str
    key: str


def read_contents(name: Name, content: bytes, external: bytes | None = None) -> list[Content]:
    """Return the messages of a file; `external` is the body in a file of its own. Raise `Damaged`."""
    bodies = 0 if name.external else name.size
    if len(content) < bodies + name.line:
        raise Damaged(name.path)
    content = content[: bodies + name.line]
    line = content[bodies:]
    if crc32(line or content) != name.crc or (name.count and not line):
        raise Damaged(name.path)
    said: Any = {"sizes": [name.size], "crcs": [name.crc]}
    try:
        if line:
            if line[:1] != b"\n" or line[-1:] != b"\n":
                raise Damaged(name.path)
            said = json.loads(line)
        return list(_contents_of(name, said, content if external is None else external))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(name.path) from error


def _contents_of(name: Name, said: Any, content: bytes) -> Iterator[Content]:
    sizes, crcs = said["sizes"], said["crcs"]
    numbers = sizes if name.external and crcs == [None] else [*sizes, *crcs]
    if any(type(each) is not int or each < 0 for each in numbers):
        raise Damaged(name.path)
    if not len(sizes) == len(crcs) == (name.count or 1) or sum(sizes) != name.size:
        raise Damaged(name.path)
    groups = {group: members_in(text) for group, text in said.get("groups", {}).items()}
    if bool(groups) != name.is_grouped or None in groups.values():
        raise Damaged(name.path)
    grouped = {index: group for group, members in groups.items() for index in members or ()}
    if not grouped.keys() <= name.everything:
        raise Damaged(name.path)
    texts, binaries = said.get("attributes", {}), said.get("binary_attributes", {})
    at = 0
    for index, (size, crc) in enumerate(zip(sizes, crcs, strict=True)):
        body: bytes | None = content[at : at + size]
        at += size
        if len(body or b"") != size or crc not in (None, crc32(body or b"")):
            body = None
        attributes: dict[str, str | bytes] = {}
        for attribute, text in texts.get(str(index), {}).items():
            (attribute + text).encode()  # A half of a surrogate pair has no UTF-8.
            attributes[attribute] = text
        for attribute, coded in binaries.get(str(index), {}).items():
            attributes[attribute] = base64.b64decode(coded, validate=True)
        yield Content(
            body=body,
            attributes=attributes,
            group=grouped.get(index, ""),
            key=said.get("keys", {}).get(str(index), "") if name.count else name.key or "",
        )


def unsealed(content: bytes) -> Any:
    """Return what a sealed file says; None if it is torn or damaged."""
    line = unsealed_line(content)
    return None if line is None else json.loads(line)


def unsealed_line(content: bytes) -> bytes | None:
    """Return the first line of a sealed file; None if it is torn or damaged."""
    lines = content.split(b"\n")
    if len(lines) != 3 or lines[2] or lines[1] != b"%08x" % crc32(lines[0] + b"\n"):
        return None
    return lines[0]


# Receipts, keys, back-off.


def receipt_of(name: Name, index: int) -> str:
    """Return our receipt of a leased message."""
    block, place = divmod(index, 8)
    digest = blake2b(block.to_bytes(2, "big"), key=(name.token or "").encode(), digest_size=64)
    tag = digest.hexdigest()[16 * place : 16 * place + 16]
    return f"{name.queue}:{name.message_id(index)}~{tag}"


def key_of(deduplication_id: str, salt: str) -> str:
    digest = blake2b(deduplication_id.encode(), digest_size=16, salt=salt.encode()).digest()
    number = int.from_bytes(digest, "big")
    return "".join(DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def sent_at(id: str) -> int:
    """Return the Unix time, in milliseconds, that an id says."""
    return int(id[:8] + id[9:13], 16)


# Batches.


@dataclass(slots=True)
class Batch:
    """The names of one file."""

    names: list[Name] = field(default_factory=list)

    def holders(self) -> dict[int, Name]:
        """Return the name that holds each message that is listed: rule 1."""
        found: dict[int, Name] = {}
        for name in sorted(self.names, key=lambda n: (n.version, STATES.index(n.state), n.path)):
            found.update(dict.fromkeys(name.members, name))
        return found

    def unlisted(self) -> frozenset[int]:
        """Return the messages of which rule 6 says that they can't come about."""
        if all(name.state in ("removed", "quarantined", "sent") for name in self.names):
            return frozenset()
        return self.names[0].everything - self.holders().keys()

    @property
    def is_new(self) -> bool:
        """Whether all names are in `new/`."""
        return all(name.state == "sent" for name in self.names)


def batches_of(names: Iterator[Name] | Sequence[Name]) -> dict[str, Batch]:
    """Return the batches by their stems."""
    batches: dict[str, Batch] = {}
    for name in names:
        batches.setdefault(name.stem, Batch()).names.append(name)
    return batches


# A root.


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message, where it is now."""

    id: str
    queue: str
    state: str
    """Ready, delayed, leased or quarantined."""
    receives: int
    first: int | None
    due: int | None
    body: bytes | None
    """None: it is damaged."""
    attributes: Mapping[str, str | bytes]
    group: str
    priority: int
    deaths: Sequence[Mapping[str, Any]]
    receipt: str | None


def sealed_in(spare: Path) -> Name | None:
    """Return the name that the seal of a spare says; None if it has none."""
    content = spare.read_bytes()
    if len(content) <= SEAL:
        return None
    line = unsealed_line(content[-SEAL:].rstrip(b"\0"))
    own, _, name = (line or b"").decode("ascii", "replace").partition(" ")
    return parse(f"new/{name}") if own == spare.name else None


def contents_at(root: Path, name: Name, content: bytes | None = None) -> list[Content] | None:
    """Return the messages of a file; None if it is damaged. `content` is that of a spare."""
    external = None
    if name.external:
        body = root / "bodies" / name.id
        external = body.read_bytes() if body.exists() else b""
    try:
        return read_contents(name, content or (root / name.path).read_bytes(), external)
    except Damaged:
        return None


def deaths_of(root: Path, name: Name) -> list[Mapping[str, Any]]:
    """Return how the messages of a name died each time, the oldest first; nothing if that is lost."""
    death = name.death
    if death is None:
        return []
    if "file" in death:
        file = root / "dead_letters" / f"{name.id}.{death['file']}"
        deaths = list((unsealed(file.read_bytes()) or {}).get("deaths", [])) if file.exists() else []
    else:
        deaths = [
            {
                "source_queue": death["source"],
                "reason": death["reason"],
                "receives": death["receives"],
                "first_receive_ms": death["first"],
                "died_at_ms": death["at"],
            }
        ]
    if name.renewed is not None and deaths and name.renewed > deaths[-1]["died_at_ms"]:
        redriven = {"redriven_to": name.queue, "redriven_at_ms": name.renewed}
        deaths[-1] = {**deaths[-1], **redriven}
    return deaths


def message_of(root: Path, name: Name, index: int, contents: list[Content] | None) -> Message:
    """Return a message, by the name that holds it."""
    content = contents[index] if contents is not None else None
    state = name.state
    if state == "sent":
        state = "leased" if name.token else "ready" if name.due is None else "delayed"
    return Message(
        id=name.message_id(index),
        queue=name.queue,
        state=state,
        receives=name.receives,
        first=name.first,
        due=name.due,
        body=None if content is None else content.body,
        attributes={} if content is None else content.attributes,
        group="" if content is None else content.group,
        priority=name.priority,
        deaths=deaths_of(root, name),
        receipt=receipt_of(name, index) if state == "leased" else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    settings: Mapping[str, int | str]
    labels: Mapping[str, str]
    created_at: int
    salt: str
    version: int


def shard_of(queue: str, count: int) -> int:
    """Return the shard that a queue belongs to."""
    tag = re.sub(r"\.fifo$", "", re.sub("--.*", "", queue))
    return (crc32(tag.encode()) >> 16 & 0x7FFF) % count


def _shard_in(file: Path) -> tuple[int, int] | None:
    if not file.exists():
        return None
    match = re.fullmatch(rb"(0|[1-9][0-9]*)/([1-9][0-9]*)", unsealed_line(file.read_bytes()) or b"")
    if match is None or int(match[1]) >= int(match[2]):
        raise ValueError(f"{file} names no shard")
    return int(match[1]), int(match[2])


class Root:
    """A root that no process changes, as a start finds it."""

    def __init__(self, path: Path) -> None:
        if (path / "FORMAT").read_bytes() not in FORMATS:
            raise ValueError(f"{path} is no root of format 4")
        self.path = path
        self.shard = _shard_in(path / "SHARD")
        """Its number, and how many there are; None: it is no shard."""
        self.spares: dict[str, bytes] = {}
        """What is in the files that are spares still, by the paths of their names."""
        self.foreign: list[str] = []
        """Paths in the folders of messages that are no names."""
        self.batches = batches_of(list(self._names()))
        self._read: dict[str, list[Content] | None] = {}
        """Contents by stem; None: damaged."""

    def _names(self) -> Iterator[Name]:
        for folder in ("new", *(f"queues/{each.name}" for each in (self.path / "queues").iterdir())):
            yield from self._names_in(folder)
        for folder in ("delay", "remove", "quarantine"):
            yield from self._names_in(folder)

    def _names_in(self, folder: str) -> Iterator[Name]:
        for found in (self.path / folder).iterdir():
            path = f"{folder}/{found.name}"
            name = parse(path)
            if path.endswith(".spare") and _UNFINISHED.fullmatch(path) and found.is_file():
                sealed = sealed_in(found)
                if sealed is not None:
                    self.spares[sealed.path] = found.read_bytes()
                    yield sealed
            if _UNFINISHED.fullmatch(path):
                continue
            if name is None or found.is_symlink() or not found.is_file():
                self.foreign.append(path)
            else:
                yield name

    @cached_property
    def queues(self) -> dict[str, Queue]:
        """The queues that are not deleted."""
        versions: dict[str, list[int]] = {}
        for file in (self.path / "config").iterdir():
            queue, version, _ = file.name.rsplit(".", 2)
            versions.setdefault(queue, []).append(int(version))
        found: dict[str, Queue] = {}
        for queue, numbers in versions.items():
            readable = {
                number: said
                for number in numbers
                if (said := unsealed((self.path / f"config/{queue}.{number}.json").read_bytes()))
            }
            version = max(readable, default=0)
            said = readable.get(version, {"deleted": True})
            if not said.get("deleted"):
                found[queue] = Queue(
                    settings={name: said.get(name, default) for name, default in DEFAULTS.items()},
                    labels=said.get("labels", {}),
                    created_at=said["created_at"],
                    salt=said.get("salt", ""),
                    version=version,
                )
        return found

    @cached_property
    def messages(self) -> dict[str, Message]:
        """The messages of queues that there are, and those in quarantine, by their ids."""
        found: dict[str, Message] = {}
        for batch in self.batches.values():
            if batch.is_new and not self._was_sent(batch):
                continue
            for index, name in batch.holders().items():
                is_here = name.state != "removed" and name.queue in self.queues
                if name.state == "quarantined" or is_here:
                    contents = self._contents(name)
                    found[name.message_id(index)] = message_of(self.path, name, index, contents)
        return dict(sorted(found.items()))

    def _was_sent(self, batch: Batch) -> bool:
        """Return whether a batch that is in `new/` only was sent: rule 4."""
        name = batch.names[0]
        contents = self._contents(name)
        return (
            batch.holders().keys() == name.everything
            and contents is not None
            and all(each.body is not None for each in contents)
        )

    def _contents(self, name: Name) -> list[Content] | None:
        if name.stem not in self._read:
            content = self.spares.get(name.path)
            self._read[name.stem] = contents_at(self.path, name, content)
        return self._read[name.stem]

    def in_order(self, queue: str) -> list[str]:
        """Return the ids of the ready messages of a queue without groups, in the order of receives."""
        aging = int(self.queues[queue].settings["priority_aging"])

        def place(message: Message) -> tuple[int, str]:
            ahead = sent_at(message.id) - message.priority * aging if aging else -message.priority
            return ahead, message.id

        ready = (each for each in self.messages.values() if each.queue == queue)
        return [each.id for each in sorted(ready, key=place) if each.state == "ready"]

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield each deduplication key that was taken, and the id of the message that took it."""
        for batch in self.batches.values():
            name = batch.names[0]
            if name.key is None:
                continue
            if batch.is_new and not self._was_sent(batch):
                continue
            if name.key:
                yield name.key, name.id
            else:
                for index, content in enumerate(self._contents(name) or ()):
                    if content.key:
                        yield content.key, name.message_id(index)
        for segment in (self.path / "keys").iterdir():
            yield from (unsealed(segment.read_bytes()) or {}).items()

    def first_sent(self, queue: str, deduplication_id: str, now: int) -> str | None:
        """Return the id of the message that was sent with this deduplication id, if it is taken."""
        record = self.queues[queue]
        key = key_of(deduplication_id, record.salt)
        last = max((id for taken, id in self.keys() if taken == key), default=None)
        window = int(record.settings["deduplication_window"])
        return last if last is not None and sent_at(last) + window > now else None

    def archived(self, queue: str) -> dict[str, list[Content]]:
        """Return the messages that a queue's archive has, by id; of some it may have several files."""
        found: dict[str, list[Content]] = {}
        for file in sorted(self.path.glob(f"archive/{queue}/*/*")):
            name = parse(f"queues/{queue}/{file.name}")
            if name is None:
                continue
            external = Path(f"{file}.body")
            body = external.read_bytes() if name.external and external.exists() else None
            contents = read_contents(name, file.read_bytes(), body)
            for index in name.members:
                found.setdefault(name.message_id(index), []).append(contents[index])
        return found


# The log of moves.


@dataclass(frozen=True, slots=True)
class Change:
    """A record of `CHANGES`."""

    kind: int
    source: str
    target: str
    due: int


class Changes:
    """`CHANGES` as it was read: its header, and the records from the beginning of the log."""

    def __init__(self, content: bytes) -> None:
        _, self.head, self.done, poison, *_ = struct.unpack_from("<8sQQQQQQ", content)
        self.is_poisoned = poison != 0
        names = content[56:4096].partition(b"\0")[0]
        self.owners = names.decode().split("\n")[:-1]
        self._ring = content[4096:]

    def records(self) -> Iterator[tuple[int, Change]]:
        """Yield each record with its count. The ring must not have wrapped."""
        at = 0
        while at < self.head:
            length, kind, due = struct.unpack_from("<IBQ", self._ring, at)
            source, target = self._ring[at + 13 : at + length].decode().split("\n")
            yield at, Change(kind, source, target, due)
            at += length
