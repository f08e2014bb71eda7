"""Whole runs whose provider refuses a call parameter."""

from __future__ import annotations

from pathlib import Path

from support.providers.stub_provider import running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, finished, run
from support.runs.run_support import TASK, card_of, ktdeval

skip_without_sdks()

WINDOW = "2024-04-01:2024-04-15"


def test_an_unknown_model_that_refuses_the_default_temperature_is_run_without_one(
    market: Path, tmp_path: Path
) -> None:
    words = ("--tasks", TASK, "--windows", WINDOW, "--limit", 2)
    with running_stub(refuses=("temperature",)) as stub:
        first = finished(WIRES["responses"], stub, tmp_path / "run", market, *words)
        answers = stub.answers
        card = card_of(first)
        # the same command again asks nothing, and takes the run for the same
        finished(WIRES["responses"], stub, first, market, *words)
        assert stub.answers == answers

    assert card["call"]["temperature"] is None
    assert card["call"]["max_output_tokens"] == 4096
    path = first / "cards" / f"{TASK}.json"
    shown = " ".join(ktdeval("card", "show", path, "--all", cwd=tmp_path).out.split())
    assert "max_output_tokens 4096" in shown
    assert "left to the provider or to the agent's own program: temperature" in shown
    assert "temperature 0.7" not in shown


def test_a_temperature_that_the_user_named_is_refused_and_not_left_out(
    market: Path, tmp_path: Path
) -> None:
    words = ("--tasks", TASK, "--windows", WINDOW, "--temperature", 0.2)
    with running_stub(refuses=("temperature",)) as stub:
        done = run(WIRES["responses"], stub, tmp_path / "run", market, *words)

    assert done.code == 2
    assert "refuses 'temperature'" in done.err
    assert "omit=temperature" in done.err
