"""The grammar of names: the one module that formats and parses paths of messages.

    stem  = id [",n" count] ",s" size [",a" attributes] ",c" crc [",m" line]
            [",k" [key]] [",g"] [",p" priority] [",x"]
    name  = stem [",v" version] ["," members] [",r" receives] [",f" first] [death]
            [",t" renewed] [",o" owner]
    death = ",d" died "." why receives "." [first] "." queue
          / ",h" file
    path  = "new/" queue ":" name ["@" due ["~" token]]
          / "queues/" queue "/" name
          / "delay/" queue ":" name "@" due ["~" token]
          / "remove/" queue ":" name
          / "quarantine/" queue ":" name

All hard links of one file share its stem, which never changes; the rest of a name says which messages
it lists, and their state. A file without `,n` holds one message, whose id it bears. With `,n` the id's
low 12 bits are 0, and the message with index i has the id plus i. Every value has one spelling, because
a name is the source of a rename. With `,x` the body of the only message is in a file of its own, at
`bodies/<id>`, and the file has the line alone. A death says how the messages became dead letters, and
follows them back to their queue; with `,h` the file `dead_letters/<id>.<file>` says it. The age of
messages begins with their send, or anew at the time in `,t`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Final

from .clock import Millis
from .members import MOST, NotMembers, from_text, to_text
from .message_ids import INDEX_DIGITS, UUID, batch_of, index_of, sent_at
from .transitions import State

MAX_BYTES: Final = 255
"""The longest name that file systems allow."""
MAX_RECEIVES: Final = 999_999_999
"""The count of receives stops here, so that a name keeps its room."""
MAX_PRIORITY: Final = 9

_MAX_QUEUE_NAME: Final = 80
FIFO: Final = ".fifo"
"""The end of the name of a queue whose groups are strict, and whose messages have one."""
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
QUEUE_NAME: Final = rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{_MAX_QUEUE_NAME - 1}}}"
"""Names of queues: never a leading dot, a slash, or a separator of ours."""
_QUEUE_NAME: Final = re.compile(QUEUE_NAME)
_OWNER: Final = re.compile(r"[a-z0-9]{1,16}")
_NAME: Final = re.compile(
    rf"(?P<stem>(?P<id>{UUID.pattern})(?:,n(?P<count>[1-9][0-9]{{0,3}}))?,s(?P<size>0|[1-9][0-9]{{0,14}})"
    r"(?:,a(?P<attributes>[1-9][0-9]{0,14}))?"
    r",c(?P<crc>[0-9a-f]{8})(?:,m(?P<line>[1-9][0-9]{0,14}))?"
    r"(?P<keyed>,k(?P<key>[0-7][0-9a-v]{25})?)?(?P<grouped>,g)?"
    r"(?:,p(?P<priority>[1-9]))?(?P<external>,x)?)"
    r"(?:,v(?P<version>[1-9][0-9]{0,8}))?(?:,(?P<members>[ib][0-9a-v.-]+))?"
    r"(?:,r(?P<receives>[1-9][0-9]{0,8}))?(?:,f(?P<first>0|[1-9][0-9]{0,12}))?"
    r"(?P<death>,[dh][^,@]+)?(?:,t(?P<renewed>[0-9]{13}))?(?:,o(?P<owner>[a-z0-9]{1,16}))?"
    r"(?:@(?P<due>[0-9]{13})(?:~(?P<token>[0-9a-v]{13}))?)?"
)
_DEATH: Final = re.compile(
    r",d(?P<at>[0-9]{13})\.(?P<why>[mr])(?P<receives>0|[1-9][0-9]{0,8})"
    rf"\.(?P<first>0|[1-9][0-9]{{0,12}})?\.(?P<source>{QUEUE_NAME})"
)
PACKABLE: Final = re.compile(
    rf"(?:queues/({QUEUE_NAME})/(?=[^@]+\Z)|delay/({QUEUE_NAME}):(?=[^@]+@))({UUID.pattern}),s(0|[1-9][0-9]{{0,14}})"
    r"(?:,a([1-9][0-9]{0,14}))?,c[0-9a-f]{8}(?:,m[1-9][0-9]{0,14}(?:,x)?)?"
    r"(?:,v(?:[2-9]|[1-9][0-9]{1,8}))?(?:,r[1-9][0-9]{0,8})?(?:,f(?:0|[1-9][0-9]{0,12}))?"
    rf"(?:{re.sub('[?]P<[a-z]+>', '?:', _DEATH.pattern)})?(?:,t[0-9]{{13}})?"
    r"(?:@([0-9]{13})(?:~([0-9a-v]{13}))?)?"
)
"""The path of a lone message that waits, without a key, a group, a priority, and a death that a file
says: the queue in which it is ready, or that to which it comes back, its id, the sizes of body and
attributes, when a lease or delay ends, and the token of a lease."""
_DEATH_IN_FILE: Final = re.compile(r",h(?P<file>[0-9a-v]{6})")
_DEAD_LETTER_PATH: Final = re.compile(rf"dead_letters/{UUID.pattern}\.[0-9a-v]{{6}}")
_PATH: Final = re.compile(
    rf"(?P<folder>new|delay|remove|quarantine)/(?P<queue>{QUEUE_NAME}):(?P<name>.+)"
)
_READY: Final = re.compile(rf"queues/(?P<queue>{QUEUE_NAME})/(?P<name>.+)")


_FOLDERS: Final = {
    State.SENT: "new",
    State.LEASED: "delay",
    State.DELAYED: "delay",
    State.REMOVED: "remove",
    State.QUARANTINED: "quarantine",
}
"""By state; ready messages are in a folder of their queue."""
_STATES: Final = {folder: state for state, folder in _FOLDERS.items()}
"""By folder; in `delay/` the state of a name without a token."""


class NotAName(ValueError):
    """The text is not a valid name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """The part that all names of one file share."""

    id: str
    count: int = 0
    """Messages that it was written with; 0 for a lone message."""
    size: int
    """Bytes of the bodies together."""
    attributes: int = 0
    """Bytes of the attributes together, of names and values."""
    crc: int
    """CRC-32 (zlib's) of the line; of the whole file where there is no line."""
    line: int = 0
    """Bytes of the line with its two line feeds; 0 where there is none."""
    key: str | None = None
    """The deduplication key of a lone message; of a batch "" if its line has keys."""
    is_grouped: bool = False
    """Whether its line has groups."""
    priority: int = 0
    """Of all its messages; up to `MAX_PRIORITY`, which is received first."""
    is_external: bool = False
    """Whether the body is in a file of its own, at `body_path`."""
    text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        parts = [self.id]
        if self.count:
            parts.append(f"n{self.count}")
        parts.append(f"s{self.size}")
        if self.attributes:
            parts.append(f"a{self.attributes}")
        parts.append(f"c{self.crc:08x}")
        if self.line:
            parts.append(f"m{self.line}")
        if self.key is not None:
            parts.append(f"k{self.key}")
        if self.is_grouped:
            parts.append("g")
        if self.priority:
            parts.append(f"p{self.priority}")
        if self.is_external:
            parts.append("x")
        object.__setattr__(self, "text", ",".join(parts))

    @property
    def full(self) -> int:
        """The mask of all its messages."""
        return (1 << (self.count or 1)) - 1

    @property
    def counted(self) -> int:
        """Bytes of its messages together, as the queue's limits count them."""
        return self.size + self.attributes

    @property
    def length(self) -> int:
        """Bytes of the whole file, without a body in a file of its own."""
        return self.line if self.is_external else self.size + self.line

    def message_id(self, index: int) -> str:
        return f"{self.id[:-INDEX_DIGITS]}{index:03x}" if self.count else self.id

    def message_ids(self, indexes: Iterable[int]) -> list[str]:
        """Return the ids of the messages with these indexes."""
        if not self.count:
            return [self.id]
        start = self.id[:-INDEX_DIGITS]
        return [f"{start}{index:03x}" for index in indexes]

    def mask_of(self, id: str) -> int:
        """Return the mask of the message `id`; 0 if it isn't in the file."""
        if not self.count:
            return int(id == self.id)
        index = index_of(id)
        return 1 << index if self.id == batch_of(id) and index < self.count else 0

    def holds(self, id: str) -> bool:
        """Return whether the message `id` is in the file."""
        return bool(self.mask_of(id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How the messages of a name became dead letters, as far as the name says it."""

    file: str = ""
    """The dead-letter file that says it, each time; the rest is unknown then."""
    at: Millis = Millis(0)
    """Unix time, as all times here."""
    is_rejected: bool = False
    """By a consumer; any other was received too often."""
    receives: int = 0
    """Leases that had begun in the queue that it was moved from."""
    first: Millis | None = None
    source: str = ""
    """The queue that it was moved from."""

    @property
    def text(self) -> str:
        if self.file:
            return f",h{self.file}"
        first = "" if self.first is None else self.first
        why = "r" if self.is_rejected else "m"
        return f",d{self.at:013d}.{why}{self.receives}.{first}.{self.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A hard link to a batch file: its place and its list of messages."""

    stem: Stem
    state: State
    queue: str
    version: int = 1
    members: int
    receives: int = 0
    first: Millis | None = None
    """Unix time of the first receive."""
    death: Death | None = None
    """Of messages that are dead letters, or were."""
    renewed: Millis | None = None
    """Unix time at which the age of its messages began anew: a redrive brought them to their queue, or
    they died in a queue with strict order. None: they are as old as their send."""
    owner: str = ""
    """In `new/` only: the process that writes the file."""
    due: Millis | None = None
    token: str = ""

    @property
    def path(self) -> str:
        """Its path in the root. It is made anew each time: of a waiting message it isn't kept."""
        stem = self.stem
        text = stem.text
        if self.version != 1:
            text += f",v{self.version}"
        if stem.count and self.members != stem.full:
            text += "," + to_text(self.members)
        if self.receives:
            text += f",r{self.receives}"
        if self.first is not None:
            text += f",f{self.first}"
        if self.death is not None:
            text += self.death.text
        if self.renewed is not None:
            text += f",t{self.renewed:013d}"
        if self.owner:
            text += f",o{self.owner}"
        if self.due is not None:
            text += f"@{self.due:013d}~{self.token}" if self.token else f"@{self.due:013d}"
        if self.state is State.READY:
            return f"queues/{self.queue}/{text}"
        return f"{_FOLDERS[self.state]}/{self.queue}:{text}"

    @property
    def age_began(self) -> Millis:
        """Unix time from which on its messages grow older, for the retention of their queue."""
        sent = sent_at(self.stem.id)
        return sent if self.renewed is None else max(sent, self.renewed)

    @property
    def dead_letter_path(self) -> str:
        """The path of its dead-letter file; empty if it has none."""
        return dead_letter_path(self.stem.id, self.death.file) if self.death and self.death.file else ""

    @property
    def bytes(self) -> int:
        """Bytes of the last component, which a file system limits."""
        return (
            len(self.path)
            - self.path.index("/")
            - 1
            - (len(self.queue) + 1 if self.state is State.READY else 0)
        )


def members_room(name: Name) -> int:
    """Return the number of characters that the tag of members may have in `name`, which lists all."""
    return MAX_BYTES - len(",") - name.bytes


def archived_name(stem: Stem, members: int) -> str:
    """Return the name of a file in the archive that has these messages of it; a list that has no room
    is left out."""
    name = stem.text if members == stem.full else f"{stem.text},{to_text(members)}"
    return name if len(name) <= MAX_BYTES else stem.text


def dead_letter_path(id: str, file: str) -> str:
    """Return the path of a dead-letter file of the batch `id`."""
    return f"dead_letters/{id}.{file}"


def is_dead_letter_path(path: str) -> bool:
    return _DEAD_LETTER_PATH.fullmatch(path) is not None


def body_path(id: str) -> str:
    """Return the path of the body of the message `id`, if it is in a file of its own."""
    return f"bodies/{id}"


def parse(path: str) -> Name:
    """Return the name at `path`; raise `NotAName` for any other spelling."""
    place = _READY.fullmatch(path) or _PATH.fullmatch(path)
    if place is None:
        raise NotAName(path)
    match = _NAME.fullmatch(place["name"])
    if match is None:
        raise NotAName(path)
    group = match.groupdict()
    count = int(group["count"] or 0)
    if count > MOST or (count and index_of(group["id"])):
        raise NotAName(path)
    stem = Stem(
        id=group["id"],
        count=count,
        size=int(group["size"]),
        attributes=int(group["attributes"] or 0),
        crc=int(group["crc"], 16),
        line=int(group["line"] or 0),
        key=(group["key"] or "") if group["keyed"] else None,
        is_grouped=group["grouped"] is not None,
        priority=int(group["priority"] or 0),
        is_external=group["external"] is not None,
    )
    folder = place.groupdict().get("folder")
    state = State.READY if folder is None else _STATES[folder]
    if state is State.DELAYED and group["token"]:
        state = State.LEASED
    try:
        members = stem.full if group["members"] is None else from_text(group["members"])
    except NotMembers as error:
        raise NotAName(path) from error
    name = Name(
        stem=stem,
        state=state,
        # One text for all messages of a queue.
        queue=intern(place["queue"]),
        version=int(group["version"] or 1),
        members=members,
        receives=int(group["receives"] or 0),
        first=None if group["first"] is None else Millis(int(group["first"])),
        death=None if group["death"] is None else _death(group["death"]),
        renewed=None if group["renewed"] is None else Millis(int(group["renewed"])),
        owner=group["owner"] or "",
        due=None if group["due"] is None else Millis(int(group["due"])),
        token=group["token"] or "",
    )
    if name.path != path or members & ~stem.full or not _is_complete(name):
        raise NotAName(path)
    return name


def name_at(path: str) -> Name | None:
    """Return the name at `path`; None for any other spelling."""
    try:
        return parse(path)
    except NotAName:
        return None


@lru_cache(maxsize=1_024)
def _death(text: str) -> Death:
    """Return the death of a tag; raise `NotAName`. Many names share one."""
    match = _DEATH.fullmatch(text) or _DEATH_IN_FILE.fullmatch(text)
    if match is None:
        raise NotAName(text)
    group = match.groupdict()
    if "file" in group:
        return Death(file=group["file"])
    return Death(
        at=Millis(int(group["at"])),
        is_rejected=group["why"] == "r",
        receives=int(group["receives"]),
        first=None if group["first"] is None else Millis(int(group["first"])),
        source=intern(group["source"]),
    )


def _is_complete(name: Name) -> bool:
    """Return whether the tags are those of its state, and a lone file's key is one."""
    if name.stem.key is not None and bool(name.stem.key) == bool(name.stem.count):
        return False
    if name.stem.is_grouped and not name.stem.line:
        return False
    if name.stem.is_external and (name.stem.count or not name.stem.line):
        return False
    match name.state:
        case State.SENT:
            return bool(name.owner) and name.death is None and name.renewed is None
        case State.LEASED | State.DELAYED:
            return name.due is not None and not name.owner
        case _:
            return name.due is None and not name.owner


def is_word(text: str, most: int) -> bool:
    """Return whether a text of up to `most` characters can be a name in a file's name."""
    return len(text) <= most and _WORD.fullmatch(text) is not None


def is_fifo(queue: str) -> bool:
    """Return whether a queue is FIFO by its name, as with Amazon SQS."""
    return queue.endswith(FIFO)


def is_queue_name(text: str) -> bool:
    # Each receipt has one: longer ones must not fill the cache.
    return len(text) <= _MAX_QUEUE_NAME and _is_queue_name(text)


@lru_cache(maxsize=1_024)
def _is_queue_name(text: str) -> bool:
    return _QUEUE_NAME.fullmatch(text) is not None


def is_owner(text: str) -> bool:
    return _OWNER.fullmatch(text) is not None
