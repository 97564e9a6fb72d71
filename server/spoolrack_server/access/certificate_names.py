"""The name in a client's certificate, which the handshake has proven: the same at every port.

It is the first URI among the certificate's alternative names (as SPIFFE has it), else the first DNS
name, else the subject's first common name. It is read from the certificate as it was sent, in DER
(RFC 5280), because libraries cut a name at its first NUL. A certificate that can't be read names no
caller: `Unauthenticated`.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from spoolrack_store.model.errors import Unauthenticated

_COMMON_NAME: Final = bytes.fromhex("550403")
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")
_SEQUENCE, _SET, _IDENTIFIER, _OCTETS, _EXTENSIONS = 0x30, 0x31, 0x06, 0x04, 0xA3
_URI, _DNS = 0x86, 0x82
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # TeletexString, as all read it
    0x16: "ascii",  # IA5String
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}

_Item = tuple[int, bytes]
"""A tag and its content."""


def name_in_grpc(properties: Mapping[str, Iterable[bytes]]) -> str | None:
    """Return the name in `ServicerContext.auth_context()`; None without a certificate, or without a
    name in it."""
    for pem in properties.get("x509_pem_cert", ()):
        return _name_in_pem(pem)
    return None


@lru_cache(1_000)
def _name_in_pem(pem: bytes) -> str | None:
    try:
        return name_in_der(ssl.PEM_cert_to_DER_cert(pem.decode("ascii")))
    except ValueError as error:
        raise _unreadable(error) from error


def name_in_der(certificate: bytes | None) -> str | None:
    """Return the name in a certificate; None without a certificate, or without a name in it."""
    if certificate is None:
        return None
    try:
        return _name(certificate)
    except (ValueError, IndexError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> Unauthenticated:
    return Unauthenticated(why=f"its certificate can't be read: {error}")


def _name(certificate: bytes) -> str | None:
    # Certificate: its first item is the signed part, whose version is optional.
    parts = _items(_items(_of(_SEQUENCE, *_items(certificate)))[0][1])
    subject = parts[5 if parts[0][0] == 0xA0 else 4]
    by_kind: dict[int, str] = {}
    for kind, content in _alternative_names(parts):
        if kind in (_URI, _DNS):
            by_kind.setdefault(kind, content.decode("ascii"))
    return by_kind.get(_URI) or by_kind.get(_DNS) or _common_name(subject)


def _alternative_names(parts: list[_Item]) -> Iterator[_Item]:
    found = [
        extension[-1]
        for tag, content in parts
        if tag == _EXTENSIONS
        for extension in map(_sequence, _sequence(*_items(content)))
        if extension[0] == (_IDENTIFIER, _ALTERNATIVE_NAMES)
    ]
    if len(found) > 1:
        raise ValueError("it has its alternative names twice")
    for extension in found:
        yield from _sequence(*_items(_of(_OCTETS, extension)))


def _common_name(subject: _Item) -> str | None:
    for part in _sequence(subject):
        for attribute in _items(_of(_SET, part)):
            kind, (tag, content) = _sequence(attribute)
            if kind == (_IDENTIFIER, _COMMON_NAME):
                if tag not in _ENCODINGS:
                    raise ValueError("its common name is no text")
                return content.decode(_ENCODINGS[tag])
    return None


def _sequence(*item: _Item) -> list[_Item]:
    return _items(_of(_SEQUENCE, *item))


def _of(tag: int, *items: _Item) -> bytes:
    """Return the content of the one item, which must have the tag."""
    if len(items) != 1 or items[0][0] != tag:
        raise ValueError("its parts are not those of a certificate")
    return items[0][1]


def _items(content: bytes) -> list[_Item]:
    """Return the items of a content in DER."""
    items: list[_Item] = []
    at = 0
    while at < len(content):
        tag, size = content[at], content[at + 1]
        at += 2
        if size > 0x80:
            more = size & 0x7F
            size = int.from_bytes(content[at : at + more], "big")
            at += more
        elif size == 0x80 or tag & 0x1F == 0x1F:
            raise ValueError("it is not in DER")
        if at + size > len(content):
            raise ValueError("it is cut off")
        items.append((tag, content[at : at + size]))
        at += size
    return items
