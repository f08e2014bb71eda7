"""`ktdeval paper table`: rows are systems and never names, and cohort patterns match systems,
whichever other cards are given.
"""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ktdeval.errors import ConfigError
from ktdeval.registry import PaperTable, Pivot, load_plugins, table_specs
from ktdeval.task_api.scoring import Score, ScoreDefinition
from ktdeval.values import content_hash
from ktdeval_compare.papers.paper_tables import index_sharpe
from ktdeval_compare.papers.table_writing import table_json, write_table
from ktdeval_compare.table_columns import (
    both,
    figure,
    interval_head,
    p_value,
    unit_name,
    unless_alone,
)
from support.figures.card_cases import typed
from support.figures.compare_cards import SELECTION_ALPHA, CardTerminal, make_card
from support.figures.renewed_cards import derived_fields
from support.figures.scoring_cases import TASK, score_spec, scoring_card


def rows_of(
    terminal: CardTerminal, name: str, cards: Sequence[Path], *words: str
) -> list[dict[str, str]]:
    """The rows of a table as CSV."""
    return list(
        csv.DictReader(
            io.StringIO(
                terminal.text("paper", "table", *cards, "--like", name, "--format", "csv", *words)
            )
        )
    )


def tilted(model: str, exposure: float, **changes: Any) -> dict[str, Any]:
    """A card whose holdings have this exposure to one factor."""
    card = make_card({("A1", 0): 0.01}, model, **changes)
    for episode in card["episodes"]:
        detail = {
            "linked": {"selection": 0.02},
            "mean_exposures": {"SKEW": exposure},
            "exposure_days": {"SKEW": 5},
        }
        episode["metrics"]["selection_alpha"] = {"value": 0.02, "n": 5, "detail": detail}

    card["metrics"]["selection_alpha"] = copy.deepcopy(SELECTION_ALPHA)

    return card | derived_fields(card)


# ---- rows are systems


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"args": {"positions": 3}}, "house/one(positions=3)"),
        ({"agent": {"name": "vote", "args": {}}}, "house/one@vote"),
        ({"call": {"temperature": 0.0}}, "house/one{temperature=0.0}"),
    ],
)
def test_two_systems_of_one_name_never_look_like_two_masks_of_one(
    change: dict[str, Any], label: str, terminal: CardTerminal
) -> None:
    """Bright and blinded cards in one row would be read as an effect of the mask."""
    bright = make_card({("A1", 0): 0.10, ("A2", 0): 0.10}, mask="bright")
    blinded = make_card({("A1", 0): 0.02, ("A2", 0): 0.02}, **change)
    cards = terminal.cards(bright, blinded)
    modes = rows_of(terminal, "ktdfin-3", cards)

    assert len(modes) == 2
    assert [(float(row["bright"] or "nan"), row["blinded"]) for row in modes[:1]] == [(0.10, "")]
    assert (modes[1]["Model"], modes[1]["bright"], float(modes[1]["blinded"])) == (label, "", 0.02)

    masks = rows_of(terminal, "ktdfin-11", cards)
    assert [(row["Mask"], float(row["total_return"])) for row in masks] == [
        ("bright", 0.10),
        ("blinded", 0.02),
    ]
    assert masks[1]["Model"] == label != masks[0]["Model"]

    # As JSON, the same figures, and null for a figure that no card has.
    shown = terminal.report("paper", "table", *cards, "--like", "ktdfin-3")
    assert [column["name"] for column in shown["columns"]] == list(modes[0])[2:]
    assert [(row["Model"], row["bright"], row["blinded"]) for row in shown["rows"]] == [
        (modes[0]["Model"], 0.10, None),
        (label, None, 0.02),
    ]
    assert "give one" in terminal.refusal(
        "paper", "table", *cards, "--like", "ktdfin-3", "--json", "--format", "csv"
    )

    # One system under two masks is one row.
    alike = terminal.cards(bright, make_card({("A1", 0): 0.02, ("A2", 0): 0.02}))
    (row,) = rows_of(terminal, "ktdfin-3", alike)

    assert (row["Model"], float(row["bright"]), float(row["blinded"])) == ("house/one", 0.10, 0.02)


