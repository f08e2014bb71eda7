"""A judged file is an ordinary run: pages, comparisons, transplants, luck and verification work on
its folder, and what was changed is found.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ktdeval.testing import Terminal
from support.paths import REPOSITORY

pytestmark = pytest.mark.needs("ktdeval_markets", "ktdeval_data", "ktdeval_compare", "ktdeval_view")

EXAMPLES = REPOSITORY / "examples" / "judge"
MARKET = ("--data", "synthetic")


@pytest.fixture
def run(folder: Path, terminal: Terminal) -> Path:
    """The run of the example's weights, made once."""
    out = folder / "weights"
    if not out.exists():
        nav = EXAMPLES / "nav.csv"
        terminal.out("judge", EXAMPLES / "weights.csv", "--nav", nav, *MARKET, "--out", out)
    return out


def test_the_plan_gives_every_step_and_a_changed_or_missing_one_is_found(
    run: Path, folder: Path, terminal: Terminal
) -> None:
    copied = Path(shutil.copytree(run, folder / "copied"))
    plan = copied / "declared.json"
    assert "verified" in terminal.out("card", "verify", copied)
    assert "all 81 steps follow from its plan" in terminal.out("judge", copied, "--check")

    plan.write_text(plan.read_text().replace("0.19", "0.18"))
    code, _, error = terminal.call("judge", copied, "--check")
    assert (code, "is not the plan named by the run" in error) == (1, True)
    code, out, _ = terminal.call("card", "verify", copied)
    assert (code, "declared.json: SHA-256" in out) == (1, True)

    plan.unlink()
    code, out, _ = terminal.call("card", "verify", copied)
    assert (code, "declared.json: is missing" in out) == (1, True)


@pytest.mark.exhaustive
def test_commands_on_runs_take_it(run: Path, folder: Path, terminal: Terminal) -> None:
    shown = " ".join(terminal.out("card", "show", run).split())
    assert "[declared]" in shown
    assert "may not be ranked: the decisions were made elsewhere" in shown

    terminal.out("view", run, "--out", folder / "pages")
    assert list((folder / "pages").rglob("*.html"))

    luck = terminal.out("compare", "luck", run, "--players", 100)
    assert "Random players, 100 an episode" in luck


def test_luck_counts_the_tries_of_a_study(folder: Path, terminal: Terminal) -> None:
    study = folder / "studied"
    for number in (1, 2, 3):
        weights = folder / f"try-{number}.csv"
        text = (EXAMPLES / "weights.csv").read_text()
        weights.write_text(text.replace(",0.19", f",0.1{number}"))
        out = study / f"run-{number}"
        words = ("judge", weights, *MARKET, "--study", "weights", "--out", out, "--json")
        report = json.loads(terminal.out(*words))
        assert report["evidence"]["trials"] == number

    (card,) = json.loads(terminal.out("compare", "luck", study / "run-3", "--json"))["cards"]
    assert card["trials"] == [3, 3], "its run alone has one"
    assert card["dsr"] == pytest.approx(report["evidence"]["luck"]["probability"])
    shown = " ".join(terminal.out("compare", "luck", study / "run-3").split())
    assert "study-weights.jsonl counts 3 tries" in shown


@pytest.mark.exhaustive
def test_it_is_executed_again_at_other_capitals(
    run: Path, folder: Path, terminal: Terminal
) -> None:
    words = ("compare", "transplant", run, "--cash", "1e6,1e8", "--out", folder / "at", "--json")
    lines = json.loads(terminal.out(*words))["lines"]
    assert [line["capital"] for line in lines] == [1_000_000, 100_000_000]


@pytest.mark.exhaustive
def test_two_judged_files_of_the_same_days_and_rules_are_compared(
    run: Path, folder: Path, terminal: Terminal
) -> None:
    other = folder / "halves.csv"
    text = (EXAMPLES / "weights.csv").read_text()
    other.write_text(text.replace(",0.19", ",0.1"))
    # the claimed NAV has the same days, so that both windows end on one day
    nav = EXAMPLES / "nav.csv"
    terminal.out("judge", other, "--nav", nav, *MARKET, "--out", folder / "halves")
    shown = terminal.out("compare", "agents", run, folder / "halves")
    assert "declared" in shown


@pytest.mark.exhaustive
def test_the_same_command_gives_the_same_bytes(run: Path, folder: Path, terminal: Terminal) -> None:
    nav = EXAMPLES / "nav.csv"
    again = folder / "again"
    terminal.out("judge", EXAMPLES / "weights.csv", "--nav", nav, *MARKET, "--out", again)
    for name in ("judge.json", "declared.json"):
        assert (again / name).read_bytes() == (run / name).read_bytes()

    (ledger,) = again.glob("episodes/*/ledger.parquet")
    same = run / ledger.relative_to(again)
    assert ledger.read_bytes() == same.read_bytes()


def test_the_look_ahead_of_the_example_is_found_and_an_honest_nav_is_none(
    run: Path, folder: Path, terminal: Terminal
) -> None:
    assert json.loads((run / "judge.json").read_text())["nav"]["looks_ahead"]

    # the executed NAV itself, as an honest program would claim it
    from ktdeval.registry import load_plugins
    from ktdeval.runner import open_run

    opened = open_run(run, load_plugins())
    ledger = opened.load_ledger(opened.manifest.specs[0])
    days = [str(ledger.base_day), *map(str, ledger.days)]
    lines = [f"{day},{value:.2f}" for day, value in zip(days, ledger.nav, strict=True)]
    nav = folder / "honest.csv"
    nav.write_text("\n".join(["date,nav", *lines]) + "\n")
    words = ("judge", EXAMPLES / "weights.csv", "--nav", nav, *MARKET, "--out", folder / "honest")
    assert "No look-ahead found" in " ".join(terminal.out(*words).split())
    found = json.loads((folder / "honest" / "judge.json").read_text())["nav"]
    assert found["first_parting"] is None
    assert not found["looks_ahead"]


@pytest.mark.exhaustive
def test_trades_at_prices_that_no_bar_has_are_listed(folder: Path, terminal: Terminal) -> None:
    words = ("judge", EXAMPLES / "trades.csv", *MARKET, "--out", folder / "trades", "--json")
    report = json.loads(terminal.out(*words))
    # 50 shares of an odd lot were not bought, and are not there to be sold
    assert report["unfilled_counts"] == {"holding": 1, "impossible_price": 1, "lot": 1}
    causes = {part["cause"] for part in report["nav"]["parts"]}
    assert causes == {"costs", "fill_at_declared", "lots", "remainder"}
