"""`ktdeval view report` on real runs: what the page holds, that it is one file that asks for nothing,
and that bad input is one line.
"""

from __future__ import annotations

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
from ktdeval.values import install_command
from support.pages.report_page import Page, check_page
from support.runs.run_support import ktdeval, store_market

pytest.importorskip("vl_convert")

WINDOWS = "2024-03-01:2024-03-29,2024-03-04:2024-04-10"
PLOTS = ("attribution", "drawdown", "equity", "exposures", "weights")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small market and runs on it: one card, many cards, and one that decides
    nothing.
    """
    folder = tmp_path_factory.mktemp("desk")
    store_market(folder / "market")
    runs = {
        "one": (
            "builtin/momentum",
            "blinded_open_research",
            "--windows",
            WINDOWS.partition(",")[0],
        ),
        "masks": (
            "builtin/chaos",
            "blinded_open_research,bright_open_research",
            "--windows",
            WINDOWS,
            "--seeds",
            2,
        ),
        "hold": (
            "builtin/hold",
            "blinded_memory_only",
            "--windows",
            WINDOWS.partition(",")[0],
            "--limit",
            1,
        ),
    }

    for name, (model, tasks, *words) in runs.items():
        done = ktdeval(
            "--model",
            model,
            "--tasks",
            tasks,
            *words,
            "--data",
            "market",
            "--out",
            name,
            "--quiet",
            cwd=folder,
        )
        assert done.code == 0, done

    return folder


def report(session: Path, *words: object, out: str = "page.html") -> Page:
    """Page of `ktdeval view report WORDS`, in this process; checked."""
    given = [
        str(session / word) if isinstance(word, str) and (session / word).exists() else str(word)
        for word in words
    ]

    assert main(["view", "report", *given, "--out", str(session / out), "--paths", "20"]) == 0

    return check_page((session / out).read_text())


def words_of(page: Page, about: str) -> list[str]:
    """What the plots say to those who don't see them."""
    words = [plot.attributes["aria-label"] or "" for plot in page.all("svg")]
    return [text for text in words if about in text]


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """One line that says why."""
    assert main(["view", "report", *map(str, words)]) == 2

    message = capsys.readouterr().err
    assert message.count("\n") == 1, message
    assert message.startswith("ktdeval: error: ")

    return message.removeprefix("ktdeval: error: ").strip()


# -- one card


@pytest.fixture(scope="module")
def one(session: Path) -> Page:
    return report(session, "one", out="one.html")


def turnover_of(page: Page) -> str:
    return next(row[1] for row in page.table("Metrics") if row[0] == "turnover")


def card_of(session: Path, run: str = "one", task: str = "blinded_open_research") -> dict[str, Any]:
    card: dict[str, Any] = json.loads((session / run / "cards" / f"{task}.json").read_text())
    return card


@pytest.mark.exhaustive
def test_a_card_is_shown_with_labels_plots_and_provenance(one: Page, session: Path) -> None:
    # A card is shown with all its plots.
    titles = [figure.all("figcaption")[0].text for figure in one.all("figure")]
    for words in (
        "equity",
        "drawdown",
        "weights",
        "where the return came from",
        "style exposures",
        "Reliability",
    ):
        assert any(words in title for title in titles), words

    assert len(one.all("svg")) == len(titles) == 6

    # Labels stand before any figure.
    text = one.text
    for label in ("SYNTHETIC", "MASK NOT TESTED FOR THIS MODEL"):
        assert text.index(label) < text.index("total_return")

    # Provenance failures and verification are there.
    rows = {row[0]: row for row in one.table("Who decided each step")}

    assert rows["model"][2] == str(card_of(session)["decisions"]["model"])
    assert any(
        "ktdeval card verify" in code.text and "blinded_open_research.json" in code.text
        for code in one.all("code")
    )
    assert card_of(session)["snapshot"]["id"] in one.text


