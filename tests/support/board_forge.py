"""Whole boards of made-up entrants: valid cards, submissions, verdicts and daily series that agree with each other.

The frame of a card is that of a real run of a keyless model on one window; results are drawn, and everything that follows from
them (ids, medians, coverage, labels, cost) is worked out by the suite's own functions, so every card passes `validate_card`.
Records are "stored elsewhere": nothing here can be re-executed.
"""

from __future__ import annotations

import copy
import functools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from board_cards import division_of, put_card, put_json, submission_of, verdict_of
from board_forge_days import Days, Episode, days_of, forge_decisions, forge_series, play_episode
from card_cases import derived_fields, spec_of
from ktdeval.cards import load_card
from ktdeval.cards.scoring import build_scoring_card
from ktdeval.config import RunConfig
from ktdeval.contracts import Window
from ktdeval.jsonio import content_hash, sha256_hex
from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import evaluate, open_snapshot
from ktdeval.typed import to_plain
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.rules import load_rules
from ktdeval_board.series import make_market
from metric_cases import market as tiny_market
from scoring_cases import SAMPLES, TASK as QUESTIONS, record, score_spec, scoring_inputs, summarise

TASKS = ("blinded_open_research", "bright_open_research", "blinded_fixed_candidate", "bright_fixed_candidate")
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

_PROVIDERS = ("alder", "birch", "cedar", "elm")
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
    beta: float = 0.9  #: share of NAV that is invested on average
    baseline: str | None = None  #: kind of baseline; None for an entrant
    seeds: tuple[int, ...] = (0,)
    special: str = ""  #: what is wrong with it; empty for most (`SPECIALS`)


SPECIALS = ("low coverage", "unchecked", "self-reported", "unranked", "withdrawn", "no alpha", "noted", "hostile", "unpriced")
"""Kinds of odd entrants of a forged board with `specials`: one each, the last ones of the entrants."""


@dataclass
class Forge:
    """What is to be forged; `forge_board` fills in what most tests don't care for."""

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

    def task_windows(self) -> list[tuple[str, str, str]]:
        """Name, first and last day of each window."""
        known = list(template(TASKS[0]).windows.items())[: self.windows]
        return [(name, window["first"], window["last"]) for name, window in known]


@dataclass(frozen=True)
class Template:
    """Frame of the cards of one task: a real card of one window, and the windows that its task knows."""

    card: Mapping[str, Any]
    windows: Mapping[str, Mapping[str, str]]


def forge_board(path: Path, entrants: int, divisions: int = 1, windows: int = 2, **more: Any) -> Path:
    """Write a whole board into a new folder; `more` are fields of `Forge`."""
    forge = Forge(path, entrants, divisions, windows, **more)
    path.mkdir(parents=True)
    rules = _rules(forge)
    for number, division in enumerate(rules["divisions"]):
        for index, entrant in enumerate(_entrants(forge)):
            if division["id"] != SCORING:
                _forge_entry(forge, division, entrant, np.random.default_rng([forge.seed, number, index]))
    for index, entrant in enumerate(list(_entrants(forge))[: forge.scoring]):
        _forge_scoring(forge, entrant, np.random.default_rng([forge.seed, 99, index]))
    (path / "board.yaml").write_text(yaml.safe_dump(rules, sort_keys=False, allow_unicode=True), encoding="utf-8")
    (path / "errata.yaml").write_text(yaml.safe_dump({"errata": forge.errata}, sort_keys=False))
    read = load_rules(path)
    market = to_plain(make_market(read, read.snapshots[0], embedded_market()))
    own = {name: value for name, value in _snapshot(forge).items() if name in market["snapshot"] and name != "name"}
    put_json(path / "markets" / "main.json", {**market, "snapshot": {**market["snapshot"], **own}})
    return path


@functools.cache
def embedded_market() -> MarketSnapshot:
    """The market of all forged boards."""
    return open_snapshot(load_plugins(()), "synthetic", {})


@functools.cache
def template(task: str) -> Template:
    """The frame of a task's cards, from a run of it."""
    plugins = load_plugins(())
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(
            model="builtin/momentum", tasks=(task,), windows=("W1",), out=f"{folder}/run", quiet=True, mask_key="0" * 32
        )
        card = load_card(evaluate(config, plugins).cards[0]).plain
    windows = plugins.make_task(task).windows
    return Template(
        card, {name: {"first": str(each.first), "last": str(each.last)} for name, each in windows.items() if name != "long"}
    )


