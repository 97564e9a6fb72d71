"""Identification of a caller by its token or certificate, for each set-up of a server."""

from __future__ import annotations

import io
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type as ASN1Type
from spoolrack_server.access.access_control import ANONYMOUS
from spoolrack_server.access.certificate_names import name_in_der, name_in_grpc
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


DNS, URI = x509.DNSName, x509.UniformResourceIdentifier
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*common: x509.NameAttribute, names: Sequence[x509.GeneralName] = ()) -> bytes:
    """Return a certificate in DER with these names."""
    organization = x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "o")
    subject = x509.Name([organization, *common])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, KEY.public_key(), 1 << 150)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def cn(text: str, kind: ASN1Type = ASN1Type.UTF8String) -> x509.NameAttribute:
    return x509.NameAttribute(x509.NameOID.COMMON_NAME, text, kind)


ADDRESS = x509.IPAddress(IPv4Address("127.0.0.1"))


@pytest.mark.parametrize(
    ("der", "name"),
    [
        (certificate(), None),
        (certificate(cn("cn")), "cn"),
        (certificate(cn("first"), cn("second")), "first"),
        (certificate(cn("caf\xe9")), "caf\xe9"),
        (certificate(cn("cn", ASN1Type.PrintableString)), "cn"),
        (certificate(cn("cn", ASN1Type.BMPString)), "cn"),
        (certificate(cn("cn", ASN1Type.UniversalString)), "cn"),
        (certificate(cn("cn"), names=[ADDRESS]), "cn"),
        (certificate(cn("cn"), names=[DNS("first"), DNS("second")]), "first"),
        (certificate(cn("cn"), names=[DNS("dns"), URI("spiffe://a/b")]), "spiffe://a/b"),
        (certificate(cn("cn"), names=[DNS(f"n{n}") for n in range(10_000)]), "n0"),
        (certificate(cn("admin\0evil")), "admin\0evil"),
        (certificate(names=[DNS("admin\0evil")]), "admin\0evil"),
        (certificate(names=[URI("spiffe://a\0/b")]), "spiffe://a\0/b"),
    ],
)  # fmt: skip
def test_both_ports_tell_the_first_name_of_a_certificate_whole(der: bytes, name: str | None) -> None:
    assert name_in_der(der) == name
    assert name_in_grpc({"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(der).encode()]}) == name


def test_a_caller_without_a_certificate_has_no_name() -> None:
    for properties in ({}, {"x509_pem_cert": []}, {"x509_common_name": [b"admin"]}):
        assert name_in_grpc(properties) is None


def test_a_certificate_that_can_not_be_read_names_no_caller() -> None:
    """Whatever is wrong with it: the library has verified it, and reads it otherwise."""
    der = certificate(cn("cn"), names=[DNS("dns")])
    chance = Random(7)
    for _ in range(2_000):
        damaged = bytearray(der)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(300)] = chance.randrange(256)
        with suppress(Unauthenticated):
            name_in_der(bytes(damaged[: chance.choice([len(der), chance.randrange(len(der))])]))
    for cut in range(1, len(der)):
        with pytest.raises(Unauthenticated, match="certificate can't be read"):
            name_in_der(der[:cut])
    for pem in (b"", b"\xff", b"admin"):
        with pytest.raises(Unauthenticated, match="certificate can't be read"):
            name_in_grpc({"x509_pem_cert": [pem]})


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
        AccessUnusable, match=r"^the tokens /dev/null can't be used: /dev/null is no regular file"
    ):
        security.load(make_log(stream=io.StringIO()))