@pytest.mark.exhaustive
def test_the_figures_are_those_of_card_and_ledger_with_intervals(session: Path, one: Page) -> None:
    # The panel shows the figures of the card with intervals.
    rows = {row[0]: row for row in one.table("Metrics")}
    card = card_of(session)
    for name, metric in card["metrics"].items():
        shown = rows[metric_word(name)][1].replace("−", "-").replace(",", "").strip("+")
        scale = 100 if metric["unit"] == "fraction" else 1
        expected = "–" if metric["value"] is None else scale * metric["value"]
        assert (
            shown == "–" if expected == "–" else float(shown) == pytest.approx(expected, abs=0.0051)
        ), name

    for name in ("total_return", "sharpe", "max_drawdown", "information_ratio", "selection_alpha"):
        assert " … " in rows[metric_word(name)][-1], name

    assert "in simulations of such lengths it covered the truth in" in one.text

    # The lines of the attribution add up to the total return.
    rows = one.table("Linked contributions")
    assert rows[0][:2] == ["line", "mean exposure"]

    *lines, total = [float(row[2].replace("−", "-")) for row in rows[1:]]
    assert sum(lines) == pytest.approx(total, abs=0.005 * len(lines))
    assert rows[1][0] == "common (the market)"
    assert {"MOM_12_1", "CV_VOL", "selection", "trading: fees"} <= {row[0] for row in rows}
    # What the others leave is no estimate: its interval could be ±400,000 %.
    assert next(row for row in rows if row[0] == "trading: rounding")[-1] == "–"
    assert "no interval of rounding: it is what the other lines leave" in one.text

    # Plots say their figures in words.
    (words,) = words_of(one, "random traders")
    total = card_of(session)["metrics"]["total_return"]["value"]

    assert f"The agent ends at {100 * total:+.2f}".replace("-", "−") in words

    # Figures are those of the ledger.
    """Drawdown that the plot speaks of, from the NAVs themselves."""
    (path,) = (session / "one").glob("episodes/*/ledger.parquet")
    nav = load_ledger(path).nav
    fall = float((1 - nav / np.maximum.accumulate(nav)).max())
    (words,) = words_of(one, "drawdown")

    assert f"The agent falls {100 * fall:.2f}" in words


# -- many cards


@pytest.mark.exhaustive
def test_many_cards_begin_with_one_row_each(session: Path) -> None:
    page = report(session, "masks", "one", "hold", "--windows", WINDOWS.partition(",")[0])
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


@pytest.mark.exhaustive
def test_of_two_seeds_each_column_and_plot_names_the_one_that_it_is_of(session: Path) -> None:
    """A window has the median over its seeds in one table and a single seed's return in another:
    that of the seed whose return is nearest to the median, of two the lower.
    """
    card = card_of(session, "masks")
    returns: dict[tuple[str, int], float] = {}

    for episode in card["episodes"]:
        cell = (episode["window"], episode["seed"])
        returns[cell] = 100.0 * episode["metrics"]["total_return"]["value"]

    page = report(session, "masks/cards/blinded_open_research.json")
    by_window = page.table("By window, median over seeds")
    heads, *lines = page.table("Linked contributions to the total return")
    of_one_seed = dict(zip(heads, lines[-1], strict=True))
    titles = [figure.all("figcaption")[0].text for figure in page.all("figure")]

    for row in by_window[1:]:
        window = row[0]
        first = returns[window, 0]
        second = returns[window, 1]
        assert first != pytest.approx(second, abs=0.02)
        assert float(row[by_window[0].index("return, %")].replace("\u2212", "-")) == pytest.approx(
            (first + second) / 2, abs=0.005
        )
        assert f"{window}, %" not in heads
        shown = of_one_seed[f"{window}, seed 0, %"].replace("\u2212", "-")
        assert float(shown) == pytest.approx(first, abs=0.005)
        assert any(title.startswith(f"{window}, seed 0: equity") for title in titles)

    assert "the seed whose return is nearest to the median over seeds" in page.text
    assert "(lower) median" not in page.text


@pytest.mark.exhaustive
def test_windows_are_named_or_chosen_and_a_card_is_shown_once(session: Path) -> None:
    # Windows are named or chosen and what is not drawn is said.
    wanted = WINDOWS.split(",")[1]
    page = report(session, "masks", "--windows", wanted)
    drawn = [figure.all("figcaption")[0].text for figure in page.all("figure")]

    assert any(title.startswith(f"{wanted}, seed 0: ") for title in drawn)
    assert not any(title.startswith(WINDOWS.split(",")[0]) for title in drawn)
    assert "These cards are of different windows" not in page.text
    assert (
        "Not every window is drawn: 2 windows of the cards below are in tables only."
        in " ".join(page.text.split())
    )

    # A card given twice is shown once, and a day of cash makes a page and not a crash.
    page = report(session, "hold", "hold/cards/blinded_memory_only.json", "--rules", "strict")
    assert (len(page.all("h2")), "for this page" in page.text) == (1, False)
    assert "LIMITED" in page.text
    assert "fewer than 20 days" in page.text
    assert "No order has an outcome." in page.text


# -- edges


