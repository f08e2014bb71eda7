"""Plugin with the tasks that ask a model to rephrase instructions (QFinZero, A.2):

    ktdeval --plugin ktdeval_qfinzero.rewording --model M --tasks qfinzero_reword_calling --out RUN
    ktdeval paper qfinzero wordings RUN --out wordings.json

Such a run has everything that any run has: budgets, resumption, a record of each call, and a
verifiable card. Its score `kept` is the fraction of rephrased instructions that keep the literals
of the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ktdeval.api import QATask, Spec, hookimpl
from ktdeval.errors import UsageError
from ktdeval.runner import RunFolder
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import JsonValue, Value, convert_value, sha256_hex
from ktdeval_qfinzero.benchmark.literals import wording_problem
from ktdeval_qfinzero.benchmark.reworded import ItemWording, Wordings
from ktdeval_qfinzero.scoring.types import Suite
from ktdeval_qfinzero.suite.samples import embedded_items

PREFIX: Final = "qfinzero_reword_"
SUITES: Final[tuple[Suite, ...]] = ("calling", "planning")
PROMPT: Final = (Path(__file__).parent / "benchmark" / "reword.md").read_text("utf-8")


class RewordTask(QATask):
    """Task that asks for another wording of each item's instruction."""

    system = PROMPT.strip()
    source = "QFinZero, A.2"


class RewordFacts(Value, forbid_unknown_fields=False):
    """Part of a recorded question that contains the instruction to be reworded."""

    original: str


def keeps_meaning(answer: str, sample: Mapping[str, JsonValue]) -> bool:
    """Return whether a rephrased instruction keeps the literals on which the expected calls
    depend.
    """
    return not wording_problem(str(sample["original"]), answer)


def make_reword_task(suite: Suite) -> RewordTask:
    """Return the rewording task for a suite's items with seed 0."""
    samples: list[Mapping[str, JsonValue]] = []
    for item in embedded_items(0, suite, 0):
        instruction = item.task.instruction
        samples.append({"id": item.task.id, "question": instruction, "original": instruction})

    return RewordTask(
        samples,
        keeps_meaning,
        name=f"{PREFIX}{suite}",
        summary=f"Word the instructions of the {suite} suite anew",
        scores=("kept",),
    )


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return a rewording task for each suite."""
    return [
        Spec(
            f"{PREFIX}{suite}",
            lambda suite=suite: make_reword_task(suite),
            f"Word the instructions of the {suite} suite anew",
        )
        for suite in SUITES
    ]


def wordings_of(path: Path) -> tuple[Wordings, int]:
    """Return the first rephrased instruction for each item that keeps the original's literals, and
    the number of answers that do not keep them.

    Raises UsageError if the run has no finished episode of these tasks, or no usable wording;
    StoreError if the run can't be read.
    """
    folder = RunFolder.load(path)
    specs = [spec for spec in folder.manifest.specs if _is_done(folder, spec)]
    suites = {spec.task.removeprefix(PREFIX) for spec in specs}
    if len(suites) != 1:
        raise UsageError(
            f"{path}: expected finished episodes of one task {PREFIX}calling or {PREFIX}planning,"
            f" has {', '.join(sorted(suites)) or 'none'}"
        )

    found: dict[str, ItemWording] = {}
    refused = 0
    for spec in specs:
        for record in folder.load_answers(spec):
            original = convert_value(record.facts, RewordFacts).original
            wording = "" if record.answer is None else str(record.answer.get("answer", ""))
            if wording_problem(original, wording):
                refused += 1
            else:
                own = ItemWording(
                    id=record.sample,
                    original_sha256=sha256_hex(original),
                    instruction=wording,
                )
                found.setdefault(record.sample, own)

    if not found:
        raise UsageError(f"{path}: none of {refused} answers keeps its instruction's literals")

    suite: Suite = "calling" if "calling" in suites else "planning"
    wordings = Wordings(
        version=1,
        suite=suite,
        model=specs[0].model,
        model_args=dict(specs[0].model_args),
        prompt_sha256=sha256_hex(RewordTask.system),
        episodes=tuple(spec.id for spec in specs),
        wordings=tuple(found[key] for key in sorted(found)),
    )
    return wordings, refused


def _is_done(folder: RunFolder, spec: EpisodeSpec) -> bool:
    return spec.task.startswith(PREFIX) and folder.is_complete(spec)
