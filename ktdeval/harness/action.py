"""Submission form: the action's JSON Schema, and a submission's text turned into orders or into feedback."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktdeval.harness.agent import HarnessConfig, Submission
from ktdeval.harness.messages import ToolSpec, encodable
from ktdeval.harness.plain_schema import in_words, plainly_follows
from ktdeval.harness.reading import as_object
from ktdeval.jsonio import DoubledFieldError, JsonValue, loads_unique
from ktdeval.masking.identities import WITHHELD
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload import render_json
from ktdeval.trading.constraints import Breach
from ktdeval.trading.executor import REJECTIONS
from ktdeval.trading.types import Order, Scale

SUBMIT_TOOL = "submit_action"
MAX_PROBLEMS = 5
_KNOWN = {"universe": "no stock has this label; use labels exactly as shown"}

_DESCRIPTION = "Submit this step's action. Call it once; an empty list of orders keeps the portfolio as it is."


@cache
def _schema_text() -> str:
    return Path(__file__).with_name("action_schema.json").read_text("utf-8")


def action_schema(config: HarnessConfig, *, whole_shares: bool = True, shorts: bool = False) -> dict[str, JsonValue]:
    """Return the JSON Schema (draft 2020-12) of an action; where shown share counts are rescaled, or shares trade in fractions,
    they need not be whole, and where there are short sales a target weight may be below 0.
    """
    schema: dict[str, JsonValue] = json.loads(_schema_text())
    properties = schema["properties"]["orders"]["items"]["properties"]
    properties["reason"]["minLength"] = config.min_reason_chars
    if not whole_shares:
        shares = properties["shares"]
        del shares["minimum"]
        shares |= {"type": "number", "exclusiveMinimum": 0}
    if shorts:
        properties["target_weight"]["minimum"] = -1
    return schema


@dataclass(frozen=True, slots=True)
class Reading:
    """A submission with what was counted while reading it."""

    submission: Submission  #: the orders, or the feedback
    unmask_attempts: int = 0  #: hidden identities offered as stock_id, also in a submission that is not valid
    unknown_assets: int = 0  #: orders whose stock_id is no asset


class SubmissionForm(Protocol):
    """Form that a model submits with, and its reader: an action in trading, an answer in scoring."""

    tool: ToolSpec

    def read(self, text: str) -> Reading:
        """Return the submission in `text`. Any text gives a Reading."""


class ActionForm:
    """Reads submissions under one mask. Make one per episode: the schema is compiled once."""

    def __init__(self, config: HarnessConfig, lens: Lens, scales: Sequence[Scale] = (), shorts: bool = False) -> None:
        """`scales`: [N] of each asset, those of A-shares where there are none; `shorts`: whether any asset can be sold short."""
        whole = not lens.mask.rebase_prices and all(scale.steps_per_unit == 1 for scale in scales)
        schema, offered = (action_schema(config, whole_shares=whole, shorts=shorts) for _ in range(2))
        self._lens = lens
        self._scales = scales
        self._validator = Draft202012Validator(schema)
        del offered["$schema"]
        self.tool = ToolSpec(SUBMIT_TOOL, _DESCRIPTION, offered)
        """The tool that a model submits with."""

    def read(self, text: str) -> Reading:
        """Return the submission in `text`, with counts. Any text gives a Reading."""
        value, feedback = read_valid(text, self._validator)
        if feedback is not None:
            return Reading(feedback, count_attempts(value, "orders", self._lens))
        orders = []
        shown_ids = []
        attempts = unknown = 0
        for item in value["orders"]:
            stock_id = item["stock_id"]
            asset = self._lens.parse_asset(stock_id)
            if asset is None:
                unknown += 1
                if self._lens.is_hidden_identity(stock_id):
                    attempts += 1
                    stock_id = WITHHELD
            shown_ids.append(encodable(stock_id))
            orders.append(self._order(asset, item))
        submission = Submission(tuple(orders), encodable(value["overall_reason"]), tuple(shown_ids))
        return Reading(submission, attempts, unknown)

    def _order(self, asset: int | None, item: Mapping[str, Any]) -> Order:
        weight, shares = item.get("target_weight"), item.get("shares")
        if shares is not None:
            steps = self._scales[asset].steps_per_unit if asset is not None and self._scales else 1
            shares = max(1, round(shares if asset is None else self._lens.shares_in(asset, shares) * steps))
        return Order(
            asset=asset,
            side=item["side"],
            confidence=float(item["confidence"]),
            reason=encodable(item["reason"]),
            target_weight=None if weight is None else float(weight),
            shares=shares,
        )


def count_attempts(value: JsonValue, field: str, lens: Lens) -> int:
    """Return how many hidden identities an invalid submission offers as stock_id in the list `field`, as far as it has its form."""
    items = as_object(value).get(field)
    ids = [as_object(item).get("stock_id") for item in items] if isinstance(items, list) else []
    texts = [str(offered) for offered in ids if isinstance(offered, (str, int)) and not isinstance(offered, bool)]
    return sum(lens.parse_asset(text) is None and lens.is_hidden_identity(text) for text in texts)


def read_valid(text: str, validator: Draft202012Validator) -> tuple[Any, Submission | None]:
    """Return the value of a text, and the feedback: None where it follows the schema, else what to fix: it is no JSON (the value
    is then None), has a field twice, or breaks the schema.
    """
    try:
        value = loads_unique(text)
    except DoubledFieldError:
        rule = "must have each field once in an object"
    except ValueError:
        rule = "must be one JSON object, without NaN or Infinity"
    else:
        if plainly_follows(value, validator.schema):
            return value, None
        errors = list(islice(validator.iter_errors(value), MAX_PROBLEMS))
        return value, _invalid("schema", _problems(errors)) if errors else None
    return None, problem("bad_json", "(whole)", rule)


def breaking(breaches: Sequence[Breach]) -> Submission:
    """Return the feedback to an action that breaks rules known at the decision: order and rule of each breach."""
    problems = [{"at": f"orders[{index}]", "rule": f"{rule}: {_KNOWN.get(rule, REJECTIONS[rule])}"} for index, rule in breaches]
    return _invalid("constraint", problems[:MAX_PROBLEMS])


def problem(kind: str, at: str, rule: str) -> Submission:
    """Return the feedback to a submission that breaks one rule: its kind of failure, the field and the rule."""
    return _invalid(kind, [{"at": at, "rule": rule}])


def _invalid(kind: str, problems: list[dict[str, str]]) -> Submission:
    return Submission(None, failure=kind, feedback=render_json({"error": {"kind": kind, "problems": problems}}))


def _problems(errors: list[ValidationError]) -> list[dict[str, str]]:
    """Path and rule of each error, once; nothing of what the model wrote."""
    problems: list[dict[str, str]] = []
    for error in errors:
        if error.validator == "oneOf" and not isinstance(error.instance, dict):
            continue  # already said to be of the wrong type
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        problem = {"at": path.lstrip(".") or "(whole)", "rule": _rule(error)}
        if problem not in problems:
            problems.append(problem)
    return problems


def _rule(error: ValidationError) -> str:
    schema, value, instance = cast("tuple[Any, Any, Any]", (error.schema, error.validator_value, error.instance))
    match error.validator:
        case "required":
            return f"must have {', '.join(name for name in value if name not in instance)}"
        case "additionalProperties":
            return f"must have no fields but {', '.join(schema['properties'])}"
        case "oneOf":
            return "must have exactly one of " + " and ".join(branch["required"][0] for branch in value)
    return f"must be {in_words(schema)}"
