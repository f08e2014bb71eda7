"""Samples from files, folders and the Hub, and the folder that they are published as."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktdeval.calls.costs.prices import read_price_table
from ktdeval.cards.card_reading import load_card
from ktdeval.errors import CardError, DataError, UsageError
from ktdeval.registry import load_plugins
from ktdeval.values import file_sha256
from ktdeval_qfinzero.scoring import sample_files
from ktdeval_qfinzero.scoring.sample_files import read_samples, source_name, write_samples

ROWS: list[dict[str, Any]] = [
    {"id": "a", "question": "One?", "gold": [{"n": 1, "x": None}], "hints": ["h"]},
    {"id": "b", "question": "Two?", "gold": [{"n": "2"}], "hints": []},
]
COLUMNS = {"id": "name", "question": "text", "gold": "expected calls", "hints": "texts"}


def published(folder: Path) -> Path:
    write_samples(folder, ROWS, "Two questions", COLUMNS)
    return folder


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n\n" for row in rows))
    return path


def test_files_that_a_run_names_may_lie_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples, a table of prices and a certificate, as a YAML file names them, which no shell
    expands.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    lines(tmp_path / "rows.jsonl", *ROWS)
    pq.write_table(pa.Table.from_pylist([{"id": "a"}]), tmp_path / "rows.parquet")
    head = "as_of: 2026-01-02\nsource: https://prices.example\ncurrency: USD\n"
    (tmp_path / "prices.yaml").write_text(f"{head}models: [{{match: a/b, input: 1, output: 2}}]\n")
    (tmp_path / "certificate.json").write_text("[]")

    assert [len(read_samples(f"~/rows.{kind}").rows) for kind in ("jsonl", "parquet")] == [2, 1]
    assert list(read_price_table("~/prices.yaml").rows) == ["a/b"]

    with pytest.raises(CardError, match=r"^~/certificate.json: (?!can't read)"):
        load_card("~/certificate.json")


def test_rows_survive_the_way_to_a_dataset_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = published(tmp_path / "made")
    from_folder = read_samples(str(folder), ("gold",))
    from_file = read_samples(str(next(folder.rglob("*.parquet"))), ("gold",))
    from_lines = read_samples(str(lines(tmp_path / "rows.jsonl", *ROWS)))

    for rows in (from_folder, from_file, from_lines):
        assert [row.value for row in rows.rows] == ROWS

    assert from_folder.sha256 == from_file.sha256
    assert (from_folder.name, from_lines.name) == ("made", "rows.jsonl")
    assert from_lines.sha256 == file_sha256(tmp_path / "rows.jsonl")
    assert [row.where for row in from_folder.rows] == [f"{folder}: row 1", f"{folder}: row 2"]
    assert [row.where for row in from_lines.rows] == [
        f"{tmp_path}/rows.jsonl:1",
        f"{tmp_path}/rows.jsonl:3",
    ]


def test_fields_that_only_parts_of_a_list_have_are_absent_in_the_others(tmp_path: Path) -> None:
    """Parquet has each field in every part of a list, empty where there is none."""
    row = {"calls": [{"name": "a"}, {"name": "b", "of": [{"x": 1}, {"y": 2}]}]}
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([row]), file)

    assert [each.value for each in read_samples(str(file)).rows] == [row]


def test_published_folder_has_a_feature_card_and_loads_with_datasets(
    tmp_path: Path,
) -> None:
    folder = published(tmp_path / "made")
    card = (folder / "README.md").read_text()

    assert "# Two questions\n\n2 rows." in card
    assert "| `gold` | string | expected calls |" in card

    loaded = datasets.load_dataset(str(folder), streaming=True)
    assert [row["question"] for row in loaded["test"]] == ["One?", "Two?"]

    with pytest.raises(UsageError, match="is not an empty folder"):
        published(folder)


def test_nulls_of_a_dataset_are_absent_fields(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_pylist([{"a": {"b": 1}, "d": None}, {"a": {"c": 2}, "d": "x"}]),
        tmp_path / "rows.parquet",
    )

    assert [row.value for row in read_samples(str(tmp_path)).rows] == [
        {"a": {"b": 1}},
        {"a": {"c": 2}, "d": "x"},
    ]


def test_of_several_splits_test_is_taken_and_others_are_ambiguous(tmp_path: Path) -> None:
    for split in ("train", "test", "validation"):
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(
            pa.Table.from_pylist([{"id": split}]),
            tmp_path / "data" / f"{split}-00000-of-00001.parquet",
        )

    assert [row.value for row in read_samples(str(tmp_path)).rows] == [{"id": "test"}]

    (tmp_path / "data" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(
        DataError, match="has the splits train, validation; give a dataset with one, or with 'test'"
    ):
        read_samples(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ":1: not JSON"),
        ('{"id": 1, "id": 2}', ":1: not JSON: field 'id' appears twice"),
        ('{"id": NaN}', ":1: not JSON: NaN is not a JSON number"),
        (r'{"id": "\ud800"}', ":1: not JSON: .*surrogates not allowed"),
        ("[" * 100_000, "nested too deep"),
        ("[" * 40 + "]" * 40, "nested deeper than 32 levels"),
        ("\n \n", "no sample in it"),
        (" " * 9 + '{"a"' + " " * 1_000_000 + ": 1}", "characters in one line, more than 1000000"),
        (b'{"id": "\xff"}', "not UTF-8 at byte 8"),
    ],
)
def test_an_error_in_a_json_lines_file_names_the_line(
    text: str | bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message) as caught:
        read_samples(str(path))

    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_an_unreadable_dataset_is_reported_in_one_line_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.parquet").write_bytes(b"no")
    pq.write_table(pa.Table.from_pylist([{"at": date(2025, 1, 1)}]), tmp_path / "days.parquet")
    pq.write_table(pa.Table.from_pylist([{"gold": "{"}]), tmp_path / "text.parquet")
    cases = {
        "hf:nobody/nothing": "can't read samples",
        "hf:nobody/nothing@v1": "can't read samples",
        str(tmp_path / "empty"): "can't read samples",
        str(tmp_path / "bad.parquet"): "can't read samples",
        str(tmp_path / "none.parquet"): "can't read samples",
        str(tmp_path / "none.jsonl"): "can't read samples: No such file",
        str(tmp_path / "days.parquet"): "row 1: not plain JSON",
        str(tmp_path / "text.parquet"): "row 1: gold: not JSON",
    }

    for source, message in cases.items():
        with pytest.raises(DataError, match=message) as caught:
            read_samples(source, ("gold",))

        assert str(caught.value).startswith(source)
        assert "\n" not in str(caught.value)


def test_sources_beyond_the_limits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lines(tmp_path / "rows.jsonl", *ROWS)
    folder = published(tmp_path / "made")
    monkeypatch.setattr(sample_files, "MAX_ROWS", 1)

    for source in (path, folder):
        with pytest.raises(DataError, match="more than 1 samples"):
            read_samples(str(source))

    monkeypatch.setattr(sample_files, "MAX_FILE_BYTES", 5)
    with pytest.raises(DataError, match="more than 5 bytes"):
        read_samples(str(path))


def test_source_is_named_without_its_folder_and_refused_by_other_tasks() -> None:
    names = [source_name(source) for source in ("hf:org/name@v1", "/a/b/rows.jsonl", "here/made")]
    assert names == ["hf:org/name@v1", "rows.jsonl", "made"]

    with pytest.raises(
        UsageError, match="task 'blinded_open_research' takes no --items; it brings its own samples"
    ):
        load_plugins().make_task("blinded_open_research", "rows.jsonl")
