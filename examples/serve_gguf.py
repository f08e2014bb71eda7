"""Serve a language model of a GGUF file on this machine, by the package xllamacpp: llama.cpp's own
server, built for common processors, so that no compiler is needed.

    python -m venv llm && llm/bin/pip install xllamacpp
    llm/bin/python serve_gguf.py MODEL.gguf --name my-model

It prints its address, for `ktdeval --base-url`, and serves until Ctrl+C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

# threads that wait for each other without a rest are slow wherever another program takes a core
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
import xllamacpp


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("weights", type=Path, help="the GGUF file")
    parser.add_argument("--name", default="model", help="name of the model in requests")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--context", type=int, default=8192, help="tokens of prompt and reply")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--template", type=Path, help="a chat template (Jinja) instead of its own")
    parser.add_argument(
        "--prefix-cache",
        action="store_true",
        help="reuse the start of the last prompt: faster, but a reply's last digits may then depend"
        " on what was asked before",
    )

    parser.add_argument(
        "--end-with-input",
        action="store_true",
        help="end when the standard input ends: with the program that started it",
    )

    return parser.parse_args()


def parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    """Return llama.cpp's parameters of a server that answers one request at a time."""
    found = xllamacpp.CommonParams()
    found.model.path = str(options.weights)
    found.model_alias = {options.name}
    found.hostnames = ["127.0.0.1"]
    found.port = options.port
    found.n_ctx = options.context
    found.n_parallel = 1
    found.cpuparams.n_threads = options.threads
    found.cpuparams_batch.n_threads = options.threads

    # without both, a reply's bytes depend on the request alone
    found.cache_prompt = options.prefix_cache
    if not options.prefix_cache:
        found.cache_ram_mib = 0

    if options.template is not None:
        found.chat_template = options.template.read_text("utf-8")

    return found


def main() -> None:
    """Serve until it is told to end."""
    options = arguments()
    if not options.weights.is_file():
        raise SystemExit(f"serve_gguf: there is no file {options.weights}")

    server = xllamacpp.Server(parameters(options))
    print(f"serving {options.name} at {server.listening_address}/v1", flush=True)  # noqa: T201
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

    end = threading.Event()
    if options.end_with_input:
        threading.Thread(target=_wait_for_input, args=(end,), daemon=True).start()

    with suppress(KeyboardInterrupt):
        end.wait()

    os._exit(0)


def _wait_for_input(end: threading.Event) -> None:
    sys.stdin.buffer.read()
    end.set()


if __name__ == "__main__":
    main()
