"""TLS between the tasks of one job, with a certificate made for it; clients trust this certificate and no other."""

from __future__ import annotations

import datetime
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from ...errors import StatementError, Subject
from ...system import needing

VALID_DAYS = 366


class Certificate(NamedTuple):
    """A self-signed certificate and its private key, as PEM. Clients need `public` only."""

    public: str
    private: str


def check_installed() -> None:
    """Require the package that makes certificates.

    Raises:
        StatementError: it is not installed; says how to.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        subject = Subject("WITH", option="encrypt")
        message = needing(f"{subject} = true needs the package cryptography", "tls")
        raise StatementError(message, subject=subject) from error


def make_certificate() -> Certificate:
    """Make a certificate for one job.

    Raises:
        StatementError: see check_installed.
    """
    check_installed()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "xpsql")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """Return a server's side; the key is on disk for a moment, readable by this user only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate.public + certificate.private)
        file.flush()
        context.load_cert_chain(Path(file.name))
    return context


def client_context(public: str) -> ssl.SSLContext:
    """Return a client's side that accepts one certificate, on whichever host it stands."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=public)
    return context