@pytest.mark.slow
def test_lost_score_is_shared_among_tools_parameters_and_times(
    terminal: CardTerminal,
) -> None:
    """By hand: 0.1, 0.3 and 0.1 of the 0.5 in total are lost."""
    share = ScoreDefinition("a share", "fraction", (0.0, 1.0), "higher", "a test")
    points = ScoreDefinition("mean of the three", "points", (0.0, 100.0), "higher", "a test")
    task = {**TASK, "name": "qfinzero_calling", "suite": "calling"}

    def card(tm: float, pa: float, ta: float, model: str) -> dict[str, Any]:
        kinds = {"by_category": {"news_query": {"overall": 100 * tm, "n": 4}}}
        return scoring_card(
            task=task,
            specs=[score_spec(task=task["name"], task_hash=content_hash(task), model=model)],
            definitions={"overall": points, "tm": share, "pa": share, "ta": share},
            scores={
                "overall": Score(100 * (tm + pa + ta) / 3, 20, detail=kinds),
                "tm": Score(tm, 20),
                "pa": Score(pa, 20),
                "ta": Score(ta, 20),
            },
        )

    several = terminal.cards(card(0.9, 0.7, 0.9, "house/one"), card(1.0, 1.0, 1.0, "house/two"))
    best, other = rows_of(terminal, "qfinzero-errors", several)
    shares = [float(other[f"calling_lost_{part}"]) for part in ("tm", "pa", "ta")]

    assert shares == pytest.approx([0.2, 0.6, 0.2])
    assert (best["Model"], best["calling_lost_tm"]) == ("house/two", "")  # it loses no points

    (row,) = rows_of(terminal, "qfinzero-kinds", several)
    assert (row["Suite"], row["Kind of task"]) == ("calling", "news_query")
    assert (float(row["house/one"]), float(row["house/two"])) == (90.0, 100.0)


# ---- patterns match systems


@pytest.mark.exhaustive
def test_a_pattern_means_the_same_among_any_other_cards(terminal: CardTerminal) -> None:
    """By hand: A is 1.0 and B is 0.2, so A - B is 0.8, with or without a second system of A's
    model.
    """
    one, other, third = terminal.cards(
        tilted("house/one", 1.0),
        tilted("house/two", 0.2),
        tilted("house/one", 5.0, args={"positions": 3}),
    )
    words = ("--cohort", "A=house/one()", "--cohort", "B=house/two")
    alone, beside = (
        rows_of(terminal, "ktdfin-8", cards, *words)
        for cards in ((one, other), (one, other, third))
    )

    assert [float(row["A - B"]) for row in (*alone, *beside)] == pytest.approx([0.8, 0.8])

    (every,) = rows_of(
        terminal,
        "ktdfin-8",
        (one, other, third),
        "--cohort",
        "A=house/one",
        "--cohort",
        "B=house/two",
    )

    assert float(every["A"]) == 3.0  # both systems of that model

    (tuned,) = rows_of(
        terminal, "ktdfin-8", (one, other, third), "--cohort", "A=house/one(positions=3),house/two"
    )

    assert float(tuned["A"]) == pytest.approx(2.6)


def test_every_pattern_matches_something(terminal: CardTerminal) -> None:
    cards = terminal.cards(tilted("house/momentum", 1.0), tilted("house/reversal", 0.2))
    refusal = terminal.refusal(
        "paper", "table", *cards, "--like", "ktdfin-8", "--cohort", "A=house/momentum,house/reversl"
    )
    there = "there are house/momentum, house/reversal; did you mean 'house/reversal'"

    assert f"--cohort A: 'house/reversl' matches no system here; {there}" in refusal


@pytest.mark.slow
def test_a_card_without_exposures_is_named_and_is_no_match(terminal: CardTerminal) -> None:
    cards = terminal.cards(tilted("house/one", 1.0), make_card({("A1", 0): 0.01}, "house/bare"))
    words = ("paper", "table", *cards, "--like", "ktdfin-8", "--cohort")
    code, shown, message = terminal.call(*words, "A=house/*")

    assert (code, "1.00" in shown) == (0, True)
    assert "house/bare: no exposures, so it is excluded from all means" in message

    code, _, message = terminal.call(*words, "A=house/one,house/bare")
    assert (
        code,
        "--cohort A: 'house/bare' matches no system here; there are house/one" in message,
    ) == (2, True)


# ---- what a table says of its medians


