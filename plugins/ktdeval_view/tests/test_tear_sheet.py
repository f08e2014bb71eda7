"""The tear sheet of `ktdeval view`: figures from the run's own ledgers, a page that is complete
without its script, and reasons for undefined figures.
"""

from __future__ import annotations

import base64
import io
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.attribution import attribute
from ktdeval.cli.python_api import load_run
from ktdeval.runner import RunFolder
from ktdeval.testing import not_empty, small_market
from ktdeval.values import loads_strict
from ktdeval_pages.tear_sheet.drawing import DayPlot, PlotLine, draw
from ktdeval_pages.tear_sheet.figures import (
    WORDS,
    book_figures,
    extreme_days,
    histogram,
    over_windows,
    performance,
    rolling_days,
    rolling_volatility,
    yearly_turnover,
)
from ktdeval_pages.tear_sheet.page import SheetFacts, make_tear_sheet, sheet_name, windows_of
from ktdeval_pages.tear_sheet.tracks import (
    Book,
    Track,
    TrackHolding,
    chain_tracks,
    overlapping,
)
from ktdeval_view.document import EnvironmentRedactor
from ktdeval_view.episode_records import EpisodeRecords, read_episode
from ktdeval_view.episode_tracks import track_of
from support.figures.metric_cases import CODES, ledger, spec as episode_spec, step
from support.pages.report_page import Page, check_whole
from support.pages.view_page import source_hash
from support.paths import REPOSITORY
from support.runs.run_support import ktdeval

pytestmark = pytest.mark.slow

empyrical = pytest.importorskip("empyrical")

TEAR_SHEETS = REPOSITORY / "tests" / "support" / "tear_sheet"
TASK = "bright_open_research"
APART = ("2024-01-02:2024-03-08", "2024-03-11:2024-04-12")
SHARED = ("2024-03-01:2024-03-29", "2024-03-15:2024-04-12")
FACTS = SheetFacts(
    title="a task · a model",
    line="a model · agent an agent · run a run",
    account="agent",
    command="ktdeval view",
    labels=["synthetic"],
    pages={},
)


@pytest.fixture(scope="module")
def desk(desk: Path) -> Path:
    """A market and runs on it: with windows that share no days, with windows that do, and with a
    single window.
    """
    runs: dict[str, tuple[object, ...]] = {
        "apart": ("--windows", ",".join(APART), "--seeds", 2, "--model", "builtin/random"),
        "shared": ("--windows", ",".join(SHARED), "--model", "builtin/momentum"),
        "single": ("--windows", SHARED[0], "--model", "builtin/momentum"),
    }
    for name, words in runs.items():
        for command in (
            ("run", *words, "--tasks", TASK, "--data", "market", "--out", name, "--quiet"),
            ("view", name),
        ):
            done = ktdeval(*command, cwd=desk)
            assert done.code == 0, done

    return desk


def page_of(desk: Path, run: str) -> Page:
    """A tear sheet, after checking what is guaranteed for all of them."""
    text = (desk / run / "view" / sheet_name(TASK)).read_text()
    pages = [path.name for path in (desk / run / "view").glob("*.html")]
    page = check_whole(text, also=pages)
    assert not re.search(r"url\((?!#)|javascript:", text.partition("<script>")[0])
    (script,) = page.all("script")
    (style,) = page.all("style")
    (policy,) = [
        one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes
    ]
    sources = f"script-src {source_hash(script.text)}; style-src {source_hash(style.text)};"
    assert sources in (policy or "")
    shown = page.text.replace(script.text, "")
    assert not {"nan", "inf", "none"} & set(shown.lower().split())
    return page


def absent(page: Page) -> dict[str, str]:
    """Why figures and plots are undefined throughout, keyed by label: the lines below the tables."""
    reasons = {}
    for line in page.all("p"):
        labels, found, reason = line.text.partition(": n/a, ")
        if found:
            reasons |= dict.fromkeys(labels.split("; "), reason.removesuffix("."))
    return reasons


