"""Attackers that need no language model: what they find, and that they receive only the payload."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import astuple, replace
from functools import cache
from pathlib import Path
from typing import Any

import identifiability
import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from judging import Chances, Gold, Hits, chances_of, judge

from ktdeval.errors import DataError
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.masking import figure
from ktdeval.masking.aliases_and_noise import round_significant
from ktdeval.masking.mask_config import MASK_KINDS, MaskConfig
from ktdeval.masking.payload_types import render_number
from ktdeval.testing import not_empty, on_each_row, small_market
from ktdeval_deanon.certificate.lookup_attackers import (
    AttackerGuess,
    RandomAttacker,
    field_sets,
    weigh,
)
from ktdeval_deanon.certificate.payload_matching import (
    FIELDS,
    PayloadComparisons,
    figure_span,
    read_payload,
    stands_for,
)
from ktdeval_deanon.certificate.public_history import PARTS, PublicHistory
from support.accept.accept_runs import import_real
from support.json_places import with_value
from support.masking.masked_payloads import Masked, drawn, table

MARKET = small_market()
LEVELS = next(iter(MARKET.indices.values()))
MARKET = replace(
    MARKET,
    indices={**MARKET.indices, **{f"60990{k}.SH": LEVELS ** (1.0 + k / 9.0) for k in (2, 3, 4)}},
)
HISTORY = identifiability.history_of(MARKET)
LAST = len(MARKET.days) - 1
SUSPENDED = (LAST - 20, LAST - 11, 5)  # no bar on this day and the six before it
PROBES = [*drawn(MARKET, 14, first=255), SUSPENDED]
EXACT_MASKS = [
    MaskConfig(),
    MaskConfig(rebase_prices=True),
    MaskConfig(round_digits=4),
    MaskConfig(round_digits=3),
    MaskConfig(rebase_prices=True, round_digits=2),
    MaskConfig("bright", round_digits=3),
    MaskConfig("stock_blind"),
    MaskConfig("date_blind", rebase_prices=True),
]
NOISY_MASKS = [
    MaskConfig(noise_pct=0.5),
    MaskConfig(noise_pct=2.0),
    MaskConfig(rebase_prices=True, round_digits=3, noise_pct=1.0),
]


def attack(
    payload: Any, history: PublicHistory, fields: Any = FIELDS, mask: MaskConfig | None = None
) -> AttackerGuess:
    """The exact matcher."""
    return weigh(payload, history, fields, mask).guess(fields)


@cache
def masked(mask: MaskConfig, base: int, seed: int = 1) -> Masked:
    return Masked(MARKET, mask, base, seed)


@cache
def payload_of(mask: MaskConfig, probe: tuple[int, int, int], lookback: int = 20) -> dict[str, Any]:
    base, row, asset = probe
    return masked(mask, base).payload(row, asset, lookback)


def gold_of(probe: tuple[int, int, int]) -> Gold:
    return Gold.of(MARKET, probe[2], probe[1])


# ---- the exact matcher


@pytest.mark.exhaustive
@pytest.mark.parametrize("mask", [*EXACT_MASKS, *NOISY_MASKS], ids=repr)
def test_perfect_memory_finds_stock_and_day_of_every_probe(
    mask: MaskConfig,
) -> None:
    fields = 0
    shut_out = []
    for probe in PROBES:
        evidence = weigh(payload_of(mask, probe), HISTORY, FIELDS, mask)
        assert judge(evidence.guess(), gold_of(probe), HISTORY.rows) == Hits(*[True] * 8)
        true = {
            field: np.broadcast_to(agrees, MARKET.close.shape)[probe[1:]]
            for field, agrees in evidence.agrees.items()
        }
        shut_out += [(field, probe) for field, agrees in true.items() if not agrees]
        fields += len(true)

    assert len(shut_out) <= (0.02 * fields if mask.noise_pct else 0), shut_out


def test_perfect_memory_identifies_probes_by_returns_despite_rebasing() -> None:
    mask = MaskConfig(rebase_prices=True)
    guesses = [attack(payload_of(mask, probe), HISTORY, ["returns"], mask) for probe in PROBES]

    assert [(guess.tickers[0], guess.day) for guess in guesses] == [
        (gold_of(probe).ticker, gold_of(probe).day) for probe in PROBES
    ]


@pytest.mark.exhaustive
def test_last_close_leaves_many_candidates_and_rebasing_or_rounding_more() -> None:
    def mean_k(mask: MaskConfig) -> float:
        counts = [
            weigh(payload_of(mask, probe), HISTORY, ["price_level"], mask).anonymity(
                ["price_level"]
            )
            for probe in PROBES
        ]
        return float(np.mean(counts))

    original = mean_k(MaskConfig())

    assert 1 < original < mean_k(MaskConfig(round_digits=3)) < mean_k(MaskConfig(round_digits=2))
    assert original < mean_k(MaskConfig(rebase_prices=True))


def test_a_level_means_the_close_as_traded() -> None:
    probe = PROBES[0]
    evidence = weigh(payload_of(MaskConfig(), probe), HISTORY, ["price_level"])
    same = np.abs(MARKET.close - MARKET.close[probe[1], probe[2]]) < 0.005

    assert np.array_equal(evidence.agrees["price_level"], same)
    assert evidence.anonymity(["price_level"]) == same.sum()


@pytest.mark.parametrize(
    "mask",
    [
        MaskConfig(round_digits=2),
        MaskConfig(round_digits=1),
        MaskConfig(rebase_prices=True, round_digits=1),
    ],
)
def test_who_agrees_is_who_would_be_shown_the_same(mask: MaskConfig) -> None:
    """Held against rendering the payload of every asset on many days, each as many days after its
    episode's start.
    """
    start = 262
    row = 265
    asset = 4

    def volumes(day: int, column: int) -> Any:
        snapshot = masked(mask, day - (row - start)).snapshot(day, column, 1)
        bars = [(bar["volume_shares"], bar["amount_cny"]) for bar in table(snapshot["bars"])]
        return (bars, snapshot["factors"]["amount_20d_cny"]) if bars else None

    evidence = weigh(masked(mask, start).payload(row, asset, 1), HISTORY, ["volume"], mask)
    rows = range(row - 3, row + 4)
    wanted = volumes(row, asset)
    same = np.zeros((len(rows), len(MARKET.codes)), dtype=bool)

    for day, column in np.ndindex(*same.shape):
        same[day, column] = volumes(rows[day], column) == wanted

    agreeing = evidence.agrees["volume"][rows.start : rows.stop]

    assert same[3, asset]
    assert (agreeing | ~same).all()  # nobody who looks the same is shut out
    # rounding twice leaves a little to doubt
    assert same.sum() <= agreeing.sum() <= 1.25 * same.sum() + 2
    assert mask.round_digits == 2 or same.sum() > 1  # one digit leaves others who look the same


def test_days_without_a_bar_tell_who_was_suspended() -> None:
    """A payload stripped of all its numbers still shows on which days there was no trade."""
    base, row, asset = SUSPENDED
    payload = payload_of(MaskConfig(), SUSPENDED)
    days = [[bar["day"]] for bar in table(payload["snapshot"]["bars"])]
    bare = {
        **payload,
        "snapshot": {
            **payload["snapshot"],
            "factors": {},
            "bars": {"columns": ["day"], "rows": days},
        },
    }
    missing = set(range(row - 19, row + 1)) - {
        masked(MaskConfig(), base).lens.parse_day(day[0]) for day in days
    }

    assert len(missing) >= 7

    evidence = weigh(bare, HISTORY, ["returns"])
    closed = np.isnan(MARKET.close)
    expected = np.zeros_like(closed)

    for day in range(19, LAST + 1):
        expected[day] = np.all([closed[day - (row - gone)] for gone in missing], axis=0)

    assert np.array_equal(evidence.agrees["returns"][19:], expected[19:])
    assert expected[row, asset]
    assert 1 <= evidence.anonymity(["returns"]) < 10


def test_the_board_field_means_board_and_membership() -> None:
    boards = HISTORY.boards
    base = LAST - 30
    row = LAST - 25
    outsider = 47  # never an index member

    for asset in (4, outsider):
        evidence = weigh(masked(MaskConfig(), base).payload(row, asset), HISTORY, ["board"])
        same = np.broadcast_to(boards == boards[asset], MARKET.member.shape)
        assert np.array_equal(
            evidence.agrees["board"], same & MARKET.member if asset == 4 else same
        )


def test_the_matcher_knows_the_law_of_the_noise() -> None:
    """Shown prices over the last close lie off the true ones by nothing on average, and by one unit
    of scale.
    """
    mask = MaskConfig(noise_pct=3.0)
    off: dict[str, list[float]] = {part: [] for part in PARTS}

    for base, row, asset in PROBES[:12]:
        evidence = dict(
            PayloadComparisons(
                read_payload(payload_of(mask, (base, row, asset)), HISTORY.rows), HISTORY, mask
            ).by_field()
        )
        for clue in evidence["returns"]:
            for part, values in HISTORY.log_prices.items():
                if clue.values is values and clue.minus is not None:
                    true = (
                        values[row + clue.offset, asset]
                        - clue.minus[row + clue.minus_offset, asset]
                    )
                    off[part].append(float((true - clue.shown) / clue.scale))

    # One reference price is behind twenty ratios, so the mean of a dozen payloads is no better than
    # that of a dozen draws.
    reference = np.mean(off["close"])
    for part in PARTS:
        assert np.mean(off[part]) - reference == pytest.approx(0.0, abs=0.2), part
        assert np.std(off[part]) == pytest.approx(1.0, abs=0.25), part


def test_more_fields_leave_fewer() -> None:
    mask = MaskConfig(round_digits=1, noise_pct=5.0)
    for probe in PROBES[:10]:
        evidence = weigh(payload_of(mask, probe, 3), HISTORY, FIELDS, mask)
        counts = [evidence.anonymity(FIELDS[:size]) for size in range(len(FIELDS) + 1)]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] == HISTORY.is_listed.sum()


def test_one_pass_serves_all_field_sets() -> None:
    payload = payload_of(MaskConfig(), PROBES[3])
    whole = weigh(payload, HISTORY)
    for name, fields in not_empty(field_sets().items()):
        part = weigh(payload, HISTORY, fields)
        assert part.anonymity(fields) == whole.anonymity(fields), name
        assert part.guess(fields) == whole.guess(fields), name


def test_the_answer_depends_on_shown_values_and_not_on_identities() -> None:
    """The same numbers under another handle, or other seeds, give the same answer; another asset's
    numbers that other asset.
    """
    base, row, asset = PROBES[1]
    payload = payload_of(MaskConfig(), PROBES[1])
    of = masked(MaskConfig(), base)
    guess = attack(payload, HISTORY)

    assert (
        attack({**payload, "snapshot": {**payload["snapshot"], "stock_id": "asset_0001"}}, HISTORY)
        == guess
    )

    reseeded = masked(MaskConfig(), base, seed=2).payload(row, asset)
    assert reseeded["snapshot"]["stock_id"] != payload["snapshot"]["stock_id"]
    assert attack(reseeded, HISTORY) == guess

    mixed = {
        **payload,
        "snapshot": {**of.snapshot(row, 9), "stock_id": of.lens.asset_handle(asset)},
    }

    assert attack(mixed, HISTORY, ["returns", "volume"]).tickers[0] == MARKET.codes[9]


# ---- it is given nothing but the payload


def test_labels_are_read_where_the_mask_shows_them() -> None:
    for probe in PROBES[:8]:
        gold = gold_of(probe)
        shown = {
            kind: weigh(payload_of(MaskConfig(kind), probe), HISTORY, ["labels"])
            for kind in MASK_KINDS
        }
        assert judge(shown["bright"].guess(["labels"]), gold, HISTORY.rows) == Hits(*[True] * 8)
        assert shown["bright"].anonymity(["labels"]) == 1
        assert shown["stock_blind"].guess(["labels"]).day == gold.day
        assert shown["date_blind"].guess(["labels"]).tickers[0] == gold.ticker
        assert shown["blinded"].agrees == {}


def test_ties_are_drawn_by_seed_and_favour_no_column() -> None:
    payload = payload_of(MaskConfig(), PROBES[0])
    evidence = weigh(payload, HISTORY, ["board"])
    firsts = [evidence.guess(["board"], seed).tickers[0] for seed in range(60)]

    assert evidence.guess(["board"], 7) == evidence.guess(["board"], 7)
    assert len(set(firsts)) > 12
    assert {HISTORY.boards[MARKET.asset_index[code]] for code in firsts} == {
        payload["snapshot"]["board"]
    }


# ---- the date


@pytest.mark.parametrize(
    "mask", [MaskConfig(), MaskConfig(rebase_prices=True)], ids=["blinded", "rebased"]
)
@pytest.mark.parametrize("field", ["index", "breadth"])
def test_the_market_as_a_whole_tells_the_day(mask: MaskConfig, field: str) -> None:
    for probe in PROBES:
        guess = attack(payload_of(mask, probe), HISTORY, [field], mask)
        assert guess.day == gold_of(probe).day, probe


@pytest.mark.parametrize("mask", [MaskConfig(noise_pct=2.0), MaskConfig(round_digits=1)])
def test_a_coarse_mask_of_days_leaves_the_market_as_a_whole_out(mask: MaskConfig) -> None:
    payload = payload_of(mask, PROBES[0])
    assert list(payload["market_context"]) == ["calendar"]
    assert "ranked_of" not in payload["screen"]
    assert weigh(payload, HISTORY, ["index", "breadth"], mask).agrees == {}


def test_the_market_as_a_whole_tells_no_stock() -> None:
    evidence = weigh(payload_of(MaskConfig(), PROBES[0]), HISTORY, ["index"])
    assert evidence.anonymity(["index"]) == HISTORY.is_listed[PROBES[0][1]].sum()
    assert len({evidence.guess(["index"], seed).tickers[0] for seed in range(20)}) > 5


# ---- the public history says what the tools say


@pytest.mark.parametrize("row", [0, 1, 6, 30, 70, 255, LAST])
def test_figures_match_the_tools(row: Any) -> None:
    step = masked(MaskConfig("bright"), min(row, 255)).step(row)
    for name, values in not_empty(step.dims.items()):
        ours = HISTORY.figure(name)
        np.testing.assert_allclose(
            ours[row], values, rtol=2e-5, atol=1e-5, err_msg=f"{name} on row {row}"
        )


def test_what_a_history_does_not_know_is_not_compared() -> None:
    bare = PublicHistory(MARKET)
    assert bare.figure("MOM_12_1") is None
    assert bare.figure("return_5d_pct") is not None
    assert "factors" not in weigh(payload_of(MaskConfig(), PROBES[0]), bare).agrees

    with pytest.raises(DataError, match=r"factor SKEW has shape \(3, 2\)"):
        PublicHistory(MARKET, {"SKEW": np.zeros((3, 2))})


@on_each_row(
    "shown, digits, low, high",
    (12.34, 6, 12.33995, 12.34005),
    (12.3, 3, 12.25, 12.35),
    (9.99, 3, 9.985, 9.995),
    (10.0, 3, 9.995, 10.05),
    (-1.234, 4, -1.2345, -1.2335),
    (0.0123, 4, 0.012295, 0.012305),
    (0.0, 4, -5e-06, 5e-06),
    (100000000.0, 2, 99500000.0, 105000000.0),
    (1.0, 1, 0.95, 1.5),
    (0.1, 6, 0.099995, 0.100005),
)
def test_a_rendered_number_gives_an_interval_of_values(
    shown: float, digits: int, low: float, high: float
) -> None:
    assert astuple(stands_for(shown, digits)) == pytest.approx((low, high), rel=1e-12)


@pytest.mark.slow
@given(
    value=st.floats(-1e9, 1e9) | st.floats(-1, 1) | st.floats(-1e-3, 1e-3),
    digits=st.none() | st.integers(1, 6),
)
@example(value=0.0091149538, digits=None)  # 0.009115 by the tool, then 0.00911 or 0.00912
@example(value=0.00000549, digits=2)
def test_a_number_is_in_the_interval_of_its_rendering(value: float, digits: int | None) -> None:
    of_tool = figure(value)
    slack = 1e-12 * abs(value)
    shown = float(render_number(of_tool if digits is None else round_significant(of_tool, digits)))
    span = figure_span(shown, digits)

    assert span.low - slack <= value <= span.high + slack

    if digits is not None:  # one that no tool has rounded before
        plain = stands_for(float(render_number(round_significant(value, digits))), digits)
        assert plain.low - slack <= value <= plain.high + slack


# ---- payloads that are none


def test_stocks_without_bars_and_unknown_stocks_are_skipped() -> None:
    listed_late = (250, 255, 7)  # from row 260 on
    for base, row, asset in (listed_late, SUSPENDED):
        of = masked(MaskConfig(), base)
        assert len(table(of.snapshot(row, asset, 3)["bars"])) < 3
        weigh(of.payload(row, asset, 3), HISTORY).guess()

    base, row, asset = PROBES[0]
    evidence = weigh(Masked(small_market(seed=12), MaskConfig(), base).payload(row, asset), HISTORY)

    assert evidence.anonymity() == 0
    assert len(evidence.guess().tickers) == 5


@on_each_row(
    "path, value, message",
    (["snapshot"], None, "snapshot: expected a JSON object, was NoneType"),
    (
        ["snapshot", "day"],
        "yesterday",
        "snapshot.day: expected a handle such as day_\\+3 or a day of the public calendar",
    ),
    (["snapshot", "day"], 5, "snapshot.day: expected text, was int"),
    (
        ["snapshot", "bars"],
        {"columns": ["day"], "rows": [[1, 2]]},
        "snapshot.bars: expected rows of 1 values",
    ),
    (
        ["snapshot", "bars"],
        {"columns": ["day"], "rows": [["2030-01-01"]]},
        "snapshot.bars: day: expected a handle",
    ),
    (
        ["market_context", "indices"],
        {"rows": []},
        "market_context.indices: expected a table with columns and rows",
    ),
    (
        ["market_context", "calendar"],
        [],
        "market_context.calendar: expected a JSON object, was list",
    ),
)
def test_an_invalid_payload_is_refused_with_its_place(
    path: tuple[str, ...], value: Any, message: str
) -> None:
    with pytest.raises(DataError, match=f"^payload: {message}"):
        attack(with_value(payload_of(MaskConfig(), PROBES[0]), tuple(path), value), HISTORY)


def test_the_sets_of_an_ablation_are_of_fields_that_exist() -> None:
    with pytest.raises(DataError, match="no field 'return' to attack; did you mean 'returns'"):
        attack(payload_of(MaskConfig(), PROBES[0]), HISTORY, ["return"])  # type: ignore[list-item]

    sets = field_sets(["returns", "board", "index"])

    assert list(sets) == [
        "returns",
        "board",
        "index",
        "all but returns",
        "all but board",
        "all but index",
        "all",
    ]
    assert sets["all but board"] == ("returns", "index")
    assert sets["all"] == ("returns", "board", "index")


# ---- judging, and chance


def test_an_answer_is_judged_by_ticker_date_sector_and_board() -> None:
    days = HISTORY.days
    gold = Gold("B", days[100], "steel", "main")
    near = AttackerGuess(("A", "B"), days[105], "steel", "star")
    far = AttackerGuess(("B",), days[126], "", "main")

    assert judge(near, gold, HISTORY.rows) == Hits(False, True, False, True, True, True, True, True)
    assert judge(far, gold, HISTORY.rows) == Hits(
        True, True, True, False, False, False, True, False
    )
    assert judge(AttackerGuess((*"ACDEF", "B"), "2030-01-01", "", ""), gold, HISTORY.rows) == Hits(
        *[False] * 8
    )

    with pytest.raises(DataError, match="2030-01-01, is no trading day"):
        judge(near, gold._replace(day="2030-01-01"), HISTORY.rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("probe", PROBES[:4])
def test_the_random_attackers_chances_are_those_of_its_answers(
    probe: tuple[int, int, int],
) -> None:
    attacker = RandomAttacker(HISTORY, range(200, 300))
    payload = payload_of(MaskConfig(), probe)
    gold = gold_of(probe)
    chances = chances_of(attacker, payload, gold)
    answers = [judge(attacker.guess(payload, seed), gold, HISTORY.rows) for seed in range(1000)]

    assert attacker.guess(payload, 3) == attacker.guess(payload, 3)

    for name, chance, share in zip(Chances._fields, chances, np.mean(answers, axis=0), strict=True):
        error = math.sqrt(chance * (1 - chance) / 1000)
        assert share == pytest.approx(chance, abs=4 * error + 1e-12), name

    assert chances.board == 1.0


@pytest.mark.parametrize("asset", [20, 45])
def test_chances_by_hand(asset: int) -> None:
    probe = (LAST - 30, LAST - 15, asset)
    assert MARKET.member[probe[1], asset]

    gold = gold_of(probe)
    same = [
        column
        for column in range(48)
        if HISTORY.boards[column] == gold.board and MARKET.member[:, column].any()
    ]

    assert asset == 20 or len(same) < (HISTORY.boards == gold.board).sum()

    chances = chances_of(RandomAttacker(HISTORY), payload_of(MaskConfig(), probe), gold)
    expected = {
        "ticker_top1": 1 / len(same),
        "ticker_top5": 5 / len(same),
        "date_within_5": 11 / len(MARKET.days),
    }
    expected["joint"] = expected["ticker_top5"] * expected["date_within_5"]
    expected["sector"] = np.mean([MARKET.industries[column] == gold.sector for column in same])

    assert {name: getattr(chances, name) for name in expected} == pytest.approx(expected)


def test_the_board_that_no_asset_is_of_tells_nothing() -> None:
    payload = payload_of(MaskConfig(), PROBES[0])
    moon = {**payload, "snapshot": {**payload["snapshot"], "board": "moon"}}

    assert RandomAttacker(HISTORY).guess(moon, 0).tickers

    gold = gold_of(PROBES[0])
    chances = chances_of(RandomAttacker(HISTORY), moon, gold)

    assert chances.ticker_top1 == pytest.approx(1 / len(MARKET.codes))
    assert (
        chances_of(RandomAttacker(HISTORY), payload, gold._replace(ticker="600519.SH")).ticker_top5
        == 0.0
    )

    with pytest.raises(DataError, match="is no trading day"):
        chances_of(RandomAttacker(HISTORY), payload, gold._replace(day="1990-01-01"))


# ---- the tables of the docs


@pytest.mark.exhaustive
def test_the_benchmark_prints_a_line_for_each_field_set_and_mask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {
        name: identifiability.MASKS[name]
        for name in ("blinded", "noise 0.5 %", "rebase, 2 digits, noise 2 %")
    }

    for name, value in (("MASKS", shown), ("COARSENED", tuple(shown)), ("MODELS", ("momentum",))):
        monkeypatch.setattr(identifiability, name, value)

    monkeypatch.setattr(
        sys,
        "argv",
        ["identifiability.py", "--probes", "2", "--steps", "1", "--tables", "fields,masks,single"],
    )
    identifiability.main()
    printed = capsys.readouterr().out

    for begin in (
        "price_level",
        "all but volume",
        "random attacker, computed",
        "noise 0.5 %",
        "rebase, 2 digits, noise 2 %",
    ):
        assert re.search(rf"^\| {begin} \| [\d.]+", printed, re.MULTILINE), begin

    assert re.search(
        r"^\| blinded \| 100\.0 \(.*\| 1\.0000 \| .* \| 100\.0 \| 100\.0 \|$", printed, re.MULTILINE
    )


# ---- real prices


@pytest.mark.shared_data
def test_on_real_prices_every_probe_is_found_under_every_mask(
    shared_data: Path, tmp_path: Path
) -> None:
    market = load_snapshot(import_real(shared_data, tmp_path / "csi300"))
    history = identifiability.history_of(market)
    for mask in (
        MaskConfig(),
        MaskConfig(rebase_prices=True),
        MaskConfig(rebase_prices=True, round_digits=3, noise_pct=0.5),
    ):
        for base, row, asset in not_empty(drawn(market, 8, seed=3, first=480)):
            payload = Masked(market, mask, base).payload(row, asset)
            guess = attack(payload, history, mask=mask)
            assert judge(guess, Gold.of(market, asset, row), history.rows) == Hits(*[True] * 8)
