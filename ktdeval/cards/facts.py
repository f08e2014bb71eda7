"""What is said of every evaluation, whatever its task: what was run, who decided, what it took, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.cards.table import clean, count, tally
from ktdeval.cards.words import call_rows, cost_words, drift_words, price_words, token_words
from ktdeval.jsonio import JsonValue

Card = Mapping[str, JsonValue]


def task_row(card: Card) -> tuple[str, str]:
    """The task, with its mask and mode."""
    task = card["task"]
    return "task", f"{task['name']}, version {task['version']} ({task['mask']}, {task['mode']})"


def run_rows(card: Card, step: str) -> Iterator[tuple[str, str]]:
    """Model, agent, calls, market, windows and seeds.

    Args:
        card: of any task.
        step: what a step is called.
    """
    snapshot, limit, draw = card["snapshot"], card["limit"], card["mask_draw"]
    windows = [f"{window['name']} {window['first']}…{window['last']}" for window in card["windows"]]
    shown = ", ".join(windows[:2]) + (f" and {len(windows) - 2} more" if len(windows) > 2 else "")
    yield "model", _with_args(card["model"])
    yield "agent", _with_args(card["agent"])
    yield "calls", ", ".join(f"{name} {value}" for name, value in sorted(card["call"].items()))
    if unsent := _unsent(card):
        yield "not sent", f"{', '.join(unsent)}: the provider does not take it"
    yield "market", f"{snapshot['name']}, {snapshot['assets']} assets, id {snapshot['id'][:12]}"
    yield "windows", shown + (f", the first {count(limit, step)} of each" if limit is not None else "")
    yield "seeds", ", ".join(map(str, card["seeds"]))
    if draw:
        yield "mask draw", str(draw)


def _unsent(card: Card) -> list[str]:
    """Fields of `call` that the model was not sent."""
    sent_as = card["sent_as"] or {}
    return [clean(str(name)) for field in ("not_sent", "omit") for name in sent_as.get(field) or ()]


def _with_args(entry: Card) -> str:
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry["args"].items()))
    return f"{entry['name']} ({args})" if args else str(entry["name"])


def coverage_rows(card: Card, step: str) -> Iterator[tuple[str, str]]:
    """How much of the plan was run, and who decided it. Arguments as of `run_rows`."""
    coverage = card["coverage"]
    share = f" = {100 * coverage['steps_decided'] / coverage['steps']:.1f} %" if coverage["steps"] else ""
    if coverage["steps"] < coverage["steps_planned"]:
        share += f"; {count(coverage['steps_planned'], step)} planned"
    yield "episodes", f"{coverage['episodes_finished']:,} of {coverage['episodes_planned']:,} finished"
    yield "coverage", f"{coverage['steps_decided']:,} of {count(coverage['steps'], step)} decided by the model{share}"
    yield "decisions", tally(card["decisions"])


def token_row(card: Card) -> tuple[str, str]:
    """Tokens in and out."""
    return "tokens", token_words(card["usage"])


def cost_rows(card: Card) -> Iterator[tuple[str, str]]:
    """What the tokens cost and bought, whether the model stayed the same, and what was asked of its provider."""
    cost, drift, calls = card["cost"], card["drift"], card["provenance"]["calls"]
    yield "cost", cost_words(cost)
    if cost["value"]:
        yield "price", price_words(cost["price"])
        if (gain := cost.get("return_per_usd")) is not None:
            median = " (median over episodes)" if gain["n"] > 1 else ""
            yield (
                "return per USD",
                f"not defined: {gain['reason']}" if gain["value"] is None else f"{100 * gain['value']:+,.4g} %{median}",
            )
    if drift["value"] is not None:
        yield "drift", drift_words(drift)
    if calls is not None:
        yield from call_rows(calls)


def missing_notes(card: Card) -> Iterator[str]:
    """One line for each planned episode that did not finish."""
    for episode in card["missing_episodes"]:
        yield clean(f"missing: window {episode['window']}, seed {episode['seed']}: {episode['error']}")


def absent_notes(card: Card, *fields: str) -> Iterator[str]:
    """One line for each of these fields, and for the drift of a provider's model, that the card does not have."""
    # Of a model of this machine nobody asks whether its provider changed it.
    asked = () if card["provenance"]["calls"] is None else ("drift",)
    for name in (*fields, *asked):
        if card[name]["value"] is None:
            yield clean(f"no {name}: {card[name]['reason']}")
