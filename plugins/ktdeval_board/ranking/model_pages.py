"""Model pages across all divisions, and the history of the board: its events by day, and the
leading cards of each division over time.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ktdeval.cards import (
    Line,
    System,
    TradingCard,
    TradingEpisode,
    spread_of,
    system_labels as labels_of,
)
from ktdeval.stats import (
    MASK_FACTORS,
    mask_contrasts,
    mean_with_interval,
    overlap_correlation,
    window_means,
)
from ktdeval.values import JsonValue, Value, content_hash, to_object, to_plain
from ktdeval_board.board_entries import BoardEntry, Card, LoadedBoard, settings_of, unset_to_none
from ktdeval_board.document_types import round_floats, rounded_or_none
from ktdeval_board.look_alike_names import Party, pair_of
from ktdeval_board.ranking.column_texts import ALPHA, system_labels
from ktdeval_board.ranking.daily_summaries import Cell, Vector, figures_by_cell
from ktdeval_board.ranking.rows import Row, Standing, Table, Tables, standing_fields
from ktdeval_board.registrations import FiledRegistration

MASK_METRICS = ("total_return", ALPHA)  #: Metrics for which mask effects are shown

#: Fields in which the task configs of a family may differ between masks
_MASK_FIELDS = ("name", "mask", "summary", "tool_texts")


# ---- model pages


def model_pages(board: LoadedBoard, tables: Tables) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield each model on the board by name, in order, with the data for its page."""
    labels = system_labels(board)
    rows: dict[str | None, Row] = {}
    ranked: dict[str, int] = {}
    for division, scopes in tables.items():
        table = scopes["all"]
        ranked[division] = sum(row["ranked"] for row in table["rows"])
        rows |= {row["card"]: row for row in table["rows"]}

    by_model: dict[str, list[BoardEntry]] = defaultdict(list)
    for entry in board.entries:
        by_model[entry.model].append(entry)

    for name, entries in sorted(by_model.items()):
        cards = []
        for entry in entries:
            division = "" if entry.division is None else entry.division.id
            row = rows.get(entry.card_id)
            cards.append(_card_part(entry, labels[entry.card_id], row, ranked.get(division, 0)))

        yield name, {"name": name, "cards": cards, "mask_effects": mask_effects(entries)}


def _card_part(entry: BoardEntry, label: str, row: Row | None, ranked: int) -> dict[str, JsonValue]:
    """Return the part of a page that shows a card. `ranked` is the number of ranked cards in the
    card's division.
    """
    card = entry.card
    attribution = card.attribution.value if isinstance(card, TradingCard) else None
    lines = {} if attribution is None else attribution.lines
    standing: dict[str, JsonValue]
    if row is None:  # the card appears in no table
        standing = dict.fromkeys(Standing.__annotations__)
    else:
        standing = standing_fields(row)

    return {
        **to_object(entry.facts(label)),
        "division": None if entry.division is None else entry.division.id,
        "task": card.task.name,
        "mask": card.task.mask,
        "mode": card.task.mode,
        "withdrawn": entry.is_withdrawn,
        "cutoff_source": entry.submission.model.cutoff_source,
        **standing,
        "of": ranked,
        "attribution": {name: _attribution_line(line) for name, line in lines.items()},
        "exposures": mean_exposures(card),
        "cost": {"value": round_floats(card.cost.value), "reason": unset_to_none(card.cost.reason)},
        "decisions": to_plain(card.decisions),
        "failures": to_plain(card.failures),
    }


def _attribution_line(line: Line) -> JsonValue:
    """Return a line of the attribution: the median over episodes of its contribution to total
    return.
    """
    low = None
    high = None
    spread = spread_of(line)
    if spread is not None:
        low = rounded_or_none(spread.low)
        high = rounded_or_none(spread.high)

    return {"value": rounded_or_none(line.value), "low": low, "high": high, "n": line.n}


def mean_exposures(card: Card) -> dict[str, float | None]:
    """Return each style factor's exposure, keyed by factor: the median over pooled episodes of the
    mean daily exposure, in cross-sectional standard deviations of the market's stocks.
    """
    by_factor: dict[str, list[float]] = defaultdict(list)
    if isinstance(card, TradingCard):
        for episode in card.pooled:
            for name, value in _exposures(episode):
                by_factor[name].append(value)

    return {
        name: rounded_or_none(statistics.median(values))
        for name, values in sorted(by_factor.items())
    }


def _exposures(episode: TradingEpisode) -> Iterator[tuple[str, float]]:
    alpha = episode.metrics.get(ALPHA)
    if alpha is None or not isinstance(alpha.detail, Mapping):
        return

    exposures = alpha.detail.get("mean_exposures")
    if not isinstance(exposures, Mapping):
        return

    for name, value in exposures.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)


