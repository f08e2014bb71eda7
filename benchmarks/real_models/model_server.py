"""A model's server as a process of its own, and the processor time that it takes."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from real_models.entrants import FOLDER, Model
from real_models.get_models import server_python

PROGRAM = FOLDER.parents[1] / "examples" / "serve_gguf.py"
START_S = 900.0  # on a busy machine, at idle priority
POLL_S = 0.5
STOP_S = 20.0


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        base_url: its address, for `--base-url`.
    """

    process: subprocess.Popen[bytes]
    base_url: str

    def processor_s(self) -> float:
        """Return the processor time that it took so far, in seconds (Linux alone)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(
    model: Model, weights: Path, *, context: int, threads: int, prefix_cache: bool
) -> Iterator[Server]:
    """Serve a model until the end of the block."""
    words = [str(server_python(weights)), str(PROGRAM), str(model.weights(weights))]
    words += ["--name", model.name, "--port", str(model.port), "--context", str(context)]
    words += ["--threads", str(threads), "--end-with-input"]
    if prefix_cache:
        words.append("--prefix-cache")
    if model.template is not None:
        words += ["--template", str(FOLDER / model.template)]

    log = weights / f"{model.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
        server = Server(process, f"http://127.0.0.1:{model.port}/v1")
        try:
            _wait(server, log)
            yield server
        finally:
            _stop(process)


def _wait(server: Server, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.base_url}/models", timeout=60):
                if server.process.poll() is None:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(POLL_S)

    raise SystemExit(f"real_models: the server did not start; {log} shows why")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server by the end of its input; at once where that is not enough."""
    assert process.stdin is not None

    process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
