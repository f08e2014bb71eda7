"""Findings of the market check: rules, messages and fixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np

from ktdeval.market import BoolArray
from ktdeval.values import MAX_EXAMPLES, Finding, Level, csv_rows
from ktdeval_raw_markets.sources.raw_tables import RawMarket


@cache
def _words_by_rule() -> Mapping[str, Mapping[str, str]]:
    """Return each rule's severity, repairs and message."""
    return {row["rule"]: row for row in csv_rows(Path(__file__).with_name("findings.csv"))}


def finding_of(
    rule: str,
    count: int,
    examples: Iterable[str] = (),
    about: object = "",
    fix: str = "",
) -> Finding:
    """Return a finding with the message for its rule; `about` and `fix` fill the message's
    placeholders.
    """
    words = _words_by_rule()[rule]
    return Finding(
        rule=rule,
        level=cast("Level", words["level"]),
        count=count,
        examples=tuple(islice(examples, MAX_EXAMPLES)),
        message=words["message"].format(about),
        repairs=tuple(words["repairs"].split()),
        fix=words["fix"].format(fix),
    )


def bars_finding(raw: RawMarket, rule: str, mask: BoolArray, fix: str = "") -> Finding:
    """Return a finding about the bars that a mask selects; the first few serve as examples."""
    rows = np.flatnonzero(mask)
    return finding_of(rule, len(rows), (raw.table.label(int(row)) for row in rows), fix=fix)
