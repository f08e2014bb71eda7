"""What is made at the end of a grid: cards of the plan, tables, the page of each card, the bundle."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec import structs

from grid_looks import cell_id, record_of_looks
from grid_pages import bundle_page
from grid_store import HandMade, done, record_of, small_plan, unit_id
from ktdeval.cards import ScoringCard, TradingCard, load_evaluation
from ktdeval.errors import UsageError
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row
from ktdeval_compare.pairs.compared_cards import load_entrants
from ktdeval_grid.outputs.final_outputs import (
    GridEnding,
    _cards,
    _headline_figure,
    _replace,
    _typical,
    _write_tables,
    make_ending,
)
from ktdeval_grid.outputs.output_kinds import CardsOutput, _make_output, call_command
from ktdeval_grid.outputs.static_site import BundlePage, index_html, parse_table
from ktdeval_grid.state.settled_pairs import LookBook, looks_to_make
from ktdeval_grid.state.status import look, reader_of
from support.figures.compare_cards import make_card, save_card
from support.figures.scoring_cases import scoring_card

FIRST = "builtin-momentum_react"
WINDOWS = {
    "short": ("2024-01-01", "2024-01-05"),
    "long": ("2024-01-02", "2024-01-26"),
    "later": ("2024-02-02", "2024-02-26"),
    "last": ("2024-03-01", "2024-03-26"),
}


def trading_card(folder: Path, returns: Mapping[tuple[str, int], float | None]) -> TradingCard:
    made = make_card(returns, windows=WINDOWS)
    (entrant,) = load_entrants([save_card(folder, made)])
    assert isinstance(entrant.card, TradingCard)
    return entrant.card


def loaded_scoring_card(folder: Path) -> ScoringCard:
    card = load_evaluation(save_card(folder, scoring_card((0, 1))))
    assert isinstance(card, ScoringCard)
    return card


# ---- one episode and one figure of a card


def test_an_episode_without_a_return_is_not_the_typical_one(tmp_path: Path) -> None:
    card = trading_card(tmp_path / "run", {("long", 0): None, ("later", 0): 0.2, ("last", 0): 0.3})
    none = trading_card(tmp_path / "none", {("later", 0): None, ("last", 0): None})

    assert _typical(card) == card.episodes[1].id
    assert _typical(none) == none.episodes[0].id


def test_of_a_card_of_scores_the_first_episode_is_shown(tmp_path: Path) -> None:
    card = loaded_scoring_card(tmp_path)

    assert _typical(card) == card.episodes[0].id


def test_the_figure_of_a_card_is_its_median_return_or_its_first_score(tmp_path: Path) -> None:
    returns = trading_card(tmp_path / "a", {("long", 0): 0.1, ("later", 0): -0.2, ("last", 0): 0.3})
    undefined = trading_card(tmp_path / "b", {("later", 0): None})
    scores = loaded_scoring_card(tmp_path / "c")
    first = scores.scores["right_name"]
    by_distance = structs.replace(scores, score_order=("distance",))
    unordered = structs.replace(scores, score_order=())

    assert _headline_figure(returns) == "total_return +10.00 %"
    assert _headline_figure(undefined) == ""
    assert scores.score_order[0] == "right_name"
    assert first.value is not None
    assert _headline_figure(scores) == f"right_name {first.value * 100:+.2f} %"
    assert _headline_figure(by_distance) == "distance 12.5"
    assert _headline_figure(unordered) == ""


# ---- tables


def test_tables_are_written_and_those_of_an_earlier_plan_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    (folder / "kept").mkdir(parents=True)
    (folder / "old.txt").write_text("of an earlier plan")
    ending = GridEnding(tmp_path / "index.html")
    outputs = [
        CardsOutput("ktdfin-3", "", {"txt": "a table", "md": "| a |"}),
        CardsOutput("luck", "Luck", {}, problem="no trials"),
    ]

    _write_tables(folder, outputs, ending)

    assert sorted(path.name for path in folder.iterdir()) == ["kept", "ktdfin-3.md", "ktdfin-3.txt"]
    assert (folder / "ktdfin-3.txt").read_text() == "a table"
    assert ending.tables == [folder / "ktdfin-3.txt"]
    assert ending.problems == ["luck: no trials"]


def test_a_new_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    for name in ("fresh/site", "site"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "index.html").write_text(name)

    _replace(tmp_path / "fresh" / "site", tmp_path / "site")

    assert (tmp_path / "site" / "index.html").read_text() == "fresh/site"

    (tmp_path / "fresh" / "site").mkdir()
    _replace(tmp_path / "fresh" / "site", tmp_path / "new")

    assert (tmp_path / "new").is_dir()


# ---- cards of the plan


def test_cards_are_those_of_tasks_that_are_planned_now(tmp_path: Path) -> None:
    record = record_of(small_plan())
    run = tmp_path / "runs" / FIRST
    planned = save_card(run, make_card({("A1", 0): 0.1}))
    save_card(run, make_card({("A1", 0): 0.1}, mask="bright"))
    (tmp_path / "runs" / "builtin-reversal_react" / "cards").mkdir(parents=True)

    (found,) = _cards(tmp_path, record)

    assert (found.system, found.path, found.run) == (FIRST, planned, run)


def test_tables_follow_the_first_card(tmp_path: Path) -> None:
    grid = HandMade(tmp_path, record_of(small_plan()))
    _, status = look(reader_of(grid.store))

    with pytest.raises(UsageError, match=r": no episode is gathered yet; tables follow the first"):
        make_ending(tmp_path, grid.record, status, load_plugins())


class Pages:
    """A plugin with the commands that an ending calls, which say what they were called with."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def command(self, name: str, problem: str = "") -> click.Command:
        @click.command(context_settings={"ignore_unknown_options": True})
        @click.argument("words", nargs=-1)
        def called(words: Sequence[str]) -> None:
            self.calls.append([name, *words])
            click.echo(f"{name} {len(words)}")
            click.echo("a note", err=True)

            if problem:
                raise click.ClickException(problem)

        return called

    @hookimpl
    def ktdeval_commands(self) -> list[Spec]:
        return [
            Spec("good_table", lambda: self.command("good_table"), "prints"),
            Spec("bad_table", lambda: self.command("bad_table", "no\n figure"), "fails"),
        ]


