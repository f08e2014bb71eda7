"""`ktdeval compare labels`: what changes when only labels do. Label-blind models: nothing; one that
looks at labels is found.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import operator
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import on_each_row
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from ktdeval.values import content_hash, dumps_canonical, to_plain
from ktdeval_compare.forks.episode_distance import FIGURES, course_of, distances
from ktdeval_compare.masks.mask_key_effect import first_listed, profits_of
from ktdeval_compare.pairs.compared_cards import load_entrants
from support.paths import SUPPORT
from support.runs.run_support import error_line, ktdeval

PLUGIN = SUPPORT / "masking" / "label_plugin.py"
TASK = "blinded_open_research"
FIRST = "2024-03-01:2024-03-12"
SECOND = "2024-03-15:2024-03-26"
STEPS = 6
BLIND = ("momentum", "reversal", "low_volatility", "equal_weight")


USUAL = f"--tasks {TASK} --data market --windows {FIRST},{SECOND} --limit {STEPS} --seeds 2"


class Session:
    """A folder with a small market, in which runs are made as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, name: str, draw: int = 0, changes: str = "", mood: str = "") -> Path:
        """The run of a model under the key of this number, with further options in place of the
        usual ones; made once.
        """
        given = f"{USUAL} --model {name} --mask-key {draw:032x} {changes}".split()
        plan = dict(zip(given[::2], given[1::2], strict=True))
        out = self.folder / f"run-{content_hash([plan, mood])[:12]}"

        if not out.exists():
            options = itertools.chain.from_iterable(plan.items())
            words = (*options, "--plugin", PLUGIN, "--quiet", "--out", out)
            done = ktdeval(*words, cwd=self.folder, environment={"LABEL_PLUGIN_MOOD": mood})
            assert done.code == 0, done

        return out

    def draws(self, name: str, count: int, changes: str = "") -> list[Path]:
        return [self.run(name, draw, changes) for draw in range(count)]

    def report(self, *words: object) -> dict[str, Any]:
        done = ktdeval("compare", "labels", *words, "--json", cwd=self.folder)
        assert (done.code, done.err) == (0, "")
        found: dict[str, Any] = json.loads(done.out)
        return found


@pytest.fixture(scope="module")
def session(desk: Path) -> Session:
    return Session(desk)


def figures(found: Mapping[str, Any], between: str = "labels") -> dict[str, Any]:
    """Rows by figure."""
    return {row["figure"]: row for row in found["figures"] if row["between"] == between}


def multiset_of(record: Any) -> Counter[Any]:
    return Counter((row.code, row.side, row.target_weight, row.shares) for row in record.orders)


def orders_of(path: Path) -> dict[tuple[str, int], list[Counter[Any]]]:
    """Decisions by window and seed, from the ledgers alone."""
    folder = RunFolder.load(path)
    multisets = {}

    for spec in folder.manifest.specs:
        records = folder.load_ledger(spec).steps
        multisets[spec.window.name, spec.seed] = [multiset_of(record) for record in records]

    return multisets


# ---- models


def test_figures_are_symmetric(session: Session) -> None:
    folders = map(RunFolder.load, session.draws("test/low_labels", 2))
    left, right = (course_of(folder.load_ledger(folder.manifest.specs[0])) for folder in folders)
    assert distances(left, right) == pytest.approx(distances(right, left))
    assert set(distances(left, left).values()) == {0.0}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", BLIND)
def test_a_label_blind_model_changes_nothing_at_all(session: Session, model: str) -> None:
    paths = session.draws(f"builtin/{model}", 2)
    found = session.report(*paths)
    for row in figures(found).values():
        assert (row["value"], row["cells"]) == (0.0, 4), row
        # An interval of no width would say that other windows can't differ either.
        assert (row["low"], row["high"]) == (None, None)
        assert row["reason"] == "no variation: all values are the same"

    assert all(pair["parted_on"] is None for pair in found["pairs"])

    (noise,) = [row for row in found["noise"] if row["between"] == "labels"]
    assert (noise["sd"], noise["difference_of_one"]) == (0.0, 0.0)

    most = 100 * (1 - 0.05 ** (1 / 4))  # four (window, seed) of which none differs
    assert any(f"for all but {most:.3g} % of them" in note for note in found["notes"])
    assert sum(map(Counter.total, itertools.chain(*orders_of(paths[0]).values()))) > 0


def test_what_that_model_saw_did_differ(session: Session) -> None:
    """Otherwise the test above would show nothing."""
    folders = [RunFolder.load(path) for path in session.draws("builtin/momentum", 2)]
    specs = list(itertools.chain.from_iterable(folder.manifest.specs for folder in folders))
    one, other = (
        dumps_canonical(to_plain(folder.load_transcript(folder.manifest.specs[0])[0]))
        for folder in folders
    )

    assert one != other

    for seeds in ("mask_seed", "call_seed"):
        assert len({getattr(spec, seeds) for spec in specs}) == 8

    assert len({spec.chance_seed for spec in specs}) == 4


