"""Report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.cards import clean
from ktdeval.cli import grid_lines
from ktdeval.jsonio import JsonValue
from ktdeval_rationale.linter import LEAK_CATEGORIES
from ktdeval_rationale.rates import Row

UNDEFINED = "-"
ROW_NAMES: Mapping[str, str] = {
    "stock": "company, brand or sector",
    "calendar": "date or event",
    "any": "any of all",
}
_TABLES = (
    ("reason_rates", "reasons", "Reasons that name it, % of reasons with a text"),
    ("step_rates", "steps", "Steps that name it in any text (reasons, research, reasoning), % of steps with a text"),
    ("unsent_rates", "steps", "Steps that name something the model had not been sent in that step, % of steps with a text"),
)
_HIDING_ROWS = ("stock", "calendar", "hindsight", "recognition")
_EFFECTS: Mapping[str, str] = {
    "memory_premium": "both in sight",
    "stock_effect": "stock in sight",
    "date_effect": "date in sight",
    "interaction": "interaction",
}


def report_lines(report: Row) -> Iterator[str]:
    """Report as lines of text."""
    for subject in report["subjects"]:
        yield f"{subject['subject']}"
        for name, unit, title in _TABLES:
            yield ""
            yield f"  {title}"
            yield from _indented(_rates(subject["masks"], name, unit))
        if subject["hiding"]:
            yield ""
            yield "  What hiding removes: share of steps before less after, paired by window and seed where pairs > 0"
            yield from _indented(_hiding(subject["hiding"]))
        if subject["effects"]:
            yield ""
            yield "  All four masks together: effect of having it in sight on the share of steps, mean over windows"
            yield from _indented(_effects(subject["effects"]))
        yield from _examples(subject)
        yield ""
    yield from _second_stage(report)
    yield from (f"note: {clean(note)}" for note in report["notes"])


def per_cent(rate: Row) -> str:
    """`12.3 [10.1, 14.9]`: a share and its interval in per cent."""
    if rate["share"] is None:
        return UNDEFINED
    return f"{100 * rate['share']:.1f} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def _rates(masks: Mapping[str, Row], table: str, unit: str) -> list[str]:
    """Rows that no mask names are left out, but for the groups."""
    rows: list[tuple[str, ...]] = [("n", *(str(rates[unit]) for rates in masks.values()))]
    for name in (*LEAK_CATEGORIES, *ROW_NAMES):
        if name in ROW_NAMES or any(rates[table][name]["count"] for rates in masks.values()):
            rows.append((ROW_NAMES.get(name, name), *(per_cent(rates[table][name]) for rates in masks.values())))
    for name in ("resembling", "only_resembling") if table == "step_rates" else ():
        if all(name in rates for rates in masks.values()):
            label = {"resembling": "resembles a leak", "only_resembling": "… and names nothing"}[name]
            rows.append((label, *(per_cent(rates[name]) for rates in masks.values())))
    return grid_lines(("", *masks), rows, ("",))


def _hiding(rows: Sequence[Row]) -> list[str]:
    heads = ("hidden", "named", "pairs", "before %", "after %", "less", "95 % interval", "Appendix A")
    pairs = list(dict.fromkeys((row["before"], row["after"]) for row in rows))
    kept = [row for row in rows if row["row"] in _HIDING_ROWS]
    kept.sort(key=lambda row: (pairs.index((row["before"], row["after"])), _HIDING_ROWS.index(row["row"])))
    shown = [
        (
            f"{row['hidden']}: {row['before']} → {row['after']}",
            ROW_NAMES.get(row["row"], row["row"]),
            str(row["pairs"]),
            _points(row["share_before"]),
            _points(row["share_after"]),
            _signed(row["difference"]),
            _both(row),
            row["verdict"] or "",
        )
        for row in kept
    ]
    return grid_lines(heads, shown, ("hidden", "named", "Appendix A"))


def _effects(rows: Sequence[Row]) -> list[str]:
    shown = [
        (
            ROW_NAMES.get(row["row"], row["row"]),
            _EFFECTS.get(row["effect"], row["effect"]),
            str(row["windows"]),
            _signed(row["value"]),
            _both(row),
        )
        for row in rows
    ]
    return grid_lines(("named", "effect", "windows", "points", "95 % interval"), shown, ("named", "effect"))


def _examples(subject: Row) -> Iterator[str]:
    if subject["examples"]:
        yield ""
        yield "  Examples (* not among what the model was sent in that step)"
    for row in subject["examples"]:
        mark = " " if row["was_sent"] else "*"
        yield clean(f"  {mark} {row['mask']} {row['category']}: {row['before']}⟦{row['text']}⟧{row['after']}")
        yield clean(f"      {row['where']}, decided on {row['decided_on']}")
    for mask, rows in subject["resemblances"].items():
        for row in rows:
            yield clean(f"  ~ {mask} {row['category']} {row['similarity']:.2f}: {row['text']}  ≈  {row['anchor']}")
            yield clean(f"      {row['where']}")


def _second_stage(report: Row) -> Iterator[str]:
    stage = report["second_stage"]
    if stage is None:
        return
    if stage["encoder"] is None:
        yield f"second stage not run: {stage['reason']}"
    else:
        yield f"second stage: {clean(stage['encoder'])}, lead of a leak over harmless sentences above {stage['threshold']:.3f}"


def _points(value: JsonValue) -> str:
    return UNDEFINED if value is None else f"{100 * value:.1f}"


def _signed(value: JsonValue) -> str:
    return UNDEFINED if value is None else f"{100 * value:+.1f}"


def _both(row: Row) -> str:
    return UNDEFINED if row["low"] is None or row["high"] is None else f"{100 * row['low']:+.1f} … {100 * row['high']:+.1f}"


def _indented(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"    {line}" for line in lines)
