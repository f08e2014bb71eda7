"""Who answered, and when that is another model than the one that was asked."""

from __future__ import annotations

from ktdeval.calls import is_other_model, served_model, served_text
from support.tables import on_each_row


@on_each_row
def test_dated_version_of_an_alias_is_the_same_model_and_others_are_not(
    asked: str, served: str, is_other: bool
) -> None:
    assert is_other_model(asked, served) is is_other


def test_the_provider_behind_a_gateway_is_recorded_with_the_model() -> None:
    text = served_text("small-fallback-model", "UpstreamB", "fp_1")
    assert text == "small-fallback-model via UpstreamB / fp_1"
    assert served_model(text) == "small-fallback-model"
    assert served_text("", "UpstreamB") == "unnamed via UpstreamB"
