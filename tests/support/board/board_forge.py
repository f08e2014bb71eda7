"""Whole boards of made-up entrants: valid cards, submissions, verdicts and daily series that agree
with each other.

The frame of a card is that of a real run of a keyless model on one window; results are drawn, and
everything that follows from them (ids, medians, coverage, labels, cost) is worked out by the
suite's own functions, so every card passes `validate_card`. Records are "stored elsewhere": nothing
here can be re-executed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ktdeval.cards.assembly import build_scoring_card
from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.task_api import Window
from ktdeval.values import content_hash, sha256_hex, to_plain
from ktdeval_board.derived_documents import make_market
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.rules import load_rules
from support.board.board_arena import Frame, run_frame
from support.board.board_cards import division_of, put_card, put_json, submission_of, verdict_of
from support.board.board_forge_days import Played, forge_decisions
from support.board.forged_models import PROVIDERS
from support.figures.card_cases import spec_of
from support.figures.metric_cases import market as tiny_market
from support.figures.renewed_cards import derived_fields
from support.figures.scoring_cases import (
    SAMPLES,
    TASK as QUESTIONS,
    record,
    score_spec,
    scoring_inputs,
    summarise,
)

TASKS = (
    "blinded_open_research",
    "bright_open_research",
    "blinded_fixed_candidate",
    "bright_fixed_candidate",
)
"""Tasks of the first, second … division of a forged board."""

BASELINES: Mapping[str, str] = {
    "builtin/equal_weight": "rule",
    "builtin/momentum": "rule",
    "builtin/reversal": "rule",
    "builtin/low_volatility": "rule",
    "builtin/random": "random",
}
RANDOM_SEEDS = 4
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "</script><script>document.title='owned'</script>",
    "safe \u202egnirts desrever\u202c and \u0007 bell, {{constructor.constructor('return 1')()}}",
)
"""Reasons of orders as a hostile model would write them. They must be shown as text."""

SCORING = "name-probe"
_SEEDS = (0, 1)
_FILES = ("answers.jsonl.zst", "transcript.jsonl.zst")
_LONG = {"name": "long", "first": "2024-01-03", "last": "2024-01-09"}

_AGENTS = ("react", "react", "planner")
_STRATEGIES = ("baseline", "momentum", "risk-averse", "")
_EFFORTS = (None, "low", "high", None)


@dataclass(frozen=True)
class Entrant:
    """One who submits a card to each division."""

    model: str  #: what its cards and submissions say (model, agent, strategy, effort)
    agent: str = "react"
    strategy: str = ""
    effort: str | None = None
    skill: float = 0.0  #: mean daily selection return
    baseline: str | None = None  #: kind of baseline; None for an entrant
    seeds: tuple[int, ...] = (0,)
    special: str = ""  #: what is wrong with it; empty for most (`SPECIALS`)


SPECIALS = (
    "low coverage",
    "unchecked",
    "self-reported",
    "unranked",
    "withdrawn",
    "no alpha",
    "noted",
    "hostile",
    "unpriced",
)
"""Kinds of odd entrants of a forged board with `specials`: one each, the last ones of the
entrants.
"""


_SKILLS = {"no alpha": 0.001, "noted": -0.001}
"""Who has no rank by selection is ahead of some who have one, and the best has random traders
beside it.
"""


@dataclass
class Forge:
    """Description of a forged board; `forge_board` fills in the parts that most tests ignore."""

    path: Path
    entrants: int
    divisions: int = 1
    windows: int = 2
    seeds: tuple[int, ...] = (0,)
    seed: int = 0
    market: str = "synthetic"
    specials: bool = False
    scoring: int = 0
    decisions: bool = True
    baselines: bool = True
    errata: list[dict[str, str]] = field(default_factory=list)

    def frame(self, task: str = TASKS[0]) -> Frame:
        """The frame of a task's cards: card, series and decisions of a real run of as many
        windows.
        """
        return _frame(task, self.windows)


def forge_board(
    path: Path, entrants: int, divisions: int = 1, windows: int = 2, **more: Any
) -> Path:
    """Write a whole board into a new folder; `more` are fields of `Forge`."""
    forge = Forge(path, entrants, divisions, windows, **more)
    path.mkdir(parents=True)
    rules = _rules(forge)

    for number, division in enumerate(rules["divisions"]):
        for index, entrant in enumerate(_entrants(forge)):
            if division["id"] != SCORING:
                _forge_entry(
                    forge, division, entrant, np.random.default_rng([forge.seed, number, index])
                )

    for index, entrant in enumerate(list(_entrants(forge))[: forge.scoring]):
        _forge_scoring(forge, entrant, np.random.default_rng([forge.seed, 99, index]))

    (path / "board.yaml").write_text(
        yaml.safe_dump(rules, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    (path / "errata.yaml").write_text(yaml.safe_dump({"errata": forge.errata}, sort_keys=False))
    read = load_rules(path)
    market = to_plain(make_market(read, read.snapshots[0], embedded_market()))
    own = {
        name: value
        for name, value in _snapshot(forge).items()
        if name in market["snapshot"] and name != "name"
    }
    put_json(path / "markets" / "main.json", {**market, "snapshot": {**market["snapshot"], **own}})

    return path


@functools.cache
def embedded_market() -> MarketSnapshot:
    """The market of all forged boards."""
    return open_snapshot(load_plugins(()), "synthetic", {})


@functools.cache
def _frame(task: str, windows: int) -> Frame:
    return run_frame(
        task,
        "synthetic",
        1,
        "builtin/momentum",
        tuple(f"W{number}" for number in range(1, windows + 1)),
    )


def _entrants(forge: Forge) -> Iterator[Entrant]:
    """Entrants, the odd ones last, then the baselines."""
    rng = np.random.default_rng([forge.seed, 77])
    first_odd = forge.entrants - len(SPECIALS) if forge.specials else forge.entrants

    for index in range(forge.entrants):
        special = SPECIALS[index - first_odd] if 0 <= first_odd <= index else ""
        is_second = index % 6 == 5  # the same model as the one before, in another agent
        named = index - is_second
        yield Entrant(
            model=f"{PROVIDERS[named % 4]}/model-{named // 4 + 1}",
            agent="debate" if is_second else _AGENTS[index % 3],
            strategy=_STRATEGIES[index % 5 % 4],
            effort=_EFFORTS[index % 3],
            skill=_SKILLS.get(special, float(rng.normal(0.0002, 0.0006))),
            seeds=forge.seeds,
            special=special,
        )

    for model, kind in BASELINES.items() if forge.baselines else ():
        seeds = tuple(range(RANDOM_SEEDS)) if kind == "random" else forge.seeds
        yield Entrant(model, baseline=kind, seeds=seeds)


def _snapshot(forge: Forge) -> dict[str, Any]:
    """The card's snapshot entry; a "real" board has the same prices under another name."""
    own = dict(forge.frame()[0]["snapshot"])
    if forge.market == "real":
        own |= {
            "id": sha256_hex("a real market"),
            "name": "forged",
            "source": "a forged real market",
            "synthetic": False,
        }

    return own


