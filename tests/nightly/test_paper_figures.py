"""`ktdeval paper figure`: each figure of real runs against another way to its numbers, what can't
be drawn, and equal files of equal runs.
"""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ktdeval
from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, open_snapshot
from ktdeval.testing import Terminal
from ktdeval.trading import Ledger
from support.accept.voting_models import stance_model

NAMES = ("one", "two", "three")
ASSET = {"tasks": "ama_btc", "data": "synthetic_arena"}
ASSETS = {**ASSET, "tasks": "ama_btc,ama_tsla"}
FUNDS = {
    "tasks": "deepfund_berkshire,deepfund_gold",
    "data": "synthetic_deepfund",
    "seeds": 3,
    "limit": 21,
}
"""As many days as a Sharpe ratio needs."""
STOCKS = {
    "tasks": "investorbench_msft,investorbench_jnj",
    "data": "synthetic_investorbench",
    "limit": 60,
}
RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (stance_model(name), ASSETS) for name in NAMES},
    "again": (stance_model("one"), ASSET),
    "short": (stance_model("short"), {**ASSET, "limit": 8}),
    "strict": (stance_model("strict"), {**ASSET, "rules": "strict"}),
    "random": ("builtin/random", FUNDS),
    "momentum": ("builtin/momentum", FUNDS),
    "attackers": ("builtin/trivial", {"tasks": "deanon_probe"}),
    "held": ("builtin/buy_and_hold", STOCKS),
    **{f"{name}_on_stocks": (stance_model(name), STOCKS) for name in NAMES},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs by their names, and the vote of three of them."""
    folder = tmp_path_factory.mktemp("figures")
    for name, (model, options) in RUNS.items():
        given = {"limit": 12, "rules": "paper", "quiet": True, **options}
        ktdeval.evaluate(model, out=folder / name, **given)

    runs = [str(folder / name) for name in NAMES]
    assert main(["paper", "vote", *runs, "--out", str(folder / "vote")]) == 0

    return folder


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def rows_of(terminal: Terminal, words: str) -> pd.DataFrame:
    """The data of a figure, as CSV gives them."""
    out = terminal.out("paper", "figure", *words.split(), "--format", "csv")
    return pd.read_csv(io.StringIO(out), keep_default_na=False, na_values=[""])


def notes_of(terminal: Terminal, words: str) -> str:
    shown = json.loads(terminal.out("paper", "figure", *words.split(), "--json"))
    return "\n".join(shown["notes"])


def ledgers(name: str, task: str) -> Iterator[Ledger]:
    opened = RunFolder.load(Path(name))
    for spec in opened.manifest.specs:
        if spec.task == task:
            yield opened.load_ledger(spec)


def nav_of(name: str) -> pd.Series[float]:
    """NAV on Bitcoin over its first value by day, of a run of one seed."""
    (ledger,) = ledgers(name, "ama_btc")
    days = [str(ledger.base_day), *map(str, ledger.days)]
    return pd.Series(ledger.nav / ledger.nav[0], days)


# ---- AMA

GAP = "ama-3 one two --tasks ama_btc"


def test_agent_lines_are_means_over_models_and_a_vote_is_a_model_line(
    terminal: Terminal,
) -> None:
    rows = rows_of(terminal, "ama-2 one two three vote")
    paths = pd.DataFrame({name: nav_of(name) - 1.0 for name in NAMES})

    agents = rows[rows["panel"] == "agents: BTC"].set_index("day")
    assert set(agents["line"]) == {"react (3 models)"}
    assert agents["value"].tolist() == pytest.approx(paths.mean(axis=1).tolist())
    assert agents["least"].tolist() == pytest.approx(paths.min(axis=1).tolist())
    assert agents["most"].tolist() == pytest.approx(paths.max(axis=1).tolist())

    last = paths.iloc[-1]
    low, high = stats.t.interval(0.95, 2, loc=last.mean(), scale=stats.sem(last))
    ends = agents.iloc[-1]
    assert (ends["low"], ends["high"]) == pytest.approx((low, high))

    models = rows[rows["panel"] == "models: BTC"]
    votes = models[models["line"] == "Vote (1 agent)"]
    elected = nav_of("vote") - 1.0
    assert votes["value"].tolist() == pytest.approx(elected.tolist())
    # the paper's order of assets
    panels = ", ".join(rows["panel"].unique())
    assert panels == "agents: TSLA, agents: BTC, models: TSLA, models: BTC"


def test_gap_is_the_first_run_minus_the_second_and_events_follow_the_news(
    terminal: Terminal,
) -> None:
    rows = rows_of(terminal, GAP).set_index("day")
    gap = nav_of("one") - nav_of("two")

    assert rows["gap"].tolist() == pytest.approx(gap.tolist())
    assert rows["change"].iloc[:-1].tolist() == pytest.approx(gap.diff().iloc[1:].tolist())

    market = open_snapshot(load_plugins(), "synthetic_arena", {})
    column = market.asset_index["BTC"]
    at = [market.day_index(day) for day in rows.index]
    prices = pd.Series(market.adjusted_close[at, column], rows.index)
    assert rows["hold"].tolist() == pytest.approx((prices / prices.iloc[0]).tolist())

    # the three largest moves of the next day among days with news
    moves = (prices.shift(-1) / prices - 1.0).abs().dropna()
    with_news = moves[rows["documents"].reindex(moves.index) > 0]
    assert set(rows.index[rows["event"].notna()]) == set(with_news.nlargest(3).index)

    quiet = rows.loc[rows["documents"] == 0, "change"].dropna()
    notes = notes_of(terminal, GAP)
    assert f"after a day without: {quiet.mean():+.5f} (n {len(quiet)}" in notes

    day = rows.index[4]
    named = rows_of(terminal, f"{GAP} --event {day}")
    assert list(named.loc[named["event"].notna(), "day"]) == [day]


def test_decisions_are_those_submitted_and_a_vote_is_their_majority(
    terminal: Terminal,
) -> None:
    rows = rows_of(terminal, "ama-4 one two three vote --tasks ama_btc")
    sides = rows.pivot_table(index="day", columns="line", values="action", aggfunc="first")
    submitted = {}
    for name in NAMES:
        folder = RunFolder.load(Path(name))
        spec = next(spec for spec in folder.manifest.specs if spec.task == "ama_btc")
        talks = folder.load_transcript(spec)
        submitted[name] = [json.loads(str(talk.submission))["decisions"][0] for talk in talks]

    for name, decisions in submitted.items():
        assert list(sides[f"react (python/{name})"]) == [one["decision"] for one in decisions]

    majority = []
    for three in zip(*submitted.values(), strict=True):
        votes = [one["decision"] for one in three]
        most = max(set(votes), key=votes.count)
        majority.append(most if votes.count(most) >= 2 else "HOLD")

    assert list(sides["react (Vote)"]) == majority


# ---- DeepFund


def test_fund_lines_are_means_over_seeds_beside_the_index_and_its_sharpe(
    terminal: Terminal,
) -> None:
    rows = rows_of(terminal, "deepfund-3 random momentum --tasks deepfund_berkshire")
    paths = np.array(
        [one.nav / one.nav[0] - 1.0 for one in ledgers("random", "deepfund_berkshire")]
    )
    drawn = rows[rows["line"].str.startswith("builtin/random")]

    assert drawn["value"].tolist() == pytest.approx(paths.mean(axis=0).tolist())
    assert set(drawn["n"]) == {3}
    low, high = stats.t.interval(0.95, 2, loc=paths[:, -1].mean(), scale=stats.sem(paths[:, -1]))
    assert (drawn["low"].iloc[-1], drawn["high"].iloc[-1]) == pytest.approx((low, high))
    # a rule without chance is the same on every seed, which says nothing of other seeds
    fixed = rows[rows["line"].str.startswith("builtin/momentum")]
    assert fixed["low"].iloc[1:].isna().all()

    market = open_snapshot(load_plugins(), "synthetic_deepfund", {})
    levels = [market.benchmark[market.day_index(day)] for day in drawn["day"]]
    index = rows[rows["line"].str.contains("buy-and-hold")]
    assert index["value"].tolist() == pytest.approx([one / levels[0] - 1.0 for one in levels])

    # by the formula of Appendix D, from the levels
    daily = np.diff(levels) / levels[:-1] - 0.0429 / 252
    sharpe = daily.mean() / daily.std(ddof=1) * np.sqrt(252)
    assert f"(SR {sharpe:.2f})" in index["line"].iloc[0]


def test_each_sector_is_a_panel(terminal: Terminal) -> None:
    rows = rows_of(terminal, "deepfund-6 random momentum")

    assert set(rows["panel"]) == {"deepfund_berkshire", "deepfund_gold"}
    lines = "builtin/random (3 seeds), builtin/momentum (3 seeds), SYNFUND buy-and-hold"
    assert ", ".join(rows["line"].unique()) == lines


def test_a_model_that_bills_nothing_has_no_return_per_dollar(
    terminal: Terminal,
) -> None:
    rows = rows_of(terminal, "deepfund-7 random momentum --tasks deepfund_gold").set_index("line")
    ends = [one.nav[-1] / one.nav[0] - 1.0 for one in ledgers("random", "deepfund_gold")]

    assert rows.loc["builtin/random", "value"] == pytest.approx(np.mean(ends))
    assert rows["x"].tolist() == [0.0, 0.0]
    assert rows["per_usd"].isna().all()


# ---- KTD-Fin and InvestorBench


def test_attackers_have_the_rates_intervals_and_chance_of_their_cards(terminal: Terminal) -> None:
    card = json.loads(Path("attackers/cards/deanon_probe.json").read_text())
    rows = rows_of(terminal, "ktdfin-3 attackers").set_index("panel")
    scores = ("ticker_top1", "ticker_top5", "date_within_5", "joint")

    for row, name in zip(rows.to_dict("records"), scores, strict=True):
        score = card["scores"][name]
        interval = score["interval"]
        drawn = [row[field] for field in ("value", "low", "high", "reference", "n")]
        known = [score["value"], interval["low"], interval["high"], score["baseline"], score["n"]]
        assert drawn == pytest.approx(known)


def test_classes_have_the_table_s_percentages_and_intervals_over_models(
    terminal: Terminal,
) -> None:
    words = "held one_on_stocks two_on_stocks three_on_stocks --class python/*=open_source:7"
    rows = rows_of(terminal, f"investorbench-3 {words}")

    def table_like(name: str) -> pd.DataFrame:
        table = ("paper", "table", *words.split(), "--like", name, "--format", "csv")
        return pd.read_csv(io.StringIO(terminal.out(*table)))

    (shares_shown,) = table_like("investorbench-types").to_dict("records")
    models = table_like("investorbench-2")
    heads = {"ib_volatility": "AV", "ib_max_drawdown": "MDD"}
    held = models[models["type"] == "buy_and_hold"]
    for metric, head in heads.items():
        drawn = rows[(rows["panel"] == head) & (rows["row"] == "open source (n 3)")]
        assert drawn["value"].tolist() == pytest.approx([shares_shown[metric] / 100.0])

        own = models[models["type"] == "open_source"].groupby("model")[metric].sum()
        shares = own / held[metric].sum()
        low, high = stats.t.interval(0.95, 2, loc=shares.mean(), scale=stats.sem(shares))
        assert (drawn["low"].item(), drawn["high"].item()) == pytest.approx((low, high))

    notes = notes_of(terminal, f"investorbench-3 {words}")
    assert "open source: python/one, python/three, python/two" in notes
    # by size, the same three are the small ones
    assert "<= 10B (n 3)" in set(rows["row"])


# ---- refusals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("deepfund-3 one", "is not a task of deepfund, which deepfund-3 needs"),
        ("deepfund-3 random momentum", "choose one with --tasks"),
        ("ktdfin-3 one", "no card of a de-anonymization probe"),
        ("ama-3 one two three --tasks ama_btc", "give two, not 3"),
        (f"{GAP} --event 2025-07-01", "2025-07-01: is not a day of these runs"),
        ("ama-2 one short", "different windows"),
        ("ama-2 one strict", "different metric rules"),
        ("ama-2 one again", "give one of them"),
        ("ama-2", "ama-2: give runs of ama tasks"),
        ("ama-2 one --out a.png", "is written as .svg, .html, .json"),
    ],
)
def test_what_no_figure_can_show_is_refused(words: str, message: str, terminal: Terminal) -> None:
    assert message in terminal.refusal("paper", "figure", *words.split())


def test_without_a_name_all_figures_are_listed(terminal: Terminal) -> None:
    names = [one["name"] for one in terminal.report("paper", "figure")]
    papers = "ktdfin-2 ktdfin-3 ama-2 ama-3 ama-4 deepfund-3 deepfund-6 deepfund-7 investorbench-3"
    assert names == papers.split()


# ---- files


def drawn(terminal: Terminal, path: Path) -> bytes:
    terminal.out("paper", "figure", *GAP.split(), "--out", path)
    return path.read_bytes()


@pytest.mark.parametrize("form", ["svg", "html", "json"])
def test_equal_runs_give_equal_files(tmp_path: Path, terminal: Terminal, form: str) -> None:
    if form == "svg":
        pytest.importorskip("vl_convert")

    first = drawn(terminal, tmp_path / f"a.{form}")
    assert first == drawn(terminal, tmp_path / f"b.{form}")


def test_an_svg_and_a_spec_have_the_same_figures(tmp_path: Path, terminal: Terminal) -> None:
    """The picture is read back: the ends of its lines are proportional to those of the spec."""
    pytest.importorskip("vl_convert")
    picture = drawn(terminal, tmp_path / "a.svg")
    spec = json.loads(drawn(terminal, tmp_path / "a.json"))
    bars = [row["gap"] for row in spec["vconcat"][1]["data"]["values"]]

    heights = []
    for element in ET.fromstring(picture).iter():
        # a bar is a rectangle in one of two colours: its place, its width, then its height
        bar = re.fullmatch(r"M[^hv]*h[^v]*v(-?[\d.]+)h[^Z]*Z", element.get("d", ""))
        if bar and element.get("fill") in ("#1d63a8", "#c2500a"):
            heights.append(abs(float(bar[1])))

    known = [abs(bar) for bar in bars]
    assert len(heights) == len(known)
    scale = max(heights) / max(known)
    assert heights == pytest.approx([scale * one for one in known], abs=0.02)
