"""`ktdeval leaderboard init` and `baselines`: a board in order before anybody has submitted anything, and what is run for it."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import board_teller
from board_runs import (
    TASK,
    TODAY,
    WINDOW,
    begin,
    call,
    change_rules,
    make_run,
    plugins,
    sums_board,
    tree,
    withdraw,
)
from ktdeval.attribution import FACTORS
from ktdeval.cards import load_card, load_evaluation
from ktdeval.errors import ConfigError, DataError, UsageError
from ktdeval.jsonio import loads_strict
from ktdeval.market import with_id
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.typed import to_plain
from ktdeval.yamlio import load_yaml
from ktdeval_board.baselines import MOST_FACTORS, RIDGE, ridge_coefficients, run_baseline, train_coefficients
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.commands.begin import baselines, init
from ktdeval_board.entries import division_of, facets, load_board, seeds_of
from ktdeval_board.exchange.frame import load_frame
from ktdeval_board.init import DEFAULT_BASELINES, NewBoard, init_board
from ktdeval_board.options import as_seeds, moved_market
from ktdeval_board.rules import Baseline, WindowRule, load_errata, load_rules
from ktdeval_board.site.build import build_site

WORKFLOW = ".github/workflows/board.yml"


@pytest.fixture(scope="module")
def board(empty_board: Path) -> Path:
    return empty_board


# ---- what it is


def test_an_empty_board_loads_checks_and_builds(board: Path, tmp_path: Path) -> None:
    assert load_rules(board).divisions[0].task == TASK
    assert load_errata(board) == ()
    assert load_board(board).entries == ()
    report = check_board(board, plugins(), CheckOptions("2026-03-02", record=False))
    assert (report.findings, report.checked) == ((), ())
    build_site(board, tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()


def test_it_holds_rules_errata_readme_schemas_and_a_workflow(board: Path) -> None:
    files = {path for path, content in tree(board).items() if content}
    assert {"board.yaml", "errata.yaml", "README.md", ".gitattributes", ".gitignore", WORKFLOW} <= files
    schemas = {path.name: loads_strict(path.read_bytes()) for path in (board / "schemas").iterdir()}
    assert {f"{kind}-v1.json" for kind in ("submission", "records", "verdict", "result-card", "scoring-card")} <= set(schemas)
    assert all(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema" for schema in schemas.values())


def test_a_run_of_the_same_task_windows_and_seeds_belongs_to_its_division(board: Path, market: Path, tmp_path: Path) -> None:
    rules = load_rules(board)
    card = load_evaluation(make_run(tmp_path / "run", market) / "cards" / f"{TASK}.json")
    assert division_of(rules, card) == rules.divisions[0]
    assert rules.snapshots[0].id == card.snapshot.id
    assert rules.market == "synthetic"


def test_equal_wishes_give_equal_bytes(board: Path, market: Path, tmp_path: Path) -> None:
    begin(tmp_path / "again", market)
    assert tree(tmp_path / "again") == tree(board)


def test_texts_of_any_kind_come_back_as_they_were_given(market: Path, tmp_path: Path) -> None:
    title = """A "board": of #1's 沪深300 — no, {yes} & @@name $x %"""
    rules = begin(tmp_path / "board", market, title=title, summary="null", url="https://example.org").rules
    assert (rules.title, rules.summary, rules.url) == (title, "null", "https://example.org")
    assert (tmp_path / "board" / "README.md").read_text().startswith(f"# {title}\n")


# ---- divisions


def test_each_task_becomes_a_division_with_its_windows_and_seeds(market: Path, tmp_path: Path) -> None:
    tasks = ("blinded_open_research", "bright_*_candidate")
    rules = begin(tmp_path / "board", market, tasks=tasks, windows=(WINDOW, "2024-03-15:2024-03-29"), seeds=(2, 3)).rules
    assert [division.id for division in rules.divisions] == ["blinded-open-research", "bright-fixed-candidate"]
    assert {division.window_names()[1] for division in rules.divisions} == {"2024-03-15:2024-03-29"}
    assert {division.seeds for division in rules.divisions} == {(2, 3)}
    assert (
        "--windows 2024-03-01:2024-03-14,2024-03-15:2024-03-29 --seeds 2 --seed 2 --data"
        in (tmp_path / "board" / "README.md").read_text()
    )


