"""A budget that is reached is no failure: its own state and exit code, and a line that resumes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.cli.main import cli
from ktdeval.cli.options import WORDS
from ktdeval.cli.resume_hint import resume_line
from ktdeval.testing import Terminal
from support.runs.run_support import TASK, WINDOW

MODEL = "builtin/momentum"


@pytest.mark.slow
def test_a_run_that_a_budget_stops_says_so_and_its_resume_line_finishes_it(
    market: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--model", MODEL, "--tasks", TASK, "--windows", WINDOW, "--limit", "2"]
    words += ["--data", str(market), "--out", "a run", "--quiet"]
    code, out, err = terminal.call(*words, "--max-hours", "1e-9")

    assert code == 3
    assert err.replace(str(tmp_path), "FOLDER") == snapshot(
        "ktdeval: stopped: --max-hours 1e-09: the time is over; raise it, or run the same command again to resume (1 of 1 episodes are not finished, their steps so far are kept in FOLDER/a run)\n"
    )
    assert out.replace(str(market), "MARKET") == snapshot(
        "resume  ktdeval --model builtin/momentum --tasks blinded_open_research --windows 2024-03-01:2024-03-29 --limit 2 --data MARKET --out 'a run' --quiet --max-hours 1e-9\n"
    )

    _, resume = out.rstrip().split("  ", 1)
    code, out, _ = terminal.call(*words, "--max-hours", "1e-9", "--json")
    shown = json.loads(out)

    assert (code, shown["state"], shown["resume"]) == (3, "stopped", f"{resume} --json")

    program, *again = shlex.split(resume.replace("1e-9", "1"))
    assert program == "ktdeval"
    assert json.loads(terminal.out(*again, "--json"))["state"] == "finished"


@pytest.mark.parametrize(
    ("words", "needed", "expected"),
    [
        (["--max-cost", "0.01"], {"max_cost": 0.0123}, "--model m --tasks t --max-cost 0.025"),
        (["--max-cost=50"], {"max_cost": 50.4}, "--model m --tasks t --max-cost 110"),
        (["--max_cost", "0"], {"max_cost": 0.5}, "--model m --tasks t --max-cost 1.0"),
        (["--max-tokens", "10"], {"max_tokens": 3000}, "--model m --tasks t --max-tokens 6000"),
        (["--max-hours", "1"], {}, "--model m --tasks t --max-hours 1"),
        (["--seed", "3"], {"max_cost": 2.0}, "--model m --tasks t --seed 3 --max-cost 4.0"),
    ],
)
def test_reached_limit_is_replaced_in_the_resume_line_by_twice_as_much(
    words: list[str], needed: dict[str, float], expected: str
) -> None:
    given = ["--model", "m", "--tasks", "t", *words]
    name, _, value = " ".join(words).removeprefix("--").replace(" ", "=").partition("=")
    limits = {name.replace("-", "_"): json.loads(value)}
    line = resume_line(given, limits, needed)

    assert line == f"ktdeval {expected}"

    context = cli.make_context("ktdeval", shlex.split(line)[1:])
    assert context.meta[WORDS] == tuple(shlex.split(line)[1:])
