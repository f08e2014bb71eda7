"""Sentences on a card that state whether anything was decided or traded, and what the memory
measurement shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.failure_words import tally_failures
from ktdeval.cards.table_types import count, percent, tally
from ktdeval.market.snapshots.snapshot_facts import DELISTING_REPAIR
from ktdeval.stats.factorial_effects import Span, effective_count, overlap_correlation
from ktdeval.stats.memory_limits import memory_limits
from ktdeval.trading.stale_values import most_stale

# ---- nothing decided or traded


_WHERE = "`ktdeval view RUN` shows each step."


def silence_claim(card: TradingCard | ScoringCard) -> str:
    """Return the sentence stating that nothing was decided, or that nothing was traded; empty if
    neither applies.
    """
    coverage = card.coverage
    if coverage.is_undecided:
        steps = "answer" if isinstance(card, ScoringCard) else "step"
        reasons = tally_failures(card.failures)
        return f"No decision in {count(coverage.steps, steps)}: {reasons}. {_WHERE}"

    if isinstance(card, ScoringCard) or "never traded" not in card.labels:
        return ""

    orders = card.orders
    decided = count(coverage.steps_decided, "decision")
    if not orders.submitted and card.what_failed:
        return f"No trade: {decided} without an order, but not by choice alone. {_WHERE}"
    if not orders.submitted:
        return f"No trade: no order in {decided}. {_WHERE}"

    return f"No trade of {count(orders.submitted, 'order')}: {tally(orders.rules)}. {_WHERE}"


# ---- failures and repairs


def failure_claim(card: TradingCard | ScoringCard) -> str:
    """Return the sentence on all failures and repairs; empty if nothing failed, or if nothing was
    decided (`silence_claim` then gives the failures).
    """
    words = card.what_failed
    if not words or card.coverage.is_undecided:
        return ""

    return f"Failures and repairs: {words}."


# ---- orders and values on which the figures rest


def account_claims(card: TradingCard | ScoringCard) -> Iterator[str]:
    """Yield the sentences on what a card's figures rest on: nothing decided or traded, failures and
    repairs, orders mostly rejected, holdings without a bar.
    """
    sentences = [silence_claim(card)]
    if isinstance(card, TradingCard):
        sentences.append(rejection_claim(card))

    sentences.append(failure_claim(card))
    if isinstance(card, TradingCard):
        sentences.append(stale_claim(card))

    yield from filter(None, sentences)


def rejection_claim(card: TradingCard) -> str:
    """Return the sentence stating that one rule rejected most orders; empty if no rule did."""
    main = card.orders.main_rejection
    if main is None or silence_claim(card):
        return ""

    rule, rejected = main
    advice = ""
    if rule == "lot":
        advice = " Give the account more cash: one lot costs more than the weights ordered."
    return (
        f"Orders: {rejected:,} of {card.orders.submitted:,} were rejected by one rule ({rule}), so"
        f" the figures describe the orders that it left.{advice}"
    )


def stale_claim(card: TradingCard) -> str:
    """Return the sentence on holdings without a bar at the last close; empty if they are small."""
    stale = most_stale(episode.stale for episode in card.episodes)
    if stale is None or not stale.is_large:
        return ""

    where = ", in the episode with most" if len(card.episodes) > 1 else ""
    sentence = f"Value: {stale.words}{where}."
    if any(repair.startswith(DELISTING_REPAIR) for repair in card.snapshot.repairs):
        return sentence
    return (
        f"{sentence} What was delisted may be worth far less: `ktdeval data make …"
        " --delisting-return` sets its value."
    )


# ---- memory


_HIDDEN = {
    "blinded": "codes and days",
    "stock_blind": "codes, but not days,",
    "date_blind": "days, but not codes,",
}
"""What each mask hides, as text."""
_PAIRS = {"blinded": "bright", "bright": "blinded"}
"""Pairs of masks whose difference in return measures memory."""
_SAME = 0.05
"""Effective windows that may be lost to holidays at the ends of windows."""


def memory_claim(card: TradingCard) -> str:
    """Return the sentences about memory."""
    hidden = _HIDDEN.get(card.task.mask)
    if hidden is None:
        opening = "codes and dates were shown, so memory and decisions can't be distinguished here"
    else:
        opening = f"{hidden} were hidden from the model; {_bound_words(card)}"

    return f"Memory: {opening}.{_limit_words(card)}"


def _bound_words(card: TradingCard) -> str:
    """Return what the certificate bounds. `card verify` recomputes the certificate's statement from
    the run behind the certificate.
    """
    if not card.certificate.value:
        return "no certificate bounds what a model recovers from its prompts"

    upper = _upper(card, "ticker_top1")
    if upper is None:
        return "its certificate bounds no attacker that names the stock"

    return f"attackers of its certificate named the stock in at most {percent(upper)} of probes"


def _upper(card: TradingCard, score: str) -> float | None:
    """Return the upper bound of an attack score; None if no attacker measured it."""
    bounds = (card.certificate.value or {}).get("bound")
    entry = bounds.get(score) if isinstance(bounds, Mapping) else None
    upper = entry.get("upper") if isinstance(entry, Mapping) else None
    return float(upper) if isinstance(upper, int | float) else None


def _limit_words(card: TradingCard) -> str:
    """Return the sentence on the smallest degree of memory that can be detected with windows like
    the card's; empty if the limit was not measured.

    Memory shows only when two cards with different masks are compared, so the card needs its
    counterpart.
    """
    pair = _PAIRS.get(card.task.mask)
    family = card.task.config.get("family")
    limits = [limit for limit in memory_limits() if limit.family == family]
    if pair is None or not limits:
        return ""

    spans = _long_windows(card, limits[0].days)
    windows = len(spans)
    if not windows:
        return ""

    effective = effective_count(overlap_correlation(spans)) + _SAME
    known = []
    for limit in limits:
        if limit.windows <= windows and limit.effective <= effective:
            known.append(limit)

    if not known:
        fewest = min(limit.windows for limit in limits)
        apart = " that share no days" if effective < windows else ""
        return (
            f" {count(windows, 'window')} can't show memory, even next to the {pair} card: at"
            f" least {fewest}{apart} are needed."
        )

    best = max(known, key=lambda limit: limit.windows)
    beside = f" Next to the {pair} card, {count(windows, 'window')} would"
    if best.high is None:
        return f"{beside} not reliably show even a full memory (docs/detection.md)."

    return (
        f"{beside} show a memory of {percent(best.high, '.2g')} of the facts or more, as measured with"
        " builtin/memory (docs/detection.md)."
    )


def _long_windows(card: TradingCard, days: int) -> list[Span]:
    """Return the first and last days of the windows that are long enough to detect memory."""
    of_window = {part.name: part.days for part in card.windows}
    long = {}
    for episode in card.pooled:
        shown = of_window.get(episode.window, 0)
        if card.limit is not None:
            shown = min(shown, card.limit)
        if shown >= days:
            long[episode.window] = (episode.first_day, episode.last_day)

    return list(long.values())
