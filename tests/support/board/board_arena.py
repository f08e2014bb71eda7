"""Boards of arenas with many entrants: the frame is a real run of a keyless model, the entrants'
paths are drawn.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate, open_snapshot
from ktdeval.values import loads_strict, to_plain
from ktdeval_board.derived_documents import make_decisions, make_series
from ktdeval_board.layout import BoardFolder
from support.board.board_cards import division_of, put_card, put_json, submission_of, verdict_of
from support.figures.card_cases import typed

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
AGENTS = ("investor", "trade", "hedge_fund", "deepfund", "vote", HOSTILE)
_ODDS = ((0.5, 0.2), (0.2, 0.2), (0.02, 0.6), (0.4, 0.05), (0.3, 0.3), (0.33, 0.33))

Frame = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Card, series and decisions of a run, as JSON."""

Play = Callable[[dict[str, Any], dict[str, Any], np.random.Generator, int], dict[str, float]]
"""Changes an episode's series and steps to those of an entrant of an agent (by its place in
`AGENTS`); returns its figures.
"""


def run_frame(
    task: str, data: str, seeds: int, model: str = "builtin/random", windows: tuple[str, ...] = ()
) -> Frame:
    """The frame of a board's cards: a real run of a keyless model."""
    plugins = load_plugins(())
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/run"
        what = {"tasks": (task,), "data": data, "seeds": seeds, "windows": windows}
        evaluate(RunConfig(model=model, **what, out=out, quiet=True, mask_key="0" * 32), plugins)  # type: ignore[arg-type]
        run = RunFolder.load(Path(out))
        card = loads_strict(next(Path(out, "cards").glob("*.json")).read_bytes())
        made: Any = typed(card)
        series = make_series(run, "c" * 64, made, open_snapshot(plugins, data, {}))
        decisions = make_decisions(run, "c" * 64, made)

    return card, to_plain(series), to_plain(decisions)


