"""Which stocks and days are asked about, and what a probe shows: what the harness would send, and
nothing of the gold answer.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError
from ktdeval.harness.chat_messages import CallParams, ToolCall
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.scoring import TargetTask
from ktdeval.testing import check_plugin, error_lines, not_empty, on_each_row, small_market
from ktdeval.trading.types import Account
from ktdeval.values import derive_seed
from ktdeval_deanon.attacker_prompt import quarter_words
from ktdeval_deanon.task import DeanonConfig, draw_probes, target_spec, view_probe
from support.masking.deanon_play import (
    MARCH,
    PROBES,
    Reader,
    attack,
    payload_in,
    samples_of,
    spec_of,
    target_task_of,
    task_of,
)
from support.tasks.ktdfin_market import poisoned

MARKET = small_market()


@cache
def samples(mask: str = "blinded", seed: int = 0) -> Any:
    return samples_of(MARKET, mask, seed=seed)


# ---- which stocks and days


def drawn(count: int = 30, most: int = 1, seed: int = 0, market: Any = MARKET) -> Any:
    return draw_probes(market, MARCH, count, most, seed)


def boards_of(probes: Any) -> Counter[str]:
    return Counter(str(probe.board) for probe in probes)


def spread_of(shares: Counter[str]) -> int:
    return max(shares.values()) - min(shares.values())

    return max(shares.values()) - min(shares.values())


def test_every_probe_is_a_member_that_trades_on_a_day_in_the_window() -> None:
    first = MARKET.day_index("2024-03-01")
    last = MARKET.day_index("2024-03-29")
    for probe in not_empty(drawn(44, 2, 5), 44):
        assert first <= probe.row < last  # at its last close an episode decides no more
        assert MARKET.member[probe.row, probe.asset]
        assert np.isfinite(MARKET.close[probe.row, probe.asset])
        assert MARKET.volume[probe.row, probe.asset] > 0
        assert MARKET.boards[probe.asset] is probe.board


def test_boards_get_equal_shares_as_far_as_they_have_members() -> None:
    assert boards_of(drawn()).total() == 30

    few = MARKET.member.copy()
    few[:, [asset for asset, board in enumerate(MARKET.boards) if str(board) == "star"][2:]] = False
    shares = boards_of(drawn(20, market=replace(MARKET, member=few)))

    assert shares.pop("star") == 2
    assert shares.total() == 18
    assert spread_of(shares) <= 1


@pytest.mark.parametrize("length", [4, 9, 17, 30])
def test_boards_get_equal_shares_in_any_first_part(length: int) -> None:
    assert spread_of(boards_of(drawn(seed=3)[:length])) <= 1


def test_no_stock_comes_twice_before_each_of_its_board_came_once() -> None:
    assert len({probe.asset for probe in drawn()}) == 30

    probes = drawn(60, 2)
    assert len({(probe.asset, probe.row) for probe in probes}) == 60
    assert max(Counter(probe.asset for probe in probes).values()) == 2

    main = [probe.asset for probe in probes if str(probe.board) == "main"]
    assert len(set(main[: len(set(main))])) == len(set(main))


def test_key_seed_window_and_mask_decide_and_nothing_else() -> None:
    """No other days in the data: draws go by code and date."""
    assert samples_of(MARKET, seed=4).probes == samples(seed=4).probes != samples(seed=5).probes
    assert (
        samples_of(MARKET, seed=4, window=Window("x", "2024-03-04", "2024-03-29")).probes
        != samples(seed=4).probes
    )

    arrays = {
        name: getattr(MARKET, name)[40:].copy()
        for name in ("open", "high", "low", "close", "volume", "amount", "factor", "member")
    }
    indices = {code: levels[40:] for code, levels in MARKET.indices.items()}
    shorter = replace(MARKET, days=MARKET.days[40:], indices=indices, **arrays)

    assert [(probe.asset, probe.row + 40) for probe in drawn(market=shorter)] == [
        (probe.asset, probe.row) for probe in drawn()
    ]


@pytest.mark.slow
def test_probe_cannot_be_guessed_without_its_key_or_from_another_mask() -> None:
    """Of 40 probes on 48 stocks and 20 days about one falls on the same stock and day by chance,
    whatever the order.
    """

    def asked(mask: str, key: str | None) -> list[Any]:
        spec = replace(spec_of(mask), mask_key=key)
        return list(task_of(mask).samples(spec, MARKET, target_task_of(mask)).probes)

    keyed = [asked(mask, "0" * 32) for mask in PROBES]
    guesses = [asked(mask, None) for mask in PROBES] + [asked("blinded", "1" * 32)]
    guesses += [
        list(draw_probes(MARKET, MARCH, 40, 1, derive_seed(0, MARCH.first, MARCH.last, "probes")))
    ]
    pairs = [*itertools.combinations(keyed, 2), *itertools.product(keyed, guesses)]

    assert len(pairs) == 6 + 4 * 6

    for one, other in pairs:
        assert sum(mine == theirs for mine, theirs in zip(one, other, strict=True)) <= 4
        assert len(set(one) & set(other)) <= 10


def test_samples_that_cannot_be_drawn_or_shown_are_errors_with_advice() -> None:
    task = task_of("blinded")
    tools = target_task_of("blinded").tools
    unscreened = tuple(tool for tool in tools if tool.name != "screen_candidates")
    bare = TargetTask(target_task_of("blinded").task, unscreened)
    day = Window("day", "2024-03-01", "2024-03-01")
    late = Window("late", "2025-03-01", "2025-03-29")

    assert error_lines(
        lambda: samples_of(MARKET, probes_per_window=60),
        lambda: samples_of(MARKET, window=day),
        lambda: samples_of(MARKET, window=late),
        lambda: task.samples(spec_of("blinded"), MARKET, None),
        lambda: task.samples(spec_of("blinded"), MARKET, target_task_of("bright")),
        lambda: task.samples(spec_of("blinded"), MARKET, bare).sample(0),
        lambda: samples_of(MARKET, lookback=500).sample(0),
        lambda: samples_of(MARKET, screen_factors=("MOM_13_1",)).sample(0),
    ) == snapshot("""\
