"""`ktdeval leaderboard init`: a board whose rules, check and site are in order before anybody has
submitted anything.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.cards import load_evaluation
from ktdeval.errors import ConfigError, UsageError
from ktdeval.testing import errors_with
from ktdeval.values import load_yaml
from ktdeval_board.board_entries import division_of, load_board
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.command import leaderboard
from ktdeval_board.errata import load_errata
from ktdeval_board.init import DEFAULT_BASELINES
from ktdeval_board.options import MovedOptions, as_seeds, moved_market
from ktdeval_board.rules import Division, load_rules
from ktdeval_board.site.build import build_site
from support.board.board_runs import (
    DIVISION,
    TASK,
    WINDOW,
    begin,
    call,
    change_rules,
    plugins,
    printed,
    sums_board,
    tree,
)

WORKFLOW = ".github/workflows/board.yml"

# ---- what it is


@pytest.mark.slow
def test_an_empty_board_loads_checks_and_builds(board: Path, tmp_path: Path) -> None:
    assert load_rules(board).divisions[0].task == TASK
    assert load_errata(board).errata == ()
    assert load_board(board).entries == ()

    report = check_board(board, plugins(), CheckOptions("2026-03-02", record=False))
    assert (report.findings, report.checked) == ((), ())

    build_site(board, tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()


@pytest.mark.slow
def test_a_run_of_the_same_task_windows_and_seeds_belongs_to_its_division(
    board: Path, run: Path
) -> None:
    rules = load_rules(board)
    card = load_evaluation(run / "cards" / f"{TASK}.json")

    assert division_of(rules, card) == rules.divisions[0]
    assert rules.snapshots[0].id == card.snapshot.id
    assert rules.market == "synthetic"


def test_equal_wishes_give_equal_bytes(board: Path, market: Path, tmp_path: Path) -> None:
    begin(tmp_path / "again", market)
    assert tree(tmp_path / "again") == tree(board)


@pytest.mark.slow
def test_texts_of_any_kind_come_back_as_they_were_given(market: Path, tmp_path: Path) -> None:
    title = """A "board": of #1's 沪深300 — no, {yes} & @@name $x %"""
    rules = begin(
        tmp_path / "board", market, title=title, summary="null", url="https://example.org"
    ).rules

    assert (rules.title, rules.summary, rules.url) == (title, "null", "https://example.org")
    assert (tmp_path / "board" / "README.md").read_text().startswith(f"# {title}\n")


# ---- divisions


def test_each_task_becomes_a_division_with_its_windows_and_seeds(
    market: Path, tmp_path: Path
) -> None:
    tasks = ("blinded_open_research", "bright_*_candidate")
    rules = begin(
        tmp_path / "board",
        market,
        tasks=tasks,
        windows=(WINDOW, "2024-03-15:2024-03-29"),
        seeds=(2, 3),
        keys="own",
    ).rules

    assert [division.id for division in rules.divisions] == [
        "blinded-open-research",
        "bright-fixed-candidate",
    ]
    assert {division.window_names()[1] for division in rules.divisions} == {"2024-03-15:2024-03-29"}
    assert {division.seeds for division in rules.divisions} == {(2, 3)}
    assert (
        "--windows 2024-03-01:2024-03-14,2024-03-15:2024-03-29 --seeds 2 --seed 2 --data"
        in (tmp_path / "board" / "README.md").read_text()
    )


def embedded(folder: Path, **changes: Any) -> Division:
    """The one division of a new board of the embedded market."""
    begun = begin(folder, Path("synthetic"), baselines=("builtin/hold",), **changes)
    (division,) = begun.rules.divisions
    return division


def test_default_windows_are_the_tasks_and_the_rules_list_their_days(tmp_path: Path) -> None:
    (window,) = embedded(tmp_path / "a", windows=()).windows
    assert (window.name, window.first, window.last) == ("long", "2024-01-01", "2026-04-10")

    some = embedded(tmp_path / "b", windows=("W1*", "W1", "W3"))
    assert some.window_names() == ["W1", "W10", "W3"]
    assert (some.windows[0].first, some.windows[0].last) == ("2024-04-01", "2024-06-05")


