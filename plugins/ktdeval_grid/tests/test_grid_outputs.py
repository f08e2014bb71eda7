"""What is made at the end of a grid: conditions of outputs, tables read again, and the index."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from grid_pages import bundle_page
from grid_store import HandMade, failure, record_of, small_plan, unit_id
from ktdeval.testing import on_each_row
from ktdeval_grid.outputs.output_kinds import CardFacts, Conditions, output_specs
from ktdeval_grid.outputs.static_site import BundlePage, index_html
from ktdeval_grid.state.status import look, reader_of


def facts(**counts: int) -> CardFacts:
    every = {"systems": 1, "tasks": 1, "masks": 1, "modes": 1, **counts}
    return CardFacts(frozenset({"ktdfin"}), frozenset({"trading"}), every)


@on_each_row(
    "name, made_of, not_of",
    ("ktdfin-3", {"modes": 2}, {"modes": 1}),
    ("ktdfin-4", {"systems": 2}, {"systems": 2, "tasks": 2}),
    ("ktdfin-11", {"masks": 2}, {"masks": 1}),
)
def test_a_table_is_made_of_cards_that_have_its_figures(
    name: str, made_of: dict[str, int], not_of: dict[str, int]
) -> None:
    conditions = output_specs().tables[name]
    assert conditions.hold(facts(**made_of))
    assert not conditions.hold(facts(**not_of))


def test_a_table_of_a_family_is_not_made_of_another() -> None:
    other = CardFacts(frozenset({"arena"}), frozenset({"trading"}), facts(modes=2).counts)
    assert not output_specs().tables["ktdfin-3"].hold(other)
    assert Conditions(families=("arena", "ktdfin")).hold(other)


def test_systems_are_compared_where_there_are_two() -> None:
    compare = output_specs().reports["compare"]
    assert compare.hold(facts(systems=2))
    assert not compare.hold(facts())


@pytest.fixture
def page(tmp_path: Path) -> BundlePage:
    return bundle_page(tmp_path)


def test_the_index_shows_what_is_pruned_failed_and_not_made(page: BundlePage) -> None:
    text = index_html(page)
    assert "2 pruned by by_hand" in text
    assert "They are not missing" in text
    assert "&lt;b&gt;down&lt;/b&gt;" in text
    assert "<li>luck: no trials</li>" in text
    assert "a &lt;i&gt;\nb" in text  # lines of a report stay lines


def test_the_index_begins_with_what_its_cards_show(page: BundlePage) -> None:
    sentence = "None of 2 systems is shown to be above the benchmark."
    text = index_html(replace(page, sentence=sentence))
    assert f'<p class="verdict">{sentence}</p>' in text
    assert text.index(sentence) < text.index("<table")
    assert "verdict" not in index_html(page).partition("</style>")[2]


def test_index_distinguishes_failures_stops_and_systems_not_begun(
    tmp_path: Path,
) -> None:
    record = record_of(small_plan())
    first, second = record.systems
    blank = structs.replace(second, units=(), problem="the server refuses the key")
    record = structs.replace(record, systems=(first, blank))
    grid = HandMade(tmp_path, record)
    grid.fail(failure(unit_id(0, 0), "the server is down"))
    grid.fail(failure(unit_id(0, 1), "--max-cost 1: reached", needed={"max_cost": 2.0}))
    _, status = look(reader_of(grid.store))

    text = html.unescape(index_html(BundlePage(record, status, (), "", (), ())))

    listed = re.findall(r"<li>(.*?)</li>", text)
    label = "builtin-momentum_react blinded_open_research W1 seed"

    assert listed == [
        "not begun: the server refuses the key (builtin-reversal_react)",
        f"1 failed: the server is down ({label} 0)",
        f"1 stopped: --max-cost 1: reached ({label} 1)",
    ]


def test_the_index_asks_nothing_of_the_network(page: BundlePage) -> None:
    text = html.unescape(index_html(page))
    assert "default-src 'none'" in text
    assert "<script" not in text

    links = re.findall(r'href="([^"]*)"', text)
    assert links
    assert all(not link.startswith(("http", "//", "/")) for link in links)


def test_equal_pages_give_equal_bytes(page: BundlePage) -> None:
    assert index_html(page) == index_html(page)
