"""What is known of each model over all divisions, and the history of the board: its events by day, and who was best when."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ktdeval.cards import Line, System, TradingCard, system_labels as labels_of
from ktdeval.jsonio import JsonValue, content_hash
from ktdeval.stats import MASK_FACTORS, mask_contrasts, mean_with_interval, overlap_correlation, window_means
from ktdeval.typed import to_plain
from ktdeval_board.documents import rounded
from ktdeval_board.entries import Board, Card, Entry, settings_of, unset_to_none
from ktdeval_board.ranking.daily import Vector
from ktdeval_board.ranking.describe import ALPHA, system_labels
from ktdeval_board.registrations import Filed

MASK_METRICS = ("total_return", ALPHA)  #: Metrics whose mask effects are shown

_MASK_FIELDS = ("name", "mask", "summary", "tool_texts")  #: What task configs of one family may differ in from mask to mask
_ROW_FIELDS = ("rank", "alpha_rank", "tie", "alpha_tie", "ranked", "why")


def model_pages(board: Board, rankings: Rankings) -> Iterator[tuple[str, JsonValue]]:
    """Name of each model of the board, in order, with the data of its page."""
    labels, tables = system_labels(board), {division: scopes["all"]["rows"] for division, scopes in rankings.items()}
    rows = {row["card"]: row for table in tables.values() for row in table if row["card"] is not None}
    ranked = {division: sum(row["ranked"] for row in table) for division, table in tables.items()}  # entrants with a rank
    by_model: dict[str, list[Entry]] = defaultdict(list)
    for entry in board.entries:
        by_model[entry.model].append(entry)
    for name in sorted(by_model):
        entries = by_model[name]
        cards = [_card(entry, labels[entry.card_id], rows.get(entry.card_id), ranked) for entry in entries]
        yield name, {"name": name, "cards": cards, "mask_effects": mask_effects(entries)}


def _card(entry: Entry, label: str, row: Mapping[str, JsonValue] | None, ranked: Mapping[str, int]) -> dict[str, JsonValue]:
    card = entry.card
    division = entry.division.id if entry.division else None
    attribution = card.attribution.value if isinstance(card, TradingCard) else None
    return {
        **entry.facts(label),
        "division": division,
        "task": card.task.name,
        "mask": card.task.mask,
        "mode": card.task.mode,
        "withdrawn": entry.is_withdrawn,
        "cutoff_source": entry.submission.model.cutoff_source,
        **{field: None if row is None else row[field] for field in _ROW_FIELDS},
        "of": ranked.get(division or "", 0),
        "attribution": {name: _line(line) for name, line in (attribution.lines if attribution else {}).items()},
        "exposures": mean_exposures(card),
        "cost": {"value": rounded(card.cost.value), "reason": unset_to_none(card.cost.reason)},
        "decisions": to_plain(card.decisions),
        "failures": card.failures,
    }


def _line(line: Line) -> JsonValue:
    """A line of the attribution: the median over episodes of what it adds to the total return."""
    interval = unset_to_none(line.interval)
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return rounded({"value": line.value, "low": low, "high": high, "n": line.n})


def mean_exposures(card: Card) -> dict[str, float]:
    """Style factor -> median over pooled episodes of the mean daily exposure, in standard deviations of the market's names."""
    by_factor: dict[str, list[float]] = defaultdict(list)
    for episode in card.pooled if isinstance(card, TradingCard) else ():
        alpha = episode.metrics.get(ALPHA)
        exposures = alpha.detail.get("mean_exposures") if alpha is not None and isinstance(alpha.detail, Mapping) else None
        for name, value in exposures.items() if isinstance(exposures, Mapping) else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                by_factor[name].append(float(value))
    return {name: rounded(statistics.median(values)) for name, values in sorted(by_factor.items())}


def mask_effects(entries: Sequence[Entry]) -> list[JsonValue]:
    """What knowing stocks and dates is worth to each agent of one model, in each mode, where cards of several masks are there.

    Contrasts of means over seeds within each window, then their mean over windows with its t interval, widened where windows share
    days: as `ktdeval effects` has it. Cards are compared when mask and the words that belong to it are all they differ
    in. Cards that may not be ranked by themselves, are not checked or were withdrawn are left out.
    """
    rows: list[JsonValue] = []
    designs: dict[str, dict[str, list[TradingCard]]] = {}  # by all that must be equal, then by mask
    names = labels_of(System.of(entry.card) for entry in entries)
    for entry in entries:
        card = entry.card
        usable = card.rankable.value and not entry.is_withdrawn and entry.verdict is not None
        if usable and isinstance(card, TradingCard) and card.task.mask in MASK_FACTORS:
            designs.setdefault(_shared(card), {}).setdefault(card.task.mask, []).append(card)
    for design in designs.values():  # of two cards with one mask neither can be chosen
        cards = {mask: members[0] for mask, members in design.items() if len(members) == 1}
        for card in list(cards.values())[:1]:  # all of a design are of one system
            rows += [{"system": names[System.of(card)], **row} for metric in MASK_METRICS for row in _effects(cards, metric)]
    return sorted(rows, key=lambda row: (row["mode"], row["system"], row["metric"], row["place"]))


def _shared(card: TradingCard) -> str:
    """Hash of all that cards of different masks must have in common."""
    config = {name: value for name, value in card.task.config.items() if name not in _MASK_FIELDS}
    fields = ("model", "agent", "call", "request_settings", "rules", "windows", "seeds", "limit")
    same = [config, card.task.mode, card.task.version, card.snapshot.id, *(to_plain(getattr(card, name)) for name in fields)]
    return content_hash(same)


