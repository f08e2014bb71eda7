"""`ktdeval judge` as somebody types it, on the embedded market."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.testing import Terminal
from ktdeval_judge.command import nest_options
from program_files import FILES

pytestmark = pytest.mark.needs("ktdeval_markets", "ktdeval_data")

MARKET = ("--data", "synthetic")


@pytest.fixture
def weights(embedded: MarketSnapshot, tmp_path: Path) -> Path:
    """Three months of weights of four members, anew every week."""
    first = int(np.searchsorted(embedded.days, np.datetime64("2024-04-02")))
    days = slice(first - 1, first + 61)
    always = embedded.member[days].all(axis=0) & np.isfinite(embedded.close[days]).all(axis=0)
    codes = [code for code, member in zip(embedded.codes, always, strict=True) if member][:8]
    lines = ["date,ticker,weight"]
    for week, row in enumerate(range(first, first + 55, 5)):
        chosen = codes[week % 4 : week % 4 + 4]
        lines += [f"{embedded.days[row]},{code},0.24" for code in chosen]

    path = tmp_path / "weights.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.exhaustive
def test_a_file_of_weights_becomes_a_run_and_is_shown_again(
    weights: Path, tmp_path: Path, terminal: Terminal
) -> None:
    out = tmp_path / "run"
    text = terminal.out("judge", weights, *MARKET, "--out", out)
    assert "target weights (plain), 44 rows, 7 codes" in " ".join(text.split())
    assert "Return as executed" in text
    assert f"ktdeval compare luck {out}" in " ".join(text.split())

    again = terminal.out("judge", out)
    assert again == text
    page = (out / "tear-sheet.html").read_text()
    answer, _, figures = text.partition("\n\n")
    assert f'<p class="verdict">{" ".join(answer.split())}</p>'.replace("'", "&#39;") in page
    for line in figures.split("\nfolder")[0].splitlines():
        assert not line or line.split("  ")[0].strip() in " ".join(page.split()), line

    assert "ktdeval view of this folder shows them day by day" in page
    assert "as claimed" not in page

    report = terminal.report("judge", out)
    parts = report["return_parts"]
    assert set(parts) == {"common", "industry", "style", "selection", "trading"}
    assert math.fsum(parts.values()) == pytest.approx(report["executed_return"]["value"])
    assert report["form"] == "weight"
    assert report["plan_sha256"] in (out / "manifest.json").read_text()


def test_no_file_of_a_judgement_is_an_orphan_of_its_run(
    embedded: MarketSnapshot, tmp_path: Path, terminal: Terminal
) -> None:
    bought = int(np.flatnonzero(np.isfinite(embedded.close[-4:]).all(axis=0))[0])
    weights = tmp_path / "weights.csv"
    weights.write_text(f"date,ticker,weight\n{embedded.days[-4]},{embedded.codes[bought]},0.5\n")
    out = tmp_path / "run"
    terminal.out("judge", weights, *MARKET, "--out", out)
    kept = out / "files" / "of an agent"
    kept.parent.mkdir()
    kept.write_text("program")
    assert {"judge.json", "declared.json"} <= {path.name for path in out.iterdir()}
    assert terminal.report("files", "check", out)["findings"] == []


@pytest.mark.slow
def test_an_assumed_account_is_noted_where_returns_are_shares_of_it(
    weights: Path, tmp_path: Path, terminal: Terminal, embedded: MarketSnapshot
) -> None:
    column = int(np.flatnonzero(np.isfinite(embedded.close[-2:]).all(axis=0))[0])
    trade = tmp_path / "trades.csv"
    trade.write_text(
        "date,ticker,side,shares,price\n"
        f"{embedded.days[-1]},{embedded.codes[column]},buy,100,{embedded.open[-1, column]:.2f}\n"
    )
    note = "does not state the initial cash: 1,000,000 is assumed"
    assert any(note in each for each in terminal.report("judge", trade, *MARKET)["notes"])
    for own in ([trade, "--cash", "50000"], [weights]):
        assert not any(note in each for each in terminal.report("judge", *own, *MARKET)["notes"])


@pytest.mark.slow
def test_claimed_nav_with_fills_at_the_decision_close_is_a_look_ahead(
    weights: Path, tmp_path: Path, terminal: Terminal, embedded: MarketSnapshot
) -> None:
    closes = np.array(embedded.close)
    rows = {str(day): row for row, day in enumerate(embedded.days)}
    goals: dict[int, dict[int, float]] = {}
    for line in weights.read_text().splitlines()[1:]:
        day, code, weight = line.split(",")
        goals.setdefault(rows[day], {})[embedded.asset_index[code]] = float(weight)

    # a notebook's backtest: adjusted returns of the close of the decision on, without costs
    adjusted = closes * embedded.factor
    first = min(goals)
    nav = [1.0]
    for row in range(first, max(goals) + 1):
        held = goals[max(each for each in goals if each <= row)]
        # weights drift until the next decision
        if row in goals:
            base, at = nav[-1], row
        growth = sum(w * (adjusted[row + 1, c] / adjusted[at, c] - 1.0) for c, w in held.items())
        nav.append(base * (1.0 + growth))

    path = tmp_path / "nav.csv"
    lines = [
        f"{embedded.days[first + step]},{value!r}" for step, value in enumerate(map(float, nav))
    ]
    path.write_text("\n".join(["date,nav", *lines]) + "\n")

    words = ("judge", weights, "--nav", path, *MARKET, "--out", tmp_path / "run", "--json")
    report = json.loads(terminal.out(*words))
    assert report["nav"]["looks_ahead"]
    parts = {part["cause"]: part["value"] for part in report["nav"]["parts"]}
    assert {"costs", "fill_at_decision"} <= parts.keys()
    in_all = report["nav"]["claimed_return"] - report["nav"]["executed_return"]
    assert math.fsum(parts.values()) == pytest.approx(in_all, abs=1e-12)

    text = terminal.out("judge", tmp_path / "run")
    assert "LOOK-AHEAD" in text


@pytest.mark.exhaustive
def test_a_nav_alone_has_an_alpha_and_says_what_it_cannot_say(
    embedded: MarketSnapshot, tmp_path: Path, terminal: Terminal
) -> None:
    rows = slice(300, 500)
    index = embedded.indices[embedded.meta.benchmark][rows]
    nav = 1.0 + 0.5 * (index / index[0] - 1.0)
    path = tmp_path / "nav.csv"
    lines = [
        f"{day},{value!r}" for day, value in zip(embedded.days[rows], map(float, nav), strict=True)
    ]
    path.write_text("\n".join(["date,equity", *lines]) + "\n")

    report = json.loads(terminal.out("judge", "--nav", path, *MARKET, "--json"))
    assert report["beta"]["value"] == pytest.approx(0.5, abs=0.1)
    assert report["selection"] is None
    assert "A NAV has no holdings" in " ".join(terminal.out("judge", "--nav", path).split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to judge"),
        (("none.csv",), "can't read"),
        (("--nav", "none.csv"), "can't read"),
        (("w.csv", "--from", "plian"), "no reader 'plian'"),
        (("w.csv", "--cash", "much"), "--cash 'much'"),
        (("w.csv", "--data", "sinthetic"), "synthetic"),
        (("w.csv", "--venue", "a_shares"), "a_share"),
        (("w.csv", "--until", "2024-01-02"), "expected a day between 2024-04-03"),
        (("w.csv", "--until", "soon"), "--until: 'soon' is not a date"),
        (("w.csv", "--set", "fill=never", "--venue", "a_share"), "fill"),
        (("w.csv", "--set", "fees.buy_bps=5"), "name the venue"),
        (("w.csv", "--set", "speed=5"), "speed"),
        (("w.csv", "--venue", "unrestricted_usd"), "currency"),
    ],
)
def test_a_wrong_command_is_refused_in_one_line(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.csv").write_text("date,code,weight\n2024-04-02,009016.SZ,0.5\n")
    own = words if "--data" in words else (*words, *MARKET)
    error = terminal.error("judge", *own)
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_dotted_names_are_nested() -> None:
    assert nest_options({"fill": "next_close", "fees.buy_bps": 5, "fees.minimum": 1}) == {
        "fill": "next_close",
        "fees": {"buy_bps": 5, "minimum": 1},
    }
    with pytest.raises(UsageError, match="is already set to a value"):
        nest_options({"fees": 1, "fees.buy_bps": 5})


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("qlib", ("costs", "declared_fees")),
        ("backtrader", ("costs", "declared_fees")),
        ("backtrader_cheat_on_close", ("costs", "declared_fees", "fill_at_decision")),
    ],
)
def test_causes_of_a_nav_difference_explain_it_to_the_last_digit(
    folder: str, found: tuple[str, ...], tmp_path: Path, terminal: Terminal
) -> None:
    report = terminal.report("judge", FILES / folder, *MARKET, "--out", tmp_path / "run")
    nav = report["nav"]
    assert tuple(part["cause"] for part in nav["parts"]) == (*found, "remainder")
    assert abs(nav["parts"][-1]["value"]) < 1e-6
    assert nav["looks_ahead"] == ("fill_at_decision" in found)


@pytest.mark.exhaustive
def test_at_the_rules_of_its_own_qlibs_account_is_the_executed_one(
    tmp_path: Path, terminal: Terminal
) -> None:
    rules = "fill=next_open,fees.buy_bps=3,fees.sell_bps=8"
    words = (*MARKET, "--venue", "unrestricted_cny", "--set", rules, "--out", tmp_path / "run")
    nav = terminal.report("judge", FILES / "qlib", *words)["nav"]
    assert nav["days"] == 53
    assert nav["first_parting"] is None
    assert nav["largest_gap"] < 1e-6
