"""A team over two models behind HTTP: who is asked, what each costs, and that a run with two models
resumes, verifies and is told apart from others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.records.call_log import read_calls
from ktdeval.cards import load_card
from ktdeval.cards.card import TradingCard
from ktdeval.cards.system import System
from ktdeval.cli.main import main
from ktdeval.harness.chat_messages import Usage
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import Terminal
from support.providers.stub_provider import KEY, Stub, skip_without_sdks
from support.runs.forging import edit_json
from support.runs.run_support import SAME_MASK, copy_run

skip_without_sdks()

STUB = {"names": ("stub-model", "stub-mini")}
DEEP = "openai/stub-model"
QUICK = "openai/stub-mini"
PRICES = """
as_of: 2026-01-01
source: the test
models:
  - {match: openai/stub-model, input: 2, output: 8}
  - {match: openai/stub-mini, input: 0.25, output: 1}
"""
MANAGERS = {"research_manager", "portfolio_manager"}


@pytest.fixture(scope="module", autouse=True)
def _key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        yield


def words(stub: Stub, out: Path, *more: str, quick: str = QUICK) -> list[str]:
    prices = out.parent / "prices.yaml"
    prices.write_text(PRICES)
    agent = f"--agent-args quick_model={quick}" if quick else ""
    given = (
        f"--model {DEEP} --model-args api=chat --base-url {stub.base_url} --agent trade"
        f" --tasks market_news_blinded --data synthetic_us --price-table {prices} --cache run"
        f" --canary 0 --limit 2 --quiet --out {out} {agent}"
    )
    return [*given.split(), *SAME_MASK, *more]


def card_of(run: Path) -> TradingCard:
    (path,) = (run / "cards").glob("*.json")
    card = load_card(path)
    assert isinstance(card, TradingCard)
    return card


@pytest.fixture(scope="module")
def run(stub: Stub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("second") / "two"
    assert main(words(stub, out)) == 0
    return out


@pytest.mark.exhaustive
def test_each_role_asks_its_model_and_costs_add_up(run: Path, terminal: Terminal) -> None:
    card = card_of(run)
    by_model = {usage.role: usage.model for usage in card.roles}

    assert {role for role, model in by_model.items() if not model} == MANAGERS
    assert {model for model in by_model.values() if model} == {QUICK}

    records = list(read_calls(run))
    asked = Counter(record.model for record in records if record.step is not None)

    assert asked == Counter({DEEP: 4, QUICK: sum(asked.values()) - 4})

    paid = sum(record.cost_usd or 0.0 for record in records if record.step is not None)
    by_role = sum(usage.usd or 0.0 for usage in card.roles)

    assert card.cost.value == pytest.approx(paid)
    assert by_role == pytest.approx(paid)

    report: dict[str, Any] = terminal.report("view", "roles", run)
    assert {name for name, role in report.items() if role["model"] == DEEP} == MANAGERS
    assert sum(role["usd"] for role in report.values()) == pytest.approx(paid)

    tokens = sum((usage.tokens for usage in card.roles), Usage())
    assert tokens == card.usage.tokens

    dear = sum((usage.tokens for usage in card.roles if not usage.model), Usage())
    cheap = tokens.minus(dear)
    expected = 2 * dear.input_tokens + 8 * dear.output_tokens
    expected += 0.25 * cheap.input_tokens + cheap.output_tokens

    assert paid == pytest.approx(expected / 1e6)


@pytest.mark.exhaustive
def test_a_card_says_that_two_models_played(run: Path, stub: Stub) -> None:
    card = card_of(run)
    (quick,) = card.further_models

    assert (quick.asked_as, quick.name, quick.tool_protocol) == (QUICK, QUICK, "native")
    assert quick.args["base_url"] == stub.base_url
    assert quick.price is not None
    assert quick.price.input == 0.25

    calls = card.provenance.calls
    assert calls is not None
    assert calls.models.keys() == {DEEP, QUICK}
    assert sum(own.paid_usd or 0.0 for own in calls.models.values()) == pytest.approx(
        calls.paid_usd
    )
    assert KEY not in json.dumps(card.plain)


def test_a_run_with_two_models_verifies_and_a_forged_model_does_not(
    run: Path, tmp_path: Path, terminal: Terminal
) -> None:
    copied = copy_run(run, tmp_path / "run")
    (path,) = (copied / "cards").glob("*.json")
    assert main(["card", "verify", str(path)]) == 0

    edit_json(path, lambda card: card.pop("further_models") and None)
    assert main(["card", "verify", str(path)]) != 0


@pytest.mark.exhaustive
def test_another_second_model_is_another_system(run: Path, stub: Stub, tmp_path: Path) -> None:
    alone = tmp_path / "one"
    assert main(words(stub, alone, quick="")) == 0

    card = card_of(run)
    assert System.of(card) != System.of(card_of(alone))

    spec = RunFolder.load(run).manifest.specs[0]
    assert System.of_spec(spec, card.request_settings) == System.of(card)


def test_a_budget_counts_both_models_and_the_run_resumes_without_it(
    run: Path, stub: Stub, tmp_path: Path
) -> None:
    cut = tmp_path / "cut"
    assert main(words(stub, cut, "--max-tokens", "60000")) != 0
    assert not RunFolder.load(cut).is_complete(RunFolder.load(cut).manifest.specs[0])

    usages = [record.usage for record in read_calls(cut) if record.usage is not None]
    assert 0 < sum(usage.input_tokens + usage.output_tokens for usage in usages) <= 60_000

    assert main(words(stub, cut)) == 0

    whole = card_of(run)
    resumed = card_of(cut)
    assert resumed.roles == whole.roles
    assert resumed.episodes == whole.episodes
    assert resumed.cost == whole.cost


@pytest.mark.parametrize(
    ("quick", "problem"),
    [
        ("openai/stub-other", "no price is known for openai/stub-other"),  # which a limit needs
        ("builtin/hold", "can't be used in one run"),  # of this machine, not behind a network
    ],
)
def test_a_second_model_that_does_not_fit_the_run_is_refused(
    quick: str, problem: str, stub: Stub, tmp_path: Path, terminal: Terminal
) -> None:
    given = words(stub, tmp_path / "run", "--max-cost", "1", quick=quick)
    assert problem in terminal.error(*given)


def test_a_plan_estimates_no_cost_where_two_models_share_the_tokens(
    stub: Stub, tmp_path: Path, terminal: Terminal
) -> None:
    given = [word for word in words(stub, tmp_path / "plan") if word != "--quiet"]
    plan: dict[str, Any] = json.loads(terminal.out("plan", *given, "--json"))

    assert plan["left"]["typical"]["cost_usd"] is None
    assert plan["left"]["typical"]["calls"] > 0
    assert any(f"the agent also calls {QUICK}" in line for line in plan["assumptions"])
