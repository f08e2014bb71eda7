"""Arms of a run, such as news or an attack: paired effects over the entrants."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval_published.estimates import mean_of
from ktdeval_published.recipe import BoardRecipe
from ktdeval_published.report import ArmEffect, EntrantReport


def arm_effects(recipe: BoardRecipe, entrants: Sequence[EntrantReport]) -> tuple[ArmEffect, ...]:
    """Return the effect of each arm against the base, paired by entrant, in executed returns."""
    if recipe.arms is None:
        return ()
    by_arm: dict[str, dict[str, EntrantReport]] = {}
    for one in entrants:
        if one.executed is not None:
            by_arm.setdefault(one.arm, {})[one.pair] = one

    base = by_arm.get(recipe.arms.base, {})
    return tuple(
        _effect(arm, recipe.arms.base, by_arm.get(arm, {}), base) for arm in recipe.arms.others
    )


def _effect(
    arm: str, name: str, with_arm: dict[str, EntrantReport], base: dict[str, EntrantReport]
) -> ArmEffect:
    pairs = sorted(set(with_arm) & set(base))
    returns = [_return(with_arm[pair]) - _return(base[pair]) for pair in pairs]
    turnover = [_turnover(with_arm[pair]) - _turnover(base[pair]) for pair in pairs]
    return ArmEffect(
        arm=arm,
        base=name,
        pairs=len(pairs),
        total_return=mean_of(returns),
        turnover=mean_of(turnover),
        worse=sum(value < 0 for value in returns),
        look_ahead=_look_ahead(list(with_arm.values())),
    )


def _return(one: EntrantReport) -> float:
    assert one.executed is not None, "it is paired"
    return one.executed.total_return or 0.0


def _turnover(one: EntrantReport) -> float:
    """Return the traded amount in multiples of the capital."""
    assert one.executed is not None, "it is paired"
    gain, total = one.executed.gain, one.executed.total_return
    if not gain or not total or not one.costs:
        return 0.0
    return one.costs[0].traded / (gain / total)


def _look_ahead(entrants: Sequence[EntrantReport]) -> str:
    logs = [one.logs for one in entrants if one.logs is not None]
    if not logs:
        return ""
    dated = sum(one.with_dated for one in logs)
    total = sum(one.logs for one in logs)
    text = f"{dated} of {total} logs show a document that states a later day of publication"
    if any(one.reason for one in logs):
        return text
    later = sum(one.with_later for one in logs)
    return f"{text}; {later} name a later day in a tool's result"
