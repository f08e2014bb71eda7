"""YAML of any kind, wherever it is read: a value, or one line that names the file, the line and
what to do.
"""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from itertools import chain, product
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ktdeval.cli.main import main
from ktdeval.errors import ConfigError
from ktdeval.testing import Terminal
from ktdeval.values import parse_yaml

pytestmark = pytest.mark.slow

TAGS = (
    *(
        "timestamp",
        "set",
        "omap",
        "pairs",
        "binary",
        "int",
        "float",
        "bool",
        "null",
        "str",
        "seq",
        "map",
        "merge",
        "value",
    ),
    *(
        "yaml",
        "python/object:os.system",
        "python/object/apply:os.system",
        "python/name:os.system",
        "python/tuple",
    ),
)
VALUES = (
    "",
    "x",
    "1",
    "1.5",
    "2024-01-01",
    "1e999",
    ".nan",
    "~",
    "true",
    "[a, b]",
    "{a: 1}",
    "[{a: 1}]",
    "'12'",
    "<<",
    "=",
)
PLACES = (
    "a: {}",
    "- {}",
    "? {}\n: 1",
    "a: [{}, 1]",
    "a: {{b: {}}}",
    "a: &x {}\nb: *x",
    "<<: {}",
    "{}",
)
ODD = (
    "a: &x [*x]",
    "a: &x\n  <<: *x",
    "a: *nope",
    "a: 99999999999999999999",
    "a: \x07",
    "1: 2",
    "~: 1",
    "a: 1\na: 2",
    "---\na: 1\n---\nb: 2",
    "%YAML 9.9\n---\na: 1",
    "a: [" * 300,
    "a:\n\t- 1",
)
BYTES = (
    b"a: \xff",
    b"a: \x80",
    b"a: \xc3",
    b"\x00",
    "a: 1".encode("utf-16-be"),
    "a: 1".encode("utf-32"),
    b"\xef\xbb\xbf",
)


def outcome(text: str | bytes) -> dict[str, object] | str:
    """What is read, or the line that says why nothing is."""
    try:
        return parse_yaml(text, "f.yaml")
    except ConfigError as error:
        line = str(error)
        assert line.startswith("f.yaml: ")
        assert "\n" not in line
        return line


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_gives_a_plain_value_or_one_line(tag: str) -> None:
    plain = (str, int, float, bool, type(None), list, dict)
    documents = [place.format(f"!!{tag} {value}") for place, value in product(PLACES, VALUES)]
    outcomes = [outcome(document) for document in documents]
    tables = [found for found in outcomes if isinstance(found, dict)]
    values = chain.from_iterable(table.values() for table in tables)

    assert all(isinstance(value, plain) for value in values)

    if tag not in ("str", "int", "float", "bool", "null", "seq", "map"):
        refused = [found for found in outcomes if isinstance(found, str)]
        assert len(refused) > len(outcomes) * 3 // 4
        assert any(f"with the tag !!{tag}" in line for line in refused) or tag == "merge"


@pytest.mark.parametrize("document", [*ODD, *BYTES])
def test_odd_documents_are_reported_in_one_line(document: str | bytes) -> None:
    found = outcome(document)
    assert isinstance(found, str)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            "x: 1\na: !!timestamp x",
            (
                "line 2, column 4: not YAML: a scalar with the tag !!timestamp is not read; leave"
                " the tag out"
            ),
        ),
        (
            "x: 1\na: !!float abc",
            (
                "line 2, column 4: not YAML: !!float is given for 'abc', which is not such a value;"
                " leave the tag out"
            ),
        ),
        (
            "x: 1\na: 99999999999999999999",
            "line 2, column 4: not YAML: an integer of 20 digits does not fit 64 bits",
        ),
        ("x: 1\na: 1e999", "line 2, column 4: not YAML: 1e999 is too large for a number"),
        ("x: 1\na: \x07", "line 2: not YAML: the character U+0007 is not allowed; delete it"),
        (b"x: 1\na: \xff", "line 2: not YAML: it is not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_the_line_names_the_place_and_gives_advice(document: str | bytes, message: str) -> None:
    assert message in str(outcome(document))


def test_aliases_that_multiply_are_counted_before_they_are_made() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)
    ]

    assert "has more than 1,000,000 values, as its aliases repeat them" in str(
        outcome("\n".join(lines))
    )

    lines = ["a0: &a0 {k0: 1}"]
    merges = [
        f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}"
        for level in range(1, 12)
    ]

    assert "has more than 1,000,000 values" in str(outcome("\n".join([*lines, *merges])))

    deep = ["a0: &a0 [x]", *(f"a{level}: &a{level} [*a{level - 1}]" for level in range(1, 1000))]
    assert "is nested more than 200 levels deep" in str(outcome("\n".join(deep)))