ConfigError: window March: probes_per_window is 60, but a maximum of 1 per stock allows only 46; lower probes_per_window or raise max_probes_per_stock
DataError: window day: its only trading day has no decision; choose a longer window
DataError: window 2025-03-01…2025-03-29 lies outside the data, which allow 2022-12-13…2024-04-19 (nothing is filled on the first day, which only decides); choose a window inside, such as by --windows FIRST:LAST, or other data
ConfigError: task deanon_probe: its target_task 'blinded_open_research' must be a trading task with research tools
ConfigError: task deanon_probe: its mask is blinded, but that of its target task bright_open_research is bright; name a target task with the same mask
ConfigError: task blinded_open_research: has no tool 'screen_candidates', which a probe shows; choose a target task of mode open_research
ConfigError: task blinded_open_research: get_stock_snapshot refuses lookback: expected a value from 1 to 120
ConfigError: task blinded_open_research: screen_candidates refuses factors[0]: expected one of MOM_12_1, RV_60, ILLIQ, REV_ON, MOM_ID, SKEW, CORR_PV, HIGH_52W, CV_VOL, return_1d_pct, return_5d_pct, return_20d_pct, drawdown_60d_pct, amount_20d_cny, -MOM_12_1, -RV_60, -ILLIQ, -REV_ON, -MOM_ID, -SKEW, -CORR_PV, -HIGH_52W, -CV_VOL, -return_1d_pct, -return_5d_pct, -return_20d_pct, -drawdown_60d_pct, -amount_20d_cny; did you mean 'MOM_12_1' or '-MOM_12_1' or 'MOM_ID'?
""")


# ---- the tasks


@pytest.mark.exhaustive
def test_package_offers_four_self_describing_probes_of_one_group() -> None:
    plugins = check_plugin("ktdeval_deanon")
    assert sorted(plugins.resolve_tasks(["deanon"])) == sorted(PROBES.values())
    assert task_of("blinded").windows == load_plugins().make_task("blinded_open_research").windows

    description = task_of("blinded").describe()
    assert {
        "subject",
        "mask",
        "probes_per_window",
        "lookback",
        "screen_factors",
        "harness",
        "data_card",
        "sources",
    } <= description.keys()
    assert description["form"]["name"] == "submit_answer"
    assert description["prompts"].keys() == {"system.md", "user.md"}


@on_each_row(
    "changes, message",
    ({"default_windows": ["W11"]}, "no window 'W11'; did you mean 'W1'"),
    ({"default_windows": []}, "name at least one window"),
    ({"screen_factors": []}, "name at least one factor"),
    ({"probes_per_window": 0}, "probes_per_window"),
    (
        {"windows": {"W1": {"first": "2024-13-01", "last": "2024-06-05"}}},
        "'2024-13-01' is not a date",
    ),
    ({"windows": {"W1": {"first": "2024-07-01", "last": "2024-06-05"}}}, "ends before it begins"),
    ({"mask": "half_blind"}, "mask"),
    ({"colour": 1}, "unknown field 'colour'"),
)
def test_a_bad_config_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    good = load_plugins(["ktdeval_deanon"]).specs("tasks")["deanon_probe"].extra["config"]
    with pytest.raises(ConfigError, match=message):
        DeanonConfig.load({**good, **changes}, "here")


# ---- what is shown


@pytest.mark.parametrize("mask", PROBES)
@pytest.mark.parametrize("number", [0, 7])
def test_a_payload_is_byte_for_byte_what_a_trading_model_gets(mask: str, number: int) -> None:
    """The subject's episode, opened as the engine opens it, with the calls made at its session."""
    target_task = target_task_of(mask)
    task = target_task.task
    probe = samples(mask).probes[number]
    scene = task.scene(target_spec(target_task, spec_of(mask), number), MARKET)
    lens = scene.lens
    step = probe.row - lens.base_row
    context = scene.tool_context(
        step, MARKET.as_of(probe.row), Account(task.trading.initial_cash * 100, {})
    )
    form = ActionForm(task.harness, lens)
    guard = LeakGuard(lens, MARKET)
    parts = SessionParts(
        Reader(), lens, guard, target_task.tools, form, task.harness, CallParams(), 0
    )
    session = GuardedSession(parts, step, context)
    calls = [
        ("market_context", "get_market_context", {}),
        (
            "screen",
            "screen_candidates",
            {"factors": list(task_of(mask).describe()["screen_factors"]), "k": 30},
        ),
        (
            "snapshot",
            "get_stock_snapshot",
            {"stock_id": lens.asset_handle(probe.asset), "lookback": 60},
        ),
    ]
    answers = [
        (key, session.call_tool(ToolCall("1", name, json.dumps(given))))
        for key, name, given in calls
    ]

    assert all(answer.failure is None for _, answer in answers)

    text = ",".join(f'"{key}":{answer.text}' for key, answer in answers)
    assert samples(mask).view(number).text == f"{{{text}}}"
    assert f"```json\n{{{text}}}\n```" in samples(mask).sample(number).user