def test_windows_are_the_tasks_own_by_default_and_their_days_stand_in_the_rules(tmp_path: Path) -> None:
    (default,) = begin(tmp_path / "a", Path("synthetic"), baselines=("builtin/hold",), windows=()).rules.divisions
    assert [(window.name, window.first, window.last) for window in default.windows] == [("long", "2024-01-01", "2026-04-10")]
    (some,) = begin(tmp_path / "b", Path("synthetic"), baselines=("builtin/hold",), windows=("W1*", "W1", "W3")).rules.divisions
    assert some.window_names() == ["W1", "W10", "W3"]
    assert (some.windows[0].first, some.windows[0].last) == ("2024-04-01", "2024-06-05")


def test_a_scoring_task_is_ranked_by_its_first_headline_score_and_has_no_baselines(market: Path, tmp_path: Path) -> None:
    rules = begin(tmp_path / "board", market, tasks=("deanon_probe",), baselines=(), certificate="required").rules
    assert (rules.divisions[0].rank_by, rules.divisions[0].certificate, rules.baselines) == ("ticker_top1", "optional", ())
    with pytest.raises(UsageError, match="baselines are for trading tasks"):
        begin(tmp_path / "other", market, tasks=("deanon_probe",))
    assert begin(tmp_path / "third", market, certificate="required").rules.divisions[0].certificate == "required"  # one that trades


# ---- baselines


def test_a_board_that_names_no_baselines_gets_the_usual_ones(market: Path, tmp_path: Path) -> None:
    begun = begin(tmp_path / "board", Path("synthetic"), baselines=(), windows=("W1",))
    kinds = {baseline.model: (baseline.kind, len(baseline.seeds)) for baseline in begun.rules.baselines}
    others = {"builtin/random": ("random", 10), "builtin/linear_factor": ("supervised", 0)}
    assert (kinds, begun.notes) == (dict.fromkeys(DEFAULT_BASELINES, ("rule", 0)) | others, ())
    (note,) = begin(tmp_path / "other", market).notes
    assert "names a folder of this machine" in note


def test_a_market_too_short_to_train_on_has_no_supervised_baseline_and_says_so(market: Path, tmp_path: Path) -> None:
    begun = begin(tmp_path / "board", market, baselines=())
    assert "builtin/linear_factor" not in {baseline.model for baseline in begun.rules.baselines}
    assert any("the supervised baseline can't be trained on it" in note for note in begun.notes)
    with pytest.raises(ConfigError, match="can't be trained"):
        begin(tmp_path / "other", market, baselines=("builtin/linear_factor",))


