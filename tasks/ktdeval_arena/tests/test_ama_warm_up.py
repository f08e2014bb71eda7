"""Warm-up of teams on Agent Market Arena's tasks: they decide on the days before the first step,
see nothing too early, keep what they learned across an interruption, and `plan` counts the calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest, Reply, TranscriptEntry, shown_state
from ktdeval.market import MarketSnapshot, save_snapshot
from ktdeval.market.snapshots.snapshot import BAR_FIELDS
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate
from ktdeval.runner.estimate import estimate_run
from ktdeval.runner.estimate_values import RunEstimate
from ktdeval.values import to_mapping
from ktdeval_agents.team import REFLECTION
from ktdeval_agents.warmup import WARM_UP
from ktdeval_data.params import TwinParams
from ktdeval_data.synthetic_us_crypto import make_twin
from ktdeval_models.random_model import RandomModel
from support.masking.news_items import poisoned_news
from support.runs.killing import PAUSE, killed

PLUGINS = load_plugins()
FIRST_DECISION = "2025-08-01"
DAYS = {"ama_btc": 92, "ama_tsla": 63}  # from 2025-05-01 to 2025-07-31
STEPS = {"ama_btc": 60}


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return make_twin("arena", TwinParams(first="2025-03-03", last="2025-10-10"))


@pytest.fixture(scope="module")
def data(market: MarketSnapshot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arena") / "market"
    save_snapshot(market, folder)
    return folder


def config(data: Path, out: Path, **more: Any) -> RunConfig:
    fields: dict[str, Any] = {
        "model": "builtin/random",
        "tasks": ("ama_btc",),
        "agent": "investor",
        "data": str(data),
        "out": str(out),
        "limit": 2,
        "mask_key": "0" * 32,
    }
    return RunConfig(**fields | more)


def transcript(data: Path, out: Path, **more: Any) -> list[TranscriptEntry]:
    assert not evaluate(config(data, out, **more), PLUGINS).failed
    folder = RunFolder.load(out)
    (spec,) = folder.manifest.specs
    return list(folder.load_transcript(spec))


def practice(entry: TranscriptEntry) -> list[str]:
    """Prompts of the practice days of a step."""
    prompts = []
    sent: list[Any] = []

    for exchange in entry.exchanges:
        sent = [*sent[: exchange["kept"]], *exchange["sent"]]
        if exchange.get("role") == WARM_UP:
            prompts.append(str(sent[-1]["content"]))

    return prompts


def memory_in(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines() if line.startswith("- day_")]


def outcomes_in(lines: list[str]) -> list[float]:
    return [float(line.partition("then changed by ")[2].partition(" %")[0]) for line in lines]


@pytest.mark.exhaustive
def test_team_decides_on_each_warm_up_day_and_remembers_the_outcome(
    market: MarketSnapshot, data: Path, tmp_path: Path
) -> None:
    first, second = transcript(data, tmp_path / "run")
    prompts = practice(first)

    assert len(prompts) == DAYS["ama_btc"]
    assert practice(second) == []

    for prompt in prompts:
        assert "outcomes" not in shown_state(prompt)

    # the last seven, with the change from each close to the next one
    row = market.day_index(FIRST_DECISION)
    column = market.asset_index["BTC"]
    closes = market.close[row - 7 : row + 1, column]
    changes = 100 * (closes[1:] / closes[:-1] - 1)
    shown = memory_in(first.exchanges[-1]["sent"][-1]["content"])

    assert outcomes_in(shown) == pytest.approx(changes, abs=0.006)
    assert all(" (practice); " in line for line in shown)
    assert [line.partition(",")[0] for line in shown] == [
        f"- day_-{day}" for day in range(7, 0, -1)
    ]

    # decisions of the task itself take their place, one by one
    shown = memory_in(second.exchanges[-1]["sent"][-1]["content"])
    assert [" (practice)" in line for line in shown] == [True] * 6 + [False]
    assert main(["card", "verify", str(tmp_path / "run")]) == 0


# ---- nothing too early


def spoiled(market: MarketSnapshot, row: int) -> MarketSnapshot:
    """The same market with other prices, volumes and documents after `row`."""
    rng = np.random.default_rng(5)
    fields = {}

    for name in BAR_FIELDS:
        values = getattr(market, name).copy()
        later = values[row + 1 :]
        later[np.isfinite(later)] = rng.uniform(1.0, 9.0)
        fields[name] = values

    return replace(market, **fields, documents=poisoned_news(market, row), id="")


@pytest.mark.exhaustive
@pytest.mark.parametrize("days_before", [0, 1, 30])
def test_no_practice_day_shows_what_comes_after_it(
    days_before: int, market: MarketSnapshot, data: Path, tmp_path: Path
) -> None:
    (true,) = transcript(data, tmp_path / "true", limit=1)
    last_true = market.day_index(FIRST_DECISION) - days_before
    save_snapshot(spoiled(market, last_true), tmp_path / "spoiled")
    (other,) = transcript(tmp_path / "spoiled", tmp_path / "other", limit=1)

    # the last practice day is the day before the first decision
    known = min(DAYS["ama_btc"], DAYS["ama_btc"] - days_before + 1)

    assert practice(other)[:known] == practice(true)[:known]

    for before, after in zip(practice(true)[known:], practice(other)[known:], strict=True):
        assert before != after

    assert (other.exchanges == true.exchanges) == (days_before == 0)


@pytest.mark.exhaustive
def test_stock_in_a_crypto_market_practises_only_on_its_session_days(
    market: MarketSnapshot, data: Path, tmp_path: Path
) -> None:
    (first,) = transcript(data, tmp_path / "run", tasks=("ama_tsla",), limit=1)
    assert len(practice(first)) == DAYS["ama_tsla"]

    row = market.day_index(FIRST_DECISION) + 1
    closes = market.close[:row, market.asset_index["TSLA"]]
    closes = closes[np.isfinite(closes)][-8:]
    changes = 100 * (closes[1:] / closes[:-1] - 1)
    shown = memory_in(first.exchanges[-1]["sent"][-1]["content"])

    assert outcomes_in(shown) == pytest.approx(changes, abs=0.006)


# ---- interruptions and failures


class Scripted:
    """`builtin/random` that fails or is interrupted at some of its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: Mapping[int, BaseException]) -> None:
        self.calls = 0
        ask = RandomModel.reply

        def reply(model: RandomModel, request: ModelRequest) -> Reply:
            self.calls += 1
            if self.calls in at:
                raise at[self.calls]

            return ask(model, request)

        monkeypatch.setattr(RandomModel, "reply", reply)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("at", "asked_again"), [(50, 92 + 3), (95, 1)])
