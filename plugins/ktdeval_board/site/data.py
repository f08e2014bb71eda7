"""Values for the site's data files, computed from a board and its ranked tables. No file is read or
written.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UnsetType

from ktdeval.cards import TradingCard, hidden_figures
from ktdeval.values import JsonValue, to_plain
from ktdeval_board.attempts import attempts_of, state_of
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, facets
from ktdeval_board.layout import path_segment
from ktdeval_board.market_document import Market
from ktdeval_board.ranking import column_texts
from ktdeval_board.ranking.column_texts import by_trust
from ktdeval_board.ranking.questions import evidence_of, question_words
from ktdeval_board.ranking.rows import Table, Tables, standing_fields
from ktdeval_board.registrations import FiledRegistration
from ktdeval_board.rules import Division, OpenBook, Rules, SnapshotRule
from ktdeval_pages.card_sentences import card_sentence

SITE_VERSION = 1
"""Version of the data files' formats."""

_RULES = ("name", "title", "summary", "market", "contact", "url", "opened_on", "tie_level")
_KEY_RULES = ("keys", "most_registrations")
_DIVISION_RULES = (
    "id",
    "task",
    "version",
    "hash",
    "snapshot",
    "rules",
    "rank_by",
    "certificate",
    "attackers",
    "fresh",
    *_KEY_RULES,
)
_SNAPSHOT_FACTS = ("benchmark", "benchmark_name", "source", "assets", "first_day", "last_day")
_MARKET_WORDS = ("name", "source", "repairs", "benchmark_name")
_ERRATUM = ("date", "effect", "what", "by")
_RANK_FIELDS = (
    "rank",
    "alpha_rank",
    "tie",
    "shared_rank",
    "worst_rank",
    "tied_with",
    "group_ranks",
    "shared_alpha_rank",
    "worst_alpha_rank",
    "alpha_tied_with",
    "alpha_group_ranks",
)
_CARD_COLUMNS = ("card", "model", "agent", "division", "tier", "baseline", "submitted_on", "label")


def board_data(
    board: LoadedBoard, tables: Tables, markets: Mapping[str, Market]
) -> dict[str, JsonValue]:
    """Return the value of `board`: everything that pages need before they show any row."""
    rules = board.rules
    shown = [entry for entry in board.entries if not entry.is_withdrawn]
    snapshots = [_snapshot_facts(board, rule, markets.get(rule.name)) for rule in rules.snapshots]
    divisions = []
    for division in rules.divisions:
        market = markets.get(division.snapshot or "")
        divisions.append(_division(board, division, tables[division.id]["all"], market))

    return {
        "site_version": SITE_VERSION,
        **{name: getattr(rules, name) for name in _RULES},
        "suite_version": _suite_version(board),
        "snapshots": snapshots,
        "divisions": divisions,
        "metrics": column_texts.describe_metrics(board),
        "models": models_data(board),
        "errata": to_plain(board.errata),
        "counts": {
            "cards": len(shown),
            "models": len({entry.model for entry in shown}),
            "submitters": len({entry.submission.submitter.name for entry in shown}),
        },
    }


def _suite_version(board: LoadedBoard) -> str | None:
    """Return the version of the suite used for the latest check; None if nothing was checked."""
    verdicts = [entry.verdict for entry in board.entries if entry.verdict is not None]
    latest = max(verdicts, key=lambda verdict: (verdict.checked_on, verdict.card), default=None)
    return None if latest is None else latest.suite_version


def _snapshot_facts(
    board: LoadedBoard, rule: SnapshotRule, market: Market | None
) -> dict[str, JsonValue]:
    """Return facts about a market that the board has opened; null if it has not opened it."""
    facts = None if market is None else market.snapshot
    return {
        "name": rule.name,
        "id": rule.id,
        "synthetic": board.rules.market == "synthetic",
        "data": rule.data,
        "data_args": rule.data_args,
        "has_market": market is not None,
        **{name: getattr(facts, name, None) for name in _SNAPSHOT_FACTS},
    }


