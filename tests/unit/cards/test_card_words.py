"""Words of printed cards: what may be ranked, whether the mask was tested, abbreviations spelled out,
and figures of a paper on cards of its tasks alone.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ktdeval.cards import card_words, metric_word
from ktdeval.cards.fields.words import METRIC_WORDS
from ktdeval.cards.metric_tables import scheme_rows
from ktdeval_report.value_formatting import metric_name
from support.figures.card_cases import card, typed

FIT = {
    "selection": 0.01,
    "r_squared": 0.4,
    "adjusted_r_squared": 0.3,
    "parameters": 10.0,
    "degrees_of_freedom": 90.0,
}


def with_schemes(paper_metric: bool) -> dict[str, Any]:
    """A card whose selection has a fit by each scheme; of KTD-Fin's tasks where `paper_metric`."""
    made = card()
    line = made["metrics"]["total_return"]
    names = ["selection_alpha", *(["paper_selection_alpha"] if paper_metric else [])]
    for name in names:
        made["metrics"][name] = copy.deepcopy(line)
        for episode in made["episodes"]:
            schemes = {"schemes": {"strict": FIT, "paper": FIT}}
            episode["metrics"][name] = {"value": 0.01, "n": 5, "detail": schemes}

    return made


@pytest.mark.parametrize(
    ("of_the_paper", "schemes"), [(True, ["strict", "paper"]), (False, ["strict"])]
)
def test_the_fit_of_a_paper_is_on_cards_of_its_tasks_alone(
    of_the_paper: bool, schemes: list[str]
) -> None:
    assert [row[0] for row in scheme_rows(typed(with_schemes(of_the_paper)))] == schemes


def test_metric_abbreviations_are_spelled_out_with_a_tooltip() -> None:
    assert metric_word("hhi") == "concentration (HHI)"
    assert metric_word("ece") == "calibration error (ECE)"
    assert metric_word("sharpe") == metric_name("sharpe") == "sharpe"
    assert set(METRIC_WORDS) <= set(card_words()["metrics"])

    shown = metric_name("ece")
    assert shown.startswith('<abbr title="Expected calibration error')
    assert shown.endswith(">calibration error (ECE)</abbr>")