def arena_board(path: Path, frames: Sequence[tuple[Frame, Play]], models: int) -> Path:
    """Write a board with a division for each frame, in which each agent has a card of each of so
    many models.
    """
    rules = []

    for index, ((card, series, decisions), play) in enumerate(frames):
        division = f"division-{index}"
        rules.append(division_of(card, division, card["snapshot"]["id"], rules=card["rules"]))
        rng = np.random.default_rng(index)
        for agent_place, agent in enumerate(AGENTS):
            for number in range(models):
                own = copy.deepcopy((card, series, decisions))
                _rename(own[0], f"provider/model-{number:02}", agent)
                for entry, days, day in zip(
                    own[0]["episodes"], own[1]["episodes"], own[2]["episodes"], strict=True
                ):
                    for name, value in play(days, day, rng, agent_place).items():
                        entry["metrics"][name] = {"value": value, "n": len(days["days"])}

                _write_entry(path, own, division)

    snapshots = {
        card["snapshot"]["id"]: {
            "name": f"market-{index}",
            "id": card["snapshot"]["id"],
            "data": "",
        }
        for index, ((card, *_), _) in enumerate(frames)
    }

    for rule in rules:
        rule["snapshot"] = snapshots[rule["snapshot"]]["name"]

    value = {
        "name": "arena",
        "title": "An arena",
        "market": "synthetic",
        "snapshots": list(snapshots.values()),
        "divisions": rules,
    }
    (path / "board.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
    (path / "errata.yaml").write_text("errata: []\n")

    return path


def play_ama(
    days: dict[str, Any], steps: dict[str, Any], rng: np.random.Generator, agent: int
) -> dict[str, float]:
    """Long, short or nothing, by the odds of the agent, at 5 basis points."""
    levels = np.array(days["asset"])
    moved = levels[1:] / levels[:-1] - 1.0
    odds = _ODDS[agent]
    side = 0
    sides = []

    for _ in moved:
        if rng.random() < 0.25:
            side = int(rng.choice((1, -1, 0), p=(*odds, 1 - sum(odds))))

        sides.append(side)

    held = np.array(sides)
    changed = np.abs(np.diff(held, prepend=0))
    gross = np.concatenate([[1.0], np.cumprod(1.0 + held * moved)])
    nav = np.concatenate([[1.0], np.cumprod((1.0 + held * moved) * (1.0 - 5e-4 * changed))])
    days |= {"nav": nav.tolist(), "gross_nav": gross.tolist()}
    template = {
        "code": "TSLA",
        "asked": "100 %",
        "filled": 1,
        "price": 1.0,
        "status": "filled",
        "rule": None,
        "reason": HOSTILE,
    }

    for index, step in enumerate(steps["steps"]):
        before = sides[index - 1] if index else 0
        step["holdings"] = [["TSLA", float(sides[index])]] if sides[index] else []
        step["orders"] = (
            [{**template, "side": "BUY" if sides[index] > before else "SELL"}]
            if sides[index] != before
            else []
        )

    gap = (nav - levels)[1:]

    return {
        "total_return": float(nav[-1] - 1),
        "ama_cumulative_return": float(nav[-1] - 1),
        "ama_days_above_buy_and_hold": float(np.mean(gap > 0)),
        "ama_gap_to_buy_and_hold": float(gap.mean()),
    }


def play_fund(
    days: dict[str, Any], steps: dict[str, Any], rng: np.random.Generator, agent: int
) -> dict[str, float]:
    """Funds that move with the index by the agent's own beta, from drawn weights; teams of analysts
    give signals.
    """
    levels = np.array(days["benchmark"])
    moved = levels[1:] / levels[:-1] - 1.0
    nav = np.concatenate(
        [[1.0], np.cumprod(1.0 + (0.4 + 0.2 * agent) * moved + rng.normal(0.0, 0.004, len(moved)))]
    )
    days |= {"nav": nav.tolist(), "gross_nav": nav.tolist()}
    codes = ("AAPL", "AXP", "BAC", "CVX", "KO")
    template = {
        "asked": "20 %",
        "filled": 1,
        "price": 1.0,
        "status": "filled",
        "rule": None,
        "reason": HOSTILE,
    }

    for step in steps["steps"]:
        weights = rng.dirichlet(np.full(6, 2.0 + agent))[:5]
        step["holdings"] = sorted(
            ([code, float(weight)] for code, weight in zip(codes, weights, strict=True)),
            key=lambda one: -one[1],
        )
        bought = [code for code in codes if rng.random() < 0.1 * (1 + agent)]
        step["orders"] = [
            {**template, "code": code, "side": ("BUY", "SELL")[int(rng.random() < 0.4)]}
            for code in bought
        ]

    if AGENTS[agent] in ("deepfund", "hedge_fund"):
        drawn = rng.multinomial(5 * len(moved), (0.4, 0.2, 0.3, 0.1), size=3).tolist()
        kinds = ("Bullish", "Bearish", "Neutral", "no_signal")
        steps["signals"] = {
            role: dict(zip(kinds, one, strict=True))
            for role, one in zip(("macro", "news", "technical"), drawn, strict=True)
        }

    beta = float(np.cov(np.diff(nav) / nav[:-1], moved)[0, 1] / np.var(moved, ddof=1))

    return {
        "total_return": float(nav[-1] - 1),
        "df_beta": beta,
        "df_alpha": float(rng.normal(0.0, 0.2)),
        "df_effectiveness": 0.5,
    }


def _rename(card: dict[str, Any], model: str, agent: str) -> None:
    card["model"], card["agent"] = {"name": model, "args": {}}, {"name": agent, "args": {}}


def _write_entry(board: Path, own: Frame, division: str) -> None:
    card, series, decisions = own
    folder = BoardFolder(board)
    files = put_card(board, card)
    card_id = files.card_id
    strategy = "baseline" if int(card["model"]["name"][-1]) % 2 else "flip"
    put_json(
        files.submission,
        submission_of(card, card_id, agent={"name": "an agent", "strategy": strategy}),
    )
    put_json(
        files.records, {"schema_version": 1, "card": card_id, "stored": "elsewhere", "files": []}
    )
    put_json(folder.verdict(card_id), verdict_of(card_id, division))
    put_json(folder.series(card_id), {**series, "card": card_id})
    put_json(folder.decisions(card_id), {**decisions, "card": card_id})
