"""What a probe shows is what the harness would send, behind a mask of its own, and nothing of the gold answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deanon_play import PROBES, Reader, attack, payload_in, samples_of, spec_of, target_task_of, task_of
from ktdeval.contracts.scoring import TargetTask
from ktdeval.errors import ConfigError
from ktdeval.harness.action import ActionForm
from ktdeval.harness.messages import CallParams, ToolCall
from ktdeval.harness.session import GuardedSession, SessionParts
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.trading.types import Account
from ktdeval_deanon.brief import quarter_words
from ktdeval_deanon.payload import subject_spec, view_probe
from ktdfin_market import poisoned, small_market


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return small_market()


@pytest.mark.parametrize("mask", PROBES)
def test_a_payload_is_byte_for_byte_what_a_trading_model_gets(market: MarketSnapshot, mask: str) -> None:
    """The subject's episode, opened as the engine opens it, with the calls made at its session."""
    exam, target_task = samples_of(market, mask), target_task_of(mask)
    task = target_task.task
    for number in (0, 7):
        probe = exam.probes[number]
        scene = task.scene(subject_spec(target_task, spec_of(mask), number), market)
        lens = scene.lens
        step = probe.row - lens.base_row
        context = scene.tool_context(step, market.as_of(probe.row), Account(task.trading.initial_cash_cny * 100, {}))
        form, guard = ActionForm(task.harness, lens), LeakGuard(lens, market)
        session = GuardedSession(
            SessionParts(Reader(), lens, guard, target_task.tools, form, task.harness, CallParams(), 0), step, context
        )
        factors = list(task_of(mask).describe()["screen_factors"])
        calls = [
            ("market_context", "get_market_context", {}),
            ("screen", "screen_candidates", {"factors": factors, "k": 30}),
            ("snapshot", "get_stock_snapshot", {"stock_id": lens.asset_handle(probe.asset), "lookback": 60}),
        ]
        answers = [(key, session.call_tool(ToolCall("1", name, json.dumps(given)))) for key, name, given in calls]
        assert all(answer.failure is None for _, answer in answers)
        text = ",".join(f'"{key}":{answer.text}' for key, answer in answers)
        assert exam.view(number).text == f"{{{text}}}"
        assert f"```json\n{{{text}}}\n```" in exam.sample(number).user


def test_the_probed_stock_and_day_are_the_ones_of_the_snapshot(market: MarketSnapshot) -> None:
    exam = samples_of(market, "bright")
    for number in range(0, 40, 9):
        sample, probe = exam.sample(number), exam.probes[number]
        shown = payload_in(sample)
        assert shown["snapshot"]["stock_id"] == sample.facts["code"] == market.codes[probe.asset]
        assert shown["snapshot"]["day"] == shown["market_context"]["calendar"]["day"] == sample.facts["day"]
        assert shown["snapshot"]["bars"]["rows"][-1][0] == sample.facts["day"]
        assert len(shown["snapshot"]["bars"]["rows"]) <= 60


@pytest.mark.parametrize("mask", PROBES)
def test_nothing_hidden_stands_in_what_is_sent(market: MarketSnapshot, mask: str) -> None:
    """`attack` puts every text through the leak guard; here the gold answers are looked for by hand, too."""
    exam = samples_of(market, mask)
    numbers = range(0, 40, 4)
    attack(exam, market, Reader(), numbers)
    for number in numbers:
        sample = exam.sample(number)
        sent = sample.system + sample.user + json.dumps([sample.form.description, sample.form.parameters], ensure_ascii=False)
        lens = sample.lens
        assert (sample.facts["code"][:6] in sent) is not lens.hides_assets
        assert (sample.facts["sector"] in sent) is not lens.hides_assets
        assert (sample.facts["day"] in sent) is not lens.hides_dates


def test_every_probe_has_an_alias_map_of_its_own(market: MarketSnapshot) -> None:
    exam = samples_of(market)
    asset = exam.probes[0].asset
    handles = [exam.view(number).lens.asset_handle(asset) for number in range(12)]
    assert len(set(handles)) > 8  # 48 names: some may fall together by chance
    assert len({exam.view(number).lens.order for number in range(12)}) == 12
    other = samples_of(market, seed=1).view(0).lens
    assert other.order != exam.view(0).lens.order


def test_day_zero_is_the_close_before_the_window(market: MarketSnapshot) -> None:
    exam = samples_of(market)
    assert exam.view(3).lens.base_row == market.day_index("2024-03-01") - 1
    shown = payload_in(exam.sample(3))
    assert shown["snapshot"]["day"] == f"day_+{exam.probes[3].row - exam.view(3).lens.base_row}"
    assert shown["market_context"]["calendar"]["step"] >= 1


def test_equal_arguments_give_equal_bytes(market: MarketSnapshot) -> None:
    one, other = samples_of(market).sample(5), samples_of(market).sample(5)
    assert (one.id, one.system, one.user, one.form, one.facts) == (other.id, other.system, other.user, other.form, other.facts)
    exam = samples_of(market)
    assert len({exam.sample(number).id for number in range(10)}) == 10


