"""Certificates: one that nobody vouches for is refused."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.errors import ConnectionFailed
from tests.unit.transports.calling import call
from tests.unit.transports.server import Server


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of this machine that it signed itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "this machine")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.fixture
def safe(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    found = Server(context)
    yield found
    found.close()


def test_a_certificate_that_nobody_vouches_for_is_refused(safe: Server) -> None:
    """Nothing is sent; it may be mended, so it may be tried again."""
    with pytest.raises(ConnectionFailed, match="certificate") as raised:
        call({"post": f"{safe.url}/"})
    assert (raised.value.retryable, raised.value.is_unknown) == (True, False)
    assert not safe.seen


def test_a_certificate_that_the_operator_vouches_for_is_good(
    safe: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the usual variable."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert call({"get": f"{safe.url}/x"})["path"] == "/x"