def _division(
    board: LoadedBoard, division: Division, table: Table, market: Market | None
) -> dict[str, JsonValue]:
    entries = board.of_division(division)
    task = by_trust(entries)[0].card.task if entries else None
    columns = column_texts.division_columns(board, division)

    return {
        **{name: getattr(division, name) for name in _DIVISION_RULES},
        "filed_under": division.filed_under,
        "open_book": isinstance(division, OpenBook),
        "summary": division.summary if isinstance(division, OpenBook) else "",
        "mask": task and task.mask,
        "mode": task and task.mode,
        "kind": column_texts.division_kind(board, division),
        "windows": _division_windows(division, market),
        "seeds": list(division.seeds),
        "scopes": [path_segment(scope) for scope in column_texts.division_scopes(board, division)],
        "entrants": sum(entry.baseline is None for entry in entries),
        "ranked": sum(row["ranked"] for row in table["rows"]),
        "baselines": sum(entry.baseline is not None for entry in entries),
        "columns": columns,
        "default_columns": column_texts.default_columns(columns, division.rank_by),
        "notes": list(table["notes"]),
        "task_config": task and task.config,
    }


def _division_windows(division: Division, market: Market | None) -> list[JsonValue]:
    """Return the windows with the number of trading days that each has in the market; null if the
    board has not opened the market.
    """
    days: dict[tuple[str, str], int] = {}
    if market is not None:
        for window in market.windows:
            days[window.first, window.last] = window.days

    windows: list[JsonValue] = []
    for rule in division.windows:
        known = days.get((rule.first, rule.last))
        windows.append({"name": rule.name, "first": rule.first, "last": rule.last, "days": known})

    return windows


def models_data(board: LoadedBoard) -> list[JsonValue]:
    """Return facts about each model, keyed by name. Withdrawn cards are included. The submitter and
    the date come from the model's latest submission.
    """
    by_model: dict[str, list[BoardEntry]] = {}
    for entry in board.entries:
        by_model.setdefault(entry.model, []).append(entry)

    return [_model(board, name, entries) for name, entries in sorted(by_model.items())]


def _model(board: LoadedBoard, name: str, entries: list[BoardEntry]) -> dict[str, JsonValue]:
    latest = max(entries, key=lambda entry: (entry.submission.submitted_on, entry.card_id))
    submission = latest.submission
    own = {entry.division.id for entry in entries if entry.division is not None}

    return {
        "name": name,
        "agents": sorted({entry.agent for entry in entries}),
        "divisions": [each.id for each in board.rules.divisions if each.id in own],
        "cards": [entry.card_id for entry in entries],
        "cutoff_date": submission.model.cutoff_date,
        "submitter": submission.submitter.name,
        "open_weights": submission.model.open_weights,
    }


def cards_index(board: LoadedBoard) -> dict[str, JsonValue]:
    """Return the value of `cards-index`: a short row for each card that was not withdrawn, so that
    any page can refer to it.
    """
    labels = column_texts.system_labels(board)
    rows: list[JsonValue] = []
    for entry in board.entries:
        if entry.is_withdrawn:
            continue

        row: list[JsonValue] = [entry.card_id, entry.model, entry.agent]
        row.append(None if entry.division is None else entry.division.id)
        row += [entry.tier, entry.baseline_kind, entry.submission.submitted_on]
        row.append(labels[entry.card_id])
        rows.append(row)

    return {"columns": list(_CARD_COLUMNS), "rows": rows}


def ranks_of(tables: Tables) -> dict[str, dict[str, JsonValue]]:
    """Return the ranks of each ranked card, keyed by card id and scope: its rank, its α-rank, its
    tie group with the shared rank, and the number of ranked rows (`of`).
    """
    ranks: dict[str, dict[str, JsonValue]] = {}
    for scopes in tables.values():
        for scope, table in scopes.items():
            ranked = [row for row in table["rows"] if row["ranked"]]
            for row in ranked:
                if row["card"] is None:  # a baseline without a card
                    continue

                scopes_of_card = ranks.setdefault(row["card"], {})
                standing = standing_fields(row)
                shown = {name: standing[name] for name in _RANK_FIELDS}
                scopes_of_card[path_segment(scope)] = {**shown, "of": len(ranked)}

    return ranks


def standings_of(board: LoadedBoard, tables: Tables) -> dict[str, tuple[bool, list[str]]]:
    """Return, keyed by card id, whether each card is ranked and, if not, the reasons. A baseline is
    not ranked and needs no reason.
    """
    standings: dict[str, tuple[bool, list[str]]] = {}
    for scopes in tables.values():
        for row in scopes["all"]["rows"]:
            if row["card"] is not None:
                standings[row["card"]] = (row["ranked"], list(row["why"]))

    for entry in board.entries:
        if entry.card_id not in standings:
            standings[entry.card_id] = (False, _absence(board.rules, entry))

    return standings


