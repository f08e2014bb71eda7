"""Forge runs: change records, plan or card, and make everything that can be
computed agree with the change.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ktdeval.errors import KtdevalError
from ktdeval.market.rules.calendar import window_rows
from ktdeval.registry import Plugins
from ktdeval.runner.episodes.bookkeeper import Bookkeeper, recorded_decision
from ktdeval.runner.records.ledger_file import encode_ledger, load_ledger
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.values import dumps_pretty, file_sha256, from_plain, to_plain
from support.figures.renewed_cards import renewed_card
from support.runs.transcripts import read_transcript, write_transcript

LEDGER = "ledger.parquet"
TRANSCRIPT = "transcript.jsonl.zst"
Steps = list[dict[str, Any]]


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    """Rewrite a JSON file; `change` returns the new content, or nothing where it changed the
    old.
    """
    content = json.loads(path.read_text())
    path.write_text(dumps_pretty(change(content) or content))


def change_ledger(folder: Path, change: Callable[[Steps], Any], **header: Any) -> None:
    """Rewrite an episode's ledger with changed step records, and other fields of its header."""
    ledger = load_ledger(folder / LEDGER)
    steps: Steps = to_plain(ledger.steps)
    changed = from_plain(change(steps) or steps, list[StepRecord], "forged steps")
    (folder / LEDGER).write_bytes(encode_ledger(replace(ledger, steps=changed, **header)))


def change_transcript(folder: Path, change: Callable[[list[Any]], Any]) -> None:
    """Rewrite an episode's transcript with changed entries."""
    entries = read_transcript(folder)
    changed = change(entries)
    write_transcript(folder, entries if changed is None else changed)


def rehash(folder: Path, **mark: Any) -> None:
    """Make an episode's mark agree with its records."""
    digests = {
        name: file_sha256(folder / name)
        for name in (LEDGER, TRANSCRIPT)
        if (folder / name).exists()
    }
    edit_json(folder / "episode.json", lambda old: {**old, "sha256": digests, **mark})


def execute_again(
    run: Path, folder: Path, plugins: Plugins, snapshot: Any, change: Callable[[Steps], Any]
) -> None:
    """Change an episode's decisions, and let fills, positions and hashes follow as the engine would
    have it.
    """
    spec = next(spec for spec in RunFolder.load(run).manifest.specs if spec.id == folder.name)
    trading = plugins.make_task(spec.task).trading

    def consistent(steps: Steps) -> Any:
        changed = from_plain(change(steps) or steps, list[StepRecord], "forged steps")
        start = window_rows(snapshot.days, spec.window.first, spec.window.last)[0]
        books = Bookkeeper(
            snapshot, MarketTape.from_snapshot(snapshot, trading), trading, start - 1
        )

        return to_plain(
            [
                books.book(index, recorded_decision(snapshot, step), step)
                for index, step in enumerate(changed)
            ]
        )

    change_ledger(folder, consistent)
    rehash(folder)


def relabel(
    run: Path, change: Callable[[EpisodeSpec], EpisodeSpec], card: Callable[[dict[str, Any]], Any]
) -> None:
    """Present a run as one of another plan: plan, folders, ledgers, marks and card name the specs
    that `change` makes. `card` changes the fields of the card that repeat them.
    """
    store = RunFolder.load(run)
    given = {spec.id: change(spec) for spec in store.manifest.specs}
    store.save_manifest(replace(store.manifest, specs=tuple(given.values())))
    ids = {old: spec.id for old, spec in given.items()}
    artefacts = {}

    for old, spec in given.items():
        folder = store.episode_path(spec)
        if old != spec.id:
            shutil.move(run / "episodes" / old, folder)

        change_ledger(folder, lambda steps: steps, spec=spec.to_json())
        rehash(folder, spec=spec.to_json())
        artefacts |= {
            f"episodes/{spec.id}/{name}": file_sha256(folder / name)
            for name in (LEDGER, TRANSCRIPT)
        }

    def renewed(made: dict[str, Any]) -> None:
        card(made)
        made["artefacts"] = artefacts
        for episode in (*made["episodes"], *made["missing_episodes"]):
            episode["id"] = ids[episode["id"]]

    (path,) = (run / "cards").glob("*.json")
    edit_json(path, renewed)


