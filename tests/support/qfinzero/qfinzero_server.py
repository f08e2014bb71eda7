"""The services on a loopback port of this process, and an HTTP client that sends exactly what it is
told.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from ktdeval_qfinzero.access.commands.serving import bind
from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from ktdeval_qfinzero.access.http import server_app
from ktdeval_qfinzero.access.workspaces import HEADER, WorkspaceLimits, Workspaces
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.operations import Catalogue
from support.qfinzero.qfinzero_world import small_dataset

PLENTY = WorkspaceLimits()
OPEN = AccessRules()


@dataclass
class Clock:
    """Seconds that pass when told to."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True)
class Reply:
    """Status, headers (names in small letters) and parsed body of an answer."""

    status: int
    headers: dict[str, str]
    body: Any
    text: str

    @property
    def error(self) -> dict[str, str]:
        """The error of an envelope, which holds nothing else."""
        assert set(self.body) == {"error"}
        return self.body["error"]


@dataclass(frozen=True)
class Served:
    """A server and what is behind it."""

    port: int
    workspaces: Workspaces
    clock: Clock = field(default_factory=Clock)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def mcp(self) -> str:
        """Address of the Model Context Protocol."""
        return f"{self.address}/mcp"

    def send(
        self, method: str, path: str, body: bytes | str | None = None, **headers: str
    ) -> Reply:
        """Any request; `Content_Type` stands for the header Content-Type."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        try:
            connection.request(
                method,
                path,
                body,
                {name.replace("_", "-"): value for name, value in headers.items()},
            )
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()

        named = {name.lower(): value for name, value in answer.getheaders()}

        return Reply(answer.status, named, json.loads(text) if text else None, text)

    def post(self, path: str, value: Any = None, workspace: str = "", **headers: str) -> Reply:
        """A POST of JSON."""
        named = {HEADER: workspace} if workspace else {}
        return self.send(
            "POST",
            path,
            json.dumps(value or {}),
            **{"Content-Type": "application/json", **named, **headers},
        )

    def get(self, path: str, workspace: str = "", **headers: str) -> Reply:
        """A GET."""
        return self.send("GET", path, **({HEADER: workspace} if workspace else {}), **headers)

    def open(self, **body: str) -> str:
        """A new workspace's id."""
        return self.post("/workspaces", body).body["workspace_id"]


@contextmanager
def serving(
    catalogue: Catalogue,
    limits: WorkspaceLimits = PLENTY,
    security: AccessRules = OPEN,
    logs: Path | None = None,
    dataset: Dataset | None = None,
) -> Iterator[Served]:
    """A server as long as the context lasts."""
    clock = Clock()
    workspaces = Workspaces(dataset or small_dataset(), limits, clock, logs)
    bound = bind("127.0.0.1", 0)
    app = server_app(catalogue, workspaces, security)
    server = uvicorn.Server(
        uvicorn.Config(
            app, lifespan="on", ws="none", log_level="critical", timeout_graceful_shutdown=1
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()

    try:
        yield Served(bound.getsockname()[1], workspaces, clock)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
