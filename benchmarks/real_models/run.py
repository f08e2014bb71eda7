"""Run the models of models.yaml on the tasks of tasks.yaml: one folder for each model, task, stage.

    python -m real_models.get_models WEIGHTS
    chrt --idle 0 nice -n 19 python -m real_models.run WEIGHTS RUNS [--models …] [--tasks …]

It may be stopped at any time (Ctrl+C, SIGTERM, SIGKILL); the same command goes on, and no answered
call is asked again. `python -m real_models.records RUNS` packs what is finished.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from real_models.entrants import Cell, Model, Task, models, tasks
from real_models.model_server import Server, serving

POLL_S = 5.0
PROCESSOR = "processor.json"
KTDEVAL = (sys.executable, "-m", "ktdeval")


def main() -> None:
    """Run what is not finished."""
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    chosen = [model for name, model in models().items() if name in options.models]
    wanted = [task for name, task in tasks().items() if name in options.tasks]
    options.runs.mkdir(parents=True, exist_ok=True)

    for task, limit in stages_of(wanted, options.stages):
        if limit == task.stages[-1]:
            for rule in task.rules:
                run_rule(Cell(rule, task, limit), options.runs)

        for model in chosen:
            run_model(model, Cell(model.name, task, limit), options)


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("weights", type=Path, help="folder of get_models.py")
    parser.add_argument("runs", type=Path, help="folder of the runs")
    parser.add_argument("--models", type=_names, default=tuple(models()))
    parser.add_argument("--tasks", type=_names, default=tuple(tasks()))
    parser.add_argument("--stages", type=int, default=9, help="number of stages of each task")
    parser.add_argument("--threads", type=int, default=1)

    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def stages_of(wanted: Sequence[Task], count: int) -> Iterator[tuple[Task, int]]:
    """Yield tasks with their limits: the first stage of all before the second of any."""
    for stage in range(count):
        for task in wanted:
            if stage < len(task.stages):
                yield task, task.stages[stage]


def run_rule(cell: Cell, runs: Path) -> None:
    """Run a rule model, which needs no server."""
    if not is_finished(cell, runs):
        done = subprocess.run(command(cell, runs, cell.model), check=False)
        report(cell, done.returncode)


def run_model(model: Model, cell: Cell, options: argparse.Namespace) -> None:
    """Run a model behind its server. A run that fails is named, and the next one goes on."""
    if is_finished(cell, options.runs):
        return
    if model.context < cell.task.context:
        print(f"{cell.name}: not run, its prompts are longer than the model's context", flush=True)
        return

    replies = options.runs / f"{model.name}.replies.sqlite"
    with serving(
        model,
        options.weights,
        context=cell.task.context,
        threads=options.threads,
        prefix_cache=cell.task.prefix_cache,
    ) as server:
        words = command(cell, options.runs, f"openai_compatible/{model.name}")
        words += cell.task.model_words
        words += ["--base-url", server.base_url, "--cache", str(replies)]
        code = run_counted(words, server, options.runs / cell.name, options.threads)

    report(cell, code)


def report(cell: Cell, code: int) -> None:
    """Print how a run ended."""
    print(f"{time.strftime('%H:%M:%S')} {cell.name}: exit code {code}", flush=True)


def command(cell: Cell, runs: Path, model: str) -> list[str]:
    """Return the command of a run, without the words for a server."""
    words = [*KTDEVAL, "--model", model, "--tasks", cell.task.name, "--quiet", *cell.task.words]
    if cell.limit:
        words += ["--limit", str(cell.limit)]

    return [*words, "--out", str(run_folder(cell, runs))]


def is_finished(cell: Cell, runs: Path) -> bool:
    """Whether a run has its card."""
    return (run_folder(cell, runs) / "cards" / f"{cell.task.name}.json").exists()


def run_folder(cell: Cell, runs: Path) -> Path:
    """Return the folder of ktdeval's run; what these scripts measure stands beside it."""
    return runs / cell.name / "run"


def run_counted(words: list[str], server: Server, folder: Path, threads: int) -> int:
    """Run a command; keep the processor time of the server beside its run, with that of before."""
    path = folder / PROCESSOR
    before = _seconds(path)
    start = server.processor_s()
    process = subprocess.Popen(words)

    try:
        while True:
            try:
                return process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                _store(path, before + server.processor_s() - start, threads)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        _store(path, before + server.processor_s() - start, threads)


def _seconds(path: Path) -> float:
    """Return the processor time of earlier sessions of a run."""
    if not path.exists():
        return 0.0

    stored: Mapping[str, float] = json.loads(path.read_text("utf-8"))
    return stored["server_s"]


def _store(path: Path, seconds: float, threads: int) -> None:
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({"server_s": round(seconds, 2), "threads": threads})
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n", "utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main()
