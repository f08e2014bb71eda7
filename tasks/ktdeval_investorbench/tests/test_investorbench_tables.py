"""Tables of InvestorBench on planted cards: medians, classes in % of Buy & Hold, signed-rank tests,
and what is refused.
"""

from __future__ import annotations

import copy
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot
from scipy import stats as scipy_stats

from ktdeval.cards import validate_card
from ktdeval.errors import KtdevalError
from ktdeval.runner.records.ledger_file import encode_ledger
from ktdeval.stats.metric_panel import panel_metrics
from ktdeval.task_api import Window
from ktdeval.testing import Terminal, on_each_row
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values import content_hash, dumps_pretty, file_sha256, from_plain
from ktdeval_investorbench.epochs_from_cards import FIGURES, read_epochs
from ktdeval_investorbench.figures import figure
from ktdeval_investorbench.tables import (
    class_rows,
    classify,
    model_rows,
    read_classes,
    wilcoxon_rows,
)
from support.figures import card_cases
from support.figures.metric_cases import TASK, market, step
from support.figures.renewed_cards import derived_fields
from support.searching import examples

CR, SR, AV, MDD = FIGURES
HOLD = "builtin/buy_and_hold"
KNOWN = read_classes([])
METRICS = [*panel_metrics(), *map(figure, FIGURES)]
Values = Sequence[float | None]


def plant(
    path: Path,
    model: str,
    epochs: Mapping[int, Values],
    task: str = "investorbench_msft",
    **changes: Any,
) -> Path:
    """Write a card whose epochs (seeds) have these CR, SR, AV and MDD; None is not defined. Each
    has five steps.
    """
    card = copy.deepcopy(
        card_cases.card(sorted(epochs), metrics=METRICS, rules=changes.pop("rules", "paper"))
    )
    config = {**TASK, "name": task, **changes.pop("config", {})}
    card["task"] |= {"name": task, "hash": content_hash(config), "config": config}
    card["model"] = {"name": model, "args": changes.pop("args", {})}
    decisions = changes.pop("decisions", {})
    rewards = changes.pop("rewards", {})
    card |= {name: value for name, value in changes.items() if name != "snapshot"}
    card["snapshot"] |= changes.get("snapshot", {})

    for episode in card["episodes"]:
        episode["id"] = card_cases.spec_of(
            card, Window("long", "2024-01-03", "2024-01-09"), episode["seed"]
        ).id
        for name, value in zip(FIGURES, epochs[episode["seed"]], strict=True):
            known = (
                {"value": value, "n": 5}
                if value is not None
                else {"value": None, "n": 5, "reason": "the returns do not vary"}
            )
            episode["metrics"][name] = known

        episode["decisions"] |= decisions.get(episode["seed"], {})
        if episode["seed"] in rewards:
            name = f"episodes/{episode['id']}/ledger.parquet"
            card["artefacts"][name] = save_ledger(
                path.parent.parent / name, rewards[episode["seed"]]
            )

    card |= derived_fields(card)
    validate_card(card)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps_pretty(card))

    return path


