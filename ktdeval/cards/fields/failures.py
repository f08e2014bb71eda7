"""Failures on the way to decisions, by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.cards.fields.base_types import add_counts
from ktdeval.cards.fields.field import SharedField
from ktdeval.cards.fields.recorded_facts import AnyFacts, DerivationBasis
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row, tally


def derive_failures(basis: DerivationBasis[AnyFacts]) -> dict[str, int]:
    """Return the sums over the finished episodes."""
    return add_counts(episode.failures for episode in basis.facts.episodes)


def failure_rows(failures: Mapping[str, int], facts: AnyFacts) -> Iterator[Row]:
    """Yield the row of failures by kind."""
    yield WORDS["failures"].label, tally(failures)


WORDS = {"failures": FieldWords("failures", "", "failures by kind")}

FAILURES = SharedField(
    "failures", derive=derive_failures, rows=failure_rows, table="activity", words=WORDS
)

FAILURE_WORDS: Mapping[str, FieldWords] = {
    kind: FieldWords(label, "", meaning)
    for kind, label, meaning in (
        ("bad_json", "bad JSON", "arguments that are not JSON"),
        ("schema", "schema", "a submission that does not follow the schema"),
        ("constraint", "constraint", "an order that breaks a rule of trading known at the close"),
        (
            "constraint_after_retries",
            "constraint after retries",
            "a step whose last submission was in form and broke a rule of trading",
        ),
        ("contradictory", "contradictory", "submissions that contradict each other"),
        ("bad_arguments", "bad arguments", "arguments that the tool does not take"),
        ("unknown_asset", "unknown asset", "an asset that does not exist"),
        ("unknown_day", "unknown day", "a day that does not exist"),
        ("unknown_tool", "unknown tool", "a tool that does not exist"),
        ("wrong_tool", "wrong tool", "a tool at the wrong time"),
        ("tool_budget", "tool budget", "a research call beyond the step's budget"),
        ("no_submission", "no submission", "a reply, or a program's step, without a submission"),
        ("empty_reply", "empty reply", "an empty reply"),
        (
            "unparsed_call",
            "unparsed call",
            "a call that a server without a tool parser left as text",
        ),
        ("no_signal", "no signal", "an analyst's answer without a readable signal"),
        ("no_ballot", "no ballot", "a voter without a valid submission"),
        ("no_ratio", "no ratio", "an answer of risk control without position ratios"),
        ("bad_choice", "bad choice", "a planner's answer that does not follow its schema"),
        ("no_choice", "no choice", "a planner without a valid answer: all analysts were asked"),
        ("truncated", "truncated", "a reply cut off at the longest length"),
        ("refusal", "refusal", "a refusal"),
        ("content_filter", "content filter", "a reply stopped by the content filter"),
        ("model_timeout", "timeout", "no whole reply in time"),
        ("model_rate_limited", "rate limited", "too many requests"),
        ("model_overloaded", "overloaded", "an overloaded provider"),
        ("model_server", "server error", "an error of the provider"),
        ("model_connection", "connection", "a broken connection"),
        ("model_bad_response", "bad response", "a response that could not be read"),
        ("model_bad_request", "bad request", "a request that was refused"),
        (
            "model_context_exceeded",
            "context exceeded",
            "a prompt that does not fit the model's context",
        ),
        ("program_exited", "program failed", "a program that ended with an error"),
        ("program_killed", "program killed", "a program that a signal ended"),
        ("program_timed_out", "program timed out", "a program that was not done in its time"),
        ("program_too_much_disk", "program's disk", "a program that wrote beyond its limit"),
        (
            "program_too_much_memory",
            "program's memory",
            "a program that took memory beyond its limit",
        ),
        ("program_lost", "program lost", "a program whose sandbox ended without an outcome"),
        (
            "denied",
            "denied",
            "a program's request for another address than its servers', or without their token",
        ),
        ("submitted_again", "submitted again", "a program's submission after the accepted one"),
        ("no_attempts", "no attempts", "a program's submission beyond its attempts"),
        ("step_over", "step over", "a program's act after its submission"),
        ("tool_budget_spent", "tool budget spent", "a program's calls far beyond its tool budget"),
        ("call_budget", "call budget", "a program's model call beyond those of a step"),
        (
            "identity_in_tool_name",
            "identity in a tool's name",
            "a program's model call that offers a tool whose name holds a hidden identity",
        ),
        (
            "identity_withheld",
            "identity withheld",
            "a text of a program's model call in which a hidden identity was withheld",
        ),
    )
}
