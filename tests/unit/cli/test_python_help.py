"""What Python's own help shows of ktdeval: names, options of a run, and their types."""

from __future__ import annotations

import dataclasses

import ktdeval
from ktdeval.cli.help.option_descriptions import described_options
from ktdeval.runner.plans.config import RunConfig


def words(text: str) -> str:
    return " ".join(text.split())


def test_evaluate_help_lists_every_run_option_with_type_default_and_text() -> None:
    shown = words(ktdeval.evaluate.__doc__ or "")
    for field in dataclasses.fields(RunConfig):
        if field.name in ("model", "tasks"):
            continue

        assert f" {field.name} (" in shown, field.name
        assert words(field.metadata["help"]) in shown, field.name

    assert "seeds (int, default 1): number of seeds" in shown
    assert "rules (Literal['strict', 'paper'], default 'strict')" in shown
    assert "windows (tuple[str, ...]): window names" in shown
    assert "model_args (dict): parameters of the model" in shown
    assert "out (str | None): folder of the run" in shown


def test_lines_of_options_fit_a_terminal() -> None:
    assert max(map(len, described_options(RunConfig).splitlines())) <= 96
