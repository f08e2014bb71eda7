"""Election rule: for each asset, the side that more than half of all voters chose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import fmean, median, median_low
from typing import Any

from ktdeval.harness import label_key
from ktdeval.values import dumps_canonical

_SIDE_OF = {"orders": "side", "decisions": "decision"}
"""Field that holds the side of an item, keyed by kind of submission."""


def elect_submission(ballots: Sequence[Mapping[str, Any]], voters: int) -> Mapping[str, Any]:
    """Return the elected submission. For each asset, it has the side that more than half of all
    voters chose, with their mean confidence and median size. Exactly half is not a majority:
    without a majority, the asset gets no order, or HOLD. If the ballots have another form, the most
    frequent ballot is elected; ties go to the first.
    """
    kind = _kind_of(ballots)
    if kind is None:
        return _max_frequent(ballots)

    side_of = itemgetter(_SIDE_OF[kind])
    items = list[Mapping[str, Any]]()
    for votes in _votes_by_asset(ballots, kind):
        side, count = Counter(map(side_of, votes)).most_common(1)[0]
        chosen = [item for item in votes if side_of(item) == side]
        if 2 * count > voters:
            items.append(_combine_items(chosen))
        elif kind == "decisions":
            items.append(
                {
                    "stock_id": chosen[0]["stock_id"],
                    "decision": "HOLD",
                    "confidence": 0.5,
                    "reason": "no majority among the voters",
                }
            )

    return {kind: items, "overall_reason": f"Elected by {len(ballots)} ballots of {voters} voters."}


def _kind_of(ballots: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the kind of items that all ballots list (`orders` or `decisions`); None for other
    forms.
    """
    for kind in _SIDE_OF:
        if all(kind in ballot for ballot in ballots):
            return kind
    return None


def _max_frequent(ballots: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    texts = [dumps_canonical(ballot) for ballot in ballots]
    ((text, _),) = Counter(texts).most_common(1)
    return ballots[texts.index(text)]


def _votes_by_asset(
    ballots: Sequence[Mapping[str, Any]], kind: str
) -> list[list[Mapping[str, Any]]]:
    """Return the items for each asset. If a ballot has several items for an asset, the last one
    counts.
    """
    by_asset: dict[str, dict[int, Mapping[str, Any]]] = {}
    for voter, ballot in enumerate(ballots):
        for item in ballot[kind]:
            by_asset.setdefault(label_key(item["stock_id"]), {})[voter] = item

    return [list(votes.values()) for votes in by_asset.values()]


def _combine_items(items: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the first of several items on one side, with the mean confidence of all. If all items
    have a weight, the result has their median weight (for an even number, the mean of the middle
    two). If all have a number of shares, the result has the lower median, which is a number that
    was submitted. The same rule applies to limits.
    """
    combined = {**items[0], "confidence": fmean(item["confidence"] for item in items)}
    weights = [item["target_weight"] for item in items if "target_weight" in item]
    shares = [item["shares"] for item in items if "shares" in item]
    if len(weights) == len(items):
        combined["target_weight"] = median(weights)
    elif len(shares) == len(items):
        combined["shares"] = median_low(shares)

    combined.pop("limit", None)
    limits = [item["limit"] for item in items if "limit" in item]
    if len(limits) == len(items):
        combined["limit"] = median_low(limits)

    return combined