def test_a_single_window_named_all_is_the_scope_of_all_windows(tmp_path: Path) -> None:
    division = embedded(tmp_path / "board", tasks=("market_blinded",), windows=())
    assert (division.window_names(), division.scopes()) == (["all"], ["all"])


@pytest.mark.slow
def test_scoring_task_ranks_by_its_first_headline_score_without_baselines(
    market: Path, tmp_path: Path
) -> None:
    asked = {"certificate": "required", "attackers": ("openai/gpt-4.1",)}
    rules = begin(tmp_path / "board", market, tasks=("deanon_probe",), baselines=(), **asked).rules

    assert (rules.divisions[0].rank_by, rules.divisions[0].certificate, rules.baselines) == (
        "ticker_top1",
        "optional",
        (),
    )

    (trading,) = begin(tmp_path / "third", market, **asked).rules.divisions  # one that trades

    assert (trading.certificate, trading.attackers) == ("required", ("openai/gpt-4.1",))


# ---- baselines


@pytest.mark.exhaustive
def test_a_board_that_names_no_baselines_gets_the_usual_ones(market: Path, tmp_path: Path) -> None:
    begun = begin(tmp_path / "board", Path("synthetic"), baselines=(), windows=("W1",))
    kinds = {
        baseline.model: (baseline.kind, len(baseline.seeds)) for baseline in begun.rules.baselines
    }
    others = {"builtin/random": ("random", 10), "builtin/linear_factor": ("supervised", 0)}

    assert (kinds, begun.notes) == (dict.fromkeys(DEFAULT_BASELINES, ("rule", 0)) | others, ())

    (note,) = begin(tmp_path / "other", market).notes
    assert "is a folder on this machine" in note


def test_market_too_short_to_train_notes_the_missing_supervised_baseline(
    market: Path, tmp_path: Path
) -> None:
    begun = begin(tmp_path / "board", market, baselines=())
    assert "builtin/linear_factor" not in {baseline.model for baseline in begun.rules.baselines}
    assert any("the supervised baseline can't be trained on it" in note for note in begun.notes)


def test_a_baseline_stands_only_where_its_task_shows_enough_for_it(
    market: Path, tmp_path: Path
) -> None:
    tasks = ("blinded_memory_only", TASK)
    named = ("builtin/momentum", "builtin/random")
    begun = begin(tmp_path / "board", market, tasks=tasks, baselines=named)

    divisions = {each.id: each for each in begun.rules.divisions}
    shown = {
        name: [each.model for each in begun.rules.baselines_of(division)]
        for name, division in divisions.items()
    }
    assert shown == {
        "blinded-memory-only": ["builtin/random"],
        "blinded-open-research": ["builtin/momentum", "builtin/random"],
    }
    left_out = "baselines: left out of blinded-memory-only: builtin/momentum needs candidates"
    assert any(note.startswith(left_out) for note in begun.notes)


