"""Certificates that one library of TLS takes and the other doesn't; byte order marks in all files."""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import spoolrack
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from spoolrack.errors import Unauthenticated
from spoolrack.spark._credentials_option import credentials_in
from spoolrack_server.access.security import Security
from spoolrack_server.access.sqs_keys import SqsKeys, issue
from spoolrack_server.access.tls import Tls, TlsFiles, _shake_hands
from spoolrack_server.access.tokens import new_token
from spoolrack_server.access.watched_files import AccessUnusable
from spoolrack_server.cli.kit.connection_options import _token_in
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log

from tests.support.access_rig import Files, in_a_thread, serving

KEYS: dict[str, Callable[[], CertificateIssuerPrivateKeyTypes]] = {
    "rsa": lambda: rsa.generate_private_key(public_exponent=65_537, key_size=2_048),
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "p224": lambda: ec.generate_private_key(ec.SECP224R1()),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
    "brainpool": lambda: ec.generate_private_key(ec.BrainpoolP256R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ed448": ed448.Ed448PrivateKey.generate,
}
CLOSE_NOTIFY = bytes.fromhex("15 0303 0002 01 00")
GOOD = ("rsa", "p256", "p384")


def write_signed_by_itself(files: Files, kind: str) -> TlsFiles:
    key = KEYS[kind]()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, None if kind.startswith("ed") else hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return TlsFiles(
        certificate=files.write("own.pem", made.public_bytes(pem)),
        key=files.write(
            "own.key",
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        ),
    )


@pytest.mark.parametrize("kind", KEYS)
def test_a_certificate_that_clients_of_grpc_cant_accept_is_refused_at_the_start(
    files: Files, kind: str
) -> None:
    tls = write_signed_by_itself(files, kind)
    if kind in GOOD:
        with in_a_thread(files.folder / "root", Security(tls=tls)) as address:
            port = address.rpartition(":")[2]
            with spoolrack.connect(f"grpcs://localhost:{port}", ca=tls.certificate) as client:
                assert list(client.list_queues()) == []
        return
    with pytest.raises(AccessUnusable, match="clients of gRPC couldn't connect") as refused:
        Security(tls=tls).load(make_log(stream=io.StringIO()))
    assert tls.certificate in str(refused.value)
    assert "P-256" in str(refused.value)


def test_a_certificate_is_tried_without_its_ca_and_where_clients_need_one_of_their_own(
    files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    tls = files.write_certificate(ca)
    other = files.write_ca(other_ca)
    Tls(TlsFiles(certificate=tls.certificate, key=tls.key, client_ca=other), make_log())


def test_a_client_that_says_goodbye_to_a_certificate_is_no_reason_to_refuse_it(ca: trustme.CA) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    sent = ssl.MemoryBIO()
    greeting = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        greeting.do_handshake()
    client, server = socket.socketpair()
    with client, server:
        client.sendall(sent.read() + CLOSE_NOTIFY)
        _shake_hands(context, server)


def test_a_new_certificate_that_clients_of_grpc_cant_accept_is_refused_and_the_old_one_stays(
    files: Files,
) -> None:
    tls = write_signed_by_itself(files, "p256")
    log = io.StringIO()
    loaded = Security(tls=tls).load(make_log(stream=log))
    assert loaded.tls is not None
    old = loaded.tls.files.current
    write_signed_by_itself(files, "ed25519")
    assert not loaded.reload()
    assert loaded.tls.files.current is old
    assert "clients of gRPC couldn't connect" in log.getvalue()
    assert tls.certificate in log.getvalue()


async def test_a_start_with_such_a_certificate_blames_no_other_process(files: Files) -> None:
    tls = write_signed_by_itself(files, "secp256k1")
    settings = ServeSettings(root=str(files.folder / "root"))
    with pytest.raises(AccessUnusable, match=tls.certificate):
        async with Server(settings, security=Security(tls=tls)):
            pass


def test_a_byte_order_mark_is_no_part_of_an_access_file(files: Files, ca: trustme.CA) -> None:
    def marked(path: str) -> str:
        return files.write(Path(path).name, BOM_UTF8 + Path(path).read_bytes())

    made = files.write_certificate(ca)
    own = files.write_client(ca, "alice")
    authority = marked(files.write_ca(ca))
    security = Security(
        tls=TlsFiles(certificate=marked(made.certificate), key=marked(made.key), client_ca=authority),
        tokens=marked(files.write_tokens("bob")),
        permissions=marked(files.write_permissions("alice all *", "bob monitor *")),
    )
    shown = {"ca": authority, "certificate": marked(own.certificate), "key": marked(own.key)}
    with in_a_thread(files.folder / "root", security) as address:
        for more in ({}, {"token": files.tokens["bob"]}):
            with spoolrack.connect(f"grpcs://{address}", **shown, **more) as client:
                assert list(client.list_queues()) == []


def test_a_byte_order_mark_is_no_part_of_a_file_of_keys(files: Files) -> None:
    path = str(files.folder / "keys")
    key = issue(path, "alice")
    marked = files.write("keys", BOM_UTF8 + Path(path).read_bytes())
    loaded = Security(sqs_keys=marked).load(make_log(stream=io.StringIO()))
    assert loaded.sqs_keys is not None
    assert isinstance(loaded.sqs_keys.current, SqsKeys)
    assert issue(path, "alice") == key
    assert issue(path, "bob") != key


def test_a_byte_order_mark_is_no_part_of_a_clients_token(files: Files) -> None:
    token = new_token()
    path = files.write("token", BOM_UTF8 + f"{token}\r\n".encode())
    assert _token_in(path) == token
    credentials = credentials_in(f"token-file={path}", "127.0.0.1:1", "127.0.0.1", is_secure=False)
    assert credentials.token == token


def test_another_account_that_connects_first_stops_no_trial_of_a_certificate(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any process of the machine can connect to an abstract socket."""
    listened, strangers = socket.socket.listen, []

    def listen(self: socket.socket, *backlog: int) -> None:
        listened(self, *backlog)
        name = self.getsockname()
        for _ in range(3):
            # In another process: by this the trial tells its own client.
            strangers.append(subprocess.Popen([sys.executable, "-c", STRANGER, name[1:]], **PIPES))
            assert strangers[-1].stdout.readline() == b"connected\n"

    monkeypatch.setattr(socket.socket, "listen", listen)
    log = make_log(stream=io.StringIO())
    try:
        Tls(write_signed_by_itself(files, "p256"), log)
        with pytest.raises(AccessUnusable, match="clients of gRPC couldn't connect"):
            Tls(write_signed_by_itself(files, "ed25519"), log)
    finally:
        for stranger in strangers:
            stranger.communicate(b"")
    assert len(strangers) == 6


PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
STRANGER = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect("\\0" + sys.argv[1])
    client.sendall(b"no handshake" * 100)
    print("connected", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["admin\0evil", "admin\n", "admin evil"])
async def test_a_certificate_whose_name_holds_no_identity_is_refused_at_both_ports(
    tmp_path: Path, files: Files, name: str
) -> None:
    """Libraries cut a name at its NUL: then it would be the administrator's."""
    key = KEYS["p256"]()
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    certificate = files.write("evil.pem", made.public_bytes(pem))
    secret = files.write(
        "evil.key",
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    ca = trustme.CA()
    own = files.write_certificate(ca)
    security = Security(
        tls=TlsFiles(certificate=own.certificate, key=own.key, client_ca=certificate),
        permissions=files.write_permissions("admin all *"),
    )
    trusted = files.write_ca(ca)
    async with serving(tmp_path / "root", security) as server:

        def call() -> None:
            with spoolrack.connect(
                f"grpcs://{server.grpc_address}", ca=trusted, certificate=certificate, key=secret
            ) as client:
                list(client.list_queues())

        with pytest.raises(Unauthenticated, match="can't be an identity's"):
            await asyncio.to_thread(call)
        context = ssl.create_default_context(cafile=trusted)
        context.load_cert_chain(certificate, secret)
        connector = aiohttp.TCPConnector(ssl=context)
        async with (
            aiohttp.ClientSession(server.http_url, connector=connector) as http,
            http.get("/-/queues") as answer,
        ):
            assert answer.status == 401
