"""One team that votes on three models behind HTTP: who is asked, what each costs, and that the run
verifies, resumes and has a row of votes in the paper's table.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import ktdeval
from ktdeval.calls.records.call_log import read_calls
from ktdeval.cli.main import main
from ktdeval.runner import RunFolder
from ktdeval.testing import Terminal
from support.providers.stub_provider import KEY, Stub, skip_without_sdks

skip_without_sdks()

STUB = {"names": ("stub-a", "stub-b", "stub-c")}
MODELS = [f"openai/{name}" for name in STUB["names"]]
PRICES = """
as_of: 2026-01-01
source: the test
models:
  - {match: openai/stub-a, input: 1, output: 1}
  - {match: openai/stub-b, input: 10, output: 10}
  - {match: openai/stub-c, input: 100, output: 100}
"""
STEPS = 2
WARM_UP = 92  # days, each a question to every voter


@pytest.fixture
def run(stub: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    words = (
        f"--model {MODELS[0]} --model-args api=chat --base-url {stub.base_url} --cache run"
        f" --price-table {prices} --agent vote --tasks ama_btc --data synthetic_arena"
        f" --agent-args agents=investor,models={';'.join(MODELS)} --limit {STEPS} --canary 0"
        f" --quiet --out {tmp_path / 'run'}"
    )
    assert main(words.split()) == 0

    return tmp_path / "run"


@pytest.mark.exhaustive
def test_each_model_is_asked_once_a_step_and_costs_are_kept_apart(
    run: Path, terminal: Terminal
) -> None:
    asked = Counter(record.model for record in read_calls(run) if record.step is not None)
    assert asked == dict.fromkeys(MODELS, WARM_UP + STEPS)

    report = terminal.report("view", "roles", run)
    voters = [f"voter {number} (investor on {model})" for number, model in enumerate(MODELS, 1)]

    assert sorted(report) == sorted(
        f"{voter}: {role}" for voter, role in product(voters, ("investor", "warm_up"))
    )

    for price, voter in zip((1, 10, 100), voters, strict=True):
        for role in (report[f"{voter}: investor"], report[f"{voter}: warm_up"]):
            tokens = role["input_tokens"] + role["output_tokens"]
            assert tokens > 0
            assert role["usd"] == pytest.approx(price * tokens / 1e6)

    (card,) = ktdeval.load_run(run).typed_cards

    assert card.plain["cost"]["value"] == pytest.approx(sum(r["usd"] for r in report.values()))


def test_the_majority_decides_and_the_run_verifies(run: Path, terminal: Terminal) -> None:
    folder = RunFolder.load(run)
    (spec,) = folder.manifest.specs

    assert {step.provenance for step in folder.load_ledger(spec).steps} == {"elected"}
    assert "verified" in terminal.text("card", "verify", run)

    out = terminal.out("paper", "table", run, "--like", "ama-1", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))

    assert (row["Agent"], row["Model"]) == ("investor", "Vote")
