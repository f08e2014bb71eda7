"""Stores to test with: folders, memory, and a server that speaks like S3."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ktdeval.stores import Store, open_store
from ktdeval.stores.remote import FsspecStore, RequestRetries, open_remote

BUCKET = "a-bucket"
QUICK = RequestRetries(attempts=12, first_s=0.001, max_s=0.01)


@contextmanager
def s3_server() -> Iterator[int]:
    """Run a server that speaks like S3, with a bucket; gives its port."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()

    try:
        client = boto3.client("s3", **client_options(f"http://127.0.0.1:{port}"))
        client.create_bucket(Bucket=BUCKET)
        yield port
    finally:
        server.stop()


def client_options(endpoint: str) -> dict[str, str]:
    return {
        "endpoint_url": endpoint,
        "aws_access_key_id": "nobody",
        "aws_secret_access_key": "nothing",
        "region_name": "us-east-1",
    }


def driver_options(endpoint: str, read_timeout_s: float = 60) -> dict[str, Any]:
    """Options of s3fs for a server of this machine."""
    return {
        "endpoint_url": endpoint,
        "key": "nobody",
        "secret": "nothing",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {"read_timeout": read_timeout_s},
    }


def s3_store(endpoint: str, prefix: str | None = None, read_timeout_s: float = 60) -> FsspecStore:
    """Return a store of a prefix of its own, or of a given one."""
    own = uuid.uuid4().hex if prefix is None else prefix
    options = driver_options(endpoint, read_timeout_s)
    return open_remote(f"s3://{BUCKET}/{own}", options, QUICK)


def memory_store() -> Store:
    """Return an empty store in memory."""
    return open_store(f"memory://{uuid.uuid4().hex}")


def opened(place: str, endpoint: str = "") -> Store:
    """Return the store of a place; of S3 at an endpoint."""
    if place.startswith("s3://"):
        return open_remote(place, driver_options(endpoint), QUICK)

    return open_store(Path(place))


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
