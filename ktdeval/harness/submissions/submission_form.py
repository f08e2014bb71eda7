"""Form of a submission: the tool with which a model submits, a reader of what it submits, and what
all readers share: validation and feedback.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ktdeval.harness.agent import Submission
from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.harness.submissions.submission_schema import SubmissionSchema
from ktdeval.harness.tools.reading import is_no_arguments
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload_types import render_json
from ktdeval.observation.state import ObservedState
from ktdeval.observation.state_rows import as_object
from ktdeval.values.documents.strict_json import DoubledFieldError, JsonValue, Schema, loads_unique

SUBMIT_TOOL = "submit_action"


@dataclass(frozen=True, slots=True)
class SubmissionReading:
    """A submission, with counts made while it was read."""

    submission: Submission  #: the orders, or the feedback
    #: number of hidden identities used as `stock_id`, including those in an invalid submission
    unmask_attempts: int = 0
    unknown_assets: int = 0  #: number of orders whose `stock_id` is not a known asset


class SubmissionForm(ABC):
    """Form of a submission, and its reader. A submission is an action in trading, and an answer in
    scoring.
    """

    tool: ToolSpec

    @abstractmethod
    def read(self, text: str) -> SubmissionReading:
        """Return the submission in `text`. Any text can be read."""

    def tool_for(self, _state: ObservedState, _researches: bool, /) -> ToolSpec:
        """Return the submit tool for a step that shows `state`. It is the same tool at every step,
        unless a form includes rules specific to the step. `researches` means that research tools
        may show more assets than `state`.
        """
        return self.tool

    def step_schema(self, _state: ObservedState, _researches: bool, /) -> Schema | None:
        """Return a narrower schema for the arguments of the submit tool in a step; None (the
        default) if there is none. A server may hold a reply to it, but no prompt shows it: tools
        come first in a request, so a schema that changes every day would end all reuse of prompts.
        """
        return None

    def arguments_of(self, _text: str, /) -> str | None:
        """Return the arguments of the submit tool if a reply without a tool call can be read as a
        submission. Returns None (the default) if the form does not accept plain text.
        """
        return None


def count_attempts(value: JsonValue, field: str, lens: Lens) -> int:
    """Return how many hidden identities an invalid submission uses as `stock_id` in the list
    `field`.

    Parts that do not have the expected form are skipped.
    """
    items = as_object(value).get(field)
    if not isinstance(items, list):
        return 0

    count = 0
    for item in items:
        stock_id = as_object(item).get("stock_id")
        # A hidden code may also be a number: 600519.
        if not isinstance(stock_id, (str, int)) or isinstance(stock_id, bool):
            continue

        text = str(stock_id)
        if lens.parse_asset(text) is None and lens.is_hidden_identity(text):
            count += 1

    return count


def read_valid(
    text: str,
    schema: SubmissionSchema,
    spelled: Callable[[JsonValue], JsonValue] | None = None,
) -> tuple[Any, Submission | None]:
    """Return the JSON value of a text, and the feedback, which is None if the value conforms to the
    schema. `spelled` rewrites a value before validation, for forms that accept several spellings.

    A call without arguments has the value {} if the schema requires no field. The value is None if
    the text is not JSON, if it repeats a field in an object, or if it is empty although a field is
    required.
    """
    no_json = "must be one JSON object, without NaN or Infinity"
    if is_no_arguments(text):
        if schema.is_valid({}):
            return {}, None
        return None, problem("bad_json", "(whole)", no_json)

    try:
        value = loads_unique(text)
    except DoubledFieldError:
        rule = "must have each field once in an object"
    except ValueError:
        rule = no_json
    else:
        if spelled is not None:
            value = spelled(value)
        problems = schema.problems(value)
        feedback = invalid("schema", problems) if problems else None
        return value, feedback

    return None, problem("bad_json", "(whole)", rule)


def problem(kind: str, at: str, rule: str) -> Submission:
    """Return the feedback for a submission that breaks one rule.

    `kind` is the kind of failure, `at` the path of the field, and `rule` the wording of the rule.
    """
    return invalid(kind, [{"at": at, "rule": rule}])


def invalid(kind: str, problems: list[dict[str, str]]) -> Submission:
    """Return the feedback for a submission that breaks rules: each with the path of a field (`at`)
    and the wording of the rule (`rule`).
    """
    feedback = render_json({"error": {"kind": kind, "problems": problems}})
    return Submission(None, failure=kind, feedback=feedback)
