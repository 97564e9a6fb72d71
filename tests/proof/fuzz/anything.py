"""Any message of the contract, by its descriptor: with values that are wrong, or nearly right.

Knows the contract's types and nothing of what they mean, but for some words that a server may take for
names of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

QUEUES: Final = ("jobs", "other", "letters")
"""Queues that are there."""
ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
WORDS: Final = (
    *QUEUES,
    *("", ".", "..", "../jobs", "jobs/", "/", "-", "a" * 80, "a" * 81, "jobs\0", "new", "queues", "\n"),
    *(ID, ID.upper(), f"jobs:{ID}", f"jobs:{ID}~0000000000000", f"jobs:{ID},n3:{ID}~gggggggggggg0"),
    *(
        "stage",
        "writer",
        "stream",
        "visibility_timeout",
        "no_such_setting",
        "name.name",
        "*",
        "%00",
        "ﬁ",
    ),
)
_WIDTHS: Final = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_DEPTH: Final = 3


def texts() -> st.SearchStrategy[str]:
    """Return what UTF-8 can carry."""
    unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
    return st.sampled_from(WORDS) | unicode | st.integers(1, 5_000).map("x".__mul__)


def numbers(lowest: int, highest: int) -> st.SearchStrategy[int]:
    near = [n for n in (lowest, -1, 0, 1, 2, 1_000, 1_001, highest) if lowest <= n <= highest]
    return st.sampled_from(near) | st.integers(lowest, highest)


def requests(kind: Descriptor, depth: int = _DEPTH) -> st.SearchStrategy[Message]:
    """Return messages of that kind."""

    @st.composite
    def make(draw: st.DrawFn) -> Message:
        message: Message = GetMessageClass(kind)()
        for field in kind.fields:
            if draw(st.booleans()) or depth == 0:
                _fill(draw, message, field, depth)
        return message

    return make()


def _fill(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        _fill_map(draw, message, field, depth)
    elif kind is not None and depth == 0:
        return
    elif kind is not None and field.is_repeated:
        made = draw(st.lists(requests(kind, depth - 1), max_size=4))
        getattr(message, field.name).extend(made)
    elif kind is not None:
        getattr(message, field.name).CopyFrom(draw(requests(kind, depth - 1)))
    elif field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(_values(field), max_size=4)))
    else:
        setattr(message, field.name, draw(_values(field)))


def _fill_map(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    entries = getattr(message, field.name)
    for name in draw(st.lists(_values(key), max_size=4)):
        if value.message_type is None:
            entries[name] = draw(_values(value))
        else:
            entries[name].CopyFrom(draw(requests(value.message_type, max(0, depth - 1))))


def _values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return texts()
        case FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=300) | st.just(bytes(2 * 1024 * 1024))
        case FieldDescriptor.TYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.TYPE_ENUM:
            return st.sampled_from([*field.enum_type.values_by_number, 99])
        case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
            return st.floats(width=32)
        case width:
            return numbers(*_WIDTHS[width])


def together(strategy: st.SearchStrategy[Message], most: int) -> st.SearchStrategy[Sequence[Message]]:
    """Return what one call sends."""
    return st.lists(strategy, min_size=1, max_size=most)
