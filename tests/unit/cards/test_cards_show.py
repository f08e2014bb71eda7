"""What people see of a card of either kind, and the commands that show it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from rich.console import Console

from ktdeval.cards.fields.origin.plan import costs_row
from ktdeval.cards.fields.words import label_word
from ktdeval.cards.metric_tables import nearest_to_median, number
from ktdeval.cards.reports import figures_differ_in, pace_notes
from ktdeval.cards.show import (
    card_lines,
    plain_text,
    print_lines,
    side_by_side,
    summary_lines,
)
from ktdeval.testing import Terminal, on_each_row
from ktdeval.values import content_hash, dumps_pretty
from support.figures.card_cases import CALLS, PRICE, card, remote_card, ruined_card, section, typed
from support.figures.metric_cases import ledger, spec, step
from support.figures.scoring_cases import CARDS, TASK, score_spec, scoring_card

BENCHMARK = "Against the benchmark (return, excess and drawdown in %)"


def text_of(made: dict[str, Any]) -> str:
    return plain_text(card_lines(typed(made)))


def words(made: dict[str, Any], title: str) -> list[list[str]]:
    return [line.split() for line in section(text_of(made), title)]


def claims(made: dict[str, Any]) -> str:
    """What a card says first: of memory, and of its return."""
    return text_of(made).split("\n\n")[1]


def money(made: dict[str, Any]) -> str:
    """What a card says of tokens, prices and calls."""
    activity = "\n".join(section(text_of(made), "Activity"))
    return activity[activity.index("  tokens") :]


# ---- trading cards


def test_cards_of_other_windows_markets_or_rules_are_in_no_order() -> None:
    one = typed(card())
    market = replace(one, snapshot=replace(one.snapshot, id="0" * 64))
    rules = replace(one, rules="paper")
    days = replace(
        one, episodes=[replace(episode, last_day="2030-01-01") for episode in one.episodes]
    )

    assert figures_differ_in([one, one]) == ""
    assert [figures_differ_in([one, other]) for other in (days, market, rules)] == [
        "windows",
        "snapshots",
        "metric rules",
    ]


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ([0.06], 0),
        ([-0.0193, 0.1395], 0),  # equally near: the first, here the lower
        ([0.1395, -0.0193], 0),  # … and here the higher
        ([0.10, -0.05, 0.02], 2),
        ([0.30, 0.01, 0.02, 0.10], 2),  # median 0.06, 0.02 and 0.10 equally near but for rounding
        ([-0.5, -0.4, 0.10, 0.11], 1),
    ],
)
def test_the_episode_shown_is_the_one_nearest_to_the_median(
    values: list[float], chosen: int
) -> None:
    assert nearest_to_median(values) == chosen


def test_a_card_states_its_claims_about_memory_and_return() -> None:
    made = card()
    assert claims(made) == snapshot("""\
Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5
of 10 orders rejected or cut: price_limit 5.
Memory: codes and days were hidden from the model; no certificate bounds what a
model recovers from its prompts.
Return, %: +2.80, of which nothing is attributed. The benchmark made +3.00 %.\
""")

    # The parts are of one named episode, and add to its return to the last digit shown; medians
    # would not.
    made_of_three = card((0, 1, 2))
    parts_of = (
        "common_return",
        "industry_return",
        "style_return",
        "selection_alpha",
        "trading_effect",
    )

    for index, one in enumerate(made_of_three["episodes"]):
        rest = [0.01 * index, -0.02, 0.03 * index, -0.01]
        values = [one["metrics"]["total_return"]["value"] - sum(rest), *rest]
        one["metrics"] |= {
            name: {"value": value, "n": 3} for name, value in zip(parts_of, values, strict=True)
        }

    several = claims(made_of_three)
    total, *parts = map(
        float,
        re.findall(r"[+-]\d+\.\d\d", several.partition("The benchmark")[0].partition("seed")[2]),
    )

    assert len(parts) == 5
    assert sum(parts) == pytest.approx(total, abs=0.026)
    assert several == snapshot("""\
