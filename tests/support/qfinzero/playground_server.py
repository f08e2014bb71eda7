"""`ktdeval paper qfinzero serve` as a process of its own, with a playground; and an HTTP client for it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class PlaygroundServer:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """Return status, headers and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = None

        if body is not None:
            content = body if isinstance(body, str) else json.dumps(body)
            named.setdefault("Content-Type", "application/json")

        try:
            connection.request(method, path, content, named)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()

        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text

    def json(self, path: str, body: Any = None) -> Any:
        """Return the JSON of an answer that is no error."""
        status, _, text = self.call("GET" if body is None else "POST", path, body)
        assert status < 400, text
        return json.loads(text)

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()


@contextmanager
def playground_server(cwd: Path, *words: str, **environment: str) -> Iterator[PlaygroundServer]:
    """A server in a folder, for the length of the block."""
    command = [sys.executable, "-m", "ktdeval", "paper", "qfinzero", "serve", "--port", "0", *words]
    process = subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )

    assert process.stdout is not None

    try:
        line = process.stdout.readline()
        assert line.startswith("serving http://"), line
        port = int(line.split()[1].rpartition(":")[2])
        yield PlaygroundServer(process, port)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
