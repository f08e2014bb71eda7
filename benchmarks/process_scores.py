"""Planted true and false claims in reasons, and how well they are told apart without a model.

    python benchmarks/process_scores.py [--steps 6] [--rounds 2] [--seed 0] [--write]
    python benchmarks/process_scores.py --tables
    python benchmarks/process_scores.py --runs DIR

States are those that built-in models were shown on synthetic markets. A reason is one claim of
`process_templates.csv` about such a state, with up to two sentences that claim nothing before or
after it. `--write` writes `process_scores.csv`, which docs/metrics.md prints. `--runs`
prints the process metrics of the runs in a folder next to their selection.
"""

# ruff: noqa: ARG002 - the methods of all kinds of claims take the same

from __future__ import annotations

import argparse
import csv
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ktdeval import evaluate
from ktdeval.observation import recorded_state
from ktdeval.registry import load_plugins
from ktdeval.runner import open_run
from ktdeval.runner.scoring.score import make_card, open_recorded_snapshot
from ktdeval.stats import clopper_pearson_upper
from ktdeval_rationale.claims import ArguedOrder, ClaimVerdict, ShownFacts, judge_by_facts
from ktdeval_rationale.claims.recorded_reasons import recorded_steps

HERE = Path(__file__).parent
TEMPLATES = HERE / "process_templates.csv"
FIGURES = HERE / "process_scores.csv"
FIRST_LOOK = HERE / "process_scores_first_look.csv"
"""Counts of each part when it was first measured, before anything was changed for it."""
PARTS = ("first", "later", "last", "final")
PLAIN_PARTS = ("noise", "hard", "hard_last", "hard_final")  # no false claims
LEVEL = 0.95
MASK_KEY = "0" * 32  # the same handles each time
SOURCES = (
    ("blinded_fixed_candidate", "builtin/momentum", "synthetic"),
    ("bright_fixed_candidate", "builtin/low_volatility", "synthetic"),
    ("market_blinded", "builtin/equal_weight", "synthetic_us"),
    ("ama_tsla", "builtin/macd", "synthetic_arena"),
)
WORDS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "MOM_12_1": (("12-1 momentum", "momentum", "twelve-month momentum", "MOM_12_1"), ("动量",)),
    "RV_60": (("60-day volatility", "realised volatility", "volatility", "RV_60"), ("波动率",)),
    "volatility_20d_pct": (("20-day volatility", "volatility"), ("20日波动率", "波动率")),
    "return_1d_pct": (("daily return", "one-day return", "1-day change"), ("当日涨幅",)),
    "return_5d_pct": (
        ("5-day return", "return over 5 days", "five-day return"),
        ("5日涨幅", "近5日收益率"),
    ),
    "return_20d_pct": (("20-day return", "return over the last 20 days"), ("20日涨幅",)),
    "return_60d_pct": (("60-day return", "60-day performance"), ("60日收益率",)),
    "close_cny": (("close", "last price", "share price"), ("收盘价", "股价")),
    "close": (("close", "closing price", "price"), ("收盘价", "现价")),
    "open": (("open", "opening price"), ("开盘价",)),
    "CORR_PV": (("price-volume correlation", "CORR_PV"), ("量价相关性",)),
    "drawdown_60d_pct": (("60-day drawdown", "drawdown"), ("60日回撤", "回撤")),
    "volume": (("volume", "trading volume"), ("成交量",)),
}
LOSSES = frozenset({"drawdown_60d_pct"})
PLAIN = frozenset({"close_cny", "close", "open", "volume", "CORR_PV"})  # no per cent


@dataclass(frozen=True)
class Shown:
    """A state with the texts that showed it."""

    texts: Sequence[str]
    rows: Mapping[str, Mapping[str, float]]  #: label -> figure -> number, of candidates
    elsewhere: Mapping[str, Mapping[str, float]]  #: of other tables
    account: Mapping[str, float]
    facts: ShownFacts


@dataclass(frozen=True)
class Planted:
    """A claim with its truth."""

    text: str
    is_true: bool
    order: ArguedOrder | None


