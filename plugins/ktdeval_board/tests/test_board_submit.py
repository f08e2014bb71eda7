"""`ktdeval leaderboard submit`: what is missing is said at once; what is written is whole, clean,
or not there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from ktdeval.cards import load_card
from ktdeval.errors import ConfigError, KtdevalError, StoreError, UsageError
from ktdeval.runner import verify_card
from ktdeval.testing import error_lines, on_each_row, text_of
from ktdeval.values import dumps_pretty, file_sha256, loads_strict, to_plain, write_atomic
from ktdeval_board.atomic_moves import Placement
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.command import leaderboard
from ktdeval_board.document_types import Records
from ktdeval_board.read_documents import read_untrusted
from ktdeval_board.redacted_records import HOME, REDACTED, Redactor
from ktdeval_board.submit import SubmitRequest, submit_run
from support.board import board_teller
from support.board.board_cards import made_on
from support.board.board_runs import (
    CLAIMS,
    DAYS,
    DIVISION,
    TASK,
    TELLER,
    TODAY,
    WINDOW,
    begin,
    call,
    change_rules,
    edit,
    make_run,
    plugins,
    printed,
    submit,
    tree,
    unpacked,
)

KEY = "sk-proj-q7w8e9r0t1y2u3i4o5p6"
LATER = "2024-03-15:2024-03-29"
BRIGHT = (
    "bright_open_research_paper"  # two phases; hides nothing: a model of a plugin may be submitted
)


@pytest.fixture(scope="module")
def submitted(empty_board: Path, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board with one submission."""
    folder = tmp_path_factory.mktemp("submitted") / "board"
    shutil.copytree(empty_board, folder)
    outcome = submit(folder, run, is_executed=True)

    assert outcome.missing == ()
    assert len(outcome.submitted) == 1

    return folder


