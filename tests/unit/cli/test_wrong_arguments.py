"""Wrong words on the command line: one line that says where help is, and fits a screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktdeval.errors import UsageError
from ktdeval.runner.remote.model_connection import cache_path
from terminal import Terminal


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("card keygen", "Missing option '--out'; see `ktdeval card keygen --help`"),
        ("card show", "Missing argument 'PATH…'; see `ktdeval card show --help`"),
        ("plan --seeds nan", "'nan' is not a valid integer; see `ktdeval plan --help`"),
        ("score a b", "Got unexpected extra argument (b); see `ktdeval score --help`"),
    ],
)
def test_an_error_of_usage_names_the_command_whose_help_to_read(
    terminal: Terminal, words: str, line: str
) -> None:
    refused = terminal.refusal(*words.split())
    assert refused.startswith("ktdeval: error: ")
    assert refused.endswith(f"{line}\n")


def test_a_mistyped_option_gets_the_near_ones_instead_of_the_help(terminal: Terminal) -> None:
    refused = terminal.refusal("run", "--modle", "x")
    words = (
        r"Did you mean one of: '--model', '--model-args'\?|"
        r"\(Possible options: --model, --model-args\)"
    )

    assert re.search(words, refused), "as click 8.5 says it, or as those before"
    assert "--help" not in refused


def test_a_very_long_word_is_shown_without_its_middle(terminal: Terminal) -> None:
    word = "begin" + "x" * 5000 + "end"
    refused = terminal.refusal("models", "show", word)

    assert refused.startswith("ktdeval: error: unknown model 'beginx")
    assert "x…x" in refused
    assert "end'" in refused
    assert len(refused) < 500


@pytest.mark.parametrize(
    "words", [["--model", "\x1b[31mred"], ["--\x1b[31mred"]], ids=["a value", "an option"]
)
def test_control_characters_of_an_argument_do_not_reach_the_terminal(
    words: list[str], terminal: Terminal
) -> None:
    assert "\x1b" not in terminal.refusal("plan", *words)


def test_a_name_that_is_not_utf_8_is_refused_where_it_must_be_written_as_json(
    terminal: Terminal,
) -> None:
    refused = terminal.refusal(
        "paper", "qfinzero", "serve", "--connect", "mcp", "--rules", "\udcff"
    )
    assert "'\\udcff': is not UTF-8, which JSON can't hold; choose another name" in refused


def test_a_wrong_day_is_refused_before_the_work_begins(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "market"
    refused = terminal.refusal("data", "make", "qfinzero", "--out", folder, "--as-of-day", "soon")
    assert "as_of_day must be a day such as 2025-01-02" in refused
    assert not folder.exists()


def test_a_url_is_no_file_of_replies() -> None:
    with pytest.raises(UsageError, match="--cache s3://b/c: is a URL; name a file"):
        cache_path("s3://b/c")