Failures and repairs: 3 of 15 steps decided after a retry; 3 failures: schema 3;
15 of 30 orders rejected or cut: price_limit 15.
Memory: codes and days were hidden from the model; no certificate bounds what a
model recovers from its prompts.
Return, %: median +10.80 over 3 episodes. One episode, long, seed 1: +10.80, of
which common +9.80, industry +1.00, style -2.00, selection +3.00, trading -1.00.
The benchmark made +3.00 %.\
""")

    figures = made["episodes"][0]["metrics"]
    figures["information_ratio"]["detail"] = {"dividend_growth": 0.0218}
    made["episodes"][0]["steps"] = 126
    said = [claims(made)]

    figures["information_ratio"]["detail"] = {"dividend_growth": None, "reason": "splits alone"}
    said.append(claims(made))

    made["task"]["mask"] = made["task"]["config"]["mask"] = "bright"
    said.append(claims(made))

    figures["total_return"] = {"value": None, "n": 1, "reason": "no prices"}
    said.append(claims(made))
    said.append(claims(card(metrics=[])))

    assert "\n\n".join(said) == snapshot("""\
Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5
of 10 orders rejected or cut: price_limit 5.
Memory: codes and days were hidden from the model; no certificate bounds what a
model recovers from its prompts.
Return, %: +2.80, of which nothing is attributed. The benchmark made +3.00 % (a
price index lacks dividends: the members' adjustment factors grew by 1.1 % in
126 days).

Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5
of 10 orders rejected or cut: price_limit 5.
Memory: codes and days were hidden from the model; no certificate bounds what a
model recovers from its prompts.
Return, %: +2.80, of which nothing is attributed. The benchmark made +3.00 %
(dividends: none in the data).

Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5
of 10 orders rejected or cut: price_limit 5.
Memory: codes and dates were shown, so memory and decisions can't be
distinguished here.
Return, %: +2.80, of which nothing is attributed. The benchmark made +3.00 %
(dividends: none in the data).

Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5
of 10 orders rejected or cut: price_limit 5.
Memory: codes and dates were shown, so memory and decisions can't be
distinguished here.
Return: not defined in any episode.

Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5
of 10 orders rejected or cut: price_limit 5.
Memory: codes and days were hidden from the model; no certificate bounds what a
model recovers from its prompts.
Return: not among the metrics of this card.\
""")


def test_a_figure_of_a_year_says_of_how_few_days_it_is() -> None:
    made = card()
    made["metrics"]["turnover"]["unit"] = "fraction per year"

    assert list(pace_notes([typed(made)])) == ["turnover: annualised from 5 days"]


def test_a_card_in_a_shell_has_quartiles_of_several_episodes_alone() -> None:
    """Episodes of 2.8, 10.8 and 18.8 %."""
    several = repr(typed(card((0, 1, 2))))

    assert "  total_return     2.80 %\n" in repr(typed(card()))
    assert "  total_return     10.80 % (quartiles over episodes 6.80 … 14.80)\n" in several


def test_cards_of_one_model_and_task_are_numbered_and_list_omissions() -> None:
    first = card()
    second = card((0, 1))
    cut = card()
    reason = "every episode was cut after 1 step"
    cut |= {
        "limit": 1,
        "labels": ["synthetic", "limited"],
        "rankable": {"value": False, "reasons": [reason]},
    }
    second["left_out"] = {"long": "has 595 weekdays"}
    second["agent"]["args"] = {"memory": True}
    text = plain_text(side_by_side([typed(first), typed(second), typed(cut)]))
    assert text.splitlines()[1:3] == snapshot(
        [
            "blinded_open_research: medians over episodes",
            "  metric                   unit        builtin/momentum #1  builtin/momentum@react(memory=true)  builtin/momentum #3",
        ]
    )
    assert text.partition("\nNotes\n")[2] == snapshot("""\
  every card: [synthetic]
  builtin/momentum #1, builtin/momentum@react(memory=true): [mask not tested for this model]
  builtin/momentum #1, builtin/momentum@react(memory=true): [identifiable by its prices]
  builtin/momentum #1, builtin/momentum #3: Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5 of 10 orders rejected or cut: price_limit 5.
  every card: information_ratio, min_track_record, psr, sharpe, sortino: not shown, since 5 returns are too few to annualise: 20 are needed
  builtin/momentum #1, builtin/momentum #3: documents_withheld is not defined: the market has no documents
  builtin/momentum@react(memory=true): Failures and repairs: 2 of 10 steps decided after a retry; 2 failures: schema 2; 10 of 20 orders rejected or cut: price_limit 10.
  builtin/momentum@react(memory=true): window long has its own rows and is excluded from figures over episodes: it has 595 weekdays
  builtin/momentum@react(memory=true): documents_withheld is not defined in 2 of 2 episodes: the market has no documents
  builtin/momentum #3: [limited]
  builtin/momentum #3: may not be ranked: every episode was cut after 1 step