def test_a_run_that_is_interrupted_ends_as_one_that_is_not(
    at: int, asked_again: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = transcript(data, tmp_path / "whole", limit=3)
    with monkeypatch.context() as patch:
        Scripted(patch, {at: KeyboardInterrupt()})
        with pytest.raises(KeyboardInterrupt):
            evaluate(config(data, tmp_path / "run", limit=3), PLUGINS)

    with monkeypatch.context() as patch:
        model = Scripted(patch, {})
        assert transcript(data, tmp_path / "run", limit=3) == whole

    # in the warm-up the step begins anew, after it what was learned is in the journal
    assert model.calls == asked_again


KILLED = """
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval_models.random_model import RandomModel

ask, calls = RandomModel.reply, []

def reply(model, request):
    calls.append(request)
    if len(calls) == {at}:
        {pause}
    return ask(model, request)

RandomModel.reply = reply
evaluate(RunConfig(**{config}), load_plugins())
"""


@pytest.mark.exhaustive
def test_what_was_learned_outlasts_a_kill(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = transcript(data, tmp_path / "whole")
    settings = to_mapping(config(data, tmp_path / "run"))
    # the first step takes 93 calls
    killed(KILLED.format(at=94, pause=PAUSE, config=settings), tmp_path)
    model = Scripted(monkeypatch, {})

    assert transcript(data, tmp_path / "run") == whole
    assert model.calls == 1


@pytest.mark.exhaustive
def test_warm_up_memory_survives_a_failed_first_decision(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted(monkeypatch, {92: ModelError("timeout", "no reply"), 93: ModelError("timeout", "no")})
    _, second = transcript(data, tmp_path / "run")
    shown = memory_in(second.exchanges[-1]["sent"][-1]["content"])

    assert [line.partition(",")[0] for line in shown] == [
        f"- day_-{day}" for day in range(8, 1, -1)
    ]

    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs
    first = folder.load_ledger(spec).steps[0]

    assert first.provenance == "error"
    assert first.failures == {"model_timeout": 2, "silent_role": 1}


# ---- what is hidden


@pytest.mark.slow
def test_neither_practice_nor_memory_names_what_the_mask_hides(
    market: MarketSnapshot, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = transcript(data, tmp_path / "run", agent="trade", limit=1)
    sent = json.dumps([exchange["sent"] for exchange in first.exchanges], ensure_ascii=False)
    Scripted(monkeypatch, {106: KeyboardInterrupt()})  # in the second step

    with pytest.raises(KeyboardInterrupt):
        evaluate(config(data, tmp_path / "broken", agent="trade"), PLUGINS)

    (journal,) = (tmp_path / "broken").rglob("journal.jsonl")
    memory = json.loads(journal.read_text().splitlines()[0])["memory"]

    assert [entry["step"] for entry in memory["entries"]] == [-4, -3, -2, -1, 0]
    assert memory["entries"][0]["asset"].startswith("asset_")

    for word in ("BTC", "TSLA", "Arena", "2025", *market.names):
        assert word not in sent, word
        assert word not in json.dumps(memory), word


# ---- what it costs


def estimate(data: Path, out: Path, agent: str, **args: Any) -> RunEstimate:
    settings = config(
        data, out, model="openai/gpt-4o-mini", agent=agent, agent_args=args, limit=None
    )
    return estimate_run(settings, PLUGINS)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("agent", "args", "calls_a_step", "warm_up"),
    [
        ("investor", {}, 1, 92),
        ("investor", {"warmup": 10}, 1, 10),
        ("investor", {"warmup": 0}, 1, 0),
        ("trade", {}, 12, 92 + 1),  # and one reflection on the latest outcomes
        ("hedge_fund", {}, 17, 0),  # it has no memory
    ],
)
def test_a_plan_counts_the_calls_of_a_warm_up(
    agent: str, args: Mapping[str, int], calls_a_step: int, warm_up: int, data: Path, tmp_path: Path
) -> None:
    made = estimate(data, tmp_path / "run", agent, **args)
    assert made.left["low"].calls == STEPS["ama_btc"] * calls_a_step + warm_up

    (line,) = [line for line in made.assumptions if "warm-up" in line]

    if warm_up:
        assert line == (
            f"ama_btc: {warm_up} warm-up questions from 2025-05-01 precede the first step of an episode in window live"
        )
    else:
        assert line.endswith(f"in which agent {agent} makes no requests")


@pytest.mark.exhaustive
def test_a_run_asks_as_often_as_its_plan_says(data: Path, tmp_path: Path) -> None:
    first, second = transcript(data, tmp_path / "run", agent="trade")
    assert [len(first.exchanges), len(second.exchanges)] == [92 + 1 + 12, 1 + 12]
    assert first.exchanges[92]["role"] == REFLECTION
