"""Records of every_eval_ever taken over into a board; and files that are none, or that wish harm."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from inline_snapshot import snapshot

from ktdeval.errors import CardError, ConfigError, StoreError
from ktdeval.testing import error_lines, errors_of, on_each_row
from ktdeval.values import encode_canonical, loads_strict, sha256_hex
from ktdeval_board.document_types import Imported
from ktdeval_board.exchange.every_eval_ever_import import import_results
from ktdeval_board.read_documents import read_untrusted
from support.board.board_runs import printed as run
from support.paths import SUPPORT

LIMIT = 8_000_000
EVIL = "<script>alert(1)</script>"

_FOLDER = SUPPORT / "board" / "every_eval_ever"
RECORD: Mapping[str, Any] = json.loads((_FOLDER / "record.json").read_text())


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A board without cards."""
    folder = tmp_path / "board"
    folder.mkdir()
    rules = {"name": "small", "title": "A small board", "market": "synthetic", "divisions": []}
    rules["snapshots"] = [{"name": "main", "id": "0" * 64}]
    (folder / "board.yaml").write_text(yaml.safe_dump(rules))

    return folder


def write(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "record.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def imported(tmp_path: Path, content: Any, model: str | None = None) -> dict[str, Any]:
    return loads_strict(encode_canonical(import_results(write(tmp_path, content), LIMIT, model)))


def changed(*where: Any, value: Any) -> dict[str, Any]:
    """`RECORD` with one part changed."""
    content = copy.deepcopy(dict(RECORD))
    part: Any = content
    for name in where[:-1]:
        part = part[name]

    part[where[-1]] = value
    return content


def test_each_figure_of_lm_eval_is_taken_with_error_samples_and_direction(
    tmp_path: Path,
) -> None:
    schema = json.loads((_FOLDER / "eval.schema.json").read_text())
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(RECORD)] == []
    path = write(tmp_path, RECORD)
    document = loads_strict(encode_canonical(import_results(path, LIMIT)))
    names = ("task", "metric", "value", "stderr", "n", "higher_is_better")

    assert [tuple(row[name] for name in names) for row in document["results"]] == [
        ("gsm8k", "exact_match", 0.25, 0.02, 40, True),
        ("ai2_arc: choice", "accuracy", 1.0, None, None, True),
        ("wikitext", "word_perplexity", 10.5, None, None, False),
    ]
    assert document["harness"] == {"name": "lm_eval", "version": "0.4.9.2", "revision": None}
    assert document["model"]["name"] == "acme/seer-7b"
    assert document["date"] == "2026-01-21"
    assert document["source"] == {
        "sha256": sha256_hex(path.read_bytes()),
        "bytes": path.stat().st_size,
    }


# ---- the form


def test_a_record_of_an_older_version_without_library_and_date_is_read(tmp_path: Path) -> None:
    content = dict(RECORD)
    del content["eval_library"], content["evaluation_timestamp"]
    document = imported(tmp_path, content, "acme/other")

    assert document["harness"] == {"name": "unknown", "version": None, "revision": None}
    assert (document["model"]["name"], document["date"]) == ("acme/other", None)


@on_each_row(
    "given, date",
    ("2026-01-21T03:44:18Z", "2026-01-21"),
    ("1768964383", "2026-01-21"),
    ("2026-13-45", None),
    ("999999999999999999999999999999", None),
    ("lately", None),
)
def test_only_a_date_is_taken_for_one(tmp_path: Path, given: str, date: str | None) -> None:
    assert imported(tmp_path, changed("evaluation_timestamp", value=given))["date"] == date


# ---- files that are refused


