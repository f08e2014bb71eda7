"""Results in the forms in which others collect them: every_eval_ever, and `.eval_results/*.yaml` of Hugging Face's Hub.

every_eval_ever (evaleval), version 0.3.0, has one file for each card: `data/<collection>/<developer>/<model>/<uuid>.json`, further
facts under `additional_details` as texts only, and a range for a continuous score, which has to hold it (that project's
`eval.schema.json` and its datastore's rules).

The Hub keeps a list of entries in a model's repository (`eval_results.yaml` of huggingface/hub-docs): `dataset` (`id` of a
benchmark dataset on the Hub, `task_id` as its `eval.yaml` defines it), `value`, and, where they are known, `date`, `source` and
`notes`. The dataset's owner has to register it with the Hub; its tasks are this board's divisions.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import uuid
from pathlib import Path

import yaml
from msgspec import UNSET

from ktdeval.cards import MetricLine, ScoreLine
from ktdeval.errors import UsageError
from ktdeval.jsonio import JsonValue, dumps_canonical, dumps_pretty
from ktdeval_board.attempts import attempts_of
from ktdeval_board.entries import Card, Entry, figures_of, reasoning_settings, settings_of, unset_to_none
from ktdeval_board.exchange.board_data import IS_BASELINE, NO_DIVISION, BoardData, Exported, definition, write_text
from ktdeval_board.layout import path_segment
from ktdeval_board.rules import Division

SCHEMA_VERSION = "0.3.0"
LIBRARY = "ktdeval"

_RESERVED = re.compile(r"(data|con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)
_UNBOUNDED = ("-Infinity", "Infinity")


def write_every_eval_ever(data: BoardData, folder: Path, retrieved_on: dt.date) -> Exported:
    """Write one record for each card of an entrant, ranked or not; what a reader must know of it is among its details.

    Baselines are left out, for they are no language models.
    """
    exported = Exported(unit="figures")
    retrieved = dt.datetime.combine(retrieved_on, dt.time(), dt.UTC)
    for entry in data.entries:
        if entry.division is None or entry.baseline is not None:
            exported.leave_out(NO_DIVISION if entry.division is None else IS_BASELINE)
            continue
        record = make_record(data, entry, entry.division, str(int(retrieved.timestamp())))
        if not record["evaluation_results"]:
            exported.leave_out("none of its figures is defined")
            continue
        name = record_path(data.board.rules.name, entry)
        write_text(folder, name, dumps_pretty(record))
        exported.files[name] = len(record["evaluation_results"])
    return exported


def record_path(board: str, entry: Entry) -> str:
    """Return where a card's record belongs in the datastore; the UUID (of version 4 in form) follows from the card's id."""
    developer, _, model = entry.model.rpartition("/")
    parts = [path_segment(part) for part in (f"ktdeval-{board}", developer or "unknown", model)]
    safe = [f"x{part}" if _RESERVED.fullmatch(part) else part for part in parts]  # names that Windows reserves, and `data`
    identifier = uuid.UUID(bytes=hashlib.sha256(entry.card_id.encode()).digest()[:16], version=4)
    return "/".join(["data", *safe, f"{identifier}.json"])


def make_record(data: BoardData, entry: Entry, division: Division, retrieved: str) -> dict[str, JsonValue]:
    """Return the record of one card."""
    card, name = entry.card, f"{data.board.rules.name}.{division.id}"
    evaluated = _epoch(card.provenance.created_at)
    shared = {"evaluation_name": name, "source_data": _source_data(data, entry, division), "generation_config": _generation(card)}
    results = [
        {**shared, "evaluation_result_id": f"{entry.card_id}/{metric}", **_score(metric, figure, figure.value)}
        for metric, figure in figures_of(card).items()
        if figure.value is not None
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        # One card is one evaluation, whenever it is exported: the id holds the card's, not the time of the export.
        "evaluation_id": f"{name}/{entry.model}/{entry.card_id}",
        "retrieved_timestamp": retrieved,
        **({} if evaluated is None else {"evaluation_timestamp": evaluated}),
        "source_metadata": _source_metadata(data, entry),
        "eval_library": {"name": LIBRARY, "version": card.provenance.suite_version},
        "model_info": _model_info(entry),
        "evaluation_results": results,
    }


def _epoch(created_at: str) -> str | None:
    try:
        moment = dt.datetime.fromisoformat(created_at)
    except ValueError:  # cards are held to the beginning of it only
        return None
    return str(int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()))


def _source_metadata(data: BoardData, entry: Entry) -> dict[str, JsonValue]:
    rules, standing = data.board.rules, data.standings[entry.card_id]
    executed = entry.tier in ("re-executed", "re-run")
    undefined = {name: figure.reason for name, figure in figures_of(entry.card).items() if figure.value is None}
    details = {
        "card": entry.card_id,
        "tier": entry.tier,
        "ranked": dumps_canonical(standing.ranked),
        "why_not_ranked": dumps_canonical(list(standing.why)),
        "labels": dumps_canonical(entry.labels),
        "errata": dumps_canonical([f"{erratum.date} {erratum.effect}: {erratum.what}" for erratum in entry.errata]),
        "submitter": entry.submission.submitter.name,
        "submitted_on": entry.submission.submitted_on,
        "attempts": dumps_canonical(attempts_of(data.board, entry)),
        "undefined_metrics": dumps_canonical(undefined),
    }
    metadata: dict[str, JsonValue] = {
        "source_name": rules.title,
        # What the board has executed again, it has the records of; of the rest it only has what the submitter says.
        "source_type": "evaluation_run" if executed else "documentation",
        "source_organization_name": rules.title,
        "evaluator_relationship": "other",
        "additional_details": details,
    }
    return metadata | ({"source_organization_url": rules.url} if rules.url else {})


def _model_info(entry: Entry) -> dict[str, JsonValue]:
    declared, card = entry.submission.model, entry.card
    is_open = declared.open_weights
    availability = "unknown" if is_open is None else "open_weights" if is_open else "closed_weights"
    here = card.request_settings is None  # a model of the machine that ran it
    deployment = "self_deployed" if here else "externally_managed" if availability == "closed_weights" else "unknown"
    developer = entry.model.rpartition("/")[0]
    details = {
        "deployment_type": deployment,
        "model_availability": availability,
        "model_args": dumps_canonical(card.model.args),
        "cutoff_date": declared.cutoff_date,
        "cutoff_source": declared.cutoff_source,
    }
    info: dict[str, JsonValue] = {"name": entry.model, "id": entry.model, "additional_details": details}
    return info | ({"developer": developer} if developer else {})


def _source_data(data: BoardData, entry: Entry, division: Division) -> dict[str, JsonValue]:
    market, rules = entry.card.snapshot, data.board.rules
    details, windows = {}, [[window.name, window.first, window.last] for window in division.windows]
    if market is not None:
        synthetic = dumps_canonical(market.synthetic)
        details = {"snapshot": market.id, "synthetic": synthetic, "windows": dumps_canonical(windows)}
    source = {"source_type": "url", "url": [rules.url]} if rules.url else {"source_type": "other"}
    return {"dataset_name": division.task if market is None else market.name, **source, "additional_details": details}


def _generation(card: Card) -> dict[str, JsonValue]:
    call, reasoning, tools = card.call, reasoning_settings(card), card.task.config.get("tools")
    arguments: dict[str, JsonValue] = {}
    if isinstance(call.get("temperature"), int | float):
        arguments["temperature"] = call["temperature"]
    if isinstance(call.get("max_output_tokens"), int) and call["max_output_tokens"] >= 1:
        arguments["max_tokens"] = call["max_output_tokens"]
    if reasoning:
        arguments["reasoning"] = True
    if isinstance(tools, list) and tools:
        arguments["agentic_eval_config"] = {"available_tools": [{"name": str(tool)} for tool in tools]}
    details = {
        "agent": card.agent.name,
        "agent_args": dumps_canonical(card.agent.args),
        "call": dumps_canonical(call),
        "task": f"{card.task.name} {card.task.version}",
        "task_hash": card.task.hash,
        **{name: value for name in ("mask", "mode") if (value := getattr(card.task, name)) is not None},
        "seeds": dumps_canonical(card.seeds),
    }
    return {"generation_args": arguments, "additional_details": details}


def _score(name: str, figure: MetricLine | ScoreLine, value: float) -> dict[str, JsonValue]:
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
        bounds = [end if bound is None else bound for bound, end in zip((lowest, highest), _UNBOUNDED, strict=True)]
        config |= {"score_type": "continuous", "min_score": bounds[0], "max_score": bounds[1]}
    details, uncertainty = dict[str, str](), dict[str, JsonValue](num_samples=figure.n)
    interval = unset_to_none(figure.interval)
    if interval is not None and interval.low is not None:
        low, high = interval.low, interval.high
        if interval.level is UNSET:
            details |= {"interval": interval.kind, "low": dumps_canonical(low), "high": dumps_canonical(high)}
        else:
            level = {"confidence_level": interval.level, "method": interval.kind}
            uncertainty["confidence_interval"] = {"lower": low, "upper": high, **level}
    if isinstance(figure, ScoreLine) and figure.baseline is not None:
        details["baseline"] = dumps_canonical(figure.baseline)
    details["undefined"] = dumps_canonical(figure.undefined if isinstance(figure, MetricLine) else {})
    return {"metric_config": config, "score_details": {"score": value, "uncertainty": uncertainty, "details": details}}


FOLDER = ".eval_results"

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")
_HUB_PAGE = re.compile(r"https://(?:www\.)?huggingface\.co/(" + _REPOSITORY.pattern + r")/?")


def write_eval_results(data: BoardData, folder: Path, dataset: str) -> Exported:
    """Write `<model>/.eval_results/<board>-<division>-<card>.yaml` for each ranked card.

    Cards without a rank are left out: the form has no field for what a reader would have to know of them.
    """
    if not _REPOSITORY.fullmatch(dataset):
        raise UsageError(f"--dataset: {dataset!r} is no dataset of the Hub; expected OWNER/NAME")
    exported = Exported(unit="entries")
    tasks = set()
    for entry in data.entries:
        standing = data.standings[entry.card_id]
        if not standing.ranked or entry.division is None:
            exported.leave_out("baseline" if standing.why == (IS_BASELINE,) else "not ranked")
            continue
        tasks.add(entry.division.id)
        name = f"{repository_of(entry)}/{FOLDER}/{data.board.rules.name}-{entry.division.id}-{entry.card_id[:12]}.yaml"
        entries = [_entry(data, entry, entry.division, dataset)]
        write_text(folder, name, yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=1000))
        exported.files[name] = len(entries)
    if tasks:
        exported.notes.append(f"eval.yaml of the dataset {dataset} must define these tasks: {', '.join(sorted(tasks))}")
    return exported


def repository_of(entry: Entry) -> str:
    """Folder for a model's files: its repository on the Hub where the submission names one, else its own name."""
    page = _HUB_PAGE.fullmatch(entry.submission.model.url)
    return page.group(1) if page else "/".join(path_segment(part) for part in entry.model.split("/", 1))


def _entry(data: BoardData, entry: Entry, division: Division, dataset: str) -> dict[str, JsonValue]:
    figure, rules, settings = data.standings[entry.card_id].figure, data.board.rules, settings_of(entry.card)
    rests_on = f"median of {figure.n} episodes" if entry.is_trading else f"n = {figure.n}"
    notes = [
        f"{division.rank_by} ({definition(entry.card, division.rank_by).unit}), {rests_on}",
        f"agent {entry.agent}" + (f", {settings}" if settings else ""),
        f"{entry.tier} by the board",
        *(["synthetic market"] if rules.market == "synthetic" else []),
    ]
    result: dict[str, JsonValue] = {
        "dataset": {"id": dataset, "task_id": division.id},
        "value": figure.value,
        "date": entry.card.provenance.created_at[:10],
        "notes": "; ".join(notes),
    }
    if rules.url.startswith("https://"):
        result["source"] = {"url": f"{rules.url.rstrip('/')}/card.html#card={entry.card_id}", "name": rules.title}
    return result
