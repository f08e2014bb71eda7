"""`ktdeval view report` on real runs: what the page holds, that it is one file that asks for nothing,
and that bad input is one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.cards import metric_word
from ktdeval.cli.main import main
from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval.testing import Terminal
from ktdeval.values import install_command
from support.pages.report_page import Page, check_page
from support.runs.forging import edit_json
from support.runs.run_support import copy_run, ktdeval

pytest.importorskip("vl_convert")

TASK = "blinded_open_research"
FIRST = "2024-03-01:2024-03-29"
SECOND = "2024-03-04:2024-04-10"
PLOTS = ("attribution", "drawdown", "equity", "exposures", "weights")
#: of one card, of many cards, and one that decides nothing
RUNS = {
    "one": f"--model builtin/momentum --tasks {TASK} --windows {FIRST}",
    "masks": f"--model builtin/chaos --tasks {TASK},bright_open_research --seeds 2"
    f" --windows {FIRST},{SECOND}",
    "hold": f"--model builtin/hold --tasks blinded_memory_only --windows {FIRST} --limit 1",
}


@pytest.fixture(scope="module")
def session(desk: Path) -> Path:
    """A folder with a small market and runs on it."""
    for name, words in RUNS.items():
        done = ktdeval(*words.split(), *f"--data market --out {name} --quiet".split(), cwd=desk)
        assert done.code == 0, done

    return desk


@pytest.fixture(autouse=True)
def _in_the_session(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(session)


def report(words: str, out: str = "page.html") -> Page:
    """Page of `ktdeval view report WORDS`, in this process; checked."""
    assert main(["view", "report", *words.split(), "--out", out, "--paths", "20"]) == 0
    return check_page(Path(out).read_text())


def titles_of(page: Page) -> list[str]:
    return [figure.all("figcaption")[0].text for figure in page.all("figure")]


def shown_number(text: str) -> float:
    return float(text.replace("\u2212", "-").replace(",", ""))


def words_of(page: Page, about: str) -> list[str]:
    """What the plots say to those who don't see them."""
    words = [plot.attributes["aria-label"] or "" for plot in page.all("svg")]
    return [text for text in words if about in text]


# -- one card


@pytest.fixture(scope="module")
def one(session: Path) -> Page:
    with contextlib.chdir(session):
        return report("one", out="one.html")


def card_of(run: str = "one") -> dict[str, Any]:
    card: dict[str, Any] = json.loads(Path(run, "cards", f"{TASK}.json").read_text())
    return card


def test_a_card_is_shown_with_labels_plots_and_provenance(one: Page) -> None:
    # A card is shown with all its plots.
    titles = titles_of(one)
    shown = "\n".join(titles)
    for words in (
        "equity",
        "drawdown",
        "weights",
        "where the return came from",
        "style exposures",
        "Reliability",
    ):
        assert words in shown

    assert len(one.all("svg")) == len(titles) == 6

    # Labels stand before any figure.
    text = one.text
    for label in ("SYNTHETIC", "MASK NOT TESTED FOR THIS MODEL"):
        assert text.index(label) < text.index("total_return")

    # Provenance failures and verification are there.
    rows = {row[0]: row for row in one.table("Who decided each step")}

    assert rows["model"][2] == str(card_of()["decisions"]["model"])
    codes = [code.text for code in one.all("code") if "ktdeval card verify" in code.text]
    assert f"{TASK}.json" in " ".join(codes)
    assert card_of()["snapshot"]["id"] in one.text


