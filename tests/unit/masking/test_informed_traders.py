"""Who holds the history of a market finds the day by the index and the stocks by their closes, and
earns nearly what perfect foresight does, but never more.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from best_screens import best_screens
from bring_prices import brought
from foresight_bound import foresight_bound
from informed_traders import INITIAL_MINOR, InformedTrader, KnownHistory, attack
from played_episodes import PLUGINS, total_return

from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.task_api import Window
from ktdeval.testing import small_market
from ktdeval.trading.market_tape import MarketTape
from ktdeval_builtin.react import ReactAgent
from support.accept.accept_runs import evaluate, import_real, synthetic
from support.paths import REPOSITORY
from support.tasks.ktdfin_market import FIRST, LAST, spec_of

MARKET = small_market()
HISTORY = KnownHistory(MARKET)
WINDOW = Window("W", FIRST, LAST)
START, STOP = window_rows(MARKET.days, FIRST, LAST)
MASKED = [
    "blinded_open_research",
    "stock_blind_open_research",
    "date_blind_open_research",
    "blinded_fixed_candidate",
    "blinded_open_research_paper",
    "blinded_memory_only_paper",
    "stock_blind_memory_only",
]


def played(name: str) -> tuple[InformedTrader, TradingEpisodeRun, float]:
    """The trader after an episode of the small market, the episode, and its return."""
    task = PLUGINS.make_task(name)
    trader = InformedTrader(HISTORY, "one", None, {START - 1: STOP - 1}, task.trading)
    tape = MarketTape.from_snapshot(MARKET, task.trading)
    spec = spec_of(name, task.mask, task.mode)
    parts = EpisodeParts(task, PLUGINS.tools(task.tools), MARKET, tape, trader, ReactAgent())
    episode = TradingEpisodeRun(spec, parts)
    return trader, episode, total_return(episode, INITIAL_MINOR)


@pytest.mark.parametrize("name", MASKED)
def test_an_informed_trader_stays_below_the_bound(name: str) -> None:
    trader, episode, earned = played(name)
    highest = foresight_bound(MARKET, WINDOW, PLUGINS.make_task(name).trading)

    assert earned <= highest
    assert trader.known.base == START - 1
    assert trader.refused == 0
    for label, asset in trader.known.named.items():
        assert episode.lens.parse_asset(label) == asset


def test_prices_open_the_headline_task() -> None:
    trader, _, earned = played("blinded_open_research")
    highest = foresight_bound(MARKET, WINDOW, PLUGINS.make_task("blinded_open_research").trading)
    members = MARKET.member[START - 1 : STOP].any(axis=0)

    assert trader.known.known_at == 0
    assert len(trader.known.named) > 0.95 * members.sum()
    assert earned > 0.8 * highest


class FirstScreen:
    """Asks for one screen, and remembers the labels that it shows."""

    traits = InformedTrader.traits

    def __init__(self, factors: tuple[str, ...]) -> None:
        self.factors = factors
        self.shown: list[str] = []

    def reply(self, request: ModelRequest) -> Reply:
        conversation = Conversation(request)
        if not conversation.turns and not conversation.is_submission:
            return conversation.call(
                [("screen_candidates", {"factors": list(self.factors), "k": 9})]
            )

        rows = conversation.result_rows("screen_candidates", "candidates")
        self.shown = self.shown or [row["stock_id"] for row in rows]
        return conversation.submit([], conversation.reason("only looks"))


def test_a_screen_shows_what_was_computed_from_the_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("best_screens.SHOWN", 9)
    wanted = np.zeros(len(MARKET.codes))
    sought = [4, 9, 21]
    wanted[sought] = 1.0
    screens = best_screens(HISTORY, START - 1, wanted, 3)

    found: set[int] = set()
    for factors in screens:
        model = FirstScreen(factors)
        task = PLUGINS.make_task("blinded_open_research")
        tape = MarketTape.from_snapshot(MARKET, task.trading)
        tools = PLUGINS.tools(task.tools)
        spec = spec_of(task.name, task.mask, task.mode)
        episode = TradingEpisodeRun(
            spec, EpisodeParts(task, tools, MARKET, tape, model, ReactAgent())
        )
        episode.run_step(0)
        found |= {episode.lens.parse_asset(label) for label in model.shown}

    assert found >= set(sought)


@pytest.mark.slow
@pytest.mark.needs("ktdeval_command")
def test_a_program_in_the_sandbox_that_brings_the_prices_is_not_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")

    market = KnownHistory(synthetic())
    days = brought(market, ["W1"])
    shutil.copy(REPOSITORY / "benchmarks" / "informed_program.py", tmp_path)
    (tmp_path / "brought.json").write_text(json.dumps(days))
    monkeypatch.chdir(tmp_path)
    program = "run=python3 informed_program.py brought.json"
    evaluate(
        tmp_path / "run",
        "remote/informed",
        ["blinded_open_research"],
        *("--agent", "command", "--agent-args", program, "--windows", "W1", "--limit", "4"),
    )

    card = json.loads((tmp_path / "run" / "cards" / "blinded_open_research.json").read_text())
    assert card["metrics"]["total_return"]["value"] > 0.05  # in four days
    assert card["rankable"]["value"] is False
    assert "could have brought the market" in " ".join(card["rankable"]["reasons"])


@pytest.mark.slow
@pytest.mark.shared_data
def test_the_headline_task_gives_the_history_away_on_the_csi300(
    shared_data: Path, tmp_path: Path
) -> None:
    """At least what a program with the public price history was seen to earn in this window."""
    market = load_snapshot(import_real(shared_data, tmp_path / "real"))
    found = attack(KnownHistory(market), "blinded_open_research", "cash", ["W1"], 1)
    task = PLUGINS.make_task("blinded_open_research")
    highest = foresight_bound(market, task.windows["W1"], task.trading)

    assert 6.5295 < found.returns[0] <= highest
    assert found.found_at == [0]
    assert found.named == found.labels > 290
