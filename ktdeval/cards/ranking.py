"""Whether a card may stand in a ranking: a whole evaluation, whose steps the model itself decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval.jsonio import JsonValue

LEAST_DECIDED_PERCENT = 95
"""Share of the planned steps that the model must have decided itself. Below it a card shows holds of the engine, not the model."""

PLACEBO_SOURCE = "placebo of snapshot "
"""How the source of a placebo market begins."""

Entry = Mapping[str, JsonValue]


def planned_steps(card: Entry) -> int:
    """Steps of the whole plan, missing episodes included: the days of each episode's window, or the limit where that is less.

    Args:
        card: has `windows`, `limit`, `episodes` and `missing_episodes`.
    """
    days = {window["name"]: window["days"] for window in card["windows"]}
    planned: Sequence[Entry] = [*card["episodes"], *card["missing_episodes"]]
    return sum(min(days[episode["window"]], card["limit"] or days[episode["window"]]) for episode in planned)


def has_low_coverage(coverage: Entry) -> bool:
    """Whether the model decided less than `LEAST_DECIDED_PERCENT` of the planned steps."""
    return bool(100 * coverage["steps_decided"] < LEAST_DECIDED_PERCENT * coverage["steps_planned"])


def is_placebo(card: Entry) -> bool:
    """Whether the market was made from another one so that true selection is zero by construction."""
    return str(card["snapshot"]["source"]).startswith(PLACEBO_SOURCE)


def rankable(card: Entry, coverage: Entry, step: str = "step") -> dict[str, JsonValue]:
    """Whether the card is rankable, with every reason why it is not.

    A synthetic market is no reason: such cards are ranked among themselves.

    Args:
        card: has `snapshot`, `limit` and `missing_episodes`.
        coverage: the card's coverage.
        step: what a step is called.
    """
    limit, planned, finished = card["limit"], coverage["episodes_planned"], coverage["episodes_finished"]
    reasons = []
    if is_placebo(card):
        reasons.append("the market is a placebo, on which there is nothing to select")
    if limit is not None:
        reasons.append(f"every episode was cut after {limit:,} {step}{'' if limit == 1 else 's'}")
    if finished < planned:
        reasons.append(f"{planned - finished:,} of {planned:,} episodes did not finish")
    if has_low_coverage(coverage):
        share = f"{decided_percent(coverage)} % of {coverage['steps_planned']:,} {step}s"
        reasons.append(f"the model decided {share}; {LEAST_DECIDED_PERCENT} % are needed")
    return {"value": not reasons, "reasons": reasons}


def decided_percent(coverage: Entry) -> str:
    """Share of the planned steps that the model decided, in per cent, rounded down so that 94.96 does not read as 95."""
    tenths = 1000 * coverage["steps_decided"] // max(coverage["steps_planned"], 1)
    return f"{tenths // 10}.{tenths % 10}"
