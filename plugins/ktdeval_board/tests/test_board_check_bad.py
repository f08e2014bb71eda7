"""`leaderboard check` against everything that a stranger can put into a pull request: each is
refused by its rule and named.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError
from ktdeval.registry import load_plugins
from ktdeval.values import Finding
from ktdeval_board.board_entries import identity, identity_words
from ktdeval_board.checking.check import CheckOptions, CheckReport, check_board
from ktdeval_board.checking.files import FolderItem
from ktdeval_board.checking.findings import CHECKS, make_finding, printable
from ktdeval_board.checking.rules import RULES, Stage, findings_of
from ktdeval_board.checking.text_rules import DEEPEST, ReadDocument
from ktdeval_board.read_documents import schema_of
from ktdeval_board.rules import load_rules
from support.board.board_bad import MODEL, TODAY, BadBoard, Good, make_good
from support.board.board_bad_cases import CASES, only_window, second_attempt, setting
from support.board.board_cards import put_json
from support.board.board_kinds import withdraw_card
from support.figures.card_cases import typed
from support.json_places import Place, leaves, with_value

SCRIPTS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</td>",
    "<!--",
    "JavaScript:alert(1)",
    "data:text/html,x",
)
UNSEEN = (
    "\x00",
    "\x1b[31m",
    "\n",
    "\u202e",
    "\u200b",
    "\ufeff",
    "\u2028",
    "\ue000",
    "\ud800",
    "\U000e0041",
    "\u3164",
    "a" + "\u0301" * 9,
)
HONEST = (
    "a < b",
    "5 <7",
    "n<9",
    "中文名称",
    "López — 20 % · x",
    "👍",
    "data: 4",
    "https://example.org/a?b=c&d",
)
SERVER = {"model": {"args": {"base_url": "http://localhost:8000/v1"}}}


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    """One real run, and the rules of a board that takes it."""
    return make_good(tmp_path_factory.mktemp("good") / "run")


@pytest.fixture
def board(good: Good, tmp_path: Path) -> BadBoard:
    """A board without a submission."""
    return BadBoard(tmp_path / "board", good)


@pytest.fixture
def full(board: BadBoard) -> BadBoard:
    """A board with the good submission."""
    board.add()
    return board


def texts(value: Any, *schemes: str, is_table: bool = False) -> list[Finding]:
    """What the check finds in the texts of a document."""
    return findings_of(
        Stage.JSON,
        ReadDocument("card.json", value, schemes=schemes or ("https",), is_table=is_table),
    )


def rules_of(findings: list[Finding]) -> list[str]:
    return [finding.rule for finding in findings]


def listing(folder: Path) -> dict[str, Any]:
    """Every entry below a folder with what it is and, of a small file, its bytes."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        is_small = path.is_file() and not path.is_symlink() and state.st_size < 1_000_000
        found[str(path)] = (
            state.st_mode,
            state.st_mtime_ns,
            path.read_bytes() if is_small else None,
        )

    return found


@pytest.mark.exhaustive
def test_the_good_submission_is_let_through(full: BadBoard) -> None:
    findings, sound = full.look()
    assert findings == []
    assert [candidate.card_id for candidate in sound] == [full.card_id]
    assert (sound[0].division.id, sound[0].model, sound[0].agent) == ("blinded", MODEL, "react")


@pytest.mark.exhaustive
def test_a_board_without_submissions_is_in_order(board: BadBoard) -> None:
    for name in ("cards", "records", "imported"):
        (board.folder / name).mkdir()
        (board.folder / name / ".gitkeep").touch()

    assert board.look() == ([], [])


@pytest.mark.exhaustive
@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_bad_submission_is_refused_and_the_file_named(board: BadBoard, name: str) -> None:
    build, rule, named = CASES[name]
    build(board)
    before = listing(board.folder.parent)
    findings, sound = board.look()
    places = {
        "card": f"{board.card_id}.json",
        "submission": f"{board.card_id}.submission.json",
        "list": f"{board.card_id}.records.json",
    }
    place = places.get(named, named)

    if named.split("/")[0] in ("records", "verdicts") and "b" * 64 not in named:
        place = named.replace("records", f"records/{board.card_id}", 1)

    hits = [finding for finding in findings if finding.rule == rule]

    assert any(hit.path.endswith(place) or place in hit.path for hit in hits), [
        str(finding) for finding in findings
    ]
    assert all(str(hit).isprintable() and len(hit.message) > 5 for hit in findings)
    assert named not in places or board.card_id not in {one.card_id for one in sound}
    assert listing(board.folder.parent) == before