@pytest.mark.exhaustive
def test_a_model_that_looks_at_labels_is_found(session: Session) -> None:
    paths = session.draws("test/low_labels", 3)
    found = session.report(*paths)
    rows = figures(found)

    assert set(rows) == set(FIGURES)
    assert {row["pairs"] for row in rows.values()} == {3 * 4}
    assert rows["decisions"]["low"] > 0.3
    assert rows["orders"]["value"] > 0.5
    assert rows["turnover"]["value"] > 0.5
    assert all(row["value"] > 0 for row in rows.values())
    assert all(
        pair["parted_on"] is not None for pair in found["pairs"] if pair["between"] == "labels"
    )

    # Decisions, from the ledgers: pairs within cells, then t over cells, or over windows of two
    # seeds each, cut at 0 and 1.
    decided = [orders_of(path) for path in paths]
    pairs = list(itertools.combinations(decided, 2))
    by_cell = {}

    for cell in decided[0]:
        differs = []
        for one, other in pairs:
            differs += map(operator.ne, one[cell], other[cell])

        by_cell[cell] = np.mean(differs)

    cells = np.array(list(by_cell.values()))
    by_window = []
    for window in (FIRST, SECOND):
        by_window.append(np.mean([by_cell[cell] for cell in by_cell if cell[0] == window]))

    windows = np.array(by_window)
    by_window = figures(session.report(*paths, "--over", "window"))["decisions"]

    assert (rows["decisions"]["over"], by_window["over"]) == ("episode", "window")

    for row, values in ((rows["decisions"], cells), (by_window, windows)):
        assert row["value"] == pytest.approx(values.mean())
        low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
        assert (row["low"], row["high"]) == pytest.approx((max(low, 0), min(high, 1)))


@pytest.mark.exhaustive
def test_the_noise_of_a_total_return_is_its_standard_deviation_over_draws(session: Session) -> None:
    paths = session.draws("test/low_labels", 3)
    found = session.report(*paths)
    (noise,) = [row for row in found["noise"] if row["between"] == "labels"]
    cards = [entrant.episodes() for entrant in load_entrants(paths)]
    variances = []

    for cell in cards[0]:
        returns = [card[cell].metrics["total_return"].value for card in cards]
        variances.append(np.var(returns, ddof=1))

    assert noise["sd"] == pytest.approx(np.sqrt(np.mean(variances)))
    assert noise["difference_of_one"] == pytest.approx(
        stats.norm.ppf(0.975) * np.sqrt(2) * noise["sd"]
    )
    assert noise["difference_of_means"] == pytest.approx(noise["difference_of_one"] / np.sqrt(4))
    assert (
        session.report(*paths, "--alpha", "0.01")["noise"][0]["difference_of_one"]
        > noise["difference_of_one"]
    )
    assert session.report(*reversed(paths)) == found  # in any order


@pytest.mark.exhaustive
def test_chance_of_the_call_seed_is_separated_from_labels(session: Session) -> None:
    """Random trades by its seed from a ranking: labels change nothing, the seed all."""
    found = session.report(*session.draws("builtin/random", 2))

    assert figures(found)["decisions"]["value"] == 0.0
    assert figures(found, "seeds")["decisions"]["value"] > 0.5
    # two draws of one pair of seeds in two windows
    assert figures(found, "seeds")["decisions"]["pairs"] == 2 * 2
    assert any("this figure includes the effect of labels" in note for note in found["notes"])


@pytest.mark.exhaustive
def test_the_order_of_rows_alone_can_change_decisions_as_bright_shows(session: Session) -> None:
    """In memory_only random draws from the universe as it is listed, codes or not."""
    changes = "--tasks bright_memory_only --seeds 1 --limit 3"
    found = session.report(*session.draws("builtin/random", 2, changes))

    assert figures(found)["decisions"]["value"] > 0.3
    assert any("differ only in the order of rows" in note for note in found["notes"])


@pytest.mark.exhaustive
def test_a_draw_run_twice_tells_the_models_own_chance(session: Session) -> None:
    moods = ((0, "a"), (0, "b"), (1, "c"))
    moody = session.report(*[session.run("test/moody", draw, mood=mood) for draw, mood in moods])
    sure = session.report(
        *[session.run("test/low_labels", draw, mood=mood) for draw, mood in moods]
    )

    assert figures(moody, "again")["orders"]["value"] > 0.3
    beyond = figures(moody, "labels - again")["orders"]
    assert beyond["low"] < 0 < beyond["high"]  # it never looks at a label

    assert figures(sure, "again")["decisions"]["value"] == 0.0
    assert figures(sure, "labels - again")["decisions"]["value"] > 0


