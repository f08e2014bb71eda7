"""Results of lm-eval, of all its versions' forms, taken over into a board; and files that are none,
or that wish harm.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from board_runs import printed as run
from ktdeval.errors import CardError, ConfigError, StoreError
from ktdeval.values import encode_canonical, from_plain, loads_strict, sha256_hex, to_plain
from ktdeval_board.document_types import Imported
from ktdeval_board.exchange import lm_eval_import, load_frame, load_imported_frame
from ktdeval_board.exchange.lm_eval_import import import_results
from ktdeval_board.read_documents import read_untrusted
from paths import SUPPORT
from tables import on_each_row

LIMIT = 8_000_000

_RESULTS = json.loads((SUPPORT / "board" / "lm_eval_results.json").read_text())
NEW: Mapping[str, Any] = _RESULTS["new"]
OLD: Mapping[str, Any] = _RESULTS["old"]


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
    path = tmp_path / "results.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def imported(tmp_path: Path, content: Any, model: str | None = None) -> dict[str, Any]:
    return loads_strict(encode_canonical(import_results(write(tmp_path, content), LIMIT, model)))


def changed(*where: str, value: Any) -> dict[str, Any]:
    """`NEW` with one part changed."""
    content = copy.deepcopy(dict(NEW))
    part = content

    for name in where[:-1]:
        part = part[name]

    part[where[-1]] = value

    return content


def figures(document: Mapping[str, Any]) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    return {(row["task"], row["metric"], row["filter"]): row for row in document["results"]}


# ---- forms


def test_each_figure_is_taken_with_its_filter_error_samples_and_direction_and_where_it_is_from(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, NEW)
    document = to_plain(import_results(path, LIMIT))
    names = ("value", "stderr", "n", "few_shot", "higher_is_better", "is_group", "task_version")

    assert {key: tuple(row[name] for name in names) for key, row in figures(document).items()} == {
        ("mmlu", "acc", "none"): (0.51, 0.004, None, None, True, True, "2"),
        ("mmlu_stem", "acc", "none"): (0.4, None, 20, 5, True, False, "1.0"),
        ("gsm8k", "exact_match", "strict-match"): (0.25, 0.02, 40, 8, True, False, None),
        ("gsm8k", "exact_match", "flexible-extract"): (0.3, 0.03, 40, 8, True, False, None),
        ("wikitext", "word_perplexity", "none"): (10.5, None, None, 0, False, False, None),
    }
    assert document["harness"] == {"name": "lm-eval", "version": "0.4.9.2", "revision": "1f84a09f"}
    assert document["model"] == {"name": "acme/seer-7b", "backend": "hf"}
    assert (document["date"], document["limit"]) == ("2026-01-21", 20)
    assert document["source"] == {
        "sha256": sha256_hex(path.read_bytes()),
        "bytes": path.stat().st_size,
    }


def test_the_form_before_version_0_4_is_understood(tmp_path: Path) -> None:
    document = imported(tmp_path, OLD)
    rows = figures(document)
    acc = rows["lambada_openai", "acc", "none"]

    assert (acc["value"], acc["stderr"], acc["few_shot"], acc["task_version"]) == (
        0.63,
        0.006,
        2,
        "0",
    )
    assert (acc["n"], acc["higher_is_better"], acc["is_group"]) == (None, None, False)
    assert rows["hellaswag", "acc_norm", "none"]["value"] == 0.765
    assert document["harness"] == {"name": "lm-eval", "version": None, "revision": None}
    assert (document["model"]["name"], document["date"], document["limit"]) == ("gpt2", None, None)


def test_a_group_under_groups_has_its_own_sample_counts_and_a_title_row_is_not_a_result(
    tmp_path: Path,
) -> None:
    content = changed("results", "leaderboard", value={" ": " ", "alias": "leaderboard"})
    del content["results"]["mmlu"]
    content["groups"]["mmlu"] |= {"sample_count": {"acc,none": 57}, "sample_len": 60}
    document = imported(tmp_path, content)
    row = figures(document)["mmlu", "acc", "none"]

    assert (row["value"], row["n"], row["is_group"]) == (0.51, 57, True)
    assert "leaderboard" not in {row["task"] for row in document["results"]}
    assert document["notes"] == []


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("NaN", "NaN"),
        ("Infinity", "infinity"),
        ("-Infinity", "infinity"),
        ("null", "null"),
        ('"N/A"', "N/A"),
        ("1e999", "infinity"),
    ],
)
def test_a_missing_figure_is_null_with_its_reason(tmp_path: Path, token: str, reason: str) -> None:
    """lm-eval writes bare NaN, which is no JSON."""
    text = json.dumps(NEW).replace(
        '"word_perplexity,none": 10.5', f'"word_perplexity,none": {token}'
    )
    row = figures(imported(tmp_path, text))["wikitext", "word_perplexity", "none"]

    assert (row["value"], row["reason"]) == (None, f"the file says {reason}")


@pytest.mark.parametrize("error", ["N/A", None, float("nan"), -0.1, "0.1", True, []])
def test_an_error_that_is_no_number_from_0_is_null(tmp_path: Path, error: object) -> None:
    content = changed("results", "mmlu_stem", "acc_stderr,none", value=error)
    assert figures(imported(tmp_path, content))["mmlu_stem", "acc", "none"]["stderr"] is None


@pytest.mark.parametrize("value", [True, "high", [0.1], {"a": 1}], ids=str)
def test_a_figure_that_is_no_number_is_omitted_and_reported(tmp_path: Path, value: object) -> None:
    document = imported(tmp_path, changed("results", "mmlu_stem", "odd,none", value=value))
    assert ("mmlu_stem", "odd", "none") not in figures(document)
    assert document["notes"] == ["mmlu_stem: odd,none left out, for it is not a number"]


def test_an_error_without_a_figure_is_omitted_and_reported(tmp_path: Path) -> None:
    document = imported(tmp_path, changed("results", "mmlu_stem", "f1_stderr,none", value=0.1))
    assert document["notes"] == [
        "mmlu_stem: f1_stderr,none left out, for it has no figure of its own"
    ]


@pytest.mark.parametrize(
    "part",
    ["configs", "versions", "n-shot", "higher_is_better", "n-samples", "groups", "group_subtasks"],
)
@pytest.mark.parametrize("value", [None, [], "none", 3, {"mmlu": None, "gsm8k": [], "wikitext": 3}])
def test_missing_and_null_parts_lose_only_their_own_content(
    tmp_path: Path, part: str, value: Any
) -> None:
    document = imported(tmp_path, changed(part, value=value))
    assert len(document["results"]) == 5


@on_each_row
def test_the_models_name_is_found_and_nothing_else_of_its_arguments(
    tmp_path: Path, facts: dict[str, Any], name: str
) -> None:
    document = imported(tmp_path, {"results": NEW["results"], **facts})
    assert document["model"]["name"] == name

    text = json.dumps(document)
    assert "secret" not in text
    assert "ann" not in text


def test_the_model_can_be_named_and_must_be_where_the_file_does_not(tmp_path: Path) -> None:
    assert imported(tmp_path, NEW, "acme/other")["model"]["name"] == "acme/other"

    with pytest.raises(
        CardError, match="does not say which model it is of; give its name with --model"
    ):
        imported(tmp_path, {"results": NEW["results"]})


@pytest.mark.parametrize(
    ("given", "date"),
    [
        (1768964383.8, "2026-01-21"),
        ("2026-01-21T03:44:18", "2026-01-21"),
        (12.5, None),
        (1e300, None),
        ("2026-13-45", None),
        (True, None),
    ],
)
def test_only_a_date_is_taken_for_one(tmp_path: Path, given: object, date: str | None) -> None:
    assert imported(tmp_path, changed("date", value=given))["date"] == date


@pytest.mark.parametrize(
    "given", ["No package metadata was found for lm_eval", None, 4, "0.4\n<script>"]
)
def test_only_a_version_is_taken_for_one(tmp_path: Path, given: object) -> None:
    document = imported(tmp_path, changed("lm_eval_version", value=given))
    assert document["harness"]["version"] is None


# ---- files that are refused

EVIL = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    "text", [EVIL, "a\nb", "a\u202eb", "\x1b[31m", "a\x00b", "\u200b", "\ud800", "x" * 301]
)
def test_a_text_that_is_no_plain_line_is_refused(tmp_path: Path, text: str) -> None:
    for where in (
        ("results", text),
        ("results", "gsm8k", text),
        ("results", "gsm8k", f"acc,{text}"),
        ("model_name",),
        ("config", "model"),
    ):
        value = (
            {"acc,none": 1.0}
            if len(where) == 2 and where[0] == "results"
            else 1.0
            if where[0] == "results"
            else text
        )
        path = write(tmp_path, changed(*where, value=value))
        with pytest.raises(CardError, match=r"results\.json: .* is not a plain line") as caught:
            import_results(path, LIMIT)

        assert "\n" not in str(caught.value)
        assert str(caught.value).isascii() or str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("text", ["", " "])
def test_a_task_needs_a_name_and_other_empty_fields_count_as_missing(
    tmp_path: Path, text: str
) -> None:
    content = copy.deepcopy(dict(NEW))
    content["results"]["gsm8k"] |= {text: 1.0, f"acc,{text}": 0.5}
    content |= {"model_name": text, "model_source": text}
    document = imported(tmp_path, content)

    assert figures(document)["gsm8k", "acc", "none"]["value"] == 0.5
    assert (document["model"]["name"], document["model"]["backend"]) == ("acme/seer-7b", "hf")

    with pytest.raises(CardError, match=r"task .* is not a plain line"):
        imported(tmp_path, changed("results", text, value={"acc,none": 1.0}))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("[1]", "has no object `results`"),
        ('{"result": {}}', "did you mean 'result'"),
        ('{"results": []}', "has no object `results`"),
        ('{"results": {}}', "no task of its results has a figure"),
        ('{"results": {"a": {"alias": "a"}}}', "no task of its results has a figure"),
        ('{"results": {"a": {"acc": 1, "acc": 2}}}', "field 'acc' appears twice"),
        (
            '{"results": {"a": {"acc": ' + "9" * 400 + "}}}",
            "an integer of 400 digits does not fit 64 bits",
        ),
        ('{"results":' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply"),
        ("\x00\x01", "is not JSON"),
    ],
)
def test_a_file_that_is_no_results_file_is_refused_with_its_reason(
    tmp_path: Path, content: str, problem: str
) -> None:
    with pytest.raises(CardError, match=problem) as caught:
        imported(tmp_path, content)

    assert "results.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_or_a_link_or_no_text_is_refused_unread(tmp_path: Path) -> None:
    path = write(tmp_path, NEW)
    with pytest.raises(CardError, match="at most 100 are taken"):
        import_results(path, 100)

    (tmp_path / "link.json").symlink_to(path)
    with pytest.raises(CardError, match="is a link, no plain file"):
        import_results(tmp_path / "link.json", LIMIT)

    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CardError, match="is not UTF-8"):
        import_results(path, LIMIT)


def test_more_figures_than_a_document_may_hold_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lm_eval_import.MAX_RESULTS == 20_000
    monkeypatch.setattr(lm_eval_import, "MAX_RESULTS", 4)
    with pytest.raises(CardError, match="has 5 figures; at most 4 are taken"):
        imported(tmp_path, NEW)


@pytest.mark.parametrize("ending", ["\n", "\u2028", "<"])
@pytest.mark.parametrize("where", [("model", "name"), ("results", 0, "task"), ("notes", 0)])
def test_the_schema_takes_plain_lines_only(
    tmp_path: Path, where: tuple[Any, ...], ending: str
) -> None:
    document = imported(tmp_path, changed("results", "mmlu_stem", "odd,none", value=True))
    from_plain(document, Imported, "x")
    part: Any = document

    for name in where[:-1]:
        part = part[name]

    part[where[-1]] += ending
    with pytest.raises(StoreError, match="matching regex"):
        from_plain(document, Imported, "x")


# ---- the command


def test_the_command_writes_a_valid_document_and_the_same_one_again(
    board: Path, tmp_path: Path
) -> None:
    path = write(tmp_path, NEW)
    first = run("import", path, "--board", board)
    (file,) = (board / "imported").iterdir()
    before = file.read_bytes()

    assert file.name == f"acme--seer-7b--{sha256_hex(path.read_bytes())[:12]}.json"
    assert read_untrusted(file, Imported, LIMIT) == import_results(path, LIMIT)
    assert "5 results of acme/seer-7b" in first
    assert run("import", path, "--board", board) == first
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["../../up", "/etc/passwd", "..", ".hidden", "a/../../b", "con", "a" * 300]
)
def test_a_models_name_leads_nowhere(board: Path, tmp_path: Path, name: str) -> None:
    before = {file for file in tmp_path.rglob("*") if file.is_file()}
    path = write(tmp_path, changed("model_name", value=name))
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
        run("import", write(tmp_path, NEW), "--board", board)

    assert list((tmp_path / "elsewhere").iterdir()) == []

    with pytest.raises(ConfigError, match="no board here"):
        run("import", write(tmp_path, NEW), "--board", tmp_path)


def test_imported_results_are_in_their_frame_and_in_no_other(board: Path, tmp_path: Path) -> None:
    text = json.dumps(NEW).replace('"word_perplexity,none": 10.5', '"word_perplexity,none": NaN')
    run("import", write(tmp_path, text), "--board", board)
    run("import", write(tmp_path, OLD), "--board", board)
    frame = load_imported_frame(board)

    assert len(frame) == 8
    assert set(frame["model"]) == {"acme/seer-7b", "gpt2"}
    assert (frame["value"].isna() == frame["value_reason"].notna()).all()
    assert frame["is_group"].sum() == 1

    row = frame[frame["metric"] == "acc_norm"].iloc[0]
    assert (row["value"], row["stderr"], row["few_shot"]) == (0.765, 0.004, 2)
    assert pd.isna(row["date"])
    assert set(frame["date"].dropna()) == {pd.Timestamp("2026-01-21")}
    assert len(load_frame(board)) == 0


def test_a_changed_imported_file_is_checked_against_its_schema(board: Path, tmp_path: Path) -> None:
    run("import", write(tmp_path, NEW), "--board", board)
    (file,) = (board / "imported").iterdir()
    document = json.loads(file.read_text())
    document["results"][0]["task"] = EVIL
    file.write_text(json.dumps(document))

    with pytest.raises(CardError, match=r"results\[0\]\.task"):
        load_imported_frame(board)