def test_anchors_merges_and_plain_tags_are_read() -> None:
    text = (
        "base: &base {a: 1, b: x}\nown:\n  <<: *base\n  b: !!str 600519\nagain: [*base, *base]\nf:"
        " !!float 3"
    )

    assert parse_yaml(text, "f.yaml") == {
        "base": {"a": 1, "b": "x"},
        "own": {"a": 1, "b": "600519"},
        "again": [{"a": 1, "b": "x"}] * 2,
        "f": 3.0,
    }


@given(st.text(alphabet=" \n-:?[]{},&*!|>'\"%@`#~<=a1.\t\0é\ud800", max_size=60))
def test_any_text_is_a_value_or_one_line(text: str) -> None:
    outcome(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_one_line(data: bytes) -> None:
    outcome(data)


# ---- commands that read YAML

READERS = {
    "run": ("run", "--config", "f.yaml"),
    "plan": ("plan", "--config", "f.yaml"),
    "build": ("data", "make", "synthetic", "--spec", "f.yaml", "--out", "m"),
    "import": ("data", "make", "long", "--bars", "b.csv", "--spec", "f.yaml", "--out", "m"),
    "prices": (
        "plan",
        "--model",
        "openai/x",
        "--tasks",
        "blinded_open_research",
        "--price-table",
        "f.yaml",
    ),
    "team": (
        "plan",
        "--model",
        "builtin/random",
        "--agent",
        "team",
        "--agent-args",
        "file=f.yaml",
        "--tasks",
        "blinded_open_research",
    ),
    "board": ("leaderboard", "check", "."),
}
WRONG = (
    *(
        "x: !!timestamp x",
        "model: !!set {a}",
        "seeds: .nan",
        "seeds: 1e999",
        'out: "a\\0b"',
        "model: [\ud7ff",
    ),
    *(
        "divisions: !!set {a}",
        "models: {a: .inf}",
        "name: [1, {a: ~}]",
        "tasks: *x",
        "roles: {a: {b: &x {c: *x}}}",
    ),
)


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_every_command_reports_a_bad_file_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("board.yaml" if "leaderboard" in words else "f.yaml")
    lines = []

    for text in WRONG:
        path.write_text(text)
        out = io.StringIO()
        err = io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(list(words))

        assert code == 2, (text, out.getvalue(), err.getvalue())
        # An error about something else would show that the command never read the file.
        field = text.partition(":")[0]
        assert path.name in err.getvalue() or field in err.getvalue()
        lines.append(err.getvalue())

    assert [
        line for line in lines if line.count("\n") != 1 or not line.startswith("ktdeval: error: ")
    ] == []


def test_a_config_or_a_card_that_is_deep_or_no_file_is_one_line(
    tmp_path: Path, terminal: Terminal
) -> None:
    deep = tmp_path / "deep.yaml"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    for text in (
        "x: " + "[" * 5000 + "]" * 5000,
        "{x: " * 30_000 + "1" + "}" * 30_000,
        "- " * 3000 + "1",
    ):
        deep.write_text(text)
        assert "is nested more than 200 levels deep" in terminal.refusal("run", "--config", deep)

    for words in (
        ("run", "--config", pipe),
        ("card", "show", pipe),
        ("card", "verify", "--card-only", pipe),
        ("compare", pipe, pipe),
    ):
        refusal = terminal.refusal(*words)
        assert "is not a plain file but a pipe, a device or a socket" in refusal
