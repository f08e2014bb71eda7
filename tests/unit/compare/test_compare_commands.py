"""`ktdeval compare`, `power` and `effects` on cards: what they say, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compare_cards import APART, make_card, save_card, save_run
from ktdeval.cli.main import main

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("memory_only", "fixed_candidate", "open_research")


def figures(windows: int, seeds: int = 1, base: float = 0.0, seed: int = 0) -> dict[tuple[str, int], float]:
    chance = np.random.default_rng(seed)
    return {(f"A{k + 1}", s): base + float(chance.normal(0, 0.03)) for k in range(windows) for s in range(seeds)}


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def report(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    code, out, err = call(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def cards(folder: Path, *made: dict[str, Any]) -> list[Path]:
    return [save_card(folder / str(place), card) for place, card in enumerate(made)]


# ---- compare


def test_a_clear_difference_is_a_verdict_and_noise_is_tied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = figures(10, 2)
    better = {cell: value + 0.05 + 0.001 * place for place, (cell, value) in enumerate(base.items())}
    paths = cards(tmp_path, make_card(base), make_card(better, "house/two"), make_card(figures(10, 2, 0.0, 9), "house/three"))
    found = report(capsys, "compare", *paths)
    one_two, one_three, _ = found["tests"]
    assert one_two["verdict"] == "house/two better"
    assert one_two["p"] == pytest.approx(2 / 2**10)
    assert one_two["p_holm"] == pytest.approx(3 * 2 / 2**10)
    assert one_two["rank_biserial"] == -1.0
    assert one_two["shift"]["low"] <= one_two["shift"]["value"] <= one_two["shift"]["high"] < 0
    assert one_three["verdict"] == "tied"
    text = call(capsys, "compare", *paths)[1]
    assert "house/two better" in text
    assert "tied" in text


def test_a_pair_is_a_window_with_the_median_over_its_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = {("A1", 0): 0.01, ("A1", 1): 0.05, ("A1", 2): 0.02, ("A2", 0): 0.0, ("A2", 1): 0.0, ("A2", 2): 0.0}
    other = {("A1", 0): 0.0, ("A1", 1): 0.0, ("A1", 2): 0.0, ("A2", 0): 0.03, ("A2", 1): 0.01, ("A2", 2): 0.02}
    paths = cards(tmp_path, make_card(one), make_card(other, "house/two"))
    by_window = report(capsys, "compare", *paths)["tests"][0]
    assert [entry["value"] for entry in by_window["differences"]] == pytest.approx([0.02, -0.02])
    by_episode = report(capsys, "compare", *paths, "--pairs", "episode")
    assert by_episode["tests"][0]["n"] == 6
    assert any("as in KTD-Fin" in note for note in by_episode["notes"])


def test_five_windows_are_told_that_they_can_not_reach_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = figures(5)
    paths = cards(tmp_path, make_card(base), make_card({cell: value + 1 + value for cell, value in base.items()}, "house/two"))
    found = report(capsys, "compare", *paths)
    assert found["tests"][0]["verdict"] == "tied"
    assert found["tests"][0]["shift"]["reason"] == "5 pairs give an interval of at most 93.75 %"
    assert any("can't reach p 0.05 whatever the figures: the smallest p is 0.0625" in note for note in found["notes"])


def test_windows_that_share_days_weaken_the_p_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = {f"A{k}": (f"2024-{k:02d}-01", f"2024-{k + 1:02d}-20") for k in range(1, 9)}
    base = figures(8)
    better = {cell: value + 0.05 + 0.001 * place for place, (cell, value) in enumerate(base.items())}
    paths = cards(tmp_path, make_card(base, windows=shared), make_card(better, "house/two", windows=shared))
    found = report(capsys, "compare", *paths)
    row = found["tests"][0]
    assert row["wilcoxon"]["p_if_windows_were_apart"] == pytest.approx(2 / 2**8)
    assert row["p"] > 2 * row["wilcoxon"]["p_if_windows_were_apart"]
    assert row["sign_flip"]["blocks"] == 1
    assert any("share days" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"snapshot": {"id": "f" * 64}}, "different snapshot"),
        ({"mask": "bright"}, "different masks: blinded and bright"),
        ({"mode": "memory_only"}, "different modes"),
        ({"config": {"version": "2"}}, "different task versions"),
        ({"config": {"harness": {"max_tool_calls": 6}}}, "different task configs"),
        ({"rules": "paper"}, "different metric rules"),
        ({"limit": 5}, "different limits"),
    ],
)
def test_cards_that_can_not_be_compared_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], reason: str
) -> None:
    code, out, err = call(capsys, "compare", *cards(tmp_path, make_card(figures(6)), make_card(figures(6), "house/two", **change)))
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1


def test_unpaired_cards_are_refused_unless_the_common_part_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = cards(tmp_path, make_card(figures(6, 2)), make_card(figures(7, 1), "house/two"))
    code, _, err = call(capsys, "compare", *paths)
    assert code == 2
    assert "unpaired: it has not finished window A7 seed 0" in err
    assert report(capsys, "compare", *paths, "--common")["tests"][0]["n"] == 6
    nothing = cards(tmp_path / "b", make_card({("A1", 0): 0.1}), make_card({("A1", 1): 0.1}, "house/two"))
    assert "no window and seed in common" in call(capsys, "compare", *nothing, "--common")[2]


def test_a_window_name_with_two_meanings_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = {name: (f"2040{dates[0][4:]}", f"2040{dates[1][4:]}") for name, dates in APART.items()}
    paths = cards(tmp_path, make_card({("A1", 0): 0.1}), make_card({("A1", 0): 0.1}, "house/two", windows=moved))
    assert "window A1 is" in call(capsys, "compare", *paths)[2]


def test_one_card_twice_one_card_alone_and_an_unknown_metric_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = cards(tmp_path, make_card(figures(6)), make_card(figures(6), "house/two"))
    assert "given twice" in call(capsys, "compare", paths[0], paths[0])[2]
    assert "at least two" in call(capsys, "compare", paths[0])[2]
    assert "did you mean 'total_return'" in call(capsys, "compare", *paths, "--metric", "total_retur")[2]
    (tmp_path / "empty").mkdir()
    assert "no cards here" in call(capsys, "compare", tmp_path / "empty", paths[0])[2]


def test_undefined_figures_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = {**figures(7), ("A1", 0): None}
    paths = cards(tmp_path, make_card(some), make_card(figures(7, 1, 0.0, 3), "house/two"))
    row = report(capsys, "compare", *paths)["tests"][0]
    assert (row["n"], row["left_out"]) == (6, {"house/one: no steps": 1})
    nothing = cards(tmp_path / "b", make_card(dict.fromkeys(some)), make_card(figures(7), "house/two"))
    row = report(capsys, "compare", *nothing)["tests"][0]
    assert (row["p"], row["verdict"], row["reason"]) == (None, None, "no pair")


def test_cards_of_one_model_are_told_apart_by_agent_arguments_or_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_args = cards(tmp_path, make_card(figures(6)), make_card(figures(6, 1, 0.0, 1), args={"positions": 5}))
    assert report(capsys, "compare", *by_args)["tests"][0]["second"] == "house/one(positions=5) react"
    same = cards(tmp_path / "b", make_card(figures(6)), make_card(figures(6, 1, 0.0, 1)))
    assert str(same[1]) in report(capsys, "compare", *same)["tests"][0]["second"]


def test_identical_cards_are_tied_and_never_divide_by_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = cards(tmp_path, make_card(figures(6)), make_card(figures(6), "house/two"))
    row = report(capsys, "compare", *paths)["tests"][0]
    assert (row["verdict"], row["p"], row["rank_biserial"], row["shift"]["value"]) == ("tied", 1.0, None, 0.0)


def test_without_ledgers_the_daily_tests_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = cards(tmp_path, make_card(figures(6)), make_card(figures(6, 1, 0.0, 1), "house/two"))
    found = report(capsys, "compare", *paths)
    assert found["daily"][0]["reason"] == "house/one: no ledgers beside the card"
    assert found["best"][0]["tied_with_best"] is None


def test_daily_tests_read_the_ledgers_beside_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chance = np.random.default_rng(1)
    windows = [f"A{k}" for k in range(1, 13)]
    cells = {(window, seed): 0.01 for window in windows for seed in (0, 1)}
    for place, (model, drift) in enumerate((("house/one", 0.0), ("house/two", 0.02))):
        daily = {cell: chance.normal(drift, 0.01, 5) for cell in cells}
        save_run(tmp_path / str(place), make_card(cells, model), daily)
    found = report(capsys, "compare", tmp_path / "0", tmp_path / "1")
    daily_row, best = found["daily"][0], found["best"][0]
    assert daily_row["n"] == 60
    assert daily_row["verdict"] == "house/two better"
    assert best["tied_with_best"] == ["house/two"]
    ledger = next((tmp_path / "0" / "episodes").rglob("ledger.parquet"))
    ledger.write_bytes(ledger.read_bytes() + b" ")
    assert (
        "is not the ledger that the card was made from"
        in report(capsys, "compare", tmp_path / "0", tmp_path / "1")["daily"][0]["reason"]
    )


def test_run_folders_of_many_tasks_are_compared_task_by_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, model in enumerate(("house/one", "house/two")):
        for mask in ("bright", "blinded"):
            save_card(tmp_path / str(place), make_card(figures(6, 1, 0.0, place), model, mask=mask))
    found = report(capsys, "compare", tmp_path / "0", tmp_path / "1")
    assert [row["task"] for row in found["tests"]] == ["blinded_open_research", "bright_open_research"]
    code, _, err = call(capsys, "compare", tmp_path / "0")
    assert code == 2
    assert "ktdeval effects" in err


def test_only_the_first_against_the_others_is_a_smaller_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = cards(tmp_path, *(make_card(figures(6, 1, 0.0, k), f"house/{k}") for k in range(4)))
    assert len(report(capsys, "compare", *paths)["tests"]) == 6
    assert len(report(capsys, "compare", *paths, "--against-first")["tests"]) == 3


def test_equal_commands_give_equal_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = {f"A{k}": (f"2024-{k:02d}-01", f"2024-{k + 1:02d}-20") for k in range(1, 9)}
    paths = cards(tmp_path, make_card(figures(8), windows=shared), make_card(figures(8, 1, 0.0, 1), "house/two", windows=shared))
    assert call(capsys, "compare", *paths, "--json") == call(capsys, "compare", *paths, "--json")


# ---- effects


def design(folder: Path, masks: tuple[str, ...] = MASKS, modes: tuple[str, ...] = MODES, **changes: Any) -> list[Path]:
    """Cards with planted worths: stock 4 %, date 1 %, stock and date together 2 % more; data 3 %, tools 6 %."""
    made = []
    for mask in masks:
        for mode in modes:
            stock, date = mask in ("bright", "date_blind"), mask in ("bright", "stock_blind")
            worth = (
                0.04 * stock
                + 0.01 * date
                + 0.02 * (stock and date)
                + 0.03 * (mode != "memory_only")
                + 0.06 * (mode == "open_research")
            )
            noise = figures(8, 2)
            extra = changes if (mask, mode) == (masks[-1], modes[-1]) else {}
            made.append(make_card({cell: value + worth for cell, value in noise.items()}, mask=mask, mode=mode, **extra))
    return cards(folder, *made)


def test_planted_effects_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "effects", *design(tmp_path))
    values = {(row["mode"], row["effect"]): row["value"] for row in found["effects"]}
    assert len(values) == 12
    for mode in MODES:
        assert values[mode, "memory_premium"] == pytest.approx(0.07)
        assert values[mode, "stock_effect"] == pytest.approx(0.05)
        assert values[mode, "date_effect"] == pytest.approx(0.02)
        assert values[mode, "interaction"] == pytest.approx(0.02)
    ladder = {row["piece"]: row["value"] for row in found["ladder"] if row["over"] == "4 masks"}
    assert ladder == pytest.approx({"data": 0.03, "date": 0.02, "stock": 0.05, "tools": 0.06, "total": 0.16})
    blinded = {row["piece"]: row["value"] for row in found["ladder"] if row["over"] == "blinded"}
    assert blinded == pytest.approx({"data": 0.03, "tools": 0.06, "total": 0.09})


def test_the_ladder_adds_up_in_every_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [
        make_card(figures(6, 3, 0.0, 10 * i + j), mask=mask, mode=mode)
        for i, mask in enumerate(MASKS)
        for j, mode in enumerate(MODES)
    ]
    found = report(capsys, "effects", *cards(tmp_path, *made))
    for over in (*MASKS, "4 masks"):
        rows = {row["piece"]: row["value"] for row in found["ladder"] if row["over"] == over}
        total = rows.pop("total")
        assert sum(rows.values()) == pytest.approx(total, abs=1e-12)


def test_bright_and_blinded_alone_give_the_headline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "effects", *design(tmp_path, ("bright", "blinded"), ("memory_only", "open_research")))
    assert {row["effect"] for row in found["effects"]} == {"memory_premium"}
    pieces = {row["piece"]: row["value"] for row in found["ladder"] if row["over"] == "2 masks"}
    assert pieces == pytest.approx({"date and stock": 0.07, "data and tools": 0.09, "total": 0.16})
    text = call(capsys, "effects", *design(tmp_path / "b", ("bright", "blinded"), ("open_research",)))[1]
    assert "memory premium (bright - blinded)" in text
    assert "above zero" in text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"snapshot": {"id": "f" * 64}}, "different snapshot"),
        ({"rules": "paper"}, "different metric rules"),
        ({"call": {"temperature": 0.0}}, "different call parameters"),
        ({"config": {"harness": {"max_tool_calls": 6}}}, "different task configs (harness)"),
        ({"config": {"prompts": {"user.md": "0"}}}, "different prompts"),
    ],
)
def test_effects_refuse_what_would_mix_with_the_mask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], reason: str
) -> None:
    code, _, err = call(capsys, "effects", *design(tmp_path, ("bright", "blinded"), ("open_research",), **change))
    assert code == 2
    assert reason in err


def test_effects_need_something_to_set_against_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing to set against" in call(capsys, "effects", *design(tmp_path, ("blinded",), ("open_research",)))[2]
    twice = cards(tmp_path / "b", make_card(figures(6)), make_card(figures(6)))
    assert "are both blinded open_research" in call(capsys, "effects", *twice)[2]


def test_one_window_has_effects_without_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = cards(tmp_path, make_card({("A1", 0): 0.1}, mask="bright"), make_card({("A1", 0): 0.04}))
    row = report(capsys, "effects", *paths)["effects"][0]
    assert row["value"] == pytest.approx(0.06)
    assert (row["low"], row["reason"]) == (None, "one window says nothing of other windows")
    assert call(capsys, "effects", *paths)[0] == 0


# ---- power


def test_power_says_what_five_windows_can_not_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "power", "--windows", "5")
    assert code == 0
    assert "5 windows can't reach it, whatever the agents do: the smallest p of an exact test is 0.0625" in out
    found = report(capsys, "power", "--windows", "10", "--comparisons", "45")
    assert found["windows_for_any_result"] == 11


@pytest.mark.parametrize(("windows", "percent"), [(6, 38.8), (20, 21.3), (60, 12.3)])
def test_power_from_a_tracking_error(capsys: pytest.CaptureFixture[str], windows: int, percent: float) -> None:
    options = ("--tracking-error", "0.1", "--window-days", "21", "--days-per-year", "242")
    found = report(capsys, "power", "--windows", str(windows), *options)
    assert 100 * found["by_seeds"][0]["effect_normal_per_year"] == pytest.approx(percent, abs=0.05)
    assert found["by_seeds"][0]["effect"] > found["by_seeds"][0]["effect_normal"]


def test_power_says_how_many_windows_and_seeds_an_effect_needs(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(
        capsys, "power", "--effect", "0.02", "--window-sd", "0.02", "--seed-sd", "0.03", "--windows", "20", "--seeds", "3"
    )
    needed = [row["windows_needed"] for row in found["by_seeds"]]
    assert [row["seeds"] for row in found["by_seeds"]] == [1, 2, 3, 5, 10, None]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] > needed[-1] >= 6
    silent = report(capsys, "power", "--effect", "0.02", "--window-sd", "0", "--windows", "5")
    assert (silent["by_seeds"][0]["windows_needed"], silent["by_seeds"][0]["power"]) == (6, 0.0)


def test_power_estimates_the_noise_from_cards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = cards(tmp_path, make_card(figures(12, 5)), make_card(figures(12, 5, 0.0, 1), "house/two"))
    found = report(capsys, "power", *paths, "--effect", "0.02")[0]
    assert (found["windows"], found["seeds"]) == (12, 5)
    assert found["seed_sd"] == pytest.approx(0.03, rel=0.2)  # all of it is seed noise
    assert found["window_sd"] < 0.02
    assert call(capsys, "power", *paths)[0] == 0
    one = cards(tmp_path / "b", make_card({("A1", 0): 0.1}), make_card({("A1", 0): 0.04}, "house/two"))
    assert report(capsys, "power", *one)[0]["reason"] == "one window does not show how much windows differ"


def test_power_refuses_contradicting_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give the spread once" in call(capsys, "power", "--window-sd", "0.1", "--tracking-error", "0.1")[2]
    assert "--seed-sd needs" in call(capsys, "power", "--seed-sd", "0.1")[2]
    path = cards(tmp_path, make_card(figures(6)))[0]
    assert "needs two cards" in call(capsys, "power", path)[2]
    assert call(capsys, "power", "--windows", "0")[0] == 2


@pytest.mark.parametrize("command", ["compare", "power", "effects"])
def test_every_option_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = call(capsys, command, "--help")
    assert code == 0
    assert "Options:" in out
