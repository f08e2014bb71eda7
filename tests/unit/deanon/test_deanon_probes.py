"""Which stocks and days are asked about: seeded, distinct, tradable, and even over boards as far as there are members."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from deanon_play import MARCH, PROBES, samples_of, spec_of, target_task_of, task_of
from ktdeval.contracts.scoring import is_scoring
from ktdeval.contracts.spec import Window
from ktdeval.errors import ConfigError, DataError
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.testing import check_plugin
from ktdeval_deanon.probes import DrawLimits, draw_probes
from ktdfin_market import small_market

LIMITS = DrawLimits(30, 1)


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return small_market()


def boards_of(probes: object) -> Counter[str]:
    return Counter(str(probe.board) for probe in probes)  # type: ignore[attr-defined]


def test_every_probe_is_a_member_that_trades_on_a_decision_day_inside_the_window(market: MarketSnapshot) -> None:
    first, last = market.day_index("2024-03-01"), market.day_index("2024-03-29")
    for probe in draw_probes(market, MARCH, DrawLimits(44, 2), 5):
        assert first <= probe.row < last  # at its last close an episode decides no more
        assert market.member[probe.row, probe.asset]
        assert np.isfinite(market.close[probe.row, probe.asset])
        assert market.volume[probe.row, probe.asset] > 0
        assert market.boards[probe.asset] is probe.board


def test_boards_get_equal_shares(market: MarketSnapshot) -> None:
    shares = boards_of(draw_probes(market, MARCH, LIMITS, 0))
    assert sum(shares.values()) == 30
    assert max(shares.values()) - min(shares.values()) <= 1


def test_a_board_with_few_members_gives_them_all_and_the_others_get_its_share(market: MarketSnapshot) -> None:
    few = market.member.copy()
    star = [asset for asset, board in enumerate(market.boards) if str(board) == "star"]
    few[:, star[2:]] = False
    shares = boards_of(draw_probes(replace(market, member=few), MARCH, DrawLimits(20, 1), 0))
    assert shares.pop("star") == 2
    assert sum(shares.values()) == 18
    assert max(shares.values()) - min(shares.values()) <= 1


def test_any_first_part_is_as_even_as_the_whole(market: MarketSnapshot) -> None:
    probes = draw_probes(market, MARCH, LIMITS, 3)
    for length in (4, 9, 17):
        shares = boards_of(probes[:length])
        assert max(shares.values()) - min(shares.values()) <= 1


def test_no_stock_comes_twice_before_each_of_its_board_came_once(market: MarketSnapshot) -> None:
    assert len({probe.asset for probe in draw_probes(market, MARCH, LIMITS, 0)}) == 30
    probes = draw_probes(market, MARCH, DrawLimits(60, 2), 0)
    assert len({(probe.asset, probe.row) for probe in probes}) == 60
    assert max(Counter(probe.asset for probe in probes).values()) == 2
    main = [probe.asset for probe in probes if str(probe.board) == "main"]
    members = len(set(main))
    assert len(set(main[:members])) == members


def test_seed_and_window_decide_and_nothing_else(market: MarketSnapshot) -> None:
    assert samples_of(market, seed=4, probes_per_window=30).probes == samples_of(market, seed=4, probes_per_window=30).probes
    assert samples_of(market, seed=4, probes_per_window=30).probes != samples_of(market, seed=5, probes_per_window=30).probes
    other = samples_of(market, seed=4, window=Window("x", "2024-03-04", "2024-03-29"), probes_per_window=30)
    assert other.probes != samples_of(market, seed=4, probes_per_window=30).probes


def test_every_mask_is_asked_the_same(market: MarketSnapshot) -> None:
    drawn = [samples_of(market, mask).probes for mask in PROBES]
    assert all(probes == drawn[0] for probes in drawn)
    facts = [[samples_of(market, mask).facts(number) for number in range(40)] for mask in PROBES]
    assert all(one == facts[0] for one in facts)


def test_other_stocks_and_other_days_in_the_data_change_no_draw(market: MarketSnapshot) -> None:
    """Draws go by code and date: a snapshot with more history asks about the same stocks on the same days."""
    cut = 40
    arrays = ("open", "high", "low", "close", "volume", "amount", "factor", "member")
    shorter = replace(
        market, days=market.days[cut:], indices={code: levels[cut:] for code, levels in market.indices.items()},
        **{name: getattr(market, name)[cut:].copy() for name in arrays},
    )  # fmt: skip
    long = [(probe.asset, probe.row - cut) for probe in draw_probes(market, MARCH, LIMITS, 1)]
    assert [(probe.asset, probe.row) for probe in draw_probes(shorter, MARCH, LIMITS, 1)] == long


def test_more_probes_than_there_are_pairs_is_an_error_that_says_what_to_change(market: MarketSnapshot) -> None:
    with pytest.raises(ConfigError, match=r"window March: probes_per_window is 60, but at most 1 for each stock gives 4\d; lower"):
        samples_of(market, probes_per_window=60)


def test_a_window_without_a_decision_day_or_outside_the_data_is_an_error(market: MarketSnapshot) -> None:
    with pytest.raises(DataError, match="choose a longer window"):
        samples_of(market, window=Window("day", "2024-03-01", "2024-03-01"))
    with pytest.raises(DataError, match="outside the data"):
        samples_of(market, window=Window("late", "2025-03-01", "2025-03-29"))


def test_the_subject_must_be_there_and_have_the_mask(market: MarketSnapshot) -> None:
    task = task_of("blinded")
    with pytest.raises(ConfigError, match="needs its target_task 'blinded_open_research'"):
        task.samples(spec_of("blinded"), market, None)
    with pytest.raises(ConfigError, match="its mask is blinded, but that of its target task bright_open_research is bright"):
        task.samples(spec_of("blinded"), market, target_task_of("bright"))


def test_the_package_offers_four_probes_of_one_group() -> None:
    plugins = check_plugin("ktdeval_deanon")
    assert sorted(plugins.resolve_tasks(["deanon"])) == sorted(PROBES.values())
    for mask, name in PROBES.items():
        task = plugins.make_task(name)
        assert is_scoring(task)
        assert (task.mask, task.target_task, task.tools) == (mask, f"{mask}_open_research", ())
        assert task.default_windows == ("W1", "W4", "W6", "W8", "W10")


def test_the_windows_are_those_of_the_trading_tasks() -> None:
    task, trading = task_of("blinded"), load_plugins().make_task("blinded_open_research")
    assert task.windows == trading.windows


def test_a_description_holds_the_whole_config_the_form_and_the_prompts() -> None:
    told = task_of("blinded").describe()
    assert {"subject", "mask", "probes_per_window", "lookback", "screen_factors", "harness", "data_card", "sources"} <= told.keys()
    assert told["form"]["name"] == "submit_answer"
    assert told["prompts"].keys() == {"system.md", "user.md"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"default_windows": ["W11"]}, r"no window 'W11'; did you mean 'W1'"),
        ({"default_windows": []}, "name at least one window"),
        ({"screen_factors": []}, "name at least one factor"),
        ({"probes_per_window": 0}, "probes_per_window"),
        ({"windows": {"W1": {"first": "2024-13-01", "last": "2024-06-05"}}}, "'2024-13-01' is not a date"),
        ({"windows": {"W1": {"first": "2024-07-01", "last": "2024-06-05"}}}, "ends before it begins"),
        ({"mask": "half_blind"}, "mask"),
        ({"colour": 1}, "unknown field 'colour'"),
    ],
)
def test_a_bad_config_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    from ktdeval_deanon.config import DeanonConfig

    good = load_plugins(["ktdeval_deanon"]).specs("tasks")["deanon_probe"].extra["config"]
    with pytest.raises(ConfigError, match=message):
        DeanonConfig.load({**good, **changes}, "here")