""")


def test_columns_of_two_systems_are_named_by_their_differences() -> None:
    """A bright card of a model and a blinded one of it with other parameters would read as an
    effect of the mask.
    """
    bright = card()
    tuned = card()
    bright["task"] |= {"name": "bright_open_research", "mask": "bright"}
    tuned["model"]["args"] = {"positions": 3}
    lines = plain_text(side_by_side([typed(bright), typed(tuned)])).splitlines()

    assert re.split(r"  +", lines[2].strip())[2:] == [
        "builtin/momentum bright_open_research",
        "builtin/momentum(positions=3) blinded_open_research",
    ]


def test_figures_over_fewer_episodes_state_their_number() -> None:
    """Of three episodes one is of a window that stands in no figure: orders are of three, judged
    orders of two.
    """
    made = card((0, 1, 2))
    apart = made["episodes"][0]
    apart |= {"window": "apart", "last_day": apart["first_day"]}  # a window of one day
    words = " ".join(text_of(made).split())

    assert "orders 30 submitted: filled 15, rejected 15, in all 3 episodes" in words
    assert (
        "12 orders judged; left out: no_fill 15, no_next_open 3, in the 2 of 3 episodes that"
        " figures rest on" in words
    )
    assert "in all" not in text_of(card((0, 1, 2)))


@pytest.mark.parametrize(("seeds", "is_noted"), [((0, 1), True), ((0,), False)])
def test_a_note_explains_that_medians_of_parts_do_not_add_up(seeds: Any, is_noted: bool) -> None:
    note = (
        "common_return, selection_alpha: parts of the total return of each episode; their medians"
        " need not add up to its median"
    )
    made = card(seeds)

    for name in ("common_return", "selection_alpha"):
        made["metrics"][name] = {
            **made["metrics"]["total_return"],
            "formula": f"{name}/1: here",
        }
        for one in made["episodes"]:
            one["metrics"][name] = {"value": 0.01, "n": 5}

    assert (note in " ".join(text_of(made).split())) == is_noted


def test_side_by_side_scores_are_not_called_medians_and_keep_their_units() -> None:
    first = scoring_card()
    second = scoring_card()
    second["model"]["name"] = "builtin/hold"

    for made in (first, second):
        made["scores"]["right_name"]["unit"] = "fraction of answers"

    lines = plain_text(side_by_side([typed(first), typed(second)])).splitlines()

    assert lines[1] == "name_probe: scores"
    assert next(line.split() for line in lines if "right_name" in line) == [
        "right_name",
        "%",
        "5.26",
        "5.26",
    ]


@on_each_row(
    "name, unit, value, shown",
    ("total_return", "fraction", 0.02804, "+2.80"),
    ("industry_return", "fraction", -1e-09, "+0.00"),
    ("sharpe", "ratio", -1e-09, "0.000"),
    ("max_drawdown", "fraction", 0.02804, "2.80"),
    ("sharpe", "ratio", -1.23456, "-1.235"),
    ("turnover", "per year", 12.3456, "12.35"),
    ("hhi", "sum of squares", 0.123456, "0.1235"),
    ("unmask_attempts", "count", 1234.0, "1,234"),
    ("sharpe", "ratio", None, "-"),
)
def test_a_figure_has_the_sign_and_decimals_of_its_unit(
    name: str, unit: str, value: float | None, shown: str
) -> None:
    assert number(name, unit, value) == shown


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"trading": {"board_rules": "paper"}}, "a_share flat (paper), coins flat"),
        (
            {"trading": {"board_rules": "paper"}, "duties": "ab" * 32},
            "a_share flat (paper), coins flat",
        ),
        (
            {"trading": {"board_rules": "exchange"}, "duties": "ab" * 32},
            "a_share dated (duties abababababab), coins flat",
        ),
        ({"venue_rules": {"name": "us_equity"}, "duties": "cd" * 32}, "us_equity dated (duties"),
        ({"venue_rules": {"name": "us_equity"}}, "us_equity flat"),
    ],
)
def test_a_card_says_whether_its_costs_were_those_of_each_day(
    config: dict[str, Any], words: str
) -> None:
    task = replace(typed(card()).task, config=config)
    label, shown = costs_row(task, ["a_share", "coins"])
    assert (label, shown.startswith(words)) == ("trading costs", True), shown


def test_a_median_over_fewer_seeds_states_their_number() -> None:
    made = ruined_card()
    own = words(made, BENCHMARK)[1]

    assert own[3:7] == ["2", "of", "3", "+10.80"]
    assert words(card((0, 1, 2)), BENCHMARK)[1][3:5] == ["3", "+10.80"]

    tasks = plain_text(summary_lines([typed(made), typed(card((0, 1, 2)))])).splitlines()
    assert ["(2 of 3 episodes)" in line for line in tasks[3:5]] == [True, False]


@on_each_row(
    "made, expected",
    ("trading", ["may be ranked", "0.00 USD"]),
    (
        "trading, cut",
        [
            "[synthetic] [limited] [incomplete] [low coverage] [mask not tested for this model]",
            (
                "may not be ranked: every episode was cut after 3 steps; 1 of 2 episodes did "
                "not finish; the model decided 50.0 %"
            ),
            "the first 3 steps of each",
            "1 of 2 finished",
            "missing: window long, seed 1: the model call failed",
            "6 submitted: filled 3, rejected 3",
            "price_limit 3",
            "schema 1",
        ],
    ),
    ("trading, none finished", ["0 of 1 finished"]),
    ("trading, real", ["[mask not tested for this model]"]),
    (
        "trading, paid",
        ["temperature 0.7, tool_protocol json_schema", "no drift: no fixed questions were asked"],
    ),
    ("trading, of unknown price", ["not known: no price of the model is known"]),
    (
        "scoring",
        [
            ("name_probe · builtin/momentum\n[synthetic]\nmay be ranked\n"),
            "  subject ",
            "19 of 20 samples decided by the model = 95.0 %",
        ],
    ),
    (
        "scoring, cut",
        [
            "[synthetic] [limited] [incomplete] [low coverage]",
            (
                "may not be ranked: every episode was cut after 3 samples; 1 of 2 episodes did "
                "not finish;"
            ),
            "the first 3 samples of each",
            "missing: window long, seed 1: the model call failed",
            "the scores cover only the finished episodes",
        ],
    ),
    ("scoring, none finished", ["right_name is not defined: no probe has a valid answer"]),
    (
        "scoring, paid",
        ["0.00072 USD", "3: 1 answered by the provider", "no drift: no fixed questions were asked"],
    ),
)
def test_a_card_states_its_labels_its_ranking_and_missing_parts(
    made: str, expected: list[str]
) -> None:
    of = CARDS[made]()
    text = text_of(of)
    for part in expected:
        assert part in text

    labels, ranking = text.splitlines()[1:3]

    assert labels == " ".join(f"[{label_word(label)}]" for label in of["labels"]), (
        "before any figure"
    )
    assert ranking.startswith("may be ranked" if of["rankable"]["value"] else "may not be ranked: ")
    assert "None" not in text
    assert ("Against the benchmark" in text) == (of["kind"] == "trading" and bool(of["episodes"]))
    assert ("USD a million" in text) == bool(of["cost"]["value"])
    assert ("drift" in text) == (of["provenance"]["calls"] is not None), (
        "of a model of this machine nobody asks"
    )


def test_a_task_without_a_target_task_shows_none() -> None:
    task = {name: value for name, value in TASK.items() if name != "subject_config"}
    specs = [score_spec(task_hash=content_hash(task))]
    assert "subject" not in text_of(scoring_card(task=task, specs=specs))


def test_undefined_values_are_a_dash_with_the_reason_below() -> None:
    idle = ledger([step(number, 1000) for number in range(5)], 1000, spec())
    text = text_of(card(ledgers=[idle]))

    assert re.search(r"^ +calibration error \(ECE\) +- ", text, re.MULTILINE)
    assert "ece is not defined: no filled order with a next open" in text
    assert re.search(r"^ +right_name +- ", text_of(scoring_card((0,), {0})), re.MULTILINE)


def test_tokens_cost_and_calls_of_a_provider_are_shown_with_price_and_day() -> None:
    assert money(remote_card()) == snapshot("""\
  tokens          50 in, 10 out
  cost            0.00018 USD
  price           2 in, 8 out, 0.5 cache read USD a million tokens (as of
                  2026-01-02, a price list)
  return per USD  +1.556e+04 %
  requests        3: 1 answered by the provider, 1 from the cache; 2 failed
                  attempts: rate_limited 1, timeout 1
  latency         median 2.00 s, 99 % within 2.00 s, longest 2.00 s; 120.5 s in
                  failed attempts
  paid            1.50 USD, possibly 0.2500 USD more; checks of the run 0.1250 USD\
