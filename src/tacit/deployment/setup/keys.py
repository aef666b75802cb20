"""Certificates and keys of a federation: an authority, a server certificate, a key for each site.

Keys of connections use the elliptic curve P-384, as Flower requires. The key of the authority signs
the server's certificate once and is needed again only to renew it: keep it offline. For secure sums
every site has a signing key (Ed25519) of its own, whose public half is in federation.toml. Whoever
knows the private halves of enough sites can open their sums: a site makes its own key.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tomli_w

from tacit.deployment.setup.private_files import private_folder, write_private
from tacit.errors import ConfigError, TacitError
from tacit.run.config import read_toml
from tacit.validation import Section, validated

CA, CERTIFICATE, KEY, PUBLIC_KEY = "ca.crt", "server.crt", "key", "key.pub"
SIGNING, PUBLIC = "signing.key", "public.toml"
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


@dataclass(frozen=True)
class SiteKeys:
    """The public keys of a site: of its connections, and of its signatures in secure sums."""

    connection: str
    signing: str


def make_site(folder: Path, name: str) -> SiteKeys:
    """Write the keys of a site, and return their public halves."""
    public = SiteKeys(_make_connection(folder, name).decode(), make_signing(folder))
    content = {"name": name, "connection": public.connection.strip(), "signing": public.signing}
    write_private(folder / PUBLIC, tomli_w.dumps(content).encode())
    return public


def read_public(folder: Path, names: Iterable[str]) -> dict[str, SiteKeys]:
    """The public keys of all sites from files FOLDER/NAME.toml, as each site has sent its own."""
    found = {}
    for name in names:
        path = folder / f"{name}.toml"
        told = validated(_PublicFile, read_toml(path), str(path)) if path.exists() else None
        if told is None or told.name != name:
            raise ConfigError(
                f"{path} is not the public key file of {name}: the site makes it with `tacit site"
                f" keys DIR --name {name}` and sends DIR/{PUBLIC}."
            )
        found[name] = SiteKeys(f"{told.connection}\n", told.signing)
    return found


class _PublicFile(Section):
    name: str
    connection: str
    signing: str


def _make_connection(folder: Path, comment: str) -> bytes:
    """Write the key pair of a site's connections, and return the public key for the server."""
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization as form

    key = _new_key()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public: bytes = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    write_private(folder / KEY, secret)
    line = public + b" " + comment.encode() + b"\n"
    write_private(folder / PUBLIC_KEY, line)
    return line


def make_signing(folder: Path) -> str:
    """Write the signing key of a site, and return its public half as hexadecimal digits."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    write_private(folder / SIGNING, _pem_of(key))
    return public_of(key)


def read_signing(folder: Path) -> Any:
    """The signing key of a site."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = folder / SIGNING
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise TacitError(
            f"{path} is not a signing key: put the key there that `tacit site keys` has made."
        )
    return key


def public_of(key: Any) -> str:
    """The public half of a signing key."""
    return str(key.public_key().public_bytes_raw().hex())


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
            "a deployment needs Flower and cryptography: install `tacit-fl[deploy]`."
        ) from None
