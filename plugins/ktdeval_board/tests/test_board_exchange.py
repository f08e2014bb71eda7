"""A board's exports say what the cards say, in the forms that other tools read."""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from ktdeval.errors import CardError, KtdevalError, StoreError, UsageError
from ktdeval.testing import on_each_row
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.exchange.board_data import (
    IS_BASELINE,
    BoardData,
    ExportReport,
    read_board,
    write_folder,
)
from ktdeval_board.exchange.eval_results_export import (
    SCHEMA_VERSION,
    make_record,
    record_path,
    repository_of,
)
from ktdeval_board.layout import BoardFolder
from support.board.board_cards import (
    changed,
    division_of,
    put_card,
    put_json,
    rules_of,
    submission_of,
    verdict_of,
)
from support.board.board_forge import forge_board
from support.board.board_runs import printed as run, tree
from support.board.forged_models import PLUGIN
from support.figures.scoring_cases import score_spec, scoring_card
from support.paths import SUPPORT

pytestmark = pytest.mark.slow

MODEL = "=HYPERLINK(1)"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two divisions of a window, with one odd entrant of each kind, and baselines."""
    board = tmp_path_factory.mktemp("exchange") / "board"
    return forge_board(board, 12, divisions=2, windows=1, specials=True, decisions=False)


@pytest.fixture(scope="module")
def board(path: Path) -> LoadedBoard:
    return load_board(path)


@pytest.fixture(scope="module")
def data(path: Path) -> BoardData:
    return read_board(path)


@pytest.fixture(scope="module")
def export(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the folder of the board's export in a form, which is made once."""
    return functools.cache(lambda form: written(path, form, tmp_path_factory.mktemp(form) / "out"))


def exported(path: Path, form: str, out: Path, *words: object) -> str:
    """Export a board on one day; what the command prints."""
    given = ("export", path, "--to", form, "--out", out, "--plugin", PLUGIN)
    return run("--on", "2026-06-30", *given, "--dataset", "acme/board", *words)


def written(path: Path, form: str, out: Path) -> Path:
    exported(path, form, out, "--license", "cc-by-4.0")
    return out


@pytest.fixture
def scoring(tmp_path: Path) -> Path:
    """A board of a scoring task with one card, not checked yet; its model, its submitter and a unit
    are called as formulas.
    """
    return scoring_board(tmp_path, MODEL)


def scoring_board(tmp_path: Path, model: str) -> Path:
    spec = score_spec(model=model, call={"temperature": 0.7})
    card = scoring_card(specs=[spec])
    card["scores"]["right_name"]["unit"] = "=1+1"
    facts = {
        "name": "probes",
        "title": "Probes",
        "url": "https://board.example.org/",
        "baselines": [],
    }
    market = "synthetic" if card["snapshot"]["synthetic"] else "real"
    rules = rules_of(
        card,
        "",
        market=market,
        divisions=[division_of(card, "probe", rank_by="right_name")],
        **facts,
    )
    (tmp_path / "board.yaml").write_text(yaml.safe_dump(rules))
    files = put_card(tmp_path, card)
    who = {"name": "@SUM(A1)", "contact": "somebody@example.org"}
    what = {
        "name": model,
        "cutoff_date": "unknown",
        "cutoff_source": "not said",
        "url": "https://huggingface.co/acme/seer",
    }
    submission = submission_of(
        card,
        files.card_id,
        submitter=who,
        model=what,
        agent={"name": "react"},
        submitted_on="2026-06-02",
    )
    put_json(files.submission, submission)

    return tmp_path


def check(scoring: Path, tier: str = "re-executed") -> str:
    """Give the one card of a scoring board a verdict; its id."""
    (files,) = BoardFolder(scoring).list_cards()
    put_json(BoardFolder(scoring).verdict(files.card_id), verdict_of(files.card_id, "probe", tier))
    return files.card_id


# ---- .eval_results


