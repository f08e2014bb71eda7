"""A whole episode with a keyless model, from the first observation to the card: speed, where a
step's time goes, memory, bytes.

    python benchmarks/bench_episode.py
    python benchmarks/bench_episode.py --models builtin/momentum --windows W1 --repeats 3
    python benchmarks/bench_episode.py --whole --models builtin/random --task ktdfin --windows 'W*' --seeds 5

Every part is timed without the parts inside it, so the lines of a step add up to its whole. Parts
are given in CPU time, which a busy machine changes little; the whole step and the durable write,
which waits for the disk, in wall time too. *Harness overhead* is what the suite itself adds to a
step: all but the scene (the observation), the tools' own work, the model, the settlement and the
record. Each model runs in a process of its own, so that its peak memory is its own. `--whole`
prints the processor time of a run of many episodes instead, by what it is spent on.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import ktdeval.harness.steps.step_tools
import ktdeval.runner.episodes.episode
import ktdeval.runner.episodes.episode_execution
import ktdeval.runner.execution.run
import ktdeval.runner.records.episode_journal
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig
from ktdeval.runner.episodes.bookkeeper import Bookkeeper
from ktdeval.runner.execution.run import PreparedRun, execute_run, prepare_run
from ktdeval.runner.records.episode_journal import Journal
from ktdeval.runner.records.run_folder import RunFolder

PARTS = {
    "scene": "scene: the observation",
    "model": "model",
    "tools": "tools' own work",
    "settle": "settlement",
}
HARNESS = {
    "guard": "leak guard",
    "form": "submission form",
    "render": "rendering tool results",
    "arguments": "reading tool arguments",
    "episode": "session, agent, the rest",
}


class Clock:
    """Time spent in each part, without the parts inside it."""

    def __init__(self) -> None:
        self.cpu_s: Counter[str] = Counter()
        self.wall_s: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._open: list[str] = []
        self._inner = [(0.0, 0.0)]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, its time booked under `name`. What a scene, a tool or a model calls is its
        own work and not split further.
        """

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self._open and self._open[-1] in PARTS:
                return function(*args, **kwargs)
            self._open.append(name)
            self._inner.append((0.0, 0.0))
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
                self._book(name, cpu, wall)

        return wrapper

    def _book(self, name: str, cpu_s: float, wall_s: float) -> None:
        inner_cpu_s, inner_wall_s = self._inner.pop()
        self.cpu_s[name] += cpu_s - inner_cpu_s
        self.wall_s[name] += wall_s - inner_wall_s
        outer_cpu_s, outer_wall_s = self._inner[-1]
        self._inner[-1] = (outer_cpu_s + cpu_s, outer_wall_s + wall_s)
        self.calls[name] += 1
        self._open.pop()

    def watch(self, owner: Any, attribute: str, name: str) -> Any:
        """Time a function where it is looked up, for as long as the context lasts."""
        return patch.object(owner, attribute, self.timed(name, getattr(owner, attribute)))


class Figures(NamedTuple):
    """One episode, measured."""

    steps: int
    clock: Clock
    journal_bytes: int
    record_bytes: dict[str, int]


@contextmanager
def watching(clock: Clock, run: PreparedRun) -> Iterator[None]:
    """Time every part of the run's episodes."""
    task = next(iter(run.plan.tasks.values()))

    def scene(*args: Any, **kwargs: Any) -> Any:
        made = real_scene(*args, **kwargs)
        return SimpleNamespace(
            lens=made.lens,
            observe=clock.timed("scene", made.observe),
            tool_context=clock.timed("scene", made.tool_context),
        )

    def for_episode(*args: Any, **kwargs: Any) -> Any:
        given = real_access(*args, **kwargs)
        model = SimpleNamespace(reply=clock.timed("model", given.model.reply))
        return replace(given, model=model)

    def make_tools(*args: Any, **kwargs: Any) -> Any:
        return tuple(
            replace(tool, function=clock.timed("tools", tool.function))
            for tool in real_tools(*args, **kwargs)
        )

    real_scene, real_tools = type(task).scene, run.plugins.tools
    real_access = run.access.for_episode
    with ExitStack() as stack:
        for owner, attribute, function in (
            (type(task), "scene", scene),
            (run.access, "for_episode", for_episode),
            (run.plugins, "tools", make_tools),
        ):
            stack.enter_context(patch.object(owner, attribute, function))
        for owner, attribute, name in (
            (ktdeval.runner.execution.run, "run_episode", "episode"),
            (ktdeval.runner.execution.run, "write_cards", "cards"),
            (Bookkeeper, "book", "settle"),
            (ktdeval.harness.steps.step_tools, "call", "arguments"),
            (ktdeval.runner.records.episode_journal, "encode_canonical", "encode"),
            (Journal, "append", "sync"),
            (RunFolder, "complete", "compact"),
            (LeakGuard, "check", "guard"),
            (LeakGuard, "redact", "guard"),
            (LeakGuard, "redact_json", "guard"),
            (ActionForm, "read", "form"),
            (Lens, "render_text", "render"),
        ):
            stack.enter_context(clock.watch(owner, attribute, name))
        yield


