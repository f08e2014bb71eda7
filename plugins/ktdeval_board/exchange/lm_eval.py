"""Results JSON of EleutherAI's lm-evaluation-harness, taken over into a board's `imported/`.

What is understood: `results_*.json` of versions 0.4 (`"acc,none"`, with `groups`, `configs`, `n-samples`, `higher_is_better`) and
the single file of versions 0.3 and before (`"acc"`). Facts of these formats are from the harness's own writers. Where the harness
writes `NaN`, `"N/A"` or nothing, the imported figure is null, with a reason where the value itself is missing.

The file is input from elsewhere: read within a size limit, as JSON alone, and its texts are taken only as plain lines.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ktdeval.errors import CardError
from ktdeval.fields import near_matches
from ktdeval.jsonio import MOST_LEVELS, JsonValue, bounded_int, is_nested_within, sha256_hex, unique_fields
from ktdeval.typed import from_plain
from ktdeval_board.documents import Imported
from ktdeval_board.layout import path_segment
from ktdeval_board.reading import read_text

LONGEST_LINE = 300
MOST_RESULTS = 20_000
MOST_NOTES = 1_000

NO_FILTER = "none"
_NO_METRICS = {"alias", "name", "samples", "sample_len", "sample_count", ""}
_STDERR = "_stderr"
_MISSING_WORDS = {"", "n/a", "na", "nan", "none", "null", "yaml"}
_NAMES_IN_ARGS = ("pretrained", "model", "model_name", "engine", "path")
_UNSAFE = re.compile(r"[<>\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,60}")
_REVISION = re.compile(r"[0-9A-Za-z.+_/-]{1,80}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_LOCAL_PATH = re.compile(r"[/~.\\]|[A-Za-z]:[\\/]")
_FIRST_SECOND, _LAST_SECOND = 1_262_304_000, 4_102_444_800  # 2010 and 2100: other numbers are no dates of an evaluation


@dataclass
class _Source:
    """A results file while it is read."""

    where: str  #: the file, for messages
    content: Mapping[str, JsonValue]
    notes: list[str] = field(default_factory=list)  #: what was left out, in words

    def part(self, name: str, key: str | None = None) -> Mapping[str, JsonValue]:
        """A mapping of the file, or of one task in it; empty where there is none (writers leave parts out, or write null)."""
        value = self.content.get(name)
        if key is not None:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def line(self, value: JsonValue, what: str) -> str:
        """A text as one plain line."""
        text = value.strip() if isinstance(value, str) else None
        if not text or len(text) > LONGEST_LINE or _UNSAFE.search(text):
            raise CardError(
                f"{self.where}: {what} {ascii(value)[:80]} is no plain line of 1 to {LONGEST_LINE} characters; markup and "
                "control characters are not taken"
            )
        return text

    def note(self, text: str) -> None:
        """Say once that something was left out."""
        if text not in self.notes and len(self.notes) < MOST_NOTES:
            self.notes.append(text)


def import_results(path: Path, max_bytes: int, model: str | None = None) -> Imported:
    """Read a results file of lm-eval.

    Returns the document. Raises CardError: the file can't be read, is no results file, or holds a text that is no plain line.
    """
    text = read_text(path, max_bytes)
    source = _Source(str(path), _parse(text, str(path)))
    rows = sorted(_rows(source), key=lambda row: (row["task"], row["metric"], row["filter"]))
    if not rows:
        raise CardError(f"{path}: no task of its results has a figure; expected results_*.json of `lm_eval --output_path`")
    if len(rows) > MOST_RESULTS:
        raise CardError(f"{path}: has {len(rows):,} figures; at most {MOST_RESULTS:,} are taken")
    config = source.part("config")
    stated = (source.content.get("model_source"), config.get("model"))
    backend = next((value for value in stated if isinstance(value, str) and value.strip()), None)
    document: dict[str, JsonValue] = {
        "schema_version": 1,
        "source": {"sha256": sha256_hex(text), "bytes": len(text.encode())},
        "harness": {
            "name": "lm-eval",
            "version": _matching(source.content.get("lm_eval_version"), _VERSION),
            "revision": _matching(source.content.get("git_hash"), _REVISION),
        },
        "model": {"name": _model_name(source, model), "backend": source.line(backend, "config.model") if backend else None},
        "date": _day(source.content.get("date")),
        "limit": _number(config.get("limit")),
        "results": rows,
        "notes": source.notes,
    }
    return from_plain(document, Imported, str(path), CardError)


def file_name(document: Imported) -> str:
    """Return the name of the document's file under `imported/`: the model and the first digits of the source's SHA-256."""
    return f"{path_segment(document.model.name)}--{document.source.sha256[:12]}.json"


def _parse(text: str, where: str) -> Mapping[str, JsonValue]:
    try:
        # The harness writes NaN and Infinity where a figure is missing.
        content = json.loads(text, object_pairs_hook=unique_fields, parse_constant=float, parse_int=bounded_int)
        if not is_nested_within(text, MOST_LEVELS):
            raise RecursionError
    except RecursionError as error:
        raise CardError(f"{where}: is nested too deeply") from error
    except ValueError as error:
        raise CardError(f"{where}: is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        near = near_matches("results", content) if isinstance(content, dict) else ""
        raise CardError(f"{where}: has no object `results`; expected results_*.json of `lm_eval --output_path`{near}")
    return content


def _rows(source: _Source) -> Iterator[dict[str, JsonValue]]:
    results, groups = source.part("results"), source.part("groups")
    subtasks = source.part("group_subtasks")
    # Versions differ in whether a group's figures stand under `results`, under `groups` or under both; `results` has the say.
    for name, figures in {**groups, **results}.items():
        if not isinstance(figures, Mapping):
            source.note(f"{source.line(name, 'task')}: left out, for it holds no figures")
            continue
        yield from _task_rows(source, name, figures, is_group=name in groups or bool(subtasks.get(name)))


def _task_rows(source: _Source, name: str, figures: Mapping[str, JsonValue], is_group: bool) -> Iterator[dict[str, JsonValue]]:
    task = source.line(name, "task")
    plain: list[tuple[str, str, str]] = []
    errors: dict[tuple[str, str], JsonValue] = {}  # by metric and filter of the figure itself
    for text, value in figures.items():
        if text.strip() not in _NO_METRICS:
            metric, _, filter_name = text.partition(",")
            filter_name = filter_name.strip() or NO_FILTER
            if metric.endswith(_STDERR) and metric != _STDERR:
                errors[metric.removesuffix(_STDERR), filter_name] = value
            else:
                plain.append((text, metric, filter_name))
    for metric, filter_name in sorted(set(errors) - {(metric, filter_name) for _, metric, filter_name in plain}):
        source.note(source.line(f"{task}: {metric}{_STDERR},{filter_name} left out, for it has no figure of its own", "metric"))
    for text, metric, filter_name in plain:
        value, reason = _figure(figures[text])
        if reason is None and value is None:
            source.note(source.line(f"{task}: {text} left out, for it is no number", "metric"))
            continue
        error, version = _number(errors.get((metric, filter_name))), source.part("versions").get(name)
        row = {
            "task": task,
            "task_version": str(version) if _number(version) is not None else _matching(version, _VERSION),
            "metric": source.line(metric, "metric"),
            "filter": source.line(filter_name, "filter"),
            "value": value,
            "stderr": error if error is not None and error >= 0 else None,
            "n": _samples(source, name, figures, text),
            "higher_is_better": _higher_is_better(source, name, metric),
            "few_shot": _first_count(source.part("n-shot").get(name), source.part("config").get("num_fewshot")),
            "is_group": is_group,
        }
        yield row if reason is None else row | {"reason": reason}


def _figure(value: JsonValue) -> tuple[float | None, str | None]:
    """A figure, or why it is missing; (None, None) for what is no figure at all."""
    if isinstance(value, str):
        return None, "the file says N/A" if value.strip().lower() in _MISSING_WORDS - {"", "yaml"} else None
    if value is None:
        return None, "the file says null"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, None
    if not math.isfinite(value):
        return None, "the file says NaN" if math.isnan(value) else "the file says infinity"
    return value, None


def _number(value: JsonValue) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _first_count(*values: JsonValue) -> int | None:
    """The first that is a count."""
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool) and value >= 0), None)


def _samples(source: _Source, name: str, figures: Mapping[str, JsonValue], key: str) -> int | None:
    """Return how many samples a figure is made of: those after a limit, not those that the task has."""
    counts = figures.get("sample_count")
    own = counts.get(key) if isinstance(counts, Mapping) else None
    return _first_count(own, source.part("n-samples", name).get("effective"), figures.get("sample_len"), figures.get("samples"))


def _higher_is_better(source: _Source, name: str, metric: str) -> bool | None:
    stated = source.part("higher_is_better", name).get(metric)
    if isinstance(stated, bool):
        return stated
    metrics = source.part("configs", name).get("metric_list")
    for entry in metrics if isinstance(metrics, list) else []:
        if isinstance(entry, Mapping) and entry.get("metric") == metric and isinstance(entry.get("higher_is_better"), bool):
            return bool(entry["higher_is_better"])
    return None


def _matching(value: JsonValue, pattern: re.Pattern[str]) -> str | None:
    """A text of a known form; None for any other, such as the error text that stands where a version could not be found."""
    text = value.strip() if isinstance(value, str) else ""
    return text if pattern.fullmatch(text) and text.lower() not in _MISSING_WORDS else None


def _day(value: JsonValue) -> str | None:
    """Return the day (UTC) of Unix seconds, or of a text that begins with one."""
    if isinstance(value, str) and _DAY.match(value):
        try:
            return dt.date.fromisoformat(value[:10]).isoformat()
        except ValueError:
            return None
    seconds = _number(value)
    if seconds is None or not _FIRST_SECOND <= seconds < _LAST_SECOND:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()


def _model_name(source: _Source, override: str | None) -> str:
    """Return the model's name; of a path on the machine that ran it only the last part, for the rest describes that machine."""
    if override is not None:
        return source.line(override, "--model")
    stated = source.content.get("model_name")
    candidates = [stated, *_named_in_args(source.part("config"), source.content)]
    for value in candidates:
        if isinstance(value, str) and value.strip():
            name = source.line(value, "model")
            if _LOCAL_PATH.match(name):
                name = PurePosixPath(name.replace("\\", "/")).name
                source.note("the model's name is the last part of a path on the machine that ran it")
            return source.line(name, "model")
    raise CardError(f"{source.where}: does not say which model it is of; give its name with --model")


def _named_in_args(config: Mapping[str, JsonValue], content: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """Candidates for the model's name: arguments that name it (a text `a=b,c=d` or a mapping), then the backend."""
    model_args = config.get("model_args")
    if isinstance(model_args, str):
        model_args = dict(part.split("=", 1) for part in model_args.split(",") if "=" in part)
    arguments = model_args if isinstance(model_args, Mapping) else {}
    yield from (arguments.get(name) for name in _NAMES_IN_ARGS)
    if not arguments:
        yield config.get("model") or content.get("model")