# -- values, one at a time


def forged(old: Any) -> Any:
    """A value of the same type that a schema lets pass as often as possible."""
    if isinstance(old, bool):
        return not old

    if isinstance(old, int):
        return old + 1

    if isinstance(old, float):
        return old / 2 if old else 0.25

    return f"{old}x" if isinstance(old, str) else old


def place_of(
    steps: list[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]
) -> tuple[int, int]:
    """Step and place of the first order that is as wanted."""
    for number, step in enumerate(steps):
        for place, order in enumerate(step["orders"]):
            if wanted(order):
                return number, place

    raise LookupError("no order is as wanted")


def more(by: float) -> Callable[[Any], Any]:
    return lambda old: old + by


def instead(new: Any) -> Callable[[Any], Any]:
    return lambda old: new


COLUMNS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "steps": {
        "step": more(1),
        "decided_on": instead("2024-01-02"),
        "filled_on": instead("2024-12-31"),
        "provenance": lambda old: "fallback" if old.startswith("model") else "model",
        "failures": lambda old: {**old, "bad_json": old.get("bad_json", 0) + 1},
        **dict.fromkeys(
            (
                "tool_calls",
                "tool_calls_valid",
                "submissions",
                "unmask_attempts",
                "reasoning_tokens",
            ),
            more(1),
        ),
        **dict.fromkeys(
            ("cache_read_tokens", "cache_write_tokens", "cash_minor", "open_nav_minor"), more(1)
        ),
        **dict.fromkeys(("input_tokens", "output_tokens", "holdings_minor"), more(-1)),
        "overall_reason": lambda old: f"{old}!",
        "nav_minor": more(100),
        "corporate_actions": instead(
            [{"code": "", "ratio": 1.0, "shares_before": 100, "shares_after": 100, "cash_minor": 9}]
        ),
    },
    "orders": {
        "stock_id": instead("asset_0000"),
        "side": lambda old: "SELL" if old == "BUY" else "BUY",
        "confidence": lambda old: old / 2,
        "reason": lambda old: f"{old} indeed",
        "target_weight": lambda old: old / 2,
        "status": instead("rejected"),
        "rule": instead("cash"),
        "message": instead("as you like it"),
        "filled_shares": more(100),
        "price_ticks": more(-100),
        "notional_minor": more(1),
        "fee_minor": instead(0),
        "code": instead(None),
        "shares": instead(100),
    },
    "positions": {
        "shares": more(100),
        "locked": more(100),
        "price_ticks": more(1),
        "value_minor": more(1),
        "code": instead(None),
    },
}


def change_column(steps: Steps, kind: str, column: str, step: int, index: int) -> None:
    """Change a column of `COLUMNS` in one row of a ledger; `dropped` and `doubled` are rows as a
    whole.
    """
    rows = steps if kind == "steps" else steps[step][kind]
    row = rows[index]

    if column == "dropped":
        del rows[index]
    elif column == "doubled":
        rows.insert(index, dict(row))
    else:
        row[column] = COLUMNS[kind][column](row[column])

    if column == "code":
        orders = chain.from_iterable(step["orders"] for step in steps)
        codes = (order["code"] for order in orders)
        row["code"] = next(code for code in codes if code not in (None, row["code"]))
    elif (kind, column) == ("orders", "shares"):
        row["target_weight"] = None
    elif column == "corporate_actions":
        held = chain.from_iterable(step["positions"] for step in steps)
        row[column][0]["code"] = next(position["code"] for position in held)


def renewed(card: dict[str, Any]) -> dict[str, Any]:
    """A card with everything that follows from its other fields worked out again; the card itself
    where these are too odd.
    """
    card = copy.deepcopy(card)

    try:
        renewed: dict[str, Any] = json.loads(dumps_pretty(renewed_card(card)))
        return renewed
    except (LookupError, TypeError, ValueError, ArithmeticError, KtdevalError):
        return card
