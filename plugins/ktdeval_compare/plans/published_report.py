"""Reports of `compare power --published`. Takes options, and prints text or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktdeval.errors import UsageError
from ktdeval_compare.plans import published_power, published_power_texts
from ktdeval_compare.plans.published_options import Published
from ktdeval_compare.table_columns import print_result


def show_published(name: Published, settings: dict[str, Any], cards: Sequence[object]) -> None:
    """Print the report on published designs or figures.

    Raises UsageError if cards are also given, or an option that applies only to a user's own plan.
    """
    others = _options_of_plans(name, settings)
    if cards:
        others.append("cards")
    if others:
        raise UsageError(
            f"--published {name} takes no {', '.join(others)}: its plan is fixed; leave them out"
        )

    alpha = settings["alpha"]
    wanted = settings["wanted"]
    if name == "designs":
        error = settings["tracking_error"]
        if error is None:
            error = published_power.TRACKING_ERROR
        designs = published_power.designs_report(alpha, wanted, error)
        report: object = designs
        parts = published_power_texts.designs_parts(designs)
    else:
        path = published_power.path_report(name, alpha, wanted)
        report = path
        parts = published_power_texts.path_parts(path)

    print_result(report, parts, None, settings["as_json"])


def _options_of_plans(name: Published, settings: dict[str, Any]) -> list[str]:
    """Return the options that apply only to a user's own plan and that are not at their default
    values.
    """
    taken = {"published", "alpha", "wanted", "as_json"}
    if name == "designs":
        taken.add("tracking_error")

    defaults = {"comparisons": 1, "metric": "total_return"}
    others = []
    for option, value in settings.items():
        if option not in taken and value != defaults.get(option):
            others.append("--" + option.replace("_", "-"))

    return others