def run_of_teller(market: Path, out: Path, says: str, **changes: Any) -> Path:
    """A run of the model that tells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(board_teller.SAYS, says)
        return make_run(out, market, model=TELLER, **changes)


def test_paths_of_the_submitters_machine_do_not_leave_it(
    run: Path, market: Path, board: Path, tmp_path: Path
) -> None:
    elsewhere = shutil.copytree(market, tmp_path / "somebody" / "market")
    moved = Path(shutil.copytree(run, tmp_path / "runs" / "run"))
    edit(moved / "manifest.json", data={"data": str(elsewhere), "data_args": {}})
    submit(board, moved)

    assert b"somebody" in (moved / "manifest.json").read_bytes()
    assert b"somebody" not in unpacked(board / "records")


# ---- what is written


@pytest.mark.slow
def test_a_whole_run_becomes_a_card_with_submission_list_and_records(
    submitted: Path, run: Path
) -> None:
    board = load_board(submitted)
    (entry,) = board.entries

    assert entry.files.card.read_bytes() == (run / "cards" / f"{TASK}.json").read_bytes()
    assert (entry.tier, entry.division, entry.model) == (
        "unchecked",
        board.rules.divisions[0],
        "builtin/momentum",
    )
    assert to_plain(entry.submission.submitter) == {"name": "A team", "contact": "team@example.org"}
    assert entry.submission.model.cutoff_date == "2023-12-31"
    assert (entry.submission.submitted_on, entry.submission.statement) == (TODAY, True)

    records = to_plain(read_untrusted(entry.files.records, Records, 10**6))
    folder = submitted / "records" / entry.card_id
    there = [path for path in sorted(folder.rglob("*")) if path.is_file()]

    assert [item["path"] for item in records["files"]] == [
        path.relative_to(folder).as_posix() for path in there
    ]
    assert [item["sha256"] for item in records["files"]] == list(map(file_sha256, there))
    assert {path.name for path in there} == {
        "manifest.json",
        "ledger.parquet",
        "transcript.jsonl.zst",
        "episode.json",
    }


def test_only_the_submission_is_added_and_the_board_reexecutes_it(
    submitted: Path, empty_board: Path
) -> None:
    before = tree(empty_board)
    after = tree(submitted)

    assert {path.partition("/")[0] for path in set(after) - set(before)} == {"cards", "records"}
    assert {path: after[path] for path in before} == before
    assert not any(path.stat().st_mode & 0o111 for path in submitted.rglob("*") if path.is_file())

    report = check_board(submitted, plugins(), CheckOptions(TODAY, record=False))
    assert (report.findings, [card.tier for card in report.checked]) == ((), ["re-executed"])


@pytest.mark.slow
def test_a_market_that_has_moved_is_named(
    run: Path, market: Path, board: Path, tmp_path: Path
) -> None:
    lost = Path(shutil.copytree(run, tmp_path / "runs" / "run"))
    there = {"data": str(market), "data_args": {}}
    edit(lost / "manifest.json", data={"data": str(tmp_path / "gone"), "data_args": {}})

    # the records are executed on the board's market, wherever the run had it
    assert submit(board, lost, is_executed=True, is_dry=True).submitted

    change_rules(board, (str(market), "/home/maintainer/market"))
    assert "give its location with --data" in " ".join(
        submit(board, lost, is_executed=True).missing
    )

    change_rules(board, ("/home/maintainer/market", str(market)))
    # the market's folder is the board's own word, which no secret of the submitter is
    change_rules(board, (str(market), "/home/maintainer/market"))

    assert submit(board, lost, changes=there).submitted


@pytest.mark.slow
def test_dry_run_lists_files_and_submissions_are_reproducible(
    run: Path, board: Path, submitted: Path
) -> None:
    before = tree(board)
    outcome = submit(board, run, is_dry=True)

    assert tree(board) == before
    assert (
        outcome.submitted[0].paths[-1] == f"records/{file_sha256(run / 'cards' / f'{TASK}.json')}"
    )

    submit(board, run)
    assert tree(board) == tree(submitted)


# ---- what is missing


@pytest.mark.slow
def test_all_missing_parts_are_reported_at_once(market: Path, board: Path, tmp_path: Path) -> None:
    change_rules(
        board,
        ("seeds: [0]", "seeds: [0, 1]"),
        ('certificate: "optional"', 'certificate: "required"'),
        ("attackers: []", "attackers: [openai/gpt-4.1]"),
    )
    run = make_run(tmp_path / "r" / "run", market, windows=(LATER,), limit=3)
    outcome = submit(
        board, run, replace(CLAIMS, submitter="", contact="", cutoff="", attempts=None)
    )

    assert outcome.submitted == ()
    assert text_of(outcome.missing) == snapshot("""\
blinded_open_research.json: submitter: give your name with --submitter
blinded_open_research.json: contact: give an e-mail or https address for questions with --contact
blinded_open_research.json: cut-off date: give the end of the model's training data: --cutoff YYYY-MM-DD, --cutoff none (nothing was trained) or --cutoff unknown, and its source with --cutoff-source
blinded_open_research.json: attempts: give with --attempts how many runs of this model and agent were made on this task's windows, including this one and limited or aborted ones
blinded_open_research.json: certificate: division blinded-open-research requires a certificate of the mask: no certificate was given; make one with `ktdeval certify`, then `ktdeval score RUN --certificate FILE`
blinded_open_research.json: limit: every episode was cut after 3 steps
blinded_open_research.json: seeds: 1 missing; run again with --seeds 2
blinded_open_research.json: windows: 2024-03-01:2024-03-14 missing for division blinded-open-research; run again with --windows 2024-03-01:2024-03-14
blinded_open_research.json: windows: 2024-03-15:2024-03-29 not in division blinded-open-research; run again with --windows 2024-03-01:2024-03-14
""")


@on_each_row(
    "change, message",
    (
        {"cutoff": "2026-03-03"},
        "cutoff: model.cutoff_date: 2026-03-03 is after the submission (2026-03-02)",
    ),
    ({"cutoff": "soon"}, "schema: model.cutoff_date"),
    ({"cutoff": "2023-13-01"}, "schema: model.cutoff_date: expected `str` of a day as YYYY-MM-DD"),
    ({"cutoff_source": ""}, "give with --cutoff-source its source"),
    (
        {"contact": "at home"},
        "schema: submitter.contact: expected `str` of an e-mail address, or an https address",
    ),
    ({"submitter": "<b>bold</b>"}, "markup: submitter.name: contains markup"),
    ({"strategy": ("a\nb")}, "text: agent.strategy: contains the character U+000A"),
    (
        {"model_url": "http://plain.example"},
        "url: model.url: contains an address that begins with http://; use https",
    ),
    ({"attempts": 0}, "schema: attempts.runs: expected `int` >= 1"),
)
def test_claims_that_cannot_be_true_are_named(
    run: Path, board: Path, change: dict[str, Any], message: str
) -> None:
    assert any(message in line for line in submit(board, run, replace(CLAIMS, **change)).missing)


def test_a_run_without_cards_and_a_folder_without_a_run_are_named(
    run: Path, board: Path, tmp_path: Path
) -> None:
    own = Path(shutil.copytree(run, tmp_path / "own"))
    bare = Path(shutil.copytree(run, tmp_path / "bare"))
    shutil.rmtree(bare / "cards")

    assert error_lines(
        lambda: submit(board, bare),
        lambda: submit(board, tmp_path),
        lambda: submit(board, own, card="blinded_open_reserch"),
        lambda: submit(own, own),
        folder=tmp_path,
    ) == snapshot("""\