def save_ledger(path: Path, rewards: np.ndarray) -> str:
    """A ledger without positions whose NAV has these log returns."""
    navs = np.rint(1e14 * np.exp(np.cumsum(rewards))).astype(int)
    days = np.datetime64("2020-10-01") + np.arange(len(navs) + 1)
    dates = [
        {"step": number, "decided_on": str(days[number]), "filled_on": str(days[number + 1])}
        for number in range(len(navs))
    ]
    steps = [step(0, int(nav)) | each for nav, each in zip(navs, dates, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        encode_ledger(Ledger({}, 10**14, from_plain(steps, list[StepRecord], "steps")))
    )

    return file_sha256(path)


def table(
    *paths: Path, median: str = "trajectory", known: Any = KNOWN, rules: Any = None
) -> list[dict[str, Any]]:
    return model_rows(read_epochs(paths, rules), median, known)  # type: ignore[arg-type]


# Sharpe ratios 0.5, 0.1, 0.3, 0.2, 0.4: the median is that of seed 2, whose other figures are no
# medians.
FIVE = {
    0: (0.5, 0.5, 0.1, 0.2),
    1: (0.1, 0.1, 0.3, 0.1),
    2: (0.45, 0.3, 0.25, 0.05),
    3: (0.2, 0.2, 0.2, 0.3),
    4: (0.3, 0.4, 0.15, 0.4),
}


@pytest.mark.slow
def test_a_table_worked_by_hand(tmp_path: Path) -> None:
    decisions = {2: {"model": 1, "fallback": 2, "error": 1}}
    paths = [
        plant(tmp_path / "hold.json", HOLD, {0: (0.15, 1.0, 0.25, 0.09)}),
        plant(tmp_path / "gpt.json", "openai/gpt-4o", FIVE, decisions=decisions),
        plant(
            tmp_path / "llama.json",
            "vllm/Llama-3.1-70B-Instruct",
            {seed: FIVE[seed] for seed in range(4)},
        ),
        plant(
            tmp_path / "flat.json",
            "house/own-70b",
            {0: (0.0, None, 0.0, 0.0), 1: (0.1, None, 0.0, 0.2)},
        ),
    ]
    hold, gpt, llama, flat = table(*paths)

    assert [row["model"].rpartition("/")[2] for row in (hold, gpt, llama, flat)] == [
        "buy_and_hold", "gpt-4o", "Llama-3.1-70B-Instruct", "own-70b"]  # fmt: skip
    assert [gpt[name] for name in FIGURES] == [0.45, 0.3, 0.25, 0.05]
    assert (gpt["seeds"], gpt["epochs"], gpt["remark"], gpt["own"], gpt["decisions"]) == (
        [2],
        5,
        "",
        2,
        5,
    )
    assert (gpt["type"], llama["type"], llama["size"], flat["type"], flat["billions"]) == (
        "proprietary", "open_source", "> 65B", "unclassified", 70.0)  # fmt: skip
    # Four epochs: Sharpe ratios 0.1, 0.2, 0.3, 0.5; of the two in the middle the lower, seed 3.
    assert ([llama[name] for name in FIGURES], llama["seeds"]) == ([0.2, 0.2, 0.2, 0.3], [3])
    assert (llama["remark"], hold["remark"], hold["type"]) == (
        "fewer than 5 epochs",
        "",
        "buy_and_hold",
    )
    # No Sharpe ratio at all: cumulative returns choose, the lower of two.
    assert (flat[CR], flat[SR], flat["seeds"]) == (0.0, None, [0])
    assert (flat["remark"], flat["reasons"]) == (
        "fewer than 5 epochs; 2 without SR",
        "ib_sharpe is not defined: the returns do not vary",
    )

    by_figure = {row["model"]: row for row in table(*paths, median="figures")}
    expected = pd.DataFrame(FIVE).median(axis=1)

    assert [by_figure["openai/gpt-4o"][name] for name in FIGURES] == pytest.approx(list(expected))
    assert by_figure["vllm/Llama-3.1-70B-Instruct"][CR] == pytest.approx((0.2 + 0.45) / 2)
    assert (by_figure["openai/gpt-4o"]["own"], by_figure["openai/gpt-4o"]["decisions"]) == (22, 25)


@pytest.mark.slow
def test_epochs_of_one_model_may_be_split_over_runs_but_not_over_agents(
    tmp_path: Path,
) -> None:
    runs = [plant(tmp_path / f"{seed}.json", "openai/gpt-4o", {seed: FIVE[seed]}) for seed in FIVE]
    whole = plant(tmp_path / "whole.json", "openai/gpt-4o", FIVE)

    assert table(*runs) == table(whole)

    other = plant(
        tmp_path / "other.json",
        "openai/gpt-4o",
        FIVE,
        agent={"name": "finmem", "args": {"parameters": "paper"}},
    )

    assert [row["model"] for row in table(whole, other)] == [
        "openai/gpt-4o@finmem(parameters=paper)",
        "openai/gpt-4o@react",
    ]

    cold = plant(tmp_path / "cold.json", "openai/gpt-4o", FIVE, call={"temperature": 0.0})
    assert [row["model"] for row in table(whole, cold)] == [
        "openai/gpt-4o{temperature=0.0}",
        "openai/gpt-4o{temperature=0.7}",
    ]


def test_percentages_are_of_one_buy_and_hold(tmp_path: Path) -> None:
    holds = [
        plant(tmp_path / f"{fee}.json", HOLD, {0: (0.15, 1.0, 0.25, 0.09)}, args={"fee": fee})
        for fee in (0, 1)
    ]

    with pytest.raises(
        KtdevalError, match="investorbench_msft, window long: two systems are Buy & Hold"
    ):
        table(*holds)


PANEL = {  # task -> model -> CR, SR, AV, MDD
    "investorbench_msft": {
        HOLD: (0.10, 1.0, 0.2, 0.1),
        "a/gpt-4": (0.05, 0.5, 0.1, 0.1),
        "a/gpt-4o": (0.15, 2.0, 0.3, 0.2),
        "b/Qwen2.5-7B": (-0.1, -1.0, 0.2, 0.1),
        "b/Yi-1.5-34B": (0.2, 1.5, 0.2, 0.1),
    },
    "investorbench_btc": {
        HOLD: (0.30, 0.5, 0.6, 0.3),
        "a/gpt-4": (0.20, 0.4, 0.6, 0.3),
        "a/gpt-4o": (0.40, 0.1, 0.6, 0.3),
        "b/Qwen2.5-7B": (0.0, 0.0, 0.0, 0.0),
        "b/Yi-1.5-34B": (0.2, 1.5, 0.2, 0.1),
    },
}


def planted_panel(folder: Path, panel: Mapping[str, Mapping[str, Values]]) -> list[Path]:
    cards = []
    for task, models in panel.items():
        for number, (model, values) in enumerate(models.items()):
            cards.append(plant(folder / f"{task}-{number}.json", model, {0: values}, task=task))

    return cards


@pytest.mark.slow
def test_classes_in_per_cent_of_buy_and_hold_worked_by_hand_and_by_pandas(tmp_path: Path) -> None:
    rows = table(*planted_panel(tmp_path, PANEL))
    types = {row["class"]: row for row in class_rows(rows, "type")}
    sizes = {row["class"]: row for row in class_rows(rows, "size")}

    assert (list(types), list(sizes)) == (["proprietary", "open_source"], ["<= 10B", "10B-65B"])
    assert (types["proprietary"]["models"], types["proprietary"]["rows"]) == (2, 4)
    # Mean CR of GPT 0.2, of Buy & Hold 0.2; mean SR 0.75 of 0.75; of the small model -0.05 of 0.2.
    assert [types["proprietary"][name] for name in (CR, SR)] == pytest.approx([100.0, 100.0])
    assert [sizes["<= 10B"][name] for name in FIGURES] == pytest.approx(
        [-25.0, -100 * 0.5 / 0.75, 25.0, 25.0]
    )

    figures = []

    for task, models in PANEL.items():
        figures += [(task, model, *values) for model, values in models.items()]

    frame = pd.DataFrame(figures, columns=["t", "m", *FIGURES])
    held = frame[frame.m == HOLD][list(FIGURES)].mean()
    opened = frame[frame.m.str.startswith("b/")][list(FIGURES)].mean()

    assert [types["open_source"][name] for name in FIGURES] == pytest.approx(
        list(100 * opened / held)
    )


@on_each_row(
    "hold, undefined",
    ([-0.1, -1.0, 0.2, 0.1], ["ib_cumulative_return", "ib_sharpe"]),
    ([0.0009, 0.0, 0.2, 0.1], ["ib_cumulative_return", "ib_sharpe"]),
    ([0.0011, 0.0011, 0.2, 0.0], ["ib_max_drawdown"]),
    (None, ["ib_cumulative_return", "ib_sharpe", "ib_volatility", "ib_max_drawdown"]),
    ([0.1, None, 0.2, 0.1], ["ib_sharpe"]),
)
def test_a_percentage_of_zero_is_undefined_with_a_reason(
    hold: Values | None, undefined: list[str], tmp_path: Path
) -> None:
    models = {"a/gpt-4": (0.05, 0.5, 0.1, 0.1), **({HOLD: hold} if hold else {})}
    (row,) = class_rows(table(*planted_panel(tmp_path, {"investorbench_msft": models})), "type")

    assert [name for name in FIGURES if row[name] is None] == undefined
    assert all(f"{name} is not defined: " in row["reasons"] for name in undefined)
    assert row["reasons"].count(
        "is meaningless" if hold and None not in hold else "1 of 1 rows lack it"
    ) == len(undefined)


@pytest.mark.exhaustive
@examples(5)
@given(order=st.permutations(range(10)), scale=st.floats(0.5, 20.0))
def test_the_order_of_cards_does_not_matter_and_scaling_leaves_percentages(
    order: list[int], scale: float, cards: Any
) -> None:
    paths, scaled = cards
    base = table(*paths)

    assert table(*(paths[number] for number in order)) == base

    figures = {(row["task"], row["model"]): row for row in base}

    for row in scaled:
        unscaled = figures[row["task"], row["model"]]
        row |= {name: scale * unscaled[name] for name in FIGURES}

    for by in ("type", "size"):
        for one, two in zip(class_rows(base, by), class_rows(scaled, by), strict=True):
            assert [one[name] for name in FIGURES] == pytest.approx(
                [two[name] for name in FIGURES], rel=1e-12
            )


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[dict[str, Any]]]:
    paths = planted_panel(tmp_path_factory.mktemp("panel"), PANEL)
    return paths, table(*paths)


