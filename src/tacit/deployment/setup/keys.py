"""Certificates and keys of a federation: an authority, a server certificate, a key for each site.

All keys use the elliptic curve P-384, as Flower requires. The key of the authority signs the
server's certificate once and is needed again only to renew it: keep it offline.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tacit.deployment.setup.private_files import private_folder, write_private
from tacit.errors import TacitError

CA, CERTIFICATE, KEY, PUBLIC_KEY = "ca.crt", "server.crt", "key", "key.pub"
_DAYS = 825


def make_authority(folder: Path, name: str) -> tuple[Any, Any]:
    """Write a key and a self-signed certificate to their own folder."""
    x509, hashes = _x509()
    key = _new_key()
    title = _title(f"Tacit federation {name}")
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(title)
        .issuer_name(title)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    private_folder(folder)
    write_private(folder / "ca.key", _pem_of(key))
    write_private(folder / CA, _pem_certificate(certificate))
    return key, certificate


def make_server(folder: Path, host: str, authority: tuple[Any, Any]) -> None:
    """The server's key and its certificate for the address that sites use."""
    x509, hashes = _x509()
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca_key, ca = authority
    key, now = _new_key(), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_title(host))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA384())
    )
    write_private(folder / "server.key", _pem_of(key))
    write_private(folder / CERTIFICATE, _pem_certificate(certificate))
    write_private(folder / CA, _pem_certificate(ca))


def make_site(folder: Path, comment: str) -> bytes:
    """Write the key pair of a site, and return the public key for the server."""
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization as form

    key = _new_key()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public: bytes = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    write_private(folder / KEY, secret)
    line = public + b" " + comment.encode() + b"\n"
    write_private(folder / PUBLIC_KEY, line)
    return line


def _names(host: str) -> list[Any]:
    x509, _ = _x509()
    try:
        names: list[Any] = [x509.IPAddress(ipaddress.ip_address(host))]
    except ValueError:
        names = [x509.DNSName(host)]
    # The server's own processes connect to it over loopback.
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    for own in (x509.DNSName("localhost"), loopback):
        if own not in names:
            names.append(own)
    return names


def _title(text: str) -> Any:
    x509, _ = _x509()
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _new_key() -> Any:
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1())


def _pem_of(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    pem: bytes = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    return pem


def _pem_certificate(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    pem: bytes = certificate.public_bytes(form.Encoding.PEM)
    return pem


def _x509() -> tuple[Any, Any]:
    _need_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    return x509, hashes


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise TacitError(
            "a deployment needs Flower and cryptography: install `tacit[deploy]`."
        ) from None
