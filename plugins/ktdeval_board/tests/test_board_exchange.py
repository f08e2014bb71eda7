"""A board's frames and exports: they say what the cards say, in the forms that other tools read."""

from __future__ import annotations

import csv
import datetime as dt
import functools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from board_cards import (
    changed,
    division_of,
    put_card,
    put_json,
    rules_of,
    submission_of,
    verdict_of,
)
from board_forge import forge_board
from board_runs import printed as run
from forged_models import PLUGIN
from ktdeval.errors import CardError, KtdevalError, StoreError, UsageError
from ktdeval_board.board_entries import Board, load_board
from ktdeval_board.document_types import Series
from ktdeval_board.exchange import (
    load_daily_frame,
    load_episodes_frame,
    load_frame,
    load_imported_frame,
)
from ktdeval_board.exchange.board_data import (
    FRAMES,
    IS_BASELINE,
    ExportReport,
    columns_of,
    read_board,
    write_folder,
)
from ktdeval_board.exchange.data_frames import MAKERS
from ktdeval_board.exchange.eval_results_export import (
    SCHEMA_VERSION,
    make_record,
    record_path,
    repository_of,
)
from ktdeval_board.layout import BoardFolder
from ktdeval_board.ranking.column_texts import EXTRA
from ktdeval_board.ranking.daily_summaries import facts_of
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.read_documents import read_own
from loops import not_empty
from paths import SUPPORT
from scoring_cases import score_spec, scoring_card

pytestmark = pytest.mark.slow

