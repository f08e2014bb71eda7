"""Results in the formats of other collections: every_eval_ever, and `.eval_results/*.yaml` of
Hugging Face's Hub.

every_eval_ever (evaleval), version 0.3.0, has one file per card:
`data/<collection>/<developer>/<model>/<uuid>.json`. Additional facts go under `additional_details`,
as text only. A continuous score needs a range that contains it. See the `eval.schema.json` of
every_eval_ever and the rules for its datastore.

The Hub keeps a list of results in a model's repository (see `eval_results.yaml` in
huggingface/hub-docs). Each entry has a `dataset` (the `id` of a benchmark dataset on the Hub, and a
`task_id` from its `eval.yaml`), a `value`, and, if known, `date`, `source` and `notes`.

The benchmark dataset has one configuration per division, with the division's rows. The tasks in its
`eval.yaml` are the divisions; that file has a `name`, a `description`, an `evaluation_framework`,
and for each task an `id`, a `config` and a `split`. The dataset's owner has to register it with the
Hub.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import uuid
from pathlib import Path

import yaml
from msgspec import UNSET

from ktdeval.cards import Interval, MetricLine, ScoreLine, spread_of
from ktdeval.errors import UsageError
from ktdeval.registry import Plugins
from ktdeval.values import JsonValue, dumps_canonical, dumps_pretty, to_object, to_plain
from ktdeval_board.attempts import attempts_of
from ktdeval_board.board_entries import (
    BoardEntry,
    Card,
    figures_of,
    reasoning_settings,
    settings_of,
    unset_to_none,
)
from ktdeval_board.exchange.board_data import (
    IS_BASELINE,
    NO_DIVISION,
    BoardData,
    ExportReport,
    write_text,
)
from ktdeval_board.layout import path_segment
from ktdeval_board.ranking.column_texts import column_definitions
from ktdeval_board.rules import Division, Rules

SCHEMA_VERSION = "0.3.0"
LIBRARY = "ktdeval"
#: Why a card is excluded from collections of AI model results
NO_LANGUAGE_MODEL = "no installed plugin declares that a language model took part"

_RESERVED = re.compile(r"(data|con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def write_every_eval_ever(
    data: BoardData, folder: Path, retrieved_on: dt.date, plugins: Plugins
) -> ExportReport:
    """Write one record for each entrant's card that used a language model, whether ranked or not.
    The record of an unranked card says why it has no rank.
    """
    exported = ExportReport(unit="figures")
    midnight = dt.datetime.combine(retrieved_on, dt.time(), dt.UTC)
    retrieved = str(int(midnight.timestamp()))
    for entry in data.entries:
        if entry.division is None:
            exported.exclude(NO_DIVISION)
            continue

        if entry.baseline is not None:
            exported.exclude(IS_BASELINE)
            continue

        if not used_language_model(entry.card, plugins):
            exported.exclude(NO_LANGUAGE_MODEL)
            continue

        defined = sum(figure.value is not None for figure in figures_of(entry.card).values())
        if not defined:
            exported.exclude("none of its figures is defined")
            continue

        record = make_record(data, entry, entry.division, retrieved)
        name = record_path(data.board.rules.name, entry)
        write_text(folder, name, dumps_pretty(record))
        exported.files[name] = defined

    return exported


def used_language_model(card: Card, plugins: Plugins) -> bool:
    """Return whether at least one of a card's models is a language model behind a network. The
    model's plugin decides this, not the model's name or the card. An agent hosted elsewhere does
    not count, since it may be a fixed rule.
    """
    for name in (card.model.name, *(each.name for each in card.further_models)):
        if plugins.is_remote(name):
            spec_name, _ = plugins.model_spec_name(name)
            if not plugins.spec("models", spec_name).extra.get("is_agent"):
                return True

    return False


def record_path(board: str, entry: BoardEntry) -> str:
    """Return the path of a card's record in the datastore. Its UUID (formatted as version 4) is
    derived from the card id.
    """
    developer, _, model = entry.model.rpartition("/")
    path = ["data"]
    for part in (f"ktdeval-{board}", developer or "unknown", model):
        name = path_segment(part)
        # names that are reserved on Windows, and `data`
        path.append(f"x{name}" if _RESERVED.fullmatch(name) else name)

    digest = hashlib.sha256(entry.card_id.encode()).digest()
    identifier = uuid.UUID(bytes=digest[:16], version=4)
    return "/".join([*path, f"{identifier}.json"])


def make_record(
    data: BoardData, entry: BoardEntry, division: Division, retrieved: str
) -> dict[str, JsonValue]:
    """Return the record of a card."""
    card = entry.card
    record: dict[str, JsonValue] = {
        "schema_version": SCHEMA_VERSION,
        # The id is based on the card, not on the time of the export, since one card is one
        # evaluation.
        "evaluation_id": f"{_evaluation(data, division)}/{entry.model}/{entry.card_id}",
        "retrieved_timestamp": retrieved,
        "source_metadata": _source_metadata(data, entry),
        "eval_library": {"name": LIBRARY, "version": card.provenance.suite_version},
        "model_info": _model_info(entry),
        "evaluation_results": _results(data, entry, division),
    }
    evaluated = _epoch(card.provenance.created_at)
    if evaluated is not None:
        record["evaluation_timestamp"] = evaluated

    return record


def _evaluation(data: BoardData, division: Division) -> str:
    return f"{data.board.rules.name}.{division.id}"


def _results(data: BoardData, entry: BoardEntry, division: Division) -> list[JsonValue]:
    """Return a card's results, one for each defined figure."""
    results: list[JsonValue] = []
    for metric, figure in figures_of(entry.card).items():
        if figure.value is not None:
            results.append(
                {
                    "evaluation_name": _evaluation(data, division),
                    "evaluation_result_id": f"{entry.card_id}/{metric}",
                    "source_data": _source_data(data, entry, division),
                    "generation_config": _generation(entry.card),
                    "metric_config": _metric_config(metric, figure, figure.value),
                    "score_details": _score_details(figure, figure.value),
                }
            )

    return results