@pytest.mark.exhaustive
def test_parts_that_do_not_add_up_are_noted(terminal: CardTerminal) -> None:
    """Returns of 1, 5 and 6 % consist of 1, 0 and 6 % and of 0, 5 and 0 %: the parts have medians 1
    and 0, the return 5.
    """
    several = parted({"A1": (0.01, 0.0), "A2": (0.0, 0.05), "A3": (0.06, 0.0)})
    cards = terminal.cards(several)
    code, written, message = terminal.call(
        "paper", "table", *cards, "--like", "ktdfin-5", "--format", "csv"
    )
    (row,) = csv.DictReader(io.StringIO(written))

    assert [float(row[name]) for name in ("common_return", "selection_alpha", "total_return")] == [
        0.01,
        0.0,
        0.05,
    ]

    note = (
        "parts of an episode add up to its return; medians over episodes, each of its own column,"
        " need not"
    )

    for form in ("text", "markdown", "latex"):
        assert note in terminal.text(
            "paper", "table", *cards, "--like", "ktdfin-5", "--format", form
        )

    assert (code, message) == (0, f"ktdeval: warning: {note}\n")

    alone = terminal.cards(parted({"A1": (0.01, 0.02)}))
    assert note not in terminal.text("paper", "table", *alone, "--like", "ktdfin-5")
    assert "median over episodes" in terminal.text("paper", "table", *alone, "--like", "ktdfin-5")


def parted(parts: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """A card whose returns consist of two parts, by window."""
    card = make_card({(window, 0): sum(both) for window, both in parts.items()})
    for name, at in (("common_return", 0), ("selection_alpha", 1)):
        card["metrics"][name] = {**copy.deepcopy(SELECTION_ALPHA), "formula": f"{name}/1: here"}
        for episode in card["episodes"]:
            episode["metrics"][name] = {"value": parts[episode["window"]][at], "n": 5}

    return card | derived_fields(card)


# ---- which tables there are


PAPERS = ("ama", "deepfund", "investorbench", "ktdfin", "qfinzero")


@pytest.mark.parametrize("words", [("--like",), ()], ids=["like", "bare"])
def test_without_a_name_every_table_is_listed_with_its_place_in_the_paper(
    words: tuple[str, ...], terminal: CardTerminal
) -> None:
    listed = terminal.text("paper", "table", *words).splitlines()
    assert listed[0].split() == ["name", "source", "shows"]
    assert {line.split("-")[0] for line in listed[1:]} == set(PAPERS)

    (row,) = [line for line in listed if line.startswith("ktdfin-5 ")]
    assert " ".join(row.split()).startswith("ktdfin-5 KTD-Fin, Table 5 What the total return is")


def test_each_table_is_declared_by_the_package_of_its_paper() -> None:
    plugins = load_plugins()
    owners = {name.split("-")[0]: plugins.owner("tables", name) for name in plugins.specs("tables")}

    assert owners == {
        "ama": "ktdeval_arena",
        "deepfund": "ktdeval_arena",
        "investorbench": "ktdeval_investorbench",
        "ktdfin": "ktdeval_ktdfin",
        "qfinzero": "ktdeval_qfinzero",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.json", "--like", "ktdfn-4"], "no table 'ktdfn-4'; did you mean 'ktdfin-4'"),
        (["--like", "ktdfin-4"], "ktdfin-4: give the cards or runs to make it from"),
        (["x.json"], "--like NAME: name the table; `ktdeval paper table --like` lists all"),
        (
            ["x.json", "--like", "ktdfin-4", "--cohort", "A=*"],
            "--cohort: ktdfin-4 does not take it; ktdfin-8 do",
        ),
        (
            ["x.json", "--like", "deepfund-3", "--median", "figures"],
            "--median: deepfund-3 does not take it; investorbench-2, investorbench-sizes",
        ),
        (["x", "--like", "ama-1", "--data", "d"], "--data: ama-1 does not take it"),
        (
            ["x", "--like", "ama-1", "--json", "--format", "csv"],
            "are different formats; give one of them",
        ),
        (
            ["x", "--show", "types"],
            "each is a table of its own: `ktdeval paper table --like` lists them",
        ),
    ],
)
def test_a_table_that_can_not_be_printed_is_one_line(
    words: list[str], message: str, terminal: CardTerminal
) -> None:
    assert message in terminal.refusal("paper", "table", *words)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a-1: {caption: A, source: B}", "a-1: field 'rows' is missing"),
        ("a-1: {caption: A, source: B, rows: models, colums: []}", "colums"),
        ("a-1: {caption: A, source: B, rows: models, columns: [[x, y]]}", "columns"),
        ("a-1: 3", "a-1: expected a mapping of fields, was int"),
    ],
)
def test_a_file_of_tables_with_a_mistake_names_the_table_and_the_field(
    content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "tables.yaml").write_text(content)
    with pytest.raises(ConfigError, match=r"tables\.yaml: a-1") as error:
        table_specs(tmp_path / "tables.yaml")[0].make()

    assert message in str(error.value)


# ---- how cells are shown