@pytest.mark.parametrize(
    "text", [EVIL, "a\nb", "a\u202eb", "\x1b[31m", "a\x00b", "\u200b", "\ud800", "x" * 301]
)
@on_each_row(
    "where",
    (["evaluation_results", 0, "evaluation_name"],),
    (["evaluation_results", 0, "metric_config", "metric_name"],),
    (["model_info", "id"],),
    (["eval_library", "name"],),
    (["eval_library", "version"],),
)
def test_a_text_that_is_no_plain_line_is_refused(
    tmp_path: Path, where: tuple[Any, ...], text: str
) -> None:
    path = write(tmp_path, changed(*where, value=text))
    with pytest.raises(CardError, match=r"record\.json: ") as caught:
        import_results(path, LIMIT)

    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_record_is_refused_with_its_reason(tmp_path: Path) -> None:
    assert errors_of(
        partial(imported, tmp_path),
        "{",
        "[1]",
        '{"results": {"gsm8k": {"acc,none": 0.5}}}',
        changed("evaluation_results", value=[]),
        changed("evaluation_results", 0, "score_details", "score", value="high"),
        changed("model_info", value={}),
        "\x00\x01",
        folder=tmp_path,
    ) == snapshot("""\
CardError: FOLDER/record.json: is not strict JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
CardError: FOLDER/record.json: has no `evaluation_results`; expected a record of every_eval_ever; its converters accept results of lm-eval, Inspect and HELM
CardError: FOLDER/record.json: has no `evaluation_results`; expected a record of every_eval_ever; its converters accept results of lm-eval, Inspect and HELM
CardError: FOLDER/record.json: results: expected `array` of length >= 1
CardError: FOLDER/record.json: evaluation_results[0].score_details.score: expected `float`, was `str`
CardError: FOLDER/record.json: model_info: field 'id' is missing
CardError: FOLDER/record.json: is not strict JSON: Expecting value: line 1 column 1 (char 0)
""")


def test_a_file_that_is_too_large_or_a_link_or_no_text_is_refused_unread(tmp_path: Path) -> None:
    path = write(tmp_path, RECORD)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    odd = tmp_path / "odd.json"
    odd.write_bytes(b"\xff\xfe")

    assert error_lines(
        lambda: import_results(path, 100),
        lambda: import_results(link, LIMIT),
        lambda: import_results(odd, LIMIT),
        folder=tmp_path,
    ) == snapshot("""\
OversizeError: FOLDER/record.json: has 1,445 bytes; at most 100 are allowed
CardError: FOLDER/link.json: can't read: is a link, not a plain file
CardError: FOLDER/odd.json: is not UTF-8 text at byte 0
""")


# ---- the command


def test_the_command_writes_a_valid_document_and_the_same_one_again(
    board: Path, tmp_path: Path
) -> None:
    path = write(tmp_path, RECORD)
    first = run("import", path, "--board", board)
    (file,) = (board / "imported").iterdir()
    before = file.read_bytes()

    assert file.name == f"acme--seer-7b--{sha256_hex(path.read_bytes())[:12]}.json"
    assert read_untrusted(file, Imported, LIMIT) == import_results(path, LIMIT)
    assert "3 results of acme/seer-7b" in first
    assert run("import", path, "--board", board) == first
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["../../up", "/etc/passwd", "..", ".hidden", "a/../../b", "con", "a" * 300]
)
def test_a_models_name_leads_nowhere(board: Path, tmp_path: Path, name: str) -> None:
    before = {file for file in tmp_path.rglob("*") if file.is_file()}
    path = write(tmp_path, changed("model_info", "id", value=name))
    run("import", path, "--board", board)
    (file,) = {file for file in tmp_path.rglob("*") if file.is_file()} - before - {path}

    assert file.parent == board / "imported"
    assert not file.name.startswith((".", "-"))
    assert len(file.name) < 130


def test_there_must_be_a_board_whose_folder_of_imports_is_no_link(
    board: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (board / "imported").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        run("import", write(tmp_path, RECORD), "--board", board)

    assert list((tmp_path / "elsewhere").iterdir()) == []

    with pytest.raises(ConfigError, match="not a board"):
        run("import", write(tmp_path, RECORD), "--board", tmp_path)


def test_a_changed_imported_file_is_checked_against_its_schema(board: Path, tmp_path: Path) -> None:
    run("import", write(tmp_path, RECORD), "--board", board)
    (file,) = (board / "imported").iterdir()
    document = json.loads(file.read_text())
    document["results"][0]["task"] = EVIL
    file.write_text(json.dumps(document))

    with pytest.raises(CardError, match=r"results\[0\]\.task"):
        read_untrusted(file, Imported, file.stat().st_size)