def _epoch(created_at: str) -> str | None:
    try:
        moment = dt.datetime.fromisoformat(created_at)
    except ValueError:  # the card schema checks only how the text begins
        return None

    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)

    return str(int(moment.timestamp()))


def _source_metadata(data: BoardData, entry: BoardEntry) -> dict[str, JsonValue]:
    rules = data.board.rules
    why = data.why_unranked(entry)
    undefined = {}
    for name, figure in figures_of(entry.card).items():
        if figure.value is None:
            undefined[name] = unset_to_none(figure.reason)

    errata = [f"{erratum.date} {erratum.effect}: {erratum.what}" for erratum in entry.errata]
    details = {
        "card": entry.card_id,
        "tier": entry.tier,
        "ranked": dumps_canonical(not why),
        "why_not_ranked": dumps_canonical(why),
        "labels": dumps_canonical(entry.labels),
        "errata": dumps_canonical(errata),
        "submitter": entry.submission.submitter.name,
        "submitted_on": entry.submission.submitted_on,
        "attempts": dumps_canonical(attempts_of(data.board, entry)),
        "undefined_metrics": dumps_canonical(undefined),
    }
    executed = entry.tier in ("re-executed", "re-run")
    metadata: dict[str, JsonValue] = {
        "source_name": rules.title,
        # The board has records of what it executed. Everything else is only the submitter's claim.
        "source_type": "evaluation_run" if executed else "documentation",
        "source_organization_name": rules.title,
        "evaluator_relationship": "other",
        "additional_details": details,
    }

    if rules.url:
        metadata["source_organization_url"] = rules.url

    return metadata


def _model_info(entry: BoardEntry) -> dict[str, JsonValue]:
    declared = entry.submission.model
    card = entry.card
    availability = "unknown"
    if declared.open_weights is not None:
        availability = "open_weights" if declared.open_weights else "closed_weights"

    deployment = "unknown"
    if card.request_settings is None:  # the model ran locally
        deployment = "self_deployed"
    elif availability == "closed_weights":
        deployment = "externally_managed"

    details = {
        "deployment_type": deployment,
        "model_availability": availability,
        "model_args": dumps_canonical(card.model.args),
        "cutoff_date": declared.cutoff_date,
        "cutoff_source": declared.cutoff_source,
    }
    info: dict[str, JsonValue] = {
        "name": entry.model,
        "id": entry.model,
        "additional_details": details,
    }

    developer = entry.model.rpartition("/")[0]
    if developer:
        info["developer"] = developer

    return info


def _source_data(data: BoardData, entry: BoardEntry, division: Division) -> dict[str, JsonValue]:
    market = entry.card.snapshot
    rules = data.board.rules
    name = division.task
    details = {}
    if market is not None:
        windows = [[window.name, window.first, window.last] for window in division.windows]
        name = market.name
        details = {
            "snapshot": market.id,
            "synthetic": dumps_canonical(market.synthetic),
            "windows": dumps_canonical(windows),
        }

    source: dict[str, JsonValue] = {"dataset_name": name, "additional_details": details}
    if rules.url:
        return {**source, "source_type": "url", "url": [rules.url]}

    return {**source, "source_type": "other"}


