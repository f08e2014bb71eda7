"""Words of the command line that moved."""

from __future__ import annotations

import pytest

from ktdeval.cli.moved import moved_words, with_new_words
from terminal import Terminal, find_command

TABLE = moved_words()


@pytest.mark.parametrize("old", TABLE, ids=" ".join)
def test_old_words_become_new_ones_with_one_line_on_stderr(
    old: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    new = TABLE[old]
    assert with_new_words([*old, "RUN", "--json"]) == [*new, "RUN", "--json"]
    assert capsys.readouterr().err == f"ktdeval: moved: ktdeval {' '.join(new)} …\n"


def test_other_words_stay_and_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--model", "builtin/hold", "vote"]
    assert with_new_words(words) == words
    assert capsys.readouterr().err == ""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("old", TABLE, ids=" ".join)
def test_new_words_name_a_command_and_old_ones_none(old: tuple[str, ...]) -> None:
    assert find_command(TABLE[old]) is not None
    assert find_command(old) is None


def test_the_old_words_run_the_command(terminal: Terminal) -> None:
    code, out, err = terminal.call("vote", "--help")
    assert (code, err) == (0, "ktdeval: moved: ktdeval paper vote …\n")
    assert out.startswith("Usage: ktdeval paper vote ")


def test_a_word_near_a_command_of_a_group_is_one_mistyped(terminal: Terminal) -> None:
    assert "no command 'vot'; did you mean 'vote'?" in terminal.error("paper", "vot")


@pytest.mark.parametrize("first", ["qlib/linear", "qlib/*", "--seeds=2"])
def test_a_model_or_an_option_after_train_means_its_default_command(
    first: str, terminal: Terminal
) -> None:
    shown = terminal.text("train", first, "--help")
    assert shown.startswith("Usage: ktdeval train qlib ")
