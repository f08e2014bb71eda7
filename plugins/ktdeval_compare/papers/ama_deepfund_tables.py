"""Tables from AMA (one row per agent and model, with columns by asset) and from DeepFund (one row
per model that manages a fund).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ktdeval.cards import TradingCard, system_labels
from ktdeval.errors import CardError
from ktdeval_compare.pairs.compared_cards import EntrantCard
from ktdeval_compare.ranking.luck import card_value

VOTE = "Vote"
BUY_AND_HOLD = "Buy & Hold"
_HOLDING_MODEL = "builtin/buy_and_hold"
_NO_MODEL = "-"
#: facts, other than the asset, that must be equal on all cards in a table with assets
_RULES = ("mask", "hold", "sell", "exit", "trading", "answers")

Column = tuple[str, str, str]
"""Heading, name in the frame, and format of the figures."""


@dataclass(frozen=True, slots=True)
class RowName:
    """Agent and model that together identify a row."""

    agent: str
    model: str


def is_vote(card: TradingCard) -> bool:
    """Return whether a card's decisions were made by majority vote."""
    return card.decisions.elected > 0


def voting_agents(card: TradingCard) -> list[str]:
    """Return the agents whose decisions were counted as votes, without duplicates."""
    voters = card.model.args.get("voters")
    if voters:
        return list(dict.fromkeys(str(voter["agent"]) for voter in voters))
    return _distinct_names(card.agent.args.get("agents", ()))


def _distinct_names(value: Any) -> list[str]:
    """Return the names in a list, without duplicates. If the value comes from a command line, it is
    a comma-separated string.
    """
    names = value.split(",") if isinstance(value, str) else value
    return list(dict.fromkeys(str(name).strip() for name in names))


def _votes_over_models(card: TradingCard) -> bool:
    """Return whether a card's decisions are a vote that one agent holds over several models, as in
    the paper.
    """
    over_models = "voters" in card.model.args or bool(card.agent.args.get("models"))
    return is_vote(card) and over_models and len(voting_agents(card)) == 1


def row_names(entrants: Sequence[EntrantCard]) -> list[RowName]:
    """Return the agent and model of each card. The model is `Vote` if one agent votes over several
    models.
    """
    models = system_labels(entrant.system.of_model for entrant in entrants)
    names = []
    for entrant in entrants:
        if entrant.card.model.name == _HOLDING_MODEL:
            names.append(RowName(BUY_AND_HOLD, _NO_MODEL))
        elif _votes_over_models(entrant.card):
            names.append(RowName(voting_agents(entrant.card)[0], VOTE))
        else:
            names.append(RowName(entrant.system.agent_name, models[entrant.system.of_model]))

    return names


def asset_frame(
    entrants: Sequence[EntrantCard], columns: Sequence[Sequence[str]], first: Sequence[str]
) -> tuple[pd.DataFrame, list[Column]]:
    """Return [agent and model x asset and metric] for single-asset cards, and the columns of this
    frame. The assets in `first` come first, in this order, then the other assets as given.

    Raises CardError if a card does not trade exactly one asset, if two cards belong to the same
    cell, or if cards have different rules.
    """
    cells = asset_cells(zip(entrants, row_names(entrants), strict=True))
    check_asset_rules(entrants)
    rows: dict[RowName, dict[str, float | None]] = {}
    for (name, asset), entrant in cells.items():
        row = rows.setdefault(name, {})
        for _, metric, _ in columns:
            row[f"{asset} {metric}"] = card_value(entrant.card, metric)

    shown = []
    assets = [asset for _, asset in cells]
    listed = [asset for asset in first if asset in assets]
    for asset in dict.fromkeys([*listed, *assets]):
        for head, metric, how in columns:
            shown.append((f"{asset} {head}", f"{asset} {metric}", how))

    ordered = _in_order(list(rows))
    names = [name for _, name, _ in shown]
    figures = [[rows[name].get(column) for column in names] for name in ordered]
    index = pd.MultiIndex.from_arrays(
        [[name.agent for name in ordered], [name.model for name in ordered]],
        names=["Agent", "Model"],
    )
    return pd.DataFrame(figures, index, names, float), shown


def asset_cells(
    named: Iterable[tuple[EntrantCard, RowName]],
) -> dict[tuple[RowName, str], EntrantCard]:
    """Return single-asset cards by name and asset.

    Raises CardError if a card does not trade exactly one asset, or if two cards belong to the same
    cell.
    """
    cells: dict[tuple[RowName, str], EntrantCard] = {}
    for entrant, name in named:
        asset = asset_of(entrant)
        other = cells.setdefault((name, asset), entrant)
        if other is not entrant:
            raise CardError(
                f"{entrant.path} and {other.path} are both of {name.agent} with {name.model} on"
                f" {asset}; give one of them"
            )

    return cells


def asset_of(entrant: EntrantCard) -> str:
    """Return the asset that a card trades.

    Raises CardError if the card's task does not trade exactly one asset.
    """
    assets = list(entrant.card.task.config.get("assets") or [])
    if len(assets) != 1:
        raise CardError(
            f"{entrant.path}: {entrant.card.task.name} is not a task of one asset; give cards of"
            " tasks such as ama_tsla"
        )
    return str(assets[0])


def check_asset_rules(entrants: Sequence[EntrantCard]) -> None:
    """Raise CardError if single-asset cards have different trading rules."""
    first = entrants[0]
    for entrant in entrants[1:]:
        for name in _RULES:
            if entrant.card.task.config.get(name) != first.card.task.config.get(name):
                raise CardError(
                    f"{entrant.path}: {entrant.card.task.name} and {first.card.task.name} of "
                    f"{first.path} differ in {name}; a table needs cards with the same rules"
                )


def _in_order(names: Sequence[RowName]) -> list[RowName]:
    """Sort rows: Buy & Hold first, then the agents in the given order. Each agent's models are in
    the given order, followed by the agent's vote.
    """
    agents = list(dict.fromkeys(name.agent for name in names))
    return sorted(
        names,
        key=lambda name: (
            name.agent != BUY_AND_HOLD,
            agents.index(name.agent),
            name.model == VOTE,
        ),
    )


def fund_frame(
    entrants: Sequence[EntrantCard], metrics: Sequence[str], index: Mapping[str, float | None]
) -> pd.DataFrame:
    """Return [model x metric] for cards that manage the same fund, best return first. The last row
    is the index, with the figures in `index`.

    Raises CardError if the cards' tasks differ, or if two cards belong to the same row.
    """
    tasks = {entrant.card.task.name for entrant in entrants}
    if len(tasks) > 1:
        raise CardError(
            f"a table of a fund is of one task, these cards are of {', '.join(sorted(tasks))}; give"
            " those of one"
        )

    rows: dict[str, Mapping[str, Any]] = {}
    for entrant in entrants:
        name = entrant.label
        if _votes_over_models(entrant.card):
            name = f"{VOTE} ({voting_agents(entrant.card)[0]})"
        if name in rows:
            raise CardError(f"{entrant.path}: there are two cards of {name}; give one")

        rows[name] = {metric: card_value(entrant.card, metric) for metric in metrics}

    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=float, columns=list(metrics))
    frame = frame.sort_values("total_return", ascending=False, kind="stable")
    if any(value is not None for value in index.values()):
        name = entrants[0].card.snapshot.benchmark_name
        # Relative to itself, the index has a beta of 1 and an alpha of 0.
        row = {"df_beta": 1.0, "df_alpha": 0.0, **index}
        frame = pd.concat([frame, pd.DataFrame([row], [name], list(metrics), float)])

    return frame.rename_axis("Model")
