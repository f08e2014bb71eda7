"""Relay from stdin and stdout to the tool server, for clients that start their servers themselves.

It runs within a program's walls, where ktdeval is not: the source of this module is the whole
script, with the standard library alone.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

URL = "KTDEVAL_TOOLS_URL"  #: address of the tool server, without a path
TOKEN = "KTDEVAL_TOOLS_TOKEN"  # noqa: S105 - the name of a variable

_INTERNAL_ERROR = -32603
_SESSION = "Mcp-Session-Id"


def stdio_command(python: str) -> list[str]:
    """Return the command that relays, for clients of the Model Context Protocol over stdio. `python`:
    the interpreter that runs it.
    """
    return [python, "-I", "-S", "-c", Path(__file__).read_text(encoding="utf-8")]


class ToolConnection:
    """One connection to the tool server, opened anew where the server has closed it."""

    def __init__(self, url: str, token: str) -> None:
        """Take where to connect. Raises ValueError if the address is not an HTTP address."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("expected http://HOST:PORT")

        self.session = ""  #: id of the session that the server has begun
        self._path = parts.path.rstrip("/").removesuffix("/mcp") + "/mcp"
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port)

    def post(self, body: bytes) -> tuple[int, bytes]:
        """Send a message, in the session that the server has begun; return status and body of the
        answer. Raises OSError, HTTPException if no answer arrives. The message is not sent again,
        since its tool may have been called.
        """
        sock = self._connection.sock
        if sock is not None and select.select([sock], [], [], 0)[0]:
            self._connection.close()  # nothing was asked: what comes is its end

        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            self.session = response.headers.get(_SESSION, self.session)
            if self.session:
                self._headers[_SESSION] = self.session
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def end(self) -> None:
        """End the session, so that its episode waits for another client; a server that has gone has
        none.
        """
        if not self.session:
            return
        try:
            self._connection.request("DELETE", self._path, headers=self._headers)
            self._connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass
        self._connection.close()


def answer_to(connection: ToolConnection, line: bytes) -> bytes:
    """Return the line that answers a line; empty where nothing is to be said."""
    try:
        status, body = connection.post(line)
    except (OSError, http.client.HTTPException) as error:
        return _with_id(line, _failure(f"the tool server does not answer: {error}"))

    if status == http.client.OK:
        return body.replace(b"\n", b" ")
    if status == http.client.ACCEPTED:
        return b""

    # A refusal over HTTP need not name the request, which stood alone there.
    answer = _object(body)
    if answer is None:
        answer = _failure(f"the tool server returned status {status}")
    return _with_id(line, answer)


def _failure(message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": _INTERNAL_ERROR, "message": message}}


def _with_id(line: bytes, answer: dict[str, Any]) -> bytes:
    """Return an answer with the id of its request; empty of a notification."""
    message = _object(line)
    if answer.get("id") is None and message is not None and "method" in message:
        if "id" not in message:
            return b""
        if isinstance(message["id"], (int, str)):
            answer["id"] = message["id"]
    return json.dumps(answer).encode()


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _give_up(why: str) -> int:
    sys.stderr.write(f"ktdeval tools: {why}\n")
    return 2


def main() -> int:
    """Relay until stdin ends. Returns the exit status."""
    url = os.environ.get(URL, "")
    token = os.environ.get(TOKEN, "")
    if not url or not token:
        missing = URL if not url else TOKEN
        return _give_up(f"{missing} is not set; ktdeval sets it for a program")
    try:
        connection = ToolConnection(url, token)
    except ValueError as error:
        return _give_up(f"{URL}: {error}")

    try:
        for line in sys.stdin.buffer:
            answer = answer_to(connection, line.strip()) if line.strip() else b""
            if answer:
                _write(answer + b"\n")
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the reader has gone, or the client ends the connection
    connection.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