@pytest.mark.exhaustive
def test_memory_only_board_works_with_defaults_from_init_to_build(
    market: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    begun = begin(board, market, tasks=("blinded_memory_only",), baselines=())
    assert [each.model for each in begun.rules.baselines] == ["builtin/random"]

    printed("--on", "2026-03-01", "baselines", board)
    assert check_board(board, plugins(), CheckOptions("2026-03-02", record=False)).findings == ()

    build_site(board, tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()


# ---- what is refused


@pytest.mark.slow
def test_invalid_input_is_reported_and_leaves_no_board(market: Path, tmp_path: Path) -> None:
    assert errors_with(
        partial(begin, tmp_path / "deep" / "board", market),
        {"tasks": ("blinded_open_reserch",)},
        {"windows": ("W99",)},
        {"windows": ("W10",)},
        {"seeds": (0, 2)},
        {"seeds": ()},
        {"market": "real"},
        {"data": "nowhere"},
        {"name": "No Slug"},
        {"url": "ftp://example.org"},
        {"title": "two\nlines"},
        {"title": "  "},
        {"tasks": ()},
        {"certificate": "required"},
        {"attackers": ("openai/gpt-4.1",)},
        {"baselines": ("builtin/linear_factor",)},
        {"tasks": ("deanon_probe",)},
        {"baselines": ("builtin/momentumm",)},
        {"tasks": ("blinded_memory_only",), "baselines": ("builtin/momentum",)},
        folder=tmp_path,
    ) == snapshot("""\
UsageError: no task or group matches 'blinded_open_reserch'; did you mean 'blinded_open_research' or 'blinded_open_research_paper' or 'date_blind_open_research'?
UsageError: --windows: task blinded_open_research has no window 'W99'; did you mean 'W9'? (it has W1, W2, W3, W4, W5, W6, W7, W8, W9, W10, long; or FIRST:LAST days)
DataError: window 2026-02-02…2026-04-10 lies outside the data, which allow 2022-12-13…2024-04-19 (nothing is filled on the first day, which only decides); choose a window inside, such as by --windows FIRST:LAST, or other data
UsageError: --seeds: expected consecutive seeds, like a run's, such as 0,1,2; got 0, 2
UsageError: --seeds: expected consecutive seeds, like a run's, such as 0,1,2; got none
UsageError: market real: snapshot small is synthetic; a board never mixes real and synthetic markets
DataError: --data 'nowhere' is neither a folder nor a data provider (see `ktdeval data`)
ConfigError: FOLDER/deep/board/board.yaml: name: expected `str` of lower-case letters, digits and dashes
ConfigError: FOLDER/deep/board/board.yaml: url: expected an address that begins with https://
ConfigError: title: expected one line of printable text
ConfigError: FOLDER/deep/board/board.yaml: title: expected one line of text
UsageError: no task: name one with --tasks (see `ktdeval list tasks`)
UsageError: certificate: required needs the attackers that count, such as attackers: [openai/gpt-4.1]
UsageError: attackers: apply to required certificates only; add certificate: required
ConfigError: snapshot small has 7 training days before 2024-03-01, but 20 are needed: the supervised baseline can't be trained on it; leave it out of the board's baselines
UsageError: baselines: apply to trading tasks, but this board has none
UsageError: unknown model 'builtin/momentumm'; did you mean 'builtin/momentum' or 'builtin/memory' or 'builtin/random'?
UsageError: builtin/momentum needs candidates in the prompt with MOM_12_1, or the tool screen_candidates; task blinded_memory_only shows account, constraints, positions, universe and offers no research tools; models that fit: builtin/first_listed, builtin/hold, builtin/memory, builtin/random, builtin/trivial
""")
    assert list(tmp_path.iterdir()) == []


def test_pull_requests_are_judged_by_the_base_branch_without_its_rights(
    board: Path,
) -> None:
    text = (board / WORKFLOW).read_text()
    workflow = load_yaml(board / WORKFLOW)
    jobs = workflow["jobs"]

    # A workflow that runs on `pull_request` is that of the pull request itself.
    assert set(workflow["on"]) == {"pull_request_target", "push"}
    assert workflow["permissions"] == {}

    rights = {name: job["permissions"] for name, job in jobs.items()}
    assert rights == {
        "check": {"contents": "read"},
        "verdict": {"statuses": "write"},
        "judge": {"contents": "read"},
        "record": {"contents": "write"},
        "publish": {"pages": "write", "id-token": "write"},
    }

    for name, job in jobs.items():
        runs = [step.get("run", "") for step in job["steps"]]
        assert not any("${{" in run for run in runs), (
            "a name of a branch is never pasted into a script"
        )
        if "write" in rights[name].values():
            assert not any("ktdeval " in run or "pip " in run for run in runs), name
            assert "proposed" not in str(job), name

    steps = jobs["check"]["steps"]
    installed = next(
        index for index, step in enumerate(steps) if "pip install" in step.get("run", "")
    )
    checked_out = next(
        index
        for index, step in enumerate(steps)
        if step.get("uses", "").startswith("actions/checkout@")
    )

    assert installed < checked_out, (
        "no file of the pull request is there while packages are installed"
    )
    assert {"path": "proposed", "persist-credentials": False}.items() <= steps[checked_out][
        "with"
    ].items()
    assert "rev-parse HEAD^2" in steps[-2]["run"], "what is checked is what the status is set on"
    assert (
        steps[-1]["run"] == 'ktdeval leaderboard check proposed --since "origin/$BASE" --no-record'
    )
    assert jobs["verdict"]["needs"] == "check"
    assert "needs.check.result == 'success'" in jobs["verdict"]["steps"][0]["env"]["STATE"]

    used = []

    for job in jobs.values():
        used += [step["uses"] for step in job["steps"] if "uses" in step]

    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", name) for name in used), used
    assert "@@" not in text


def test_a_used_folder_is_left_alone_and_a_fresh_repository_is_empty(
    market: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"already contains notes\.txt"):
        begin(tmp_path, market)

    assert tree(tmp_path) == {"notes.txt": b"mine"}

    with pytest.raises(Exception, match="can't be read as a folder"):
        begin(tmp_path / "notes.txt", market)

    (tmp_path / "new" / ".git").mkdir(parents=True)
    begin(tmp_path / "new", market)

    assert load_rules(tmp_path / "new").name == "small"


# ---- what stands around the rules


def test_the_workflow_draws_keys_on_main_alone_and_never_replaces_one(
    board: Path, market: Path, tmp_path: Path
) -> None:
    jobs = load_yaml(board / ".github" / "workflows" / "board.yml")["jobs"]
    drawing = []
    for name, job in jobs.items():
        drawing += [name for step in job["steps"] if "leaderboard draw" in step.get("run", "")]

    assert drawing == ["judge"]
    assert jobs["judge"]["if"] == "github.event_name == 'push'"

    (record,) = [step["run"] for step in jobs["record"]["steps"] if "run" in step]
    folders = tmp_path / "repository", tmp_path / "runner" / "found" / "keys"

    for folder in folders:
        folder.mkdir(parents=True)

    repository, found = folders
    (repository / "keys").mkdir()
    (repository / "keys" / "a.json").write_text("drawn before")

    for name in ("a", "b"):
        (found / f"{name}.json").write_text("drawn now")

    git("init", "-q", cwd=repository)
    script = record.replace("git push", "true")
    subprocess.run(
        ["bash", "-ec", script],
        cwd=repository,
        env={"RUNNER_TEMP": str(tmp_path / "runner"), **PATH},
        check=True,
    )
    keys = {path.name: path.read_text() for path in (repository / "keys").iterdir()}

    assert keys == {"a.json": "drawn before", "b.json": "drawn now"}

    begin(tmp_path / "own", market, keys="own")
    assert (
        "leaderboard draw"
        not in (tmp_path / "own" / ".github" / "workflows" / "board.yml").read_text()
    )


@pytest.mark.slow
def test_a_division_without_a_market_draws_no_keys_and_may_not_ask_for_any(
    market: Path, tmp_path: Path
) -> None:
    rules = begin(tmp_path / "board", market).rules
    assert [(division.keys, division.most_registrations) for division in rules.divisions] == [
        ("registered", 10)
    ]

    board = sums_board(tmp_path / "sums")
    assert [division.keys for division in load_rules(board).divisions] == ["own"]

    change_rules(board, ('keys: "own"', 'keys: "registered"'))

    with pytest.raises(ConfigError, match="keys: registered applies to divisions with a market"):
        load_rules(board)


def test_rules_workflow_and_verdicts_have_owners_and_submissions_have_none(
    board: Path, market: Path, tmp_path: Path
) -> None:
    owners = dict(
        line.split()
        for line in (board / ".github" / "CODEOWNERS").read_text().splitlines()
        if line.startswith("/")
    )

    assert set(owners.values()) == {"board@example.org"}
    assert {"/board.yaml", "/errata.yaml", "/.github/", "/verdicts/", "/keys/"} <= set(owners)
    assert not {"/cards/", "/records/", "/imported/", "/registrations/"} & set(owners)

    begin(tmp_path / "other", market, contact="https://example.org/board")
    assert "/board.yaml @OWNER\n" in (tmp_path / "other" / ".github" / "CODEOWNERS").read_text()


def test_git_changes_no_byte_of_hashed_files(board: Path, tmp_path: Path) -> None:
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


PATH = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def git(*words: str, cwd: Path) -> None:
    subprocess.run(
        ["git", "-c", "core.autocrlf=true", "-c", "core.hooksPath=/dev/null", *words],
        cwd=cwd,
        check=True,
    )


def test_the_readme_has_the_commands_of_a_submitter(board: Path) -> None:
    text = (board / "README.md").read_text()
    for words in (
        f"ktdeval leaderboard register --board . --division {DIVISION}",
        "ktdeval run --registration keys/ID.json --data SNAPSHOT --out run",
        "ktdeval leaderboard submit run --board .",
    ):
        assert words in text

    assert "@@" not in text


# ---- the command


@pytest.mark.exhaustive
def test_the_command_prints_the_new_board_and_passes_data_arguments(
    tmp_path: Path,
) -> None:
    given = "seed=8,first=2024-01-02,last=2024-04-30"
    windows = f"{WINDOW},2024-03-15:2024-03-29"
    words = (
        "--name",
        "practice",
        "--title",
        "P",
        "--tasks",
        TASK,
        "--windows",
        windows,
        "--seeds",
        "0-1",
    )
    wishes = tmp_path / "wishes.yaml"
    wishes.write_text("title: Not this\nbaselines: [builtin/hold]\nmost_registrations: 3\n")
    day = ("--on", "2026-03-01")
    board = tmp_path / "board"
    done = call(leaderboard, *day, "init", board, *words, "--config", wishes, "--data-args", given)

    assert done.exit_code == 0, done.output
    assert "board practice of a synthetic market" in done.output
    assert "division blinded-open-research: 2 windows × 2 seeds" in done.output

    rules = load_rules(tmp_path / "board")
    assert (rules.title, [each.model for each in rules.baselines]) == ("P", ["builtin/hold"])
    assert [each.most_registrations for each in rules.divisions] == [3]

    (snapshot,) = rules.snapshots
    assert (rules.opened_on, snapshot.name, snapshot.data) == (
        "2026-03-01",
        "synthetic-8",
        "synthetic",
    )
    assert snapshot.data_args == {"seed": 8, "first": "2024-01-02", "last": "2024-04-30"}
    assert f"--data synthetic --data-args {given}" in (tmp_path / "board" / "README.md").read_text()


def test_seeds_are_numbers_and_ranges() -> None:
    assert as_seeds("2, 0-1") == (0, 1, 2)


@pytest.mark.parametrize("text", ["one", "1-", "-1", "0-99999999"])
def test_seeds_are_read_strictly(text: str) -> None:
    with pytest.raises(UsageError, match="--seeds"):
        as_seeds(text)


def test_a_market_that_moved_is_given_by_the_options_that_are_set() -> None:
    moved = MovedOptions(data="long", data_args={"a": True})
    assert moved_market(moved) == {"data": "long", "data_args": {"a": True}}
    assert moved_market(MovedOptions(data_args={"a": True})) == {}


@pytest.mark.parametrize("texts", [("a",), ("=1",), ("a=1", "a=2"), ("{",)])
def test_arguments_of_the_data_that_are_none_are_refused(texts: tuple[str, ...]) -> None:
    words = list(chain.from_iterable(("--data-args", text) for text in texts))
    done = call(leaderboard, "baselines", "board", *words)
    assert isinstance(done.exception, UsageError)
    assert "--data-args" in str(done.exception)