def percent(text: str) -> float:
    """The value of a cell such as `−3.92 %`."""
    number = text.replace("\N{MINUS SIGN}", "-").replace("\N{NARROW NO-BREAK SPACE}", "")
    return float(number.removesuffix("%"))


def track(levels: Any, name: str = "W1", first: str = "2024-01-02", **changes: Any) -> Track:
    """A track with these NAVs on weekdays, with two holdings each day."""
    nav = np.array(levels, dtype=float)
    days = len(nav) - 1
    ones = np.ones(days)
    held = {code: TrackHolding(code, days, 0.4 * days, 0.5) for code in ("600519.SH", "000001.SZ")}
    book = Book(0.8 * ones, 0.8 * ones, 0.2 * ones, 0.1 * ones, 2 * ones, 0.5 * ones, held)
    made = Track(
        name=name,
        seed=0,
        is_whole=True,
        days=np.busday_offset(first, np.arange(days + 1), roll="forward"),
        levels=nav,
        benchmark=np.linspace(100.0, 110.0, days + 1) + np.sin(np.arange(days + 1)),
        no_benchmark="",
        book=book,
        days_a_year=252,
        resolution=1e-8,
    )
    return replace(made, **changes)


# ---- what a run's page shows


@pytest.mark.exhaustive
def test_the_page_of_a_run_is_one_file_with_its_definitions(desk: Path) -> None:
    for run in ("apart", "shared", "single"):
        page = page_of(desk, run)
        titled = [cell for cell in page.all("th") if cell.attributes.get("title")]
        shown = {cell.text for cell in titled}
        for label in not_empty([words.label for words in WORDS.performance.values()]):
            assert label in shown or label in absent(page), label
        defined = [term.text for term in page.all("dt")]
        assert defined == list(WORDS.definitions(has_book=True))


@pytest.mark.exhaustive
def test_tear_sheet_figures_equal_empyrical_on_the_api_equity(desk: Path) -> None:
    page = page_of(desk, "single")
    equity = load_run(desk / "single").equity(benchmark=True)
    returns = equity[TASK].pct_change().dropna()
    own, market = (returns[SHARED[0]][seed] for seed in (0, "benchmark"))
    rows = {row[0]: row[1:] for row in page.table("Return and risk")}
    expected = {
        "Cumulative return": 100 * empyrical.cum_returns_final(own),
        "Volatility, a year": 100 * empyrical.annual_volatility(own),
        "Maximum drawdown": -100 * empyrical.max_drawdown(own),
        "Beta": empyrical.beta(own, market),
    }
    for label, value in not_empty(expected.items()):
        assert percent(rows[label][0]) == pytest.approx(value, abs=0.00501), label

    reasons = absent(page)
    for label in ("CAGR", "Calmar ratio"):
        assert reasons[label].startswith("21 of a year's 252 days: a return over less than a")
    assert reasons["Sortino ratio"] == "fewer than 60 days"
    assert not reasons.keys() & rows.keys()

    (card,) = load_run(desk / "single").typed_cards
    carded = card.plain["episodes"][0]["metrics"]["sharpe"]
    ratio, ends = rows["Sharpe ratio"][0].split(" ", 1)
    low, high = (percent(end) for end in ends.split(" … "))
    expected = [carded["value"], carded["interval"]["low"], carded["interval"]["high"]]
    assert [percent(ratio), low, high] == pytest.approx(expected, abs=0.00501)
    assert percent(rows["Sharpe ratio"][1].split()[0]) == pytest.approx(
        empyrical.sharpe_ratio(market), abs=0.00501
    )
    months = page.table("Returns by month")
    ((_, monthly),) = empyrical.aggregate_returns(own, "monthly").items()
    assert months[0] == ["%", "Mar", "year"]
    assert percent(months[1][1].split()[0]) == pytest.approx(100 * monthly, abs=0.00501)