def _entrants(forge: Forge) -> Iterator[Entrant]:
    """Entrants, the odd ones last, then the baselines."""
    rng = np.random.default_rng([forge.seed, 77])
    first_odd = forge.entrants - len(SPECIALS) if forge.specials else forge.entrants
    for index in range(forge.entrants):
        is_second = index % 6 == 5  # the same model as the one before, in another agent
        named = index - is_second
        yield Entrant(
            model=f"{_PROVIDERS[named % 4]}/model-{named // 4 + 1}",
            agent="debate" if is_second else _AGENTS[index % 3],
            strategy=_STRATEGIES[index % 5 % 4],
            effort=_EFFORTS[index % 3],
            skill=float(rng.normal(0.0002, 0.0006)),
            beta=float(rng.uniform(0.6, 0.98)),
            seeds=forge.seeds,
            special=SPECIALS[index - first_odd] if 0 <= first_odd <= index else "",
        )
    for model, kind in BASELINES.items() if forge.baselines else ():
        seeds = tuple(range(RANDOM_SEEDS)) if kind == "random" else forge.seeds
        yield Entrant(model, beta=0.95, baseline=kind, seeds=seeds)


def _snapshot(forge: Forge) -> dict[str, Any]:
    """The card's snapshot entry; a "real" board has the same prices under another name."""
    own = dict(template(TASKS[0]).card["snapshot"])
    if forge.market == "real":
        own |= {"id": sha256_hex("a real market"), "name": "forged", "source": "a forged real market", "synthetic": False}
    return own


def _rules(forge: Forge) -> dict[str, Any]:
    snapshot = _snapshot(forge)
    windows = [{"name": name, "first": first, "last": last} for name, first, last in forge.task_windows()]
    divisions = []
    for task in TASKS[: forge.divisions]:
        facts = template(task).card["task"]
        summary = f"{facts['mask']}, {facts['mode'].replace('_', ' ')}"
        frame = {"task": facts, "windows": windows, "seeds": forge.seeds}
        divisions.append(division_of(frame, task.replace("_", "-"), "main", rank_by="total_return", summary=summary))
    snapshots = [{"name": "main", "id": snapshot["id"], "data": "synthetic" if forge.market == "synthetic" else ""}]
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
            {"model": model, "kind": kind} | ({"seeds": list(range(RANDOM_SEEDS))} if kind == "random" else {})
            for model, kind in (BASELINES.items() if forge.baselines else ())
        ],
    }


def _forge_scoring(forge: Forge, entrant: Entrant, rng: np.random.Generator) -> None:
    """Card, submission, records list and verdict of one entrant in the division of the scoring task."""
    card = scoring_card(entrant.model, entrant.agent, _settings(entrant), forge.market == "synthetic", rng)
    files = _put_submission(forge, card, entrant, "2026-07-01", rng)
    put_json(BoardFolder(forge.path).verdict(files.card_id), _verdict(card, files.card_id, SCORING, "re-executed", "2026-07-02"))


def scoring_snapshot(is_synthetic: bool) -> dict[str, Any]:
    """The board's rule on the market of the division."""
    return {"name": "tiny", "id": tiny_market(synthetic=is_synthetic).id, "data": ""}


def scoring_division() -> dict[str, Any]:
    """The board's rule on the division."""
    task = {"name": QUESTIONS["name"], "version": "1", "hash": content_hash(QUESTIONS)}
    frame, summary = {"task": task, "windows": [_LONG], "seeds": _SEEDS}, "who can tell a name from its prices"
    return division_of(frame, SCORING, "tiny", rank_by="right_name", summary=summary)


def scoring_card(model: str, agent: str, settings: dict[str, Any], is_synthetic: bool, rng: np.random.Generator) -> dict[str, Any]:
    """A valid card of one model; `settings` are further fields of its calls."""
    snapshot = tiny_market(synthetic=is_synthetic)
    call = {"temperature": 0.7, "tool_protocol": "native", **settings}
    specs = [score_spec(seed, snapshot=snapshot.id, model=model, agent=agent, call=call) for seed in _SEEDS]
    skill = rng.uniform(0, 0.6)
    answers = [(spec, [record(step, right=bool(rng.random() < skill)) for step in range(SAMPLES)]) for spec in specs]
    scores = summarise([each for _, records in answers for each in records])
    artefacts = {f"episodes/{spec.id}/{name}": "a" * 64 for spec in specs for name in _FILES}
    return build_scoring_card(
        scoring_inputs(specs=specs, answers=answers, scores=scores, snapshot=snapshot, artefacts=artefacts)
    ).plain


