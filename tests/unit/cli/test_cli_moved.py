"""Words of the command line that moved."""

from __future__ import annotations

import pytest

from ktdeval.cli.help.moved import moved_words, with_new_words

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
