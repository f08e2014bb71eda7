"""Write the tables of docs/real-models.md from the stored cards and records alone.

python -m real_models.page           write the page
python -m real_models.page --check   compare alone: exit code 1 where it differs
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ktdeval.stats import wilson
from real_models.entrants import FOLDER, Task, models
from real_models.records import Record, records

PAGE = FOLDER.parents[1] / "docs" / "real-models.md"
EFFECTS = FOLDER / "example_effect.csv"
LEVEL = 0.95
NONE = "–"
NO_EVIDENCE = "no evidence"
SIDES = ("BUY", "SELL", "HOLD")
KINDS = ("code", "month", "close")
SAYS = {"code": "which code", "month": "month up or down", "close": "close within 10 %"}
RULES = {
    "builtin/trivial": "shortest answer, no call (rule)",
    "builtin/random": "random (rule)",
    "builtin/first_listed": "first listed (rule)",
    "builtin/memory": "a planted memory (rule)",
}
Rows = list[tuple[str, ...]]


def main() -> None:
    """Write the page, or compare."""
    old = PAGE.read_text("utf-8")
    new = page(old, list(records()))
    if sys.argv[1:] == ["--check"]:
        raise SystemExit(int(old != new))

    PAGE.write_text(new, "utf-8")


def page(text: str, found: Sequence[Record]) -> str:
    """Return the page with its tables made again."""
    made = {
        "models": table(("model", "parameters file", "licence"), entrants()),
        "controls": table(("model", "mask", *(SAYS[kind] for kind in KINDS)), controls(found)),
        "memory": table(("model", "mask", *(SAYS[kind] for kind in KINDS)), memory(found)),
        "qfinzero": table(("model", "task", "TM", "PA", "TA", "n"), qfinzero(found)),
        "form": table(
            (
                "model",
                "task",
                "valid at first try",
                "tool calls valid",
                "probability of the prompt",
            ),
            form(found),
        ),
        "brier": table(("model", "mask", *(SAYS[kind] for kind in KINDS)), brier(found)),
        "cost": table(
            ("model", "task", "n", "processor s", "tokens in", "from cache", "tokens out"),
            cost(found),
        ),
        "examples": table(
            (
                "model",
                "prompts",
                "example",
                "n",
                "its confidence",
                "weight 0.05",
                "BUY",
                "SELL",
                "HOLD",
            ),
            effects(),
        ),
    }
    for name, made_table in made.items():
        text = _replaced(text, name, made_table)

    return text


# --- rows


def entrants() -> Rows:
    """Return the models with their licences."""
    return [
        (f"[{model.title}]({model.home})", f"`{model.sha256[:8]}…`", model.licence)
        for model in models().values()
    ]


def controls(found: Sequence[Record]) -> Rows:
    """Return shares of right answers where the prompt holds the answer."""
    return _floor_rows(found, lambda record, kind: _share(record, f"{kind}_control"))


def memory(found: Sequence[Record]) -> Rows:
    """Return shares of right answers from memory, each with what may be concluded."""
    return _floor_rows(found, remembered)


def brier(found: Sequence[Record]) -> Rows:
    """Return Brier scores of stated probabilities, next to those of the best constant."""
    return _floor_rows(found, _brier)


def qfinzero(found: Sequence[Record]) -> Rows:
    """Return scores of calls, with intervals over items."""
    rows = []
    for record in _of(found, "qfinzero"):
        cells = (_share(record, name, with_n=False) for name in ("tm", "pa", "ta"))
        n = record.card["scores"]["tm"]["n"]
        rows.append((_name(record), _task(record.cell.task), *cells, str(n)))

    return rows


def form(found: Sequence[Record]) -> Rows:
    """Return how often a model's form is right: first answers, calls, probabilities."""
    rows = []
    for record in found:
        card = record.card
        decisions = card["decisions"]
        valid = _wilson(decisions["model"], sum(decisions.values()))
        calls = _wilson(card["usage"]["tool_calls_valid"], card["usage"]["tool_calls"])
        copied = NONE
        if "copied_probability" in card["scores"]:
            copied = _share(record, "copied_probability")
        rows.append((_name(record), _task(record.cell.task), valid, calls, copied))

    return rows


def cost(found: Sequence[Record]) -> Rows:
    """Return processor time and tokens for each question."""
    rows = []
    for record in found:
        if not record.processor:
            continue

        usage = record.card["usage"]
        n = record.card["coverage"]["steps"]
        figures = [_processor_s(record, n)]
        for name in ("input_tokens", "cache_read_tokens", "output_tokens"):
            figures.append(f"{usage[name] / n:,.0f}")
        rows.append((_name(record), _task(record.cell.task), str(n), *figures))

    return rows


