"""Wrong words on the command line: one line that says where help is, and fits a screen."""

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot

from ktdeval.cli.options import is_required
from ktdeval.cli.terminal_tables import params_of
from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.runner.models.model_connection import cache_path
from ktdeval.testing import Terminal, not_empty


def test_an_error_of_usage_names_the_command_whose_help_to_read(terminal: Terminal) -> None:
    refused = terminal.refusals("card keygen", "card show", "plan --seeds nan", "score a b")
    assert refused == snapshot("""\
card keygen
  ktdeval: error: Missing option '--out'; see `ktdeval card keygen --help`
card show
  ktdeval: error: Missing argument 'PATH…'; see `ktdeval card show --help`
plan --seeds nan
  ktdeval: error: Invalid value for '--seeds': 'nan' is not a valid integer; see `ktdeval plan --help`
score a b
  ktdeval: error: Got unexpected extra argument (b); see `ktdeval score --help`
""")


def test_an_error_about_an_option_names_it_as_it_is_typed(terminal: Terminal) -> None:
    run = "--model builtin/momentum --tasks blinded_open_research"
    refused = terminal.refusals(
        "data make long --out x",
        "data make us --symbols A --first 2024-01-02 --out x",
        "data make hf --out x",
        "data make synthetic --seed=-4 --out x",
        "data make long --bars b.csv --map open=3 --out x",
        "data make placebo --of synthetic --kind shuffle --block-days 7 --out x",
        "score x --rules loose",
        f"{run} --seeds -1",
        f"{run} --max-output-tokens 0",
        f"{run} --data long",
        f"{run} --agent team",
    )
    assert refused == snapshot("""\
data make long --out x
  ktdeval: error: give --bars FILE, which long needs (see `ktdeval data make long --help`)
data make us --symbols A --first 2024-01-02 --out x
  ktdeval: error: give --from [alpaca|yfinance] --last DATE, which us needs (see `ktdeval data make us --help`)
data make hf --out x
  ktdeval: error: give ORG/NAME, which hf needs (see `ktdeval data make hf --help`)
data make synthetic --seed=-4 --out x
  ktdeval: error: --seed: expected a value of at least 0, was -4
data make long --bars b.csv --map open=3 --out x
  ktdeval: error: --map open: expected a string, was 3
data make placebo --of synthetic --kind shuffle --block-days 7 --out x
  ktdeval: error: placebo: kind shuffle has no blocks; leave --block-days out
score x --rules loose
  ktdeval: error: --rules: expected one of strict, paper, was 'loose'
--model builtin/momentum --tasks blinded_open_research --seeds -1
  ktdeval: error: --seeds: expected a value from 1 to 10000, was -1
--model builtin/momentum --tasks blinded_open_research --max-output-tokens 0
  ktdeval: error: --max-output-tokens: expected a value of at least 1, was 0
--model builtin/momentum --tasks blinded_open_research --data long
  ktdeval: error: data provider long needs bars: --data-args bars=…
--model builtin/momentum --tasks blinded_open_research --agent team
  ktdeval: error: agent team needs file: --agent-args file=…
""")


def test_each_provider_names_what_it_lacks_as_its_help_does(terminal: Terminal) -> None:
    lacking = []
    for name, spec in load_plugins().specs("data").items():
        if any(map(is_required, params_of(spec))):
            lacking.append(name)

    for name in not_empty(lacking):
        refused = terminal.refusal("data", "make", name, "--out", "x")
        assert re.fullmatch(
            rf"ktdeval: error: give (--[\w-]+ \S+ ?|[A-Z/]+ ?)+, which {name} needs .*\n",
            refused,
        )


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
    refused = terminal.refusal("list", "models", word)

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


def test_name_that_is_not_utf_8_is_refused_where_json_must_hold_it(
    terminal: Terminal,
) -> None:
    refused = terminal.refusal(
        "paper", "qfinzero", "serve", "--connect", "mcp", "--rules", "\udcff"
    )
    assert "'\\udcff': is not UTF-8, which JSON can't hold; choose another name" in refused


def test_a_url_is_no_file_of_replies() -> None:
    with pytest.raises(UsageError, match="--cache s3://b/c: is a URL; expected a local file"):
        cache_path("s3://b/c")