UsageError: FOLDER/bare: no cards found; give cards, or runs with finished episodes (`ktdeval score RUN` writes their cards)
StoreError: FOLDER: no run here (manifest.json is missing)
UsageError: --card: FOLDER/own has no card of 'blinded_open_reserch'; did you mean 'blinded_open_research'?
ConfigError: FOLDER/own: not a board (board.yaml is missing); create one with `ktdeval leaderboard init FOLDER/own`
""")


def test_a_run_that_does_not_verify_is_not_taken(run: Path, board: Path, tmp_path: Path) -> None:
    forged = Path(shutil.copytree(run, tmp_path / "runs" / "forged"))
    (ledger,) = forged.glob("episodes/*/ledger.parquet")
    ledger.write_bytes(ledger.read_bytes() + b"\0")
    name = ledger.relative_to(forged).as_posix()
    before = tree(board)
    outcome = submit(board, forged, is_executed=True)

    assert any("does not verify: can't be read: " in line for line in outcome.missing)
    assert any(f": hash: files: {name}: SHA-256 is " in line for line in outcome.missing)
    assert tree(board) == before


@pytest.mark.slow
def test_records_that_the_board_can_not_execute_are_verified_with_the_run(
    run: Path, market: Path, board: Path, tmp_path: Path
) -> None:
    forged = Path(shutil.copytree(run, tmp_path / "runs" / "forged"))
    card = forged / "cards" / f"{TASK}.json"
    text = loads_strict(card.read_bytes())

    for line in text["metrics"].values():
        line["better"] = "lower"

    write_atomic(card, dumps_pretty(text))
    change_rules(board, (str(market), "/home/maintainer/market"))
    before = tree(board)
    elsewhere = {"stored": "elsewhere", "records_url": "https://example.org/records"}

    for options in ({}, {**elsewhere, "records_out": tmp_path / "out"}):
        outcome = submit(board, forged, is_executed=True, **options)
        assert any(": does not verify: " in line for line in outcome.missing), outcome
        assert submit(board, run, is_executed=True, is_dry=True, **options).submitted
        assert tree(board) == before


@pytest.mark.slow
def test_a_forged_card_is_not_made_honest_by_taking_a_secret_out(
    market: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    begin(board, market, tasks=(BRIGHT,))
    run = run_of_teller(market, tmp_path / "r" / "run", KEY, tasks=(BRIGHT,))
    card = run / "cards" / f"{BRIGHT}.json"
    text = loads_strict(card.read_bytes())
    text["metrics"]["total_return"]["formula"] = "the best that was ever seen"
    write_atomic(card, dumps_pretty(text))
    (line,) = submit(board, run).missing

    assert "can't be replaced consistently in all records (the card differs: " in line


# ---- one attempt


@pytest.mark.slow
def test_a_card_of_the_board_precedes_a_submitted_one_on_any_stated_days(
    market: Path, submitted: Path, tmp_path: Path
) -> None:
    board = Path(shutil.copytree(submitted, tmp_path / "board"))
    (entry,) = load_board(board).entries
    edit(entry.files.submission, submitted_on="2026-03-09")
    again = make_run(tmp_path / "r" / "run", market, temperature=0.1)
    late = {"today": "2026-03-09"}
    (line,) = submit(board, again, replace(CLAIMS, attempts=2), **late).missing

    assert "duplicate: builtin/momentum with agent react already has a card in division" in line


def test_a_card_that_is_on_the_board_is_named(run: Path, submitted: Path) -> None:
    before = tree(submitted)
    (line,) = submit(submitted, run).missing

    assert line.startswith(
        f"{TASK}.json: duplicate: the same card is already on the board: cards/{TASK}/"
    )
    assert tree(submitted) == before


@pytest.mark.exhaustive
def test_runs_in_one_folder_are_attempts_even_when_interrupted(
    market: Path, board: Path, tmp_path: Path
) -> None:
    store = tmp_path / "runs"
    run = make_run(store / "a", market)
    make_run(store / "b", market, limit=2)  # cut
    make_run(store / "c", market, windows=("2024-03-08:2024-03-20",))  # days in common
    make_run(store / "d", market, windows=(LATER,))  # none in common
    make_run(store / "e", market, model="builtin/hold")  # another model
    shutil.copytree(run, store / "copy")
    (line,) = submit(board, run, replace(CLAIMS, attempts=2)).missing

    assert f"attempts: 2 declared, but there are more: 3 next to each other in {store}" in line
    assert submit(board, run, replace(CLAIMS, attempts=3)).submitted


# ---- several tasks, scoring tasks


@pytest.mark.exhaustive
def test_of_several_cards_those_of_the_board_are_taken(
    market: Path, board: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "r" / "run", market, tasks=(TASK, "bright_open_research"))
    outcome = submit(board, run)

    assert [card.division for card in outcome.submitted] == [DIVISION]

    assert text_of(outcome.notes) == snapshot("""\
