"""The HTTP client under the SDKs: one total timeout, connections of its own, and nothing sent
elsewhere.
"""

from __future__ import annotations

import datetime
import gzip
import ipaddress
import json
import socket
import ssl
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Reply
from ktdeval_models.remote.params import OpenAIParams
from ktdeval_models.remote.vendors.openai import make_openai
from support.providers.adapter_server import Prepared, prepared
from support.providers.raw_server import raw_server, read_request

pytestmark = pytest.mark.usefixtures("provider_keys")

ANSWER = {
    "status": "completed",
    "model": "m",
    "output": [],
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
}


def model_at(base_url: str) -> Any:
    return make_openai("stub-model", OpenAIParams(base_url=base_url))


def ask(model: Any, timeout_s: float = 240.0, text: str = "hello") -> Reply:
    reply: Reply = model.reply(
        ModelRequest((Message("user", text),), params=CallParams(timeout_s=timeout_s))
    )
    return reply


def failure(
    base_url: str, kind: str, *words: str, timeout_s: float = 240.0, text: str = "hello"
) -> None:
    """One call fails, with this kind and these words in its message."""
    with pytest.raises(ModelError) as caught:
        ask(model_at(base_url), timeout_s, text)

    assert caught.value.kind == kind

    for word in words:
        assert word in str(caught.value)


def response(body: Any = ANSWER, head: str = "HTTP/1.1 200 OK", *headers: str) -> bytes:
    payload = json.dumps(body).encode()
    lines = [
        head,
        "Content-Type: application/json",
        f"Content-Length: {len(payload)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + payload


BEGINNINGS = {
    "head": b"HTTP/1.1 200 OK\r\nX: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
    "error body": b"HTTP/1.1 500 Oops\r\nContent-Length: 9999999\r\n\r\n",
}


@pytest.mark.parametrize("where", BEGINNINGS)
def test_the_timeout_holds_for_the_whole_call_however_the_server_drips(where: str) -> None:
    def drip(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(BEGINNINGS[where])
        while True:  # until the client has gone
            connection.sendall(b"x")
            time.sleep(0.05)

    with raw_server(drip) as url:
        failure(
            url,
            "timeout",
            f"no reply, or next part of one, within 1.5 s (--first-timeout-s) from {url}",
            timeout_s=0.3,
        )


def test_connection_serves_many_calls_and_is_replaced_when_closed() -> None:
    connections: list[int] = []
    closed = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        connections.append(0)
        for _ in range(3):
            read_request(connection)
            connections[-1] += 1
            connection.sendall(response())

        connection.close()
        closed.release()

    with raw_server(serve) as url:
        model = model_at(url)
        for number in range(1, 8):
            assert ask(model).finish_reason == "stop"
            if number % 3 == 0:
                closed.acquire()

    assert connections == [3, 3, 1]


def test_there_are_as_many_connections_as_calls_at_once() -> None:
    barrier = threading.Barrier(4, timeout=240)
    connections: list[int] = []

    def serve(connection: socket.socket) -> None:
        connections.append(1)
        while True:
            read_request(connection)
            barrier.wait()
            connection.sendall(response())

    with raw_server(serve) as url:
        model = model_at(url)
        with ThreadPoolExecutor(4) as pool:
            for _ in range(5):
                list(pool.map(lambda _: ask(model), range(4)))

    assert len(connections) == 4


def test_a_connection_survives_no_failure() -> None:
    """After a cut or late reply, what is still on the wire must not be taken for the next one."""

    def serve(connection: socket.socket) -> None:
        is_first = b"the first" in read_request(connection)
        connection.sendall(
            response()[:-10] if is_first else response({**ANSWER, "model": "second"})
        )
        connection.recv(1)  # until the client has gone

    with raw_server(serve) as url:
        model = model_at(url)
        with pytest.raises(ModelError, match="no reply, or next part"):
            ask(model, 0.15, "the first")

        assert ask(model).served_by == "second"


@pytest.mark.parametrize(
    ("begun", "kind"), [(b"", "connection"), (response()[:-10], "bad_response")]
)
def test_a_connection_that_breaks_after_a_request_may_be_billed(begun: bytes, kind: str) -> None:
    def reset(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(begun)
        time.sleep(0.1)  # so that what was begun arrives
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with raw_server(reset) as url, pytest.raises(ModelError) as caught:
        ask(model_at(url))

    assert (caught.value.kind, caught.value.may_be_billed) == (kind, True)

    with pytest.raises(ModelError) as caught:  # nobody there
        ask(model_at(url))

    assert (caught.value.kind, caught.value.may_be_billed) == ("connection", False)


def test_a_reply_that_is_not_http_is_a_connection_failure() -> None:
    def nonsense(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")

    with raw_server(nonsense) as url:
        failure(url, "connection", "can't be reached")


def test_a_body_without_bounds_is_a_bad_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktdeval_models.remote.transport.MAX_REPLY_BYTES", 1 << 20)
    with prepared(Prepared(b'{"output": "' + b"x" * (2 << 20) + b'"}')) as server:
        failure(server.address, "bad_response", "the reply is longer than 1 MiB")


def test_a_redirect_is_not_followed() -> None:
    with (
        prepared(Prepared(ANSWER)) as elsewhere,
        prepared(Prepared({}, 307, {"Location": elsewhere.address})) as server,
    ):
        with pytest.raises(
            ProviderError,
            match=(
                r"is not the address of this API \(HTTP 307\); give the right one with --base-url"
            ),
        ):
            ask(model_at(server.address))

        assert elsewhere.paths == []


@pytest.mark.parametrize(
    "unusable",
    [
        "http://[::1",
        "ftp://me:pass-word@proxy:1",
        "http://me:päss-word@proxy:1",
        "http://:1",
    ],
)
def test_a_proxy_that_can_not_be_used_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, unusable: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("HTTP_PROXY", unusable)

    with pytest.raises(
        ProviderError, match=r"the proxy that the environment names \(HTTP_PROXY or ALL_PROXY\)"
    ) as caught:
        ask(model_at("http://model.example/v1"))

    assert "ss-word" not in str(caught.value)


def test_a_compressed_answer_is_refused_since_it_was_not_asked_for() -> None:
    packed = gzip.compress(json.dumps(ANSWER).encode())
    with (
        prepared(Prepared(packed, headers={"Content-Encoding": "GZIP"})) as server,
        pytest.raises(ModelError, match="the reply is compressed") as caught,
    ):
        ask(model_at(f"{server.address}/v1"))

    assert caught.value.kind == "bad_response"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stub")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )

    return folder / "cert.pem", folder / "key.pem"


def test_tls_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            read_request(secure)
            secure.sendall(response())

    with raw_server(serve) as plain:
        url = plain.replace("http://", "https://")
        failure(url, "connection", "certificate verify failed")
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert ask(model_at(url)).served_by == "m"