MODEL = "=HYPERLINK(1)"
DTYPES = {
    "text": "string",
    "texts": "object",
    "flag": "boolean",
    "count": "Int64",
    "counts": "object",
    "number": "float64",
    "day": "datetime64[ms]",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two divisions of a window, with one odd entrant of each kind, baselines, and one imported
    result.
    """
    folder = tmp_path_factory.mktemp("exchange")
    made = forge_board(folder / "board", 12, divisions=2, windows=1, specials=True, decisions=False)
    (folder / "results.json").write_text(
        json.dumps({"model_name": "gpt2", "results": {"hellaswag": {"acc,none": 0.5}}})
    )
    run("import", folder / "results.json", "--board", made)

    return made


@pytest.fixture(scope="module")
def board(path: Path) -> Board:
    return load_board(path)


@pytest.fixture(scope="module")
def cards(path: Path) -> pd.DataFrame:
    return load_frame(path)


@pytest.fixture(scope="module")
def daily(path: Path) -> pd.DataFrame:
    return load_daily_frame(path)


@pytest.fixture(scope="module")
def export(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the folder of the board's export in a form, which is made once."""
    return functools.cache(lambda form: written(path, form, tmp_path_factory.mktemp(form) / "out"))


def written(path: Path, form: str, out: Path) -> Path:
    run(
        "--on",
        "2026-06-30",
        "export",
        path,
        "--to",
        form,
        "--out",
        out,
        "--dataset",
        "acme/board",
        "--license",
        "cc-by-4.0",
        "--plugin",
        PLUGIN,
    )
    return out


def contents(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


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
    (files,) = BoardFolder(scoring).submitted()
    put_json(BoardFolder(scoring).verdict(files.card_id), verdict_of(files.card_id, "probe", tier))
    return files.card_id


# ---- frames


@pytest.mark.slow
def test_each_card_that_was_not_withdrawn_has_a_row_of_its_own_figures(
    board: Board, cards: pd.DataFrame
) -> None:
    assert any(entry.is_withdrawn for entry in board.entries)

    shown = [entry for entry in board.entries if not entry.is_withdrawn]
    assert list(cards["card"]) == [entry.card_id for entry in shown]

    rows = cards.set_index("card")
    undefined = 0

    for entry in shown:
        row = rows.loc[entry.card_id]
        for name, metric in entry.card.plain["metrics"].items():
            interval = metric.get("interval") or {}
            undefined += metric["value"] is None
            assert (
                (metric["value"] is None)
                == pd.isna(row[name])
                == (not pd.isna(row[f"{name}_reason"]))
            )
            assert metric["value"] is None or row[name] == metric["value"]
            assert row[f"{name}_n"] == metric["n"]
            assert interval.get("low") is None or row[f"{name}_low"] == interval["low"]

    assert undefined


@pytest.mark.parametrize("frame", ["cards", "episodes"])
def test_exactly_the_missing_values_have_a_reason(path: Path, frame: str) -> None:
    data = read_board(path)
    made = MAKERS[frame](data)
    for name in not_empty(data.units(frame)):
        assert (made[name].isna() == made[f"{name}_reason"].notna()).all(), name


def test_exactly_the_ranked_cards_have_a_rank_and_no_reason_against_one(
    cards: pd.DataFrame,
) -> None:
    assert set(cards["ranked"]) == {True, False}
    assert (cards["ranked"] == cards["rank"].notna()).all()
    assert (cards["ranked"] == (cards["why"].map(len) == 0)).all()
    assert set(cards["tier"]) == {"unchecked", "self-reported", "re-executed", "re-run"}


def test_ranks_and_the_boards_figures_match_the_site(board: Board, cards: pd.DataFrame) -> None:
    rows = cards.set_index("card")

    def series(card_id: str) -> Any:
        file = board.folder.series(card_id)
        return read_own(file, Series) if file.is_file() else None

    compared = 0
    for division in board.rules.divisions:
        table = rank_division(board, division, series)["all"]
        for shown in table["rows"]:
            if shown["card"] is None:
                continue

            row = rows.loc[shown["card"]]
            assert bool(row["ranked"]) == shown["ranked"]
            assert (None if pd.isna(row["rank"]) else row["rank"]) == shown["rank"]
            assert (None if pd.isna(row["alpha_rank"]) else row["alpha_rank"]) == shown[
                "alpha_rank"
            ]
            assert row["why"] == ([IS_BASELINE] if shown["baseline"] else shown["why"])
            for name, value in zip(table["columns"], shown["values"], strict=True):
                assert row[name] == pytest.approx(
                    float("nan") if value is None else value, rel=1e-5, nan_ok=True
                )
                compared += name in EXTRA

    assert compared > 100


def test_each_episode_has_a_row_with_its_benchmark(path: Path, board: Board) -> None:
    frame = load_episodes_frame(path)
    expected = {}
    for entry in board.entries:
        if not entry.is_withdrawn:
            episodes = entry.card.plain["episodes"]
            expected |= {episode["id"]: (entry, episode) for episode in episodes}

    assert set(frame["episode"]) == set(expected)
    assert len(frame) == len(expected)

    for row in frame.head(8).to_dict("records"):
        entry, episode = expected[row["episode"]]
        reference = entry.card.plain["reference"]["benchmark_buy_and_hold"][episode["window"]]
        assert row["benchmark_return"] == reference["metrics"]["total_return"]["value"]
        assert (row["final_nav"], row["currency"]) == (episode["final_nav_minor"] / 100, "CNY")
        assert row["total_return"] == episode["metrics"]["total_return"]["value"]


@pytest.mark.exhaustive
def test_daily_returns_compound_to_nav_and_contributions_add_up_to_the_return(
    path: Path, daily: pd.DataFrame
) -> None:
    card_ids = {file.stem for file in (path / "series").glob("*.json")}
    assert set(daily["card"]) == card_ids - {
        entry.card_id for entry in load_board(path).entries if entry.is_withdrawn
    }

    for _, days in daily.groupby(["card", "episode"]):
        assert (1 + days["daily_return"]).prod() == pytest.approx(days["nav"].iloc[-1], abs=1e-4)
        assert (1 + days["benchmark_daily_return"]).prod() == pytest.approx(
            days["benchmark"].iloc[-1], abs=1e-4
        )
        parts = days[["common", "industry", "style", "selection", "trading"]].iloc[-1]
        assert parts.isna().all() == days["attribution_reason"].notna().all()
        assert parts.isna().all() or parts.sum() == pytest.approx(
            days["nav"].iloc[-1] - 1, abs=1e-4
        )
        assert days["day"].is_monotonic_increasing

    assert daily["common"].notna().any()


def test_a_ruined_account_has_no_returns_after_its_nav_is_gone(path: Path, tmp_path: Path) -> None:
    first, *_ = BoardFolder(path).submitted()
    for name in ("board.yaml", "errata.yaml", f"series/{first.card_id}.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((path / name).read_bytes())

    put_card(tmp_path, json.loads(first.card.read_text())).submission.write_bytes(
        first.submission.read_bytes()
    )
    file = tmp_path / "series" / f"{first.card_id}.json"
    series = json.loads(file.read_text())
    levels = series["episodes"][0]["nav"]
    levels[1:5] = [1.2, -0.6, -0.3, 0.3]
    levels[5] = 0.6
    file.write_text(json.dumps(series))
    own = load_daily_frame(tmp_path)["daily_return"].head(5).tolist()

    assert own == pytest.approx([0.2, -1.5, math.nan, math.nan, 1.0], nan_ok=True)

    (daily,) = [
        facts_of(read_own(file, Series)).daily[episode["window"], episode["seed"]]
        for episode in series["episodes"][:1]
    ]

    assert daily.returns[:5].tolist() == pytest.approx(
        [0.2, math.nan, math.nan, math.nan, 1.0], nan_ok=True
    )


@pytest.mark.exhaustive
def test_columns_and_their_types_are_as_stated_whether_or_not_there_are_rows(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "board.yaml").write_bytes((path / "board.yaml").read_bytes())
    for data, is_empty in ((read_board(path), False), (read_board(tmp_path), True)):
        for frame in FRAMES:
            made = MAKERS[frame](data)
            stated = columns_of(frame, data.units(frame))
            assert {name: str(dtype) for name, dtype in made.dtypes.items()} == {
                each.name: DTYPES[each.type] for each in stated
            }
            assert list(made.columns) == [column.name for column in stated]
            assert (len(made) == 0) == is_empty, frame


def test_one_division_can_be_had_alone_and_an_unknown_one_is_refused_with_near_names(
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


def test_scores_are_columns_of_cards_and_not_of_episodes(scoring: Path) -> None:
    card_id = check(scoring)
    frame = load_frame(scoring)
    episodes = load_episodes_frame(scoring)
    (row,) = frame.to_dict("records")

    assert (row["card"], row["kind"], row["rank"], row["right_name_n"]) == (
        card_id,
        "scoring",
        1,
        19,
    )
    assert (row["right_name"], row["right_name_low"]) == (
        pytest.approx(1 / 19),
        pytest.approx(0.0094, abs=1e-4),
    )
    assert pd.isna(row["rules"])
    assert ("right_name" in episodes, episodes["steps_decided"].tolist()) == (False, [19])
    assert pd.isna(episodes["final_nav"]).all()


def test_a_nav_is_in_its_own_currency(path: Path, tmp_path: Path) -> None:
    first, *_ = BoardFolder(path).submitted()
    card = json.loads(first.card.read_text())
    card["snapshot"] |= {
        "venues": ["us"],
        "currency": "USD",
        "minor_per_unit": 10_000,
        "days_a_year": 252,
    }

    for episode in card["episodes"]:
        episode["final_nav_minor"] = 1_234_567

    for name in ("board.yaml", "errata.yaml"):
        (tmp_path / name).write_bytes((path / name).read_bytes())

    put_card(tmp_path, card).submission.write_bytes(first.submission.read_bytes())
    frame = load_episodes_frame(tmp_path)

    assert set(zip(frame["final_nav"], frame["currency"], strict=True)) == {(123.4567, "USD")}


def test_a_submitter_can_not_add_columns_or_take_those_of_others(
    path: Path, tmp_path: Path, cards: pd.DataFrame
) -> None:
    """The board's check would refuse the card; the frame does not depend on it."""
    first, *_ = BoardFolder(path).submitted()
    card = json.loads(first.card.read_text())
    figure = card["metrics"]["sharpe"]
    card["metrics"] |= dict.fromkeys(("card", "total_return_low", "=1+1", "mine"), figure) | {
        "excess": {**figure, "value": 99}
    }

    for name in ("board.yaml", "errata.yaml"):
        (tmp_path / name).write_bytes((path / name).read_bytes())

    files = put_card(tmp_path, card)
    files.submission.write_bytes(first.submission.read_bytes())
    check(tmp_path)
    frame = load_frame(tmp_path)

    assert list(frame.columns) == list(cards.columns)
    assert frame["excess"].iloc[0] != 99


def test_a_submission_that_no_verdict_covers_is_held_to_its_schema(scoring: Path) -> None:
    (files,) = BoardFolder(scoring).submitted()
    submission = json.loads(files.submission.read_text())
    files.submission.write_text(json.dumps({**submission, "submitter": "me"}))

    with pytest.raises(CardError, match=r"submission\.json: submitter"):
        load_frame(scoring)


# ---- Parquet and CSV


@pytest.mark.exhaustive
@pytest.mark.slow
def test_parquet_gives_back_the_frames_with_units_and_without_withdrawn_cards(
    export: Callable[[str], Path], cards: pd.DataFrame
) -> None:
    out = export("parquet")
    read = pd.read_parquet(out / "cards.parquet")
    lists = {name: read[name].map(list) for name in ("why", "labels", "errata", "windows", "seeds")}
    pd.testing.assert_frame_equal(read.assign(**lists), cards, check_exact=True)
    schema = pq.read_schema(out / "cards.parquet")

    assert schema.field("total_return").metadata[b"unit"] == b"fraction"
    assert b"SHA-256" in schema.field("card").metadata[b"description"]

    listed = pd.read_csv(out / "columns.csv")
    assert set(listed[listed["frame"] == "cards"]["column"]) == set(cards.columns)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["parquet", "csv", "hf-dataset", "every-eval-ever", "eval-results"]
)
def test_an_export_of_an_equal_board_has_equal_bytes_and_nothing_of_withdrawn_cards(
    path: Path, board: Board, export: Callable[[str], Path], tmp_path: Path, form: str
) -> None:
    one = contents(export(form))
    two = contents(written(path, form, tmp_path / "out"))

    assert one == two != {}

    withdrawn = next(entry.card_id for entry in board.entries if entry.is_withdrawn)

    if form not in ("parquet", "hf-dataset"):  # compressed; their rows are compared above
        assert not any(withdrawn.encode() in content for content in one.values())


def test_csv_has_no_cell_that_a_spreadsheet_would_run(scoring: Path, tmp_path: Path) -> None:
    check(scoring)
    run("export", scoring, "--to", "csv", "--out", tmp_path / "out")
    with (tmp_path / "out" / "cards.csv").open(encoding="utf-8", newline="") as stream:
        (row,) = csv.DictReader(stream)

    wanted = {"model": f"'{MODEL}", "submitter": "'@SUM(A1)", "submitted_on": "2026-06-02"}

    assert row | wanted | {"cutoff_date": "", "right_name_reason": ""} == row
    assert row["labels"] == "; ".join(load_frame(scoring)["labels"].iloc[0])

    units = pd.read_csv(tmp_path / "out" / "columns.csv").set_index("column")["unit"]
    assert units["right_name"] == "'=1+1"


# ---- datasets


@pytest.mark.exhaustive
@pytest.mark.slow  # the library takes seconds to import
def test_datasets_loads_every_configuration_offline(
    export: Callable[[str], Path], tmp_path: Path, cards: pd.DataFrame, daily: pd.DataFrame
) -> None:
    script = (
        "import datasets, json, sys\nfound = {}\nfor name in"
        " datasets.get_dataset_config_names(sys.argv[1]):\n    made ="
        " datasets.load_dataset(sys.argv[1], name)\n    found[name] = {split: [rows.num_rows,"
        " rows.column_names] for split, rows in made.items()}\nfrom ktdeval_board.exchange import"
        " load_published\nfirst = load_published(sys.argv[1]).iloc[0]\nprint(json.dumps([found,"
        " {'card': first['card'], 'why': list(first['why']), 'total_return':"
        " first['total_return']}]))"
    )
    environment = {
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "PATH": "",
    }
    environment |= {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(export("hf-dataset"))],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    names, first = json.loads(done.stdout)

    assert list(names) == ["cards", "episodes", "daily", "metrics", "imported"]
    assert names["cards"] == {"train": [len(cards), list(cards.columns)]}
    assert names["imported"]["train"][0] == 1
    assert names["daily"] == {"train": [len(daily), list(daily.columns)]}
    assert first == {name: cards.iloc[0][name] for name in ("card", "why", "total_return")}


@pytest.mark.exhaustive
def test_the_readme_of_a_dataset_tells_the_hub_what_it_holds(export: Callable[[str], Path]) -> None:
    out = export("hf-dataset")
    _, header, text = (out / "README.md").read_text().split("---\n", 2)
    facts = yaml.safe_load(header)

    assert (facts["license"], facts["size_categories"], "synthetic" in facts["tags"]) == (
        "cc-by-4.0",
        ["1K<n<10K"],
        True,
    )
    assert [config["config_name"] for config in facts["configs"] if config.get("default")] == [
        "cards"
    ]
    assert all(list(out.glob(config["data_files"][0]["path"])) for config in facts["configs"])
    assert ("`total_return`" in text, "made up" in text) == (True, True)


def test_the_header_of_a_dataset_is_one_that_the_hub_takes(export: Callable[[str], Path]) -> None:
    """By the Hub's rules for dataset cards: known keys, its words for sizes, short plain tags, and
    configurations of unique names, one of them the default.
    """
    _, header, _ = (export("hf-dataset") / "README.md").read_text().split("---\n", 2)
    facts = yaml.safe_load(header)
    configs = facts["configs"]
    names = [config["config_name"] for config in configs]

    assert set(facts) <= {
        "pretty_name",
        "license",
        "language",
        "tags",
        "size_categories",
        "configs",
    }
    assert set(facts["size_categories"]) <= {"n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M"}
    assert facts["language"] == ["en"]
    for word in (facts["license"], *facts["tags"]):
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,40}", word), word

    assert len(set(names)) == len(names)
    assert [config.get("default", False) for config in configs].count(True) == 1
    for config in configs:
        assert re.fullmatch(r"[a-z_]+", config["config_name"])
        assert [each["split"] for each in config["data_files"]] == ["train"]


# ---- .eval_results


def test_eval_results_are_read_by_the_hubs_own_parser(
    export: Callable[[str], Path], cards: pd.DataFrame
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="the Hub's client is not installed")
    if not hasattr(hub, "parse_eval_result_entries"):
        pytest.skip("this version of huggingface_hub does not know .eval_results yet")

    ranked = cards[cards["ranked"]]
    files = sorted(export("eval-results").glob("*/*/.eval_results/*.yaml"))

    assert len(files) == len(ranked)

    expected = {(row.division, row.model, row.total_return) for row in ranked.itertuples()}
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


def test_eval_results_name_the_boards_page_and_go_to_the_repository_that_the_submission_names(
    tmp_path: Path,
) -> None:
    scoring = scoring_board(tmp_path, "openai/seer")
    card_id = check(scoring)
    run(
        "--on",
        "2026-06-30",
        "export",
        scoring,
        "--to",
        "eval-results",
        "--out",
        tmp_path / "out",
        "--dataset",
        "acme/board",
    )
    (file,) = (tmp_path / "out").rglob("*.yaml")

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


@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("openai/gpt-4.1", "openai/gpt-4.1"),
        ("router/meta/llama", "router--meta/llama"),
        ("alone", "unknown/alone"),
        ("../../etc/passwd", "x..--..--etc/passwd"),
        ("con/data", "xcon/xdata"),
        ("a/NUL.txt", "a/xNUL.txt"),
    ],
)
def test_a_models_name_can_not_choose_where_records_are_written(
    scoring: Path, name: str, folders: str
) -> None:
    (entry,) = load_board(scoring).entries
    renamed = changed(entry, lambda card: card["model"].update(name=name))
    assert record_path("probes", renamed).startswith(f"data/ktdeval-probes/{folders}/")