def test_table_format_shows_row_fields_and_a_dash_if_undefined() -> None:
    table = PaperTable(
        name="a-1",
        caption="A",
        source="B",
        rows="m:f",
        columns=(
            ("who", "who", "{who}"),
            ("hits", "share", "{hits} of {all} ({share_pct:.1f} %)"),
            ("fine", "fine", "{fine}"),
        ),
    )
    rows = [
        {"who": "x|y", "share": 0.25, "hits": 1, "all": 4, "fine": True},
        {"who": "z", "share": None, "hits": 0, "all": 0, "fine": False},
    ]
    frame = pd.DataFrame(rows, dtype=object)
    frame.attrs["notes"] = ("one", "two")

    assert write_table(table, frame, "text").splitlines() == [
        "A (B)",
        "  who             hits  fine",
        "  x|y  1 of 4 (25.0 %)   yes",
        "  z                  -    no",
        "  one",
        "  two",
    ]
    assert write_table(table, frame, "markdown").splitlines() == [
        "A (B)",
        "",
        "| who | hits | fine |",
        "| --- | ---: | ---: |",
        "| x\\|y | 1 of 4 (25.0 %) | yes |",
        "| z | - | no |",
        "",
        "one",
        "",
        "two",
    ]
    assert table_json(table, frame)["rows"] == rows


def test_pivot_has_a_numbered_column_per_name_and_dashes_for_missing_rows() -> None:
    pivot = Pivot(head="to", by="week", names=("who", "window"), cell="{nav:.1f}")
    table = PaperTable(name="a-1", caption="A", source="B", rows="m:f", pivot=pivot)
    rows = [
        {"week": "02", "who": "x", "window": None, "nav": 3.0},
        {"week": "01", "who": "x", "window": None, "nav": 1.5},
        {"week": "01", "who": "y", "window": "w", "nav": 2.0},
    ]
    frame = pd.DataFrame(rows, dtype=object)

    assert write_table(table, frame, "text").splitlines() == [
        "A (B)",
        "  to    1    2",
        "  01  1.5  2.0",
        "  02  3.0    -",
        "  1  x",
        "  2  y · w",
    ]
    assert table_json(table, frame)["rows"] == rows


# ---- tables of agents and funds


def measured(
    card: dict[str, Any], metrics: dict[str, Sequence[float | None]], unit: str = "fraction"
) -> dict[str, Any]:
    """A card with additional metrics, by episode; None is undefined."""
    for name, values in metrics.items():
        card["metrics"][name] = {
            **copy.deepcopy(SELECTION_ALPHA),
            "formula": f"{name}/1",
            "unit": unit,
        }
        for episode, value in zip(card["episodes"], values, strict=True):
            entry: dict[str, Any] = {"value": value, "n": 5}
            if value is None:
                entry["reason"] = "no steps"

            episode["metrics"][name] = entry

    return card | derived_fields(card)


ONE = {("A1", 0): 0.01}
THREE = {("A1", 0): 0.01, ("A2", 0): 0.02, ("A3", 0): 0.06}
FORMULAS = (
    "formulas of §3.3 as in the public code: SR is mean / deviation × √days, not AR / AV, and coins"
    " have 365 days a year, not 252; Vote: more than half of all voters, else HOLD, for the paper"
    " names no rule for ties"
)
STRICT = "these cards are scored by strict rules; the paper's figures are those of --rules paper"
SEVERAL = "each figure is its own median over 3 episodes: figures of a row are of no single path"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("figures", "rules", "note"),
    [
        (ONE, "paper", FORMULAS),
        (ONE, "strict", f"{FORMULAS}; {STRICT}"),
        (THREE, "paper", f"{FORMULAS}; {SEVERAL}"),
        (THREE, "strict", f"{FORMULAS}; {STRICT}; {SEVERAL}"),
    ],
)
def test_a_table_of_agents_says_what_differs_from_the_paper(
    figures: Any, rules: str, note: str, terminal: CardTerminal
) -> None:
    cards = terminal.cards(make_card(figures, rules=rules, config={"assets": ["TSLA"]}))

    lines = terminal.text(
        "paper", "table", *cards, "--like", "ama-1", "--format", "markdown"
    ).splitlines()

    assert lines[0] == (
        "Agents, models and their votes by asset, in per cent but SR (AMA, Table 1)"
    )
    assert lines[-1] == note
    assert terminal.report("paper", "table", *cards, "--like", "ama-1")["notes"] == [note]


