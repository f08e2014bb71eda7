"""What repairs lose, alone and together: days, codes and bars that are left afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ktdeval.errors import DataError, UsageError
from ktdeval.values import Finding
from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.sources.raw_tables import RawMarket

MAX_LOSS = 0.1  #: share of the days, codes or bars beyond which a loss is named
Apply = Callable[[RawMarket, Sequence[str]], RawMarket]
"""Return a market after repairs, given by their names."""

_DROPPING = ("drop_", "keep_")  # prefixes of repairs that leave out rows
_ADJUSTED = (
    "; if closes are adjusted for splits or dividends, unlike open, high and low, name the closes as "
    "traded instead: --map close=COLUMN"
)


def loss_of(before: RawMarket, after: RawMarket) -> str:
    """Return what is left where a repair loses more than a tenth of the days, codes or bars, such
    as `13 of 24 days`; otherwise an empty string.
    """
    counts = {
        "days": (len(before.table.days), len(after.table.days)),
        "codes": (len(before.table.codes), len(after.table.codes)),
        "bars": (len(before.bars), len(after.bars)),
    }
    for unit, (all_of_them, left) in counts.items():
        if left < (1 - MAX_LOSS) * all_of_them:
            return f"{left:,} of {all_of_them:,} {unit}"
    return ""


def with_losses(raw: RawMarket, finding: Finding, apply: Apply) -> Finding:
    """Return the finding with what its repairs leave, if they lose many days, codes or bars."""
    told = []
    for name in finding.repairs:
        if not name.startswith(_DROPPING):
            continue
        try:
            loss = loss_of(raw, apply(raw, [name]))
        except DataError:  # no bars are left
            continue
        if loss:
            told.append(f"{name} leaves {loss}")
    if not told:
        return finding

    cause = _ADJUSTED if finding.rule == "impossible_bars" else ""
    return dataclasses.replace(finding, fix=f"{finding.fix} ({'; '.join(told)}{cause})")


def all_together(raw: RawMarket, findings: Sequence[Finding], apply: Apply) -> str:
    """Return the option with the repairs of all errors together, and what they leave. Return an
    empty string if fewer than two repairs are advised, if an error has no repair, or if repairs
    exclude each other.
    """
    errors = [finding for finding in findings if finding.level == "error"]
    names = list(dict.fromkeys(finding.repairs[0] for finding in errors if finding.repairs))
    if len(names) < 2 or not all(finding.repairs for finding in errors):
        return ""
    try:
        after = apply(raw, names)
        left = [finding for finding in check(after) if finding.level == "error"]
    except (DataError, UsageError):  # no bars are left, or two repairs exclude each other
        return ""

    option = f"--repair {','.join(names)}"
    if left:
        return f"; together ({option}) these repairs leave {left[0].count} {left[0].rule}"
    loss = loss_of(raw, after)
    told = f", which leaves {loss}" if loss else ""
    return f"; together: {option}{told}"
