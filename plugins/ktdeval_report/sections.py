"""One card on the page, as its template prints it: facts, panel, windows, plots, attribution, decisions, how to verify it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from ktdeval.cards import (
    SCHEME_HEADS,
    Calls,
    Drift,
    PriceEntry,
    TradingCard,
    count,
    cutoff_words,
    price_index,
    scheme_rows,
    tally,
    with_args,
)
from ktdeval.jsonio import file_sha256
from ktdeval_report import card_tables
from ktdeval_report.inputs import Evaluation
from ktdeval_report.render import UNDEFINED, WORDS, Cell, Table, figure, percent
from ktdeval_report.study import CardStudy

_SHOWN_MISSING = 20


def _facts(evaluation: Evaluation) -> Table:
    card = evaluation.card
    task, snapshot, limit = card.task, card.snapshot, card.limit
    recorded = evaluation.recorded_rules
    repairs = f", repaired: {', '.join(snapshot.repairs)}" if snapshot.repairs else ""
    rows = [
        ("task", f"{task.name}, version {task.version}: mask {task.mask}, mode {task.mode}"),
        ("model", with_args(card.model)),
        ("agent", with_args(card.agent)),
        ("calls", ", ".join(f"{name} {value}" for name, value in sorted(card.call.items()))),
        (
            "market",
            f"{snapshot.name}, {snapshot.assets} assets, benchmark {snapshot.benchmark_name}{price_index(card.pooled)}{repairs}",
        ),
        ("windows", [Cell(f"{window.name} {window.first} … {window.last}") for window in card.windows]),
        ("seeds", ", ".join(map(str, card.seeds))),
        ("cutoff", cutoff_words(card)),
        ("ranking", ranking(card)),
        ("limit", "none" if limit is None else f"the first {count(limit, 'step')} of every episode"),
        ("rules of metrics", card.rules + (f" (for this page; the card is by {recorded} rules)" if recorded != card.rules else "")),
    ]
    return Table("What was evaluated", (), rows, words=2)


def _decisions(card: TradingCard) -> Table:
    steps = max(card.coverage.steps, 1)
    shares = {name: (f"{number:,}", percent(number / steps, signed=False)) for name, number in asdict(card.decisions).items()}
    rows = [[name, meaning, *shares[name]] for name, meaning in WORDS["provenance"].items()]
    return Table("Who decided each step", ("provenance", "", "steps", "share"), rows, words=2)


def _activity(card: TradingCard) -> Table:
    """Orders by what became of them, failures, and what the episodes used."""
    coverage, orders = card.coverage, card.orders
    statuses = {name: getattr(orders, name) for name in ("filled", "partially_filled", "rejected")}
    judged = card.calibration
    left_out = {"no fill": judged.no_fill, "no next open": judged.no_next_open}
    rows = [
        ("episodes", f"{coverage.episodes_finished:,} of {coverage.episodes_planned:,} finished"),
        ("failures", tally(card.failures)),
        ("orders", f"{orders.submitted:,} submitted: {tally(statuses)}"),
        ("rules that rejected or cut", tally(orders.rules)),
        ("orders judged for calibration", f"{judged.n:,}; left out: {tally(left_out)}"),
        *usage_rows(card),
    ]
    return Table("Activity and failures", (), rows, words=2)


def _missing(card: TradingCard) -> list[str]:
    """Episodes that did not finish."""
    missing = card.missing_episodes
    shown = [f"window {entry.window}, seed {entry.seed}: {entry.error}" for entry in missing[:_SHOWN_MISSING]]
    return shown + ([f"and {len(missing) - _SHOWN_MISSING} more"] if len(missing) > _SHOWN_MISSING else [])


def _hashes(evaluation: Evaluation) -> Table:
    card, provenance = evaluation.card, evaluation.card.provenance
    rows = [
        ("card", Cell(file_sha256(evaluation.path), "code")),
        ("task config", Cell(card.task.hash, "code")),
        ("snapshot", Cell(card.snapshot.id, "code")),
        ("records", f"{count(len(card.artefacts), 'file')}, each with its SHA-256 on the card"),
        ("made by", f"ktdeval {provenance.suite_version}, source {provenance.source_revision or 'not known'}"),
        ("made on", provenance.created_at),
    ]
    return Table("SHA-256 of what the card rests on", (), rows, words=2)


def _no_attribution(study: CardStudy) -> str:
    reasons = {window.no_attribution for window in study.windows} - {""}
    return study.evaluation.problem or f"There is none: {'; '.join(sorted(reasons)) or 'no episode has one'}."


def card_view(study: CardStudy, plots: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """Values of `card.html`. `plots`: figures by their window, or by `lead`, those that come before any table."""
    one, card = study.evaluation, study.evaluation.card
    has_market = bool(study.windows) and one.market is not None
    windows = [(f"{window.name}, seed {window.seed}", plots[window.name]) for window in study.windows if plots.get(window.name)]
    return {
        "label": one.label,
        "anchor": one.anchor,
        "labels": [(name, "") for name in card.labels],
        "facts": _facts(one),
        "problem": one.problem,
        "panel": card_tables.panel(study),
        "panel_notes": list(card_tables.panel_notes(study)),
        "definitions": card_tables.definitions(card),
        "windows": card_tables.windows_table(one),
        "has_market": has_market,
        "sure": card_tables.sure_table(study) if has_market else None,
        "window_notes": card_tables.windows_notes(study),
        "drawn": windows,
        "attribution": card_tables.attribution_table(study) if study.lines else None,
        "no_attribution": _no_attribution(study),
        "attribution_notes": card_tables.attribution_notes(study),
        "schemes": Table("Selection by the industries in the fit, mean of episodes", SCHEME_HEADS, scheme_rows(card)),
        "several": any(len(values) > 1 for values in study.lines.values()),
        "lead": plots.get("lead", ()),
        "is_calibrated": card.calibration.n > 0,
        "decisions": _decisions(card),
        "activity": _activity(card),
        "missing": _missing(card),
        "quoted_path": shlex.quote(str(one.path)),
        "hashes": _hashes(one),
        "no_certificate": card.certificate.reason or "",
    }


# ---- use, cost and calls


def usage_rows(card: TradingCard) -> Iterator[tuple[str, str]]:
    """Tokens and cost of the episodes, then drift and calls where the model has a provider."""
    usage, cost, calls = card.usage, card.cost, card.provenance.calls
    yield "tool calls", f"{usage.tool_calls:,}, {usage.tool_calls_valid:,} valid"
    yield "tokens", _tokens(card)
    yield "cost", _cost(card)
    if cost.value and cost.price:
        yield "price", _price(cost.price)
    if cost.value and (gain := cost.return_per_usd):
        median = ", median over episodes" if gain.n > 1 else ""
        yield "return per USD", gain.reason or f"{percent(gain.value)}{median}"
    if calls is not None:
        yield "drift", _drift(card.drift)
        yield from _calls(calls)


def ranking(card: TradingCard) -> str:
    """Return whether the card may stand in a ranking, with every reason why not."""
    return "rankable" if card.rankable.value else f"not rankable: {'; '.join(card.rankable.reasons)}"


def _tokens(card: TradingCard) -> str:
    usage = card.usage
    inside = {"read from the provider's cache": usage.cache_read_tokens, "written to it": usage.cache_write_tokens}
    shown = ", ".join(f"{number:,} {name}" for name, number in inside.items() if number)
    reasoning = f" ({usage.reasoning_tokens:,} of reasoning)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} in{f' ({shown})' if shown else ''}, {usage.output_tokens:,} out{reasoning}"


def _cost(card: TradingCard) -> str:
    each = card.cost.per_episode
    if card.cost.value is None or not each:
        return f"not known: {card.cost.reason}"
    return _dollars(card.cost.value) + (f", {_dollars(each.value or 0.0)} an episode (median)" if each.n > 1 else "")


def _price(price: PriceEntry) -> str:
    known = {"input": price.input, "output": price.output, "cache read": price.cache_read, "cache write": price.cache_write}
    rates = [f"{name} {value:g}" for name, value in known.items() if value is not None]
    origin = ", ".join(part for part in (price.as_of and f"as of {price.as_of}", price.source) if part)
    return f"{', '.join(rates)} USD a million tokens{f' ({origin})' if origin else ''}"


def _drift(drift: Drift) -> str:
    if drift.value is None:
        return f"not known: {drift.reason}"
    changed = "; the provider named another model at the end" if drift.served_by_changed else ""
    return (
        f"{figure(drift.value)} between the answers to {count(drift.prompts or 0, 'question')} at the start and at the end, "
        f"within one sitting {figure(drift.noise or 0.0)} (0 equal, 1 different){changed}"
    )


def _calls(calls: Calls) -> Iterator[tuple[str, str]]:
    yield "requests", f"{calls.requests:,}: {calls.answered:,} answered by the provider, {calls.cached:,} from the cache"
    yield "failed attempts", tally(calls.failed_attempts)
    seconds = calls.latency_s
    if seconds.median is not None:
        yield "latency", f"median {seconds.median:.2f} s, 99 % within {seconds.p99:.2f} s, longest {seconds.longest:.2f} s"
    paid = UNDEFINED if calls.paid_usd is None else _dollars(calls.paid_usd)
    yield "paid", paid + (f", possibly {_dollars(calls.possibly_paid_usd)} more" if calls.possibly_paid_usd else "")
    yield "served by", tally(calls.served_by)


def _dollars(value: float) -> str:
    return f"{value:,.2f} USD" if value == 0 or value >= 1 else f"{value:.2g} USD"