def test_agents_are_rows_and_assets_columns_in_the_order_of_the_paper(
    terminal: CardTerminal,
) -> None:
    """A return of 12.345 % and a ratio of 1.5; the other agent has no card of the second asset."""

    def of_asset(asset: str, agent: str, value: float, model: str = "house/one") -> dict[str, Any]:
        card = make_card(
            ONE, model, agent={"name": agent, "args": {}}, config={"name": asset, "assets": [asset]}
        )
        figures = {"ama_cumulative_return": [value], "ama_sharpe": [1.5]}
        return measured(card, {name: list(values) for name, values in figures.items()})

    cards = terminal.cards(
        of_asset("BMRN", "react", 0.12345),
        of_asset("TSLA", "react", -0.02),
        of_asset("TSLA", "hold", 0.5, "builtin/buy_and_hold"),
        of_asset("TSLA", "echo", 0.04),
        of_asset("TSLA", "react", 0.03, "house/two"),
    )

    text = terminal.text("paper", "table", *cards, "--like", "ama-1", "--format", "markdown")

    rows = []

    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])

    assert rows[0] == [
        "Agent",
        "Model",
        *(f"TSLA {head}" for head in ("CR", "AR", "AV", "SR", "MDD")),
        *(f"BMRN {head}" for head in ("CR", "AR", "AV", "SR", "MDD")),
    ]

    none = ["-"] * 5
    assert rows[2:] == [
        ["Buy & Hold", "-", "+50.00", "-", "-", "1.50", "-", *none],
        ["react", "house/one", "-2.00", "-", "-", "1.50", "-", "+12.35", "-", "-", "1.50", "-"],
        ["react", "house/two", "+3.00", "-", "-", "1.50", "-", *none],
        ["echo", "house/one", "+4.00", "-", "-", "1.50", "-", *none],
    ]


def asset_card(*assets: str, **changes: Any) -> dict[str, Any]:
    """A card of these assets."""
    config = {"name": "one", "assets": list(assets), **changes.pop("config", {})}
    return make_card(ONE, config=config, **changes)


@pytest.mark.parametrize(
    ("cards", "message"),
    [
        (
            [asset_card("TSLA", "BTC")],
            "one is not a task of one asset; give cards of tasks such as",
        ),
        ([asset_card()], "one is not a task of one asset"),
        ([asset_card("TSLA"), asset_card("TSLA")], "on TSLA; give one of them"),
        (
            [asset_card("TSLA"), asset_card("BTC", config={"name": "two", "hold": 3})],
            "differ in hold; a table needs",
        ),
        (
            [asset_card("TSLA"), asset_card("BTC", rules="paper", config={"name": "two"})],
            "the cards' figures have different metric rules",
        ),
        (
            [asset_card("TSLA"), asset_card("TSLA", model="house/two", snapshot={"id": "f" * 64})],
            "the cards' figures have different ",
        ),
    ],
)
def test_a_table_of_agents_is_of_one_asset_a_card_and_one_set_of_rules(
    cards: list[dict[str, Any]], message: str, terminal: CardTerminal
) -> None:
    assert message in terminal.refusal("paper", "table", *terminal.cards(*cards), "--like", "ama-1")


def reference_of(card: dict[str, Any], **figures: float | None) -> dict[str, Any]:
    """A card whose index has these figures, over 24 days, in every window."""
    for held in card["reference"]["benchmark_buy_and_hold"].values():
        held["metrics"] = copy.deepcopy(held["metrics"])
        for name, value in figures.items():
            entry: dict[str, Any] = {"value": value, "n": 24}
            if value is None:
                entry["reason"] = "no index"

            held["metrics"][name] = entry

    return card


def test_a_table_of_a_fund_ends_with_its_index(terminal: CardTerminal) -> None:
    """The index: 4 %, a drawdown of 10 %, a Sharpe ratio of 2 over 0 with a volatility of 20 %, so
    2 - 0.0429 / 0.2 over the bill; and its own beta of 1 and alpha of 0.
    """
    index = {"total_return": 0.04, "max_drawdown": 0.1, "sharpe": 2.0, "volatility": 0.2}
    worse = measured(make_card(ONE, rules="paper"), {"df_beta": [0.5]}, "ratio")
    better = make_card({("A1", 0): 0.07}, "house/two", rules="paper")
    cards = terminal.cards(reference_of(worse, **index), reference_of(better, **index))

    report = terminal.report("paper", "table", *cards, "--like", "deepfund-3")

    first, second, third = report["rows"]

    assert (first["Model"], first["total_return"], first["df_beta"]) == ("house/two", 0.07, None)
    assert (second["Model"], second["total_return"], second["df_beta"]) == ("house/one", 0.01, 0.5)
    assert third == {
        "Model": "CSI300",
        "total_return": 0.04,
        "df_buy_and_hold": None,
        "df_sharpe": pytest.approx(2.0 - 0.0429 / 0.2),
        "max_drawdown": 0.1,
        "df_win_rate": None,
        "df_beta": 1.0,
        "df_alpha": 0.0,
    }
    assert len(report["notes"]) == 1
    assert report["notes"][0].startswith("formulas of Appendix D: α is a year's")
    assert STRICT not in report["notes"][0]