def test_a_folder_that_holds_something_is_left_alone_and_an_export_that_fails_leaves_nothing(
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
        run("export", empty, "--to", "parquet", "--out", tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == {"board", "mine.txt"}


def empty_board(path: Path, folder: Path) -> Path:
    """The rules of a board alone."""
    board = folder / "board"
    board.mkdir()
    (board / "board.yaml").write_bytes((path / "board.yaml").read_bytes())

    return board


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "needs --dataset OWNER/NAME"),
        (("--dataset", "board"), "expected OWNER/NAME"),
        (("--dataset", "a/b/c"), "expected OWNER/NAME"),
        (("--dataset", "../b"), "expected OWNER/NAME"),
        (("--dataset", "a b/c"), "expected OWNER/NAME"),
    ],
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
@pytest.mark.slow
def test_records_follow_the_shared_schema_and_state_the_boards_trust(
    export: Callable[[str], Path], cards: pd.DataFrame
) -> None:
    records = records_of(export("every-eval-ever"))
    rows = cards.set_index("card")

    assert (
        len(records)
        == cards["baseline"].isna().sum()
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
        row = rows.loc[details["card"]]
        assert (details["tier"], record["model_info"]["id"]) == (row["tier"], row["model"])
        for name, column in (("ranked", "ranked"), ("why_not_ranked", "why"), ("labels", "labels")):
            assert json.loads(details[name]) == row[column]

        assert source["source_type"] == (
            "evaluation_run" if row["tier"] in ("re-executed", "re-run") else "documentation"
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
    report = json.loads(
        run(
            "export",
            path,
            "--to",
            "every-eval-ever",
            "--out",
            tmp_path / "out",
            "--plugin",
            PLUGIN,
            "--json",
        )
    )

    assert set(report["files"]) == set(records_of(tmp_path / "out"))
    assert report["left_out"] == {IS_BASELINE: 10}

    text = run(
        "export",
        path,
        "--to",
        "eval-results",
        "--out",
        tmp_path / "more",
        "--plugin",
        PLUGIN,
        "--dataset",
        "acme/board",
    )

    assert "left out: 10 cards (baseline)" in text
    assert "must define these tasks: blinded-open-research, bright-open-research" in text


def test_an_empty_board_exports_empty_tables(path: Path, tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_bytes((path / "board.yaml").read_bytes())
    for form in ("parquet", "csv", "every-eval-ever"):
        run("export", tmp_path, "--to", form, "--out", tmp_path / form)

    assert len(pd.read_parquet(tmp_path / "parquet" / "cards.parquet")) == 0
    assert len(load_imported_frame(tmp_path)) == 0
    assert not list((tmp_path / "every-eval-ever").iterdir())

    with pytest.raises(UsageError, match="has no card to export"):
        run("export", tmp_path, "--to", "hf-dataset", "--out", tmp_path / "dataset")
