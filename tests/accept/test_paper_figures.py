"""`ktdeval paper figure`: each figure of real runs against another way to its numbers, what can't
be drawn, and equal files of equal runs.
"""

from __future__ import annotations

import csv
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
from ktdeval.trading import Ledger
from support.accept.voting_models import stance_model
from support.terminal import Terminal

NAMES = ("one", "two", "three")
ASSETS = "ama_btc,ama_tsla"


def run(model: Any, out: Path, tasks: str, data: str | None, **more: Any) -> Path:
    options: dict[str, Any] = {"limit": 12, "rules": "paper", "quiet": True, **more}
    if data is not None:
        options["data"] = data
    return Path(ktdeval.evaluate(model, tasks, out=str(out), **options).folder)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of three models on two assets, and their vote."""
    folder = tmp_path_factory.mktemp("arena")
    runs = {}
    for name in NAMES:
        runs[name] = run(stance_model(name), folder / name, ASSETS, "synthetic_arena")

    runs["vote"] = folder / "vote"
    words = [str(runs[name]) for name in NAMES]
    assert main(["paper", "vote", *words, "--out", str(runs["vote"])]) == 0

    return runs


@pytest.fixture(scope="module")
def funds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of two models on two funds, three seeds each."""
    folder = tmp_path_factory.mktemp("funds")
    tasks = "deepfund_berkshire,deepfund_gold"
    runs = []
    for model in ("random", "momentum"):
        out = folder / model
        runs.append(run(f"builtin/{model}", out, tasks, "synthetic_deepfund", seeds=3))
    return runs


def rows_of(terminal: Terminal, name: str, *words: object) -> pd.DataFrame:
    """The data of a figure, as CSV gives them."""
    out = terminal.out("paper", "figure", name, *words, "--format", "csv")
    return pd.read_csv(io.StringIO(out), keep_default_na=False, na_values=[""])


def notes_of(terminal: Terminal, name: str, *words: object) -> str:
    shown = json.loads(terminal.out("paper", "figure", name, *words, "--json"))
    return "\n".join(shown["notes"])


def ledgers(folder: Path, task: str) -> Iterator[Ledger]:
    opened = RunFolder.load(folder)
    for spec in opened.manifest.specs:
        if spec.task == task:
            yield opened.load_ledger(spec)


def nav_of(folder: Path, task: str) -> pd.Series[float]:
    """NAV over its first value by day, of a run of one seed."""
    (ledger,) = ledgers(folder, task)
    days = [str(ledger.base_day), *map(str, ledger.days)]
    return pd.Series(ledger.nav / ledger.nav[0], days)


# ---- AMA


@pytest.mark.exhaustive
def test_agents_are_means_over_models_and_a_vote_is_a_line_among_the_models(
    arena: dict[str, Path], terminal: Terminal
) -> None:
    rows = rows_of(terminal, "ama-2", *arena.values())
    paths = pd.DataFrame({name: nav_of(arena[name], "ama_btc") - 1.0 for name in NAMES})

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
    elected = nav_of(arena["vote"], "ama_btc") - 1.0
    assert votes["value"].tolist() == pytest.approx(elected.tolist())
    # the paper's order of assets
    assert list(dict.fromkeys(rows["panel"])) == [
        "agents: TSLA",
        "agents: BTC",
        "models: TSLA",
        "models: BTC",
    ]


@pytest.mark.exhaustive
def test_the_gap_is_the_first_run_less_the_second_and_events_follow_the_news(
    arena: dict[str, Path], terminal: Terminal
) -> None:
    words = (arena["one"], arena["two"], "--tasks", "ama_btc")
    rows = rows_of(terminal, "ama-3", *words).set_index("day")
    first, second = (nav_of(arena[name], "ama_btc") for name in NAMES[:2])
    gap = first - second

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
    notes = notes_of(terminal, "ama-3", *words)
    assert f"after a day without: {quiet.mean():+.5f} (n {len(quiet)}" in notes

    day = rows.index[4]
    named = rows_of(terminal, "ama-3", *words, "--event", day)
    assert list(named.loc[named["event"].notna(), "day"]) == [day]


@pytest.mark.exhaustive
def test_decisions_are_those_submitted_and_a_vote_is_their_majority(
    arena: dict[str, Path], terminal: Terminal
) -> None:
    rows = rows_of(terminal, "ama-4", *arena.values(), "--tasks", "ama_btc")
    sides = rows.pivot_table(index="day", columns="line", values="action", aggfunc="first")
    submitted = {}
    for name in NAMES:
        folder = RunFolder.load(arena[name])
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