def test_every_rule_is_a_sentence_and_every_case_has_one() -> None:
    assert {rule for _, rule, _ in CASES.values()} <= {rule.id for rule in RULES}
    assert len(CASES) > 100
    assert all(rule.holds.endswith(".") and rule.checks for rule in RULES)
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_nothing_is_let_through_after_a_fault_in_another_file(full: BadBoard) -> None:
    good_id = full.card_id
    full.forge(lambda card: card.pop("mask_key"))
    findings, sound = full.look()

    assert {finding.rule for finding in findings} >= {"mask-key"}
    assert [candidate.card_id for candidate in sound] == [good_id]


@pytest.mark.parametrize("name", ["verdicts", "series", "decisions", "markets"])
def test_a_folder_that_the_check_writes_to_may_not_lead_out_of_the_board(
    full: BadBoard, name: str
) -> None:
    outside = full.folder.parent / "outside"
    outside.mkdir()
    shutil.rmtree(full.folder / name, ignore_errors=True)
    (full.folder / name).symlink_to(outside)

    with pytest.raises(StoreError, match=f"{name}: is a link or not a folder"):
        full.look()

    assert list(outside.iterdir()) == []


# -- texts
# -----------------------------------------------------------------------------------------------------------------


def shape(path: Place) -> Place:
    """The place of a text without numbers in lists and without the names of what there are many
    of.
    """
    many = {"metrics", "artefacts", "lines", "undefined", "windows", "benchmark_buy_and_hold"}
    return tuple(
        "*" if isinstance(part, int) or (place and path[place - 1] in many) else part
        for place, part in enumerate(path)
    )


def kinds_of_text(value: Any) -> list[Place]:
    """The place of a text of each kind in a document."""
    return list(
        {shape(place): place for place, text in leaves(value) if isinstance(text, str)}.values()
    )


@pytest.mark.exhaustive
def test_markup_is_found_in_every_text_of_a_card(good: Good) -> None:
    places = kinds_of_text(good.card)
    assert len(places) > 90

    for place, script in zip(places, itertools.cycle(SCRIPTS), strict=False):
        (finding,) = texts(with_value(good.card, place, f"so {script}"), "https", "http")
        assert (finding.path, finding.rule) == ("card.json", "markup")
        assert str(place[-1]) in finding.message

    assert texts(good.card, "https", "http") == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("document", ["submission", "list"])
def test_markup_is_found_in_every_text_of_submission_and_list(
    full: BadBoard, document: str
) -> None:
    path = full.files.submission if document == "submission" else full.files.records
    value = json.loads(path.read_text())
    value.setdefault("url", "https://example.org/records") if document == "list" else None
    places = kinds_of_text(value)

    assert len(places) == (16 if document == "submission" else 5)

    for place in places:
        put_json(path, with_value(value, place, SCRIPTS[0]))
        findings, sound = full.look()
        assert ("markup", full.where(path)) in {
            (finding.rule, finding.path) for finding in findings
        }
        assert sound == []


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        *(({"note": f"so {script}"}, ["markup"]) for script in SCRIPTS),
        *(({"note": f"a{sign}b"}, ["text"]) for sign in UNSEEN),
        *(({"note": text}, []) for text in HONEST),
        *(([{name: 1}], ["key"]) for name in ("__proto__", "constructor", "prototype")),
        ({"environment": {"<img src=x>": "1"}}, ["markup"]),  # a field's name is a text, too
        ({"note": "x" * 20_001}, ["text"]),
        (["ftp://example.org"], ["url"]),
        (["see FILE:///etc"], ["url"]),
        (SERVER, ["url"]),
        (["<a>"] * 1000, ["markup"] * 20),  # many faults are told twenty at a time
    ],
)
def test_texts_are_held_against_the_rules_on_texts(value: Any, rules: list[str]) -> None:
    assert rules_of(texts(value)) == rules


def test_a_card_may_name_a_server_without_a_certificate() -> None:
    assert texts(SERVER, "https", "http") == []


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", " =1"])
def test_a_table_may_hold_no_formula(text: str) -> None:
    (finding,) = texts({"note": text}, is_table=True)
    assert finding.rule == "formula"
    assert "note" in finding.message