def run_once(config: RunConfig) -> Figures:
    """Run one episode in a new folder and measure it."""
    clock = Clock()
    journal_bytes = 0
    real_complete = RunFolder.complete

    def complete(folder: RunFolder, spec: Any, *given: Any) -> None:
        nonlocal journal_bytes
        journal_bytes = (folder.episode_path(spec) / "journal.jsonl").stat().st_size
        real_complete(folder, spec, *given)

    with tempfile.TemporaryDirectory(prefix="ktdeval-bench-") as name:
        run = prepare_run(replace(config, out=f"{name}/run"), load_plugins(), StopSignal())
        with patch.object(RunFolder, "complete", complete), watching(clock, run):
            result = execute_run(run)
        run.close()
        if result.failed:
            raise SystemExit(f"the episode failed: {result.failed[0].error}")
        folder = run.folder.episode_path(run.plan.specs[0])
        sizes = {
            path.name: path.stat().st_size
            for path in (folder / "ledger.parquet", folder / "transcript.jsonl.zst")
        }
        sizes["card"] = result.cards[0].stat().st_size
    return Figures(clock.calls["sync"], clock, journal_bytes, sizes)


def bare_sync_ms(size: int, between_s: float, times: int = 100) -> float:
    """Mean time of writing `size` bytes and fdatasync, on the disk that the runs use: what no
    durable record can beat.

    Between two writes the processor is busy for `between_s`, as in a step: a disk and a kernel that
    have rested answer later.
    """
    spent_s = 0.0
    with tempfile.TemporaryFile(prefix="ktdeval-bench-") as stream:
        for _ in range(times):
            until = time.perf_counter() + between_s
            while time.perf_counter() < until:
                pass
            began = time.perf_counter()
            os.write(stream.fileno(), b"x" * size)
            os.fdatasync(stream.fileno())
            spent_s += time.perf_counter() - began
    return 1e3 * spent_s / times