passed over: bright_open_research.json: task: the board has no division for bright_open_research; did you mean 'blinded_open_research'? (it has blinded_open_research)
blinded_open_research.json: own key: the board draws the mask keys of division blinded-open-research, so this card will not be ranked; to be ranked, run `ktdeval leaderboard register` before the run
""")

    (manifest,) = (board / "records").glob("*/manifest.json")
    assert {episode["task"] for episode in loads_strict(manifest.read_bytes())["episodes"]} == {
        TASK
    }

    assert text_of(submit(board, run, card="bright_open_research").missing) == snapshot(
        "bright_open_research.json: task: the board has no division for bright_open_research; did you mean 'blinded_open_research'? (it has blinded_open_research)\n"
    )


@pytest.mark.exhaustive
def test_a_scoring_card_is_submitted_with_its_answers(market: Path, tmp_path: Path) -> None:
    from support.masking import deanon_plugin

    task = {"tasks": ("deanon_probe_bright",), "windows": (WINDOW,)}
    begin(tmp_path / "board", market, baselines=(), **task)
    from ktdeval.registry import load_plugins
    from ktdeval.runner import evaluate
    from ktdeval.runner.plans.config import RunConfig

    config = RunConfig(
        model="attacker/reader",
        data=str(market),
        out=str(tmp_path / "r" / "run"),
        quiet=True,
        **task,
    )
    known = load_plugins((deanon_plugin.__file__,))
    run = made_on(evaluate(config, known).folder, TODAY)
    request = SubmitRequest(run, TODAY, is_executed=False)
    outcome = submit_run(tmp_path / "board", request, CLAIMS, known, Redactor({}))

    assert outcome.missing == ()
    assert {path.name for path in (tmp_path / "board" / "records").glob("*/episodes/*/*")} == {
        "answers.jsonl.zst", "transcript.jsonl.zst", "episode.json",
    }  # fmt: skip


# ---- secrets


@pytest.mark.slow
def test_a_secret_is_replaced_everywhere_and_the_records_still_agree(
    market: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    begin(board, market, tasks=(BRIGHT,))
    says = f"{KEY} from /home/alice/notes and horse-battery-9"
    run = run_of_teller(market, tmp_path / "r" / "run", says, tasks=(BRIGHT,))

    assert all(text in unpacked(run) for text in (KEY.encode(), b"/home/alice", b"horse-battery-9"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_PASSWORD", "horse-battery-9")
        # the board's own check executes the replies again
        done = call(leaderboard, "--on", TODAY, "submit", run, *as_options(board), "--json")

    assert done.exit_code == 0, done.output

    published = unpacked(board / "cards") + unpacked(board / "records")
    assert not any(text in published for text in (KEY.encode(), b"alice", b"horse-battery"))
    assert published.count(f"{REDACTED} from {HOME}/notes and {REDACTED}".encode()) > 2 * DAYS

    redacted = json.loads(done.stdout)["submitted"][0]["redacted"]
    assert {leak["place"].rpartition("/")[2] for leak in redacted} == {
        "transcript.jsonl.zst",
        "ledger.parquet",
    }
    assert {leak["kind"] for leak in redacted} == {
        "an API key (sk-…)",
        "a home folder",
        "the value of $SOME_PASSWORD",
    }
    assert KEY not in done.output

    mine = load_card(run / "cards" / f"{BRIGHT}.json").plain
    theirs = load_card(load_board(board).entries[0].files.card).plain

    assert {name for name in mine if mine[name] != theirs[name]} == {"artefacts"}, (
        "a redacted card differs in hashes alone"
    )


@pytest.mark.slow
def test_a_secret_that_can_not_be_taken_out_is_refused_by_its_kind(
    run: Path, market: Path, board: Path, tmp_path: Path
) -> None:
    hashed = run_of_teller(market, tmp_path / "r" / "run", "", model_args={"note": KEY})
    before = tree(board)
    missing = submit(board, hashed).missing

    assert any(
        "manifest.json: contains an API key (sk-…), which can't be removed; run again without it"
        in line
        for line in missing
    )
    assert not any(KEY in line for line in missing)

    # a word of the task
    lines = submit(board, run, redactor=Redactor({"ODD_TOKEN": "portfolio_state"})).missing
    assert (
        "transcripts contain the value of $ODD_TOKEN, which can't be replaced consistently in all records"
        in lines[0]
    )
    assert all("unset the variable if it is not a secret" in line for line in lines)
    assert tree(board) == before


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"key={KEY}.", f"key={REDACTED}."),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", REDACTED),
        ("id AKIAIOSFODNN7EXAMPLE,", f"id {REDACTED},"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", REDACTED),
        ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", REDACTED),
        ("xoxb-123456789012-abcdef", REDACTED),
        ("Authorization: Bearer abcDEF0123456789xyz==", f"Authorization: Bearer {REDACTED}"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123456", REDACTED),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- after",
            f"{REDACTED} after",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", REDACTED),
        ("see /home/alice/run and /Users/Bob/x", f"see {HOME}/run and {HOME}/x"),
        ("C:\\Users\\alice\\run", f"{HOME}\\run"),
        ('"C:\\\\Users\\\\alice\\\\run"', f'"{HOME}\\\\run"'),
    ],
)
def test_known_forms_of_secrets_are_replaced_once_and_for_all(text: str, clean: str) -> None:
    redactor = Redactor({})
    assert redactor.redact(text)[0] == clean
    assert redactor.redact(clean) == (clean, ())


@pytest.mark.parametrize(
    "text",
    [
        "a risk-adjusted-momentum-strategy-over-252-days",
        "the bearer of this news is momentum",
        "https://example.org/home/page and a/home/b",
        "asset_0001 has MOM_12_1 of 0.31; take /homework",
        "sk-learn and sk-image",
        "AKIA",
        "",
    ],
)
def test_plain_words_are_left_alone(text: str) -> None:
    assert Redactor({"HOME": "/home/x", "LANG": "C.UTF-8"}).redact(text) == (text, ())


def test_the_home_folder_of_the_administrator_is_left_alone() -> None:
    assert Redactor({}, "/root").redact("in /root/x") == ("in /root/x", ())


def test_a_secret_value_is_found_as_json_writes_it_and_longest_first() -> None:
    redactor = Redactor(
        {
            "A_KEY": 'quo"te\\back',
            "B_KEY": "longer-secret-value",
            "C_KEY": "longer-secret",
            "SHORT_KEY": "true",
        }
    )

    assert redactor.redact(json.dumps({"x": 'quo"te\\back'}))[0] == json.dumps({"x": REDACTED})
    assert redactor.redact("a longer-secret-value, true")[0] == f"a {REDACTED}, true"
    assert Redactor({}, "/data/people/alice").redact("in /data/people/alice/x")[0] == f"in {HOME}/x"


# ---- all or nothing


@pytest.mark.exhaustive
def test_nothing_is_written_if_the_check_refuses_or_the_path_is_taken(
    run: Path, board: Path
) -> None:
    before = tree(board)
    outcome = submit(board, run, replace(CLAIMS, submitter="=HYPERLINK(1)"), is_executed=True)

    assert (outcome.submitted, any(": formula: " in line for line in outcome.missing)) == ((), True)
    assert tree(board) == before

    second = submit(
        board, run, replace(CLAIMS, submitter="=HYPERLINK(1)"), is_executed=True, is_dry=True
    )

    assert (second, tree(board)) == (outcome, before)  # a dry run says what submitting says

    (board / "records" / file_sha256(run / "cards" / f"{TASK}.json")).mkdir(parents=True)
    before = tree(board)

    with pytest.raises(StoreError, match="already exists; nothing was written"):
        submit(board, run)

    assert tree(board) == before


def test_board_problem_is_named_by_path_and_nothing_is_written(run: Path, board: Path) -> None:
    (board / "verdicts").symlink_to("/tmp")
    before = tree(board)
    with pytest.raises(StoreError, match=f"^{board}/verdicts: is a link"):
        submit(board, run)

    assert tree(board) == before

    (board / "verdicts").unlink()
    (board / "errata.yaml").write_text("errata: nothing\n")

    with pytest.raises(ConfigError, match=f"^{board}/errata.yaml: "):
        submit(board, run)

    assert not list(board.glob(".submission-*"))


@pytest.mark.slow
def test_findings_on_other_cards_do_not_block_a_submission(
    market: Path, submitted: Path, tmp_path: Path
) -> None:
    board = Path(shutil.copytree(submitted, tmp_path / "board"))
    (board / "cards" / "stray.txt").write_text("stray")
    outcome = submit(
        board, make_run(tmp_path / "r" / "run", market, model="builtin/hold"), is_executed=True
    )

    assert len(outcome.submitted) == 1

    assert text_of(outcome.notes) == snapshot("""\
