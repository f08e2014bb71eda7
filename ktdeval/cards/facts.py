"""What is said of every evaluation, whatever its task: what was run, who decided, what it took and cost, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import asdict

from ktdeval.cards.card import Evaluation, ScoringCard, TradingCard
from ktdeval.cards.parts import Calls, Drift, Pluggable, PriceEntry, TokenCost, UsageCounts
from ktdeval.cards.table import clean, count, tally

AnyCard = TradingCard | ScoringCard


def ranking_words(card: AnyCard) -> str:
    """`rankable`, or `not rankable: ` with every reason."""
    return "rankable" if card.rankable.value else f"not rankable: {'; '.join(card.rankable.reasons)}"


def run_rows(card: Evaluation, step: str) -> Iterator[tuple[str, str]]:
    """Model, agent, calls, market, windows and seeds.

    Args:
        card: of any task.
        step: what a step is called.
    """
    windows = [f"{window.name} {window.first}…{window.last}" for window in card.windows]
    shown = ", ".join(windows[:2]) + (f" and {len(windows) - 2} more" if len(windows) > 2 else "")
    yield "model", _with_args(card.model)
    yield "agent", _with_args(card.agent)
    yield "calls", ", ".join(f"{name} {value}" for name, value in sorted(card.call.items()))
    settings = card.request_settings or {}
    if unsent := [clean(str(name)) for field in ("not_sent", "omit") for name in settings.get(field) or ()]:
        yield "not sent", f"{', '.join(unsent)}: the provider does not take it"
    if card.snapshot is not None:
        yield "market", f"{card.snapshot.name}, {card.snapshot.assets} assets, id {card.snapshot.id[:12]}"
    limited = f"the first {count(card.limit, step)} of each" if card.limit is not None else ""
    if shown or limited:
        yield "windows" if shown else "episodes", ", ".join(filter(None, (shown, limited)))
    yield "seeds", ", ".join(map(str, card.seeds))
    if card.mask_draw:
        yield "mask draw", str(card.mask_draw)


def task_row(card: Evaluation) -> tuple[str, str]:
    """Task, with its mask and mode."""
    shown = ", ".join(filter(None, (card.task.mask, card.task.mode)))
    return "task", f"{card.task.name}, version {card.task.version}" + (f" ({shown})" if shown else "")


def _with_args(entry: Pluggable) -> str:
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry.args.items()))
    return f"{entry.name} ({args})" if args else entry.name


def coverage_rows(card: AnyCard, step: str) -> Iterator[tuple[str, str]]:
    """How much of the plan was run, and who decided it. Arguments as of `run_rows`."""
    coverage = card.coverage
    share = f" = {100 * coverage.steps_decided / coverage.steps:.1f} %" if coverage.steps else ""
    if coverage.steps < coverage.steps_planned:
        share += f"; {count(coverage.steps_planned, step)} planned"
    yield "episodes", f"{coverage.episodes_finished:,} of {coverage.episodes_planned:,} finished"
    yield "coverage", f"{coverage.steps_decided:,} of {count(coverage.steps, step)} decided by the model{share}"
    yield "decisions", tally(asdict(card.decisions))


def spending_rows(card: AnyCard) -> Iterator[tuple[str, str]]:
    """Tokens in and out, what they cost and bought, whether the model stayed the same, and what was asked of its provider."""
    yield "tokens", _token_words(card.usage)
    yield "cost", _cost_words(card.cost)
    if card.cost.value and card.cost.price:
        yield "price", _price_words(card.cost.price)
        if isinstance(card, TradingCard) and (gain := card.cost.return_per_usd):
            median = " (median over episodes)" if gain.n > 1 else ""
            words = f"not defined: {gain.reason}" if gain.value is None else f"{100 * gain.value:+,.4g} %{median}"
            yield "return per USD", words
    if card.drift.value is not None:
        yield "drift", _drift_words(card.drift)
    if card.provenance.calls is not None:
        yield from _call_rows(card.provenance.calls)


def _token_words(usage: UsageCounts) -> str:
    """Tokens in and out, and of these what was reasoning or went through a provider's prompt cache."""
    inside = _some({"read from the provider's cache": usage.cache_read_tokens, "written to it": usage.cache_write_tokens})
    outside = _some({"reasoning": usage.reasoning_tokens})
    return f"{usage.input_tokens:,} in{inside}, {usage.output_tokens:,} out{outside}"