def test_nothing_after_the_probed_close_shows(market: MarketSnapshot) -> None:
    exam, target_task, spec = samples_of(market), target_task_of("blinded"), spec_of("blinded")
    config = task_of("blinded")._config
    for number in (1, 6):
        probe = exam.probes[number]
        own = subject_spec(target_task, spec, number)
        assert view_probe(config, target_task, own, poisoned(market, probe.row), probe).text == exam.view(number).text


def test_the_attacker_is_told_what_market_it_is(market: MarketSnapshot) -> None:
    def brief(meta: object) -> str:
        return str(samples_of(replace(market, meta=meta)).sample(0).system)

    assert "The data are not real: a program generated this market (`small`)" in brief(market.meta)
    assert "The data are real" in brief(replace(market.meta, synthetic=False))
    assert "drawn anew" in brief(replace(market.meta, synthetic=False, name="x-placebo-shuffle-1"))
    # A name that is itself a date is not told where dates are hidden.
    assert "generated this market," in brief(replace(market.meta, name="made-2024-05-17"))


def test_the_attacker_is_told_universe_period_and_mask(market: MarketSnapshot) -> None:
    system = samples_of(market).sample(0).system
    assert "the Orbex Large index" in system
    assert "the boards among them are main, chinext, star, bse" in system
    rows = market.day_index("2024-04-19") - market.day_index("2024-03-01") + 1  # the first window of the task begins in April
    assert f"a period of {rows} consecutive ones, from the first quarter of twenty twenty-four to the second" in system
    assert "Codes, company names and industries are hidden" in system
    assert "Nothing is hidden" in samples_of(market, "bright").sample(0).system
    unnamed = replace(market, index_names={})
    assert "an index of large stocks" in samples_of(unnamed).sample(0).system  # its code must not show


@pytest.mark.parametrize(
    ("day", "words"),
    [
        ("2024-04-01", "the second quarter of twenty twenty-four"),
        ("2010-12-31", "the fourth quarter of twenty ten"),
        ("2007-01-01", "the first quarter of two thousand and seven"),
        ("2000-07-01", "the third quarter of two thousand"),
        ("1999-09-30", "the third quarter of nineteen ninety-nine"),
        ("1905-09-30", "the third quarter of nineteen oh five"),
        ("1900-02-01", "the first quarter of nineteen hundred"),
    ],
)
def test_quarters_in_words(day: str, words: str) -> None:
    import numpy as np

    assert quarter_words(np.datetime64(day)) == words


def test_a_subject_of_another_plugin_file_is_probed_with_what_its_mask_does_to_numbers(
    market: MarketSnapshot, tmp_path: Path
) -> None:
    """Task files that extend: a rebased trading task, and the probe of it."""
    (tmp_path / "mine.yaml").write_text(
        """
        family: mine
        version: "1"
        variants:
          my_rebased_open_research: {extends: blinded_open_research, rebase_prices: true}
          my_rebased_probe: {extends: deanon_probe, subject: my_rebased_open_research, probes_per_window: 6}
        """
    )
    (tmp_path / "mine.py").write_text(
        "from ktdeval.api import hookimpl, task_specs\n\n@hookimpl\ndef ktdeval_tasks():\n"
        f"    return task_specs({str(tmp_path / 'mine.yaml')!r})\n"
    )
    plugins = load_plugins(["ktdeval_deanon", str(tmp_path / "mine.py")])
    task, trading = plugins.make_task("my_rebased_probe"), plugins.make_task("my_rebased_open_research")
    exam = task.samples(spec_of("blinded"), market, TargetTask(trading, plugins.tools(trading.tools)))
    assert len(exam) == 6
    sample, plain = exam.sample(0), samples_of(market, probes_per_window=6).sample(0)
    assert "rescaled so that its close at the first decision is 100" in sample.system
    assert "original ones" in plain.system
    shown = payload_in(sample)["snapshot"]["last_close_cny"]
    row, asset = exam.probes[0].row, exam.probes[0].asset
    base = exam.view(0).lens.base_row
    assert shown == pytest.approx(100 * market.close[row, asset] / market.close[base, asset], rel=1e-4)


def test_an_argument_that_a_tool_refuses_is_an_error_of_the_config(market: MarketSnapshot) -> None:
    with pytest.raises(ConfigError, match="task blinded_open_research: get_stock_snapshot refuses lookback: expected"):
        samples_of(market, lookback=500).sample(0)
    with pytest.raises(ConfigError, match="screen_candidates refuses factors"):
        samples_of(market, screen_factors=("MOM_13_1",)).sample(0)


def test_a_subject_without_the_tools_is_refused_by_name(market: MarketSnapshot) -> None:
    target_task = target_task_of("blinded")
    bare = TargetTask(target_task.task, tuple(tool for tool in target_task.tools if tool.name != "screen_candidates"))
    exam = task_of("blinded").samples(spec_of("blinded"), market, bare)
    with pytest.raises(ConfigError, match="has no tool 'screen_candidates'"):
        exam.sample(0)