def effects() -> Rows:
    """Return what the example of a prompt does, as means over prompts."""
    if not EFFECTS.exists():
        return []

    cells: dict[tuple[str, str, str], dict[tuple[str, str], dict[str, float]]] = {}
    with EFFECTS.open(newline="") as file:
        for row in csv.DictReader(file):
            cell = cells.setdefault((row["model"], row["label"], row["variant"]), {})
            prompt = cell.setdefault((row["task"], row["step"]), {})
            prompt[row["outcome"]] = float(row["probability"])

    rows = []
    for (model, label, variant), by_prompt in cells.items():
        rows.append((models()[model].title, label, variant, *_effect(variant, by_prompt)))

    return rows


# --- cells


def _effect(
    variant: str, by_prompt: Mapping[tuple[str, str], Mapping[str, float]]
) -> tuple[str, ...]:
    """Return means over prompts: the mass of the example's figures, and of each side."""
    prompts = list(by_prompt.values())
    figure = {"confidence 0.3": "0.3", "confidence 0.9": "0.9"}.get(variant, "0.6")
    cells = [str(len(prompts))]

    for outcome in (f"confidence {figure}", "weight 0.05", *SIDES):
        known = [100 * prompt[outcome] for prompt in prompts if outcome in prompt]
        text = NONE
        if known:
            text = f"{fmean(known):.0f} %"
        if len(known) > 1:
            text += f" ({min(known):.0f} to {max(known):.0f})"
        cells.append(text)

    return tuple(cells)


def _floor_rows(found: Sequence[Record], cell: Any) -> Rows:
    rows = []
    for record in _of(found, "memory_floor"):
        mask = record.cell.task.name.removeprefix("memory_floor_")
        rows.append((_name(record), mask, *(cell(record, kind) for kind in KINDS)))

    return rows


def remembered(record: Record, kind: str) -> str:
    """Return a share with its interval, and what follows: where it is no evidence, why."""
    score = record.card["scores"][kind]
    verdict, _, rest = score["detail"]["verdict"].partition(": ")
    says = f"**{verdict}**"
    if verdict == NO_EVIDENCE:
        reason = re.split("[,;:]", rest)[0]
        says += f" ({reason})"
    if score["value"] is None:
        return f"{NONE} {says}"

    return f"{_share(record, kind)}; guessing {_percent(score['baseline'])}: {says}"


def _brier(record: Record, kind: str) -> str:
    score = record.card["scores"][f"{kind}_brier"]
    if score["value"] is None:
        return NONE

    interval = score["interval"] or {}
    text = f"{score['value']:.3f}"
    if interval.get("low") is not None:
        text += f" ({interval['low']:.3f} to {interval['high']:.3f})"
    if score["baseline"] is not None:
        text += f"; constant {score['baseline']:.3f}"

    return f"{text}; n = {score['n']}"


def _processor_s(record: Record, n: int) -> str:
    """Return processor time for each question. Replies of an earlier stage took none again, so the
    time is that of an answered call, times the calls of a question.
    """
    calls = record.card["provenance"]["calls"]
    answered = calls["answered"] + calls["checks"]["attempts"]
    if not answered:
        return NONE

    each = record.processor["server_s"] / answered
    return f"{each * calls['requests'] / n:.1f}"


def _share(record: Record, name: str, *, with_n: bool = True) -> str:
    """Return a share of a card with its interval."""
    score = record.card["scores"][name]
    if score["value"] is None:
        return NONE

    interval = score["interval"] or {}
    text = _percent(score["value"])
    if interval.get("low") is not None:
        text += f" ({100 * interval['low']:.0f} to {100 * interval['high']:.0f})"
    if with_n:
        text += f", n = {score['n']}"

    return text


def _wilson(right: int, n: int) -> str:
    if not n:
        return NONE

    interval = wilson(right, n, LEVEL)
    return f"{_percent(right / n)} ({100 * interval.low:.0f} to {100 * interval.high:.0f}), n = {n}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _name(record: Record) -> str:
    name = record.cell.model
    if name in RULES:
        return RULES[name]
    return models()[name].title.partition(",")[0]


def _task(task: Task) -> str:
    return f"`{task.name}`"


def _of(found: Sequence[Record], family: str) -> list[Record]:
    return [record for record in found if record.cell.task.name.startswith(family)]


# --- text


def table(header: Sequence[str], rows: Rows) -> str:
    """Return a table in Markdown; one line where there is nothing yet."""
    if not rows:
        return "Nothing is measured yet."

    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _replaced(text: str, name: str, made: str) -> str:
    pattern = re.compile(
        rf"(<!-- real models: {name} -->\n\n).*?(\n\n<!-- end of table -->)", re.DOTALL
    )
    if not pattern.search(text):
        raise SystemExit(f"page: {PAGE} has no place for the table {name!r}")

    return pattern.sub(lambda match: match[1] + made + match[2], text)


if __name__ == "__main__":
    main()
