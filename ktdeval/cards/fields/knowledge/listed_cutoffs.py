"""Knowledge cutoffs of models: as an option spells them, and as the lists of models give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, cast

from ktdeval.calls.served_model_name import bare_model
from ktdeval.cards.fields.origin.fact_types import (
    LOWER_BOUND,
    CutoffConfidence,
    CutoffEntry,
    NoCutoff,
    first_day_of,
)
from ktdeval.errors import DataError, UsageError
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.facts import facts_file

_AT_HOST = re.compile(r"(:(free|nitro|floor|exacto|extended|online|thinking)|-v\d+:\d+)\Z")
"""Suffixes that hosts add to a model's name."""


def parse_cutoff_or_state(spelled: str, where: str) -> CutoffEntry | NoCutoff:
    """Return the cutoff for a day or month, or the state for `none` or `unknown`. Raises UsageError
    as `parse_cutoff` does.
    """
    if spelled == "none":
        return "none"
    return "unknown" if spelled == "unknown" else parse_cutoff(spelled, "given", where, where)


def parse_cutoff(
    spelled: str,
    confidence: CutoffConfidence = "given",
    source: str = "",
    where: str = "--cutoff",
) -> CutoffEntry:
    """Return the cutoff for a day (2024-06-01) or a month (2024-06). Raises UsageError, with a
    message that starts with `where`, if the string is neither.
    """
    try:
        first_day_of(spelled)
    except DataError:
        raise UsageError(
            f"{where}: {spelled[:40]!r} is neither a day (2024-06-01) nor a month (2024-06)"
        ) from None

    return CutoffEntry(date=spelled, confidence=confidence, source=source)


def listed_cutoff(model: str, args: Mapping[str, Any]) -> CutoffEntry | NoCutoff:
    """Return the listed cutoff of a model such as openai/gpt-4o, from the first source that has
    one:

    - the first matching pattern in cutoffs.csv
    - the lower bound in reported_cutoffs.csv
    - the training days recorded in a policy's arguments

    Returns `none` for a rule that was not trained.
    """
    days = str(args.get("trained", "")).split(":")
    if model == "rl/policy" and len(days) == len(("first", "last")):
        return parse_cutoff(
            days[1], "recorded", "last day of training in the policy's file", "trained"
        )

    row = _listed_row(model)
    if row is None or (row["cutoff"] == "unknown" and "/" not in row["pattern"]):
        return _reported_cutoff(model)
    if row["cutoff"] in ("unknown", "none"):
        return cast("NoCutoff", row["cutoff"])
    return parse_cutoff(row["cutoff"], row["confidence"], row["source"])  # type: ignore[arg-type]


def _reported_cutoff(model: str) -> CutoffEntry | NoCutoff:
    """Return the date that third parties report as the end of a model's knowledge. The date is a
    lower bound because the training data may end later.
    """
    row = _read_reported_cutoffs().get(reported_name(model))
    if row is None:
        return "unknown"

    source = f"https://models.dev of {row['checked']}, {row['listed_by']}"
    return parse_cutoff(row["cutoff"], LOWER_BOUND, source)


def _listed_row(model: str) -> dict[str, str] | None:
    """Return the first matching row of cutoffs.csv. A pattern without a provider matches the
    model's own name at any provider.
    """
    bare = _own_name(model)
    for row in _read_cutoff_list():
        name = model if "/" in row["pattern"] else bare
        if fnmatchcase(name, row["pattern"]):
            return row
    return None


def _own_name(model: str) -> str:
    """Return the vendor's own name for a model, given the model's name at a host. The region,
    vendor and version in Amazon Bedrock names are removed, as is a gateway's route.
    """
    return _AT_HOST.sub("", bare_model(model)).replace(":", "-")


def reported_name(model: str) -> str:
    """Return the key of a model in reported_cutoffs.csv: the vendor's own name, with dots replaced
    by hyphens as some hosts do.
    """
    return _own_name(model).replace(".", "-")


def listed_days() -> list[str]:
    """Return the days on which the rows of both lists were looked up, earliest first."""
    rows = [*_read_cutoff_list(), *_read_reported_cutoffs().values()]
    return sorted({row["checked"] for row in rows if row["checked"]})


@cache
def _read_cutoff_list() -> list[dict[str, str]]:
    return csv_rows(facts_file("cutoffs.csv"))


@cache
def _read_reported_cutoffs() -> dict[str, dict[str, str]]:
    """Return the rows written by `benchmarks/renew_model_facts.py`, keyed by model name."""
    rows = csv_rows(facts_file("reported_cutoffs.csv"))
    return {row["name"]: row for row in rows}


def run_cutoff(model: str, args: Mapping[str, Any], option: str | None) -> CutoffEntry | NoCutoff:
    """Return the cutoff that a run records: the one given by `--knowledge-cutoff` (`option`),
    otherwise the listed one. Raises UsageError if the option is neither a date nor a state.
    """
    if option is None:
        return listed_cutoff(model, args)
    return parse_cutoff_or_state(option, "--knowledge-cutoff")