def _some(parts: Mapping[str, int]) -> str:
    shown = [f"{number:,} {name}" for name, number in parts.items() if number]
    return f" ({', '.join(shown)})" if shown else ""


def _cost_words(cost: TokenCost) -> str:
    """US dollars in all and an episode, or why they are not known."""
    each = cost.per_episode
    if cost.value is None or not each:
        return f"not known: {cost.reason}"
    median = "" if each.n < 2 else f", {_dollars(each.value or 0.0)} an episode (median)"
    return f"{_dollars(cost.value)}{median}"


def _price_words(price: PriceEntry) -> str:
    """A price with its day and source."""
    cached = {"cache read": price.cache_read, "cache write": price.cache_write}
    parts = [f"{price.input:g} in", f"{price.output:g} out"]
    parts += [f"{value:g} {name}" for name, value in cached.items() if value is not None]
    origin = ", ".join(part for part in (price.as_of and f"as of {price.as_of}", price.source) if part)
    return f"{', '.join(parts)} USD a million tokens{f' ({origin})' if origin else ''}"


def _drift_words(drift: Drift) -> str:
    """How far the model's answers moved during the run."""
    questions = count(drift.prompts or 0, "question")
    distances = f"{drift.value:.3f} between start and end over {questions}, {drift.noise:.3f} within one sitting"
    changed = "; the provider named another model at the end" if drift.served_by_changed else ""
    return f"{distances} (0 equal, 1 different){changed}"


def _call_rows(calls: Calls) -> Iterator[tuple[str, str]]:
    """Calls of the provider: how often, what failed, how long it took, what was paid, who answered."""
    failed = sum(calls.failed_attempts.values())
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in calls.failed_attempts.items())
    yield (
        "requests",
        f"{calls.requests:,}: {calls.answered:,} answered by the provider, {calls.cached:,} from the cache;"
        f" {failed:,} failed attempts{f': {kinds}' if kinds else ''}",
    )
    seconds = calls.latency_s
    if seconds.median is not None:
        lost = f"; {calls.lost_s:,.1f} s in failed attempts" if calls.lost_s else ""
        most = f"99 % within {seconds.p99:.2f} s, longest {seconds.longest:.2f} s"
        yield "latency", f"median {seconds.median:.2f} s, {most}{lost}"
    paid = "not known" if calls.paid_usd is None else _dollars(calls.paid_usd)
    besides = f", possibly {_dollars(calls.possibly_paid_usd)} more" if calls.possibly_paid_usd else ""
    own = f"; checks of the run {_dollars(calls.checks.paid_usd)}" if calls.checks.paid_usd else ""
    yield "paid", f"{paid}{besides}{own}"
    if calls.served_by:
        yield "served by", ", ".join(f"{name} ({number:,})" for name, number in calls.served_by.items())


def _dollars(value: float) -> str:
    """`1,234.57 USD`; small sums with as many decimals as show two digits of them."""
    if value == 0 or value >= 1:
        return f"{value:,.2f} USD"
    return f"{value:.4f} USD" if value >= 0.001 else f"{value:.2g} USD"


def absence_notes(card: AnyCard, *fields: str) -> Iterator[str]:
    """One line for each planned episode that did not finish, and for each of these fields that the card does not have."""
    for episode in card.missing_episodes:
        yield clean(f"missing: window {episode.window or 'none'}, seed {episode.seed}: {episode.error}")
    # Of a model of this machine nobody asks whether its provider changed it.
    asked = () if card.provenance.calls is None else ("drift",)
    for name in (*fields, *asked):
        part = getattr(card, name)
        if part.value is None:
            yield clean(f"no {name}: {part.reason}")