def test_the_figures_are_those_of_card_and_ledger_with_intervals(one: Page) -> None:
    # The panel shows the figures of the card with intervals.
    rows = {row[0]: row for row in one.table("Metrics")}
    for name, metric in card_of()["metrics"].items():
        shown = rows[metric_word(name)][1]
        scale = 100 if metric["unit"] == "fraction" else 1
        if metric["value"] is None:
            assert shown == "–"
        else:
            assert shown_number(shown) == pytest.approx(scale * metric["value"], abs=0.0051), name

    for name in ("total_return", "sharpe", "max_drawdown", "information_ratio", "selection_alpha"):
        assert " … " in rows[metric_word(name)][-1], name

    assert "in simulations of such lengths it covered the truth in" in one.text

    # The lines of the attribution add up to the total return.
    rows = one.table("Linked contributions")
    assert rows[0][:2] == ["line", "mean exposure"]

    *lines, total = [shown_number(row[2]) for row in rows[1:]]
    assert sum(lines) == pytest.approx(total, abs=0.005 * len(lines))
    assert rows[1][0] == "common (the market)"
    assert {"MOM_12_1", "CV_VOL", "selection", "trading: fees"} <= {row[0] for row in rows}
    # What the others leave is no estimate: its interval could be ±400,000 %.
    assert next(row for row in rows if row[0] == "trading: rounding")[-1] == "–"
    assert "no interval of rounding: it is what the other lines leave" in one.text

    # Plots say their figures in words.
    (words,) = words_of(one, "random traders")
    total = card_of()["metrics"]["total_return"]["value"]

    assert f"The agent ends at {100 * total:+.2f}".replace("-", "−") in words

    # The drawdown that the plot speaks of is that of the NAVs themselves.
    (path,) = Path("one").glob("episodes/*/ledger.parquet")
    nav = load_ledger(path).nav
    fall = float((1 - nav / np.maximum.accumulate(nav)).max())
    (words,) = words_of(one, "drawdown")

    assert f"The agent falls {100 * fall:.2f}" in words


# -- many cards


def test_many_cards_begin_with_one_row_each() -> None:
    page = report(f"masks one hold --windows {FIRST}")
    rows = page.table("All cards")

    assert len(rows) == 5
    assert "These cards are of different windows: their figures don't rank them." in page.text

    links = [link.attributes["href"] for link in page.all("table")[0].all("a")]
    sections = {f"#{section.attributes.get('id')}" for section in page.all("section")}

    assert len(set(links)) == 4
    assert set(links) <= sections
    assert [heading.text for heading in page.all("h2")][:2] == ["Overview", "Masks and modes"]

    effects = page.table("Mask effects on total_return")
    assert [row[2] for row in effects[1:]] == ["memory premium (bright − blinded)"]
    assert effects[1][3] == "2"


def test_of_two_seeds_each_column_and_plot_names_the_one_that_it_is_of() -> None:
    """A window has the median over its seeds in one table and a single seed's return in another:
    that of the seed whose return is nearest to the median, of two the lower.
    """
    returns: dict[tuple[str, int], float] = {}

    for episode in card_of("masks")["episodes"]:
        cell = (episode["window"], episode["seed"])
        returns[cell] = 100.0 * episode["metrics"]["total_return"]["value"]

    page = report(f"masks/cards/{TASK}.json")
    by_window = page.table("By window, median over seeds")
    heads, *lines = page.table("Linked contributions to the total return")
    of_one_seed = dict(zip(heads, lines[-1], strict=True))
    titles = "\n" + "\n".join(titles_of(page))

    for row in by_window[1:]:
        window = row[0]
        first = returns[window, 0]
        second = returns[window, 1]
        median = shown_number(row[by_window[0].index("return, %")])

        assert first != pytest.approx(second, abs=0.02)
        assert median == pytest.approx((first + second) / 2, abs=0.005)
        assert f"{window}, %" not in heads
        shown = shown_number(of_one_seed[f"{window}, seed 0, %"])
        assert shown == pytest.approx(first, abs=0.005)
        assert f"\n{window}, seed 0: equity" in titles

    assert "the seed whose return is nearest to the median over seeds" in page.text
    assert "(lower) median" not in page.text


def test_windows_are_named_or_chosen_and_a_card_is_shown_once() -> None:
    # Windows are named or chosen and what is not drawn is said.
    page = report(f"masks --windows {SECOND}")
    titles = "\n".join(titles_of(page))

    assert f"{SECOND}, seed 0: " in titles
    assert FIRST not in titles
    assert "These cards are of different windows" not in page.text
    left = "Not every window is drawn: 2 windows of the cards below are in tables only."
    assert left in " ".join(page.text.split())

    # A card given twice is shown once, and a day of cash makes a page and not a crash.
    page = report("hold hold/cards/blinded_memory_only.json --rules strict")
    assert (len(page.all("h2")), "for this page" in page.text) == (1, False)
    assert "LIMITED" in page.text
    assert "fewer than 20 days" in page.text
    assert "No order has an outcome." in page.text