@dataclass
class Tally:
    """Outcomes of one kind."""

    outcomes: Counter[tuple[bool, str]] = field(default_factory=Counter)  #: (truth, verdict)

    def count(self, is_true: bool, verdict: str) -> int:
        return self.outcomes[is_true, verdict]

    def total(self, is_true: bool) -> int:
        return sum(n for (truth, _), n in self.outcomes.items() if truth is is_true)


# ---- states


def shown_states(folder: Path, limit: int) -> list[Shown]:
    """Return the states of short runs of built-in models."""
    states: list[Shown] = []
    plugins = load_plugins()
    for task, model, data in SOURCES:
        out = folder / task
        options = {} if task.startswith("bright") else {"mask_key": MASK_KEY}
        evaluate(model, task, data=data, limit=limit, out=str(out), quiet=True, **options)
        run = open_run(out, plugins)
        for spec in run.manifest.specs:
            for step in recorded_steps(run.load_transcript(spec)):
                states.append(_shown(step.prompts))
    return [state for state in states if state.rows]


def _shown(texts: Sequence[str]) -> Shown:
    state = recorded_state(texts[-1])
    rows = {label: _numbers(asset.cells) for label, asset in state.candidates.items()}
    elsewhere = {label: _numbers(asset.cells) for label, asset in state.assets.items()}
    return Shown(texts, rows, elsewhere, _numbers(state.account.cells), ShownFacts.of(texts))


