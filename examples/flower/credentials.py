"""Certificates for a SuperLink and keys for its nodes.

    python credentials.py credentials --host 192.0.2.7 --nodes 4

Makes ca.crt, server.pem and server.key, and for each node node-N (private) and node-N.pub. The SuperLink needs the
first three, every node ca.crt and its own private key; public keys are registered with `flwr supernode register`.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 365


def written(path: Path, content: bytes, secret: bool = False) -> None:
    """Writes a file; one that is secret can be read by its owner alone."""
    path.touch(mode=0o600 if secret else 0o644)
    path.write_bytes(content)


def named(name: str) -> x509.Name:
    """A certificate's subject."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificates(folder: Path, host: str) -> None:
    """An authority of one's own, and a certificate of its for the host."""
    try:
        address: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        address = x509.DNSName(host)
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority_name, now = named("fadewise fleet"), datetime.datetime.now(datetime.UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    local = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]

    def begun(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return x509.CertificateBuilder(
            authority_name,
            subject,
            key,
            x509.random_serial_number(),
            now - datetime.timedelta(hours=1),
            now + datetime.timedelta(days=DAYS),
        )

    signing = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = (
        begun(authority_name, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signing, critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority, hashes.SHA384())
    )
    # The SuperLink's own processes reach it on the loopback interface.
    names = x509.SubjectAlternativeName([address, *(name for name in local if name != address)])
    certificate = (
        begun(named(host), server.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority, hashes.SHA384())
    )
    written(folder / "ca.crt", ca.public_bytes(Encoding.PEM))
    written(folder / "server.pem", certificate.public_bytes(Encoding.PEM))
    key = server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    written(folder / "server.key", key, secret=True)


def node_keys(folder: Path, nodes: int) -> None:
    """A key pair for each node, as OpenSSH has them."""
    for node in range(nodes):
        key = ec.generate_private_key(ec.SECP384R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        written(folder / f"node-{node}", private, secret=True)
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        written(folder / f"node-{node}.pub", public + b"\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", default="127.0.0.1", help="the SuperLink's address, as nodes will call it")
    parser.add_argument("--nodes", type=int, default=4)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    certificates(arguments.folder, arguments.host)
    node_keys(arguments.folder, arguments.nodes)


if __name__ == "__main__":
    main()
