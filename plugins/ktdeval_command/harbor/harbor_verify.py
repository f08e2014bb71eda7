"""Verifier for a Harbor task. It runs `ktdeval card verify`, and checks that the card belongs to
the requested episode and that every day was decided.

It runs in the verifier's container, to which the agent never had access. The source of this module
is the whole script; it uses only the standard library and the command `ktdeval`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LAST_LINE = 500  # maximum number of characters in a reason


def problem_of(card: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Return why a verified card is not the complete card of the task; empty if it is."""
    for path, wanted in expected["card"].items():
        found: Any = card
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if found != wanted:
            return f"the card's {path} is {found}, not {wanted}"

    if card["missing_episodes"]:
        return "the episode is not finished"

    decided = card["decisions"]["model"] + card["decisions"]["model_after_retry"]
    planned = card["coverage"]["steps_planned"]
    if decided != planned:
        return f"{decided} of {planned} days were decided by the agent"
    return ""


def figures_of(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return each figure on a card, and the reason for each undefined figure."""
    figures = {}
    for name, line in card["metrics"].items():
        figures[name] = {"value": line.get("value"), "undefined": line.get("undefined")}
    return figures


def verify_run(folder: Path, expected: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """Return the verified card of a run folder, or None and the reason why it is missing."""
    cards = sorted((folder / "cards").glob("*.json"))
    if len(cards) != 1:
        return None, "there is no card: the episode was not finished"

    # The checks use only values in this file, and none from the episode.
    command = ["ktdeval", "card", "verify", str(cards[0]), *expected["verify_options"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    sys.stdout.write(done.stdout + done.stderr)
    if done.returncode != 0:
        found = done.stdout.strip().splitlines()[:1]  # the first difference
        errors = done.stderr.strip().splitlines()[-1:]
        (line, *_) = [*found, *errors, "it wrote no output"]
        return None, f"ktdeval card verify: {line[-_LAST_LINE:]}"

    card = json.loads(cards[0].read_text(encoding="utf-8"))
    problem = problem_of(card, expected)
    return (None, problem) if problem else (card, "")


def main() -> int:
    """Write the reward, and return the exit status."""
    expected = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))
    run = Path(os.environ.get("KTDEVAL_RUN", expected["run"]))
    logs = Path(os.environ.get("KTDEVAL_LOGS", "/logs/verifier"))
    logs.mkdir(parents=True, exist_ok=True)

    card, reason = verify_run(run, expected)
    if card is None:
        return _write_reward(logs, 0.0, {"reason": reason})

    defined = figures_of(card)
    figures = {"reason": "verified", "figures": defined}
    metric = expected["reward"]
    if metric is None:
        return _write_reward(logs, 1.0, figures)

    value = defined[metric]["value"]
    if value is None:  # a figure that is not defined must not become a number
        (logs / "figures.json").write_text(json.dumps(figures, indent=2), encoding="utf-8")
        sys.stderr.write(f"{metric} is not defined for this episode, so there is no reward\n")
        return 1
    return _write_reward(logs, value, figures)


def _write_reward(logs: Path, reward: float, figures: Mapping[str, Any]) -> int:
    (logs / "figures.json").write_text(json.dumps(figures, indent=2), encoding="utf-8")
    (logs / "reward.json").write_text(json.dumps({"reward": reward}), encoding="utf-8")
    sys.stdout.write(f"reward {reward}: {figures['reason']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