# ---- classes


@on_each_row(
    "model, kind, billions",
    ("openai/gpt-4o-2024-08-06", "proprietary", None),
    ("GPT-o1-preview", "proprietary", None),
    ("openrouter/anthropic/claude-3.5-sonnet", "proprietary", None),
    ("vllm/openai/gpt-oss-120b", "open_source", 120.0),
    ("DeepSeek-V2-Lite (15.7B)", "open_source", 15.7),
    ("deepseek/DeepSeek-V2-Lite-Chat", "open_source", 15.7),
    ("Qwen-2.5-Instruct-7B", "open_source", 7.0),
    ("ollama/qwen2.5:72b-instruct-q4", "open_source", 72.0),
    ("qwen-max-2025-01-25", "proprietary", None),
    ("qwen/Qwen3-235B-A22B", "open_source", 235.0),
    ("mistralai/Mixtral-8x7B-Instruct", "open_source", 46.7),
    ("someone/mixtral-llama-2x13b", "open_source", None),
    ("Yi-1.5-9B-Chat", "open_source", 9.0),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "open_source", 70.0),
    ("llama-70b-distilled-8b", "open_source", None),
    ("Palmyra-Fin-70B", "financial_domain", 70.0),
    ("builtin/momentum", "no_language_model", None),
    ("gpt-4-x-vicuna-13b", "unclassified", 13.0),
    ("house/model", "unclassified", None),
)
def test_class_of_a_name(model: str, kind: str, billions: float | None) -> None:
    assert classify(model, KNOWN) == (kind, billions)


