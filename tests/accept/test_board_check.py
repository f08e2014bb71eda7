"""The check of a board: records are executed again on the board's market, verdicts say how far
figures are confirmed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ktdeval.errors import DataError, UsageError, VerificationError
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, rescore
from ktdeval.runner.records.run_folder import file_sha256
from ktdeval.values import to_plain
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import (
    CheckOptions,
    CheckReport,
    OpenedMarkets,
    check_board,
    missing_plugin,
)
from ktdeval_board.checking.records import check_records, settle
from ktdeval_board.document_types import Decisions, Rerun, Series, Verdict
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.market_document import Market
from ktdeval_board.read_documents import read_own
from ktdeval_board.rules import load_rules
from support.board.board_cards import made_on
from support.board.board_checked import ON, change_card, make_board, make_run, recorded_card, submit
from support.board.board_ranks import make_verdict
from support.board.board_runs import tree, withdraw
from support.paths import SUPPORT
from support.runs.forging import Steps, change_ledger, rehash
from support.runs.run_support import WINDOW, error_line, ktdeval

OPTIONS = CheckOptions(today=ON)


@pytest.fixture(scope="module")
def checked_board(tmp_path_factory: pytest.TempPathFactory, market: Path, whole: Path) -> Path:
    """A board with one good submission and its verdict; tests that change it make a copy."""
    board = make_board(tmp_path_factory.mktemp("checked") / "board", market, whole)
    submit(board, whole)
    report = check_board(board, load_plugins(), OPTIONS)

    assert report.findings == ()

    return board


def check(board: Path, **options: Any) -> CheckReport:
    return check_board(board, load_plugins(), replace(OPTIONS, **options))


def tiers(board: Path, **options: Any) -> list[str]:
    return [card.tier for card in check(board, **options).checked]


def copied(board: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(board, tmp_path / "copy"))


def files_of(board: Path) -> CardFiles:
    (files,) = BoardFolder(board).list_cards()
    return files


def change_rules(board: Path, change: Callable[[Any], object]) -> None:
    rules = yaml.safe_load((board / "board.yaml").read_text())
    change(rules)
    (board / "board.yaml").write_text(yaml.safe_dump(rules))


def richer(steps: Steps) -> None:
    """Let a ledger end with 10,000 CNY more."""
    steps[-1]["cash_minor"] += 1_000_000
    steps[-1]["nav_minor"] += 1_000_000


def verdict_on(board: Path, card_id: str) -> Verdict:
    return read_own(BoardFolder(board).verdict(card_id), Verdict)


# -- a good submission
# -------------------------------------------------------------------------------------------


def test_a_good_submission_is_re_executed_and_derived_files_are_stored(checked_board: Path) -> None:
    (entry,) = load_board(checked_board).entries
    assert entry.tier == "re-executed"
    assert (entry.verdict.checked_on, entry.verdict.episodes, entry.verdict.steps) == (ON, 1, 21)

    folder = BoardFolder(checked_board)
    assert read_own(folder.series(entry.card_id), Series).card == entry.card_id
    assert read_own(folder.decisions(entry.card_id), Decisions).card == entry.card_id
    assert [window.days for window in read_own(folder.market("market"), Market).windows] == [21]


def test_a_card_with_a_verdict_is_passed_over_until_a_part_is_missing(
    checked_board: Path, tmp_path: Path
) -> None:
    board = copied(checked_board, tmp_path)
    before = tree(board)
    card_id = files_of(board).card_id
    report = check(board)

    assert (report.findings, report.checked, report.skipped) == ((), (), 1)
    assert tiers(board, every=True) == ["re-executed"], "where all are asked for"

    BoardFolder(board).series(card_id).unlink()
    assert len(check(board).checked) == 1, "without its series"
    assert tree(board) == before, "equal records give equal bytes"

    change_rules(board, lambda rules: rules["divisions"][0].update(id="renamed"))
    assert len(check(board).checked) == 1, "a verdict of another division counts no more"
    assert read_own(BoardFolder(board).verdict(card_id), Verdict).division == "renamed"


def test_without_record_nothing_is_written_but_checks_run(board: Path, whole: Path) -> None:
    assert check(board) == CheckReport((), (), 0)

    BoardFolder(board).market("market").unlink()
    submit(board, whole)
    before = tree(board)
    lines = list[str]()
    report = check_board(board, load_plugins(), replace(OPTIONS, record=False), lines.append)

    assert [card.tier for card in report.checked] == ["re-executed"]
    assert lines == ["builtin/chaos · react · blinded"]
    assert tree(board) == before


# -- forgeries
# ---------------------------------------------------------------------------------------------------


def forged(run: Path, target: Path, change: Callable[[Steps], Any]) -> Path:
    """A copy of a run with another ledger, its mark renewed and its card scored anew: consistent in
    itself.
    """
    shutil.copytree(run, target)
    (episode,) = (target / "episodes").iterdir()
    change_ledger(episode, change)
    rehash(episode)
    next(target.glob("cards/*.json")).unlink()
    rescore(target, load_plugins(), {})

    return made_on(target, ON)


def only_finding(report: CheckReport) -> tuple[str, str, str]:
    (finding,) = report.findings
    return finding.path, finding.rule, finding.message


def test_orders_with_hindsight_are_found_from_the_models_replies(
    board: Path, whole: Path, other_run: Path, tmp_path: Path
) -> None:
    def hindsight(_steps: Steps) -> Any:
        other = RunFolder.load(other_run)
        return to_plain(other.load_ledger(other.manifest.specs[0]).steps)

    files = submit(board, forged(whole, tmp_path / "forged", hindsight))
    path, rule, message = only_finding(check(board))

    assert (Path(path).name, rule) == ("transcript.jsonl.zst", "ledger")
    assert "line 1 of ledger.parquet does not follow from its replies" in message
    assert files.card_id in path
    assert not (board / "verdicts").exists()


def test_a_fill_at_a_better_price_is_found_by_executing_it(
    board: Path, whole: Path, tmp_path: Path
) -> None:
    submit(board, forged(whole, tmp_path / "forged", richer))
    path, rule, message = only_finding(check(board))
    assert (Path(path).name, rule) == ("ledger.parquet", "ledger")
    assert "cash_minor: recorded" in message


def test_a_card_is_not_executed_where_its_files_are_refused(board: Path, whole: Path) -> None:
    files = submit(board, whole)
    (BoardFolder(board).records(files.card_id) / "manifest.json").chmod(0o755)
    lines: list[str] = []
    report = check_board(board, load_plugins(), OPTIONS, lines.append)

    assert [finding.rule for finding in report.findings] == ["executable"]
    assert lines == []


SPY = """
import os, pathlib, sys
pathlib.Path(__file__).with_name('seen').write_text('\\n'.join([*os.environ, *sys.path]))
from ktdeval.api import hookimpl
@hookimpl
def ktdeval_tasks(): return []
"""


def test_records_are_read_away_from_secrets_and_from_the_working_folder(
    board: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(board, whole)
    spy = tmp_path / "spy.py"
    spy.write_text(SPY)
    hostile = tmp_path / "hostile"
    hostile.mkdir()

    for name in ("json", "yaml", "ktdeval_board", "pandas"):
        (hostile / f"{name}.py").write_text(
            "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
        )

    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the maintainers")
    monkeypatch.chdir(hostile)
    report = check(board, plugins=(str(spy),))

    assert [card.tier for card in report.checked] == ["re-executed"]

    seen = (tmp_path / "seen").read_text().splitlines()
    assert "PATH" in seen
    assert not {"OPENAI_API_KEY", "", str(hostile)} & set(seen)
    assert not (hostile / "ran").exists()


# -- what can't be executed
# --------------------------------------------------------------------------------------


def test_records_elsewhere_leave_a_card_self_reported(board: Path, whole: Path) -> None:
    files = submit(board, whole, stored="elsewhere")
    (card,) = check(board).checked

    assert card.tier == "self-reported"
    assert "its records are not in the repository" in card.notes[0]
    assert verdict_on(board, files.card_id).notes == card.notes
    assert not BoardFolder(board).series(files.card_id).exists()


def test_a_market_that_is_not_here_leaves_a_card_self_reported_until_it_is(
    tmp_path: Path, market: Path, whole: Path
) -> None:
    board = make_board(tmp_path / "board", tmp_path / "nowhere", whole)
    files = submit(board, whole)
    report = check(board)

    assert [card.tier for card in report.checked] == ["self-reported"]
    assert report.findings == ()
    assert "market market can't be opened here" in report.notes[0]

    before = tree(board)
    assert check(board, today="2026-03-03").checked == ()
    assert tiers(board, today="2026-03-03", every=True) == ["self-reported"]
    assert tree(board) == before
    # with the market at hand
    assert tiers(board, data=str(market)) == ["re-executed"]

    before = tree(board)
    # without it again nothing is taken back
    assert tiers(board, every=True) == ["re-executed"]
    assert tree(board) == before
    assert load_board(board).entries[0].tier == "re-executed"
    assert files.card_id in {path.stem for path in (board / "series").iterdir()}


def test_a_different_market_and_missing_packages_are_named(board: Path, market: Path) -> None:
    plugins = load_plugins()
    rules = load_rules(board)
    struct = msgspec.structs.replace
    wrong = struct(rules, snapshots=(struct(rules.snapshots[0], id="0" * 64),))
    opened = OpenedMarkets(wrong, plugins, None).open(wrong.snapshots[0])
    assert "market market differs from the board's" in str(opened)

    with pytest.raises(DataError, match="the board does not use: market \\(000000000000\\)"):
        OpenedMarkets(wrong, plugins, str(market))

    opened = OpenedMarkets(rules, plugins, None).open(struct(rules.snapshots[0], data=""))
    assert "does not give the location of market market" in str(opened)

    division = rules.divisions[0]
    assert missing_plugin(plugins, division, "react") is None

    for agent, changes, problem in (
        ("elsewhere", {}, "agent elsewhere is not installed where the check ran"),
        ("react", {"hash": "0" * 64}, "has a different version where the check ran"),
        ("react", {"task": "nothing"}, "unknown task"),
    ):
        assert problem in str(missing_plugin(plugins, struct(division, **changes), agent))


@pytest.mark.exhaustive
def test_a_scoring_card_is_re_executed_and_has_no_series(market: Path, tmp_path: Path) -> None:
    plugin = str(SUPPORT / "masking" / "deanon_plugin.py")
    run = tmp_path / "run"
    words = (
        f"--plugin {plugin} --model attacker/reader --tasks deanon_probe_bright --data {market}"
        f" --windows {WINDOW} --out {run} --quiet"
    )
    done = ktdeval(*words.split(), cwd=tmp_path)
    assert done.code == 0, done.err

    board = make_board(tmp_path / "board", market, run)
    files = submit(board, run)
    evidence = check_records(recorded_card(board, files))

    assert evidence.findings == ()
    assert (evidence.tier, evidence.series, evidence.decisions) == ("re-executed", None, None)
    assert evidence.episodes == 1


# -- the board's own runs
# ----------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_baseline_without_records_is_run_again(market: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "baseline", market, "builtin/equal_weight")
    board = make_board(tmp_path / "board", market, run)
    files = submit(board, run, stored="elsewhere")
    (card,) = check(board).checked

    assert (card.tier, card.notes) == ("re-run", ())

    rerun = verdict_on(board, files.card_id).rerun
    assert rerun.by == "the board's check"
    assert rerun.figures["total_return"].submitted == rerun.figures["total_return"].rerun != 0
    assert read_own(BoardFolder(board).series(files.card_id), Series).card == files.card_id

    before = tree(board)
    check(board, every=True)

    assert tree(board) == before


def test_a_forged_baseline_is_refused(market: Path, tmp_path: Path) -> None:
    def flatter(card: dict[str, Any]) -> None:
        value = card["episodes"][0]["metrics"]["hhi"]["value"] / 2
        card["episodes"][0]["metrics"]["hhi"]["value"] = card["metrics"]["hhi"]["value"] = value

    run = make_run(tmp_path / "forged-baseline", market, "builtin/equal_weight")
    board = make_board(tmp_path / "board", market, run)
    change_card(board, submit(board, run, stored="elsewhere"), flatter)
    _, rule, message = only_finding(check(board))
    again = "differs from what the baseline gives when it is run again"

    assert rule == "ledger"
    assert re.search(
        rf"{again}: line \d+: episodes\[0\]\.metrics\.hhi\.value: recorded .*, recomputed ", message
    )

    # one of other arguments, although its records are in order
    run = make_run(
        tmp_path / "other-baseline", market, "builtin/equal_weight", model_args={"positions": 3}
    )
    board = make_board(tmp_path / "other", market, run)
    submit(board, run)
    _, rule, message = only_finding(check(board))

    assert (rule, again in message) == ("ledger", True)


def test_a_baseline_that_can_not_be_run_is_self_reported(market: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "unlike", market, "builtin/equal_weight")
    # it takes no coefficients, which a supervised baseline is given
    board = make_board(
        tmp_path / "board",
        market,
        run,
        baselines=[{"model": "builtin/equal_weight", "kind": "supervised"}],
    )
    submit(board, run, stored="elsewhere")
    (card,) = check(board).checked

    assert card.tier == "self-reported"
    assert card.notes[0].startswith("the check could not run it again: ")


@pytest.mark.exhaustive
def test_the_maintainers_run_is_shown_next_to_the_submitted_one(
    checked_board: Path, market: Path, tmp_path: Path
) -> None:
    board = copied(checked_board, tmp_path)
    own = make_run(tmp_path / "own", market, "builtin/chaos", timeout_s=60.0)
    (card,) = check(board, rerun=own, rerun_by="The board").checked

    assert card.tier == "re-run"

    rerun = verdict_on(board, card.card_id).rerun
    assert (rerun.by, rerun.on) == ("The board", ON)

    (own_card,) = (own / "cards").iterdir()
    assert rerun.card == file_sha256(own_card) != card.card_id
    assert {"total_return", "sharpe", "max_drawdown"} <= set(rerun.figures)
    assert all(figure.submitted == figure.rerun for figure in rerun.figures.values())

    # later checks do not forget it
    before = tree(board)
    assert tiers(board, every=True) == ["re-run"]
    assert tree(board) == before


@pytest.mark.exhaustive
def test_a_run_of_another_plan_is_no_rerun(
    checked_board: Path, whole: Path, other_run: Path, market: Path, tmp_path: Path
) -> None:
    board = copied(checked_board, tmp_path)
    warmer = make_run(tmp_path / "warmer", market, "builtin/chaos", temperature=1.0)
    longer = make_run(
        tmp_path / "longer", market, "builtin/chaos", windows=("2024-03-01:2024-04-10",)
    )

    for own, message in (
        (warmer, r"call.temperature: submitted 0.7, found 1.0"),
        (whole, "is the submitted card itself"),
        (other_run, "no valid card on the board has its division, model and agent"),
        (longer, "contains no card of a division of this board"),
    ):
        with pytest.raises(UsageError, match=message):
            check(board, rerun=own, rerun_by="The board")


@pytest.mark.exhaustive
def test_a_rerun_whose_records_do_not_give_its_card_is_refused(
    checked_board: Path, whole: Path, tmp_path: Path
) -> None:
    own = forged(whole, tmp_path / "forged", richer)
    with pytest.raises(
        VerificationError, match=r"its records do not reproduce its card: .*ledger\.parquet"
    ):
        check(copied(checked_board, tmp_path), rerun=own, rerun_by="The board")


OWN = Rerun(by="us", on=ON, card="0" * 64, figures={})


@pytest.mark.parametrize(
    ("earlier", "new", "found"),
    [
        (None, ("self-reported", None), ("self-reported", None)),
        (("self-reported", None), ("re-executed", None), ("re-executed", None)),
        (("re-executed", None), ("self-reported", None), ("re-executed", None)),
        (("re-run", OWN), ("self-reported", None), ("re-run", OWN)),
        (("re-run", OWN), ("re-executed", None), ("re-run", OWN)),
        (("self-reported", OWN), ("self-reported", None), ("self-reported", OWN)),
        (("self-reported", OWN), ("re-executed", None), ("re-run", OWN)),
        (("re-executed", None), ("re-run", OWN), ("re-run", OWN)),
    ],
)
def test_a_later_check_takes_nothing_back(earlier: Any, new: Any, found: Any) -> None:
    first, second = (given and make_verdict(given[0], rerun=given[1]) for given in (earlier, new))
    settled = settle(first, second)
    assert (settled.tier, settled.rerun) == found


# -- the board as a whole
# ----------------------------------------------------------------------------------------


def test_a_withdrawn_card_is_not_executed(board: Path, whole: Path) -> None:
    submit(board, whole)
    withdraw(board)
    report = check(board)
    assert (report.findings, report.checked) == ((), ())


def test_a_market_is_made_again_when_the_windows_of_the_board_change(
    checked_board: Path, tmp_path: Path
) -> None:
    board = copied(checked_board, tmp_path)
    more = {"id": "more", "windows": [{"name": "A", "first": "2024-02-01", "last": "2024-02-29"}]}
    change_rules(board, lambda rules: rules["divisions"].append({**rules["divisions"][0], **more}))
    check(board)
    windows = read_own(BoardFolder(board).market("market"), Market).windows
    assert [window.name for window in windows] == ["A", WINDOW]

    later = {"first": "2030-02-01", "last": "2030-02-28"}
    change_rules(board, lambda rules: rules["divisions"][1]["windows"][0].update(later))
    path, rule, message = only_finding(check(board))

    assert (path, rule, "lies outside the data" in message) == ("board.yaml", "snapshot", True)


def test_one_card_can_be_asked_for_and_must_be_there(
    checked_board: Path, tmp_path: Path, other_run: Path
) -> None:
    board = copied(checked_board, tmp_path)
    known = files_of(board).card_id
    new = submit(board, other_run)
    report = check(board, only=(known,), record=False)

    assert [card.card_id for card in report.checked] == [known]
    assert [card.card_id for card in check(board).checked] == [new.card_id]

    with pytest.raises(UsageError, match="no such card on the board"):
        check(board, only=("0" * 64,))


def test_the_command_prints_findings_and_ends_with_their_exit_code(
    board: Path, whole: Path, tmp_path: Path
) -> None:
    files = submit(board, whole)
    done = ktdeval("leaderboard", "--on", ON, "check", board, cwd=tmp_path)

    assert (done.code, "builtin/chaos · react · blinded" in done.err) == (0, True)
    assert done.out.splitlines() == [
        f"re-executed   {files.card.relative_to(board)}",
        "checked 1, with a verdict before 0, findings 0: nothing is refused",
    ]

    (board / "stray\x1b[31m.txt").write_text("")
    more = f"records/{files.card_id}/more.bin"
    (board / more).write_text("")
    done = ktdeval("leaderboard", "--on", ON, "check", ".", "--json", cwd=board)
    findings = json.loads(done.out)["findings"]
    assert done.code == 1
    assert more in [finding["path"] for finding in findings]

    done = ktdeval("leaderboard", "--on", ON, "check", ".", cwd=board)
    assert done.code == 1
    assert f"{more}: " in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("check --by Us", "--rerun and --by must be given together"),
        ("check --rerun x", "--rerun and --by must be given together"),
        (f"check --card {'0' * 64}", f"--card {'0' * 64}: no such card on the board"),
        ("check --data synthetic_", "'synthetic_' is neither a folder nor a data provider"),
        ("--on yesterday check", "--on: expected a day as YYYY-MM-DD, was 'yesterday'"),
        ("check ..", "not a board"),
    ],
)
def test_a_wrong_command_is_refused_in_one_line(board: Path, words: str, message: str) -> None:
    done = ktdeval("leaderboard", *words.split(), cwd=board)
    assert done.code == 2
    assert message in error_line(done)