@pytest.mark.exhaustive
@pytest.mark.slow
def test_lines_of_a_fund_are_means_over_seeds_beside_the_index_and_its_sharpe_ratio(
    funds: list[Path], terminal: Terminal
) -> None:
    words = (*funds, "--tasks", "deepfund_berkshire")
    rows = rows_of(terminal, "deepfund-3", *words)
    paths = np.array(
        [one.nav / one.nav[0] - 1.0 for one in ledgers(funds[0], "deepfund_berkshire")]
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


@pytest.mark.exhaustive
@pytest.mark.slow
def test_each_sector_is_a_panel(funds: list[Path], terminal: Terminal) -> None:
    rows = rows_of(terminal, "deepfund-6", *funds)

    assert set(rows["panel"]) == {"deepfund_berkshire", "deepfund_gold"}
    assert set(rows["line"]) == {
        "builtin/random (3 seeds)",
        "builtin/momentum (3 seeds)",
        "SYNFUND buy-and-hold",
    }


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_model_that_bills_nothing_has_no_return_per_dollar(
    funds: list[Path], terminal: Terminal
) -> None:
    rows = rows_of(terminal, "deepfund-7", *funds, "--tasks", "deepfund_gold").set_index("line")
    ends = [one.nav[-1] / one.nav[0] - 1.0 for one in ledgers(funds[0], "deepfund_gold")]

    assert rows.loc["builtin/random", "value"] == pytest.approx(np.mean(ends))
    assert rows["x"].tolist() == [0.0, 0.0]
    assert rows["per_usd"].isna().all()


# ---- KTD-Fin and InvestorBench


@pytest.fixture(scope="module")
def attackers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    return run("builtin/trivial", folder / "trivial", "deanon_probe", None)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_attackers_have_the_rates_intervals_and_chance_of_their_cards(
    attackers: Path, terminal: Terminal
) -> None:
    card = json.loads((attackers / "cards" / "deanon_probe.json").read_text())
    rows = rows_of(terminal, "ktdfin-3", attackers).set_index("panel")
    scores = ("ticker_top1", "ticker_top5", "date_within_5", "joint")

    for row, name in zip(rows.to_dict("records"), scores, strict=True):
        score = card["scores"][name]
        interval = score["interval"]
        drawn = [row[field] for field in ("value", "low", "high", "reference", "n")]
        expected = [
            score["value"],
            interval["low"],
            interval["high"],
            score["baseline"],
            score["n"],
        ]
        assert drawn == pytest.approx(expected)


@pytest.fixture(scope="module")
def epochs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Buy & Hold and three models that are classed as one, on two stocks."""
    folder = tmp_path_factory.mktemp("epochs")
    tasks = "investorbench_msft,investorbench_jnj"
    runs = []
    for model in ("builtin/buy_and_hold", *map(stance_model, NAMES)):
        out = folder / str(len(runs))
        runs.append(run(model, out, tasks, "synthetic_investorbench", limit=60))
    return runs


@pytest.mark.exhaustive
@pytest.mark.slow
def test_classes_have_the_table_s_percentages_and_intervals_over_models(
    epochs: list[Path], terminal: Terminal
) -> None:
    words = [*epochs, "--class", "python/*=open_source:7"]
    rows = rows_of(terminal, "investorbench-3", *words)
    shown = terminal.out(
        "paper", "table", *words, "--like", "investorbench-types", "--format", "csv"
    )
    (table,) = list(csv.DictReader(io.StringIO(shown)))
    heads = {"ib_volatility": "AV", "ib_max_drawdown": "MDD"}

    listed = terminal.out("paper", "table", *words, "--like", "investorbench-2", "--format", "csv")
    models = pd.read_csv(io.StringIO(listed))
    held = models[models["type"] == "buy_and_hold"]
    for metric, head in heads.items():
        drawn = rows[(rows["panel"] == head) & (rows["row"] == "open source (n 3)")]
        assert drawn["value"].tolist() == pytest.approx([float(table[metric]) / 100.0])

        own = models[models["type"] == "open_source"].groupby("model")[metric].sum()
        shares = own / held[metric].sum()
        low, high = stats.t.interval(0.95, 2, loc=shares.mean(), scale=stats.sem(shares))
        assert (drawn["low"].item(), drawn["high"].item()) == pytest.approx((low, high))

    notes = notes_of(terminal, "investorbench-3", *words)
    assert "open source: python/one, python/three, python/two" in notes
    # by size, the same three are the small ones
    assert "<= 10B (n 3)" in set(rows["row"])


# ---- refusals


@pytest.mark.exhaustive
@pytest.mark.slow
def test_runs_of_another_paper_are_refused(
    arena: dict[str, Path], funds: list[Path], terminal: Terminal
) -> None:
    words = terminal.refusal("paper", "figure", "deepfund-3", arena["one"])
    assert "is not a task of deepfund, which deepfund-3 needs" in words
    assert "choose one with --tasks" in terminal.refusal("paper", "figure", "deepfund-3", *funds)
    assert "no card of a de-anonymization probe" in terminal.refusal(
        "paper", "figure", "ktdfin-3", arena["one"]
    )


@pytest.mark.exhaustive
def test_what_figure_three_of_ama_can_t_show_is_refused(
    arena: dict[str, Path], terminal: Terminal
) -> None:
    figure = ("paper", "figure", "ama-3")
    btc = ("--tasks", "ama_btc")
    three = [arena[name] for name in NAMES]

    assert "give two, not 3" in terminal.refusal(*figure, *three, *btc)
    assert "2025-07-01: is not a day of these runs" in terminal.refusal(
        *figure, *three[:2], *btc, "--event", "2025-07-01"
    )


@pytest.mark.exhaustive
def test_other_limits_other_rules_and_a_second_card_of_a_system_are_refused(
    arena: dict[str, Path], tmp_path: Path, terminal: Terminal
) -> None:
    shorter = run(stance_model("short"), tmp_path / "s", "ama_btc", "synthetic_arena", limit=8)
    strict = run(
        stance_model("strict"), tmp_path / "t", "ama_btc", "synthetic_arena", rules="strict"
    )
    again = run(stance_model("one"), tmp_path / "u", "ama_btc", "synthetic_arena")
    figure = ("paper", "figure", "ama-2", arena["one"])

    assert "different windows" in terminal.refusal(*figure, shorter)
    assert "different metric rules" in terminal.refusal(*figure, strict)
    assert "give one of them" in terminal.refusal(*figure, again)


@pytest.mark.exhaustive
def test_a_figure_without_runs_says_which_and_an_ending_must_be_known(
    arena: dict[str, Path], tmp_path: Path, terminal: Terminal
) -> None:
    assert "ama-2: give runs of ama tasks" in terminal.refusal("paper", "figure", "ama-2")
    assert "is written as .svg, .html, .json" in terminal.refusal(
        "paper", "figure", "ama-2", arena["one"], "--out", tmp_path / "a.png"
    )


@pytest.mark.exhaustive
def test_without_a_name_all_figures_are_listed(terminal: Terminal) -> None:
    listed = terminal.report("paper", "figure")
    assert [one["name"] for one in listed] == [
        "ktdfin-2",
        "ktdfin-3",
        "ama-2",
        "ama-3",
        "ama-4",
        "deepfund-3",
        "deepfund-6",
        "deepfund-7",
        "investorbench-3",
    ]


# ---- files


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["svg", "html", "json"])
def test_equal_runs_give_equal_files(
    arena: dict[str, Path], tmp_path: Path, terminal: Terminal, form: str
) -> None:
    if form == "svg":
        pytest.importorskip("vl_convert")

    words = ("paper", "figure", "ama-3", arena["one"], arena["two"], "--tasks", "ama_btc")
    for name in ("a", "b"):
        terminal.out(*words, "--out", tmp_path / f"{name}.{form}")

    assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()


@pytest.mark.exhaustive
def test_an_svg_and_a_spec_have_the_same_figures(
    arena: dict[str, Path], tmp_path: Path, terminal: Terminal
) -> None:
    """The picture is read back: the ends of its lines are proportional to those of the spec."""
    pytest.importorskip("vl_convert")
    words = ("paper", "figure", "ama-3", arena["one"], arena["two"], "--tasks", "ama_btc")
    terminal.out(*words, "--out", tmp_path / "a.svg")
    terminal.out(*words, "--out", tmp_path / "a.json")
    spec = json.loads((tmp_path / "a.json").read_text())
    bars = [row["gap"] for row in spec["vconcat"][1]["data"]["values"]]

    heights = []
    for element in ET.parse(tmp_path / "a.svg").getroot().iter():
        # a bar is a rectangle in one of two colours: its place, its width, then its height
        bar = re.fullmatch(r"M[^hv]*h[^v]*v(-?[\d.]+)h[^Z]*Z", element.get("d", ""))
        if bar and element.get("fill") in ("#1d63a8", "#c2500a"):
            heights.append(abs(float(bar[1])))

    known = [abs(bar) for bar in bars]
    assert len(heights) == len(known)
    scale = max(heights) / max(known)
    assert heights == pytest.approx([scale * one for one in known], abs=0.02)
