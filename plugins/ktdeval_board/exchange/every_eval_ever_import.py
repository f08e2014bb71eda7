"""Import results from other harnesses into a board's `imported/` folder. The input is an
every_eval_ever record.

That project's converters turn results from lm-eval, Inspect, HELM and others into records with a
single schema (`eval.schema.json`). The fields read here are the same in its versions 0.0.1 to
0.3.0.

Since the file comes from outside, it is read as strict JSON within a size limit, and its texts must
be plain lines.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ktdeval.errors import CardError
from ktdeval.values import JsonValue, from_plain, sha256_hex
from ktdeval_board.document_types import Imported
from ktdeval_board.layout import path_segment
from ktdeval_board.read_documents import parse_untrusted, read_text

_NO_FILTER = "none"


class _StandardError(Struct, frozen=True):
    value: float | None = None


class _Uncertainty(Struct, frozen=True):
    standard_error: _StandardError = _StandardError()
    num_samples: int | None = None


class _Score(Struct, frozen=True):
    score: float
    uncertainty: _Uncertainty = _Uncertainty()


class _Metric(Struct, frozen=True):
    lower_is_better: bool
    metric_name: str = ""
    metric_id: str = ""
    evaluation_description: str = ""

    @property
    def title(self) -> str:
        return self.metric_name or self.metric_id or self.evaluation_description or "score"


class _Dataset(Struct, frozen=True):
    dataset_name: str = ""


class _Result(Struct, frozen=True):
    evaluation_name: str
    metric_config: _Metric
    score_details: _Score
    source_data: _Dataset = _Dataset()

    @property
    def task(self) -> str:
        """Name of the evaluation, taken from its dataset."""
        dataset = self.source_data.dataset_name
        if not dataset or dataset == self.evaluation_name:
            return self.evaluation_name

        return f"{dataset}: {self.evaluation_name}"


class _Library(Struct, frozen=True):
    name: str = "unknown"
    version: str | None = None


class _Model(Struct, frozen=True):
    id: str


class _Record(Struct, frozen=True):
    model_info: _Model
    evaluation_results: list[_Result]
    eval_library: _Library = _Library()
    evaluation_timestamp: str = ""


def import_results(path: Path, max_bytes: int, model: str | None = None) -> Imported:
    """Read an every_eval_ever record and return it as an imported document.

    `model` overrides the model name in the record. Raises CardError if the file can't be read, is
    not a record, or contains text that is not a plain line.
    """
    text = read_text(path, max_bytes)
    value = parse_untrusted(text, str(path))
    if not isinstance(value, dict) or "evaluation_results" not in value:
        raise CardError(
            f"{path}: has no `evaluation_results`; expected a record of every_eval_ever; its "
            "converters accept results of lm-eval, Inspect and HELM"
        )

    record = from_plain(value, _Record, str(path), CardError)
    results: list[JsonValue] = [_row_of(each) for each in record.evaluation_results]
    document: dict[str, JsonValue] = {
        "schema_version": 1,
        "source": {"sha256": sha256_hex(text), "bytes": len(text.encode())},
        "harness": {
            "name": record.eval_library.name,
            "version": record.eval_library.version,
            "revision": None,
        },
        "model": {"name": model or record.model_info.id, "backend": None},
        "date": _day_of(record.evaluation_timestamp),
        "limit": None,
        "results": results,
        "notes": [],
    }
    return from_plain(document, Imported, str(path), CardError)


def file_name(document: Imported) -> str:
    """Return the document's file name under `imported/`, made of the model name and the first
    digits of the source's SHA-256.
    """
    return f"{path_segment(document.model.name)}--{document.source.sha256[:12]}.json"


def _row_of(result: _Result) -> dict[str, JsonValue]:
    uncertainty = result.score_details.uncertainty
    return {
        "task": result.task,
        "task_version": None,
        "metric": result.metric_config.title,
        "filter": _NO_FILTER,
        "value": result.score_details.score,
        "stderr": uncertainty.standard_error.value,
        "n": uncertainty.num_samples,
        "higher_is_better": not result.metric_config.lower_is_better,
        "few_shot": None,
        "is_group": False,
    }


def _day_of(stamp: str) -> str | None:
    """Return the UTC day of a Unix timestamp in seconds or an ISO timestamp; None for any other
    text.
    """
    try:
        if stamp.replace(".", "", 1).isdecimal():
            return datetime.fromtimestamp(float(stamp), UTC).date().isoformat()

        return datetime.fromisoformat(stamp).date().isoformat()
    except (OSError, OverflowError, ValueError):
        return None
