"""A user's commands, from a folder that is not the checkout: a run, its table, its folder, and
everything that reads it later.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ktdeval.cards import metric_word
from support.runs.run_support import (
    MASK_KEY,
    MIXED_RUN,
    PLUGIN,
    SAME_MASK,
    TASK,
    WINDOW,
    Done,
    assert_same,
    card_of,
    cards,
    episodes,
    error_line,
    ktdeval,
    records,
)

PANEL = (
    "total_return",
    "sharpe",
    "max_drawdown",
    "information_ratio",
    "turnover",
    "hhi",
    "cash_ratio",
    "abstention_rate",
    "parse_failure_rate",
    "ece",
)
MOMENTUM = ("--model", "builtin/momentum", "--tasks", TASK)
CHAOS = ("--model", "builtin/chaos", "--tasks", TASK, *SAME_MASK)
WHOLE = (*CHAOS, "--windows", WINDOW, "--limit", 12)


@pytest.fixture(scope="module")
def first(desk: Path) -> tuple[Path, Done]:
    """The README's command, shortened, on the embedded market: the run folder and what was
    printed.
    """
    done = ktdeval(*MOMENTUM, "--windows", "W5", "--limit", "8", cwd=desk)

    assert done.code == 0, done

    (run,) = (desk / "ktdeval-runs").iterdir()

    return run, done


def small_run(desk: Path, folder: Path, *words: object) -> dict[str, Any]:
    """Two steps on the small market; the card. What `words` say counts."""
    done = ktdeval(
        *MOMENTUM,
        "--data",
        desk / "market",
        "--limit",
        "2",
        "--out",
        folder,
        *words,
        cwd=desk,
    )

    assert done.code == 0, done

    return card_of(folder)


# -- what a run prints and leaves
# ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_ends_in_a_table_of_the_whole_panel(first: tuple[Path, Done]) -> None:
    run, done = first
    shown = {
        re.split("  +", line.strip())[0]: re.split("  +", line.strip())[1]
        for line in done.out.splitlines()
        if re.search(r"^    \S.*\S  ", line)
    }
    card = card_of(run)

    assert [name for name, metric in card["metrics"].items() if metric["headline"]] == sorted(PANEL)
    assert set(map(metric_word, PANEL)) <= set(shown)
    # per cent
    assert float(shown["total_return"]) == pytest.approx(
        100 * card["metrics"]["total_return"]["value"], abs=0.005
    )
    assert shown["sharpe"] == "-"  # eight returns are too few to annualise
    assert f"ktdeval card verify {run.relative_to(run.parents[1])}/cards/{TASK}.json" in done.out
    assert "[synthetic] [limited] [mask not tested for this model]" in done.out


def test_progress_goes_to_stderr_with_day_nav_orders_rejections_and_tokens(
    first: tuple[Path, Done],
) -> None:
    lines = first[1].err.splitlines()
    assert lines
    assert all(line.startswith(f"{TASK} W5 seed 0: ") for line in lines)

    for word in ("8/8", "2024-10-30", "NAV ", " orders", " rejected", " tokens"):
        assert word in lines[-1]


def test_a_run_leaves_exactly_the_documented_folder(first: tuple[Path, Done]) -> None:
    run = first[0]
    (episode,) = card_of(run)["episodes"]
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    inside = {
        f"episodes/{episode['id']}/{name}"
        for name in ("ledger.parquet", "transcript.jsonl.zst", "episode.json")
    }

    assert found - {".lock"} == {"manifest.json", f"cards/{TASK}.json"} | inside
    assert run.name.startswith(f"{TASK}-builtin-momentum-")


def test_the_card_follows_its_schema_and_states_the_run(first: tuple[Path, Done]) -> None:
    card = card_of(first[0])
    schema = json.loads(
        importlib.resources.files("ktdeval.cards")
        .joinpath("schema/result-card-v1.json")
        .read_text()
    )

    assert list(Draft202012Validator(schema).iter_errors(card)) == []
    assert card["labels"] == [
        "synthetic",
        "limited",
        "mask not certified",
        "identifiable by its prices",
    ]
    assert (card["limit"], card["seeds"], card["rules"]) == (8, [0], "strict")
    assert card["windows"] == [
        {"name": "W5", "first": "2024-10-21", "last": "2024-12-13", "days": 40}
    ]
    assert card["coverage"] == {
        "episodes_planned": 1,
        "episodes_finished": 1,
        "steps_planned": 8,
        "steps": 8,
        "steps_decided": 8,
    }
    assert set(card["artefacts"]) == {
        f"episodes/{card['episodes'][0]['id']}/{n}"
        for n in ("ledger.parquet", "transcript.jsonl.zst")
    }


@pytest.mark.slow
def test_the_card_verifies_from_another_folder(first: tuple[Path, Done], tmp_path: Path) -> None:
    done = ktdeval("card", "verify", first[0], cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert (
        "verified (episodes: 1, steps executed again: 8, of these traced to the model's own"
        " submission: 8)" in done.out
    )


@pytest.mark.slow
def test_the_same_command_again_does_nothing_twice(desk: Path) -> None:
    log = desk / "calls.log"
    words = (*MIXED_RUN, "--data", "market", "--limit", "4")
    environment = {"RUN_PLUGIN_CALL_LOG": str(log)}

    assert ktdeval(*words, "--out", "again", cwd=desk, environment=environment).code == 0

    run = desk / "again"
    calls = log.read_text()
    card = cards(run)
    state = {
        path: (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
        for path in run.rglob("*")
        if path.is_file()
    }
    done = ktdeval(*words, "--out", "again", cwd=desk, environment=environment)

    assert done.code == 0
    assert done.err == f"{TASK} {WINDOW} seed 0: already complete\n"
    assert log.read_text() == calls
    assert cards(run) == card

    again = {
        path: (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
        for path in run.rglob("*")
        if path.is_file()
    }

    assert {path for path in state.keys() | again.keys() if state.get(path) != again.get(path)} == {
        run / "cards" / f"{TASK}.json"
    }


# -- scoring again
# ---------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_score_rebuilds_the_card_from_records_and_adds_other_rule_sets(
    run: Path, tmp_path: Path
) -> None:
    before = cards(run)
    strict = card_of(run)
    recorded = records(run)
    (run / "cards" / f"{TASK}.json").unlink()

    assert ktdeval("score", run, cwd=tmp_path).code == 0
    assert (cards(run), records(run)) == (before, recorded)
    assert ktdeval("score", run, "--rules", "paper", cwd=tmp_path).code == 0
    assert (cards(run), records(run)) == (before, recorded), "the run's card stays"

    paper = json.loads((run / "cards/paper" / f"{TASK}.json").read_text())
    assert (strict["rules"], paper["rules"]) == ("strict", "paper")

    changed = {
        name
        for name in PANEL
        if strict["metrics"][name]["value"] != paper["metrics"][name]["value"]
    }

    assert "turnover" in changed
    assert "total_return" not in changed

    for path in (run, run / "cards/paper" / f"{TASK}.json"):
        assert ktdeval("card", "verify", path, cwd=tmp_path).code == 0

    assert ktdeval("score", run, "--rules", "strict", cwd=tmp_path).code == 0
    assert cards(run) == before

    other = {
        **strict,
        "metrics": {**strict["metrics"], "turnover": {**strict["metrics"]["turnover"], "n": 7}},
    }
    (run / "cards" / f"{TASK}.json").write_text(json.dumps(other))

    assert ktdeval("score", run, cwd=tmp_path).code == 0
    assert card_of(run) == other, "a card whose figures differ now stays too"
    assert sorted(
        path.relative_to(run / "cards").as_posix() for path in run.glob("cards/*/*.json")
    ) == [f"{name}/{TASK}.json" for name in ("paper", "scored-2")]


@pytest.mark.exhaustive
def test_a_run_and_an_old_run_that_is_scored_take_a_metric_of_a_plugin(
    desk: Path, run: Path, tmp_path: Path
) -> None:
    card = small_run(
        desk, tmp_path / "new", "--windows", WINDOW, "--plugin", PLUGIN, "--metrics", "days_up"
    )

    assert card["metrics"]["days_up"]["n"] == 1
    assert set(PANEL) < set(card["metrics"])

    assert ktdeval("score", run, "--plugin", PLUGIN, "--metrics", "days_up", cwd=tmp_path).code == 0

    path = run / "cards/days_up" / f"{TASK}.json"
    assert 0 < json.loads(path.read_text())["metrics"]["days_up"]["value"] < 1
    assert ktdeval("card", "verify", path, "--plugin", PLUGIN, cwd=tmp_path).code == 0

    line = ktdeval("card", "verify", path, cwd=tmp_path)
    assert line.code != 0
    assert (
        "unknown metric 'days_up': it came from run_plugin; install that plugin, or give its file with --plugin"
        in line.out + line.err
    )
    assert ktdeval("card", "verify", run, cwd=tmp_path).code == 0, (
        "the run's own card needs no plugin"
    )


@pytest.mark.exhaustive
def test_an_old_run_is_scored_by_several_metrics_and_other_rules_at_once(
    run: Path, tmp_path: Path
) -> None:
    metrics = (
        "psr",
        "min_track_record",
        "brier_reliability",
        "brier_resolution",
        "brier_uncertainty",
        "ece_debiased",
        "brier",
        "hhi",
    )

    for asked, folder in (
        (metrics[:2], "paper+psr+min_track_record"),
        (metrics, "paper+" + "+".join(metrics)[:94]),
    ):
        assert (
            ktdeval(
                "score", run, "--rules", "paper", "--metrics", ",".join(asked), cwd=tmp_path
            ).code
            == 0
        )
        path = run / "cards" / folder / f"{TASK}.json"
        assert set(asked) <= set(json.loads(path.read_text())["metrics"])
        assert ktdeval("card", "verify", path, cwd=tmp_path).code == 0


# -- options
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_config_file_is_the_same_run_as_the_options_it_holds(desk: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        f"model: builtin/chaos\ntasks: {TASK}\nwindows: ['{WINDOW}']\nseeds: 2\nlimit:"
        f" 3\nmodel_args: {{misbehaviour: 0.4}}\nmask_key: {MASK_KEY}\ndata: {desk / 'market'}\n"
    )

    assert ktdeval("--config", "run.yaml", "--out", "file", cwd=tmp_path).code == 0

    options = (
        "--windows",
        WINDOW,
        "--seeds",
        2,
        "--limit",
        3,
        "--model-args",
        "misbehaviour=0.4",
        "--data",
        desk / "market",
    )

    assert ktdeval(*CHAOS, *options, "--out", "options", cwd=tmp_path).code == 0

    assert_same(tmp_path / "file", tmp_path / "options")
    assert (
        ktdeval(
            "--config", "run.yaml", "--limit", "1", "--seeds", "1", "--out", "less", cwd=tmp_path
        ).code
        == 0
    )
    assert card_of(tmp_path / "less")["coverage"]["steps"] == 1


@pytest.mark.exhaustive
def test_windows_by_name_are_episodes_of_one_card(tmp_path: Path) -> None:
    done = ktdeval(*MOMENTUM, "--windows", "W1,W4", "--limit", "2", "--out", "run", cwd=tmp_path)
    assert done.code == 0, done

    card = card_of(tmp_path / "run")
    assert [(window["name"], window["days"]) for window in card["windows"]] == [
        ("W1", 43),
        ("W4", 43),
    ]
    assert [(entry["window"], entry["first_day"]) for entry in card["episodes"]] == [
        ("W1", "2024-04-01"),
        ("W4", "2024-09-09"),
    ]
    assert set(card["reference"]["benchmark_buy_and_hold"]) == {"W1", "W4"}


@pytest.mark.slow
def test_a_range_of_days_is_a_window_which_a_limit_beyond_it_does_not_cut(
    desk: Path, tmp_path: Path
) -> None:
    card = small_run(desk, tmp_path / "run", "--windows", "2024-03-05:2024-03-11", "--limit", "50")

    assert card["windows"] == [
        {"name": "2024-03-05:2024-03-11", "first": "2024-03-05", "last": "2024-03-11", "days": 5}
    ]
    assert (card["episodes"][0]["first_day"], card["coverage"]["steps"]) == ("2024-03-05", 5)

    words = (
        "--data",
        desk / "market",
        "--windows",
        "2024-03-05:2024-03-07",
        "--out",
        tmp_path / "whole",
        "--quiet",
    )
    done = ktdeval(*MOMENTUM, *words, cwd=tmp_path)

    assert (done.code, done.err) == (0, "")

    card = card_of(tmp_path / "whole")
    assert card["limit"] is None
    assert "limited" not in card["labels"]


@pytest.mark.slow
def test_several_seeds_give_an_interval(desk: Path, tmp_path: Path) -> None:
    card = small_run(
        desk,
        tmp_path / "run",
        "--windows",
        WINDOW,
        "--model",
        "builtin/random",
        "--seeds",
        "3",
        "--seed",
        "4",
    )

    assert card["seeds"] == [4, 5, 6]

    returns = [entry["metrics"]["total_return"]["value"] for entry in card["episodes"]]
    assert len(set(returns)) == 3
    assert card["metrics"]["total_return"]["value"] == sorted(returns)[1]

    quartiles = card["metrics"]["total_return"]["quartiles"]
    assert min(returns) < quartiles["low"] < quartiles["high"] < max(returns)


@pytest.mark.slow
def test_an_agent_of_a_plugin_with_arguments(desk: Path, tmp_path: Path) -> None:
    agent = ("--plugin", PLUGIN, "--agent", "remembering", "--agent-args", "every=2")
    card = small_run(desk, tmp_path / "run", "--windows", WINDOW, "--limit", "4", *agent)

    assert card["agent"] == {"name": "remembering", "args": {"every": 2}}
    assert card["usage"]["submissions"] == 2
    assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0
    assert "unknown agent 'remembering'" in error_line(
        ktdeval("card", "verify", tmp_path / "run", cwd=tmp_path)
    )


@pytest.mark.exhaustive
def test_a_group_runs_each_of_its_tasks(desk: Path, tmp_path: Path) -> None:
    words = (
        "--model",
        "builtin/random",
        "--tasks",
        "ktdfin",
        "--data",
        desk / "market",
        "--windows",
        WINDOW,
        "--limit",
        "3",
    )

    assert ktdeval(*words, "--out", tmp_path / "run", "--concurrency", "2", cwd=tmp_path).code == 0

    names = {
        f"{mask}_{mode}"
        for mask in ("bright", "stock_blind", "date_blind", "blinded")
        for mode in ("memory_only", "fixed_candidate", "open_research")
    }

    assert {path.stem for path in (tmp_path / "run" / "cards").iterdir()} == names

    for name in names:
        card = card_of(tmp_path / "run", name)
        assert card["orders"]["submitted"] > 0

    done = ktdeval("card", "verify", tmp_path / "run", cwd=tmp_path)

    assert done.code == 0, done
    assert done.out.count(": verified (episodes: 1, steps executed again: 3,") == 12


def test_chaos_counts_every_failure_under_its_kind_and_ends_well(whole: Path) -> None:
    card = card_of(whole)
    assert len(card["failures"]) >= 6
    assert card["coverage"]["steps"] == 12
    assert sum(card["decisions"].values()) == 12
    assert all(
        path.name != "journal.jsonl" for folder in episodes(whole) for path in folder.iterdir()
    )