""")
    assert "served by gpt-4.1-2025-04-14 (2 replies)" in " ".join(text_of(remote_card()).split())

    drift = {
        "value": 0.25,
        "noise": 0.125,
        "excess": 0.125,
        "prompts": 6,
        "served_by_changed": True,
    }
    text = " ".join(text_of(remote_card(drift=drift)).split())

    assert "0.250 between start and end over 6 questions, 0.125 within one round" in text
    assert "the provider named another model at the end" in text

    assert money(remote_card(calls=CALLS | {"paid_usd": None})) == snapshot("""\
  tokens          50 in, 10 out
  cost            at least 0.00018 USD: the provider did not count the tokens of
                  every reply
  price           2 in, 8 out, 0.5 cache read USD a million tokens (as of
                  2026-01-02, a price list)
  return per USD  not known: the provider did not count the tokens of every reply
  requests        3: 1 answered by the provider, 1 from the cache; 2 failed
                  attempts: rate_limited 1, timeout 1
  latency         median 2.00 s, 99 % within 2.00 s, longest 2.00 s; 120.5 s in
                  failed attempts
  paid            not known, possibly 0.2500 USD more; checks of the run 0.1250
                  USD\
""")


def test_cost_at_short_prompt_rates_is_a_minimum_if_more_was_paid() -> None:
    """10 and 2 tokens cost 0.000036 USD at these rates; 1.5 USD were paid for them."""
    tier = {"above": 200_000, "input": 4.0, "output": 16.0, "cache_read": None, "cache_write": None}
    price = {**PRICE, "tiers": [tier]}
    assert money(remote_card(price=price)) == snapshot("""\
  tokens          50 in, 10 out
  cost            at least 0.00018 USD: prompts of over 200,000 tokens cost more
  price           2 in, 8 out, 0.5 cache read USD a million tokens of prompts of
                  up to 200,000 tokens; longer ones cost more (as of 2026-01-02, a
                  price list)
  return per USD  not known: prompts of over 200,000 tokens cost more
  requests        3: 1 answered by the provider, 1 from the cache; 2 failed
                  attempts: rate_limited 1, timeout 1
  latency         median 2.00 s, 99 % within 2.00 s, longest 2.00 s; 120.5 s in
                  failed attempts
  paid            1.50 USD, possibly 0.2500 USD more; checks of the run 0.1250 USD\