@pytest.mark.exhaustive
def test_a_window_that_does_not_mix_with_the_others_is_named(session: Session) -> None:
    windows = "2024-02-01:2024-04-10,2024-03-01:2024-03-12"
    runs = session.draws("builtin/momentum", 2, f"--windows {windows} --limit 40")
    report = session.report(*runs)

    assert {row["windows"] for row in report["figures"] if row["between"] == "labels"} == {1}
    assert any(
        "window 2024-03-01:2024-03-12 is left out: has 8 weekdays" in note
        for note in report["notes"]
    )


# ---- what is refused


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@on_each_row(
    "changes, reason",
    ("--model builtin/reversal", "different models"),
    ("--model-args positions=5", "different models"),
    ("--temperature 0.1", "different call parameters"),
    ("--rules paper", "different metric rules"),
    ("--limit 2", "different limits of steps"),
    ("--seeds 1", "unpaired: it has not finished window"),
    ("--data synthetic --data-args seed=5", "different snapshots"),
)
def test_runs_that_differ_in_anything_else_are_refused(
    session: Session, changes: str, reason: str
) -> None:
    one = session.run("builtin/momentum")
    other = session.run("builtin/momentum", 1, changes)
    done = ktdeval("compare", "labels", one, other, cwd=session.folder)

    assert (done.code, done.out) == (2, "")
    assert reason in error_line(done)


# ---- what a key is worth


@pytest.mark.exhaustive
def test_the_baseline_over_keys_is_what_the_model_earns_under_a_key(session: Session) -> None:
    """Names bought one by one, and added up, come to the ledger of `builtin/first_listed`, which
    bought them together.
    """
    changes = "--tasks bright_memory_only,blinded_memory_only --model-args positions=7"
    run = session.run("builtin/first_listed", 3, changes)
    found = session.report(run, "--keys", 20, "--positions", 7)
    cards = {entrant.card.task.name: entrant.card for entrant in load_entrants([run])}
    rows = {(row["task"], row["window"]): row for row in found["spread"]}

    assert len(rows) == 2 * 3

    for task, card in cards.items():
        for window in (FIRST, SECOND):
            earned = [
                each.metrics["total_return"].value
                for each in card.episodes
                if each.window == window
            ]
            assert rows[task, window]["own"] == pytest.approx(np.mean(earned), abs=1e-12)
            assert rows[task, window]["bought"] == rows[task, window]["among_first"] > 0

        assert rows[task, "all windows"]["own"] == pytest.approx(
            np.mean([rows[task, name]["own"] for name in (FIRST, SECOND)])
        )

    # each task has its own order
    assert rows["bright_memory_only", FIRST]["own"] != rows["blinded_memory_only", FIRST]["own"]


@pytest.mark.exhaustive
def test_a_key_is_ranked_among_others_and_a_chosen_one_is_named(session: Session) -> None:
    """Of 200 keys that somebody tries without a call, the best is at the top for a model that buys
    the first listed.
    """
    changes = f"--tasks blinded_memory_only --seeds 1 --windows {FIRST}"
    run = session.run("builtin/first_listed", 0, changes)
    (spec,) = RunFolder.load(run).manifest.specs
    market = load_snapshot(session.folder / "market")
    tape = MarketTape.from_snapshot(market, TradingConfig())
    profit = profits_of(market, tape, TradingConfig(), spec, 10)
    base_row = window_rows(market.days, spec.span.first, spec.span.last)[0] - 1

    def worth(number: int) -> float:
        listed = first_listed(
            dataclasses.replace(spec, mask_key=f"{number:032x}"), market, base_row, 10
        )
        return float(profit.of_each[listed].sum()) / profit.cash

    values = [worth(number) for number in range(200)]
    best = int(np.argmax(values))
    for number, is_named in ((best, True), (int(np.argsort(values)[100]), False)):
        found = session.report(session.run("builtin/first_listed", number, changes), "--keys", 100)
        whole = found["spread"][-1]
        assert whole["own"] == pytest.approx(values[number])
        assert (whole["rank"] > 0.975) is is_named
        assert (
            any(
                "do better for a model that buys the first listed" in note
                for note in found["notes"]
            )
            is is_named
        )
        assert whole["q5"] < whole["q50"] < whole["q95"]

    assert abs(whole["rank"] - 0.5) < 0.2


def test_figure_reading_model_buys_the_first_listed_only_by_chance(
    session: Session,
) -> None:
    whole = session.report(session.run("builtin/momentum"), "--keys", 20)["spread"][-1]
    assert whole["bought"] > 20
    assert whole["among_first"] < 3 * whole["by_chance"]
