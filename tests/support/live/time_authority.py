"""Time-stamping authority of a test: openssl behind a local HTTP server."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from ktdeval.testing import AnsweringHandler, running_server

pytest.importorskip("cryptography", reason="needs the extra live")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

_CONFIG = """
[tsa]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
ess_cert_id_alg = sha256
"""


@dataclass(frozen=True)
class Authority:
    """A running_server authority."""

    url: str
    certificate: Path  #: its root certificate, in PEM
    signer: Path  #: its own, in PEM


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def _make(folder: Path) -> None:
    """Make keys and certificates of a root and of a stamping authority below it, valid for so long
    that tests may stamp days of the past.
    """
    (folder / "config").write_text(_CONFIG.format(folder=folder), "utf-8")
    (folder / "serial").write_text("01\n", "utf-8")
    root_key = rsa.generate_private_key(65537, 2048)
    key = rsa.generate_private_key(65537, 2048)
    root_name = _name("Test root")
    signing = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=False, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    root = (
        _unsigned(root_name, root_name, root_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    stamping = (
        _unsigned(_name("Test authority"), root_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(signing, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    _write(folder / "root.pem", root)
    _write(folder / "tsa.pem", stamping)
    (folder / "tsa.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2015, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
    )


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


_TST_INFO = "1.2.840.113549.1.9.16.1.4"
_GRANTED = bytes.fromhex("3003020100")


def _stamped_at(folder: Path, time: datetime) -> bytes:
    """Return the answer in `folder` with another time, signed again by the authority."""
    _openssl(folder, "ts", "-reply", "-in", "reply", "-token_out", "-out", "token")
    _openssl(folder, "cms", "-verify", "-noverify", "-inform", "DER", "-in", "token", "-out",
             "info")  # fmt: skip
    info = (folder / "info").read_bytes()
    other = b"\x18\x0f" + time.strftime("%Y%m%d%H%M%SZ").encode()  # a GeneralizedTime
    (folder / "info").write_bytes(re.sub(rb"\x18\x0f\d{14}Z", other, info, count=1))
    _openssl(folder, "cms", "-sign", "-binary", "-nodetach", "-cades", "-md", "sha256",
             "-in", "info", "-econtent_type", _TST_INFO, "-signer", "tsa.pem", "-inkey", "tsa.key",
             "-outform", "DER", "-out", "token")  # fmt: skip
    content = _GRANTED + (folder / "token").read_bytes()

    return b"\x30\x82" + len(content).to_bytes(2, "big") + content


@contextmanager
def authority(
    folder: Path, now: Callable[[], datetime] | None = None, with_root: bool = False
) -> Iterator[Authority]:
    """Run an authority whose files are in `folder`; `now` is its clock, by default the machine's.
    `with_root`: its answers have the root's certificate, too, where certificates are asked for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _make(folder)

    if with_root:
        with (folder / "config").open("a", encoding="utf-8") as config:
            config.write(f"certs = {folder}/root.pem\n")

    lock = threading.Lock()

    class Handler(AnsweringHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            with lock:
                (folder / "query").write_bytes(self.rfile.read(length))
                _openssl(folder, "ts", "-reply", "-config", "config", "-section", "tsa",
                         "-queryfile", "query", "-out", "reply")  # fmt: skip
                answer = (folder / "reply").read_bytes()
                if now is not None:
                    answer = _stamped_at(folder, now())

            self.answer(answer, headers={"Content-Type": "application/timestamp-reply"})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running_server(server):
        url = f"http://127.0.0.1:{server.server_address[1]}"
        yield Authority(url, folder / "root.pem", folder / "tsa.pem")
