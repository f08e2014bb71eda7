"""A mask is a lens, not a market: strategies that look at no label trade the same under every mask and every shuffle of handles."""

from __future__ import annotations

from pathlib import Path

import pytest

from accept_runs import HIDES_ASSETS, HIDES_DATES, MASKS, TASKS, conversations, evaluate, import_real, ledgers
from ktdeval.runner.store import RunFolder

STEPS, SEEDS = 10, 2
SHOWN = [task for task in TASKS if not task.endswith("memory_only")]
"""Four masks, two modes that show data."""


@pytest.fixture(scope="module", params=["momentum", "reversal", "low_volatility", "equal_weight"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    words = ["--windows", "W5", "--limit", str(STEPS), "--seeds", str(SEEDS)]
    return evaluate(tmp_path_factory.mktemp("blindness") / "run", f"builtin/{request.param}", SHOWN, *words)


@pytest.mark.parametrize("mode", ["open_research", "fixed_candidate"])
def test_a_label_blind_strategy_leaves_one_ledger_under_all_masks_and_mask_seeds(run: RunFolder, mode: str) -> None:
    episodes = [(spec, ledger) for spec, ledger in ledgers(run) if spec.mode == mode]
    assert {(spec.mask, spec.seed) for spec, _ in episodes} == {(mask, seed) for mask in MASKS for seed in range(SEEDS)}
    reference = episodes[0][1]
    assert len(reference.steps) == STEPS
    assert sum(order.status == "filled" for step in reference.steps for order in step.orders) >= 15
    for spec, ledger in episodes[1:]:
        assert ledger.steps == reference.steps, (spec.mask, spec.seed)


@pytest.mark.shared_data
def test_on_real_prices_too(shared_data: Path, tmp_path: Path) -> None:
    data = import_real(shared_data, tmp_path / "market")
    words = ["--data", str(data), "--windows", "W4,W7", "--limit", str(STEPS), "--seeds", "2"]
    reference: dict[tuple[str, str], object] = {}
    for spec, ledger in ledgers(evaluate(tmp_path / "run", "builtin/reversal", SHOWN, *words)):
        assert reference.setdefault((spec.mode, spec.window.name), ledger.steps) == ledger.steps, (spec.task, spec.seed)


def test_what_the_strategy_saw_did_differ(run: RunFolder) -> None:
    """Otherwise the test above would show nothing: handles are others under each mask and each seed."""
    seen = {}
    for spec in run.manifest.specs:
        if spec.mode == "fixed_candidate":
            first = next(conversations(run.load_transcript(spec)[0]))
            seen[spec.mask, spec.seed] = first[-1]["content"]
            assert ("asset_" in first[-1]["content"]) == (spec.mask in HIDES_ASSETS)
            assert ("day_+0" in first[-1]["content"]) == (spec.mask in HIDES_DATES)
    assert len(set(seen.values())) == len(seen) == len(MASKS) * SEEDS