@pytest.mark.parametrize("number", range(0, 40, 9))
def test_the_probed_stock_and_day_are_the_ones_of_the_snapshot(number: int) -> None:
    sample = samples("bright").sample(number)
    shown = payload_in(sample)
    code = MARKET.codes[samples("bright").probes[number].asset]

    assert shown["snapshot"]["stock_id"] == sample.facts["code"] == code

    day = sample.facts["day"]
    bars = shown["snapshot"]["bars"]["rows"]

    assert shown["snapshot"]["day"] == shown["market_context"]["calendar"]["day"] == day
    assert bars[-1][0] == day
    assert len(bars) <= 60


@pytest.mark.slow
@pytest.mark.parametrize("mask", PROBES)
def test_sent_prompts_contain_nothing_hidden(mask: str) -> None:
    """`attack` puts every text through the leak guard; here the gold answers are looked for by
    hand, too.
    """
    numbers = range(0, 40, 4)
    attack(samples(mask), MARKET, Reader(), numbers)

    for number in numbers:
        sample = samples(mask).sample(number)
        sent = (
            sample.system
            + sample.user
            + json.dumps([sample.form.description, sample.form.parameters], ensure_ascii=False)
        )
        assert (sample.facts["code"][:6] in sent) is not sample.lens.hides_assets
        assert (sample.facts["sector"] in sent) is not sample.lens.hides_assets
        assert (sample.facts["day"] in sent) is not sample.lens.hides_dates


@pytest.mark.parametrize("number", [1, 6])
def test_nothing_after_the_probed_close_shows(number: int) -> None:
    target_task = target_task_of("blinded")
    config = task_of("blinded")._config
    probe = samples().probes[number]
    own = target_spec(target_task, spec_of("blinded"), number)

    assert (
        view_probe(config, target_task, own, poisoned(MARKET, probe.row), probe).text
        == samples().view(number).text
    )