# ---- mask effects


class MaskEffect(Value, frozen=True, kw_only=True):
    """Value of knowing stocks or dates to a system in one mode, measured by one metric."""

    system: str
    mode: str
    agent: str
    settings: str
    metric: str
    effect: str
    place: int  #: position of the effect in the list of effects
    value: float | None
    low: float | None
    high: float | None
    n: int  #: number of windows
    left_out: int  #: number of (window, seed) pairs with an undefined figure under some mask
    reason: str | None  #: why the value or the interval is undefined


def mask_effects(entries: Sequence[BoardEntry]) -> list[JsonValue]:
    """Return how much knowing stocks and dates is worth to each agent of a model, in each mode that
    has cards with several masks.

    Figures are averaged over seeds within each window before masks are contrasted. The effect is
    the mean contrast over windows, with a t interval that is widened if windows share days, as in
    `ktdeval compare masks`. Cards are compared if they differ only in the mask and its texts. Cards
    that can't be ranked on their own, are unchecked or were withdrawn are excluded.
    """
    names = labels_of(System.of(entry.card) for entry in entries)
    effects: list[MaskEffect] = []

    for design in _designs(entries):
        # If several cards have the same mask, none of them can be chosen.
        cards = {mask: members[0] for mask, members in design.items() if len(members) == 1}
        if not {"bright", "blinded"} <= cards.keys():
            continue

        system = names[System.of(cards["blinded"])]  # all cards of a design belong to one system
        for metric in MASK_METRICS:
            effects += _mask_effects(cards, metric, system)

    effects.sort(key=lambda each: (each.mode, each.system, each.metric, each.place))
    return [to_plain(effect) for effect in effects]


def _designs(entries: Sequence[BoardEntry]) -> Iterator[Mapping[str, list[TradingCard]]]:
    """Yield groups of cards by one submitter that differ only in their mask. Each group is keyed by
    mask.
    """
    designs: dict[tuple[str, Party], dict[str, list[TradingCard]]] = {}
    for entry in entries:
        card = entry.card
        usable = card.rankable.value and not entry.is_withdrawn and entry.verdict is not None
        if usable and isinstance(card, TradingCard) and card.task.mask in MASK_FACTORS:
            # Without the submitter in the key, another submitter's card of the same model could
            # have the same mask as this card, and then neither could be chosen.
            design = _design_hash(card), pair_of(entry.submission.submitter)
            designs.setdefault(design, {}).setdefault(card.task.mask, []).append(card)

    yield from designs.values()


def _design_hash(card: TradingCard) -> str:
    """Return a hash of everything that cards with different masks must have in common."""
    config = {name: value for name, value in card.task.config.items() if name not in _MASK_FIELDS}
    fields = ("model", "agent", "call", "request_settings", "rules", "windows", "seeds", "limit")
    settings = [to_plain(getattr(card, name)) for name in fields]

    return content_hash([config, card.task.mode, card.task.version, card.snapshot.id, *settings])


def _mask_effects(
    cards: Mapping[str, TradingCard], metric: str, system: str
) -> Iterator[MaskEffect]:
    """Yield each effect that can be identified from the available masks."""
    values, windows, undefined = _pair_windows(cards, metric)
    first = cards["blinded"]
    covered = {episode.window: (episode.first_day, episode.last_day) for episode in first.episodes}
    correlation = overlap_correlation([covered[window] for window in windows])

    for place, (effect, contrast) in enumerate(mask_contrasts(values).items()):
        mean = mean_with_interval(contrast, correlation)
        detail = mean.detail if isinstance(mean.detail, Mapping) else {}
        yield MaskEffect(
            system=system,
            mode=first.task.mode,
            agent=first.agent.name,
            settings=settings_of(first),
            metric=metric,
            effect=effect,
            place=place,
            value=rounded_or_none(mean.value),
            low=_rounded_number(detail.get("low")),
            high=_rounded_number(detail.get("high")),
            n=len(contrast),
            left_out=undefined,
            reason=mean.reason or _text_or_none(detail.get("reason")),
        )


def _rounded_number(value: JsonValue) -> float | None:
    return rounded_or_none(value) if isinstance(value, int | float) else None


