"""Model calls over HTTP: what the suite adds to the official SDK, with every reply durable, and
other suites beside it.

    python benchmarks/bench_calls.py
    python benchmarks/bench_calls.py --calls 2000 --concurrency 50 --latency-ms 50 --repeats 3
    python benchmarks/bench_calls.py --peers FOLDER --inspect-python P --lmeval-python P

The options of the last line are the environment variables `KTDEVAL_PEERS`, `KTDEVAL_INSPECT_PYTHON`
and `KTDEVAL_LMEVAL_PYTHON`, too.

All callers ask the same server (`stub_chat.py`, a process of its own) and are compared with the
ideal, calls × latency / concurrency, and with the bare SDK on the same pool of threads. *Calls* are
requests through adapter, client and record. *Episodes* are whole runs in `memory_only`: prompts,
leak guard, settlement, journal, ledgers and one model call a step. The last part asks whether a
step costs more late in a long episode than early in it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch
from urllib.request import urlopen

import openai

from ktdeval.calls.client import ClientSettings, ModelClient
from ktdeval.calls.records.call_log import CallLog
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, as_remote
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig
from ktdeval.runner.execution.run import execute_run, prepare_run
from ktdeval.runner.records.episode_journal import JournalEntry, read_journal
from ktdeval.trading.ledger import StepRecord


@dataclass(frozen=True)
class Loop:
    """Run of another suite against the same server, by a script of the folder of peers."""

    variable: str  #: environment variable that names a Python with it
    package: str  #: what that Python needs
    script: str
    words: tuple[str, ...] = ()  #: further arguments of the script

    def arguments(self, calls: int, concurrency: int) -> list[str]:
        """Return the arguments of the script."""
        return ["http", str(calls), str(concurrency), *self.words]


LOOPS = {
    "Inspect": Loop(
        "KTDEVAL_INSPECT_PYTHON", "inspect-ai, openai and tiktoken", "inspect_job.py", ("eval",)
    ),
    "lm-eval": Loop("KTDEVAL_LMEVAL_PYTHON", "lm-eval[api]", "lmeval_job.py"),
}
QUESTION = "What is the answer? " + "x" * 200
STUB = Path(__file__).with_name("stub_chat.py")
TASK, WINDOW, WINDOW_STEPS = "blinded_memory_only", "W5", 40
LONG_STEPS = 548


@contextmanager
def stub_server(latency_ms: float) -> Iterator[int]:
    """The server on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(STUB), str(port), str(latency_ms)])
    try:
        for _ in range(200):
            try:
                urlopen(f"http://127.0.0.1:{port}/answered").close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), cpu_s()
    work()
    return time.perf_counter() - wall, cpu_s() - cpu


def in_turns(
    repeats: int, *callers: Callable[[], tuple[float, float]]
) -> list[tuple[float, float]]:
    """Medians of each caller's wall and CPU seconds. They take turns, so that a slow minute of the
    machine hits all of them.
    """
    rounds = [[once() for once in callers] for _ in range(repeats)]
    return [
        (statistics.median(wall for wall, _ in times), statistics.median(cpu for _, cpu in times))
        for times in zip(*rounds, strict=True)
    ]


def bare_sdk(port: int, calls: int, concurrency: int) -> tuple[float, float]:
    """The official SDK on a pool of threads, as its manual shows it, keeping nothing."""
    client = openai.OpenAI(api_key="none", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)

    def ask(number: int) -> None:
        client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": f"{number} {QUESTION}"}],
            temperature=0.7,
        )

    def work() -> None:
        with ThreadPoolExecutor(concurrency) as pool:
            list(pool.map(ask, range(calls)))

    return timed(work)


def client_calls(port: int, calls: int, concurrency: int) -> tuple[float, float]:
    """The same questions through the suite, each reply on disk before it is given back."""
    model = as_remote(
        load_plugins().make_model(
            "openai_compatible/m", {"base_url": f"http://127.0.0.1:{port}/v1"}
        )
    )
    assert model is not None
    model.connect()
    with tempfile.TemporaryDirectory() as folder:
        log = CallLog(Path(folder))
        client = ModelClient(
            model, ClientSettings(concurrency=concurrency), None, log, StopSignal()
        )
        asker = client.for_episode("benchmark")

        def ask(number: int) -> None:
            asker.reply(
                ModelRequest(
                    (Message("user", f"{number} {QUESTION}"),), params=CallParams(seed=number)
                )
            )

        def work() -> None:
            with ThreadPoolExecutor(concurrency) as pool:
                list(pool.map(ask, range(calls)))
            log.close()

        return timed(work)