def _rules(forge: Forge) -> dict[str, Any]:
    snapshot = _snapshot(forge)
    divisions = []
    for task in TASKS[: forge.divisions]:
        card = forge.frame(task)[0]
        summary = f"{card['task']['mask']}, {card['task']['mode'].replace('_', ' ')}"
        facts = {"seeds": list(forge.seeds), "rank_by": "total_return", "summary": summary}
        divisions.append(division_of(card, task.replace("_", "-"), "main", **facts))

    snapshots = [
        {
            "name": "main",
            "id": snapshot["id"],
            "data": "synthetic" if forge.market == "synthetic" else "",
        }
    ]

    if forge.scoring:
        snapshots.append(scoring_snapshot(forge.market == "synthetic"))
        divisions.append(scoring_division())

    return {
        "name": "forged",
        "title": "A forged board",
        "market": forge.market,
        "schema_version": 1,
        "summary": "Entrants drawn at random, to try the board with.",
        "contact": "board@example.org",
        "opened_on": "2026-06-01",
        "snapshots": snapshots,
        "divisions": divisions,
        "baselines": [
            {"model": model, "kind": kind}
            | ({"seeds": list(range(RANDOM_SEEDS))} if kind == "random" else {})
            for model, kind in (BASELINES.items() if forge.baselines else ())
        ],
    }