def _numbers(cells: Mapping[str, Any]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, value in cells.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers[name] = float(value)
    return numbers


# ---- figures


class Writer:
    """Writes claims about states from one stream of chance."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.chance.integers(len(items)))]

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.chance.random() < share)

    def printed(self, number: float, *, is_percent: bool, language: str) -> str:
        """Return a number in one of the forms in which people print it."""
        size = abs(number)
        if not is_percent and size >= 100_000:
            return self._large(number, language)

        decimals = self.pick((1, 2) if size >= 1 else (2, 3))
        if size >= 100:
            decimals = self.pick((0, 1))

        text = f"{number:.{decimals}f}"
        if not is_percent:
            return text
        return text + self.pick(("%", " %", "%", " percent") if language == "en" else ("%", "％"))

    def _large(self, number: float, language: str) -> str:
        if language == "zh":
            if abs(number) >= 1e8:
                return f"{number / 1e8:.2f}亿"
            return f"{number / 1e4:.1f}万"
        if abs(number) >= 1e9:
            return f"{number / 1e9:.2f}bn"
        if abs(number) >= 1e6:
            return f"{number / 1e6:.2f} million"
        return self.pick((f"{number:,.0f}", f"{number / 1e3:.1f}k"))

    def altered(self, number: float) -> float:
        """Return a number that no rounding takes for another."""
        factor = float(self.chance.uniform(1.12, 2.0))
        if self.coin():
            factor = float(self.chance.uniform(0.4, 0.88))
        if abs(number) < 0.5:
            return number + self.pick((-1.0, 1.0)) * float(self.chance.uniform(0.3, 1.5))
        return number * factor

    # ---- claims

    def planted(
        self, template: Mapping[str, str], shown: Shown, *, is_true: bool
    ) -> Planted | None:
        """Return a claim of a template about a state; None where the state has nothing for it."""
        label = self.pick(sorted(shown.rows))
        slots = getattr(self, f"_{template['kind']}")(template, shown, label, is_true)
        if slots is None:
            return None

        order = None
        side = slots.pop("side", None)
        if side is not None or self.coin():
            order = ArguedOrder(label, side or "BUY", 0.05)
        return Planted(template["text"].format(L=label, **slots), is_true, order)

    def _figure(self, shown: Shown, label: str, of: Sequence[str] = ()) -> str | None:
        known = [name for name in (of or WORDS) if name in shown.rows[label]]
        if of:
            known = [name for name in known if name in of]
        return self.pick(known) if known else None

    def _word(self, name: str, language: str) -> str:
        return str(self.pick(WORDS[name][0 if language == "en" else 1]))

    def _claimed(self, shown: Shown, label: str, name: str, *, is_true: bool) -> float:
        number = shown.rows[label][name]
        if name in LOSSES:
            number = abs(number)
        if is_true:
            return number

        # A false figure is altered, or that of another asset.
        others = [row[name] for row in shown.rows.values() if name in row]
        other = self.pick(others)
        if name in LOSSES:
            other = abs(other)
        if self.coin(0.3) and abs(other - number) > 0.12 * max(abs(number), 1.0):
            return float(other)
        return self.altered(number)

    def _reading(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        name = self._figure(shown, label)
        if name is None:
            return None
        number = self._claimed(shown, label, name, is_true=is_true)
        return {
            "q": self._word(name, template["language"]),
            "x": self.printed(number, is_percent=name not in PLAIN, language=template["language"]),
        }

    def _move(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        days = self.pick((5, 20, 60))
        name = f"return_{days}d_pct"
        truth = shown.rows[label].get(name)
        if truth is None or abs(truth) < 0.3:
            return None

        number = truth
        if not is_true:
            number = -truth if self.coin(0.4) else self.altered(truth)
            if abs(number - truth) < 0.3:
                return None

        rises = number > 0
        figure = self.printed(abs(number), is_percent=True, language=template["language"])
        return {
            "d": days,
            "x": figure,
            "updown": "up" if rises else "down",
            "rosefell": "rose" if rises else "fell",
            "gainedlost": "gained" if rises else "lost",
            "zhmove": "上涨" if rises else "下跌",
        }

    def _account(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        return self._of_account(template, shown, ("cash_cny", "cash"), is_true)

    def _nav(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        return self._of_account(template, shown, ("nav_cny", "nav"), is_true)

    def _of_account(self, template: Any, shown: Shown, names: Any, is_true: bool) -> Any:
        number = next((shown.account[name] for name in names if name in shown.account), None)
        if number is None or number < 1000:
            return None
        if not is_true:
            number = self.altered(number)
        text = self.printed(number, is_percent=False, language=template["language"])
        if number < 100_000:
            text = f"{number:,.0f}"
        return {"x": text}

    def _cash_weight(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        number = shown.account.get("cash_weight")
        if not number:
            return None

        number *= 100.0
        if not is_true:
            number = 1.5 * number + 1.0
        return {"x": f"{number:.1f} %"}

    def _derived(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        row = shown.rows[label]
        pair = ("open_cny", "close_cny") if "open_cny" in row else ("open", "close")
        if not all(name in row for name in pair) or row[pair[0]] == row[pair[1]]:
            return None

        first, second = row[pair[0]], row[pair[1]]
        if "wide" in template["text"] or "difference" in template["text"]:
            number = abs(second - first)
            text = f"{number if is_true else self.altered(number):.2f}"
        else:
            number = 100 * (second / first - 1)
            text = f"{number if is_true else self.altered(number):.2f} %"
        return {"a": f"{first:.2f}", "b": f"{second:.2f}", "x": text}

    def _threshold(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        name = self._figure(shown, label)
        if name is None:
            return None

        number = shown.rows[label][name]
        if name in LOSSES:
            number = abs(number)
        over = self.coin()
        gap = max(abs(number) * float(self.chance.uniform(0.08, 0.5)), 0.3)
        bound = number - gap if over is is_true else number + gap
        if bound < 0 and name in LOSSES:
            return None
        return {
            "q": self._word(name, template["language"]),
            "x": self.printed(bound, is_percent=name not in PLAIN, language=template["language"]),
            "overunder": self.pick(("above", "over") if over else ("below", "under")),
            "zhover": "高于" if over else "低于",
        }

    def _assets(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        other = self.pick(sorted(shown.rows))
        name = self._figure(shown, label)
        if name is None or name not in shown.rows[other] or name in LOSSES:
            return None

        first, second = shown.rows[label][name], shown.rows[other][name]
        if first == second:
            return None
        higher = (first > second) is is_true
        return {
            "q": self._word(name, template["language"]),
            "M": other,
            "higherlower": "higher" if higher else "lower",
            "zhhigher": "高于" if higher else "低于",
            "zhtall": "高" if higher else "低",
        }

    def _own(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        row = shown.rows[label]
        first = row.get("open_cny", row.get("open"))
        last = row.get("close_cny", row.get("close"))
        if first is None or last is None or first == last:
            return None
        above = (last > first) is is_true
        return {
            "abovebelow": "above" if above else "below",
            "zhover": "高于" if above else "低于",
            "side": "BUY",
        }

    def _candidates(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        names = [name for name in WORDS if name in shown.rows[label] and name not in LOSSES]
        if not names or len(shown.rows) < 3:
            return None

        name = self.pick(names)
        highest = self.coin()
        sign = 1 if highest else -1
        everyone = {**shown.elsewhere, **shown.rows}
        own = sign * shown.rows[label][name]
        is_best = own >= max(sign * row[name] for row in shown.rows.values() if name in row)
        all_best = own >= max(sign * row[name] for row in everyone.values() if name in row)
        if is_best is not is_true or (not is_true and all_best):
            return None
        return {
            "q": self._word(name, template["language"]),
            "highestlowest": "highest" if highest else "lowest",
            "zhhighest": "最高" if highest else "最低",
        }

    def _sign(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        signed = ("MOM_12_1", "return_5d_pct", "return_20d_pct", "return_1d_pct", "CORR_PV")
        name = self._figure(shown, label, signed)
        if name is None or shown.rows[label][name] == 0:
            return None
        positive = (shown.rows[label][name] > 0) is is_true
        return {
            "q": self._word(name, template["language"]),
            "posneg": "positive" if positive else "negative",
        }

    def _hard(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        """Slots of sentences that claim nothing false: `x` and `z` are the numbers of L and M, `y`
        is another number, `w` one that L's lies below, `v` one that both lie below.
        """
        name = self._figure(shown, label)
        others = [one for one, row in shown.rows.items() if one != label and name in row]
        if name is None or not is_true or not others:
            return None

        other = self.pick(sorted(others))
        number, beside = shown.rows[label][name], shown.rows[other][name]
        if name in LOSSES:
            number, beside = abs(number), abs(beside)
        numbers = {
            "x": number,
            "z": beside,
            "y": self.altered(number),
            "w": number + max(abs(number) * 0.3, 0.5),
            "v": max(number, beside) + max(abs(number) * 0.3, 0.5),
        }
        language = template["language"]
        texts = {
            slot: self.printed(value, is_percent=name not in PLAIN, language=language)
            for slot, value in numbers.items()
        }
        return {"q": self._word(name, language), "M": other, **texts}

    def _direction(self, template: Any, shown: Shown, label: str, is_true: bool) -> Any:
        bullish = self.coin()
        return {
            "side": "BUY" if bullish is is_true else "SELL",
            "bullbear": "bullish" if bullish else "bearish",
            "overundervalued": "undervalued" if bullish else "overvalued",
            "zhbull": self.pick(("看多", "看好") if bullish else ("看空", "看淡")),
            "risefall": "rise" if bullish else "fall",
        }


# ---- outcomes


def verdict_of(planted: Planted, kind: str, shown: Shown) -> str:
    """Return what is said of a reason: `wrong` if anything in it is, else `right` if anything is of
    its kind, else `unplaced`.
    """
    orders = () if planted.order is None else (planted.order,)
    scores = judge_by_facts(planted.text, shown.facts, orders)
    verdicts = [claim.verdict for claim in (*scores.figures, *scores.comparisons)]
    if kind == "direction":
        verdicts = [
            ClaimVerdict.RIGHT if claim.agrees else ClaimVerdict.WRONG
            for claim in scores.directions
        ]
    if ClaimVerdict.WRONG in verdicts:
        return "wrong"
    return "right" if ClaimVerdict.RIGHT in verdicts else "unplaced"


def measure(
    states: Sequence[Shown], rounds: int, seed: int, part: str | None = None
) -> dict[tuple[str, str, str], Tally]:
    """Return outcomes by part, kind and language."""
    with TEMPLATES.open(encoding="utf-8", newline="") as file:
        templates = list(csv.DictReader(file))

    if part is not None:
        templates = [one for one in templates if one["part"] in (part, *PLAIN_PARTS)]

    noise = {
        language: [
            one["text"]
            for one in templates
            if one["kind"] == "noise" and one["language"] == language
        ]
        for language in ("en", "zh")
    }
    writer = Writer(seed)
    tallies: dict[tuple[str, str, str], Tally] = {}
    for _ in range(rounds):
        for shown in states:
            for template in templates:
                for is_true, planted in _planted(writer, template, shown):
                    key = (template["part"], template["kind"], template["language"])
                    full = _with_noise(writer, planted, noise[template["language"]])
                    verdict = verdict_of(full, template["kind"], shown)
                    tallies.setdefault(key, Tally()).outcomes[is_true, verdict] += 1
                    misjudged = "wrong" if is_true else "right"
                    if EXAMPLES is not None and verdict == misjudged:
                        EXAMPLES.append((key, is_true, full.text, full.order))
                    if MISSES is not None and verdict == "unplaced" and template["kind"] != "noise":
                        MISSES[template["text"]] = full.text
    return tallies


EXAMPLES: list[Any] | None = None  #: misjudged reasons, where they are asked for
MISSES: dict[str, str] | None = None  #: a reason that was not placed, by template


def _planted(
    writer: Writer, template: Mapping[str, str], shown: Shown
) -> Iterator[tuple[bool, Planted]]:
    if template["kind"] == "noise":
        label = writer.pick(sorted(shown.rows))
        yield True, Planted(template["text"], True, ArguedOrder(label, "BUY", 0.05))
        return

    for is_true in (True, False):
        for _ in range(8):
            planted = writer.planted(template, shown, is_true=is_true)
            if planted is not None:
                yield is_true, planted
                break


def _with_noise(writer: Writer, planted: Planted, noise: Sequence[str]) -> Planted:
    before = [writer.pick(noise)] if writer.coin(0.4) else []
    after = [writer.pick(noise)] if writer.coin(0.4) else []
    text = " ".join([*before, planted.text, *after])
    return Planted(text, planted.is_true, planted.order)


# ---- tables

COLUMNS = (
    "part",
    "kind",
    "language",
    "true",
    "true_called_right",
    "true_called_wrong",
    "false",
    "false_called_wrong",
    "false_called_right",
)


def figure_rows(tallies: Mapping[tuple[str, str, str], Tally]) -> list[dict[str, Any]]:
    """Return the counts by part, kind and language."""
    rows = []
    for (part, kind, language), tally in sorted(tallies.items()):
        values = (
            part,
            kind,
            language,
            tally.total(True),
            tally.count(True, "right"),
            tally.count(True, "wrong"),
            tally.total(False),
            tally.count(False, "wrong"),
            tally.count(False, "right"),
        )
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def exact_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of a share."""
    half = (1 + LEVEL) / 2
    low = 1.0 - clopper_pearson_upper(n - successes, n, half)
    return low, clopper_pearson_upper(successes, n, half)


def summary_line(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return precision and recall of `wrong` over some rows of counts."""
    hits = sum(int(row["false_called_wrong"]) for row in rows)
    alarms = sum(int(row["true_called_wrong"]) for row in rows)
    false = sum(int(row["false"]) for row in rows)
    right = sum(int(row["true_called_right"]) for row in rows)
    missed = sum(int(row["false_called_right"]) for row in rows)
    true = sum(int(row["true"]) for row in rows)
    texts = [
        share_text(hits, hits + alarms),
        share_text(hits, false),
        share_text(right, right + missed),
        share_text(right, true),
    ]
    return f"| {name} | {' | '.join(texts)} |"


def share_text(part: int, n: int) -> str:
    """Return `0.98 [0.97, 0.99] (312 of 318)`."""
    if n == 0:
        return "–"
    low, high = exact_interval(part, n)
    return f"{part / n:.3f} [{low:.3f}, {high:.3f}] ({part:,} of {n:,})"


def table_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of docs/metrics.md: by kind over all parts, by part, by language."""
    lines = [
        "| claims | `wrong`: precision | `wrong`: recall | `right`: precision | `right`: recall |",
        "|---|---|---|---|---|",
    ]
    planted = [row for row in rows if row["part"] in PARTS]
    for kind in dict.fromkeys(row["kind"] for row in planted):
        own = [row for row in planted if row["kind"] == kind]
        lines.append(summary_line(str(kind), own))
    for language in ("en", "zh"):
        own = [row for row in planted if row["language"] == language]
        lines.append(summary_line(f"all, {language}", own))
    for part in PARTS:
        own = [row for row in planted if row["part"] == part]
        if own:
            lines.append(summary_line(f"all of `{part}`", own))

    return lines


def alarm_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how many sentences that claim nothing false were called wrong, by part."""
    lines = ["| sentences | called wrong |", "|---|---|"]
    for part in PLAIN_PARTS:
        own = [row for row in rows if row["part"] == part]
        alarms = sum(int(row["true_called_wrong"]) for row in own)
        n = sum(int(row["true"]) for row in own)
        if n:
            lines.append(f"| `{part}` | {share_text(alarms, n)} |")

    return lines


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of counts."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ---- runs


def run_lines(folder: Path) -> list[str]:
    """Return the process metrics of the runs in a folder next to their selection, and rank
    correlations.
    """
    plugins = load_plugins()
    names = [n for n, spec in plugins.specs("metrics").items() if "process" in spec.groups]
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    runs = 0
    for path in sorted(folder.iterdir()):
        if not (path / "manifest.json").exists():
            continue
        run = open_run(path, plugins)
        snapshot = open_recorded_snapshot(run, plugins, {})
        run.manifest = replace(run.manifest, metrics=(*names, "selection_alpha"))
        for task in dict.fromkeys(spec.task for spec in run.manifest.specs):
            card = make_card(run, plugins.make_task(task), snapshot, plugins, {})
            runs += 1
            selection = card.metrics["selection_alpha"].value
            for name in names:
                value = card.metrics[name].value
                if value is not None and selection is not None:
                    values[name].append((value, selection))

    lines = [f"{runs} cards"]
    for name, pairs in values.items():
        lines.append(f"{name:20} defined {len(pairs):3}  {_correlation(pairs)}")
    return lines


def _correlation(pairs: Sequence[tuple[float, float]]) -> str:
    if len(pairs) < 4 or len({value for value, _ in pairs}) < 2:
        return "no correlation: fewer than 4 cards, or all the same"
    first, second = zip(*pairs, strict=True)
    found = spearmanr(first, second)
    return f"rank correlation with selection {found.statistic:+.2f} (p {found.pvalue:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=6, help="steps of each source of states")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, help="only these templates, and the noise")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--tables", action="store_true", help="print the recorded tables and stop")
    options = parser.parse_args()
    if options.runs is not None:
        print("\n".join(run_lines(options.runs)))
        return

    if options.tables:
        for path in (FIGURES, FIRST_LOOK):
            recorded = read_rows(path)
            print("\n".join([path.name, *table_lines(recorded), "", *alarm_lines(recorded), ""]))
        return

    global EXAMPLES, MISSES
    if options.examples:
        EXAMPLES, MISSES = [], {}

    with tempfile.TemporaryDirectory() as folder:
        states = shown_states(Path(folder), options.steps)

    rows = figure_rows(measure(states, options.rounds, options.seed, options.part))
    print(f"{len(states)} states")
    print("\n".join([*table_lines(rows), "", *alarm_lines(rows)]))
    if options.write:
        with FIGURES.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    for example in (EXAMPLES or [])[: options.examples]:
        print(example)
    for template, text in (MISSES or {}).items():
        print("not placed:", template, "<-", text)


if __name__ == "__main__":
    main()