# -- edges


def test_a_card_on_its_own_gives_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lone = shutil.copy(f"one/cards/{TASK}.json", tmp_path / "lone.json")
    page = report(str(lone))

    assert titles_of(page) == ["Reliability of stated confidence"]
    assert "The card is not in a run folder" in page.text
    assert "warning" in capsys.readouterr().err
    assert page.table("By window")[1][0] == FIRST


def test_a_run_whose_market_is_gone_is_drawn_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy_run(Path("one"), tmp_path / "run")
    gone = {"data": str(tmp_path / "gone"), "data_args": {}}
    edit_json(run / "manifest.json", lambda manifest: manifest.update(data=gone))
    page = report(str(run))

    # equity, drawdown and weights need no market; the card has the bins of the reliability diagram
    assert len(page.all("svg")) == 4
    assert "give its location with --data" in capsys.readouterr().err
    assert len(report(f"{run} --data market").all("svg")) == 6


def test_other_rules_are_computed_for_the_page_alone(one: Page) -> None:
    file = Path(f"one/cards/{TASK}.json")
    before = file.read_bytes()
    paper = report(f"{file} --rules paper")
    turnover, other = (
        next(row for row in page.table("Metrics") if row[0] == "turnover") for page in (one, paper)
    )

    assert turnover[1] != other[1]
    assert "paper (for this page; the card is by strict rules)" in paper.text
    assert file.read_bytes() == before


@pytest.mark.usefixtures("one")
def test_equal_runs_give_equal_bytes_and_each_plot_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    report(f"one --plots {tmp_path} --format png,svg --json", out="again.html")
    shown = json.loads(capsys.readouterr().out)
    again = Path("again.html").read_bytes()

    assert again == Path("one.html").read_bytes()

    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    stems = {name.rpartition("-")[2].partition(".")[0] for name in made}

    assert (stems, len(made)) == ({*PLOTS, "reliability"}, 12)

    for name, data in made.items():
        assert data.startswith(b"\x89PNG" if name.endswith("png") else b"<svg")

    # As JSON, a report names its files, and the figures of each card.
    assert Path(shown["report"]).resolve() == Path("again.html").resolve()
    assert shown["bytes"] == len(again)
    assert sorted(shown["plots"]) == sorted(map(str, tmp_path.iterdir()))

    (shown_card,) = shown["cards"]
    stored = card_of()
    held = stored["reference"]["benchmark_buy_and_hold"][FIRST]["metrics"]["total_return"]["value"]
    excess = stored["metrics"]["total_return"]["value"] - held

    assert shown_card["excess_return"] == pytest.approx(excess)
    assert (shown_card["task"], shown_card["problem"]) == (TASK, "")


# -- bad input


@pytest.fixture(scope="module")
def faulty(session: Path) -> None:
    """What can't be read or written, next to the runs."""
    (session / "empty").mkdir()
    (session / "file").touch()
    (session / "loop").symlink_to("loop")
    (session / "card.json").write_text("{}")
    os.mkfifo(session / "pipe")


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nope", "can't read the card"),
        ("empty", "no cards found"),
        ("one --format pdf", "png or svg"),
        ("one --out empty", "is a folder"),
        ("one --data none", "neither a folder nor a data provider"),
        ("hold --out file/page.html", "is a file, not a folder"),
        ("hold --out pipe", "pipe: can't write: there is something that is not a plain file"),
        ("loop", "loop: can't read the card: Too many levels of symbolic links"),
        ("card.json", "card.json: line 1"),
    ],
)
def test_bad_input_is_one_line(words: str, message: str, terminal: Terminal) -> None:
    assert message in terminal.refusal("view", "report", *words.split())
    assert Path("pipe").is_fifo(), "as /dev/null would be, under a user who may"


def test_without_vl_convert_one_line_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert install_command("report") in terminal.refusal("view", "report", "one")