def _forge_scoring(forge: Forge, entrant: Entrant, rng: np.random.Generator) -> None:
    """Card, submission, records list and verdict of one entrant in the division of the scoring
    task.
    """
    card = scoring_card(
        entrant.model, entrant.agent, _settings(entrant), forge.market == "synthetic", rng
    )
    files = _put_submission(forge, card, entrant, "2026-07-01", rng)
    put_json(
        BoardFolder(forge.path).verdict(files.card_id),
        _verdict(card, files.card_id, SCORING, "re-executed", "2026-07-02"),
    )


def scoring_snapshot(is_synthetic: bool) -> dict[str, Any]:
    """The board's rule on the market of the division."""
    return {"name": "tiny", "id": tiny_market(synthetic=is_synthetic).id, "data": ""}


def scoring_division() -> dict[str, Any]:
    """The board's rule on the division."""
    task = {"name": QUESTIONS["name"], "version": "1", "hash": content_hash(QUESTIONS)}
    frame = {"task": task, "windows": [_LONG], "seeds": _SEEDS}
    summary = "who can tell a name from its prices"

    return division_of(frame, SCORING, "tiny", rank_by="right_name", summary=summary)


def scoring_card(
    model: str, agent: str, settings: dict[str, Any], is_synthetic: bool, rng: np.random.Generator
) -> dict[str, Any]:
    """A valid card of one model; `settings` are further fields of its calls."""
    snapshot = tiny_market(synthetic=is_synthetic)
    call = {"temperature": 0.7, "tool_protocol": "native", **settings}
    specs = [
        score_spec(seed, snapshot=snapshot.id, model=model, agent=agent, call=call)
        for seed in _SEEDS
    ]
    skill = rng.uniform(0, 0.6)
    answers = []

    for spec in specs:
        records = [record(step, right=bool(rng.random() < skill)) for step in range(SAMPLES)]
        answers.append((spec, records))

    scores = summarise(list(chain.from_iterable(records for _, records in answers)))
    artefacts = {f"episodes/{spec.id}/{name}": "a" * 64 for spec, name in product(specs, _FILES)}

    return build_scoring_card(
        scoring_inputs(
            specs=specs,
            answers=answers,
            scores=scores,
            snapshot=snapshot,
            artefacts=artefacts,
            price=None,
        )
    ).plain


def _forge_entry(
    forge: Forge, division: Mapping[str, Any], entrant: Entrant, rng: np.random.Generator
) -> None:
    """Card, submission, records list, verdict, series and decisions of one entrant in one
    division.
    """
    card, played = _card(forge, division, entrant, rng)
    submitted_on = str(np.datetime64("2026-06-02") + np.timedelta64(int(rng.integers(0, 120)), "D"))
    card_id = _put_submission(forge, card, entrant, submitted_on, rng).card_id
    folder = BoardFolder(forge.path)
    _add_errata(forge, card_id, entrant)

    if entrant.special == "unchecked":
        return

    tier = (
        "self-reported"
        if entrant.special == "self-reported"
        else "re-run"
        if entrant.baseline
        else "re-executed"
    )
    put_json(folder.verdict(card_id), _verdict(card, card_id, division["id"], tier, submitted_on))

    if tier == "self-reported":
        return

    frame = {"schema_version": 1, "card": card_id}
    put_json(
        folder.series(card_id),
        {**frame, "episodes": [each.series(entrant.special != "noted", rng) for each in played]},
    )

    if forge.decisions:
        hostile = HOSTILE if entrant.special == "hostile" else ()
        real = {
            each["window"]: each["steps"] for each in forge.frame(division["task"])[2]["episodes"]
        }
        episodes = []
        for each in played:
            identity = {name: each.entry[name] for name in ("id", "window", "seed")}
            steps = forge_decisions(real[each.entry["window"]], hostile, rng)
            episodes.append(identity | {"steps": steps})

        put_json(folder.decisions(card_id), {**frame, "episodes": episodes})


