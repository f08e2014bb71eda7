"""A server of a real language model on the loopback, as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ktdeval.testing import free_port
from support.llm.llm_environment import python_of, weights_of
from support.paths import REPOSITORY

PROGRAM = REPOSITORY / "examples" / "serve_gguf.py"
MODEL = "smollm2"
CONTEXT = 8192  # tokens that the model was trained with
START_S = 120.0
STOP_S = 10.0
TRIES = 3  # another process may take a free port first
POLL_S = 0.2
SHOWN_LINES = 60


@dataclass(frozen=True)
class ServedModel:
    """A running server of the model.

    Attributes:
        base_url: its address, for `--base-url`.
        log: what it printed.
    """

    base_url: str
    log: Path


class ServerFailed(Exception):
    """Raised where the server did not start; shows the end of its log."""


@contextmanager
def serving(environment: Path, log: Path, context: int = CONTEXT) -> Iterator[ServedModel]:
    """Serve the model until the end of the block, by the environment of `make test-llm`."""
    with log.open("wb") as output:
        process, base_url = _started(environment, output, log, context)
        try:
            yield ServedModel(base_url, log)
        finally:
            _stop(process)


def log_end(log: Path) -> str:
    """Return the last lines of a log."""
    lines = log.read_text("utf-8", errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_LINES:])


def _started(
    environment: Path, output: object, log: Path, context: int
) -> tuple[subprocess.Popen[bytes], str]:
    for _ in range(TRIES):
        port = free_port()
        base_url = f"http://127.0.0.1:{port}/v1"
        process = _process(environment, output, port, context)
        if _is_ready(process, base_url):
            return process, base_url

        _stop(process)

    raise ServerFailed(
        f"the language model's server did not start in {START_S:.0f} s; {log} ends:\n{log_end(log)}"
    )


def _process(environment: Path, output: object, port: int, context: int) -> subprocess.Popen[bytes]:
    # One core is left to the runs: two threads that wait for each other are slower than one wherever
    # another program takes a core.
    threads = max(1, (os.cpu_count() or 1) - 1)
    words = [str(python_of(environment)), str(PROGRAM), str(weights_of(environment))]
    words += ["--name", MODEL, "--port", str(port), "--context", str(context)]
    words += ["--threads", str(threads), "--end-with-input"]
    # What the tests set for their own numerical libraries is not for the server.
    variables = {
        name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    return subprocess.Popen(
        words,
        env={**variables, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,  # the server ends with it
        stdout=output,  # type: ignore[arg-type]
        stderr=subprocess.STDOUT,
    )


def _is_ready(process: subprocess.Popen[bytes], base_url: str) -> bool:
    """Whether the server answers in time with its list of models."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{base_url}/models", timeout=5) as answer:
                names = [entry["id"] for entry in json.load(answer)["data"]]
                return names == [MODEL]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(POLL_S)

    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server, at once if it does not end by itself."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

    assert process.stdin is not None

    process.stdin.close()
