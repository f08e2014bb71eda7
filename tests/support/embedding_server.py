"""A server that speaks OpenAI's /embeddings, with vectors of hashed words, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ktdeval_investorbench.embedding import HashingEmbedder
from local_server import running


@dataclass
class EmbeddingServer:
    """Where it listens, and the texts and keys that it was sent; after the next `first` calls, `failures` get a 503."""

    address: str
    texts: list[str] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    first: int = 0
    failures: int = 0


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A running server."""
    embed, lock = HashingEmbedder(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                asked.texts += body["input"]
                asked.keys.add(self.headers["Authorization"])
                failing = asked.first <= 0 < asked.failures
                asked.first, asked.failures = asked.first - 1, asked.failures - failing
                rows = [{"index": place, "embedding": vector.tolist()} for place, vector in enumerate(embed(body["input"]))]
            payload = b"{}" if failing else json.dumps({"object": "list", "data": rows[::-1]}).encode()
            self.send_response(503 if failing else 200)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    asked = EmbeddingServer(f"http://127.0.0.1:{server.server_port}/v1")
    with running(server):
        yield asked