def _put_submission(
    forge: Forge,
    card: Mapping[str, Any],
    entrant: Entrant,
    submitted_on: str,
    rng: np.random.Generator,
) -> CardFiles:
    """Write a card, its submission and a list of records that are stored elsewhere."""
    files = put_card(forge.path, card)
    put_json(files.submission, _submission(card, files.card_id, entrant, submitted_on, rng))
    digests = {**card["artefacts"], "manifest.json": sha256_hex(files.card_id)}
    listed = [
        {"path": path, "sha256": digest, "bytes": 1000} for path, digest in sorted(digests.items())
    ]
    where = {"stored": "elsewhere", "url": f"https://example.org/{files.card_id[:8]}"}
    put_json(files.records, {"schema_version": 1, "card": files.card_id, **where, "files": listed})

    return files


def _card(
    forge: Forge, division: Mapping[str, Any], entrant: Entrant, rng: np.random.Generator
) -> tuple[dict[str, Any], list[Played]]:
    """A valid card, and what its episodes did day by day."""
    base, series, _ = forge.frame(division["task"])
    card = {
        **base,
        "model": {"name": entrant.model, "args": {}},
        "agent": {"name": entrant.agent, "args": {}},
    }
    card["mask_key"] = f"{rng.integers(2**62):032x}"
    card["snapshot"] = _snapshot(forge)
    card["seeds"] = sorted(entrant.seeds)
    card["call"] = dict(base["call"])

    if not entrant.baseline:
        card["call"] |= {"tool_protocol": "native", **_settings(entrant)}
        card["cost"] = {"value": None, "reason": "not counted yet"}
        if entrant.special != "unpriced":
            card["cost"]["price"] = _price(rng)

    real = zip(card["windows"], base["episodes"], series["episodes"], strict=True)
    played = [
        _episode(card, each, seed, entrant, rng) for each, seed in product(real, card["seeds"])
    ]
    card["episodes"] = [each.entry for each in played]
    card["artefacts"] = {
        f"episodes/{entry['id']}/{name}": sha256_hex(f"{entry['id']}{name}")
        for entry, name in product(card["episodes"], ("ledger.parquet", "transcript.jsonl.zst"))
    }

    return card | derived_fields(card), played


def _settings(entrant: Entrant) -> dict[str, Any]:
    return {} if entrant.effort is None else {"reasoning_effort": entrant.effort}


def _price(rng: np.random.Generator) -> dict[str, Any]:
    price = round(float(rng.uniform(0.1, 5)), 2)
    return {
        "as_of": "2026-05-01",
        "cache_read": None,
        "cache_write": None,
        "input": price,
        "output": 4 * price,
        "source": "forged",
    }


