"""Cards of scoring tasks: what they say, what they are checked against, what people see of them."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from card_cases import CALLS, PROVENANCE, card, changed, numbers, section, typed
from ktdeval.calls.prices import Price
from ktdeval.cards.check import card_kinds, load_card, parse_card, validate_card
from ktdeval.cards.compare import path_text
from ktdeval.cards.scoring import build_scoring_card
from ktdeval.cards.show import make_report, plain_summary, plain_text
from ktdeval.contracts.scoring import Score
from ktdeval.contracts.spec import Window
from ktdeval.errors import CardError, PluginError
from ktdeval.jsonio import content_hash, dumps_pretty
from metric_cases import TASK as SUBJECT, market
from scoring_cases import DEFINITIONS, TASK, answers, record, score_spec, scoring_card, scoring_inputs, share

Path_ = tuple[str | int, ...]

PRICE = Price(2.0, 8.0, as_of="2026-01-02", source="a price list").to_json()
REMOTE: dict[str, Any] = {"call": {"temperature": 0.7, "tool_protocol": "native"}, "price": PRICE}


def shown(made: dict[str, Any]) -> str:
    return plain_text(make_report(typed(made)))


# -- what a card says ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        scoring_card(),
        scoring_card((0, 1, 2), {1}),
        scoring_card(limit=3),
        scoring_card((0, 1), {0, 1}),
        scoring_card(**REMOTE, calls=CALLS),
        scoring_card(**{**REMOTE, "price": None}),
    ],
    ids=["one episode", "a missing episode", "limited", "every episode missing", "a provider's model", "no price"],
)
def test_what_is_built_is_valid_and_the_same_in_its_file(made: dict[str, Any]) -> None:
    validate_card(made)
    assert made == json.loads(dumps_pretty(made))
    assert made["kind"] == "scoring"


def test_equal_inputs_in_any_order_give_the_same_bytes_apart_from_provenance() -> None:
    one, again = scoring_inputs((3, 1, 2, 0), {2}), scoring_inputs((3, 1, 2, 0), {2})
    chance = random.Random(0)
    mixed: dict[str, Any] = {
        name: chance.sample(list(getattr(again, name)), len(getattr(again, name))) for name in ("specs", "answers")
    }
    other = build_scoring_card(dataclasses.replace(again, **mixed, provenance={**PROVENANCE, "wall_time_s": 99.0})).plain
    made = build_scoring_card(one).plain
    assert made["provenance"] != other["provenance"]
    assert dumps_pretty(made | {"provenance": 0}) == dumps_pretty(other | {"provenance": 0})


def test_a_score_stands_with_what_it_is_made_of_and_what_it_means() -> None:
    made = scoring_card((0, 1))["scores"]["right_name"]
    wanted = share(2, 38)
    assert wanted.interval is not None
    assert made == {
        "value": 2 / 38,
        "n": 38,
        "interval": wanted.interval.to_json(),
        "baseline": 0.05,
        "detail": dict(wanted.detail),
        "formula": "the name is right",
        "unit": "fraction of answers",
        "range": [0.0, 1.0],
        "better": "lower",
        "source": "a test",
        "headline": True,
    }


def test_a_score_that_is_not_defined_is_null_with_its_reason() -> None:
    made = scoring_card(answers=[(score_spec(), answers(score_spec(), unanswered=20))])
    assert made["scores"]["right_name"]["value"] is None
    assert made["scores"]["right_name"]["reason"] == "no probe has a valid answer"
    validate_card(made)


def test_the_order_in_which_a_task_shows_its_scores_is_kept() -> None:
    assert scoring_card()["score_order"] == list(DEFINITIONS)


def test_a_direction_that_a_task_leaves_open_is_neither() -> None:
    assert scoring_card()["scores"]["distance"]["better"] == "neither"


def test_counts_are_sums_over_episodes() -> None:
    made = scoring_card((0, 1, 2), {1})
    assert made["decisions"] == {"model": 38, "model_after_retry": 0, "fallback": 2, "error": 0}
    assert made["failures"] == {"schema": 2}
    assert [episode["answered"] for episode in made["episodes"]] == [19, 19]
    assert (made["usage"]["input_tokens"], made["usage"]["tool_calls_valid"], made["usage"]["submissions"]) == (400, 38, 40)
    assert made["coverage"] == {
        "episodes_planned": 3,
        "episodes_finished": 2,
        "steps_planned": 60,
        "steps": 40,
        "steps_decided": 38,
    }


def test_the_subject_stands_by_name_and_hash_and_its_config_in_the_tasks() -> None:
    made = scoring_card()
    assert made["subject"] == {"name": "blinded_open_research", "hash": content_hash(SUBJECT)}
    assert made["task"]["config"]["subject_config"] == SUBJECT


def test_a_task_without_a_subject_says_so() -> None:
    task = {name: value for name, value in TASK.items() if name != "subject_config"}
    specs = [score_spec(task_hash=content_hash(task))]
    made = scoring_card(task=task, task_hash=content_hash(task), target_task=None, specs=specs)
    assert made["subject"] is None
    validate_card(made)
    assert "subject" not in shown(made)


def test_labels_are_those_of_other_cards_but_for_the_certificate_that_probes_are_made_for() -> None:
    assert scoring_card()["labels"] == ["synthetic"]
    assert scoring_card((0, 1), {1}, limit=3)["labels"] == ["synthetic", "limited", "incomplete", "low coverage"]
    assert scoring_card(snapshot=market(synthetic=False, has_factor=False))["labels"] == ["no adjustment factor"]


def test_a_card_is_rankable_from_95_percent_of_samples_answered() -> None:
    assert scoring_card()["rankable"] == {"value": True, "reasons": []}
    short = scoring_card(answers=[(score_spec(), answers(score_spec(), unanswered=2))])
    assert short["rankable"] == {"value": False, "reasons": ["the model decided 90.0 % of 20 samples; 95 % are needed"]}
    assert scoring_card(limit=3)["rankable"]["reasons"][0] == "every episode was cut after 3 samples"
    assert scoring_card((0, 1), {1})["rankable"]["reasons"][0] == "1 of 2 episodes did not finish"


def test_a_decision_of_the_model_without_an_answer_of_its_own_is_no_answer() -> None:
    records = answers(score_spec())
    records[0] = record(0, answer=None, scores={})
    made = scoring_card(answers=[(score_spec(), records)])
    assert (made["decisions"]["model"], made["coverage"]["steps_decided"]) == (19, 18)
    validate_card(made)


def test_cost_is_usage_times_price_and_earns_nothing() -> None:
    made = scoring_card((0, 1), **REMOTE)["cost"]
    assert made["value"] == pytest.approx(2 * 20 * (10 * 2.0 + 2 * 8.0) / 1e6, rel=1e-12)
    assert made["per_episode"]["value"] == pytest.approx(20 * 36e-6, rel=1e-12)
    assert made.keys() == {"value", "currency", "price", "per_episode"}
    assert scoring_card()["cost"]["value"] == 0.0


# -- what is refused ----------------------------------------------------------------------------------------------------

FOREIGN = score_spec(9)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no plan": ({"specs": (), "answers": ()}, "at least one planned episode"),
    "foreign answers": ({"answers": [(FOREIGN, answers(FOREIGN))]}, "which the plan does not have"),
    "two sets of answers": ({"answers": [(score_spec(), answers(score_spec()))] * 2}, "has two sets of answers"),
    "an episode that vanished": ({"answers": []}, "has neither answers nor an error"),
    "an error of a finished episode": (
        {"missing_episodes": [{"id": score_spec().id, "error": "x"}]},
        "is finished or was never planned",
    ),
    "a part of an episode": ({"answers": [(score_spec(), answers(score_spec())[:-1])]}, "19 answers are not those of its 20"),
    "answers out of order": ({"answers": [(score_spec(), answers(score_spec())[::-1])]}, "not those of its 20 samples in order"),
    "an unknown number of samples": ({"samples": {}}, "how many samples it has is not given"),
    "an answer that nobody gave": (
        {"answers": [(score_spec(), [record(0, "error", answer={"name": "A"})])]},
        "has an answer though the model gave none",
    ),
    "another subject": ({"target_task": {**SUBJECT, "version": "2"}}, "the target task is not the one in the task's config"),
    "another model": ({"model": {"name": "builtin/hold", "args": {}}}, "its model is not the card's"),
    "a score of NaN": (
        {"scores": {**scoring_inputs().scores, "distance": Score(float("nan"), 19)}},
        "'scores' is not strict JSON",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_that_contradict_each_other_are_refused(case: str) -> None:
    changes, message = REFUSED[case]
    base = scoring_inputs()
    with pytest.raises(CardError, match=message):
        build_scoring_card(dataclasses.replace(base, **changes))


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "an undefined score": ({"extra": Score(1.0, 1)}, "score 'extra' is not defined in its scores"),
    "a number": ({"distance": 1.0}, "score 'distance' is a float"),
    "neither value nor reason": ({"distance": Score(None, 0)}, "must have either a value or the reason"),
    "value and reason": ({"distance": Score(1.0, 1, reason="why")}, "must have either a value or the reason"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_scores_that_break_the_contract_are_a_fault_of_the_tasks_plugin(case: str) -> None:
    changes, message = BROKEN[case]
    base = scoring_inputs()
    with pytest.raises(PluginError, match=f"task name_probe: .*{message}"):
        build_scoring_card(dataclasses.replace(base, scores={**base.scores, **changes}))


def test_a_score_that_a_task_promises_and_does_not_give_is_a_fault_of_its_plugin() -> None:
    base = scoring_inputs()
    short = dataclasses.replace(base, scores={name: score for name, score in base.scores.items() if name != "distance"})
    with pytest.raises(PluginError, match="score 'distance' is missing from what summarise"):
        build_scoring_card(short)


# -- what a card is checked against ------------------------------------------------------------------------------------

CARD = scoring_card((0, 1, 2), {1}, **REMOTE)
DERIVED = ("cost", "coverage", "decisions", "failures", "labels", "rankable", "subject", "usage")


RIGHT: Path_ = ("scores", "right_name")
TAMPERED: list[tuple[Path_, Any, str]] = [
    (("kind",), "trading", "line"),
    (("kind",), "scorin", "kind: expected trading or scoring.*, was 'scorin'"),
    ((*RIGHT, "value"), 0.5, r"recorded 0.5, 2 successes of 38 are"),
    ((*RIGHT, "value"), None, "field 'reason' is missing"),
    ((*RIGHT, "value"), 1.5, r"outside the score's range 0.0 … 1.0"),
    ((*RIGHT, "baseline"), -0.1, r"outside the score's range"),
    ((*RIGHT, "reason"), "because", "has a reason though it has a value"),
    ((*RIGHT, "n"), 41, "the finished episodes have 40 samples"),
    ((*RIGHT, "n"), 37, "value: recorded"),
    ((*RIGHT, "detail", "successes"), 3, "value: recorded"),
    ((*RIGHT, "detail", "successes"), 39, "of 38 trials"),
    ((*RIGHT, "detail", "upper_95"), 0.01, "upper_95: recorded 0.01, 2 successes of 38 give"),
    ((*RIGHT, "interval", "high"), 0.06, "interval.high: recorded 0.06, 2 successes of 38 give"),
    ((*RIGHT, "interval", "low"), 0.0, "interval.low: recorded 0.0"),
    ((*RIGHT, "better"), "", "expected higher or lower or neither"),
    (RIGHT, ..., "must name every score once"),
    (("score_order",), ["right_name"], "must name every score once"),
    (("episodes", 0, "steps"), 21, "decisions: the episode has 21 steps"),
    (("episodes", 0, "answered"), 20, "more answers than steps that the model decided"),
    (("episodes", 0, "answered"), 18, "coverage.steps_decided"),
    (("episodes", 0, "seed"), 7, "is not the hash of the episode's spec"),
    (("missing_episodes", 0, "steps"), 5, "coverage.steps_planned"),
    (("missing_episodes",), [], "coverage.episodes_planned"),
    (("limit",), 3, "is not the hash of the episode's spec"),
    (("labels",), [], "labels"),
    (("rankable", "value"), True, "rankable.value"),
    (("cost", "value"), 0.0, "cost.value"),
    (("cost", "return_per_usd"), {}, "unknown field"),
    (("subject", "hash"), "0" * 64, "subject.hash"),
    (("subject",), None, "subject"),
    (("task", "config", "subject_config", "version"), "2", "is not the hash of the task's config"),
    (("metrics",), {}, "unknown field"),
    (("scorse",), {}, "unknown field; did you mean 'scores'"),
    (("usage",), ..., "field 'usage' is missing"),
    (("provenance", "calls"), ..., "field 'calls' is missing"),
]


@pytest.mark.parametrize(("path", "value", "message"), TAMPERED, ids=[f"{path_text(path)}={value}" for path, value, _ in TAMPERED])
def test_a_tampered_card_is_refused_with_file_line_and_field(path: Path_, value: Any, message: str) -> None:
    with pytest.raises(CardError, match=message) as caught:
        parse_card(dumps_pretty(changed(CARD, path, value)), "card.json")
    assert str(caught.value).startswith("card.json: line ")
    assert "\n" not in str(caught.value)


def test_no_derived_number_can_be_changed_unnoticed() -> None:
    found = list(numbers({name: CARD[name] for name in DERIVED}))
    assert len(found) > 20
    for path in found:
        with pytest.raises(CardError):
            validate_card(changed(CARD, path, 12345))


def test_an_episode_longer_than_the_limit_is_refused() -> None:
    made = scoring_card((0, 1), {1}, limit=3)
    made["missing_episodes"][0]["steps"] = 4
    with pytest.raises(CardError, match="steps: the limit is 3"):
        validate_card(made)


def test_a_trading_card_says_what_kind_it_is_and_needs_to() -> None:
    assert card()["kind"] == "trading"
    made = {name: value for name, value in card().items() if name != "kind"}
    with pytest.raises(CardError, match="field 'kind' is missing"):
        validate_card(made)


def test_a_command_that_takes_one_kind_refuses_the_other_on_one_line(tmp_path: Path) -> None:
    for made in (card(), scoring_card()):
        (tmp_path / f"{made['kind']}.json").write_text(dumps_pretty(made))
    scoring, trading = tmp_path / "scoring.json", tmp_path / "trading.json"
    assert load_card(scoring) == load_card(scoring, "scoring")
    assert load_card(trading) == load_card(trading, "trading")
    with pytest.raises(CardError) as caught:
        load_card(scoring, "trading")
    assert str(caught.value) == f"{scoring}: is a scoring card; this command takes trading cards"


# -- what people see ---------------------------------------------------------------------------------------------------


def test_scores_are_a_table_with_interval_bound_baseline_and_n() -> None:
    head, group, right, distance, other, unparsable = section(shown(scoring_card()), "Scores")
    assert head.split() == ["score", "value", "unit", "95", "%", "interval", "upper", "95", "%", "baseline", "n"]
    assert (group.strip(), other.strip()) == ("scores", "diagnostics")
    assert right.split() == ["right_name", "5.26", "%", "0.94", "…", "24.64", "22.64", "5.00", "19"]
    assert distance.split() == ["distance", "12.5", "days", "19"]
    assert unparsable.split() == ["unparsable_rate", "5.00", "%", "0.89", "…", "23.61", "21.61", "20"]


def test_facts_come_before_scores_and_name_the_subject() -> None:
    text = shown(scoring_card())
    assert text.startswith("name_probe · builtin/momentum\n[synthetic]\nrankable\n")
    assert text.index("  subject ") < text.index("Scores")
    assert "19 of 20 samples decided by the model = 95.0 %" in text


def test_limited_and_incomplete_cards_say_so_before_any_figure() -> None:
    text = shown(scoring_card((0, 1), {1}, limit=3))
    assert text.splitlines()[1] == "[synthetic] [limited] [incomplete] [low coverage]"
    assert text.splitlines()[2].startswith("not rankable: every episode was cut after 3 samples; 1 of 2 episodes did not finish;")
    assert "the first 3 samples of each" in text
    assert "missing: window long, seed 1: the model call failed" in text
    assert "the scores are of the finished episodes alone" in text


def test_what_is_not_defined_is_a_dash_with_its_reason_below() -> None:
    text = shown(scoring_card((0,), {0}))
    assert re.search(r"^ +right_name +- ", text, re.MULTILINE)
    assert "right_name is not defined: no probe has a valid answer" in text
    assert "None" not in text


def test_cost_and_calls_of_a_provider_are_shown() -> None:
    text = shown(scoring_card(**REMOTE, calls=CALLS))
    assert "0.00072 USD" in text
    assert "3: 1 answered by the provider" in text
    assert "no drift: no fixed questions were asked" in text


def test_tables_fit_a_terminal_of_80_columns() -> None:
    made = scoring_card()
    made["scores"]["unparsable_rate"] |= {"value": 1.0, "n": 99_999, "baseline": 1.0}
    made["scores"]["distance"]["unit"] = "a unit with a very long name"
    assert max(map(len, section(shown(made), "Scores"))) <= 80
    assert "distance is given in a unit with a very long name" in shown(made)


def test_several_cards_end_in_one_table_for_each_kind() -> None:
    names = ("name_probe", "name_probe_bright", "name_probe_date_blind")
    probes = [scoring_card() for _ in names]
    for made, name in zip(probes, names, strict=True):
        made["task"]["name"] = name
    text = plain_summary([typed(made) for made in (card(), *probes)])
    head, right, distance = text.partition("All scoring tasks (fractions in %)\n")[2].splitlines()
    assert head.split() == ["score", "name_probe", "…bright", "…date_blind"]
    assert right.split() == ["right_name", "5.26", "5.26", "5.26"]
    assert distance.split() == ["distance", "12.5", "12.5", "12.5"]
    assert "All tasks" not in plain_summary([typed(made) for made in probes])
    assert "All scoring tasks" not in plain_summary([typed(card())])


def test_control_characters_of_a_strangers_card_never_reach_the_terminal() -> None:
    made = scoring_card()
    made["model"]["name"] = "evil\x1b[2J"
    made["scores"]["distance"] |= {"unit": "\x1b]0;t\x07", "value": None, "reason": "\x9b31m"}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown(made))


def test_what_a_valid_card_holds_is_counted_by_kind() -> None:
    assert card_kinds()["scoring"].content(typed(scoring_card((0, 1)))) == "episodes: 2, scores: 3"
    assert card_kinds()["trading"].content(typed(card())) == f"episodes: 1, metrics: {len(card()['metrics'])}"


def test_windows_of_one_name_are_one_window() -> None:
    specs = [score_spec(), score_spec(window=Window("long", "2024-01-04", "2024-01-09"))]
    with pytest.raises(CardError, match="window 'long' has two date ranges"):
        scoring_card(specs=specs)
