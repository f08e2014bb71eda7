"""Traces of research in a decision: items that only a tool's result had shown.

Records contain no decision made before the research, so they can't show whether the research
changed a decision. They do show whether the decision contains an item that a result was the first
to show. Such an item is a label in an order or a reason, or a figure with three or more digits. A
result without a trace may still have been used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktdeval_rationale.claims.shown_facts import ShownFacts
from ktdeval_rationale.claims.text_figures import TextFigure, normalise_text, text_figures

_MIN_DIGITS = 3
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9]*_\d+|[A-Z]{2,6}\b|\d{6}(?:\.[A-Z]{2})?")


def traced_results(
    prompt_texts: Sequence[str],
    results: Sequence[str],
    reasons: Sequence[str],
    order_labels: Sequence[str],
) -> list[bool]:
    """Return, for each tool result, whether the decision contains an item that the result was the
    first to show.

    `prompt_texts` are the texts shown without research. `results` must be in the order in which
    they were shown.
    """
    named = set(order_labels)
    figures: list[TextFigure] = []
    for reason in reasons:
        text = normalise_text(reason)
        named.update(_LABEL.findall(text))
        figures += [one for one in text_figures(text) if one.significant >= _MIN_DIGITS]

    seen_labels: set[str] = set()
    for text in prompt_texts:
        seen_labels.update(_LABEL.findall(text))

    open_figures = _unseen(figures, prompt_texts)
    traces: list[bool] = []
    for result in results:
        labels = set(_LABEL.findall(result))
        left = _unseen(open_figures, [result])
        is_traced = bool((labels - seen_labels) & named) or len(left) < len(open_figures)
        traces.append(is_traced)
        seen_labels |= labels
        open_figures = left

    return traces


def _unseen(figures: Sequence[TextFigure], texts: Sequence[str]) -> list[TextFigure]:
    """Return the figures that do not occur in any of the texts."""
    if not figures:
        return []

    numbers = ShownFacts.of(texts).numbers
    return [figure for figure in figures if not numbers.has(figure)]
