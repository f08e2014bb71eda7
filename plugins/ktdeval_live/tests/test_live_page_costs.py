"""Costs on the live page of models behind a network: those of the record of calls."""

from __future__ import annotations

import pytest

from ktdeval.calls import ANSWERED, CACHED, read_calls
from ktdeval.registry import load_plugins
from ktdeval_live.days.clock import of_text
from ktdeval_live.page.build_data import live_page
from ktdeval_live.page.data import LivePage
from ktdeval_live.record.folder import LiveFolder
from support.live.live_plans import rehearsed
from support.providers.stub_provider import KEY, FaultPlan, running_stub, skip_without_sdks

pytestmark = pytest.mark.slow
skip_without_sdks()

PRICE = {"input": 2, "output": 8}
AFTER = of_text("2024-06-29T00:00:00Z")


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> LiveFolder:
    """Two entrants of a provider that fails once at the question of each day; the price of one is
    known.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
        with running_stub(plan=FaultPlan(faults=("server",), every=1)) as stub:
            options = {"base_url": stub.base_url_of("responses")}
            chat = {"base_url": stub.base_url_of("chat")}
            entrants = [
                {"name": "priced", "model": "openai/stub-model",
                 "options": {**options, "price": PRICE}},
                {"name": "unpriced", "model": "openai_compatible/stub-model", "options": chat},
            ]  # fmt: skip
            path = tmp_path_factory.mktemp("live") / "week"
            return rehearsed(path, load_plugins(), entrants=entrants)


@pytest.fixture(scope="module")
def page(week: LiveFolder) -> LivePage:
    return live_page(week, load_plugins(), AFTER)


@pytest.mark.exhaustive
def test_dollars_of_each_session_are_those_of_its_tokens(week: LiveFolder, page: LivePage) -> None:
    costs = page.entries[0].costs
    records = list(read_calls(week.private / "priced" / "us"))
    for number, usd in enumerate(costs.usd):
        usages = [one.usage for one in records if one.step == number and one.usage is not None]
        expected = 0.0
        for usage in usages:
            expected += 2e-6 * usage.input_tokens + 8e-6 * usage.output_tokens

        assert usd == pytest.approx(expected, abs=1e-6)

    assert len(costs.usd) == 5
    assert costs.usd_total is not None
    assert costs.usd_a_day == pytest.approx(costs.usd_total / 5)


@pytest.mark.exhaustive
def test_failed_attempts_are_counted(week: LiveFolder, page: LivePage) -> None:
    all_failed = 0
    for entry in page.entries:
        records = list(read_calls(week.private / entry.entrant / "us"))
        own = [one for one in records if one.step is not None and one.outcome != CACHED]
        failed = sum(one.outcome != ANSWERED for one in own)
        all_failed += failed
        assert (entry.costs.calls, entry.costs.failed) == (len(own), failed)
        assert entry.costs.error_rate == failed / len(own)

    assert all_failed == 5


@pytest.mark.exhaustive
def test_model_without_a_price_has_tokens_and_no_dollars(page: LivePage) -> None:
    costs = page.entries[1].costs
    assert costs.usd == (None,) * 5
    assert costs.usd_total is None
    assert all(tokens for tokens in costs.tokens)
