"""An S3 server on loopback (moto's), which tells what was asked and calls back before or after a
write: there a test kills the process that writes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

BUCKET = "runs"
_WRITES = ("PUT", "POST", "DELETE")


def skip_without_s3() -> None:
    """Skip a module where the S3 driver or the server is not installed."""
    for package in ("moto.server", "s3fs", "boto3"):
        pytest.importorskip(package, reason=f"{package} is not installed")


@dataclass(frozen=True)
class Asked:
    """One request: its method, and the key without its bucket (of a listing, nothing)."""

    method: str
    key: str

    @property
    def is_write(self) -> bool:
        """Whether it changes a run, other than who runs it."""
        return self.method in _WRITES and "/lock/" not in f"/{self.key}"


@dataclass
class S3Place:
    """A running server. `before` and `after` are called around each write to a run, with it; where
    `before` returns True, the write is dropped.
    """

    port: int = 0
    requests: list[Asked] = field(default_factory=list)
    before: Callable[[Asked], bool] = lambda _asked: False
    after: Callable[[Asked], bool] = lambda _asked: False

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the driver finds the server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def url(self, name: str) -> str:
        """URL of a run."""
        return f"s3://{BUCKET}/{name}"

    def calm(self) -> None:
        """Call back no more."""
        nothing = S3Place()
        self.before, self.after = nothing.before, nothing.after

    def count(self, method: str = "") -> int:
        """Requests of a method, or all."""
        return sum(asked.method == method or not method for asked in self.requests)

    def wrapped(self, app: Any) -> Any:
        """The application of the server, behind what this object does."""

        def serve(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}").lstrip("/")
            asked = Asked(environ["REQUEST_METHOD"], key)
            self.requests.append(asked)

            if asked.is_write and self.before(asked):
                start("503 Dropped", [("Content-Length", "0")])
                return []

            answer: Iterable[bytes] = app(environ, start)
            if asked.is_write:
                self.after(asked)

            return answer

        return serve


@contextmanager
def running_s3() -> Iterator[S3Place]:
    """A server with an empty bucket."""
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    place = S3Place()
    app = place.wrapped(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    place.port = server.server_port
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    try:
        settings = place.environment
        client = boto3.client(
            "s3",
            endpoint_url=settings["AWS_ENDPOINT_URL"],
            region_name=settings["AWS_DEFAULT_REGION"],
            aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=BUCKET)
        place.requests.clear()
        yield place
    finally:
        server.shutdown()
        thread.join()
