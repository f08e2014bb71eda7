"""What people see of a card, and the commands that show it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from card_cases import card, remote_card, section, typed
from ktdeval.cards.show import make_report, plain_summary, plain_text, print_card
from ktdeval.cli.main import main
from ktdeval.jsonio import dumps_pretty
from ktdeval.stats.panel import PANEL_FAMILIES
from metric_cases import ledger, market, spec, step

BENCHMARK = "Against the benchmark (return, excess and drawdown in %)"


def shown(**changes: Any) -> str:
    return text_of(card(**changes))


def idle_card() -> dict[str, Any]:
    return card(ledgers=[ledger([step(number, 1000) for number in range(5)], 1000, spec())])


def text_of(made: dict[str, Any]) -> str:
    return plain_text(make_report(typed(made)))


def test_the_ten_headline_metrics_stand_in_their_three_families() -> None:
    words = [line.split()[0] if line.startswith("    ") else line.strip() for line in section(shown(), "Metrics")]
    expected = [word for family, names in PANEL_FAMILIES.items() for word in (family, *names)]
    assert words[1 : 1 + len(expected)] == expected
    assert words[1 + len(expected)] == "diagnostics"


def test_the_benchmark_stands_beneath_the_model() -> None:
    head, own, benchmark = section(shown(), BENCHMARK)
    assert head.split() == ["window", "policy", "days", "seeds", "return", "excess", "sharpe", "drawdown"]
    assert own.split()[:6] == ["long", "builtin/momentum", "5", "1", "+2.80", "-0.20"]
    assert benchmark.split() == ["CSI300", "buy", "and", "hold", "5", "+3.00", "5.291", "1.98"]


def test_labels_come_before_any_figure() -> None:
    text = shown(seeds=(0, 1), failed={1}, limit=3)
    assert text.splitlines()[1] == "[synthetic] [limited] [incomplete] [low coverage] [mask not certified]"
    assert "the first 3 steps of each" in text


def test_whether_a_card_may_be_ranked_stands_below_its_labels() -> None:
    assert shown().splitlines()[2] == "rankable"
    assert shown(seeds=(0, 1), failed={1}).splitlines()[2] == (
        "not rankable: 1 of 2 episodes did not finish; the model decided 50.0 % of 10 steps; 95 % are needed"
    )


def test_tokens_cost_and_calls_of_a_provider_are_shown_with_price_and_day() -> None:
    lines = {line[:18].strip(): line[18:].strip() for line in section(text_of(remote_card()), "Activity")}
    assert lines["tokens"] == "50 in, 10 out"
    assert lines["cost"] == "0.00018 USD"
    assert lines["price"] == "2 in, 8 out, 0.5 cache read USD a million tokens (as of"
    assert lines["return per USD"].endswith(" %")
    assert lines["requests"] == "3: 1 answered by the provider, 1 from the cache; 2 failed"
    assert lines["latency"] == "median 2.00 s, 99 % within 2.00 s, longest 2.00 s; 120.5 s in"
    assert lines["paid"] == "1.50 USD, possibly 0.2500 USD more; checks of the run 0.1250 USD"
    assert lines["served by"] == "gpt-4.1-2025-04-14 (2)"


def test_how_tools_were_offered_is_shown() -> None:
    assert "temperature 0.7, tool_protocol json_schema" in text_of(remote_card())


def test_a_cost_that_is_not_known_is_not_shown_as_nothing() -> None:
    text = text_of(remote_card(price=None))
    assert "not known: no price of the model is known" in text
    assert "USD a million" not in text
    assert "0.00 USD" in shown()


def test_drift_is_shown_with_what_one_sitting_varies_by() -> None:
    found = {"value": 0.25, "noise": 0.125, "excess": 0.125, "prompts": 6, "served_by_changed": True}
    text = " ".join(text_of(remote_card(drift=found)).split())
    assert "0.250 between start and end over 6 questions, 0.125 within one sitting" in text
    assert "the provider named another model at the end" in text
    assert "no drift: no fixed questions were asked" in text_of(remote_card())
    assert "drift" not in shown()  # of a model of this machine


def test_what_is_not_defined_is_a_dash_with_its_reason_below() -> None:
    text = text_of(idle_card())
    assert re.search(r"^ +ece +- ", text, re.MULTILINE)
    assert "ece is not defined: no filled order with a next open" in text
    assert "None" not in text


def test_failures_rejections_and_missing_episodes_are_counted() -> None:
    text = shown(seeds=(0, 1), failed={1})
    assert "1 of 2 finished" in text
    assert "10 submitted: filled 5, rejected 5" in text
    assert "price_limit 5" in text
    assert "schema 1" in text
    assert "missing: window long, seed 1: the model call failed" in text


def test_several_episodes_show_median_spread_and_count() -> None:
    head, _, first, *_ = section(shown(seeds=(0, 1, 2)), "Metrics")
    assert head.split() == ["metric", "median", "unit", "better", "quartiles", "episodes"]
    assert first.split() == ["total_return", "+10.80", "%", "higher", "+6.80", "…", "+14.80", "3"]


def test_a_card_without_finished_episodes_can_be_shown() -> None:
    text = shown(failed={0})
    assert "0 of 1 finished" in text
    assert "Against the benchmark" not in text


def test_a_metric_outside_the_panel_is_shown_apart() -> None:
    made = card()
    made["metrics"]["zeal"] = {**made["metrics"]["ece"], "unit": "zeals"}
    assert "further metrics" in text_of(made)


def test_control_characters_of_a_strangers_card_never_reach_the_terminal() -> None:
    made = card()
    made["model"]["name"] = "evil\x1b[2J\x9b31m\u202egpt"
    made["metrics"]["ece"]["undefined"] = {"\x1b]0;title\x07": 1}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text_of(made))


def test_tables_fit_a_terminal_of_80_columns() -> None:
    made = card(seeds=(0, 1, 2), failed={1})
    made["model"]["name"] = "a-house-with-a-long-name/a-model-with-a-long-name-2025-08-07"
    made["failures"] = {f"a_kind_of_failure_{number}": 1000 + number for number in range(12)}
    wide = {"kind": "a test", "low": 12.34, "high": 345.67}
    wide = {"kind": "a test", "low": 12.34, "high": 345.67}
    made["metrics"]["turnover"] |= {"value": 34.56, "interval": wide}  # the tiny market's is absurd
    text = text_of(made) + plain_summary([typed(made), typed(made)])
    tables = text[text.index("Metrics") : text.index("Notes")].splitlines()
    assert max(map(len, tables)) <= 80
    assert "a_kind_of_failure_11 1,011" in text


def test_several_cards_end_in_one_row_each() -> None:
    made = card()
    made["task"]["name"] = "another_task"
    head, first, second = plain_summary([typed(card()), typed(made)]).splitlines()[2:]
    assert head.split() == ["task", "return", "sharpe", "drawdown", "info", "ratio", "decided"]
    assert [first.split()[0], second.split()[0]] == ["blinded_open_research", "another_task"]
    assert first.split()[1] == "+2.80"


def test_columns_align_below_wide_characters() -> None:
    made = card()
    made["model"]["name"] = "千问"
    own, benchmark = section(text_of(made), BENCHMARK)[1:]
    assert len(own) + 2 == len(benchmark)  # Two characters take two more cells than they count.


def test_a_terminal_gets_colours_and_a_pipe_the_same_lines_without() -> None:
    made, terminal, pipe = card(), io.StringIO(), io.StringIO()
    print_card(typed(made), Console(file=terminal, force_terminal=True, width=60))
    print_card(typed(made), Console(file=pipe, width=60))
    assert "\x1b[" in terminal.getvalue()
    assert pipe.getvalue() == text_of(made)
    assert re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()) == pipe.getvalue()


# -- the commands -------------------------------------------------------------------------------------------------------


@pytest.fixture
def card_file(tmp_path: Path) -> Path:
    """A run folder with one card."""
    (tmp_path / "cards").mkdir()
    path = tmp_path / "cards" / "blinded_open_research.json"
    path.write_text(dumps_pretty(card()))
    return path


def test_card_show_prints_a_card_or_the_cards_of_a_run(card_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "show", "--plain", str(card_file)]) == 0
    text = capsys.readouterr().out
    assert text == shown()
    assert main(["card", "show", str(card_file.parent.parent)]) == 0
    assert capsys.readouterr().out == text


def test_card_validate_says_yes_or_names_the_line(card_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "validate", str(card_file)]) == 0
    assert f"valid (episodes: 1, metrics: {len(card()['metrics'])})" in capsys.readouterr().out
    card_file.write_text(card_file.read_text().replace('"rules": "strict"', '"rules": "lenient"'))
    assert main(["card", "validate", str(card_file)]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"ktdeval: error: .*\.json: line \d+: rules: expected paper or strict, was 'lenient'\n", error)


def test_a_folder_without_cards_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "show", str(tmp_path)]) == 2
    assert "no cards here" in capsys.readouterr().err


def test_a_real_market_has_no_synthetic_label() -> None:
    assert "synthetic" not in shown(snapshot=market(synthetic=False))