def _forge_entry(forge: Forge, division: Mapping[str, Any], entrant: Entrant, rng: np.random.Generator) -> None:
    """Card, submission, records list, verdict, series and decisions of one entrant in one division."""
    card, played = _card(forge, division, entrant, rng)
    submitted_on = str(np.datetime64("2026-06-02") + np.timedelta64(int(rng.integers(0, 120)), "D"))
    card_id, folder = _put_submission(forge, card, entrant, submitted_on, rng).card_id, BoardFolder(forge.path)
    _add_errata(forge, card_id, entrant)
    if entrant.special == "unchecked":
        return
    tier = "self-reported" if entrant.special == "self-reported" else "re-run" if entrant.baseline else "re-executed"
    put_json(folder.verdict(card_id), _verdict(card, card_id, division["id"], tier, submitted_on))
    if tier == "self-reported":
        return
    put_json(folder.series(card_id), forge_series(card_id, played, entrant.special != "noted", rng))
    if forge.decisions:
        hostile = HOSTILE if entrant.special == "hostile" else ()
        put_json(folder.decisions(card_id), forge_decisions(card_id, played, embedded_market().codes, hostile, rng))


def _put_submission(
    forge: Forge, card: Mapping[str, Any], entrant: Entrant, submitted_on: str, rng: np.random.Generator
) -> CardFiles:
    """Write a card, its submission and a list of records that are stored elsewhere."""
    files = put_card(forge.path, card)
    put_json(files.submission, _submission(card, files.card_id, entrant, submitted_on, rng))
    digests = {**card["artefacts"], "manifest.json": sha256_hex(files.card_id)}
    listed = [{"path": path, "sha256": digest, "bytes": 1000} for path, digest in sorted(digests.items())]
    where = {"stored": "elsewhere", "url": f"https://example.org/{files.card_id[:8]}"}
    put_json(files.records, {"schema_version": 1, "card": files.card_id, **where, "files": listed})
    return files


def _card(
    forge: Forge, division: Mapping[str, Any], entrant: Entrant, rng: np.random.Generator
) -> tuple[dict[str, Any], list[tuple[Mapping[str, Any], Episode]]]:
    """A valid card, and what its episodes did day by day."""
    base = template(division["task"]).card
    card = {**base, "model": {"name": entrant.model, "args": {}}, "agent": {"name": entrant.agent, "args": {}}}
    card["mask_key"] = f"{rng.integers(2**62):032x}"
    card["snapshot"] = _snapshot(forge)
    card["seeds"] = sorted(entrant.seeds)
    card["call"] = dict(base["call"])
    if not entrant.baseline:
        card["call"] |= {"tool_protocol": "native", **_settings(entrant)}
        card["cost"] = {"value": None, "reason": "not counted yet"}
        if entrant.special != "unpriced":
            card["cost"]["price"] = _price(rng)
    days = {name: days_of(embedded_market(), first, last) for name, first, last in forge.task_windows()}
    card["windows"] = [
        {"name": name, "first": first, "last": last, "days": len(days[name].days)} for name, first, last in forge.task_windows()
    ]
    played = []
    for window in card["windows"]:
        for seed in card["seeds"]:
            entry, episode = _episode(card, window, seed, days[window["name"]], entrant, rng)
            played.append((entry, episode))
    card["episodes"] = [entry for entry, _ in played]
    card["reference"] = {"benchmark_buy_and_hold": {name: _reference(base, each) for name, each in days.items()}}
    card["artefacts"] = {
        f"episodes/{entry['id']}/{name}": sha256_hex(f"{entry['id']}{name}")
        for entry in card["episodes"]
        for name in ("ledger.parquet", "transcript.jsonl.zst")
    }
    return card | derived_fields(card), played


def _settings(entrant: Entrant) -> dict[str, Any]:
    return {} if entrant.effort is None else {"reasoning_effort": entrant.effort}


def _price(rng: np.random.Generator) -> dict[str, Any]:
    price = round(float(rng.uniform(0.1, 5)), 2)
    return {"as_of": "2026-05-01", "cache_read": None, "cache_write": None, "input": price, "output": 4 * price, "source": "forged"}


def _reference(base: Mapping[str, Any], days: Days) -> dict[str, Any]:
    entry = copy.deepcopy(next(iter(base["reference"]["benchmark_buy_and_hold"].values())))
    levels = days.benchmark / days.benchmark[0]
    for name, value in zip(("total_return", "sharpe", "max_drawdown"), figures_of(levels), strict=True):
        entry["metrics"][name] = {"n": len(days.days), "value": value}
    return {**entry, "base_day": days.base_day, "last_day": days.days[-1]}


def figures_of(levels: np.ndarray) -> tuple[float, float, float]:
    """Total return, annualised Sharpe ratio and maximum drawdown of levels that begin with the base day."""
    returns = levels[1:] / levels[:-1] - 1
    drawdown = float(np.max(1 - levels / np.maximum.accumulate(levels)))
    return float(levels[-1] / levels[0] - 1), float(np.sqrt(252) * returns.mean() / returns.std(ddof=1)), drawdown


