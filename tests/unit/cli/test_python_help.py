"""What Python's own help shows of ktdeval: names, options of a run, and their types."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_type_hints

import pytest

import ktdeval
from ktdeval.cli.option_descriptions import described_options, type_text
from ktdeval.runner.plans.config import RunConfig
from ktdeval.values import Address, Parameters


def words(text: str) -> str:
    return " ".join(text.split())


def test_dir_lists_every_name_that_can_be_used() -> None:
    names = dir(ktdeval)
    assert {"Evaluation", "api", "compare", "compare_tables", "evaluate", "report"} <= {*names}
    for name in names:
        assert getattr(ktdeval, name) is not None


def test_help_of_evaluate_has_every_option_of_a_run_with_type_default_and_text() -> None:
    shown = words(ktdeval.evaluate.__doc__ or "")
    for field in dataclasses.fields(RunConfig):
        if field.name in ("model", "tasks"):
            continue

        start = f" {field.name} ({type_text(get_type_hints(RunConfig)[field.name])}"
        assert start in shown, field.name
        assert words(field.metadata["help"]) in shown, field.name

    assert "seeds (int, default 1): number of seeds" in shown
    assert "rules ('strict' or 'paper', default 'strict')" in shown


def test_lines_of_options_fit_a_terminal() -> None:
    assert max(map(len, described_options(RunConfig).splitlines())) <= 96


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (str, "str"),
        (int | None, "int or None"),
        (Literal["a", "b"], "'a' or 'b'"),
        (Literal["a"] | None, "'a' or None"),
        (tuple[str, ...], "one or more str"),
        (Parameters, "dict"),
        (Parameters | None, "dict or None"),
        (Address, "str"),
        (Address | None, "str or None"),
    ],
)
def test_types_are_written_as_readers_write_them(hint: object, text: str) -> None:
    assert type_text(hint) == text
