"""Relay between stdin and stdout and the tool server, for clients that start their servers
themselves.

It runs inside a program's sandbox, where ktdeval is not available. The source of this module is the
whole script and uses only the standard library.
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
    """Return the command that starts the relay, for clients of the Model Context Protocol over
    stdio. `python` is the interpreter that runs it.
    """
    return [python, "-I", "-S", "-c", Path(__file__).read_text(encoding="utf-8")]


class ToolConnection:
    """One connection to the tool server. It is opened again if the server has closed it."""

    def __init__(self, url: str, token: str) -> None:
        """`url` and `token`: where and how to connect. Raises ValueError if the address is not an
        HTTP address.
        """
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
        """Send a message in the session that the server has begun. Return the status and the body
        of the answer. Raises OSError or HTTPException if no answer arrives; the message is not sent
        again, since its tool may have been called.
        """
        sock = self._connection.sock
        if sock is not None and select.select([sock], [], [], 0)[0]:
            # nothing was requested, so the only event can be the end of the connection
            self._connection.close()

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
        """End the session, so that its episode waits for another client. If the server has gone, do
        nothing.
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
    """Return the answer to a line, as a line; empty if no answer is needed."""
    try:
        status, body = connection.post(line)
    except (OSError, http.client.HTTPException) as error:
        return _with_id(line, _failure(f"the tool server does not answer: {error}"))

    if status == http.client.OK:
        return body.replace(b"\n", b" ")
    if status == http.client.ACCEPTED:
        return b""

    # A refusal over HTTP need not name the request, which was the only one in its body.
    answer = _object(body)
    if answer is None:
        answer = _failure(f"the tool server returned status {status}")
    return _with_id(line, answer)


def _failure(message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": _INTERNAL_ERROR, "message": message}}


def _with_id(line: bytes, answer: dict[str, Any]) -> bytes:
    """Return an answer with the id of its request; empty if the line was a notification."""
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
    """Relay until stdin ends. Return the exit status."""
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
