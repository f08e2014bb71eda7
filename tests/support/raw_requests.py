"""Requests as bytes, and what a server answers to them until it closes the connection or falls silent."""

from __future__ import annotations

import socket

SECOND = b"GET /second HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
"""A request that follows on the same connection, and may be hidden in the body of the first."""


def ambiguous_requests(method: str, path: str) -> dict[str, bytes]:
    """Requests that can be read in two ways, each with another one behind it."""
    heads = {
        "length and encoding": "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "encoding and length": "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "two lengths": "Content-Length: 0\r\nContent-Length: 5",
        "two hosts": "Host: other.example",
        "two authorizations": "Authorization: Bearer a\r\nAuthorization: Bearer b",
        "two authorizations in another case": "Authorization: Bearer a\r\nauthorization: Bearer a",
        "two types": "Content-Type: application/json\r\nContent-Type: text/plain",
        "two origins": "Origin: http://127.0.0.1\r\nOrigin: http://127.0.0.1",
    }
    requests = {}

    for name, head in heads.items():
        text = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n0\r\n\r\n"
        requests[name] = text.encode() + SECOND

    return requests


def answer_to(port: int, request: bytes) -> bytes:
    """Return all that the server on this machine answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(1 << 16):
            received += piece

    return received


def statuses(answer: bytes) -> list[int]:
    """Return the status of each response on a connection."""
    found = []
    for line in answer.split(b"\r\n"):
        for part in line.split(b"HTTP/1.1 ")[1:]:
            found.append(int(part[:3]))

    return found