blinded_open_research.json: own key: the board draws the mask keys of division blinded-open-research, so this card will not be ranked; to be ranked, run `ktdeval leaderboard register` before the run
the board also has 1 finding on other cards; see `ktdeval leaderboard check`
""")


def test_a_placement_is_undone_with_the_folders_that_it_made(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    for name in ("a", "b"):
        (tmp_path / "from" / name).write_text(name)

    (tmp_path / "to").mkdir()
    placement = Placement()
    placement.put(tmp_path / "from" / "a", tmp_path / "to" / "x" / "y" / "a")

    with pytest.raises(StoreError, match="can't write"):
        placement.put(tmp_path / "from" / "missing", tmp_path / "to" / "z" / "b")

    placement.undo()

    assert sorted(tree(tmp_path / "to")) == []


# ---- records that are kept elsewhere


@pytest.mark.exhaustive
def test_records_elsewhere_are_written_where_they_can_be_published_from(
    market: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    begin(board, market, tasks=(BRIGHT,))
    run = run_of_teller(market, tmp_path / "r" / "run", KEY, tasks=(BRIGHT,))
    out = tmp_path / "publish"
    outcome = submit(
        board, run, stored="elsewhere", records_url="https://example.org/records", records_out=out
    )

    assert outcome.missing == ()

    (entry,) = load_board(board).entries
    records = loads_strict(entry.files.records.read_bytes())

    assert (records["stored"], records["url"]) == ("elsewhere", "https://example.org/records")
    assert not (board / "records").exists()

    card = out / BRIGHT / "cards" / f"{BRIGHT}.json"
    assert card.read_bytes() == entry.files.card.read_bytes()
    assert KEY.encode() not in unpacked(out)
    assert verify_card(card, plugins(), {"data": str(market), "data_args": {}}).findings == ()
    assert [file_sha256(out / BRIGHT / item["path"]) for item in records["files"]] == [
        item["sha256"] for item in records["files"]
    ]


@pytest.mark.slow
def test_records_elsewhere_need_an_address_and_a_folder(run: Path, board: Path) -> None:
    elsewhere = submit(board, run, stored="elsewhere").missing
    here = submit(board, run, records_url="https://example.org/x").missing

    assert text_of([*elsewhere, *here]) == snapshot("""\