def test_depth_is_measured_without_recursion() -> None:
    value: Any = 0
    for _ in range(100_000):
        value = [value]

    assert rules_of(texts(value)) == ["depth"]

    shallow: Any = 0
    for _ in range(DEEPEST):
        shallow = {"a": shallow}

    assert texts(shallow) == []
    assert rules_of(texts([shallow])) == ["depth"]

    while value:  # taken apart by hand: freeing it in one go would recurse
        value = value[0]


# -- what is printed
# -------------------------------------------------------------------------------------------------------


def test_a_finding_cannot_colour_a_terminal_or_send_ci_commands() -> None:
    finding = make_finding(
        "::add-mask::x", "path", "a\x1b[31mred\n::error::b\u202ec\ud800" + "y" * 1000
    )
    assert str(finding).isprintable()
    assert str(finding).isascii() or "…" in str(finding)
    assert not str(finding).startswith("::")
    assert "\n" not in str(finding)
    assert len(finding.message) < 500
    assert make_finding("##[error]x", "path", "m").path.startswith("./")
    assert printable("日本 a") == "日本 a"


# -- cards beside each other
# -----------------------------------------------------------------------------------------------


def test_a_system_is_division_model_reasoning_and_agent(good: Good, full: BadBoard) -> None:
    division = load_rules(full.folder).divisions[0]
    card = copy.deepcopy(good.card)
    card["model"]["args"], card["agent"]["args"] = {"a": 1}, {"b": 2}
    card["call"].update(temperature=1.0, reasoning_effort=None)

    assert identity(typed(card), division) == identity(typed(good.card), division)

    card["call"]["reasoning_effort"] = "high"
    assert identity(typed(card), division) != identity(typed(good.card), division)
    assert (
        identity_words(typed(card)) == "builtin/momentum with agent react (reasoning_effort high)"
    )


def test_another_reasoning_effort_is_another_system(full: BadBoard) -> None:
    full.add_verdict()
    full.forge(
        lambda card: [second_attempt(card), card["call"].update(reasoning_effort="high")],
        stored="elsewhere",
    )
    full.edit(full.files.submission, setting("attempts", "runs", to=2))
    findings, sound = full.look()

    assert (findings, len(sound)) == ([], 2)


def test_withdrawn_card_frees_its_records_and_counts_as_an_attempt(
    full: BadBoard,
) -> None:
    withdraw_card(full, full.card_id)
    full.forge(setting("provenance", "wall_time_s", to=1.0))
    full.edit(full.files.submission, setting("attempts", "runs", to=2))
    findings, sound = full.look()

    assert (findings, {one.card_id == full.card_id: one.is_withdrawn for one in sound}) == (
        [],
        {True: False, False: True},
    )


def test_judged_cards_come_first_on_any_stated_days(
    full: BadBoard,
) -> None:
    old = full.card_id
    full.add_verdict()
    full.forge(second_attempt, stored="elsewhere")
    full.edit(
        full.files.submission,
        lambda value: [value.update(submitted_on="2026-01-02"), value["attempts"].update(runs=9)],
    )
    findings, sound = full.look()

    assert [(finding.rule, full.card_id in finding.path) for finding in findings] == [
        ("duplicate", True)
    ]
    assert [candidate.card_id for candidate in sound] == [old]


def test_only_the_boards_own_baselines_may_be_in_two_divisions(
    full: BadBoard,
) -> None:
    def second_division(rules: Any) -> None:
        short = {
            **rules["divisions"][0],
            "id": "short",
            "windows": rules["divisions"][0]["windows"][:1],
        }
        rules["divisions"] = [*rules["divisions"], short]

    full.add_verdict()
    full.change_rules(second_division)
    full.forge(only_window, stored="elsewhere")

    assert [finding.rule for finding in full.look()[0]] == ["copy"]

    full.change_rules(
        lambda rules: [second_division(rules), rules.update(baselines=[{"model": MODEL}])]
    )

    assert full.look()[0] == []


def test_card_with_a_verdict_is_revalidated_only_on_request(
    full: BadBoard,
) -> None:
    full.add_verdict()
    full.change_rules(lambda rules: rules.update(opened_on="2026-01-01"))

    assert full.look(today="2026-01-01")[0] == []

    again = full.look(today="2026-01-01", every=True)[0]
    # neither the submission's day nor that on which the card was made has come yet
    assert [finding.rule for finding in again] == ["date", "provenance"]


def test_a_verdict_on_other_bytes_protects_no_card(full: BadBoard) -> None:
    full.add_verdict()
    full.edit(full.files.card, setting("metrics", "sharpe", "value", to=9.9))
    findings, sound = full.look()

    assert {"hash", "card"} <= {finding.rule for finding in findings}
    assert sound == []


