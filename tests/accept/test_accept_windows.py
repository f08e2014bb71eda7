"""Every task over every window: as many steps as the market has sessions, and cards that validate
and verify. A mask is a lens, not a market: strategies that look at no label trade the same under
every mask and every shuffle of handles.
"""

from __future__ import annotations

from itertools import chain, product
from pathlib import Path

import pytest

from ktdeval.market.rules.calendar import window_rows
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import not_empty
from support.accept.accept_runs import (
    HIDES_ASSETS,
    HIDES_DATES,
    MASKS,
    TASKS,
    card,
    conversations,
    evaluate,
    import_real,
    ledgers,
    synthetic,
    verify,
)

SESSIONS = dict(enumerate([43, 43, 43, 43, 40, 44, 46, 50, 50, 43], 1))
"""By number of window."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("bright_open_research", "builtin/momentum"),
        ("stock_blind_fixed_candidate", "builtin/momentum"),
        ("date_blind_memory_only", "builtin/random"),
        ("blinded_open_research", "builtin/momentum"),
    ],
)
def test_all_windows_run_and_verify(task: str, model: str, tmp_path: Path) -> None:
    days_of = list(map(str, synthetic().days))
    folder = evaluate(tmp_path / "run", model, [task], "--windows", "W*")
    found = {}
    for spec, ledger in ledgers(folder):
        found[spec.window.name] = len(ledger.steps)
        days = [day for day in days_of if spec.window.first <= day <= spec.window.last]
        assert [step.filled_on for step in ledger.steps] == days
        assert any(step.orders for step in ledger.steps)
        # Random buys without knowing its cash, and submits again what was refused.
        retried = {"model_after_retry"} if model == "builtin/random" else set()
        assert {step.provenance for step in ledger.steps} - retried == {"model"}

    assert found == {f"W{number}": count for number, count in SESSIONS.items()}
    made = card(folder, task)
    assert {window["name"]: window["days"] for window in made["windows"]} == found
    coverage = made["coverage"]
    assert coverage["episodes_finished"] == coverage["episodes_planned"] == len(SESSIONS)
    assert "limited" not in made["labels"]
    assert "synthetic" in made["labels"]
    verify(folder.path)


def test_the_default_window_is_the_long_one(tmp_path: Path) -> None:
    """Whole runs of it: tests/oracle/test_accept_numbers.py."""
    folder = evaluate(
        tmp_path / "run", "builtin/momentum", ["blinded_open_research"], "--limit", "2"
    )
    ((spec, _),) = ledgers(folder)
    start, stop = window_rows(synthetic().days, spec.window.first, spec.window.last)

    assert (spec.window.name, stop - start) == ("long", 548)

    verify(folder.path)


# ---- blindness


STEPS = 10
SEEDS = 2
SHOWN = [task for task in TASKS if not task.endswith("memory_only")]
"""Four masks, two modes that show data."""


@pytest.fixture(scope="module", params=["momentum", "reversal", "low_volatility", "equal_weight"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    words = ["--windows", "W5", "--limit", str(STEPS), "--seeds", str(SEEDS)]
    return evaluate(
        tmp_path_factory.mktemp("blindness") / "run", f"builtin/{request.param}", SHOWN, *words
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["open_research", "fixed_candidate"])
def test_a_label_blind_strategy_has_one_ledger_under_all_masks_and_seeds(
    run: RunFolder, mode: str
) -> None:
    episodes = [(spec, ledger) for spec, ledger in ledgers(run) if spec.mode == mode]
    assert {(spec.mask, spec.seed) for spec, _ in episodes} == set(product(MASKS, range(SEEDS)))

    reference = episodes[0][1]
    assert len(reference.steps) == STEPS

    orders = chain.from_iterable(step.orders for step in reference.steps)
    assert sum(order.status == "filled" for order in orders) >= 15

    for spec, ledger in episodes[1:]:
        assert ledger.steps == reference.steps, (spec.mask, spec.seed)


@pytest.mark.exhaustive
@pytest.mark.shared_data
def test_on_real_prices_too(shared_data: Path, tmp_path: Path) -> None:
    data = import_real(shared_data, tmp_path / "market")
    words = ["--data", str(data), "--windows", "W4,W7", "--limit", str(STEPS), "--seeds", "2"]
    reference: dict[tuple[str, str], object] = {}

    for spec, ledger in not_empty(
        ledgers(evaluate(tmp_path / "run", "builtin/reversal", SHOWN, *words))
    ):
        assert reference.setdefault((spec.mode, spec.window.name), ledger.steps) == ledger.steps, (
            spec.task,
            spec.seed,
        )


@pytest.mark.sampled(1)
def test_what_the_strategy_saw_did_differ(run: RunFolder) -> None:
    """Otherwise the test above would show nothing: handles are others under each mask and each
    seed.
    """
    seen = {}

    for spec in run.manifest.specs:
        if spec.mode == "fixed_candidate":
            first = next(conversations(run.load_transcript(spec)[0]))
            seen[spec.mask, spec.seed] = first[-1]["content"]
            assert ("asset_" in first[-1]["content"]) == (spec.mask in HIDES_ASSETS)
            assert ("day_+0" in first[-1]["content"]) == (spec.mask in HIDES_DATES)

    assert len(set(seen.values())) == len(seen) == len(MASKS) * SEEDS