def test_by_strict_rules_the_bill_grows_by_the_day(terminal: CardTerminal) -> None:
    """252 times the 252nd root of 1.0429, less 1: 0.04201 a year."""
    index = {"total_return": 0.04, "sharpe": 2.0, "volatility": 0.2}
    cards = terminal.cards(reference_of(make_card(ONE), **index))

    report = terminal.report("paper", "table", *cards, "--like", "deepfund-3")

    bill = 252 * (1.0429 ** (1 / 252) - 1)

    assert report["rows"][-1]["df_sharpe"] == pytest.approx(2.0 - bill / 0.2, abs=1e-9)
    assert report["notes"][0].endswith(STRICT)


@pytest.mark.parametrize(
    ("volatility", "sharpe", "expected"),
    [(0.2, 2.0, 1.8), (0.0, 2.0, None), (None, 2.0, None), (0.2, None, None)],
)
def test_an_index_without_a_spread_has_no_ratio(
    volatility: float | None, sharpe: float | None, expected: float | None
) -> None:
    card = typed(reference_of(make_card(ONE), volatility=volatility, sharpe=sharpe))

    ratio = index_sharpe({"A1": card}, 0.04)

    assert ratio == (None if expected is None else pytest.approx(expected))


def test_an_index_over_five_days_has_no_ratio() -> None:
    made = reference_of(make_card(ONE), volatility=0.2, sharpe=2.0)
    for held in made["reference"]["benchmark_buy_and_hold"].values():
        held["metrics"]["sharpe"]["n"] = 5

    assert index_sharpe({"A1": typed(made)}, 0.04) is None


def test_a_table_of_a_fund_has_one_card_of_a_model_and_one_task(terminal: CardTerminal) -> None:
    other = make_card(ONE, "house/two", config={"name": "another"})
    cards = terminal.cards(make_card(ONE), other)

    message = terminal.refusal("paper", "table", *cards, "--like", "deepfund-3")

    assert "a table of a fund is of one task, these cards are of another, blinded_open" in message


# ---- tables of models, modes and masks


def test_models_are_ranked_by_return_with_the_benchmark_at_its_place(
    terminal: CardTerminal,
) -> None:
    """The index earned 4 %; ranks by selection are those of the models only."""
    models = {"house/one": (0.01, 0.03), "house/two": (0.07, -0.01), "house/three": (0.04, None)}
    made = []

    for model, (total, selection) in models.items():
        card = measured(make_card({("A1", 0): total}, model), {"selection_alpha": [selection]})
        made.append(reference_of(card, total_return=0.04))

    rows = rows_of(terminal, "ktdfin-4", terminal.cards(*made))

    shown = []
    for row in rows:
        shown.append([row["Model"], float(row["total_return"]), row["selection_rank"]])

    assert shown == [
        ["house/two", 0.07, "2.0"],
        ["house/three", 0.04, ""],
        ["CSI300 buy-and-hold", 0.04, ""],
        ["house/one", 0.01, "1.0"],
    ]

    excess = {row["Model"]: row["excess"] for row in rows}
    assert float(excess["house/two"]) == pytest.approx(0.03)
    assert float(excess["house/one"]) == pytest.approx(-0.03)
    assert excess["CSI300 buy-and-hold"] == ""


def test_a_single_model_is_shown_with_the_benchmark(terminal: CardTerminal) -> None:
    cards = terminal.cards(reference_of(make_card(ONE), total_return=0.04))

    rows = rows_of(terminal, "ktdfin-9", cards)

    assert [row["Model"] for row in rows] == ["CSI300 buy-and-hold", "house/one"]


@pytest.mark.slow
def test_modes_are_rows_in_the_order_of_the_benchmark_with_quartiles(
    terminal: CardTerminal,
) -> None:
    """Returns of 1, 2 and 6 % have the quartiles 1.5 and 4 %."""
    cards = terminal.cards(
        make_card(dict.fromkeys(THREE, 0.01), mode="memory_only"),
        make_card(THREE, mode="open_research"),
        make_card(THREE, mode="fixed_candidate", mask="bright"),
    )

    text = terminal.text("paper", "table", *cards, "--like", "ktdfin-3", "--format", "markdown")

    lines = [line for line in text.splitlines() if line.startswith("|")]

    assert lines == [
        "| Model | Mode | bright | blinded |",
        "| --- | --- | ---: | ---: |",
        "| house/one | open_research | - | +2.00 [+1.50, +4.00] |",
        "| house/one | fixed_candidate | +2.00 [+1.50, +4.00] | - |",
        "| house/one | memory_only | - | +1.00 [+1.00, +1.00] |",
    ]


