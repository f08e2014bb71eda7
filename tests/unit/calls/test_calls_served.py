"""Who answered, and when that is another model than the one that was asked."""

from __future__ import annotations

from ktdeval.calls import is_other_model, served_model, served_text
from ktdeval.testing import on_each_row


@on_each_row(
    "asked, served, is_other",
    ("gpt-4.1", "gpt-4.1", False),
    ("gpt-4.1", "gpt-4.1-2025-04-14", False),
    ("gpt-4.1-2025-04-14", "gpt-4.1", False),
    ("gemini-3-pro", "models/gemini-3-pro-001", False),
    ("openai/GPT-4.1:free", "gpt-4.1", False),
    ("stub-model", "stub-model-2026-01-15 / fp_1", False),
    ("any", "", False),
    ("any", "unnamed via UpstreamB", False),
    ("big-model", "small-fallback-model via UpstreamB", True),
    ("gpt-4.1", "gpt-4.1-mini-2025-04-14", True),
    ("gpt-4", "gpt-4.1", True),
    ("gpt-4o-2024-08-06", "gpt-4o-2024-05-13", True),
    ("llama3", "llama3:8b", True),
)
def test_dated_version_of_an_alias_is_the_same_model_and_others_are_not(
    asked: str, served: str, is_other: bool
) -> None:
    assert is_other_model(asked, served) is is_other


def test_the_provider_behind_a_gateway_is_recorded_with_the_model() -> None:
    text = served_text("small-fallback-model", "UpstreamB", "fp_1")
    assert text == "small-fallback-model via UpstreamB / fp_1"
    assert served_model(text) == "small-fallback-model"
    assert served_text("", "UpstreamB") == "unnamed via UpstreamB"