def _generation(card: Card) -> dict[str, JsonValue]:
    call = card.call
    arguments: dict[str, JsonValue] = {}
    temperature = call.get("temperature")
    if isinstance(temperature, int | float):
        arguments["temperature"] = temperature

    max_request_tokens = call.get("max_output_tokens")
    if isinstance(max_request_tokens, int) and max_request_tokens >= 1:
        arguments["max_tokens"] = max_request_tokens

    if reasoning_settings(card):
        arguments["reasoning"] = True

    tools = card.task.config.get("tools")
    if isinstance(tools, list) and tools:
        named = [{"name": str(tool)} for tool in tools]
        arguments["agentic_eval_config"] = {"available_tools": named}

    details = {
        "agent": card.agent.name,
        "agent_args": dumps_canonical(card.agent.args),
        "call": dumps_canonical(call),
        "task": f"{card.task.name} {card.task.version}",
        "task_hash": card.task.hash,
        "seeds": dumps_canonical(card.seeds),
    }
    if card.task.mask is not None:
        details["mask"] = card.task.mask

    if card.task.mode is not None:
        details["mode"] = card.task.mode

    return {"generation_args": arguments, "additional_details": details}


def _metric_config(name: str, figure: MetricLine | ScoreLine, value: float) -> dict[str, JsonValue]:
    """Return the definition of a figure. A range is included only if the value lies in it."""
    config: dict[str, JsonValue] = {
        "metric_id": f"{LIBRARY}.{name}",
        "metric_name": name,
        "metric_unit": figure.unit,
        "evaluation_description": figure.formula,
        "lower_is_better": figure.better == "lower",
        "additional_details": {"better": figure.better, "source": figure.source},
    }
    lowest, highest = figure.range
    if (lowest is None or lowest <= value) and (highest is None or value <= highest):
        config["score_type"] = "continuous"
        config["min_score"] = "-Infinity" if lowest is None else lowest
        config["max_score"] = "Infinity" if highest is None else highest

    return config


def _score_details(figure: MetricLine | ScoreLine, value: float) -> dict[str, JsonValue]:
    details = dict[str, str]()
    uncertainty = dict[str, JsonValue](num_samples=figure.n)
    spread = spread_of(figure)

    if spread is not None and spread.low is not None:
        if isinstance(spread, Interval) and spread.level is not UNSET:
            uncertainty["confidence_interval"] = {
                "lower": spread.low,
                "upper": spread.high,
                "confidence_level": spread.level,
                "method": spread.kind,
            }
        else:
            details["bounds"] = spread.kind
            details["low"] = dumps_canonical(spread.low)
            details["high"] = dumps_canonical(spread.high)

    if isinstance(figure, ScoreLine) and figure.baseline is not None:
        details["baseline"] = dumps_canonical(figure.baseline)

    undefined = figure.undefined if isinstance(figure, MetricLine) else {}
    details["undefined"] = dumps_canonical(to_plain(undefined))
    return {"score": value, "uncertainty": uncertainty, "details": details}


FOLDER = ".eval_results"
DATASETS = "datasets"  #: Folder of the benchmark dataset
SPLIT = "test"  #: The dataset's only split
_ROW_FACTS = (
    "card",
    "label",
    "model",
    "agent",
    "settings",
    "strategy",
    "submitter",
    "submitted_on",
    "baseline",
    "tier",
    "labels",
    "ranked",
    "rank",
    "alpha_rank",
)
_README = """\
Rows of a ktdeval leaderboard, one per card. Only rows with `ranked` true may be ranked, and only
within their configuration; `why` gives the reason for the others, and `tier` the extent to which
the figures have been confirmed. Fractions are not percentages: 0.1 is 10 %.
"""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")
_HUB_PAGE = re.compile(r"https://(?:www\.)?huggingface\.co/(" + _REPOSITORY.pattern + r")/?")


def write_eval_results(
    data: BoardData, folder: Path, dataset: str, licence: str, plugins: Plugins
) -> ExportReport:
    """Write the benchmark dataset under `datasets/`, and for each ranked card that used a language
    model, a file that refers to it: `<model>/.eval_results/<board>-<division>-<card>.yaml`.

    Unranked cards appear only in the dataset, since a list of results has no field for the reason.
    """
    if not _REPOSITORY.fullmatch(dataset):
        raise UsageError(
            f"--dataset: {dataset!r} is not a valid dataset name on the Hub; expected OWNER/NAME"
        )

    exported = ExportReport(unit="entries")
    for entry in data.entries:
        if entry.division is None or data.why_unranked(entry):
            exported.exclude("not ranked" if entry.baseline is None else "baseline")
            continue

        if not used_language_model(entry.card, plugins):
            exported.exclude(NO_LANGUAGE_MODEL)
            continue

        stem = f"{data.board.rules.name}-{entry.division.id}-{entry.card_id[:12]}"
        name = f"{repository_of(entry)}/{FOLDER}/{stem}.yaml"
        write_text(folder, name, _as_yaml([_result_entry(data, entry, entry.division, dataset)]))
        exported.files[name] = 1

    _write_dataset(data, folder, f"{DATASETS}/{dataset}", licence, exported)
    return exported