def _episode(
    card: Mapping[str, Any],
    real: Sequence[dict[str, Any]],
    seed: int,
    entrant: Entrant,
    rng: np.random.Generator,
) -> Played:
    """An episode like the real one of its window, but for what is drawn; `real`: its window, its
    entry on the card, its series.
    """
    window, entry, days = real
    steps = window["days"]
    errors = round(0.08 * steps) if entrant.special == "low coverage" else 0
    played = Played(
        copy.deepcopy(entry),
        days,
        rng.normal(0.0 if entrant.baseline else entrant.skill, 0.006, steps),
    )
    played.entry.update(
        id=spec_of(card, Window(window["name"], window["first"], window["last"]), seed).id,
        seed=seed,
        final_nav_minor=round(1e8 * played.nav[-1]),
        decisions={"error": errors, "fallback": 0, "model": steps - errors, "model_after_retry": 0},
        failures={"timeout": errors} if errors else {},
    )

    if not entrant.baseline:
        tokens = int(rng.integers(20_000, 90_000)) * steps
        played.entry["usage"] |= {"input_tokens": tokens, "output_tokens": tokens // 20}

    _move_metrics(played)
    if entrant.special == "no alpha":
        for name in (
            "selection_alpha",
            "style_return",
            "industry_return",
            "common_return",
            "trading_effect",
        ):
            played.entry["metrics"][name] = {
                "n": steps,
                "value": None,
                "reason": "fewer than 200 days before the window",
            }

    return played


def _move_metrics(played: Played) -> None:
    """The drawn days' figures in the place of the real run's, intervals moved along with them."""
    metrics = played.entry["metrics"]
    nav = played.nav
    levels = np.array(played.days["benchmark"])
    returns = nav[1:] / nav[:-1] - 1
    alpha = metrics["selection_alpha"]
    active = returns - (levels[1:] / levels[:-1] - 1)
    values = {
        "total_return": nav[-1] / nav[0] - 1,
        "sharpe": np.sqrt(252) * returns.mean() / returns.std(ddof=1),
        "max_drawdown": np.max(1 - nav / np.maximum.accumulate(nav)),
        "information_ratio": np.sqrt(252) * active.mean() / active.std(ddof=1),
        "selection_alpha": alpha["value"] + played.moved[-1],
    }

    for name, value in values.items():
        moved, metrics[name]["value"] = float(value) - metrics[name]["value"], float(value)
        interval = metrics[name].get("interval", {})
        ends = [end for end in ("low", "high") if interval.get(end) is not None]
        interval |= {end: interval[end] + moved for end in ends}

    alpha["detail"]["linked"]["selection"] += float(played.moved[-1])
    alpha["detail"]["total_return"] = float(values["total_return"])


def _submission(
    card: Mapping[str, Any],
    card_id: str,
    entrant: Entrant,
    submitted_on: str,
    rng: np.random.Generator,
) -> dict[str, Any]:
    provider = entrant.model.split("/")[0]
    cutoff = (
        "none"
        if entrant.baseline
        else str(np.datetime64("2024-01-01") + np.timedelta64(int(rng.integers(0, 500)), "D"))
    )
    team = "the board" if entrant.baseline else f"{provider.title()} team"
    agent: dict[str, Any] = {"name": entrant.agent} | (
        {"strategy": entrant.strategy} if entrant.strategy else {}
    )
    model: dict[str, Any] = {
        "name": entrant.model,
        "cutoff_date": cutoff,
        "cutoff_source": "a rule" if cutoff == "none" else "model card",
    }

    if not entrant.baseline:
        model["open_weights"] = provider in ("birch", "elm")

    return submission_of(
        card,
        card_id,
        submitter={"name": team, "contact": f"{provider}@example.org"},
        model=model,
        agent=agent,
        attempts={"runs": 1 if entrant.baseline else int(rng.integers(1, 4))},
        submitted_on=submitted_on,
    )


def _verdict(
    card: Mapping[str, Any], card_id: str, division: str, tier: str, day: str
) -> dict[str, Any]:
    if tier == "self-reported":
        return verdict_of(card_id, division, tier, checked_on=day, episodes=0, steps=0)

    counts = {"episodes": len(card["episodes"]), "steps": card["coverage"]["steps"]}
    notes = ["the records are stored elsewhere, so they were not executed again"]
    verdict = verdict_of(card_id, division, tier, checked_on=day, **counts, notes=notes)

    if tier == "re-run":
        figure = card["metrics"]["total_return"]["value"]
        figures = {"total_return": {"submitted": figure, "rerun": figure}}
        verdict["rerun"] = {"by": "the board", "on": day, "card": card_id, "figures": figures}

    return verdict


def _add_errata(forge: Forge, card_id: str, entrant: Entrant) -> None:
    corrections = {
        "unranked": ("unranked", "the price feed of this run was late on two days"),
        "withdrawn": ("withdrawn", "the submitter found an error in the agent and asked for it"),
        "noted": ("note", "the model was renamed by its provider on 2026-08-01"),
    }

    if entrant.special in corrections:
        effect, what = corrections[entrant.special]
        forge.errata.append(
            {
                "card": card_id,
                "date": "2026-11-01",
                "effect": effect,
                "what": what,
                "by": "the board",
            }
        )


def entry_ids(path: Path) -> Sequence[str]:
    """Ids of the cards of a board, in the order of their paths."""
    return [files.card_id for files in BoardFolder(path).list_cards()]