def _text_or_none(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _pair_windows(
    cards: Mapping[str, TradingCard], metric: str
) -> tuple[dict[str, Vector], list[str], int]:
    """Return the means over seeds, keyed by mask; the windows; and the number of (window, seed)
    pairs excluded because a figure is undefined.
    """
    figures = [figures_by_cell(card.pooled, metric) for card in cards.values()]
    cells = [(episode.window, episode.seed) for episode in cards["blinded"].pooled]
    whole: dict[Cell, list[float]] = {}
    for cell in cells:
        row = [values[cell] for values in figures if cell in values]
        if len(row) == len(cards):
            whole[cell] = row

    mode = cards["blinded"].task.mode
    windows, means = window_means([(mask, mode) for mask in cards], whole)
    undefined = len(cells) - len(whole)

    return {mask: means[mask, mode] for mask in cards}, windows, undefined


# ---- history


_ORDER = ("registered", "drawn", "excused", "submitted", "checked", "rerun", "erratum")
"""Kinds of events, in the order in which events of the same day are listed."""


class Event(Value, frozen=True, kw_only=True):
    """Event on a board."""

    date: str
    kind: str
    card: str = ""  #: id of the card; empty for a registration's event
    model: str | None = None
    agent: str | None = None
    division: str | None = None
    system: str = ""  #: label of the card's or the registration's system; empty if it is not known
    text: str


def history(board: LoadedBoard, tables: Tables) -> dict[str, JsonValue]:
    """Return the events on the board, and the cards that led each division over time.

    `events` are ordered by date and include errata on cards that no longer exist. `best` contains,
    for each division, the ranked cards that led on the day of their submission, judged by today's
    ranks.
    """
    events = sorted(
        _events(board), key=lambda event: (event.date, _ORDER.index(event.kind), event.card)
    )
    best: list[JsonValue] = []
    for division in board.rules.divisions:
        table = tables.get(division.id, {}).get("all")
        if table is not None:
            best += _leaders(table)

    return {"events": [to_plain(event) for event in events], "best": best}


def _events(board: LoadedBoard) -> Iterator[Event]:
    labels = system_labels(board)
    for entry in board.entries:
        yield from _card_events(entry, labels[entry.card_id])

    known = {entry.card_id for entry in board.entries}
    for erratum in board.errata:
        if erratum.card not in known:
            text = f"a card that is no longer here: {erratum.effect}: {erratum.what}"
            yield Event(date=erratum.date, kind="erratum", card=erratum.card, text=text)

    label_of = {entry.card.registration: labels[entry.card_id] for entry in board.entries}
    for filed in board.registrations.filed:
        yield from _registration_events(filed, label_of.get(filed.id, filed.system_words))


def _card_events(entry: BoardEntry, label: str) -> Iterator[Event]:
    division = None if entry.division is None else entry.division.id

    def event(date: str, kind: str, text: str) -> Event:
        return Event(
            date=date,
            kind=kind,
            card=entry.card_id,
            model=entry.model,
            agent=entry.agent,
            division=division,
            system=label,
            text=f"{label}{text}",
        )

    submission = entry.submission
    by = submission.submitter.name
    yield event(submission.submitted_on, "submitted", f" was submitted by {by}")

    verdict = entry.verdict
    if verdict is not None:
        text = f" was checked: {verdict.tier}"
        if verdict.steps:
            text += f"; {verdict.steps:,} steps were re-executed"

        yield event(verdict.checked_on, "checked", text)

        rerun = verdict.rerun
        if rerun is not None:
            yield event(rerun.on, "rerun", f" was run again by {rerun.by}")

    for erratum in entry.errata:
        text = f": {erratum.effect}: {erratum.what}{_by(erratum.by)}"
        yield event(erratum.date, "erratum", text)


def _registration_events(filed: FiledRegistration, system: str) -> Iterator[Event]:
    """Yield the events of a registration that do not involve a card."""

    def event(date: str, kind: str, text: str) -> Event:
        return Event(date=date, kind=kind, division=filed.division, system=system, text=text)

    registration = filed.registration
    by = registration.submitter.name
    yield event(registration.registered_on, "registered", f"{filed.words} was registered by {by}")

    if filed.drawn is not None:
        text = f"the key of registration {filed.words} was drawn"
        yield event(filed.drawn.drawn_on, "drawn", text)

    excuse = filed.excuse
    if excuse is not None:
        text = f"registration {filed.words} was excused: {excuse.what}{_by(excuse.by)}"
        yield event(excuse.date, "excused", text)


def _by(maintainer: str) -> str:
    return f" ({maintainer})" if maintainer else ""


def _leaders(table: Table) -> Iterator[JsonValue]:
    """Yield each ranked row that was ahead of all rows submitted before it. Of several such rows
    from the same day, only the best is included.
    """
    ranked = []
    for row in table["rows"]:
        if row["rank"] is not None:
            ranked.append((row["submitted_on"], row["rank"], row["card"] or "", row))

    ahead: int | None = None
    for submitted_on, rank, card_id, row in sorted(ranked, key=lambda each: each[:3]):
        if ahead is None or rank < ahead:
            ahead = rank
            column = table["columns"].index(table["rank_by"])
            yield {
                "division": table["division"],
                "date": submitted_on,
                "card": card_id,
                "label": row["label"],
                "value": row["values"][column],
            }