def _episode(
    card: Mapping[str, Any], window: Mapping[str, Any], seed: int, days: Days, entrant: Entrant, rng: np.random.Generator
) -> tuple[dict[str, Any], Episode]:
    spec = spec_of(card, Window(window["name"], window["first"], window["last"]), seed)
    played = play_episode(days, entrant.skill, entrant.beta, rng)
    entry = copy.deepcopy(card["episodes"][0])
    steps = len(days.days)
    errors = round(0.08 * steps) if entrant.special == "low coverage" else 0
    entry |= {
        "id": spec.id,
        "window": window["name"],
        "seed": seed,
        "first_day": days.days[0],
        "last_day": days.days[-1],
        "steps": steps,
        "final_nav_fen": round(1e8 * played.nav[-1]),
        "decisions": {"error": errors, "fallback": 0, "model": steps - errors, "model_after_retry": 0},
        "failures": {"timeout": errors} if errors else {},
    }
    if not entrant.baseline:
        tokens = int(rng.integers(20_000, 90_000)) * steps
        entry["usage"] = {**entry["usage"], "input_tokens": tokens, "output_tokens": tokens // 20}
    _fill_metrics(entry["metrics"], played, steps, rng)
    if entrant.special == "no alpha":
        for name in ("selection_alpha", "style_return", "industry_return", "common_return", "trading_effect"):
            entry["metrics"][name] = {"n": steps, "value": None, "reason": "fewer than 200 days before the window"}
    return entry, played


def _fill_metrics(metrics: dict[str, Any], played: Episode, steps: int, rng: np.random.Generator) -> None:
    """The drawn days' own figures in the place of the template's, intervals moved along with them."""
    total, sharpe, drawdown = figures_of(played.nav)
    values = {
        "total_return": total,
        "sharpe": sharpe,
        "max_drawdown": drawdown,
        "information_ratio": played.information_ratio(),
        "turnover": float(played.turnover.sum() * 252 / steps),
        "cash_ratio": float(1 - played.invested.mean()),
        "common_return": float(played.common[-1]),
        "industry_return": float(played.industry[-1]),
        "style_return": float(played.style[-1]),
        "selection_alpha": float(played.selection[-1]),
        "trading_effect": float(played.trading[-1]),
        "hhi": float(rng.uniform(0.04, 0.2)),
        "ece": float(rng.uniform(0.02, 0.3)),
        "brier": float(rng.uniform(0.2, 0.35)),
        "abstention_rate": float(rng.uniform(0, 0.8)),
    }
    for name, value in values.items():
        entry = metrics[name]
        moved = value - (entry["value"] or 0.0)
        entry |= {"value": value, "n": entry["n"] if name in ("ece", "brier") else steps}
        entry.pop("reason", None)
        if "interval" in entry:
            entry["interval"] = {**entry["interval"], "n": steps}
            entry["interval"] |= {end: entry["interval"][end] + moved for end in ("low", "high")}
    detail = metrics["selection_alpha"]["detail"]
    detail["linked"] = played.linked(list(detail["mean_exposures"]))
    detail["mean_exposures"] = {name: float(rng.normal(0, 0.6)) for name in detail["mean_exposures"]}
    detail["total_return"] = total
    metrics["style_return"]["detail"] = {"linked": {name: detail["linked"][name] for name in detail["mean_exposures"]}}


def _submission(
    card: Mapping[str, Any], card_id: str, entrant: Entrant, submitted_on: str, rng: np.random.Generator
) -> dict[str, Any]:
    provider = entrant.model.split("/")[0]
    cutoff = None if entrant.baseline else str(np.datetime64("2024-01-01") + np.timedelta64(int(rng.integers(0, 500)), "D"))
    team = "the board" if entrant.baseline else f"{provider.title()} team"
    agent: dict[str, Any] = {"name": entrant.agent} | ({"strategy": entrant.strategy} if entrant.strategy else {})
    model: dict[str, Any] = {
        "name": entrant.model,
        "cutoff_date": cutoff,
        "cutoff_source": "a rule" if cutoff is None else "model card",
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


def _verdict(card: Mapping[str, Any], card_id: str, division: str, tier: str, day: str) -> dict[str, Any]:
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
    said = {
        "unranked": ("unranked", "the price feed of this run was late on two days"),
        "withdrawn": ("withdrawn", "the submitter found an error in the agent and asked for it"),
        "noted": ("note", "the model was renamed by its provider on 2026-08-01"),
    }
    if entrant.special in said:
        effect, what = said[entrant.special]
        forge.errata.append({"card": card_id, "date": "2026-11-01", "effect": effect, "what": what, "by": "the board"})


def entry_ids(path: Path) -> Sequence[str]:
    """Ids of the cards of a board, in the order of their paths."""
    return [files.card_id for files in BoardFolder(path).submitted()]