# ---- what is refused


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"tasks": ("blinded_open_reserch",)}, UsageError, "blinded_open_research"),
        ({"windows": ("W99",)}, UsageError, "has no window 'W99'; did you mean 'W9'"),
        ({"windows": ("W10",)}, DataError, ""),
        ({"seeds": (0, 2)}, UsageError, "expected seeds that follow each other"),
        ({"seeds": ()}, UsageError, "were none"),
        ({"market": "real"}, UsageError, "snapshot small is synthetic; a board never mixes the two"),
        ({"data": "nowhere"}, DataError, "neither a folder nor a data provider"),
        ({"name": "No Slug"}, ConfigError, "name: expected `str` of lower-case letters"),
        ({"url": "ftp://example.org"}, ConfigError, "url: expected an address"),
        ({"title": "two\nlines"}, ConfigError, "--title: expected one line"),
        ({"title": "  "}, ConfigError, "title: expected one line of text"),
        ({"tasks": ()}, UsageError, "no task: name one with --tasks"),
        ({"baselines": ("builtin/momentumm",)}, UsageError, "builtin/momentum"),
    ],
)
def test_what_makes_no_board_is_said_and_nothing_is_left(
    market: Path, tmp_path: Path, changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        begin(tmp_path / "deep" / "board", market, **changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone_and_a_fresh_git_repository_is_empty(market: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds notes\.txt already"):
        begin(tmp_path, market)
    assert tree(tmp_path) == {"notes.txt": b"mine"}
    with pytest.raises(Exception, match="can't be read as a folder"):
        begin(tmp_path / "notes.txt", market)
    (tmp_path / "new" / ".git").mkdir(parents=True)
    begin(tmp_path / "new", market)
    assert load_rules(tmp_path / "new").name == "small"


# ---- what stands around the rules


def test_a_pull_request_is_judged_by_the_base_branch_and_jobs_that_write_take_only_the_verdict(board: Path) -> None:
    text = (board / WORKFLOW).read_text()
    workflow = load_yaml(board / WORKFLOW)
    jobs = workflow["jobs"]
    # A workflow that runs on `pull_request` is that of the pull request itself.
    assert set(workflow["on"]) == {"pull_request_target", "push"}
    assert workflow["permissions"] == {}
    rights = {name: job["permissions"] for name, job in jobs.items()}
    assert rights == {
        "check": {"contents": "read"}, "verdict": {"statuses": "write"}, "judge": {"contents": "read"},
        "record": {"contents": "write"}, "publish": {"pages": "write", "id-token": "write"},
    }  # fmt: skip
    for name, job in jobs.items():
        runs = [step.get("run", "") for step in job["steps"]]
        assert not any("${{" in run for run in runs), "a name of a branch is never pasted into a script"
        if "write" in rights[name].values():
            assert not any(word in run for run in runs for word in ("ktdeval ", "pip ")), name
            assert "proposed" not in str(job), name
    steps = jobs["check"]["steps"]
    installed = next(index for index, step in enumerate(steps) if "pip install" in step.get("run", ""))
    checked_out = next(index for index, step in enumerate(steps) if step.get("uses", "").startswith("actions/checkout@"))
    assert installed < checked_out, "no file of the pull request is there while packages are installed"
    assert {"path": "proposed", "persist-credentials": False}.items() <= steps[checked_out]["with"].items()
    assert "rev-parse HEAD^2" in steps[-2]["run"], "what is checked is what the status is set on"
    assert steps[-1]["run"] == 'ktdeval leaderboard check proposed --since "origin/$BASE" --no-record'
    assert jobs["verdict"]["needs"] == "check"
    assert "needs.check.result == 'success'" in jobs["verdict"]["steps"][0]["env"]["STATE"]
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", name) for name in used), used
    assert "@@" not in text


def test_rules_workflow_and_verdicts_have_owners_and_submissions_have_none(board: Path, market: Path, tmp_path: Path) -> None:
    owners = dict(line.split() for line in (board / ".github" / "CODEOWNERS").read_text().splitlines() if line.startswith("/"))
    assert set(owners.values()) == {"board@example.org"}
    assert {"/board.yaml", "/errata.yaml", "/.github/", "/verdicts/"} <= set(owners)
    assert not {"/cards/", "/records/", "/imported/"} & set(owners)
    begin(tmp_path / "other", market, contact="https://example.org/board")
    assert "/board.yaml @OWNER\n" in (tmp_path / "other" / ".github" / "CODEOWNERS").read_text()


def test_git_changes_no_byte_of_what_is_hashed(board: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / ".gitattributes").write_bytes((board / ".gitattributes").read_bytes())
    card = clone / "cards" / "task" / "model" / "agent" / "id.json"
    card.parent.mkdir(parents=True)
    card.write_bytes(b'{"a":\n1}\r\n')
    git("init", "-q", cwd=clone)
    git("add", ".", cwd=clone)
    card.unlink()
    git("checkout", "-q", "--", ".", cwd=clone)
    assert card.read_bytes() == b'{"a":\n1}\r\n'


def git(*words: str, cwd: Path) -> None:
    subprocess.run(["git", "-c", "core.autocrlf=true", "-c", "core.hooksPath=/dev/null", *words], cwd=cwd, check=True)


def test_the_readme_tells_how_to_submit_and_what_is_refused(board: Path) -> None:
    text = (board / "README.md").read_text()
    said = (
        "ktdeval leaderboard submit run --board .",
        "**One attempt.**",
        "**Attempts are declared.**",
        "errata.yaml",
        "re-executed",
    )
    for words in (*said, f"ktdeval --model PROVIDER/MODEL --tasks {TASK} --windows {WINDOW}"):
        assert words in text
    assert "@@" not in text


# ---- the command


def test_the_command_says_what_was_begun_and_arguments_of_the_data_provider_reach_it(tmp_path: Path) -> None:
    given = "seed=8,first=2024-01-02,last=2024-04-30"
    windows = f"{WINDOW},2024-03-15:2024-03-29"
    words = ("--name", "practice", "--title", "P", "--tasks", TASK, "--windows", windows, "--seeds", "0-1", "--on", "2026-03-01")
    done = call(init, tmp_path / "board", *words, "--baseline", "builtin/hold", "--data-args", given)
    assert done.exit_code == 0, done.output
    assert "board practice of a synthetic market" in done.output
    assert "division blinded-open-research: 2 windows × 2 seeds" in done.output
    rules = load_rules(tmp_path / "board")
    (snapshot,) = rules.snapshots
    assert (rules.opened_on, snapshot.name, snapshot.data) == ("2026-03-01", "synthetic-8", "synthetic")
    assert snapshot.data_args == {"seed": 8, "first": "2024-01-02", "last": "2024-04-30"}
    assert f"--data synthetic --data-args {given}" in (tmp_path / "board" / "README.md").read_text()


def test_options_are_read_strictly() -> None:
    assert as_seeds("2, 0-1") == (0, 1, 2)
    assert moved_market("long", ("a=1,b=x", '{"c": [1]}')) == {"data": "long", "data_args": {"a": 1, "b": "x", "c": [1]}}
    assert moved_market("long", ("a=true,b=1e3,c=[x]",))["data_args"] == {"a": True, "b": 1000.0, "c": "[x]"}
    for text in ("one", "1-", "-1", "0-99999999"):
        with pytest.raises(UsageError, match="--seeds"):
            as_seeds(text)
    for texts in (("a",), ("=1",), ("a=1", "a=2"), ("{",)):
        with pytest.raises(UsageError, match="--data-args"):
            moved_market("long", texts)


# ==== baselines: run and submitted once; the supervised one learns what was planted before the division alone


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return open_snapshot(load_plugins(), "synthetic", {})


def test_a_regression_by_hand() -> None:
    # One factor, one day, exposures -1, 0, 1 and returns 0, 3, 3 (mean 2): x'y = 2 + 1 = 3, x'x = 2, penalty 0.1 * 3 = 0.3.
    coefficients = ridge_coefficients(np.array([[[-1.0, 0.0, 1.0]]]), np.array([[0.0, 3.0, 3.0]]))
    np.testing.assert_allclose(coefficients, [3 / 2.3], rtol=1e-15)


def test_the_regression_is_ridge_and_leaves_out_what_is_undefined() -> None:
    from sklearn.linear_model import Ridge

    generator = np.random.default_rng(3)
    exposures, targets = generator.normal(size=(30, 4, 50)), generator.normal(size=(30, 50))
    exposures[generator.random(exposures.shape) < 0.02] = np.nan
    targets[generator.random(targets.shape) < 0.1] = np.nan
    usable = np.isfinite(targets) & np.isfinite(exposures).all(axis=1)
    y = np.concatenate([targets[day][usable[day]] - targets[day][usable[day]].mean() for day in range(30)])
    x = np.concatenate([exposures[day][:, usable[day]].T for day in range(30)])
    expected = Ridge(alpha=RIDGE * len(y), fit_intercept=False).fit(x, y).coef_
    np.testing.assert_allclose(ridge_coefficients(exposures, targets), expected, rtol=1e-10)


def test_the_strongest_factors_get_a_coefficient_that_the_model_takes_and_equal_markets_give_equal_ones(
    snapshot: MarketSnapshot,
) -> None:
    coefficients = train_coefficients(snapshot, "2024-04-01")
    names = [part.partition(":")[0] for part in coefficients.split()]
    assert names == [factor.name for factor in FACTORS if factor.name in names]
    assert len(names) == MOST_FACTORS
    assert load_plugins().make_model("builtin/linear_factor", {"coefficients": coefficients})
    assert coefficients == train_coefficients(snapshot, "2024-04-01")


def test_nothing_from_the_first_day_on_is_looked_at(snapshot: MarketSnapshot) -> None:
    start = int(np.searchsorted(snapshot.days, np.datetime64("2024-04-01")))
    poisoned = {}
    for name in ("open", "high", "low", "close", "volume", "amount"):
        values = getattr(snapshot, name).copy()
        values[start:] *= 1.7
        poisoned[name] = values
    other = with_id(dataclasses.replace(snapshot, **poisoned, id=""))
    assert other.id != snapshot.id
    assert train_coefficients(other, "2024-04-01") == train_coefficients(snapshot, "2024-04-01")


def test_a_market_that_begins_too_late_is_refused_in_words(snapshot: MarketSnapshot) -> None:
    with pytest.raises(ConfigError, match="training days before 2023-07-03"):
        train_coefficients(snapshot, "2023-07-03")


# ---- run and submitted


def test_baselines_are_run_and_submitted_once(market: Path, tmp_path: Path) -> None:
    begin(tmp_path / "board", market, baselines=("builtin/equal_weight", "builtin/random"))
    change_rules(tmp_path / "board", ("seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", "seeds: [4, 5]"))
    done = call(baselines, tmp_path / "board", "--on", TODAY)
    assert done.exit_code == 0, done.output
    board = load_board(tmp_path / "board")
    assert {entry.model: entry.card.seeds for entry in board.entries} == {"builtin/equal_weight": [0], "builtin/random": [4, 5]}
    assert all(entry.division is not None and entry.baseline is not None for entry in board.entries)
    submission = board.entries[0].submission
    assert to_plain(submission.submitter) == {"name": "the board", "contact": "board@example.org"}
    assert submission.model.cutoff_date is None
    assert not (tmp_path / "board" / "records").exists()
    before = tree(tmp_path / "board")
    assert "no baseline is missing" in call(baselines, tmp_path / "board", "--on", TODAY).output
    assert tree(tmp_path / "board") == before
    report = check_board(tmp_path / "board", plugins(), CheckOptions(TODAY, record=False))
    assert (report.findings, [card.tier for card in report.checked]) == ((), ["re-run", "re-run"])


def test_a_baseline_gives_the_same_card_wherever_it_runs(market: Path, empty_board: Path, tmp_path: Path) -> None:
    rules = load_rules(empty_board)
    division, baseline = rules.divisions[0], rules.baselines[0]
    first, second = (
        load_card(
            run_baseline(rules, division, baseline, tmp_path / name, plugins(), concurrency=concurrency, mask_key="0" * 32)
        ).plain
        for name, concurrency in (("a", 1), ("b", 2))
    )
    assert {name for name in first if first[name] != second[name]} <= {"provenance"}


def test_a_withdrawn_baseline_is_run_again_as_a_second_attempt_with_records_where_they_are_wanted(
    empty_board: Path, tmp_path: Path
) -> None:
    board = Path(shutil.copytree(empty_board, tmp_path / "board"))
    call(baselines, board, "--on", TODAY)
    first = withdraw(board)
    assert call(baselines, board, "--on", TODAY, "--records", "repository").exit_code == 0
    attempts = {entry.card_id: entry.submission.attempts.runs for entry in load_board(board).entries}
    assert (attempts.pop(first), list(attempts.values())) == (1, [2])
    assert len(list((board / "records").glob("*/episodes/*/ledger.parquet"))) == 1


def test_a_board_without_a_contact_asks_for_one(market: Path, tmp_path: Path) -> None:
    begin(tmp_path / "board", market, contact="")
    done = call(baselines, tmp_path / "board", "--on", TODAY)
    assert isinstance(done.exception, ConfigError)
    assert "contact is empty" in str(done.exception)
    assert call(baselines, tmp_path / "board", "--on", TODAY, "--contact", "https://example.org").exit_code == 0


def test_a_division_that_cannot_be_run_here_is_named(empty_board: Path, tmp_path: Path) -> None:
    rules = load_rules(empty_board)
    other, short = (WindowRule(name, "2024-03-01", last) for name, last in (("W77", "2024-03-14"), (WINDOW, "2024-03-13")))
    lost = replace(rules, snapshots=(replace(rules.snapshots[0], data=""),))
    for changed, change, said in (
        (rules, {"seeds": (0, 2)}, "seeds 0, 2 do not follow each other"),
        (rules, {"version": "9"}, "the board asks for 9"),
        (rules, {"windows": (other,)}, "has no window 'W77' here"),
        (rules, {"windows": (short,)}, "on the board"),
        (lost, {}, "does not say where snapshot small is"),
    ):
        division = replace(rules.divisions[0], **change)
        with pytest.raises(ConfigError, match=said):
            run_baseline(replace(changed, divisions=(division,)), division, rules.baselines[0], tmp_path / said, plugins())


def test_a_baseline_may_have_seeds_of_its_own_and_nobody_else(empty_board: Path, run: Path) -> None:
    rules = load_rules(empty_board)
    division, card = rules.divisions[0], load_evaluation(run / "cards" / f"{TASK}.json")
    own = replace(rules, baselines=(Baseline("builtin/momentum", "random", (5, 3, 4)),))
    assert seeds_of(rules, division, "builtin/momentum") == (0,)
    assert seeds_of(own, division, "builtin/momentum") == (3, 4, 5)
    assert seeds_of(own, division, "a/stranger") == (0,)
    assert facets(rules, division, card) == {}
    assert facets(own, division, card) == {"seeds": "seeds 0, the board asks for 3, 4, 5"}


# ==== a board of questions about no market


def test_a_board_of_questions_about_no_market_has_no_snapshot_window_or_mask(tmp_path: Path) -> None:
    board = sums_board(tmp_path)
    extra = (board_teller.__file__,)
    new = NewBoard("qa", "Sums", ("sums",), "2026-03-01")
    for changes in ({"data": "placebo"}, {"windows": ("W1",)}, {"market": "real"}):
        with pytest.raises(UsageError, match=f"--{next(iter(changes))}: none of these tasks asks about a market; leave it out"):
            init_board(tmp_path / "other", dataclasses.replace(new, **changes), load_plugins(extra))
    (division,) = load_rules(board).divisions
    assert (division.snapshot, division.windows) == (None, ())
    assert not re.search("snapshot: |windows:", (board / "board.yaml").read_text())
    assert "--windows" not in (board / "README.md").read_text()
    report = check_board(board, load_plugins(extra), CheckOptions(today=TODAY, plugins=extra))
    assert [card.tier for card in report.checked] == ["re-executed"]
    build_site(board, tmp_path / "site", workers=1)
    data = json.loads((tmp_path / "site/data/board.json").read_text())
    assert (data["market"], data["snapshots"], data["divisions"][0]["windows"]) == (None, [], [])
    (row,) = json.loads((tmp_path / "site/data/division/sums/all.json").read_text())["rows"]
    assert row["ranked"]
    assert not (tmp_path / "site/market.html").exists()
    assert not re.search("snapshot|window|mask", json.dumps(row))
    facts = load_frame(board).iloc[0]
    assert facts[["mask", "snapshot", "market", "synthetic"]].isna().all()
    text = (board / "board.yaml").read_text()
    for changed, problem in (("    windows: [{name: W1, first: 2024-01-02, last: 2024-01-05}]", "windows without a snapshot"),
                             ("    snapshot: small", "no windows on its snapshot")):  # fmt: skip
        (board / "board.yaml").write_text(text.replace("    seeds: [0]", f"{changed}\n    seeds: [0]"))
        with pytest.raises(ConfigError, match=f"divisions: sums: {problem}; give both, or neither"):
            load_rules(board)
