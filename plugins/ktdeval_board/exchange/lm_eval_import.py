"""Import results of EleutherAI's lm-evaluation-harness into a board's `imported/`.

Formats: `results_*.json` of versions 0.4 (`"acc,none"`, with `groups`, `configs`,
`n-samples`, `higher_is_better`) and the single file of versions 0.3 and before (`"acc"`). Facts of
these formats are from the harness's own writers. Where the harness writes `NaN`, `"N/A"` or
nothing, the imported figure is null, with a reason where the value itself is missing.

The file comes from outside: it is read within a size limit, as JSON only, and its texts must be
plain lines.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from ktdeval.errors import CardError
from ktdeval.values import (
    MAX_LEVELS,
    JsonValue,
    bounded_int,
    from_plain,
    is_nested_within,
    near_matches,
    sha256_hex,
    unique_fields,
)
from ktdeval_board.document_types import Imported
from ktdeval_board.layout import path_segment
from ktdeval_board.read_documents import read_text

LONGEST_LINE = 300
MAX_RESULTS = 20_000
MAX_NOTES = 1_000

NO_FILTER = "none"
_NO_METRICS = {"alias", "name", "samples", "sample_len", "sample_count", ""}
_STDERR = "_stderr"
_MISSING_FIGURES = {"n/a", "na", "nan", "none", "null"}
_MISSING_WORDS = {*_MISSING_FIGURES, "", "yaml"}
_NAMES_IN_ARGS = ("pretrained", "model", "model_name", "engine", "path")
_UNSAFE = re.compile(
    r"[<>\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,60}")
_REVISION = re.compile(r"[0-9A-Za-z.+_/-]{1,80}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_LOCAL_PATH = re.compile(r"[/~.\\]|[A-Za-z]:[\\/]")
# 2010 and 2100: other numbers are no dates of an evaluation
_FIRST_SECOND = 1_262_304_000
_LAST_SECOND = 4_102_444_800


@dataclass(frozen=True)
class _ResultsFile:
    """A results file while it is read."""

    where: str  #: the file, for messages
    content: Mapping[str, JsonValue]
    notes: list[str] = field(default_factory=list)  #: what was excluded, in words

    def part(self, name: str) -> Mapping[str, JsonValue]:
        """Return a mapping of the file; empty if there is none, as writers omit parts or write
        null.
        """
        return _mapping_or_empty(self.content.get(name))

    def part_of_task(self, name: str, task: str) -> Mapping[str, JsonValue]:
        """Return a mapping of one task; empty if there is none."""
        return _mapping_or_empty(self.part(name).get(task))

    def line(self, value: JsonValue, what: str) -> str:
        """Return a text as one plain line. Raises CardError: it is none; `what`: its field."""
        text = value.strip() if isinstance(value, str) else None
        if not text or len(text) > LONGEST_LINE or _UNSAFE.search(text):
            raise CardError(
                f"{self.where}: {what} {ascii(value)[:80]} is not a plain line of 1 to {LONGEST_LINE}"
                " characters; markup and control characters are not taken"
            )

        return text

    def note(self, text: str) -> None:
        """Note once that something was excluded."""
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)


def _mapping_or_empty(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


def import_results(path: Path, max_bytes: int, model: str | None = None) -> Imported:
    """Read a results file of lm-eval.

    Returns the document. Raises CardError: the file can't be read, is no results file, or holds a
    text that is no plain line.
    """
    text = read_text(path, max_bytes)
    source = _ResultsFile(str(path), _parse_results(text, str(path)))
    rows = sorted(_result_rows(source), key=lambda row: (row.task, row.metric, row.filter))
    if not rows:
        raise CardError(
            f"{path}: no task of its results has a figure; expected results_*.json of `lm_eval"
            " --output_path`"
        )
    if len(rows) > MAX_RESULTS:
        raise CardError(f"{path}: has {len(rows):,} figures; at most {MAX_RESULTS:,} are taken")

    config = source.part("config")
    backend = None
    for value in (source.content.get("model_source"), config.get("model")):
        if isinstance(value, str) and value.strip():
            backend = source.line(value, "config.model")
            break

    document: dict[str, JsonValue] = {
        "schema_version": 1,
        "source": {"sha256": sha256_hex(text), "bytes": len(text.encode())},
        "harness": {
            "name": "lm-eval",
            "version": _matching(source.content.get("lm_eval_version"), _VERSION),
            "revision": _matching(source.content.get("git_hash"), _REVISION),
        },
        "model": {
            "name": _model_name(source, model),
            "backend": backend,
        },
        "date": _utc_day(source.content.get("date")),
        "limit": _finite_number(config.get("limit")),
        "results": [row.as_json() for row in rows],
        "notes": source.notes,
    }

    return from_plain(document, Imported, str(path), CardError)


def file_name(document: Imported) -> str:
    """Return the name of the document's file under `imported/`: the model and the first digits of
    the source's SHA-256.
    """
    return f"{path_segment(document.model.name)}--{document.source.sha256[:12]}.json"


def _parse_results(text: str, where: str) -> Mapping[str, JsonValue]:
    try:
        # The harness writes NaN and Infinity where a figure is missing.
        content = json.loads(
            text, object_pairs_hook=unique_fields, parse_constant=float, parse_int=bounded_int
        )
        if not is_nested_within(text, MAX_LEVELS):
            raise RecursionError
    except RecursionError as error:
        raise CardError(f"{where}: is nested too deeply") from error
    except ValueError as error:
        raise CardError(f"{where}: is not JSON: {error}") from error

    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        near = ""
        if isinstance(content, dict):
            near = near_matches("results", content)

        raise CardError(
            f"{where}: has no object `results`; expected results_*.json of `lm_eval"
            f" --output_path`{near}"
        )

    return content


@dataclass(frozen=True)
class _ImportedRow:
    """Figure of a task, with the fields of `ImportedResult`."""

    task: str
    task_version: str | None
    metric: str
    filter: str
    value: float | None
    reason: str  #: why the value is missing; empty if it is there
    stderr: float | None
    n: int | None
    higher_is_better: bool | None
    few_shot: int | None
    is_group: bool

    def as_json(self) -> dict[str, JsonValue]:
        row: dict[str, JsonValue] = asdict(self)
        if not self.reason:
            del row["reason"]

        return row


def _result_rows(source: _ResultsFile) -> Iterator[_ImportedRow]:
    results = source.part("results")
    groups = source.part("groups")
    subtasks = source.part("group_subtasks")

    # Versions differ in whether a group's figures are under `results`, under `groups` or under
    # both; `results` takes precedence.
    for name, figures in {**groups, **results}.items():
        if not isinstance(figures, Mapping):
            source.note(f"{source.line(name, 'task')}: left out, for it holds no figures")
            continue

        is_group = name in groups or bool(subtasks.get(name))
        yield from _task_rows(source, name, figures, is_group)


def _task_rows(
    source: _ResultsFile, name: str, figures: Mapping[str, JsonValue], is_group: bool
) -> Iterator[_ImportedRow]:
    task = source.line(name, "task")
    plain: list[tuple[str, str, str]] = []
    errors: dict[tuple[str, str], JsonValue] = {}  # by metric and filter of the figure itself

    for text, value in figures.items():
        if text.strip() in _NO_METRICS:
            continue

        metric, _, filter_name = text.partition(",")
        filter_name = filter_name.strip() or NO_FILTER
        if metric.endswith(_STDERR) and metric != _STDERR:
            errors[metric.removesuffix(_STDERR), filter_name] = value
        else:
            plain.append((text, metric, filter_name))

    own = {(metric, filter_name) for _, metric, filter_name in plain}
    for metric, filter_name in sorted(errors.keys() - own):
        text = f"{task}: {metric}{_STDERR},{filter_name}"
        source.note(source.line(f"{text} left out, for it has no figure of its own", "metric"))

    few_shot = _first_count(
        source.part("n-shot").get(name), source.part("config").get("num_fewshot")
    )
    for text, metric, filter_name in plain:
        value, reason = _figure_or_reason(figures[text])
        if reason is None and value is None:
            source.note(source.line(f"{task}: {text} left out, for it is not a number", "metric"))
            continue

        error = _finite_number(errors.get((metric, filter_name)))
        if error is not None and error < 0:
            error = None

        yield _ImportedRow(
            task=task,
            task_version=_task_version(source.part("versions").get(name)),
            metric=source.line(metric, "metric"),
            filter=source.line(filter_name, "filter"),
            value=value,
            reason=reason or "",
            stderr=error,
            n=_samples(source, name, figures, text),
            higher_is_better=_higher_is_better(source, name, metric),
            few_shot=few_shot,
            is_group=is_group,
        )


def _task_version(version: JsonValue) -> str | None:
    if _finite_number(version) is not None:
        return str(version)

    return _matching(version, _VERSION)


def _figure_or_reason(value: JsonValue) -> tuple[float | None, str | None]:
    """Return a figure, or why it is missing; (None, None) for a value that is no figure."""
    if isinstance(value, str):
        is_missing = value.strip().lower() in _MISSING_FIGURES
        return None, "the file says N/A" if is_missing else None

    if value is None:
        return None, "the file says null"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, None
    if not math.isfinite(value):
        return None, "the file says NaN" if math.isnan(value) else "the file says infinity"

    return value, None


def _finite_number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None

    return value if math.isfinite(value) else None


def _first_count(*values: JsonValue) -> int | None:
    """Return the first value that is a count."""
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value

    return None


def _samples(
    source: _ResultsFile, name: str, figures: Mapping[str, JsonValue], key: str
) -> int | None:
    """Return the number of samples of a figure: after a limit, not those that the task has."""
    return _first_count(
        _mapping_or_empty(figures.get("sample_count")).get(key),
        source.part_of_task("n-samples", name).get("effective"),
        figures.get("sample_len"),
        figures.get("samples"),
    )


def _higher_is_better(source: _ResultsFile, name: str, metric: str) -> bool | None:
    stated = source.part_of_task("higher_is_better", name).get(metric)
    if isinstance(stated, bool):
        return stated

    metrics = source.part_of_task("configs", name).get("metric_list")
    if not isinstance(metrics, list):
        return None

    for entry in map(_mapping_or_empty, metrics):
        stated = entry.get("higher_is_better")
        if entry.get("metric") == metric and isinstance(stated, bool):
            return stated

    return None


def _matching(value: JsonValue, pattern: re.Pattern[str]) -> str | None:
    """Return a text of a known form; None for any other, such as an error text instead of a
    version.
    """
    if not isinstance(value, str):
        return None

    text = value.strip()
    if text.lower() in _MISSING_WORDS or not pattern.fullmatch(text):
        return None

    return text


def _utc_day(value: JsonValue) -> str | None:
    """Return the day (UTC) of Unix seconds, or of a text that begins with one."""
    if isinstance(value, str) and _DAY.match(value):
        try:
            return dt.date.fromisoformat(value[:10]).isoformat()
        except ValueError:
            return None

    seconds = _finite_number(value)
    if seconds is None or not _FIRST_SECOND <= seconds < _LAST_SECOND:
        return None

    return dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()


def _model_name(source: _ResultsFile, override: str | None) -> str:
    """Return the model's name; of a path only the last part, as the rest describes the machine that
    ran it.
    """
    if override is not None:
        return source.line(override, "--model")

    stated = source.content.get("model_name")
    candidates = [stated, *_named_in_args(source.part("config"), source.content)]
    for value in candidates:
        if isinstance(value, str) and value.strip():
            name = source.line(value, "model")
            if _LOCAL_PATH.match(name):
                name = PurePosixPath(name.replace("\\", "/")).name
                source.note(
                    "the model's name is the last part of a path on the machine that ran it"
                )

            return source.line(name, "model")

    raise CardError(
        f"{source.where}: does not say which model it is of; give its name with --model"
    )


def _named_in_args(
    config: Mapping[str, JsonValue], content: Mapping[str, JsonValue]
) -> Iterator[JsonValue]:
    """Yield candidates for the model's name: arguments that name it (a text `a=b,c=d` or a mapping),
    then the backend.
    """
    model_args = config.get("model_args")
    arguments = _mapping_or_empty(model_args)
    if isinstance(model_args, str):
        arguments = dict(part.split("=", 1) for part in model_args.split(",") if "=" in part)

    for name in _NAMES_IN_ARGS:
        yield arguments.get(name)

    if not arguments:
        yield config.get("model") or content.get("model")