def registrations_data(board: LoadedBoard) -> list[JsonValue]:
    """Return the value of `registrations`: each registration with its state and its cards, sorted
    by day.
    """
    cards: dict[str, list[str]] = {}
    for entry in board.entries:
        if entry.card.registration:
            cards.setdefault(entry.card.registration, []).append(entry.card_id)

    ordered = sorted(
        board.registrations.filed, key=lambda each: (each.registration.registered_on, each.id)
    )
    rows: list[JsonValue] = []
    for each in ordered:
        row = _list_registered(each)
        row["model"] = each.registration.system.model
        row["agent"] = each.registration.system.agent
        row["division"] = each.division
        row["state"] = state_of(board, each)
        row["excuse"] = None if each.excuse is None else to_plain(each.excuse)
        row["cards"] = cards.get(each.id, [])
        rows.append(row)

    return rows


def _list_registered(filed: FiledRegistration) -> dict[str, JsonValue]:
    question = filed.registration.question
    return {
        "id": filed.id,
        "submitter": filed.registration.submitter.name,
        "registered_on": filed.registration.registered_on,
        "drawn_on": None if filed.drawn is None else filed.drawn.drawn_on,
        "signed": bool(filed.signed_by),
        "question": None if isinstance(question, UnsetType) else question_words(question),
    }


def _registration(board: LoadedBoard, entry: BoardEntry) -> dict[str, JsonValue] | None:
    """Return a card's registration; None if the submitter chose the key, or if the registration is
    not on the board.
    """
    filed = board.registrations.by_id.get(entry.card.registration or "")
    return None if filed is None else _list_registered(filed)


def _absence(rules: Rules, entry: BoardEntry) -> list[str]:
    """Return why a card does not appear in any table."""
    withdrawn = []
    for erratum in entry.errata:
        if erratum.effect == "withdrawn":
            withdrawn.append(f"withdrawn on {erratum.date}: {erratum.what}")

    if withdrawn or entry.division is not None:
        return withdrawn

    reasons = ["belongs to no division of the board"]
    same_task = [division for division in rules.divisions if division.task == entry.card.task.name]
    if same_task:
        reasons += facets(rules, same_task[0], entry.card).values()

    return reasons


def _market_words(entry: BoardEntry) -> dict[str, JsonValue] | None:
    """Return the board's description of a card's market, which replaces the card's description;
    None without a market.
    """
    snapshot = entry.card.snapshot
    if snapshot is None:
        return None

    return {name: to_plain(getattr(snapshot, name)) for name in _MARKET_WORDS}


def _hidden(entry: BoardEntry) -> dict[str, JsonValue]:
    """Return why a card's figures at a year's pace are not shown, keyed by metric."""
    if not isinstance(entry.card, TradingCard):
        return {}
    return {**hidden_figures(entry.card)}


def _sentence(entry: BoardEntry) -> str | None:
    """Return what a card shows, in one sentence; None for scores, which have no benchmark."""
    if not isinstance(entry.card, TradingCard):
        return None
    return card_sentence(entry.card)


def card_data(
    board: LoadedBoard,
    entry: BoardEntry,
    standing: tuple[bool, list[str]],
    ranks: Mapping[str, JsonValue],
) -> dict[str, JsonValue]:
    """Return the value of `card/<id>` without the card itself."""
    found = evidence_of(board, entry)
    return {
        "id": entry.card_id,
        "path": board.folder.relative(entry.files.card),
        "submission": to_plain(entry.submission),
        "verdict": to_plain(entry.verdict),
        "signed_by": list(entry.signed_by),
        "card_signed_by": list(entry.card_signed_by),
        "labels": [*entry.labels, *found.labels],
        "evidence": to_plain(found.facts),
        "errata": [{name: getattr(each, name) for name in _ERRATUM} for each in entry.errata],
        "division": None if entry.division is None else entry.division.id,
        "knowledge": entry.knowledge,
        "anchored": entry.anchored,
        "registered_before": entry.registered_before,
        "attempts": attempts_of(board, entry),
        "registration": _registration(board, entry),
        "ranked": standing[0],
        "why": standing[1],
        "market": _market_words(entry),
        "hidden": _hidden(entry),
        "sentence": _sentence(entry),
        "cost": to_plain(entry.card.cost) if entry.has_board_prices else None,
        "ranks": ranks,
        "has_series": board.folder.series(entry.card_id).is_file(),
        "has_decisions": board.folder.decisions(entry.card_id).is_file(),
    }