def _as_yaml(value: JsonValue) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
    return text


def _write_dataset(
    data: BoardData, folder: Path, name: str, licence: str, exported: ExportReport
) -> None:
    """Write the benchmark dataset: the rows of each division, and the files that the Hub reads."""
    rules = data.board.rules
    divisions = []
    for division in rules.divisions:
        entries = [entry for entry in data.entries if entry.division == division]
        if not entries:
            continue

        rows = [_dataset_row(data, entry, division) for entry in entries]
        file = f"{name}/{division.id}/{SPLIT}.jsonl"
        write_text(folder, file, "".join(f"{dumps_canonical(row)}\n" for row in rows))
        exported.files[file] = len(rows)
        divisions.append(division.id)

    if not divisions:
        return

    tasks = [{"id": task, "config": task, "split": SPLIT} for task in divisions]
    benchmark: dict[str, JsonValue] = {
        "name": rules.title,
        "description": rules.summary or f"ktdeval leaderboard {rules.name}",
        "evaluation_framework": LIBRARY,
        "tasks": tasks,
    }
    header: dict[str, JsonValue] = {
        "pretty_name": rules.title,
        "license": licence,
        "tags": ["benchmark", "finance", LIBRARY, *_market_tags(rules)],
        "configs": [_dataset_config(task) for task in divisions],
    }
    readme = f"---\n{_as_yaml(header)}---\n\n{_README}"
    for file, text in (("eval.yaml", _as_yaml(benchmark)), ("README.md", readme)):
        write_text(folder, f"{name}/{file}", text)
        exported.files[f"{name}/{file}"] = len(divisions)


def _dataset_config(task: str) -> dict[str, JsonValue]:
    files: list[JsonValue] = [{"split": SPLIT, "path": f"{task}/*.jsonl"}]
    return {"config_name": task, "data_files": files}


def _market_tags(rules: Rules) -> list[str]:
    return ["synthetic"] if rules.market == "synthetic" else []


def _dataset_row(data: BoardData, entry: BoardEntry, division: Division) -> dict[str, JsonValue]:
    """Return a card's row, with its figures keyed by name."""
    row = data.rows[entry.card_id]
    columns = data.columns[division.id]
    plain = to_object(row)
    cells: dict[str, JsonValue] = {name: plain[name] for name in _ROW_FACTS}
    cells["why"] = to_plain(data.why_unranked(entry))
    for name, values in (("values", row["values"]), ("low", row["low"]), ("high", row["high"])):
        cells[name] = dict(zip(columns, values, strict=True))

    cells["n"] = dict(zip(columns, row["n"], strict=True))
    return cells


def repository_of(entry: BoardEntry) -> str:
    """Return the folder for a model's files. Its name is the model's repository on the Hub if the
    submission gives one, and otherwise the model's name.
    """
    page = _HUB_PAGE.fullmatch(entry.submission.model.url)
    if page is not None:
        return page.group(1)

    return "/".join(path_segment(part) for part in entry.model.split("/", 1))


def _result_entry(
    data: BoardData, entry: BoardEntry, division: Division, dataset: str
) -> dict[str, JsonValue]:
    row = data.rows[entry.card_id]
    column = data.columns[division.id].index(division.rank_by)
    count = row["n"][column]
    rules = data.board.rules
    unit = column_definitions(data.board, division)[division.rank_by].unit
    sample = f"median of {count} episodes" if entry.is_trading else f"n = {count}"
    system = f"agent {entry.agent}"
    settings = settings_of(entry.card)
    if settings:
        system += f", {settings}"

    notes = [f"{division.rank_by} ({unit}), {sample}", system, f"{entry.tier} by the board"]
    if rules.market == "synthetic":
        notes.append("synthetic market")

    result: dict[str, JsonValue] = {
        "dataset": {"id": dataset, "task_id": division.id},
        "value": row["values"][column],
        "date": entry.card.provenance.created_at[:10],
        "notes": "; ".join(notes),
    }

    if rules.url.startswith("https://"):
        result["source"] = {
            "url": f"{rules.url.rstrip('/')}/card.html#card={entry.card_id}",
            "name": rules.title,
        }

    return result