def test_eval_results_are_read_by_the_hubs_own_parser(
    export: Callable[[str], Path], data: BoardData
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="the Hub's client is not installed")
    if not hasattr(hub, "parse_eval_result_entries"):
        pytest.skip("this version of huggingface_hub does not know .eval_results yet")

    expected = {
        (entry.division.id, entry.model, value_of(data, entry))
        for entry in data.entries
        if entry.division is not None and data.rows[entry.card_id]["ranked"]
    }
    files = sorted(export("eval-results").glob("*/*/.eval_results/*.yaml"))
    assert len(files) == len(expected)

    values = set()
    for file in files:
        (entry,) = hub.parse_eval_result_entries(yaml.safe_load(file.read_text()))
        values.add((entry.task_id, "/".join(file.parts[-4:-2]), entry.value))
        assert entry.dataset_id == "acme/board"
        assert dt.date.fromisoformat(entry.date)
        assert "by the board" in entry.notes
        assert "synthetic market" in entry.notes
        assert entry.source_url is None  # this board says no address

    assert values == expected


def value_of(data: BoardData, entry: BoardEntry) -> float | None:
    """The figure that a card's rank goes by."""
    assert entry.division is not None
    place = data.columns[entry.division.id].index(entry.division.rank_by)
    return data.rows[entry.card_id]["values"][place]


def test_benchmark_dataset_has_a_task_per_division_and_a_row_per_card(
    export: Callable[[str], Path], data: BoardData
) -> None:
    folder = export("eval-results") / "datasets" / "acme" / "board"
    benchmark = yaml.safe_load((folder / "eval.yaml").read_text())
    _, header, _ = (folder / "README.md").read_text().split("---\n", 2)
    facts = yaml.safe_load(header)
    ids = [division.id for division in data.board.rules.divisions]

    assert benchmark["evaluation_framework"] == "ktdeval"
    assert benchmark["tasks"] == [{"id": each, "config": each, "split": "test"} for each in ids]
    assert [config["config_name"] for config in facts["configs"]] == ids
    assert (facts["license"], "synthetic" in facts["tags"]) == ("cc-by-4.0", True)

    rows = {}
    for file in folder.glob("*/test.jsonl"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            rows[row["card"]] = row

    assert set(rows) == {entry.card_id for entry in data.entries if entry.division is not None}
    for entry in data.entries:
        row = rows[entry.card_id]
        shown = data.rows[entry.card_id]
        sharpe = entry.card.plain["metrics"]["sharpe"]
        assert (row["rank"], row["ranked"]) == (shown["rank"], shown["ranked"])
        assert (row["tier"], row["why"]) == (entry.tier, data.why_unranked(entry))
        assert row["values"]["sharpe"] == (
            None if sharpe["value"] is None else pytest.approx(sharpe["value"], rel=1e-5)
        )
        assert row["n"]["sharpe"] == sharpe["n"]


def test_one_division_is_read_alone_and_an_unknown_one_is_refused(
    path: Path,
) -> None:
    data = read_board(path, "bright-open-research")
    assert {entry.division.id for entry in data.entries if entry.division} == {
        "bright-open-research"
    }

    with pytest.raises(
        KtdevalError, match="no division 'bright-open'; did you mean 'bright-open-research'"
    ):
        read_board(path, "bright-open")


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["every-eval-ever", "eval-results"])
def test_export_is_reproducible_and_excludes_withdrawn_cards(
    path: Path, board: LoadedBoard, export: Callable[[str], Path], tmp_path: Path, form: str
) -> None:
    one = tree(export(form))
    two = tree(written(path, form, tmp_path / "out"))
    assert one == two != {}

    withdrawn = next(entry.card_id for entry in board.entries if entry.is_withdrawn)
    assert not any(withdrawn.encode() in content for content in one.values())


def test_a_submission_that_no_verdict_covers_is_held_to_its_schema(scoring: Path) -> None:
    (files,) = BoardFolder(scoring).list_cards()
    submission = json.loads(files.submission.read_text())
    files.submission.write_text(json.dumps({**submission, "submitter": "me"}))

    with pytest.raises(CardError, match=r"submission\.json: submitter"):
        read_board(scoring)