""")

    paid = CALLS | {"paid_usd": (10 * PRICE["input"] + 2 * PRICE["output"]) / 1e6}
    text = " ".join(text_of(remote_card(price=price, calls=paid)).split())

    assert "cost 0.00018 USD" in text
    # without tiers a higher amount is another price's, and says nothing of prompts
    assert "at least" not in " ".join(text_of(remote_card()).split())


# ---- both


def test_several_cards_end_in_one_table_for_each_kind() -> None:
    trading = [card(), card()]
    probes = [scoring_card() for _ in range(3)]
    for made, name in zip(
        [*trading, *probes],
        (
            "blinded_open_research",
            "another_task",
            "name_probe",
            "name_probe_bright",
            "name_probe_date_blind",
        ),
    ):
        made["task"]["name"] = name

    text = plain_text(summary_lines([typed(made) for made in (*trading, *probes)]))

    assert text == snapshot("""\

All tasks (medians; return, drawdown and decided steps in %)
  task                   return  sharpe  drawdown  info ratio  decided
  blinded_open_research   +2.80       -      0.00           -   100.00
  another_task            +2.80       -      0.00           -   100.00

Notes
  every card: [synthetic]
  every card: [mask not tested for this model]
  every card: [identifiable by its prices]
  every card: Failures and repairs: 1 of 5 steps decided after a retry; 1 failure: schema 1; 5 of 10 orders rejected or cut: price_limit 5.

All scoring tasks (fractions in %)
  score       name_probe  …bright  …date_blind
  right_name        5.26     5.26         5.26
  distance          12.5     12.5         12.5

Notes
  every card: [synthetic]
  every card: Failures and repairs: 1 of 20 samples not decided: no valid submission 1; 1 failure: schema 1.
