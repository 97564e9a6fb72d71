"""Identification of a caller by its token or certificate, for each set-up of a server."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
from spoolrack_server.access.access_control import ANONYMOUS, name_in_grpc, name_in_ssl
from spoolrack_server.access.security import Security
from spoolrack_server.access.sqs_keys import issue
from spoolrack_server.access.watched_files import LARGEST, AccessUnusable
from spoolrack_server.system.logs import make_log
from spoolrack_store.model.errors import Unauthenticated

from tests.support.access_rig import Files

NO_TOKEN = (
    "send a token (HTTP and gRPC: the header Authorization: Bearer TOKEN; Python: token=; "
    "command line: SPOOLRACK_TOKEN)"
)
NO_BEARER = f"its authorization is no Bearer token; {NO_TOKEN}"
NO_TELLING = (
    "here this server can't tell callers apart, and it has permissions: start it with --tokens or "
    "--tls-client-ca, or call it over SQS"
)
NO_NAME = "its certificate names no identity, by a URI, a DNS name or a common name"
BAD_NAME = "the name in the certificate can't be an identity's"
NOT_LISTED = (
    "its token is not in the server's tokens file: ask the server's operator for one "
    "(spoolrack tokens new)"
)


@pytest.mark.parametrize(
    ("tokens", "rules", "certificates", "authorization", "certificate", "known_as"),
    [
        (False, False, False, None, None, ""),
        (False, False, False, "Bearer other", "bob", ""),
        (False, True, False, None, None, NO_TELLING),
        (True, False, False, None, None, NO_TOKEN),
        (True, True, False, None, None, NO_TOKEN),
        (True, False, False, "Bearer {alice}", None, "alice"),
        (True, False, False, " bearer   {alice} ", None, "alice"),
        (True, False, True, "Bearer {alice}", "bob", "alice"),
        (True, False, True, "Bearer other", "bob", NOT_LISTED),
        (True, False, False, "Basic {alice}", None, NO_BEARER),
        (True, False, False, "Bearer", None, NO_BEARER),
        (False, False, True, "Bearer {alice}", "bob", NOT_LISTED),
        (False, False, True, None, "bob", "bob"),
        (True, True, True, None, "bob", "bob"),
        (False, False, True, None, "no identity", BAD_NAME),
        (False, False, True, None, None, NO_NAME),
        (True, False, True, None, None, NO_TOKEN),
    ],
)
def test_a_caller_is_known_by_its_token_before_its_certificate(
    files: Files,
    tokens: bool,
    rules: bool,
    certificates: bool,
    authorization: str | None,
    certificate: str | None,
    known_as: str,
) -> None:
    listed = files.write_tokens("alice")
    keys = str(files.folder / "sqs-keys")
    issue(keys, "carol")
    security = Security(
        tokens=listed if tokens else None,
        permissions=files.write_permissions("alice all *") if rules else None,
        sqs_keys=keys,
    )
    control = security.load(make_log(stream=io.StringIO())).access_control
    control.asks_for_certificates = certificates
    assert (control.caller_of(ANONYMOUS).access is not None) is rules
    header = authorization and authorization.format(**files.tokens)
    try:
        found = control.identify(header, certificate).name
    except Unauthenticated as refused:
        found = str(refused)
    assert found in (known_as, f"The caller isn't known: {known_as}.")


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({}, None),
        ({"peer_uri": []}, None),
        ({"transport_security_type": [b"ssl"]}, None),
        ({"x509_common_name": [b"cn"]}, "cn"),
        ({"x509_common_name": [b"cn"], "peer_dns": [b"first", b"second"]}, "first"),
        ({"peer_dns": [b"dns"], "peer_uri": [b"spiffe://a/b"], "x509_common_name": [b"cn"]}, "spiffe://a/b"),
        ({"x509_common_name": [b"\xff"]}, "\N{REPLACEMENT CHARACTER}"),
    ],
)  # fmt: skip
def test_grpc_tells_the_first_name_of_a_certificate(
    properties: Mapping[str, list[bytes]], name: str | None
) -> None:
    assert name_in_grpc(properties) == name


CN = ((("organizationName", "o"),), (("commonName", "cn"),))


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (None, None),
        ({}, None),
        ({"subject": ()}, None),
        ({"subject": CN[:1]}, None),
        ({"subject": CN}, "cn"),
        ({"subject": CN, "subjectAltName": (("IP Address", "127.0.0.1"),)}, "cn"),
        ({"subject": CN, "subjectAltName": (("DNS", "first"), ("DNS", "second"))}, "first"),
        ({"subject": CN, "subjectAltName": (("DNS", "dns"), ("URI", "spiffe://a/b"))}, "spiffe://a/b"),
    ],
)
def test_ssl_tells_the_first_name_of_a_certificate(
    certificate: Mapping[str, Any] | None, name: str | None
) -> None:
    assert name_in_ssl(certificate) == name


@pytest.mark.parametrize("size", [LARGEST, LARGEST + 1])
def test_an_access_file_has_a_largest_size(files: Files, size: int) -> None:
    path = files.write("permissions", "#" * size)
    security = Security(tokens=files.write_tokens("alice"), permissions=path)
    if size <= LARGEST:
        assert security.load(make_log(stream=io.StringIO())).access_control.caller_of(ANONYMOUS).access
        return
    with pytest.raises(AccessUnusable) as refused:
        security.load(make_log(stream=io.StringIO()))
    assert str(refused.value) == (
        f"the permissions {path} can't be used: {path} has more than {LARGEST} bytes"
    )


def test_what_is_no_file_is_no_access_file() -> None:
    security = Security(tokens="/dev/null")
    with pytest.raises(
        AccessUnusable, match=r"^the tokens /dev/null can't be used: /dev/null is no file"
    ):
        security.load(make_log(stream=io.StringIO()))