def test_eval_results_go_to_the_repository_that_the_submission_names(
    tmp_path: Path,
) -> None:
    scoring = scoring_board(tmp_path, "openai/seer")
    card_id = check(scoring)
    exported(scoring, "eval-results", tmp_path / "out")
    (file,) = (tmp_path / "out").rglob(".eval_results/*.yaml")

    assert (
        file.relative_to(tmp_path / "out").as_posix()
        == f"acme/seer/.eval_results/probes-probe-{card_id[:12]}.yaml"
    )

    (entry,) = yaml.safe_load(file.read_text())
    assert entry["source"] == {
        "url": f"https://board.example.org/card.html#card={card_id}",
        "name": "Probes",
    }
    assert entry["dataset"] == {"id": "acme/board", "task_id": "probe"}
    assert entry["notes"].startswith("right_name (=1+1), n = 19; agent react")


@pytest.mark.parametrize(
    "url",
    [
        "https://huggingface.co/../../etc",
        "https://huggingface.co/a/..",
        "https://evil.example/a/b",
        "x",
    ],
)
def test_an_address_that_is_no_repository_chooses_no_folder(scoring: Path, url: str) -> None:
    (entry,) = load_board(scoring).entries
    model = msgspec.structs.replace(entry.submission.model, url=url)
    moved = replace(entry, submission=msgspec.structs.replace(entry.submission, model=model))
    assert repository_of(moved) == "x-HYPERLINK-1-"


@on_each_row(
    "name, folders",
    ("openai/gpt-4.1", "openai/gpt-4.1"),
    ("router/meta/llama", "router--meta/llama"),
    ("alone", "unknown/alone"),
    ("../../etc/passwd", "x..--..--etc/passwd"),
    ("con/data", "xcon/xdata"),
    ("a/NUL.txt", "a/xNUL.txt"),
)
def test_a_models_name_can_not_choose_where_records_are_written(
    scoring: Path, name: str, folders: str
) -> None:
    (entry,) = load_board(scoring).entries
    renamed = changed(entry, lambda card: card["model"].update(name=name))
    assert record_path("probes", renamed).startswith(f"data/ktdeval-probes/{folders}/")