@pytest.mark.exhaustive
def test_a_card_on_its_own_gives_tables(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lone = shutil.copy(
        session / "one" / "cards" / "blinded_open_research.json", tmp_path / "lone.json"
    )
    page = report(session, lone)

    assert [figure.all("figcaption")[0].text for figure in page.all("figure")] == [
        "Reliability of stated confidence"
    ]
    assert "The card is not in a run folder" in page.text
    assert "warning" in capsys.readouterr().err
    assert page.table("By window")[1][0] == WINDOWS.partition(",")[0]


@pytest.mark.exhaustive
def test_a_run_whose_market_is_gone_is_drawn_without_it(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(session / "one", run)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["data"] = {"data": str(tmp_path / "gone"), "data_args": {}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    page = report(session, run)

    assert (
        len(page.all("svg")) == 4
    )  # equity, drawdown and weights need no market; the card has the bins of the reliability diagram
    assert "give its location with --data" in capsys.readouterr().err
    assert len(report(session, run, "--data", session / "market").all("svg")) == 6


@pytest.mark.exhaustive
def test_other_rules_are_computed_for_the_page_alone(session: Path, one: Page) -> None:
    file = session / "one" / "cards" / "blinded_open_research.json"
    before = file.read_bytes()
    paper = report(session, file, "--rules", "paper")

    assert turnover_of(one) != turnover_of(paper)
    assert "paper (for this page; the card is by strict rules)" in paper.text
    assert file.read_bytes() == before


@pytest.mark.exhaustive
@pytest.mark.usefixtures("one")
def test_equal_runs_give_equal_bytes_and_each_plot_a_file(
    one: Page, session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    report(session, "one", "--plots", tmp_path, "--format", "png,svg", "--json", out="again.html")
    shown = json.loads(capsys.readouterr().out)

    assert (session / "again.html").read_bytes() == (session / "one.html").read_bytes()

    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    stems = {name.rpartition("-")[2].partition(".")[0] for name in made}

    assert (stems, len(made)) == ({*PLOTS, "reliability"}, 12)

    for name, data in made.items():
        assert data.startswith(b"\x89PNG" if name.endswith("png") else b"<svg")

    # As JSON, a report names its files, and the figures of each card.
    assert shown["report"] == str(session / "again.html")
    assert shown["bytes"] == (session / "again.html").stat().st_size
    assert sorted(shown["plots"]) == sorted(map(str, tmp_path.iterdir()))

    (shown_card,) = shown["cards"]
    stored = card_of(session)
    window = WINDOWS.partition(",")[0]
    held = stored["reference"]["benchmark_buy_and_hold"][window]["metrics"]["total_return"]["value"]
    excess = stored["metrics"]["total_return"]["value"] - held

    assert shown_card["excess_return"] == pytest.approx(excess)
    assert (shown_card["task"], shown_card["problem"]) == ("blinded_open_research", "")


# -- bad input


@pytest.mark.exhaustive
def test_bad_input_is_one_line(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert "can't read the card" in refused(capsys, tmp_path / "nope")
    assert "no cards found" in refused(capsys, tmp_path / "empty")
    assert "did you mean" in refused(capsys, session / "one", "--metric", "sharp")
    assert "no card has a window" in refused(capsys, session / "one", "--windows", "W99")
    assert "png or svg" in refused(capsys, session / "one", "--format", "pdf")
    assert "is a folder" in refused(capsys, session / "one", "--out", tmp_path)
    assert "neither a folder nor a data provider" in refused(
        capsys, session / "one", "--data", tmp_path / "none"
    )

    (tmp_path / "file").write_text("")
    assert "is a file, not a folder" in refused(
        capsys, session / "hold", "--out", tmp_path / "file" / "page.html"
    )

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")

    assert "pipe: can't write: there is something that is not a plain file" in refused(
        capsys, session / "hold", "--out", tmp_path / "pipe"
    )
    assert (tmp_path / "pipe").is_fifo(), "as /dev/null would be, under a user who may"
    assert "loop: can't read the card: Too many levels of symbolic links" in refused(
        capsys, tmp_path / "loop"
    )

    (tmp_path / "card.json").write_text("{}")
    assert "card.json: line 1" in refused(capsys, tmp_path / "card.json")


@pytest.mark.exhaustive
def test_a_ledger_that_the_card_was_not_made_from_is_refused(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(session / "one", run)
    (ledger,) = run.glob("episodes/*/ledger.parquet")
    data = bytearray(ledger.read_bytes())
    data[len(data) // 2] ^= 1
    ledger.write_bytes(data)

    assert "is not the ledger that the card was made from" in refused(capsys, run)

    ledger.unlink()
    assert "is missing from the run folder" in refused(capsys, run)


@pytest.mark.exhaustive
def test_without_vl_convert_one_line_names_the_extra(
    session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert install_command("report") in refused(capsys, session / "one")