def test_two_windows_are_two_returns_and_no_quartiles(terminal: CardTerminal) -> None:
    two = {("A1", 0): 0.01, ("A2", 0): 0.05}
    text = terminal.text(
        "paper",
        "table",
        *terminal.cards(make_card(two)),
        "--like",
        "ktdfin-3",
        "--format",
        "markdown",
    )
    assert "| house/one | open_research | +1.00, +5.00 |" in text.splitlines()


def test_the_only_episode_of_a_mode_has_no_quartiles(terminal: CardTerminal) -> None:
    cards = terminal.cards(make_card(ONE), make_card(ONE, mask="bright"))

    text = terminal.text("paper", "table", *cards, "--like", "ktdfin-3", "--format", "markdown")

    assert "| house/one | open_research | +1.00 | +1.00 |" in text.splitlines()


def test_masks_are_rows_in_their_order(terminal: CardTerminal) -> None:
    cards = terminal.cards(
        make_card(ONE, mask="blinded"),
        make_card(ONE, mask="date_blind"),
        make_card(ONE, "house/two", mask="stock_blind"),
        make_card(ONE, mask="bright"),
    )

    rows = rows_of(terminal, "ktdfin-11", cards)

    assert [(row["Model"], row["Mask"]) for row in rows] == [
        ("house/one", "bright"),
        ("house/one", "date_blind"),
        ("house/one", "blinded"),
        ("house/two", "stock_blind"),
    ]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ktdfin-3", {}, "house/one has two cards of blinded open_research; give one"),
        ("ktdfin-11", {}, "house/one has two cards of blinded open_research; give one"),
        (
            "ktdfin-11",
            {"mode": "memory_only"},
            "a table of masks is of one mode; give cards of one",
        ),
        (
            "ktdfin-4",
            {"mode": "memory_only"},
            "a table of models is of one task, these cards are of blinded_memory_only, blinded_open",
        ),
        ("ktdfin-4", {"rules": "paper"}, "the cards' figures have different metric rules"),
        ("ktdfin-12", {}, "no card of a de-anonymization probe here; run --tasks deanon_probe"),
        (
            "qfinzero-2",
            {},
            "no card of tool calling or planning here; run --tasks qfinzero_calling",
        ),
        ("qfinzero-kinds", {}, "no card of tool calling or planning here"),
    ],
)
def test_a_table_refuses_cards_that_do_not_give_it(
    name: str, changes: dict[str, Any], message: str, terminal: CardTerminal
) -> None:
    cards = terminal.cards(make_card(ONE), make_card(ONE, **changes))

    assert message in terminal.refusal("paper", "table", *cards, "--like", name)


def test_attackers_are_ranked_by_their_success_above_chance(terminal: CardTerminal) -> None:
    """Chance is the mean of the chance levels on the probes of each card; it has no date."""
    share = ScoreDefinition("a share", "fraction", (0.0, 1.0), "lower", "a test")
    names = ("ticker_top1", "ticker_top5", "board", "date_within_5", "date_within_20")
    names += ("date_within_60", "joint")

    def attack(model: str, joint: float, chance: float | None) -> dict[str, Any]:
        scores = {name: Score(0.5, 20) for name in names}
        scores["joint"] = Score(joint, 20, baseline=chance)
        return scoring_card(
            specs=[score_spec(model=model)],
            definitions=dict.fromkeys(names, share),
            scores=scores,
        )

    cards = terminal.cards(
        attack("house/weak", 0.1, 0.02),
        attack("house/strong", 0.4, 0.04),
        attack("house/x", 0.2, None),
    )

    rows = rows_of(terminal, "ktdfin-12", cards)

    assert [(row["Attacker"], row["joint"]) for row in rows[:3]] == [
        ("house/strong", "0.4"),
        ("house/x", "0.2"),
        ("house/weak", "0.1"),
    ]
    assert rows[3]["Attacker"] == "random baseline"
    assert float(rows[3]["joint"]) == pytest.approx(0.03)
    assert rows[3]["board"] == ""