def test_a_used_folder_is_left_alone_and_a_failed_export_leaves_nothing(
    path: Path, tmp_path: Path
) -> None:
    def fail(folder: Path) -> ExportReport:
        (folder / "half.json").write_text("{")
        raise CardError("a series can't be read")

    empty = empty_board(path, tmp_path)
    with pytest.raises(CardError):
        write_folder(tmp_path / "out", fail)

    assert list(tmp_path.iterdir()) == [empty]

    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="holds something else; choose another --out"):
        run("export", empty, "--to", "every-eval-ever", "--out", tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == {"board", "mine.txt"}


def empty_board(path: Path, folder: Path) -> Path:
    """The rules of a board alone."""
    board = folder / "board"
    board.mkdir()
    (board / "board.yaml").write_bytes((path / "board.yaml").read_bytes())

    return board


@on_each_row(
    "words, problem",
    ([], "needs --dataset OWNER/NAME"),
    (["--dataset", "board"], "expected OWNER/NAME"),
    (["--dataset", "a/b/c"], "expected OWNER/NAME"),
    (["--dataset", "../b"], "expected OWNER/NAME"),
    (["--dataset", "a b/c"], "expected OWNER/NAME"),
)
def test_an_export_of_results_needs_the_name_of_a_dataset(
    path: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    empty = empty_board(path, tmp_path)
    with pytest.raises(UsageError, match=problem):
        run("export", empty, "--to", "eval-results", "--out", tmp_path / "out", *words)

    assert list(tmp_path.iterdir()) == [empty]


# ---- every_eval_ever

RECORD_SCHEMA = json.loads((SUPPORT / "board" / "every_eval_ever" / "eval.schema.json").read_text())
"""The published schema, unchanged; see the README beside it."""


def records_of(folder: Path) -> dict[str, Mapping[str, Any]]:
    return {
        file.relative_to(folder).as_posix(): json.loads(file.read_text())
        for file in folder.rglob("*.json")
    }


@pytest.mark.exhaustive
def test_records_follow_the_shared_schema_and_state_the_boards_trust(
    export: Callable[[str], Path], data: BoardData
) -> None:
    records = records_of(export("every-eval-ever"))
    entries = {entry.card_id: entry for entry in data.entries}

    assert (
        len(records)
        == sum(entry.baseline is None for entry in data.entries)
        == len({record["evaluation_id"] for record in records.values()})
    )

    validator = jsonschema.Draft7Validator(RECORD_SCHEMA)
    assert RECORD_SCHEMA["version"] == SCHEMA_VERSION

    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

    for path, record in records.items():
        validator.validate(record)
        assert re.fullmatch(rf"data/ktdeval-forged/[a-z]+/model-[0-9]+/{uuid}\.json", path)
        assert record["retrieved_timestamp"] == "1782777600"
        for result in record["evaluation_results"]:
            config = result["metric_config"]
            score = result["score_details"]["score"]
            assert float(config["min_score"]) <= score <= float(config["max_score"])

        source = record["source_metadata"]
        details = record["source_metadata"]["additional_details"]
        entry = entries[details["card"]]
        why = data.why_unranked(entry)
        assert (details["tier"], record["model_info"]["id"]) == (entry.tier, entry.model)
        assert json.loads(details["ranked"]) == data.rows[entry.card_id]["ranked"] == (not why)
        assert json.loads(details["why_not_ranked"]) == why
        assert json.loads(details["labels"]) == entry.labels
        assert source["source_type"] == (
            "evaluation_run" if entry.tier in ("re-executed", "re-run") else "documentation"
        )


def test_only_an_interval_with_a_level_is_a_confidence_interval(scoring: Path) -> None:
    data = read_board(scoring)
    (entry,) = data.entries
    record = make_record(data, entry, entry.division, "0")
    scores = {
        result["metric_config"]["metric_name"]: result for result in record["evaluation_results"]
    }
    interval = scores["right_name"]["score_details"]["uncertainty"]["confidence_interval"]

    assert interval["confidence_level"] == 0.95
    assert interval["lower"] < 1 / 19 < interval["upper"]
    assert scores["right_name"]["metric_config"]["lower_is_better"]
    assert (
        scores["distance"]["metric_config"]["min_score"],
        scores["distance"]["metric_config"]["max_score"],
    ) == (0.0, "Infinity")
    assert "confidence_interval" not in scores["distance"]["score_details"]["uncertainty"]
    assert scores["right_name"]["source_data"]["url"] == ["https://board.example.org/"]

    bare = changed(entry, lambda card: card["scores"]["right_name"]["interval"].pop("level"))
    results = make_record(data, bare, entry.division, "0")["evaluation_results"]
    (score,) = (
        each["score_details"]
        for each in results
        if each["metric_config"]["metric_name"] == "right_name"
    )

    assert (score["details"]["bounds"], "confidence_interval" in score["uncertainty"]) == (
        interval["method"],
        False,
    )


# ---- what every export does


def test_the_command_lists_what_it_wrote_and_omitted(path: Path, tmp_path: Path) -> None:
    report = json.loads(exported(path, "every-eval-ever", tmp_path / "out", "--json"))

    assert set(report["files"]) == set(records_of(tmp_path / "out"))
    assert report["left_out"] == {IS_BASELINE: 10}

    text = exported(path, "eval-results", tmp_path / "more")

    assert "left out: 10 cards (baseline)" in text
    assert (tmp_path / "more" / "datasets" / "acme" / "board" / "eval.yaml").is_file()


def test_an_empty_board_has_nothing_to_export(path: Path, tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_bytes((path / "board.yaml").read_bytes())
    for form in ("eval-results", "every-eval-ever"):
        exported(tmp_path, form, tmp_path / form)
        assert not list((tmp_path / form).iterdir())