def test_own_classes_override_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "types: {financial_domain: [gpt-4*, house/*]}\nsizes: {house/*: 12}\n"
    )
    known = read_classes(
        [str(tmp_path / "own.yaml"), "gpt-4o=open_source:8", "house/b*=proprietary"]
    )
    classes = [
        classify(model, known)
        for model in ("openai/gpt-4o", "gpt-4", "house/a", "house/big", "gpt-3.5-turbo")
    ]

    assert classes == [
        ("open_source", 8.0),
        ("financial_domain", None),
        ("financial_domain", 12.0),
        ("proprietary", 12.0),
        ("proprietary", None),
    ]


# ---- tests of daily rewards


@pytest.mark.slow
def test_signed_rank_tests_match_scipy_and_are_adjusted_by_holm(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    series = {f"m/{number}": generator.normal(0.004 * number, 0.01, 60) for number in range(3)}
    series["m/2"][:10] = series["m/1"][:10]  # days on which both did the same
    noise = generator.normal(0, 0.001, 60)

    for model, rewards in series.items():
        epochs = {0: rewards, 1: rewards + noise}
        values = {seed: (float(np.sum(one)), 1.0, 0.1, 0.1) for seed, one in epochs.items()}
        plant(tmp_path / model / "cards" / "c.json", model, values, rules="strict", rewards=epochs)

    rows = wilcoxon_rows(
        read_epochs([tmp_path / model for model in series], None), "figures", lambda _: market()
    )

    assert [(row["first"], row["second"]) for row in rows] == [
        ("m/0", "m/1"),
        ("m/0", "m/2"),
        ("m/1", "m/2"),
    ]

    for row in rows:
        differences = series[row["first"]] - series[row["second"]]
        same = 10 * (row["first"] == "m/1")
        assert (row["days"], row["differing"]) == (60, 60 - same)
        assert row["p"] == pytest.approx(
            scipy_stats.wilcoxon(differences[same:], mode="exact").pvalue, rel=1e-9
        )
        assert row["cumulative"] == pytest.approx(differences.sum(), abs=1e-9)
        apart = differences - differences.mean()
        assert row["autocorrelation"] == pytest.approx(
            (apart[1:] * apart[:-1]).sum() / (apart**2).sum(), abs=1e-6
        )
        positive = scipy_stats.rankdata(np.abs(differences[same:]))[differences[same:] > 0].sum()
        total = (60 - same) * (61 - same) / 2
        assert row["rank_biserial"] == pytest.approx(2 * positive / total - 1)

    ranked = sorted(range(3), key=lambda number: rows[number]["p"])
    adjusted = np.minimum(
        1.0,
        np.maximum.accumulate(
            [(3 - rank) * rows[number]["p"] for rank, number in enumerate(ranked)]
        ),
    )

    assert [rows[number]["p_holm"] for number in ranked] == pytest.approx(list(adjusted))
    assert {row["verdict"] for row in rows} >= {"m/2 better"}

    # One epoch of each, that of the median Sharpe ratio: equal ones, so the first.
    row, *_ = wilcoxon_rows(
        read_epochs([tmp_path / "m/0", tmp_path / "m/1"], None), "trajectory", lambda _: market()
    )

    assert row["p"] == pytest.approx(
        scipy_stats.wilcoxon(series["m/0"] - series["m/1"], mode="exact").pvalue, rel=1e-9
    )


# ---- the command


REWARDS = np.array([0.01, -0.02, 0.03, 0.01, 0.02])
GIVEN = {0: (0.05, 1.0, 0.1, 0.1)}


@on_each_row(
    "second, words, message",
    (
        {"config": {"shown": 2}},
        ["investorbench-2"],
        "can't be combined in one table of investorbench_msft: config ",
    ),
    (
        {"snapshot": {"id": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}},
        ["investorbench-2"],
        "market ffffffffffff",
    ),
    (
        {"rules": "strict"},
        ["investorbench-2"],
        "cards use both strict and paper rules; choose with --rules",
    ),
    ({"rules": "strict"}, ["investorbench-sizes", "--rules", "paper"], "no model belongs in sizes"),
    ({}, ["investorbench-2", "--class", "m/0="], "--class 'm/0=': expected MODEL=TYPE"),
    (
        {},
        ["investorbench-2", "--class", "m/0=open:7"],
        "--class: types: expected one of financial_domain, proprietary, open_source, no_",
    ),
    (
        {},
        ["investorbench-2", "--class", "m/0=open_source:0"],
        "size of m/0: expected billions of parameters above 0",
    ),
    ({}, ["investorbench-2", "--class", "none.yaml"], "none.yaml: can't read"),
    (
        {},
        ["investorbench-tests"],
        "the ledger behind the card, is not next to it; give the run folder",
    ),
    ({"model": "m/0"}, ["investorbench-2"], "both contain seed 0 of m/0; give one"),
    (
        {},
        ["investorbench-2", "--class", "m/00=open_source:7"],
        "--class m/00: matches no model; available: m/0, m/1; did you mean 'm/0'",
    ),
    (
        {},
        ["investorbench-2", "--class", "m/0=open_source:7", "--class", "gpt*=proprietary"],
        "--class gpt*: matches no model; available: m/0, m/1",
    ),
)
def test_incomparable_cards_are_refused_in_one_line(
    second: dict[str, Any], words: list[str], message: str, tmp_path: Path, terminal: Terminal
) -> None:
    plant(tmp_path / "a.json", "m/0", GIVEN)
    other = plant(tmp_path / "b" / "cards" / "c.json", second.pop("model", "m/1"), GIVEN, **second)
    assert message in terminal.refusal(
        "paper", "table", tmp_path / "a.json", other, "--like", *words
    )


def test_cards_without_figures_or_with_foreign_ledgers_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain.json").write_text(dumps_pretty(card_cases.card()))
    with pytest.raises(
        KtdevalError,
        match="lacks InvestorBench's figures; `ktdeval score RUN --metrics ib_cumulative_return,",
    ):
        read_epochs([tmp_path / "plain.json"], None)

    (one, two), more = (
        [tmp_path / name / "cards" / "c.json" for name in "ab"],
        {"rules": "strict", "rewards": {0: 2 * REWARDS}},
    )
    plant(one, "m/a", {0: (0.1, 1.0, 0.1, 0.1)}, task="investorbench_btc", **more)
    plant(two, "m/b", GIVEN, **more)

    with pytest.raises(
        KtdevalError,
        match="investorbench_btc, window long: m/a is the only model; a test needs two models",
    ):
        wilcoxon_rows(read_epochs([one, two], None), "trajectory", lambda _: market())

    plant(one, "m/a", GIVEN, **more)
    with pytest.raises(KtdevalError, match="does not reproduce the card's cumulative return"):
        wilcoxon_rows(read_epochs([one, two], None), "trajectory", lambda _: market())


@pytest.mark.slow
def test_all_formats_hold_the_same_figures_and_escape_card_text(
    tmp_path: Path, terminal: Terminal
) -> None:
    paths = [
        str(plant(tmp_path / "0.json", HOLD, GIVEN)),
        str(plant(tmp_path / "1.json", "m/|\x1b[31m", {0: (1 / 3, None, 0.1, 0.1)})),
    ]

    def printed(*words: str, like: str = "investorbench-2") -> str:
        return terminal.out("paper", "table", *paths, "--like", like, *words)

    report = json.loads(printed("--format", "json"))
    frame = pd.read_csv(io.StringIO(printed("--format", "csv")))

    assert [row[CR] for row in report["rows"]] == list(frame[CR]) == [0.05, 1 / 3]
    assert math.isnan(frame[SR][1])

    assert printed() == snapshot("""\
Figures of models and assets; an epoch is a seed (InvestorBench, Tables 2 to 4)
  task                window  model                 type          size     epochs  own  of       CR     SR       AV      MDD  remark
  investorbench_msft  long    builtin/buy_and_hold  buy_and_hold  unknown       1    5   5   5.000%  1.000  10.000%  10.000%
  investorbench_msft  long    m/| [31m              unclassified  unknown       1    5   5  33.333%      -  10.000%  10.000%  fewer than 5 epochs; 1 without SR
  by paper rules, --median trajectory (identifiable by its prices, mask not certified, synthetic)
  m/| [31m on investorbench_msft: ib_sharpe is not defined: the returns do not vary
  unclassified: m/| [31m; name their class with --class MODEL=TYPE:BILLIONS or --class FILE
""")

    markdown = printed("--format", "markdown")

    assert "\x1b" not in markdown
    assert "| m/\\| [31m | unclassified |" in markdown
    assert "unclassified       1     1" in printed(like="investorbench-types")