def _effects(cards: Mapping[str, TradingCard], metric: str) -> Iterator[JsonValue]:
    """One row for each effect that the masks allow."""
    if not {"bright", "blinded"} <= set(cards):
        return
    values, windows, left_out = _paired(cards, metric)
    first = cards["blinded"]
    covered = {episode.window: (episode.first_day, episode.last_day) for episode in first.episodes}
    correlation = overlap_correlation([covered[window] for window in windows])
    for number, (effect, contrast) in enumerate(mask_contrasts(values).items()):
        mean = mean_with_interval(contrast, correlation)
        detail = mean.detail or {}
        figures = rounded({"value": mean.value, "low": detail.get("low"), "high": detail.get("high"), "n": len(contrast)})
        what = {"mode": first.task.mode, "agent": first.agent.name, "settings": settings_of(first), "metric": metric}
        reason = mean.reason or detail.get("reason")
        yield {**what, "effect": effect, "place": number, **figures, "left_out": left_out, "reason": reason}


def _paired(cards: Mapping[str, TradingCard], metric: str) -> tuple[dict[str, Vector], list[str], int]:
    """Mask -> mean over seeds by window; the windows; how many (window, seed) were left out because a figure is undefined."""
    of_masks = [{(each.window, each.seed): each.metrics.get(metric) for each in card.pooled} for card in cards.values()]
    cells = [(each.window, each.seed) for each in cards["blinded"].pooled]
    rows = {cell: [each.value for of in of_masks if (each := of.get(cell)) and each.value is not None] for cell in cells}
    whole = {cell: row for cell, row in rows.items() if len(row) == len(cards)}
    mode = cards["blinded"].task.mode
    windows, means = window_means([(mask, mode) for mask in cards], whole)
    return {mask: means[mask, mode] for mask in cards}, windows, len(cells) - len(whole)


Rankings = Mapping[str, Mapping[str, JsonValue]]  #: Division id -> scope -> table of `rank_division`

_ORDER = ("registered", "drawn", "excused", "submitted", "checked", "rerun", "erratum")


def history(board: Board, rankings: Rankings) -> JsonValue:
    """Events of the board, and the best of each division over time.

    Returns `events` in the order of their dates, errata of cards that are no longer there included; `best`: for each division the
    ranked cards that were ahead of all on the day of their submission, by today's ranks.
    """
    labels = system_labels(board)
    events = [event for entry in board.entries for event in _events(entry, labels[entry.card_id])]
    known = {entry.card_id for entry in board.entries}
    events += [
        _event(erratum.date, "erratum", None, erratum.card, f"a card that is no longer here: {erratum.effect}: {erratum.what}")
        for erratum in board.errata
        if erratum.card not in known
    ]
    events += [event for filed in board.registrations.filed for event in _registration_events(filed)]
    events.sort(key=lambda event: (event["date"], _ORDER.index(event["kind"]), event["card"]))
    return {"events": events, "best": [best for division in board.rules.divisions for best in _best(division.id, rankings)]}


def _event(date: str, kind: str, entry: Entry | None, card_id: str, text: str) -> dict[str, JsonValue]:
    division = None if entry is None or entry.division is None else entry.division.id
    system = {"model": entry and entry.model, "agent": entry and entry.agent, "division": division}
    return {"date": date, "kind": kind, "card": card_id, **system, "text": text}


def _events(entry: Entry, label: str) -> Iterator[dict[str, JsonValue]]:
    submission, verdict = entry.submission, entry.verdict
    text = f"{label} was submitted by {submission.submitter.name}"
    yield _event(submission.submitted_on, "submitted", entry, entry.card_id, text)
    if verdict is not None:
        steps = f"; {verdict.steps:,} steps were executed again" if verdict.steps else ""
        yield _event(verdict.checked_on, "checked", entry, entry.card_id, f"{label} was checked: {verdict.tier}{steps}")
        if verdict.rerun is not None:
            yield _event(verdict.rerun.on, "rerun", entry, entry.card_id, f"{label} was run again by {verdict.rerun.by}")
    for erratum in entry.errata:
        by = f" ({erratum.by})" if erratum.by else ""
        yield _event(erratum.date, "erratum", entry, entry.card_id, f"{label}: {erratum.effect}: {erratum.what}{by}")


def _registration_events(filed: Filed) -> Iterator[dict[str, JsonValue]]:
    """Yield what happened to a registration; these events are of no card."""
    of_division: dict[str, JsonValue] = {"division": filed.division}
    registration, drawn, excuse = filed.registration, filed.drawn, filed.excuse
    text = f"{filed.words} was registered by {registration.submitter.name}"
    yield _event(registration.registered_on, "registered", None, "", text) | of_division
    if drawn is not None:
        yield _event(drawn.drawn_on, "drawn", None, "", f"the key of registration {filed.words} was drawn") | of_division
    if excuse is not None:
        by = f" ({excuse.by})" if excuse.by else ""
        yield _event(excuse.date, "excused", None, "", f"registration {filed.words} was excused: {excuse.what}{by}") | of_division


def _best(division_id: str, rankings: Rankings) -> Iterator[JsonValue]:
    """Ranked rows that were ahead of all submitted until their day; of those of one day the best alone."""
    table = rankings.get(division_id, {}).get("all")
    if table is None:
        return
    column = table["columns"].index(table["rank_by"]) if table["rows"] else 0
    ahead: int | None = None
    ranked = [row for row in table["rows"] if row["rank"] is not None]
    for row in sorted(ranked, key=lambda row: (row["submitted_on"], row["rank"], row["card"])):
        if ahead is None or row["rank"] < ahead:
            ahead, value = row["rank"], row["values"][column]
            yield {"division": division_id, "date": row["submitted_on"], "card": row["card"], "label": row["label"], "value": value}
