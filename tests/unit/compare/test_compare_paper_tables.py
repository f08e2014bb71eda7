"""`ktdeval table`: rows are systems and never names, and patterns of cohorts match systems,
whatever else is given.
"""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from card_cases import derived_fields
from compare_cards import SELECTION_ALPHA, CardTerminal, make_card
from ktdeval.errors import ConfigError
from ktdeval.registry.paper_tables import PaperTable, Pivot
from ktdeval.registry.plugin_registry import load_plugins
from ktdeval.registry.task_files import table_specs
from ktdeval.task_api.scoring import Score, ScoreDefinition
from ktdeval.values.hashes import content_hash
from ktdeval_compare.table_writing import FORMS, table_json, write_table
from scoring_cases import TASK, score_spec, scoring_card


def rows_of(
    terminal: CardTerminal, name: str, cards: Sequence[Path], *words: str
) -> list[dict[str, str]]:
    """The rows of a table as CSV."""
    return list(
        csv.DictReader(
            io.StringIO(terminal.text("table", *cards, "--like", name, "--format", "csv", *words))
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
    # As JSON, the same figures, and null for one that no card has.
    shown = terminal.report("table", *cards, "--like", "ktdfin-3")
    assert [column["name"] for column in shown["columns"]] == list(modes[0])[2:]
    assert [(row["Model"], row["bright"], row["blinded"]) for row in shown["rows"]] == [
        (modes[0]["Model"], 0.10, None),
        (label, None, 0.02),
    ]
    assert "give one" in terminal.refusal(
        "table", *cards, "--like", "ktdfin-3", "--json", "--format", "csv"
    )
    # One system under two masks is one row.
    alike = terminal.cards(bright, make_card({("A1", 0): 0.02, ("A2", 0): 0.02}))
    (row,) = rows_of(terminal, "ktdfin-3", alike)
    assert (row["Model"], float(row["bright"]), float(row["blinded"])) == ("house/one", 0.10, 0.02)


def suite_card(suite: str, overall: float, **changes: Any) -> dict[str, Any]:
    """A card of QFinZero's calling or planning with one score; `changes`: of its episodes."""
    task = {**TASK, "name": f"qfinzero_{suite}", "suite": suite}
    spec = score_spec(task=task["name"], task_hash=content_hash(task), **changes)
    points = ScoreDefinition("mean of the three", "points", (0.0, 100.0), "higher", "a test")
    return scoring_card(
        task=task,
        specs=[spec],
        definitions={"overall": points},
        scores={"overall": Score(overall, 20)},
    )


def test_calling_and_planning_of_two_systems_are_two_rows(terminal: CardTerminal) -> None:
    """One row of both would be a model that nobody ran."""
    calling = suite_card("calling", 80.0)
    planning = suite_card("planning", 20.0, model_args={"positions": 3})
    rows = rows_of(terminal, "qfinzero-2", terminal.cards(calling, planning))
    assert [(row["Model"], row["calling_overall"], row["planning_overall"]) for row in rows] == [
        ("builtin/momentum", "80.0", ""),
        ("builtin/momentum(positions=3)", "", "20.0"),
    ]
    (row,) = rows_of(terminal, "qfinzero-2", terminal.cards(calling, suite_card("planning", 20.0)))
    assert (row["Model"], row["calling_overall"], row["planning_overall"]) == (
        "builtin/momentum",
        "80.0",
        "20.0",
    )


def test_what_a_model_misses_is_shared_out_among_tools_parameters_and_times(
    terminal: CardTerminal,
) -> None:
    """By hand: 0.1, 0.3 and 0.1 are missing of 0.5 in all."""
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
    assert (best["Model"], best["calling_lost_tm"]) == ("house/two", "")  # it misses nothing

    (row,) = rows_of(terminal, "qfinzero-kinds", several)
    assert (row["Suite"], row["Kind of task"]) == ("calling", "news_query")
    assert (float(row["house/one"]), float(row["house/two"])) == (90.0, 100.0)


# ---- patterns match systems


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
        "table", *cards, "--like", "ktdfin-8", "--cohort", "A=house/momentum,house/reversl"
    )
    there = "there are house/momentum, house/reversal; did you mean 'house/reversal'"
    assert f"--cohort A: 'house/reversl' matches no system here; {there}" in refusal


def test_a_card_without_exposures_is_named_and_is_no_match(terminal: CardTerminal) -> None:
    cards = terminal.cards(tilted("house/one", 1.0), make_card({("A1", 0): 0.01}, "house/bare"))
    words = ("table", *cards, "--like", "ktdfin-8", "--cohort")
    code, shown, message = terminal.call(*words, "A=house/*")
    assert (code, "1.00" in shown) == (0, True)
    assert "house/bare: no exposures, so it stands in no mean" in message
    code, _, message = terminal.call(*words, "A=house/one,house/bare")
    assert (
        code,
        "--cohort A: 'house/bare' matches no system here; there are house/one" in message,
    ) == (2, True)


# ---- what a table says of its medians


def test_parts_that_do_not_add_up_are_noted(terminal: CardTerminal) -> None:
    """Returns of 1, 5 and 6 % are made of 1, 0 and 6 % and of 0, 5 and 0 %: the parts have medians
    1 and 0, the return 5.
    """
    several = parted({"A1": (0.01, 0.0), "A2": (0.0, 0.05), "A3": (0.06, 0.0)})
    cards = terminal.cards(several)
    code, written, message = terminal.call("table", *cards, "--like", "ktdfin-5", "--format", "csv")
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
        assert note in terminal.text("table", *cards, "--like", "ktdfin-5", "--format", form)
    assert (code, message) == (0, f"ktdeval: warning: {note}\n")
    alone = terminal.cards(parted({"A1": (0.01, 0.02)}))
    assert note not in terminal.text("table", *alone, "--like", "ktdfin-5")
    assert "median over episodes" in terminal.text("table", *alone, "--like", "ktdfin-5")


def parted(parts: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """A card whose returns are of two parts, by window."""
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
    listed = terminal.text("table", *words).splitlines()
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


@pytest.mark.parametrize("name", load_plugins().specs("tables"))
def test_each_column_of_a_table_has_a_form_that_is_known(name: str) -> None:
    table: PaperTable = load_plugins().make("tables", name)
    assert table.caption
    assert table.source
    for head, field, how in table.columns:
        assert "{" in how or how in FORMS, (head, field)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.json", "--like", "ktdfn-4"], "there is no table 'ktdfn-4'; did you mean 'ktdfin-4'"),
        (["--like", "ktdfin-4"], "ktdfin-4: give the cards or runs that it is made of"),
        (["x.json"], "--like NAME: name the table; `ktdeval table --like` lists all"),
        (
            ["x.json", "--like", "ktdfin-4", "--cohort", "A=*"],
            "--cohort: ktdfin-4 does not take it; ktdfin-8 do",
        ),
        (
            ["x.json", "--like", "deepfund-3", "--median", "figures"],
            "--median: deepfund-3 does not take it; investorbench-2, investorbench-sizes",
        ),
        (["x", "--like", "ama-1", "--data", "d"], "--data: ama-1 does not take it"),
        (["x", "--like", "ama-1", "--json", "--format", "csv"], "are two forms; give one of them"),
        (["x", "--show", "types"], "each is a table of its own: `ktdeval table --like` lists them"),
    ],
)
def test_a_table_that_can_not_be_printed_is_one_line(
    words: list[str], message: str, terminal: CardTerminal
) -> None:
    assert message in terminal.refusal("table", *words)


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


def test_a_format_shows_fields_of_a_row_and_a_dash_where_its_own_is_undefined() -> None:
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


def test_a_pivot_has_a_numbered_column_for_each_name_and_a_dash_where_it_has_no_row() -> None:
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
