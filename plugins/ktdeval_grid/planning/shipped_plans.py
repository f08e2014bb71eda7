"""Plans shipped with the suite, keyed by name."""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval.values import near_matches, user_path

PLANS = Path(__file__).parent / "plans"


def shipped_plans() -> dict[str, Path]:
    """Return the files of all plans shipped with the suite, keyed by name."""
    return {path.stem: path for path in sorted(PLANS.glob("*.yaml"))}


def plan_path(text: str) -> Path:
    """Return the file of a plan, given its path or the name of a shipped plan.

    Raises UsageError if neither exists.
    """
    path = user_path(text)
    if path.is_file():
        return path

    plans = shipped_plans()
    if text in plans:
        return plans[text]

    raise UsageError(
        f"{text}: no such file, and no plan of this name{near_matches(text, plans)}; plans that"
        f" ship with the suite are {', '.join(plans)}"
    )