def test_every_probe_has_its_own_alias_map_and_is_byte_reproducible() -> None:
    lenses = [samples().view(number).lens for number in range(12)]
    # 48 names: some may fall together by chance
    assert len({lens.asset_handle(samples().probes[0].asset) for lens in lenses}) > 8
    assert len({lens.order for lens in lenses}) == 12
    assert samples(seed=1).view(0).lens.order != lenses[0].order

    one = samples().sample(5)
    other = samples_of(MARKET).sample(5)

    assert (one.id, one.system, one.user, one.form, one.facts) == (
        other.id,
        other.system,
        other.user,
        other.form,
        other.facts,
    )
    assert len({samples().sample(number).id for number in range(10)}) == 10


def test_the_prompt_states_market_universe_period_and_mask() -> None:
    def brief(**meta: Any) -> str:
        return str(samples_of(replace(MARKET, meta=replace(MARKET.meta, **meta))).sample(0).system)

    # the first window of the task begins in April
    rows = MARKET.day_index("2024-04-19") - MARKET.day_index("2024-03-01") + 1
    for phrase in (
        "The data are not real: a program generated this market, with",
        "the Orbex Large index",
        "the boards among them are main, chinext, star, bse",
        "Codes, company names and industries are hidden",
        (
            f"a period of {rows} consecutive ones, from the first quarter of twenty twenty-four to"
            " the second"
        ),
    ):
        assert phrase in brief()

    assert "The data are real" in brief(synthetic=False)
    assert "drawn anew" in brief(synthetic=False, placebo=True)
    # Labels are no content of the market: the same data under another name give the same brief.
    assert brief(name="made-2024-05-17", source="placebo of another one") == brief()
    assert (
        "an index of large stocks" in samples_of(replace(MARKET, index_names={})).sample(0).system
    )
    assert "Nothing is hidden" in samples("bright").sample(0).system


@on_each_row(
    "day, words",
    ("2024-04-01", "second quarter of twenty twenty-four"),
    ("2010-12-31", "fourth quarter of twenty ten"),
    ("2007-01-01", "first quarter of two thousand and seven"),
    ("2000-07-01", "third quarter of two thousand"),
    ("1999-09-30", "third quarter of nineteen ninety-nine"),
    ("1905-09-30", "third quarter of nineteen oh five"),
    ("1900-02-01", "first quarter of nineteen hundred"),
)
def test_quarters_in_words(day: str, words: str) -> None:
    assert quarter_words(np.datetime64(day)) == f"the {words}"


def test_probe_of_another_plugins_task_uses_that_tasks_mask(
    tmp_path: Path,
) -> None:
    """Task files that extend: a rebased trading task, and the probe of it."""
    (tmp_path / "mine.yaml").write_text("""
        family: mine
        version: "1"
        variants:
          my_rebased_open_research: {extends: blinded_open_research, rebase_prices: true}
          my_rebased_probe: {extends: deanon_probe, subject: my_rebased_open_research, probes_per_window: 6}
        """)
    (tmp_path / "mine.py").write_text(
        "from ktdeval.api import hookimpl, task_specs\n\n@hookimpl\ndef ktdeval_tasks():\n"
        f"    return task_specs({str(tmp_path / 'mine.yaml')!r})\n"
    )
    plugins = load_plugins(["ktdeval_deanon", str(tmp_path / "mine.py")])
    task = plugins.make_task("my_rebased_probe")
    trading = plugins.make_task("my_rebased_open_research")
    rebased = task.samples(
        spec_of("blinded"), MARKET, TargetTask(trading, plugins.tools(trading.tools))
    )

    assert len(rebased) == 6
    assert "rescaled so that its close at the first decision is 100" in rebased.sample(0).system
    assert "original ones" in samples().sample(0).system

    asset = rebased.probes[0].asset
    row = rebased.probes[0].row
    base = rebased.view(0).lens.base_row
    shown = payload_in(rebased.sample(0))["snapshot"]["last_close_cny"]

    assert shown == pytest.approx(
        100 * MARKET.close[row, asset] / MARKET.close[base, asset], rel=1e-4
    )
