"""Findings of the check of a market: kinds, words and fixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal, cast

import numpy as np

from ktdeval.market.snapshots.snapshot import BoolArray
from ktdeval.market.sources.raw_tables import RawMarket
from ktdeval.values.files import csv_rows

Severity = Literal["error", "warning", "info"]


EXAMPLES = 5


NOTHING = "nothing to fix"  #: What the fix of a finding begins with that needs none


@dataclass(frozen=True)
class Finding:
    """One kind of fault (or notable fact) in market data."""

    kind: str  #: identifier, as listed in the docs
    #: `error` blocks an import, `warning` may bend results, `info` is worth knowing
    severity: Severity
    count: int  #: how many rows, codes or days; the hint says which
    examples: tuple[str, ...]  #: the first few, in words
    hint: str  #: what it means
    repairs: tuple[str, ...] = ()  #: names of repairs that fix it
    fix: str = ""  #: what to do about it, in words, with the options that do it


@cache
def _words_by_kind() -> Mapping[str, Mapping[str, str]]:
    """Severity, repairs and hint of each kind of finding."""
    return {row["kind"]: row for row in csv_rows(Path(__file__).with_name("findings.csv"))}


def finding_of(
    kind: str,
    count: int,
    examples: Iterable[str] = (),
    about: object = "",
    fix: str = "",
) -> Finding:
    """Return a finding in the words of its kind; `about` and `fix` fill the blanks in them."""
    words = _words_by_kind()[kind]
    return Finding(
        kind=kind,
        severity=cast("Severity", words["severity"]),
        count=count,
        examples=tuple(islice(examples, EXAMPLES)),
        hint=words["hint"].format(about),
        repairs=tuple(words["repairs"].split()),
        fix=words["fix"].format(fix),
    )


def bars_finding(raw: RawMarket, kind: str, mask: BoolArray, fix: str = "") -> Finding:
    """Return a finding about the bars of a mask, the first of them as examples."""
    rows = np.flatnonzero(mask)
    return finding_of(kind, len(rows), (raw.table.label(int(row)) for row in rows), fix=fix)
