"""`ktdeval demo` shows the two claims; `ktdeval paper table` prints the papers' tables from the cards
that it left.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import median, quantiles

import pytest

import ktdeval
from support.paths import REPOSITORY
from support.runs.run_support import Done, ktdeval as command
from support.tables import on_each_row

# the whole demo is run for the first of them: about a minute of one processor
pytestmark = pytest.mark.timeout(1800)

STRATEGIES = ("equal_weight", "low_volatility", "momentum", "reversal", "random")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = tmp_path_factory.mktemp("demo")
    done = command("demo", "--out", "demo", cwd=folder)
    assert done.code == 0, done
    return folder / "demo", done


def card(demo: tuple[Path, Done], model: str, task: str = "blinded_open_research") -> dict:
    return dict(json.loads((demo[0] / model / "cards" / f"{task}.json").read_text()))


def table(demo: tuple[Path, Done], name: str, *runs: str, form: str = "text") -> str:
    done = command("paper", "table", *runs, "--like", name, "--format", form, cwd=demo[0])
    assert (done.code, without_warnings(done)) == (0, [])
    return done.out


def without_warnings(done: Done) -> list[str]:
    """Lines of the error stream but for warnings: behind the mask `builtin/memory` remembers
    nothing, and never trades.
    """
    return [
        line
        for line in done.err.splitlines()
        if not line.startswith("ktdeval: warning: never traded: builtin/memory ")
    ]


@pytest.mark.exhaustive
def test_memory_helps_with_visible_codes_and_days_and_not_behind_the_mask(
    demo: tuple[Path, Done],
) -> None:
    frame = ktdeval.table(demo[0] / "memory", like="ktdfin-3").loc["builtin/memory"]
    assert (frame.bright > 0.5).all()
    assert frame.loc["memory_only", ["stock_blind", "blinded"]].tolist() == [0.0, 0.0]
    assert (frame.blinded < frame.bright - 0.5).all()
    assert "2. Does it select, or ride the market" in demo[1].out
    assert "rank by return against rank by selection: Spearman" in demo[1].out


@pytest.mark.exhaustive
def test_the_readme_shows_the_table_of_the_demo(demo: tuple[Path, Done]) -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    block = text.split("## The demo")[1].split("```")[1]
    _, *rows = [line.strip() for line in block.splitlines() if line.strip()]

    assert len(rows) == 3

    for row in rows:
        assert f"builtin/memory  {row}" in demo[1].out


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_the_table_of_modes_and_masks_has_medians_and_quartiles_over_episodes(
    demo: tuple[Path, Done],
) -> None:
    returns = [
        episode["metrics"]["total_return"]["value"]
        for episode in card(demo, "memory", "date_blind_memory_only")["episodes"]
    ]
    low, _, high = quantiles(returns, n=4, method="inclusive")
    row = next(
        line for line in table(demo, "ktdfin-3", "memory").splitlines() if " memory_only " in line
    )

    assert f"{100 * median(returns):+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]" in row


@pytest.mark.exhaustive
def test_the_panel_is_sorted_by_return_with_the_benchmark_at_its_place(
    demo: tuple[Path, Done],
) -> None:
    rows = list(csv.DictReader(io.StringIO(table(demo, "ktdfin-4", *STRATEGIES, form="csv"))))
    returns = [float(row["total_return"]) for row in rows]

    assert returns == sorted(returns, reverse=True)

    (held,) = (row for row in rows if row["Model"].endswith("buy-and-hold"))

    for row in rows:
        if row is held:
            assert (row["excess"], row["selection_rank"]) == ("", "")
            continue

        made = card(demo, row["Model"].removeprefix("builtin/"))
        assert float(row["sharpe"]) == made["metrics"]["sharpe"]["value"]
        assert float(row["excess"]) == pytest.approx(
            float(row["total_return"]) - float(held["total_return"]), abs=1e-12
        )

    alphas = {
        row["Model"]: card(demo, row["Model"][8:])["metrics"]["selection_alpha"]["value"]
        for row in rows
        if row is not held
    }
    ranks = {row["Model"]: float(row["selection_rank"]) for row in rows if row is not held}

    assert sorted(alphas, key=alphas.__getitem__, reverse=True) == sorted(
        ranks, key=ranks.__getitem__
    )


@pytest.mark.exhaustive
def test_parts_of_the_return_add_up_in_their_table(demo: tuple[Path, Done]) -> None:
    for row in csv.DictReader(io.StringIO(table(demo, "ktdfin-5", *STRATEGIES, form="csv"))):
        parts = [
            float(value)
            for name, value in row.items()
            if name not in ("Model", "total_return") and value
        ]
        assert (1 + float(row["total_return"])) - 1 == pytest.approx(sum(parts), abs=1e-9)


@pytest.mark.exhaustive
def test_a_table_is_written_as_text_markdown_or_latex_and_exposures_by_cohort(
    demo: tuple[Path, Done],
) -> None:
    text, markdown, latex = (
        table(demo, "ktdfin-9", *STRATEGIES, form=form) for form in ("text", "markdown", "latex")
    )

    assert text.splitlines()[1].split("  ")[1:2] == ["Model"]
    assert markdown.splitlines()[3] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert r"Total ret. \% & Excess \%" in latex

    done = command(
        "paper",
        "table",
        *STRATEGIES,
        "--like",
        "ktdfin-8",
        "--cohort",
        "quiet=*low*",
        "--cohort",
        "all=builtin/*",
        cwd=demo[0],
    )

    assert done.out.splitlines()[1].split() == ["Factor", "quiet", "all", "quiet", "-", "all"]

    quiet = next(line.split() for line in done.out.splitlines() if "RV_60" in line)
    assert float(quiet[1]) < -0.5, "low volatility is what it holds"

    # Cohorts are written as for `ktdeval compare cohorts`: items after commas, and one name twice joins.
    together = command(
        "paper",
        "table",
        *STRATEGIES,
        "--like",
        "ktdfin-8",
        "--cohort",
        "all=*low*,builtin/*",
        cwd=demo[0],
    )
    again = command(
        "paper",
        "table",
        *STRATEGIES,
        "--like",
        "ktdfin-8",
        "--cohort",
        "all=*low*",
        "--cohort",
        "all=builtin/*",
        cwd=demo[0],
    )

    assert together.out == again.out
    assert together.out.splitlines()[1].split() == ["Factor", "all"]


@pytest.mark.exhaustive
@on_each_row
def test_invalid_input_for_the_table_is_reported_in_one_line(
    demo: tuple[Path, Done], words: str, message: str
) -> None:
    done = command("paper", "table", *words.split(), cwd=demo[0])
    (line,) = without_warnings(done)
    assert (done.code, done.out) == (2, "")
    assert message in line
