"""AWS Signature Version 4: the identity and the region of a request, by its access key.

The signature covers the method, the path, the query, the signed headers and the body. Its time must be
within 15 minutes of the server's, and its date, service and terminator those of its scope. Each way to
be wrong has a refusal of its own. All but the signature itself is checked before the body is read.
Without keys every request is taken, and nothing of this is checked.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, quote

from aiohttp import web
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import Unauthenticated

from ..access.access_control import ANONYMOUS
from ..access.sqs_keys import SqsKeys
from ..access.watched_files import WatchedFiles
from ..app.caller import Identity
from . import sqs_errors
from .sqs_errors import SqsError

DEFAULT_REGION: Final = "us-east-1"
ALGORITHM: Final = "AWS4-HMAC-SHA256"
SKEW: Final = 15 * 60
"""Seconds that the clock of a client may be off."""
LONGEST_PRESIGNED: Final = 7 * 24 * 60 * 60
_TIME: Final = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_CREDENTIAL: Final = re.compile(
    r"(?P<key>\w{1,128})/(?P<date>\d{8})/(?P<region>[a-z0-9-]{1,40})/(?P<service>[a-z0-9-]+)"
    r"/(?P<end>[a-z0-9_]+)",
    re.ASCII,
)
_SCOPE: Final = re.compile(
    r"Credential=(?:(?P<account>\d{12})|[^/,\s]+)/\d{8}/(?P<region>[a-z0-9-]{1,40})/sqs/aws4_request",
    re.ASCII,
)
_MUST_BE_SIGNED: Final = ("host", "x-amz-date", "x-amz-target", "x-amz-security-token")
"""Headers that a request has to have signed, if it has them."""
_FIELDS: Final = ("Credential", "SignedHeaders", "Signature")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    """The signature of a request, and what it says of itself."""

    key: str
    date: str
    region: str
    service: str
    end: str
    time: str
    signed: tuple[str, ...]
    signature: str
    lifetime: int | None
    """Seconds, of a presigned URL."""

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{self.end}"


@dataclass(frozen=True, slots=True)
class Claim:
    """The caller that the head of a request claims to be from; only `verify` proves it."""

    identity: Identity
    region: str
    signature: _Signature | None = None
    """None: callers need none."""
    secret: str = field(default="", repr=False)
    account: str = ""
    """That of a caller that needs no key, and whose access key is an account; empty: the server's."""

    @property
    def access_key(self) -> str:
        """Empty if callers need none."""
        return "" if self.signature is None else self.signature.key

    def verify(self, request: web.Request, body: bytes) -> None:
        """Raise `SignatureDoesNotMatch` unless the caller has the secret of its key. Any thread."""
        if self.signature is None:
            return
        expected = _expected(self.signature, request, body, self.secret)
        if not hmac.compare_digest(expected, self.signature.signature):
            raise sqs_errors.signature_differs(
                "The request signature we calculated does not match the signature you provided. Check "
                "your Secret Access Key and signing method; a proxy must keep the Host header."
            )