@pytest.mark.exhaustive
def test_exposure_and_turnover_are_those_of_the_ledger(desk: Path) -> None:
    rows = {row[0]: row[1:] for row in page_of(desk, "single").table("Exposure and holdings")}
    run = load_run(desk / "single")
    steps = run.ledger()
    gross = 100 * steps["holdings"] / steps["nav"]
    assert percent(rows["Gross exposure"][0]) == pytest.approx(gross.mean(), abs=0.00501)
    assert percent(rows["Cash"][2]) == pytest.approx(
        (100 * steps["cash"] / steps["nav"]).max(), abs=0.00501
    )
    assert rows["Holdings"][2] == str(steps["positions"].max())
    card = loads_strict((desk / "single" / "cards" / f"{TASK}.json").read_bytes())
    turnover = card["metrics"]["turnover"]["value"]
    assert float(rows["Turnover a year, NAVs"][0]) == pytest.approx(turnover, abs=0.00501)


@pytest.mark.exhaustive
def test_contributions_of_holdings_add_up_to_the_return(desk: Path) -> None:
    """All that the account ever traded was held at a close, so that nothing is missing."""
    folder = RunFolder.load(desk / "single")
    records = read_episode(folder, folder.manifest.specs[0])
    found = track_of(records, None, "").book
    assert found is not None

    parts = [holding.contribution for holding in found.holdings.values()]
    nav = records.ledger.nav
    assert sum(part or 0.0 for part in parts) == pytest.approx(nav[-1] / nav[0] - 1.0, abs=1e-9)
    twice = next(iter(found.holdings.values()))
    assert twice.add_track(twice).contribution == pytest.approx(2 * (twice.contribution or 0.0))
    assert twice.add_track(replace(twice, contribution=None)).contribution is None

    for row in not_empty(page_of(desk, "single").table("Top holdings")[1:]):
        holding = found.holdings[row[0].split()[0]]
        assert percent(row[4]) == pytest.approx(100 * (holding.contribution or 0.0), abs=0.00501)


@pytest.mark.exhaustive
def test_windows_that_share_no_day_are_linked_and_those_that_do_are_not(desk: Path) -> None:
    page = page_of(desk, "apart")
    assert [row[0] for row in page.table("Windows")[1:3]] == list(APART)
    growth = 1.0
    for window in APART:
        totals = load_run(desk / "apart").equity(window=window).iloc[-1] - 1.0
        median = float(totals.median())
        shown = min(totals, key=lambda total: round(abs(total - median), 12))
        growth *= 1.0 + shown

    first = page.table("Return and risk")
    assert percent(first[1][1]) == pytest.approx(100 * (growth - 1.0), abs=0.00501)
    assert "All windows, one after another" in [head.text for head in page.all("h3")]

    shared = page_of(desk, "shared")
    assert f"{SHARED[0]} and {SHARED[1]} share days" in shared.text
    assert not shared.all("h3")
    assert len(page_of(desk, "single").all("details")) == 0


@pytest.mark.exhaustive
def test_the_index_and_the_json_name_the_tear_sheet(desk: Path) -> None:
    done = ktdeval("view", "single", "--out", "again", "--json", cwd=desk)
    sheets = loads_strict(done.out)["tear_sheets"]
    assert sheets == [str(Path("again") / sheet_name(TASK))]
    # Links to other pages are relative, so the folder's name does not occur.
    made = (desk / "again" / sheet_name(TASK)).read_bytes()
    assert made == (desk / "single" / "view" / sheet_name(TASK)).read_bytes()


@pytest.mark.exhaustive
def test_without_its_market_a_page_says_why_figures_are_missing(desk: Path, tmp_path: Path) -> None:
    (desk / "market").rename(desk / "moved")
    try:
        done = ktdeval("view", "single", "--out", tmp_path / "pages", cwd=desk)
    finally:
        (desk / "moved").rename(desk / "market")

    assert done.code == 0, done
    text = (tmp_path / "pages" / sheet_name(TASK)).read_text()
    page = Page(text)
    rows = {row[0]: row[1:] for row in page.table("Return and risk")}
    assert absent(page)["Beta"].startswith("no benchmark: ")
    assert len(rows["Sharpe ratio"]) == 1