def episodes(port: int, calls: int, concurrency: int) -> tuple[float, float]:
    """Whole episodes with one call a step; opening the market and writing the cards are not
    counted.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(
            model="openai_compatible/m",
            tasks=(TASK,),
            base_url=f"http://127.0.0.1:{port}/v1",
            tool_protocol="native",
            windows=(WINDOW,),
            seeds=max(1, calls // WINDOW_STEPS),
            concurrency=concurrency,
            canary=0,
            cache="run",
            out=f"{folder}/run",
        )
        run = prepare_run(config, load_plugins(), StopSignal())
        try:
            return timed(lambda: run_episodes(run))
        finally:
            run.close()


def run_episodes(run: object) -> None:
    """The episodes of a run, without its cards."""
    # as `ktdeval run` does
    with patch("ktdeval.runner.execution.run.write_cards", lambda *_: []):
        result = execute_run(run)  # type: ignore[arg-type]
    assert not result.failed, result.failed[0].error


def growth(port: int) -> float:
    """Seconds of a step late in a long episode, as a multiple of a step early in it (medians of a
    hundred each).
    """
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(
            model="openai_compatible/m",
            tasks=("blinded_open_research",),
            base_url=f"http://127.0.0.1:{port}/v1",
            tool_protocol="native",
            canary=0,
            cache="run",
            out=f"{folder}/run",
        )
        run = prepare_run(config, load_plugins(), StopSignal())
        walls: list[float] = []
        complete = type(run.folder).complete

        def keep(self: object, spec: object, *rest: object) -> None:
            path = self.episode_path(spec) / "journal.jsonl"  # type: ignore[attr-defined]
            walls.extend(entry.wall_s for entry in read_journal(path, JournalEntry[StepRecord]))
            complete(self, spec, *rest)  # type: ignore[arg-type]

        try:
            with patch.object(type(run.folder), "complete", keep):
                run_episodes(run)
        finally:
            run.close()
    return statistics.median(walls[-100:]) / statistics.median(walls[10:110])


def peer(python: str, script: Path, port: int, arguments: list[str]) -> float | None:
    """Wall seconds of a peer's own run, in a process of its own; None with a message when it
    fails.
    """
    environment = {**os.environ, "STUB_PORT": str(port)}
    done = subprocess.run(
        [python, str(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        print(f"  {script.name} failed: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
        return None
    return float(json.loads(lines[-1])["wall"])


def line(name: str, wall: float, ideal: float, bare: float | None, note: str = "") -> None:
    """One row."""
    beside = "" if bare is None else f"{wall / bare:6.2f} x bare SDK"
    print(f"  {name:<40} {wall:7.2f} s {wall / ideal:6.2f} x ideal {beside}  {note}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description="Model calls over HTTP beside the bare SDK and other suites."
    )
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--latency-ms", type=float, default=50.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = os.environ.get
    parser.add_argument(
        "--peers",
        default=given("KTDEVAL_PEERS", ""),
        help="folder with inspect_job.py and lmeval_job.py",
    )
    for name, loop in LOOPS.items():
        parser.add_argument(
            f"--{name.replace('-', '').lower()}-python",
            dest=loop.variable,
            default=given(loop.variable, ""),
            help=f"a Python with {loop.package}",
        )
    parser.add_argument("--peer-calls", type=int, default=200)
    parser.add_argument("--skip-growth", action="store_true")
    options = parser.parse_args()
    calls, concurrency = options.calls, options.concurrency
    ideal = calls * options.latency_ms / 1000 / concurrency
    latency = f"{options.latency_ms:g} ms"
    print(
        f"{calls} calls of {latency} at concurrency {concurrency}, ideal {ideal:.2f} s; medians of"
        f" {options.repeats}"
    )
    with stub_server(options.latency_ms) as port:
        callers = (bare_sdk, client_calls, episodes)
        medians = in_turns(
            options.repeats, *(partial(caller, port, calls, concurrency) for caller in callers)
        )
        bare = medians[0][0]
        rows = (
            ("bare SDK on threads, nothing kept", None, "call"),
            ("ktdeval calls, durable", bare, "call"),
            ("ktdeval whole episodes, durable", bare, "step"),
        )
        for (name, beside, unit), (wall, cpu) in zip(rows, medians, strict=True):
            line(name, wall, ideal, beside, f"CPU {cpu / calls * 1e3:.2f} ms a {unit}")
        few = options.peer_calls
        for name, loop in LOOPS.items():
            python = getattr(options, loop.variable)
            if not python or not options.peers:
                continue

            script = Path(options.peers) / loop.script
            seconds = peer(python, script, port, loop.arguments(few, concurrency))
            if seconds is not None:
                ideal_few = few * options.latency_ms / 1000 / concurrency
                line(f"{name}, {few} calls", seconds, ideal_few, None)
        wall, _ = client_calls(port, few, concurrency)
        line(
            f"ktdeval calls, {few} calls", wall, few * options.latency_ms / 1000 / concurrency, None
        )
    if not options.skip_growth:
        with stub_server(0) as port:
            print(
                f"a step at the end of {LONG_STEPS} costs {growth(port):.2f} x one at its beginning"
            )


if __name__ == "__main__":
    main()