def test_without_cohorts_exposures_end_with_their_mean(terminal: CardTerminal) -> None:
    cards = terminal.cards(tilted("house/one", 1.0), tilted("house/two", 0.2))

    (row,) = rows_of(terminal, "ktdfin-8", cards)

    assert list(row) == ["Factor", "house/one", "house/two", "mean"]
    assert [float(row[name]) for name in ("house/one", "house/two", "mean")] == [
        1.0,
        0.2,
        pytest.approx(0.6),
    ]


def test_of_three_cohorts_there_is_no_difference(terminal: CardTerminal) -> None:
    cards = terminal.cards(*(tilted(f"house/{name}", 1.0) for name in "abc"))
    words = [word for name in "abc" for word in ("--cohort", f"{name}=house/{name}")]

    (row,) = rows_of(terminal, "ktdfin-8", cards, *words)

    assert list(row) == ["Factor", "a", "b", "c"]


# ---- suites


def scores_card(suite: str, model: str, **scores: float | None) -> dict[str, Any]:
    """A card of a suite of QFinZero with these scores; None is undefined."""
    task = {**TASK, "name": f"qfinzero_{suite}", "suite": suite}
    number = ScoreDefinition("a score", "points", (0.0, 100.0), "higher", "a test")
    made = {}

    for name, value in scores.items():
        if value is None:
            made[name] = Score(None, 0, reason="no valid answer")
        else:
            made[name] = Score(value, 20)

    spec = score_spec(task=task["name"], task_hash=content_hash(task), model=model)

    return scoring_card(
        task=task, specs=[spec], definitions=dict.fromkeys(scores, number), scores=made
    )


def test_models_of_suites_are_sorted_by_the_mean_of_their_overall_scores(
    terminal: CardTerminal,
) -> None:
    """Means: 70 for 80 and 60; 75 for a single suite; none."""
    cards = terminal.cards(
        scores_card("calling", "house/none", overall=None, tm=0.5),
        scores_card("calling", "house/both", overall=80.0),
        scores_card("planning", "house/both", overall=60.0),
        scores_card("planning", "house/one", overall=75.0),
    )

    rows = rows_of(terminal, "qfinzero-2", cards)

    assert [(row["Model"], row["calling_overall"], row["planning_overall"]) for row in rows] == [
        ("house/one", "", "75.0"),
        ("house/both", "80.0", "60.0"),
        ("house/none", "", ""),
    ]
    assert rows[2]["calling_tm"] == "0.5"


def test_a_suite_has_one_card_of_a_model(terminal: CardTerminal) -> None:
    cards = terminal.cards(
        scores_card("calling", "house/one", overall=80.0),
        scores_card("calling", "house/one", overall=70.0),
    )

    for name in ("qfinzero-2", "qfinzero-kinds"):
        assert "has two cards of the suite calling; give one" in terminal.refusal(
            "paper", "table", *cards, "--like", name
        )


# ---- figures of reports


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "fraction", "-"),
        (0.0123, "fraction", "+1.230"),
        (-0.0123, "fraction", "-1.230"),
        (0.0999996, "fraction", "+10.000"),
        (0.1, "fraction", "+10.00"),
        (9.9994, "ratio", "+9.999"),
        (10.0, "ratio", "+10.00"),
        (-0.0001, "ratio", "0.000"),
        (0.0, "ratio", "0.000"),
    ],
)
def test_a_figure_is_signed_with_three_or_four_digits(
    value: float | None, unit: str, text: str
) -> None:
    assert figure(value, unit) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.01, 0.02, "+1.000 … +2.000"), (None, 0.02, "-"), (0.01, None, "-"), (None, None, "-")],
)
def test_an_interval_needs_both_ends(low: float | None, high: float | None, text: str) -> None:
    assert both(low, high, "fraction") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.05, "0.0500"), (0.0001, "0.0001"), (0.00009, "9e-05"), (1.0, "1.0000")],
)
def test_a_small_p_is_a_power_of_ten(value: float | None, text: str) -> None:
    assert p_value(value) == text


def test_heads_of_intervals_and_units_of_columns() -> None:
    assert interval_head(0.05) == "95 % interval"
    assert interval_head(0.001) == "99.9 % interval"
    assert (unit_name("count"), unit_name("ratio"), unit_name("fraction")) == ("count", "", "%")


@dataclass(frozen=True)
class Named:
    """A row of a task."""

    task: str
    value: float


def test_what_all_rows_have_in_common_is_left_blank() -> None:
    rows = [Named("a", 1.0), Named("a", 2.0)]

    assert unless_alone(rows, "task") == [Named("", 1.0), Named("", 2.0)]
    assert unless_alone(rows, "value") == rows
    assert unless_alone(rows, "task", [Named("b", 3.0)]) == rows