@pytest.mark.exhaustive
def test_exposures_by_group_are_those_of_holdings_and_of_the_attribution(desk: Path) -> None:
    folder = RunFolder.load(desk / "single")
    market = small_market()
    records = read_episode(folder, folder.manifest.specs[0])
    book = track_of(records, market, "").book
    assert book is not None

    last = records.steps[-1]
    weights: dict[str, float] = {}
    for position in last.positions:
        industry = market.industries[market.asset_index[position.code]]
        weight = position.value_minor / last.nav_minor
        weights[industry] = weights.get(industry, 0.0) + weight
    shown = {name: values[-1] for name, values in book.sectors.lines.items() if values[-1]}
    assert shown == pytest.approx(weights)

    # the attribution explains a day by weights and exposures at the previous close
    attribution = attribute(records.ledger, market)
    for number, name in not_empty(list(enumerate(attribution.factor_names))):
        values = np.nan_to_num(book.factors.lines[name])
        assert values[:-1] == pytest.approx(attribution.exposures[1:, number], abs=1e-9), name

    other = track_of(records, None, "the market has moved").book
    assert other is not None
    assert other.factors.reason == other.sectors.reason == "the market has moved"


# ---- files to save


def saved_csv(page: Page, ending: str) -> pd.DataFrame:
    """The content that a button of a page saves."""
    (button,) = [one for one in page.all("button") if one.attributes["data-file"].endswith(ending)]
    packed = button.attributes.get("data-packed")
    if packed:
        text = zlib.decompress(base64.b64decode(packed)).decode()
    else:
        text = button.attributes["data-text"]
    return pd.read_csv(io.StringIO(text))


@pytest.mark.exhaustive
def test_the_saved_series_are_those_of_the_python_api(desk: Path) -> None:
    saved = saved_csv(page_of(desk, "apart"), "-series.csv")
    equity = load_run(desk / "apart").equity()[TASK]
    assert len(saved.groupby(["window", "seed"])) == 4
    for (window, seed), rows in saved.groupby(["window", "seed"]):
        growth = equity[window, seed].dropna()
        assert rows["day"].tolist() == [str(day.date()) for day in growth.index]
        assert (rows["nav"] / rows["nav"].iloc[0]).tolist() == pytest.approx(growth.tolist())
        sectors = [name for name in rows if name.startswith("sector ")]
        assert rows[sectors].sum(axis=1).iloc[1:].tolist() == pytest.approx(
            rows["net"].iloc[1:].tolist()
        )


@pytest.mark.exhaustive
def test_saved_figures_are_exact_and_undefined_ones_empty_with_a_reason() -> None:
    levels = 100.0 + np.sin(np.arange(30))
    made = track(levels, name="=1+1")
    saved = saved_csv(Page(make_tear_sheet([made], FACTS, None)), "-figures.csv")
    assert set(saved["window"]) == {"'=1+1"}
    own = saved[saved["of"] == "agent"].set_index("figure")
    exact = performance(made)
    assert own.loc["Cumulative return", "value"] == pytest.approx(exact["total_return"].value)
    assert own.loc["Sharpe ratio", "low"] == pytest.approx(exact["sharpe"].detail["low"])
    assert np.isnan(own.loc["CAGR", "value"])
    assert own.loc["CAGR", "reason"] == (
        "29 of a year's 252 days: a return over less than a year is not annualised"
    )


# ---- figures of tracks


@pytest.mark.exhaustive
def test_a_short_window_has_no_rolling_figure_and_says_so() -> None:
    levels = 100.0 + np.sin(np.arange(40))
    page = Page(make_tear_sheet([track(levels)], FACTS, None))
    reason = "fewer than 40 days; a rolling figure needs twice its 20 days"
    assert [*absent(page).values()].count(reason) == 3
    assert [rolling_days(track(np.ones(n + 1))) for n in (39, 40, 126, 252)] == [None, 20, 63, 126]


