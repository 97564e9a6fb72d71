"""The record of a reserved set: its messages, by files and members. Pure.

A record is sealed, as `model.sealed` says: one that a power cut has torn counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .clock import Millis
from .members import NotMembers, from_text, to_text
from .names import is_queue_name
from .receipts import is_set_token, is_token
from .sealed import NotWhole, list_in, number_in, seal, text_in, unseal


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRecord:
    """The messages of a set. They never change."""

    queue: str
    queue_created_at: Millis | None = None
    """Another queue that is made under its name has another. None: a version of before didn't say."""
    token: str
    """Of all its leases, and of no others."""
    visibility_timeout: Millis
    """As it was first asked for."""
    made_at: Millis
    """Unix time."""
    size: int
    """Bytes of the bodies."""
    files: tuple[tuple[str, int], ...]
    """In the order of the messages: the text of a file's stem, and a mask of members. A file is there
    twice if a message of another one has an id between, or if its messages have other receives."""
    receives: tuple[int, ...]
    """Of each of `files`, how often its messages were received when the set was made, with the set."""
    messages: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", sum(members.bit_count() for _, members in self.files))

    def encode(self) -> bytes:
        made = {} if self.queue_created_at is None else {"queue_created_at": self.queue_created_at}
        return seal(
            {
                "queue": self.queue,
                **made,
                "token": self.token,
                "hold": self.visibility_timeout,
                "made_at": self.made_at,
                "messages": self.messages,
                "bytes": self.size,
                "files": [(text, to_text(members)) for text, members in self.files],
                "receives": self.receives,
            }
        )

    @classmethod
    def decode(cls, content: bytes) -> ReservationRecord:
        """Return the record in `content`; raise `NotWhole`."""
        values = unseal(content)
        try:
            files = tuple(
                (str(text), from_text(str(members)))
                for text, members in list_in(values, "files", list, lambda file: len(file) == 2)
            )
        except NotMembers as error:
            raise NotWhole("it doesn't say which messages it holds") from error
        receives = list_in(values, "receives", int, lambda count: count > 0)
        if len(receives) != len(files):
            raise NotWhole("it doesn't say how often its messages were received")
        created_at = None
        if "queue_created_at" in values:
            created_at = Millis(number_in(values, "queue_created_at"))
        return cls(
            queue=text_in(values, "queue", is_queue_name),
            queue_created_at=created_at,
            token=text_in(values, "token", lambda text: is_token(text) and is_set_token(text)),
            visibility_timeout=Millis(number_in(values, "hold")),
            made_at=Millis(number_in(values, "made_at")),
            size=number_in(values, "bytes"),
            files=files,
            receives=receives,
        )
