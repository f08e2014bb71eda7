"""Use and cost of a card's episodes, calls of its provider, and whether the model stayed the same, as rows of words."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards import Calls, Drift, PriceEntry, TradingCard
from ktdeval_report.text import UNDEFINED, count, figure, percent, tally

Row = tuple[str, str]


def usage_rows(card: TradingCard) -> Iterator[Row]:
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
    verdict = card.rankable
    return "rankable" if verdict.value else f"not rankable: {'; '.join(verdict.reasons)}"


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


def _calls(calls: Calls) -> Iterator[Row]:
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
