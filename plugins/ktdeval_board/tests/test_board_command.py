"""Options of `ktdeval leaderboard` that do not go together, and words that went."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.testing import Terminal, on_each_row


@on_each_row(
    "words, expected",
    (
        "build board --serve --out site",
        "--serve does not write the site; use either --out or --serve",
    ),
    ("sign board", "give its file with --key FILE"),
    ("import c.json --attackers run --model x", "leave one out"),
    ("init board --title T --tasks sums", "add --name"),
    ("register --division d --model builtin/hold --submitter A", "--contact ADDRESS"),
    ("submit run --records-url https://example.org", "`--records https://…`"),
    ("submit run --organisation A", "--claims FILE"),
    ("init board --baseline builtin/hold", "--config FILE"),
    ("register --agent react", "--config FILE"),
    ("check board --on 2026-01-02", "it comes before the command"),
)
def test_options_that_do_not_fit_are_one_line_that_says_what_to_type(
    words: str, expected: str, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in terminal.refusal("leaderboard", *words.split())
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_wishes_is_read_strictly(tmp_path: Path, terminal: Terminal) -> None:
    file = tmp_path / "wishes.yaml"
    refused = ""

    for wishes in ("baslines: [builtin/hold]", "keys: mine", "most_registrations: 0"):
        file.write_text(f"{wishes}\n")
        refused += terminal.refusal("leaderboard", "init", tmp_path / "board", "--config", file)

    assert refused.replace(str(tmp_path), "FOLDER") == snapshot("""\
ktdeval: error: FOLDER/wishes.yaml: unknown field 'baslines'; did you mean 'baselines'?
ktdeval: error: FOLDER/wishes.yaml: keys: expected one of registered, own, was 'mine'
ktdeval: error: FOLDER/wishes.yaml: most_registrations: expected a value from 1 to 1000000, was 0
""")
    assert not (tmp_path / "board").exists()