class Authenticator:
    """Authentication of callers by the keys of a file; without a file every caller is accepted."""

    def __init__(self, keys: WatchedFiles[SqsKeys] | None, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    @property
    def is_open(self) -> bool:
        """Whether callers need no key."""
        return self._keys is None

    def claim(self, request: web.Request) -> Claim:
        """Check what a request's head says of its caller; raise the error of an invalid signature."""
        if self._keys is None:
            found = _SCOPE.search(request.headers.get("Authorization", ""))
            if found is None:
                return Claim(ANONYMOUS, DEFAULT_REGION)
            return Claim(ANONYMOUS, found["region"], account=found["account"] or "")
        signature = _signature_of(request)
        keys = self._keys.current
        identity = _identity_in(keys, signature)
        self._check_scope(signature)
        return Claim(identity, signature.region, signature, keys.secret_of(signature.key))

    def require_known(self, claim: Claim) -> None:
        """Raise `Unauthenticated` for a claim whose access key is that identity's no more."""
        if self._keys is not None and (
            self._keys.current.identities.get(claim.access_key) != claim.identity
        ):
            raise Unauthenticated(why="its access key is not in the server's file any more")

    def _check_scope(self, signature: _Signature) -> None:
        if (signature.service, signature.end) != ("sqs", "aws4_request"):
            raise sqs_errors.signature_differs(
                "Credential should be scoped to the service sqs and end in aws4_request, not "
                f"{signature.service}/{signature.end}."
            )
        if not signature.time.startswith(signature.date):
            raise sqs_errors.signature_differs(
                f"The date in the credential's scope, {signature.date}, is not that of the request's "
                f"time, {signature.time}."
            )
        signed_at = _seconds_of(signature.time)
        now = self._clock.wall() // 1_000
        lifetime = SKEW if signature.lifetime is None else signature.lifetime
        if now > signed_at + lifetime:
            raise sqs_errors.signature_differs(
                f"Signature expired: {signature.time} is over {lifetime} seconds before this "
                "server's clock."
            )
        if now < signed_at - SKEW:
            raise sqs_errors.signature_differs(
                f"Signature not yet current: {signature.time} is over {SKEW} seconds after this "
                "server's clock."
            )


def _identity_in(keys: SqsKeys, signature: _Signature) -> Identity:
    identity = keys.identities.get(signature.key)
    if identity is None:
        raise sqs_errors.unrecognized_client(
            "The access key included in the request is not one that this server knows: "
            "spoolrack tokens sqs-key makes one."
        )
    return identity


def _seconds_of(time: str) -> float:
    """Return the time of a request, in seconds since 1970."""
    try:
        if not _TIME.fullmatch(time):
            raise ValueError(time)
        return datetime.fromisoformat(time).timestamp()
    except ValueError as error:
        raise sqs_errors.incomplete_signature(
            f"The time of the request, {time[:40]!r}, is not like 20130524T000000Z."
        ) from error


def _signature_of(request: web.Request) -> _Signature:
    """Read the signature in the header, or in a presigned URL."""
    headers = request.headers.getall("Authorization", [])
    if len(headers) > 1:
        raise sqs_errors.incomplete_signature("There are two Authorization headers.")
    lifetime = None if headers else _lifetime_of(request)
    fields = _fields_of(headers[0]) if headers else _fields_in(request.query)
    time = (request.headers if headers else request.query).get("X-Amz-Date", "")
    credential = _CREDENTIAL.fullmatch(fields["Credential"])
    if credential is None:
        raise _incomplete("the Credential must be KEY/DATE/REGION/sqs/aws4_request")
    if not time:
        raise _incomplete("the X-Amz-Date is missing")
    if not re.fullmatch(r"[0-9a-f]{64}", fields["Signature"]):
        raise _incomplete("the Signature must be 64 hexadecimal digits")
    names = tuple(fields["SignedHeaders"].lower().split(";"))
    for name in _MUST_BE_SIGNED:
        if (name in request.headers or name == "host") and name not in names:
            raise _incomplete(f"the header {name} must be among the SignedHeaders")
    for name in names:
        if name not in request.headers:
            raise _incomplete(f"the header {name[:60]!r} is among the SignedHeaders, and isn't there")
    return _Signature(
        **credential.groupdict(),
        time=time,
        signed=names,
        signature=fields["Signature"],
        lifetime=lifetime,
    )


def _lifetime_of(request: web.Request) -> int:
    """Return the seconds for which a presigned URL is valid; raise the error of an unsigned request."""
    query = request.query
    if "X-Amz-Signature" not in query:
        raise sqs_errors.missing_token(
            "Request is missing Authentication Token: sign it, with an access key of this server."
        )
    if query.get("X-Amz-Algorithm") != ALGORITHM:
        raise _incomplete(f"X-Amz-Algorithm must be {ALGORITHM}")
    lifetime = query.get("X-Amz-Expires", "")
    if not re.fullmatch(r"\d{1,6}", lifetime, re.ASCII) or int(lifetime) > LONGEST_PRESIGNED:
        raise _incomplete(f"X-Amz-Expires must be from 0 to {LONGEST_PRESIGNED}")
    return int(lifetime)


def _fields_in(query: Mapping[str, str]) -> Mapping[str, str]:
    return {name: query.get(f"X-Amz-{name}", "") for name in _FIELDS}


def _fields_of(authorization: str) -> Mapping[str, str]:
    scheme, _, rest = authorization.strip().partition(" ")
    if scheme != ALGORITHM:
        raise _incomplete(f"the Authorization header must begin with {ALGORITHM}")
    parts = (part.strip().partition("=") for part in rest.split(","))
    fields = {name: value for name, _, value in parts}
    missing = [name for name in _FIELDS if not fields.get(name)]
    if missing:
        raise _incomplete(f"the Authorization header lacks {', '.join(missing)}")
    return fields


def _incomplete(why: str) -> SqsError:
    return sqs_errors.incomplete_signature(f"The request's signature is incomplete: {why}.")


def _expected(signature: _Signature, request: web.Request, body: bytes, secret: str) -> str:
    """Return the signature that the request must have."""
    hashed = hashlib.sha256(body).hexdigest()
    claimed = request.headers.get("X-Amz-Content-SHA256")
    if claimed is not None and claimed != hashed:
        raise sqs_errors.signature_differs("The X-Amz-Content-SHA256 is not the SHA-256 of the body.")
    canonical = "\n".join(
        (
            request.method,
            quote(request.rel_url.raw_path, safe="/~"),
            _canonical_query(request.rel_url.raw_query_string),
            *(f"{name}:{_canonical_value(request, name)}" for name in signature.signed),
            "",
            ";".join(signature.signed),
            hashed,
        )
    )
    to_sign = "\n".join(
        (ALGORITHM, signature.time, signature.scope, hashlib.sha256(canonical.encode()).hexdigest())
    )
    return hmac.digest(_signing_key(secret, signature.scope), to_sign.encode(), "sha256").hex()


@lru_cache(maxsize=1_024)
def _signing_key(secret: str, scope: str) -> bytes:
    """Derive the key of a secret for a day, a region and a service."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _canonical_value(request: web.Request, name: str) -> str:
    return ",".join(" ".join(value.split()) for value in request.headers.getall(name))


def _canonical_query(query: str) -> str:
    coded = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(query, keep_blank_values=True)
        if name != "X-Amz-Signature"
    )
    return "&".join(f"{name}={value}" for name, value in coded)