""")
    assert "All tasks" not in plain_text(summary_lines([typed(made) for made in probes]))
    assert "All scoring tasks" not in plain_text(summary_lines([typed(made) for made in trading]))


def test_a_card_of_questions_says_first_what_its_answers_got_wrong() -> None:
    """Calls and forms may be without failure while every answer is wrong."""
    made = scoring_card()
    line = made["scores"]["right_name"]
    line["detail"] = {"failure_modes": {"missing_call": 2, "wrong_value": 3, "extra_call": 0}}
    text = " ".join(text_of(made).partition("Scores")[0].split())

    expected = f"what {line['n']} answers lost points by: wrong value 3, missing call 2."
    assert f"right_name: {expected}" in text

    line["detail"] = {"failure_modes": {"\x1b[2J": "many"}}
    assert "lost points" not in text_of(made)


def test_tables_fit_a_terminal_of_80_columns() -> None:
    made = card((0, 1, 2), {1})
    made["model"]["name"] = "a-house-with-a-long-name/a-model-with-a-long-name-2025-08-07"
    made["failures"] = {f"a_kind_of_failure_{number}": 1000 + number for number in range(12)}
    # the tiny market's turnover is absurd
    made["metrics"]["turnover"]["value"] = 34.56
    for episode, turnover in zip(made["episodes"], (12.34, 345.67), strict=True):
        episode["metrics"]["turnover"]["value"] = turnover
    text = text_of(made) + plain_text(summary_lines([typed(made), typed(made)]))
    tables = text[text.index("Metrics") : text.index("Notes")].splitlines()

    assert "a_kind_of_failure_11 1,011" in text

    scores = scoring_card()
    scores["scores"]["unparsable_rate"] |= {"value": 1.0, "n": 99_999, "baseline": 1.0}
    scores["scores"]["distance"]["unit"] = "a unit with a very long name"

    assert max(map(len, [*tables, *section(text_of(scores), "Scores")])) <= 80
    assert "distance is given in a unit with a very long name" in text_of(scores)


def test_control_characters_of_an_external_card_never_reach_the_terminal() -> None:
    made = card()
    scores = scoring_card()
    for each in (made, scores):
        each["model"]["name"] = "evil\x1b[2J\x9b31m\u202egpt"

    made["metrics"]["ece"]["undefined"] = {"\x1b]0;title\x07": 1}
    scores["scores"]["distance"] |= {"unit": "\x1b]0;t\x07", "value": None, "reason": "\x9b31m"}

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text_of(made) + text_of(scores))


def test_a_terminal_gets_colours_and_a_pipe_the_same_lines_without() -> None:
    made = card()
    terminal = io.StringIO()
    pipe = io.StringIO()
    print_lines(card_lines(typed(made)), Console(file=terminal, force_terminal=True, width=60))
    print_lines(card_lines(typed(made)), Console(file=pipe, width=60))

    assert "\x1b[" in terminal.getvalue()
    assert pipe.getvalue() == text_of(made)
    assert re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()) == pipe.getvalue()


# ---- the commands


def test_card_show_and_verify_take_a_card_or_the_cards_of_a_run(
    tmp_path: Path, terminal: Terminal
) -> None:
    assert "no cards found" in terminal.error("card", "show", tmp_path)

    (tmp_path / "cards").mkdir()
    path = tmp_path / "cards" / "blinded_open_research.json"
    path.write_text(dumps_pretty(card()))

    for arguments in (["--plain", str(path)], [str(tmp_path)]):
        assert terminal.out("card", "show", "--all", *arguments) == text_of(card())
        first = terminal.out("card", "show", *arguments)
        assert len(first.splitlines()) <= 32, "one screen"
        assert first.splitlines()[-1] == f"all     ktdeval card show {arguments[-1]} --all"
        assert set(first.splitlines()[:-2]) <= set(text_of(card()).splitlines())

    (tmp_path / "cards" / "name_probe.json").write_text(dumps_pretty(scoring_card((0, 1))))
    valid = terminal.out("card", "verify", "--card-only", tmp_path)

    assert valid.replace(str(tmp_path), "FOLDER") == snapshot("""\
FOLDER/cards/blinded_open_research.json: valid (episodes: 1, metrics: 23)
FOLDER/cards/name_probe.json: valid (episodes: 2, scores: 3)
""")

    shown = terminal.out("card", "show", "--plain", tmp_path)
    assert "metric " in shown, "trading cards side by side"
    assert f"  {scoring_card((0, 1))['score_order'][0]} " in shown, "then those of samples"

    path.write_text(path.read_text().replace('"rules": "strict"', '"rules": "lenient"'))
    error = terminal.error("card", "verify", "--card-only", path)

    assert re.fullmatch(
        r"ktdeval: error: .*\.json: line \d+: rules: expected paper or strict, was 'lenient'\n",
        error,
    )