def test_a_command_is_called_with_words_and_what_it_prints_is_kept() -> None:
    pages = Pages()
    plugins = load_plugins()
    plugins.add(pages, "pages")

    output = call_command(["good_table", "a.json", "--x", "1"], plugins)

    assert pages.calls == [["good_table", "a.json", "--x", "1"]]
    assert (output.text, output.notes) == ("good_table 3\n", ("a note",))

    assert call_command(["bad_table"], plugins).problem.startswith("no figure")


def test_a_table_has_its_forms_and_what_was_warned_of_once() -> None:
    plugins = load_plugins()
    plugins.add(Pages(), "pages")
    words = {"txt": ["good_table", "a.json"], "csv": ["good_table", "a.json", "b.json"]}

    table = _make_output("good", "A title", words, plugins)

    texts = {"txt": "good_table 1\n", "csv": "good_table 2\n"}

    assert table == CardsOutput("good", "A title", texts, ("a note",))


@pytest.mark.parametrize(
    ("words", "problem"), [("bad_table", "no figure"), ("no_table", "unknown command 'no_table'")]
)
def test_a_table_that_can_not_be_made_says_why_in_one_line(words: str, problem: str) -> None:
    plugins = load_plugins()
    plugins.add(Pages(), "pages")

    table = _make_output("bad", "", {"txt": ["good_table"], "md": [words]}, plugins)

    assert (table.name, table.texts, table.notes) == ("bad", {}, ())
    assert table.problem.startswith(problem)


# ---- the index


def cells_of(text: str) -> list[list[str]]:
    """Cells of the rows of a page's tables, without tags."""
    rows = []
    for row in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        rows.append([html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in cells])

    return rows


def page_of(grid: HandMade, **changes: Any) -> BundlePage:
    _, status = look(reader_of(grid.store))
    fields = {"cards": (), "report": "", "outputs": (), "problems": ()}
    return BundlePage(grid.record, status, **{**fields, **changes})


def test_the_index_names_settled_pairs_and_counts_what_is_not_run(tmp_path: Path) -> None:
    record = record_of_looks()
    grid = HandMade(tmp_path, record)
    for place in range(8):
        grid.finish(done(cell_id(0, place), figure=0.01 * place + 0.01))
        grid.finish(done(cell_id(1, place), figure=0.0))

    book = LookBook(grid.store)
    figures = {cell_id(0, place): 0.01 * place + 0.01 for place in range(8)}
    figures |= {cell_id(1, place): 0.0 for place in range(8)}
    for made in looks_to_make(record, figures, {}):
        book.record(made)

    page = index_html(page_of(grid))

    assert cells_of(page)[1] == ["builtin-momentum", "8/10", "2", "2.00"]
    assert "total_return of builtin-momentum_react is above that of builtin-reversal_react" in page


def test_the_index_counts_the_episodes_of_each_model_and_of_all(tmp_path: Path) -> None:
    grid = HandMade(tmp_path, record_of(small_plan(), pruned=[3]))
    grid.finish(done(unit_id(0, 0), cost_usd=1250.5))
    grid.finish(done(unit_id(0, 1), cost_usd=0.0))
    grid.finish(done(unit_id(1, 0), cost_usd=None))

    rows = cells_of(index_html(page_of(grid)))

    assert rows[:4] == [
        ["model", "done", "left", "pruned", "USD"],
        ["builtin-momentum", "2/3", "1", "1", "1,250.50"],
        ["builtin-reversal", "1/3", "2", "1", "?"],
        ["total", "3/6", "3", "2", "≥ 1,250.50"],
    ]


def test_a_card_is_listed_with_its_figure_labels_and_files(tmp_path: Path) -> None:
    page = bundle_page(tmp_path)
    (card,) = page.cards
    second = card.__class__(**{**vars(card), "labels": ("synthetic", "mixed code"), "view": "v"})
    text = index_html(BundlePage(page.record, page.status, (card, second), "report.html", (), ()))

    row = [card.system, card.task, "total_return -3.99 %", "3", "1"]
    listed = [cells for cells in cells_of(text) if cells[0] == card.system]

    assert [cells[:5] for cells in listed] == [row, row]
    assert [cells[5] for cells in listed] == ["card", "cardepisode"]
    assert "(2 of 2)" in text
    assert "(1 of 2)" in text
    assert '<a href="report.html">' in text


@on_each_row(
    "text, figures",
    (("| a | b |\n| --- | ---: |\n"), [["a", "b"], [], 1, "", ""]),
    (("| a |\n| --- |\n| 1 |\n"), [["a"], [["1"]], 1, "", ""]),
    (("top\n| a |\n| ---: |\none\ntwo\n"), [["a"], [], 0, "top", "one two"]),
)
def test_a_markdown_table_is_heads_and_a_rule_at_least(text: str, figures: list[Any]) -> None:
    table = parse_table(text)

    assert table is not None
    assert [table.heads, table.rows, table.words, table.caption, table.note] == figures
    assert table.columns == len(table.heads)
    assert parse_table("| a |\n") is None
