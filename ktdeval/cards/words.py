"""Parts of a card as words, the same in a terminal and on a page: whether it may be ranked, what it used, cost and asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.jsonio import JsonValue

Card = Mapping[str, JsonValue]


def content_words(card: Card) -> str:
    """How much a card holds, such as `episodes: 1, metrics: 28`."""
    if card["kind"] == "certificate":
        return f"probes: {card['probes']['count']}, attackers: {len(card['attackers'])}"
    figures = "scores" if card["kind"] == "scoring" else "metrics"
    return f"episodes: {len(card['episodes'])}, {figures}: {len(card[figures])}"


def ranking_words(card: Card) -> str:
    """`rankable`, or `not rankable: ` with every reason."""
    verdict = card["rankable"]
    return "rankable" if verdict["value"] else f"not rankable: {'; '.join(verdict['reasons'])}"


def token_words(usage: Card) -> str:
    """Tokens in and out, and of these what was reasoning or went through a provider's prompt cache."""
    inside = _some({"read from the provider's cache": usage["cache_read_tokens"], "written to it": usage["cache_write_tokens"]})
    outside = _some({"reasoning": usage["reasoning_tokens"]})
    return f"{usage['input_tokens']:,} in{inside}, {usage['output_tokens']:,} out{outside}"


def _some(parts: Mapping[str, int]) -> str:
    shown = [f"{number:,} {name}" for name, number in parts.items() if number]
    return f" ({', '.join(shown)})" if shown else ""


def cost_words(cost: Card) -> str:
    """US dollars in all and an episode, or why they are not known."""
    if cost["value"] is None:
        return f"not known: {cost['reason']}"
    each = cost["per_episode"]
    median = "" if each["n"] < 2 else f", {dollars(each['value'])} an episode (median)"
    return f"{dollars(cost['value'])}{median}"


def price_words(price: Card) -> str:
    """A price with its day and source."""
    parts = [f"{price['input']:g} in", f"{price['output']:g} out"]
    parts += [f"{price[name]:g} {name.replace('_', ' ')}" for name in ("cache_read", "cache_write") if price[name] is not None]
    origin = ", ".join(part for part in (price["as_of"] and f"as of {price['as_of']}", price["source"]) if part)
    return f"{', '.join(parts)} USD a million tokens{f' ({origin})' if origin else ''}"


def drift_words(drift: Card) -> str:
    """How far the model's answers moved during the run, or why that is not known."""
    if drift["value"] is None:
        return f"not known: {drift['reason']}"
    questions = f"{drift['prompts']:,} question{'' if drift['prompts'] == 1 else 's'}"
    distances = f"{drift['value']:.3f} between start and end over {questions}, {drift['noise']:.3f} within one sitting"
    changed = "; the provider named another model at the end" if drift["served_by_changed"] else ""
    return f"{distances} (0 equal, 1 different){changed}"


def call_rows(calls: Card) -> Iterator[tuple[str, str]]:
    """What was asked of the provider: how often, what failed, how long it took, what was paid, who answered."""
    failed = sum(calls["failed_attempts"].values())
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in calls["failed_attempts"].items())
    yield (
        "requests",
        f"{calls['requests']:,}: {calls['answered']:,} answered by the provider, {calls['cached']:,} from the cache;"
        f" {failed:,} failed attempts{f': {kinds}' if kinds else ''}",
    )
    seconds = calls["latency_s"]
    if seconds["median"] is not None:
        lost = f"; {calls['lost_s']:,.1f} s in failed attempts" if calls["lost_s"] else ""
        most = f"99 % within {seconds['p99']:.2f} s, longest {seconds['longest']:.2f} s"
        yield "latency", f"median {seconds['median']:.2f} s, {most}{lost}"
    checks = calls["checks"]
    paid = "not known" if calls["paid_usd"] is None else dollars(calls["paid_usd"])
    besides = f", possibly {dollars(calls['possibly_paid_usd'])} more" if calls["possibly_paid_usd"] else ""
    own = f"; checks of the run {dollars(checks['paid_usd'])}" if checks["paid_usd"] else ""
    yield "paid", f"{paid}{besides}{own}"
    if calls["served_by"]:
        yield "served by", ", ".join(f"{name} ({number:,})" for name, number in calls["served_by"].items())


def dollars(value: float) -> str:
    """`1,234.57 USD`; small sums with as many decimals as show two digits of them."""
    if value == 0 or value >= 1:
        return f"{value:,.2f} USD"
    return f"{value:.4f} USD" if value >= 0.001 else f"{value:.2g} USD"
