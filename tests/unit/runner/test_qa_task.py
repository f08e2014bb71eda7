"""Question-and-answer tasks: what is asked, what is scored, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.contracts import AnswerRecord, EpisodeSpec
from ktdeval.errors import ConfigError, PluginError, StoreError
from ktdeval.qa import QATask
from ktdeval.testing.conformance import check_scoring_task
from ktdeval.typed import from_plain
from scoring_cases import record as answer_record
from tables import on_each_row

SAMPLES = [{"question": "2 + 3?", "gold": "5"}, {"question": "Larger?", "choices": ["3", "4"], "gold": "4", "id": "larger"}]
SPEC = EpisodeSpec("sums", "1", "", None, None, None, None, "m/x", {}, "react", {})


def task_of(score: Any = lambda answer, sample: answer == sample["gold"], **more: Any) -> QATask:
    return QATask(more.pop("samples", SAMPLES), score, name="sums", **more)


def record(scores: dict[str, Any] | None) -> AnswerRecord:
    return answer_record(0, answer=None if scores is None else {"answer": "x"}, scores=scores or {})


def test_a_question_is_shown_with_its_choices_and_without_its_gold() -> None:
    samples = task_of().samples(SPEC, None, None)
    first, second = samples.sample(0), samples.sample(1)
    assert (first.id, first.user, first.facts) == ("0", "2 + 3?", {"gold": "5"})
    assert (second.id, second.user) == ("larger", "Larger?\n\nAnswer with one of: 3; 4")
    assert second.form.parameters["properties"]["answer"]["enum"] == ["3", "4"]
    assert samples.score(1, {"answer": "4"}) == {"accuracy": True}


def test_a_spec_without_a_market_has_none_and_its_records_and_id_are_those_of_ever() -> None:
    assert SPEC.id == "0788350a57a7770f29db"
    recorded = SPEC.to_json()
    assert [recorded[name] for name in ("snapshot", "mask", "mode")] == ["", "", ""]
    assert recorded["window"] == {"name": "", "first": "", "last": ""}
    assert from_plain(recorded, EpisodeSpec, "spec") == SPEC
    assert (SPEC.window_name, SPEC.label) == (None, "sums seed 0")
    with pytest.raises(StoreError, match="has no window, and its task asks about a market"):
        SPEC.span  # noqa: B018


def test_it_keeps_the_contract_of_a_scoring_task() -> None:
    check_scoring_task(task_of())


def test_truth_values_get_wilsons_interval_and_numbers_students() -> None:
    score = task_of().summarise([record({"accuracy": True}), record({"accuracy": False}), record(None)])["accuracy"]
    assert (score.value, score.n, score.detail) == (0.5, 2, {"successes": 1})
    assert score.interval is not None
    assert score.interval.low == pytest.approx(0.0945, abs=1e-4)  # by hand: (0.5 + z²/4 ± z √(1/8 + z²/16)) / (1 + z²/2), z = 1.96
    score = task_of().summarise([record({"accuracy": value}) for value in (1.0, 2.0, 3.0)])["accuracy"]
    assert score.interval is not None
    assert (score.value, score.interval.low) == (2.0, pytest.approx(2 - 4.302653 / 3**0.5, abs=1e-6))


@pytest.mark.parametrize("records", [[], [record(None)], [record({"accuracy": None})]])
def test_without_a_scored_answer_there_is_a_reason_in_place_of_a_value(records: list[AnswerRecord]) -> None:
    score = task_of().summarise(records)["accuracy"]
    assert (score.value, score.n) == (None, 0)
    assert "no sample has a valid answer" in score.reason


@on_each_row
def test_samples_that_are_no_questions_are_refused_by_their_place(samples: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        task_of(samples=samples)


def test_samples_that_cannot_be_recorded_are_refused() -> None:
    for sample, problem in (({"gold": {"5"}}, "Object of type set"), ({"question": "\ud800?"}, "surrogates not allowed")):
        with pytest.raises(ConfigError, match=f"sample 0: not plain JSON: .*{problem}"):
            task_of(samples=[{"question": "?", **sample}])


@pytest.mark.parametrize(
    ("given", "problem"),
    [({"f1": 1.0}, "gave f1, expected accuracy"), (float("nan"), "expected a finite number"), ("yes", "expected a finite number")],
)
def test_a_score_that_is_no_number_is_the_plugins_error(given: Any, problem: str) -> None:
    with pytest.raises(PluginError, match=problem):
        task_of(lambda answer, sample: given).samples(SPEC, None, None).score(0, {"answer": "5"})