def peak_mib() -> float:
    """Most memory this process ever held. `ru_maxrss` would count the process that started it as
    well.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def report(config: RunConfig, repeats: int) -> None:
    """Run an episode `repeats` times and print the quickest, part by part."""
    began = time.perf_counter()
    run_once(replace(config, limit=1))  # imports, the embedded market where it is not cached yet
    before = peak_mib()
    print(f"{config.model}, {config.tasks[0]}, window {config.windows[0]}")
    print(f"  first step, imports and snapshot included   {time.perf_counter() - began:8.2f} s")
    best = min(
        (run_once(config) for _ in range(repeats)), key=lambda figures: step_s(figures.clock.wall_s)
    )
    print_step(best)
    wall_s, sizes = best.clock.wall_s, best.record_bytes
    print(
        f"  once an episode: compaction {wall_s['compact'] * 1e3:.0f} ms; once a task: card"
        f" {wall_s['cards'] * 1e3:.0f} ms"
    )
    print(f"  peak memory {peak_mib():.0f} MiB; {before:.0f} MiB after one step")
    kept = ", ".join(f"{name} {size / 1024:.0f} KiB" for name, size in sizes.items())
    print(f"  kept: {kept}; journal before compaction {best.journal_bytes / 1024:.0f} KiB")


def report_whole(config: RunConfig) -> None:
    """Run all episodes of a config once, and print where the processor time goes."""
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="ktdeval-bench-") as name, ExitStack() as stack:
        for owner, attribute, part in (
            (ktdeval.runner.episodes.episode_execution.EpisodeFactory, "open", "opening"),
            (ktdeval.runner.episodes.episode_execution, "_run_steps", "steps"),
            (RunFolder, "complete", "ends"),
            (ktdeval.runner.execution.run, "write_cards", "cards"),
        ):
            stack.enter_context(clock.watch(owner, attribute, part))

        run = prepare_run(replace(config, out=f"{name}/run"), load_plugins(), StopSignal())
        prepared_s = time.process_time()
        clock.cpu_s.clear()  # of the first steps that are played before a run
        result = execute_run(run)
        run.close()

    if result.failed:
        raise SystemExit(f"an episode failed: {result.failed[0].error}")

    whole_s = time.process_time()
    parts = {
        "imports, market, plan": prepared_s,
        "opening of episodes": clock.cpu_s["opening"],
        "steps": clock.cpu_s["steps"],
        "ends of episodes: ledger, transcript, mark": clock.cpu_s["ends"],
        "cards": clock.cpu_s["cards"],
    }
    parts["the rest"] = whole_s - sum(parts.values())
    print(f"{config.model}, {config.tasks[0]}, {result.episodes} episodes: processor time")
    for label, seconds in {**parts, "whole": whole_s}.items():
        an_episode = 1e3 * seconds / result.episodes
        print(f"  {label:44s} {seconds:8.2f} s {an_episode:8.2f} ms an episode")
    print(f"  peak memory {peak_mib():.0f} MiB")


def step_s(spent_s: Counter[str]) -> float:
    """Time of all steps, without what comes once."""
    return sum(spent_s.values()) - spent_s["compact"] - spent_s["cards"]


def print_step(figures: Figures) -> None:
    """Where a step's time goes."""
    clock, steps = figures.clock, figures.steps
    cpu_ms = {name: 1e3 * seconds / steps for name, seconds in clock.cpu_s.items()}
    whole_ms = 1e3 * step_s(clock.cpu_s) / steps

    def line(label: str, milliseconds: float, note: str = "") -> None:
        share = 100 * milliseconds / whole_ms
        print(f"  {label:36s} {milliseconds:8.3f} ms {share:5.1f} %  {note}".rstrip())

    wall_ms = 1e3 * step_s(clock.wall_s) / steps
    print(
        f"  {steps} steps, {1e3 / wall_ms:.1f} steps/s ({wall_ms:.2f} ms a step); CPU time of a"
        " step:"
    )
    line("whole", whole_ms)
    for name, label in PARTS.items():
        line(
            label,
            cpu_ms.get(name, 0.0),
            f"{clock.calls[name] / steps:.1f} calls" if name in ("model", "tools") else "",
        )
    size = figures.journal_bytes // steps
    line("durable record: JSON", cpu_ms["encode"], f"{size / 1024:.0f} KiB")
    sync_ms = 1e3 * clock.wall_s["sync"] / steps
    bare_ms = bare_sync_ms(size, whole_ms / 1e3)
    line(
        "durable record: write, fdatasync",
        cpu_ms["sync"],
        f"wall {sync_ms:.3f} ms; a bare one {bare_ms:.3f} ms",
    )
    line("harness overhead", sum(cpu_ms.get(name, 0.0) for name in HARNESS))
    for name, label in HARNESS.items():
        line(f"  {label}", cpu_ms.get(name, 0.0))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models",
        default="builtin/momentum,builtin/hold",
        help="comma-separated; each in its own process",
    )
    parser.add_argument("--task", default="blinded_open_research")
    parser.add_argument("--windows", default="long")
    parser.add_argument("--data", default="synthetic")
    parser.add_argument("--limit", type=int, help="steps of an episode")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="with --whole")
    parser.add_argument("--whole", action="store_true", help="a whole run instead of one episode")
    arguments = parser.parse_args()
    models = arguments.models.split(",")
    if len(models) == 1:
        windows = (arguments.windows,)
        config = RunConfig(
            models[0],
            (arguments.task,),
            windows=windows,
            data=arguments.data,
            limit=arguments.limit,
        )
        if arguments.whole:
            report_whole(replace(config, seeds=arguments.seeds))
        else:
            report(config, arguments.repeats)
        return 0
    for model in models:
        # argparse keeps the last of two --models
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--models", model], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
