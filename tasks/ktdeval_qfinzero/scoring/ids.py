"""Ids that a call has to carry but PA does not look at: those of the run, and those that stand in an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktdeval_qfinzero.scoring.families import SERVICE_TOOLS
from ktdeval_qfinzero.scoring.predicted import PredictedCall
from ktdeval_qfinzero.scoring.types import GoldCall
from ktdeval_qfinzero.scoring.values import is_placeholder

RUN_IDS: Final = ("session_id", "account_id")


def with_run_ids(text: str, run_context: Mapping[str, str]) -> str:
    """The text with `{session_id}` and `{account_id}` replaced by those of the run, as far as it has them."""
    for name in RUN_IDS:
        if name in run_context:
            text = text.replace(f"{{{name}}}", run_context[name])
    return text


def expected_ids(gold: GoldCall, run_context: Mapping[str, str]) -> dict[str, str]:
    """Name -> id for the ids that are known before the run: parameters that are a run's id, and parts of the address."""
    named = {
        key: value
        for key, value in gold.required.items()
        if isinstance(value, str) and value in (f"{{{name}}}" for name in RUN_IDS)
    }
    found = {**named, **_path_ids(gold.tool, gold.endpoint or "")}
    filled = {name: with_run_ids(value, run_context) for name, value in found.items()}
    return {name: value for name, value in filled.items() if not is_placeholder(value)}


def given_ids(gold: GoldCall, call: PredictedCall) -> dict[str, str]:
    """Name -> id as the call gives it, in its arguments or else in its address."""
    return {**_path_ids(gold.tool, call.endpoint), **{key: value for key, value in call.args.items() if isinstance(value, str)}}


def _path_ids(tool: str, endpoint: str) -> dict[str, str]:
    """Parts of an address that stand where the tool's address has a `{name}`; none for an address of another form."""
    template = SERVICE_TOOLS.get(tool, ("", ""))[0].split("/")
    parts = endpoint.rstrip("/").split("/")
    if len(parts) != len(template):
        return {}
    return {name[1:-1]: part for name, part in zip(template, parts, strict=True) if name.startswith("{")}