blinded_open_research.json: records: give their address with --records https://…, or store them in the repository
blinded_open_research.json: records: give a folder with --records-out; they are written to it without secrets, for you to upload
blinded_open_research.json: records: --records-out applies to records that are stored elsewhere; give their address with --records https://…
""")


@pytest.mark.exhaustive
def test_records_beyond_the_limits_are_named(run: Path, board: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(run, tmp_path / "own" / "run"))
    (own / "canary.json").write_text(json.dumps({"answers": ["x" * 1_000_001]}))
    change_rules(board, ("file_mb: 64", "file_mb: 1"), ("records_mb: 256", "records_mb: 1"))
    before = tree(board)
    missing = " ".join(submit(board, own).missing)

    assert "size: files: canary.json has 1,000,0" in missing
    assert "store them elsewhere with --records https://…" in missing
    assert tree(board) == before

    change_rules(board, ("file_mb: 1\n", "file_mb: 2\n"), ("records_mb: 1\n", "records_mb: 2\n"))
    assert submit(board, own).submitted
    assert "canary.json" in {path.name for path in (board / "records").glob("*/*")}


# ---- the command


def as_options(board: Path) -> Iterator[object]:
    claims = board.parent / "claims.yaml"
    claims.write_text("strategy: free\nsubmitter: Another team\n")
    given = {
        "board": board,
        "submitter": "A team",
        "contact": "team@example.org",
        "cutoff": "2023-12-31",
        "cutoff-source": "its model card",
        "attempts": 1,
        "claims": claims,
    }

    for name, value in given.items():
        yield from (f"--{name}", value)


@pytest.mark.slow
def test_the_command_lists_its_files_and_explains_the_pull_request(
    run: Path, board: Path, submitted: Path
) -> None:
    done = call(leaderboard, "--on", TODAY, "submit", run, *as_options(board))
    card_id = file_sha256(run / "cards" / f"{TASK}.json")

    assert done.exit_code == 0, done.output
    assert done.output.replace(card_id, "CARD").replace(card_id[:12], "CARD") == snapshot("""\