def test_the_form_of_records_is_that_of_the_schema() -> None:
    names = (
        "ledger.parquet",
        "answers.jsonl.zst",
        "transcript.jsonl.zst",
        "episode.json",
        "ledger_parquet",
        "model.pkl",
        "",
    )
    runs = (
        "manifest.json",
        "canary.json",
        "certificate.json",
        "calls.jsonl",
        "/manifest.json",
        "../manifest.json",
        "manifest.json\n",
    )
    paths = [
        *runs,
        *(
            f"episodes/{episode}/{name}"
            for name, episode in itertools.product(names, ("0" * 20, "0" * 19, "..", "g" * 20))
        ),
    ]
    taken = [
        path
        for path in paths
        if re.search(
            schema_of("records")["$defs"]["RecordFile"]["properties"]["path"]["pattern"], path
        )
    ]
    episode = f"episodes/{'0' * 20}"

    assert taken == [*runs[:3], *(f"{episode}/{name}" for name in names[:4])]

    for path in paths:  # the look at files takes no others, whatever a list says
        item = FolderItem(
            path.rpartition("/")[2], f"records/{'a' * 64}/{path}", Path(path), stat.S_IFREG
        )
        refused = any(
            next(CHECKS[rule][Stage.FILES](item), None) for rule in ("path", "foreign-file")
        )
        assert refused == (path not in taken), path


# -- records, executed again
# -----------------------------------------------------------------------------------------------


def check(board: BadBoard) -> CheckReport:
    """The whole check, records executed again."""
    return check_board(board.folder, load_plugins(()), CheckOptions(today=TODAY))


def test_a_figure_forged_in_an_episode_with_all_that_follows_is_found(board: BadBoard) -> None:
    def change(card: dict[str, Any]) -> None:
        for episode in card["episodes"]:
            episode["metrics"]["total_return"]["value"] += 0.5

    board.forge(change)

    assert board.look()[0] == []

    (finding,) = check(board).findings
    assert (finding.rule, finding.path) == ("ledger", board.where(board.files.card))
    assert "total_return" in finding.message


def test_the_market_that_a_submission_names_is_not_opened(
    board: BadBoard, good: Good, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(good.run, tmp_path / "run"))
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["data"] = {"data": "evil_module:Market", "data_args": {"path": "../../../etc/passwd"}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    board.original = replace(board.original, run=run)
    board.add()
    report = check(board)

    assert (report.findings, [one.tier for one in report.checked]) == ((), ["re-executed"])


@pytest.mark.exhaustive
def test_nothing_of_the_worst_proposal_is_executed_or_written_anywhere(
    board: BadBoard, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    payload = f"open({str(canary)!r}, 'w').close()\n"
    for name in [
        "evil",
        "conftest",
        "sitecustomize",
        "usercustomize",
        "json",
        "numpy",
        "zstandard",
        "ktdeval",
        "ktdeval_board",
        "react",
    ]:
        (board.folder / f"{name}.py").write_text(payload)

    for model, agent in (
        (f"evil:{payload}", "react"),
        ("evil/x", "evil:Agent"),
        (f"$(touch {canary})", "`id`"),
        ("evil.py", "./evil.py"),
    ):
        board.forge(
            setting("model", "args", to={"module": "evil", "path": str(board.folder / "evil.py")})
        )
        board.forge(
            lambda card, m=model, a=agent: [
                card["model"].update(name=m),
                card["agent"].update(name=a),
            ]
        )

    (board.records_folder / "payload.pkl").write_bytes(
        f"cos\nsystem\n(S'touch {canary}'\ntR.".encode()
    )
    (board.folder / "imported").mkdir()
    (board.folder / "imported" / "x.json").write_text(
        json.dumps({"!!python/object/apply:os.system": f"touch {canary}"})
    )
    before = listing(tmp_path)
    home = tmp_path.parent / f"{tmp_path.name}-home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(
        (sys.executable, "-P", "-m", "ktdeval", "leaderboard", "--on", TODAY, "check"),
        cwd=board.folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert not canary.exists()

    after = {
        path: state
        for path, state in listing(tmp_path).items()
        if f"{board.folder}/markets" not in path
    }
    changed = {
        path for path in after if after[path] != before.get(path) and path != str(board.folder)
    }

    assert changed <= {str(board.folder / name) for name in ("verdicts", "series", "decisions")}
