"""Command line that resumes a run or grid that was stopped by a budget."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

_DIGITS = 2  # number of digits in a suggested budget in US dollars


def resume_line(
    words: Sequence[str], limits: Mapping[str, float | None], needed: Mapping[str, float]
) -> str:
    """Return the command line that resumes a run or grid, with budgets high enough to continue.

    `words`: words of the original command. `limits`: its budgets, keyed by option name, where None
    means no limit. `needed`: as in `BudgetError`; if it is empty, the original words resume.
    Budgets are at least doubled, so that the run does not stop again at the next call.
    """
    resumed = list(words)
    for name, least in needed.items():
        before = limits.get(name) or 0.0
        raised = 2 * max(before, least)
        text = str(math.ceil(raised)) if name == "max_tokens" else _rounded_up(raised)
        option = "--" + name.replace("_", "-")
        resumed = [*_without_option(resumed, option), option, text]

    return shlex.join(["ktdeval", *resumed])


def _rounded_up(dollars: float) -> str:
    """Return an amount rounded up to two significant digits."""
    if dollars <= 0:
        return "1"

    digits = _DIGITS - 1 - math.floor(math.log10(dollars))
    step = 10.0**-digits
    return f"{math.ceil(dollars / step) * step:.{max(digits, 0)}f}"


def _without_option(words: Sequence[str], option: str) -> list[str]:
    """Return the words without an option and its value."""
    kept = []
    skips_value = False
    for word in words:
        if skips_value:
            skips_value = False
            continue

        name, equals, _value = word.partition("=")
        if name.replace("_", "-") != option:
            kept.append(word)
        else:
            skips_value = not equals

    return kept