note: blinded_open_research.json: own key: the board draws the mask keys of division blinded-open-research, so this card will not be ranked; to be ranked, run `ktdeval leaderboard register` before the run
builtin/momentum in division blinded-open-research: 1 episode, 0.0 MB of records
  wrote cards/blinded_open_research/builtin--momentum/react/CARD.json
  wrote cards/blinded_open_research/builtin--momentum/react/CARD.submission.json
  wrote cards/blinded_open_research/builtin--momentum/react/CARD.records.json
  wrote records/CARD
next, in the board's repository:
  git switch -c submit-CARD
  git add cards records
  git commit -m 'Submit CARD'
  git push -u origin HEAD    # then open a pull request
""")
    assert tree(board) == tree(submitted)


@pytest.mark.exhaustive
def test_the_command_exits_with_1_if_something_is_missing_and_prints_json(
    run: Path, board: Path
) -> None:
    bare = (leaderboard, "--on", TODAY, "submit", run, "--board", board)
    done = call(*bare)

    assert done.exit_code == 1
    assert done.output == snapshot("""\
note: blinded_open_research.json: own key: the board draws the mask keys of division blinded-open-research, so this card will not be ranked; to be ranked, run `ktdeval leaderboard register` before the run
blinded_open_research.json: submitter: give your name with --submitter
blinded_open_research.json: contact: give an e-mail or https address for questions with --contact
blinded_open_research.json: cut-off date: give the end of the model's training data: --cutoff YYYY-MM-DD, --cutoff none (nothing was trained) or --cutoff unknown, and its source with --cutoff-source
blinded_open_research.json: attempts: give with --attempts how many runs of this model and agent were made on this task's windows, including this one and limited or aborted ones
nothing was written: 4 things to fix
""")

    done = call(*bare, "--json")
    assert (done.exit_code, len(json.loads(done.stdout)["missing"])) == (1, 4)

    done = call(
        leaderboard,
        "--on",
        TODAY,
        "submit",
        run,
        *as_options(board),
        "--dry-run",
        "--json",
    )
    value = json.loads(done.stdout)

    assert (done.exit_code, value["dry_run"], value["missing"]) == (0, True, [])
    assert value["submitted"][0]["division"] == DIVISION

    done = call(leaderboard, "--on", "yesterday", "submit", run, "--board", board)
    assert isinstance(done.exception, UsageError)
    assert "--on: expected a day as YYYY-MM-DD" in str(done.exception)


def test_records_and_claims_that_are_none_are_refused(tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    words = ("submit", tmp_path, "--claims", claims)

    def refused(text: str, *more: str) -> str:
        claims.write_text(text)
        return error_lines(lambda: printed(*words, *more), folder=tmp_path)

    text = refused("{}", "--records", "here")
    text += refused("strategie: free\n") + refused("attempts: many\n")

    assert text == snapshot("""\
