"""`ktdeval demo` shows the two claims; `ktdeval paper table` prints the papers' tables from the cards
that it left.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import ktdeval
from ktdeval.testing import not_empty
from support.docs.readme_figures import IMAGES, pictures
from support.runs.run_support import Done, ktdeval as command

# the whole demo is run for the first of them: about a minute of one processor
pytestmark = pytest.mark.timeout(1800)

STRATEGIES = ("equal_weight", "low_volatility", "momentum", "reversal", "random")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = tmp_path_factory.mktemp("demo")
    done = command("demo", "--out", "demo", cwd=folder)
    assert done.code == 0, done
    return folder / "demo", done


def table(demo: tuple[Path, Done], words: str) -> list[dict[str, str]]:
    """Rows of a paper's table of the demo's strategies."""
    done = command("paper", "table", *STRATEGIES, *words.split(), "--format", "csv", cwd=demo[0])
    # The demo gives its own key.
    assert (done.code, done.err) == (0, "ktdeval: warning: public key: every card\n")
    return list(csv.DictReader(io.StringIO(done.out)))


def test_memory_helps_with_visible_codes_and_days_and_not_behind_the_mask(
    demo: tuple[Path, Done],
) -> None:
    frame = ktdeval.table(demo[0] / "memory", like="ktdfin-3").loc["builtin/memory"]
    assert (frame.bright > 0.5).all()
    assert frame.loc["memory_only", ["stock_blind", "blinded"]].tolist() == [0.0, 0.0]
    assert (frame.blinded < frame.bright - 0.5).all()
    assert "2. Does it select, or ride the market" in demo[1].out
    assert "rank by return against rank by selection: Spearman" in demo[1].out


def test_no_warning_interrupts_the_story(demo: tuple[Path, Done]) -> None:
    assert "warning" not in demo[1].err
    assert "The highest return is that of builtin/low_volatility" in demo[1].out


def test_the_pictures_of_the_readme_are_drawn_from_the_demo(demo: tuple[Path, Done]) -> None:
    for name, picture in not_empty(pictures(demo[0]).items()):
        assert picture == (IMAGES / name).read_text(encoding="utf-8"), "run `make screenshots`"


def test_what_it_can_not_recognise_it_trades_as_if_it_had_no_memory(
    demo: tuple[Path, Done], tmp_path: Path
) -> None:
    plain = ktdeval.evaluate(
        "builtin/momentum",
        "blinded_open_research",
        windows="W4",
        model_args={"positions": 10},
        out=str(tmp_path / "momentum"),
        quiet=True,
    )
    chosen = {"task": "blinded_open_research", "window": "W4"}

    assert ktdeval.load_run(demo[0] / "memory").ledger(**chosen).equals(plain.ledger(**chosen))


def test_parts_of_the_return_add_up_in_their_table(demo: tuple[Path, Done]) -> None:
    for row in table(demo, "--like ktdfin-5"):
        total = float(row.pop("total_return"))
        parts = [float(value) for name, value in row.items() if name != "Model" and value]
        assert sum(parts) == pytest.approx(total, abs=1e-9)


def test_exposures_are_shown_by_cohort(demo: tuple[Path, Done]) -> None:
    rows = table(demo, "--like ktdfin-8 --cohort quiet=*low* --cohort all=builtin/*")
    (volatility,) = (row for row in rows if row["Factor"] == "RV_60")

    assert list(volatility) == ["Factor", "quiet", "all", "quiet - all"]
    assert float(volatility["quiet"]) < -0.5, "low volatility is what it holds"
