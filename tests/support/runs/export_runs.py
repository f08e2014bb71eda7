"""Runs to export: scripted models on the small market, and a question task with an agent that shows
an answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ktdeval.api import Message, QATask, Spec, hookimpl
from ktdeval.harness import decide_in_phases
from support.runs.run_support import SAME_MASK, TASK, WINDOW, Done, ktdeval

QUESTIONS = Path(__file__)
GOLD = "buy ten shares of the third asset tomorrow"
SAMPLES = [
    {"question": "What is to be done?", "gold": GOLD},
    {"question": "And then?", "gold": "nothing at all, until next week"},
]
SEEN = "Enough seen."


def submission(reason: str = "nothing to do") -> dict[str, Any]:
    """A submission without orders."""
    return {"submit": {"orders": [], "overall_reason": reason}}


def script(folder: Path, name: str, steps: list[Any]) -> Path:
    """Write a script: replies of step 0, 1, 2 …"""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"answers": steps}))
    return path


def run_script(folder: Path, name: str, steps: list[Any], *more: object, task: str = TASK) -> Path:
    """Run a script on the small market, one step for each of its answers."""
    model = ("builtin/script", "--model-args", f"file={script(folder, name, steps)}")
    return run(folder, name, *model, "--limit", len(steps), *more, task=task)


def run(folder: Path, name: str, *words: object, task: str = TASK) -> Path:
    """Run a model on the small market."""
    out = folder / name
    window = () if "--windows" in words else ("--windows", WINDOW)
    market = ("--data", folder / "market", *window)
    done = ktdeval(
        "run", "--model", *words, "--tasks", task, *market, *SAME_MASK, "--out", out, cwd=folder
    )

    assert done.code in (0, 1), done

    return out


def export(*words: object, cwd: Path, **environment: str) -> Done:
    """Export runs into `rows.jsonl`."""
    return ktdeval(
        "train", "export", *words, "--out", "rows.jsonl", cwd=cwd, environment=environment
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    """The exported rows."""
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def metadata(folder: Path) -> dict[str, Any]:
    """The metadata of the exported rows."""
    content: dict[str, Any] = json.loads((folder / "rows.jsonl.metadata.json").read_text())
    return content


class Cribbing:
    """Shows the model a gold answer before it answers."""

    def decide(self, observation: Any, session: Any, memory: Any) -> Any:
        """Decide as the reference loop does, with a line more."""
        user = f"{observation.user}\n\nSomebody says: {GOLD}."
        messages = [Message("system", observation.system), Message("user", user)]
        return decide_in_phases(messages, session, memory)


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """The question task."""
    return [QATask(SAMPLES, lambda said, sample: said == sample["gold"], name="todo").spec()]


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """The agent."""
    return [Spec("cribbing", lambda: Cribbing(), "shows an answer")]