@pytest.mark.exhaustive
def test_rolling_volatility_is_that_of_pandas() -> None:
    returns = np.random.Generator(np.random.PCG64(5)).normal(0.0, 0.01, 60)
    expected = pd.Series(returns).rolling(20).std() * np.sqrt(252)
    assert rolling_volatility(returns, 20, 252) == pytest.approx(expected.to_numpy(), nan_ok=True)


@pytest.mark.exhaustive
def test_each_day_is_in_one_bin_and_few_or_equal_days_have_none() -> None:
    noise = np.random.Generator(np.random.PCG64(7)).normal(0.0, 0.01, 60)
    found = histogram(track(100.0 * np.cumprod([1.0, *(1.0 + noise)])))
    assert not isinstance(found, str)
    assert found.counts.sum() == 60
    width = found.centres[1] - found.centres[0]
    inside = (noise > -width / 2) & (noise < width / 2)
    assert found.counts[len(found.counts) // 2] == inside.sum()
    assert histogram(track(np.linspace(100.0, 101.0, 20))) == "fewer than 20 days"
    flat = track(np.full(30, 100.0), benchmark=None, no_benchmark="none")
    assert histogram(flat) == "no day has a return other than 0"


@pytest.mark.exhaustive
def test_best_days_gain_and_worst_days_lose() -> None:
    levels = np.cumprod([100.0, 1.02, 0.97, 1.0, 1.01, 1.03])
    assert extreme_days(track(levels)) == ([4, 0, 3], [1])
    page = Page(make_tear_sheet([track(levels)], FACTS, None))
    rows = page.table("Best and worst days")
    assert rows[1][:2] == ["2024-01-09", "+3.00\N{NARROW NO-BREAK SPACE}%"]
    assert rows[1][3:5] == ["2024-01-04", "\N{MINUS SIGN}3.00\N{NARROW NO-BREAK SPACE}%"]
    assert rows[2][3:] == ["", "", ""]


@pytest.mark.exhaustive
def test_months_are_coloured_by_their_share_of_the_largest() -> None:
    levels = [100.0] * 22 + [110.0] * 24 + [107.8] * 25
    page = make_tear_sheet([track(levels)], FACTS, None)
    assert '<td class="n gain4">+10.00<small>' in page
    assert '<td class="n loss1">\N{MINUS SIGN}2.00<small>' in page


@pytest.mark.exhaustive
def test_an_account_below_zero_has_reasons_instead_of_figures() -> None:
    ruined = track([100.0, -5.0, -6.0])
    assert {one.value for one in performance(ruined).values()} == {None}
    nan = np.array([0.5, np.nan])
    ruined = replace(ruined, book=replace(ruined.book, gross=nan, turnover=nan))
    assert book_figures(ruined)["gross"].reason == "the NAV is not positive on a day"
    assert yearly_turnover(ruined).reason == "the NAV is not positive on a day"
    page = Page(make_tear_sheet([ruined], FACTS, None))
    assert "the NAV has no returns: a level is not positive" in absent(page).values()
    for row in page.table("Return and risk")[1:]:
        assert row[1].startswith("n/a")
    assert not {"nan", "inf"} & set(page.text.lower().split())


@pytest.mark.exhaustive
def test_tracks_that_share_a_day_are_found_and_others_are_linked_in_order() -> None:
    late = track([100.0, 110.0], "late", "2024-02-01")
    early = track([100.0, 120.0, 90.0], "early")
    assert overlapping([late, early]) is None
    joined = chain_tracks([late, early])
    assert joined.levels.tolist() == pytest.approx([1.0, 1.2, 0.9, 0.99])
    assert [str(day) for day in joined.days[[0, 1, 3]]] == [
        "2024-01-02",
        "2024-01-03",
        "2024-02-02",
    ]
    assert list(joined.starts) == [3]
    assert joined.book is not None
    assert joined.book.holdings["600519.SH"].days == 3

    # The base day of a window can be the last day of another window: no return is in both.
    after = track([100.0, 110.0], "after", "2024-01-04")
    assert overlapping([after, early]) is None
    assert overlapping([track([1.0, 2.0], "same", "2024-01-03"), early]) is not None


@pytest.mark.exhaustive
def test_growth_a_year_is_that_of_about_a_year_and_more() -> None:
    """1 % per day for 240 of 252 days, as in a calendar year; with one day less there is no figure."""
    levels = 100.0 * 1.01 ** np.arange(241)
    found = performance(track(levels.tolist()))
    assert found["cagr"].value == pytest.approx(1.01**252 - 1)
    assert found["calmar"].reason == "there is no drawdown"

    shorter = performance(track(levels[:-1].tolist()))
    for name in ("cagr", "calmar"):
        assert (shorter[name].value, shorter[name].reason) == (
            None,
            "239 of a year's 252 days: a return over less than a year is not annualised",
        )


@pytest.mark.exhaustive
def test_a_mean_over_windows_needs_the_figure_of_each() -> None:
    levels = 100.0 * 1.01 ** np.arange(241)
    falling = [*levels[:-1], levels[-2] * 0.99]
    windows = windows_of([track(levels.tolist()), track(falling, "W2", "2025-03-03")])
    totals = [performance(window.shown) for window in windows]
    mean = over_windows([one["total_return"] for one in totals], windows)
    assert mean.value == pytest.approx((1.01**240 + 0.99 * 1.01**239) / 2 - 1)
    missing = over_windows([one["calmar"] for one in totals], windows)
    assert missing.reason == "not defined in 1 of 2 windows"


@pytest.mark.exhaustive
def test_the_shown_seed_is_the_one_nearest_to_the_median() -> None:
    tracks = [track([100.0, end], seed=seed) for seed, end in enumerate((130.0, 90.0, 105.0))]
    (window,) = windows_of(tracks)
    assert window.shown.seed == 2
    assert [other.seed for other in window.others] == [0, 1]


@pytest.mark.exhaustive
def test_ten_windows_of_sixty_days_make_a_page_below_420_kb() -> None:
    draw_noise = np.random.Generator(np.random.PCG64(3)).normal
    tracks = []
    for number in range(10):
        levels = 1e6 * np.cumprod(1.0 + draw_noise(0.0, 0.01, 61))
        names = {
            f"6000{code:02}.SH": TrackHolding(f"6000{code:02}.SH", 40, 2.0, 0.06)
            for code in range(30)
        }
        first = str(np.datetime64("2023-01-02") + 90 * number)
        one = track(levels, f"window {number}", first)
        noise = {name: np.abs(draw_noise(0.5, 0.1, 60)) for name in ("gross", "net", "cash")}
        noise |= {name: np.abs(draw_noise(0.1, 0.05, 60)) for name in ("turnover", "largest")}
        tracks.append(replace(one, book=replace(one.book, holdings=names, **noise)))

    page = make_tear_sheet(tracks, FACTS, None)
    assert len(page.encode()) <= 420_000, len(page.encode())


@pytest.mark.exhaustive
def test_names_are_escaped_and_secrets_taken_out() -> None:
    facts = replace(FACTS, line="run <b>run</b>", notes=["key stub-secret-key-c0ffee0123 seen"])
    redactor = EnvironmentRedactor({"TALKER_API_KEY": "stub-secret-key-c0ffee0123"})
    page = redactor.text(make_tear_sheet([track([100.0, 101.0])], facts, None))
    assert "&lt;b&gt;run" in page
    assert "c0ffee0123" not in page


@pytest.mark.exhaustive
def test_a_line_has_a_gap_where_a_value_is_missing() -> None:
    values = np.array([np.nan, 1.0, 2.0, np.nan, 3.0])
    days = [f"2024-01-0{day}" for day in range(1, 6)]
    svg = draw(DayPlot("A line with gaps in it", days, [PlotLine(values, "agent")], is_share=False))
    (path,) = re.findall(r'<path class="agent" d="([^"]+)"', svg)
    assert path.count("M") == 2
    assert all(day in svg for day in (days[0], days[4]))


@pytest.mark.exhaustive
def test_every_definition_is_in_the_docs() -> None:
    docs = " ".join((REPOSITORY / "docs" / "view.md").read_text().split())
    for label, definition in not_empty(WORDS.definitions(has_book=True).items()):
        assert f"| {label} | {definition}" in docs, label


@pytest.mark.exhaustive
def test_exposures_are_those_of_pyfolio_on_the_same_positions() -> None:
    stored = loads_strict((TEAR_SHEETS / "other_packages.json").read_bytes())["exposures"]
    held = stored["positions"]
    steps = []
    for day, cash in enumerate(held["cash"]):
        holdings = {}
        for column, code in (("A", CODES[0]), ("B", CODES[1])):
            if held[column][day]:
                holdings[code] = round(100 * held[column][day])
        steps.append(step(day, round(100 * cash), holdings))

    records = EpisodeRecords(episode_spec(), "finished", ledger(steps))
    book = track_of(records, None, "no market").book
    assert book is not None
    shares = {name: np.array(values) for name, values in stored["shares"].items()}
    assert book.net.tolist() == pytest.approx(stored["net"])
    assert book.cash.tolist() == pytest.approx(shares["cash"].tolist())
    sizes = np.abs([shares["A"], shares["B"]])
    assert book.gross.tolist() == pytest.approx(sizes.sum(axis=0).tolist())
    assert book.largest.tolist() == pytest.approx(sizes.max(axis=0).tolist())
    assert book.names.tolist() == [1, 2, 1]
    # pyfolio's top holdings are also by largest weight
    assert book.holdings[CODES[0]].largest == pytest.approx(shares["A"].max())


# ---- dates


@pytest.mark.exhaustive
def test_a_return_has_one_date_everywhere(desk: Path) -> None:
    """Progress lines, ledger, equity, card, pages and tear sheet all date a return by the day on
    which it was earned, and the first return by the first day of the window.
    """
    done = ktdeval(
        *("run", "--windows", SHARED[0], "--model", "builtin/momentum", "--tasks", TASK),
        *("--data", "market", "--out", "dated"),
        cwd=desk,
    )
    assert done.code == 0, done
    run = load_run(desk / "dated")
    equity = run.equity()
    steps = run.ledger()
    growth = (equity[TASK, SHARED[0], 0].dropna() * 1e8).round()
    dates = [str(day.date()) for day in growth.index[1:]]

    # the ledger's NAV of a step is that of the equity on its fill day
    assert [str(day.date()) for day in steps["filled_on"]] == dates
    initial = steps["nav"].iloc[-1] / equity[TASK, SHARED[0], 0].iloc[-1]
    assert (steps["nav"] / initial * 1e8).round().tolist() == growth.iloc[1:].tolist()

    # progress lines: number of steps done, and the date and NAV of the last step
    lines = re.findall(r"(\d+)/\d+ (\d{4}-\d\d-\d\d) · NAV ([\d,]+)", done.err)
    for number, date, nav in not_empty(lines):
        assert date == dates[int(number) - 1]
        assert int(nav.replace(",", "")) == round(steps["nav"].iloc[int(number) - 1])

    # the card
    card = loads_strict((desk / "dated" / "cards" / f"{TASK}.json").read_bytes())
    (episode,) = card["episodes"]
    assert (episode["first_day"], episode["last_day"]) == (dates[0], dates[-1])

    # the episode's page: rows, list and address
    assert ktdeval("view", "dated", cwd=desk).code == 0
    assets = REPOSITORY / "plugins" / "ktdeval_view" / "assets"
    assert 'el("span.date", {}, row.filled_on)' in (assets / "days.js").read_text()
    assert "row.filled_on === text" in (assets / "main.js").read_text()

    # the tear sheet
    page = page_of(desk, "dated")
    assert f"{dates[0]} … {dates[-1]}; base day {growth.index[0].date()}" in page.text
    months = pd.Series(dates).str[:7].value_counts()
    cells = page.table("Returns by month")[1]
    assert cells[1].endswith(f"{months['2024-03']} d")