UsageError: --records: expected repository, elsewhere or an https://… address, was 'here'
ConfigError: FOLDER/claims.yaml: unknown field 'strategie'; did you mean 'strategy'?
ConfigError: FOLDER/claims.yaml: attempts: expected `int | null`, was `str`
""")


def test_records_at_an_address_are_kept_elsewhere(run: Path, board: Path) -> None:
    address = "https://example.org/records"
    words = ("submit", run, *as_options(board), "--dry-run", "--json", "--records", address)
    (missing,) = json.loads(call(leaderboard, "--on", TODAY, *words).stdout)["missing"]
    assert "give a folder with --records-out" in missing


# ---- transplants


@pytest.mark.exhaustive
@pytest.mark.needs("ktdeval_compare")
def test_a_transplant_is_refused_even_in_the_dress_of_its_run(
    board: Path, run: Path, tmp_path: Path
) -> None:
    """As it is it is no run; with the run's manifest its card isn't of the board's task."""
    from ktdeval_compare.transplants.transplant_run import TransplantSettings, transplant_run

    out = tmp_path / "out"
    transplant_run(run, TransplantSettings(capitals=(10**8,)), plugins(), out)
    at = out / "at" / str(10**8)
    before = tree(board)
    with pytest.raises(StoreError, match="no run here"):
        submit(board, at, is_executed=True)

    dressed = tmp_path / "dressed"
    shutil.copytree(run, dressed)
    shutil.copytree(at, dressed, dirs_exist_ok=True)
    try:
        missing = submit(board, dressed, is_executed=True).missing
    except KtdevalError as error:
        missing = (str(error),)

    assert missing
    assert tree(board) == before
