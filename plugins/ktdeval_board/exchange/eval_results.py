"""`.eval_results/*.yaml`: results in the form in which Hugging Face's Hub keeps them in a model's repository.

Facts are from the Hub's specification (`eval_results.yaml` of huggingface/hub-docs): a file is a list of entries with `dataset`
(`id` of a benchmark dataset on the Hub, `task_id` as its `eval.yaml` defines it), `value`, and, where they are known, `date`,
`source` (`url`, `name`) and `notes`. The dataset's owner has to register it with the Hub; its tasks are this board's divisions.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ktdeval.errors import UsageError
from ktdeval.jsonio import JsonValue
from ktdeval_board.entries import Entry, settings_of
from ktdeval_board.exchange.board_data import BoardData
from ktdeval_board.exchange.output import Exported, write_text
from ktdeval_board.exchange.standing import IS_BASELINE, definition
from ktdeval_board.layout import path_segment
from ktdeval_board.rules import Division

FOLDER = ".eval_results"

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")
_HUB_PAGE = re.compile(r"https://(?:www\.)?huggingface\.co/(" + _REPOSITORY.pattern + r")/?")


def write_eval_results(data: BoardData, folder: Path, dataset: str) -> Exported:
    """Write `<model>/.eval_results/<board>-<division>-<card>.yaml` for each ranked card.

    Cards without a rank are left out: the form has no place for what a reader would have to know of them.
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
    figure = data.standings[entry.card_id].figure
    rules = data.board.rules
    made: dict[str, JsonValue] = {
        "dataset": {"id": dataset, "task_id": division.id},
        "value": figure.value,
        "date": entry.card.provenance.created_at[:10],
        "notes": _notes(data, entry, division),
    }
    if rules.url.startswith("https://"):
        made["source"] = {"url": f"{rules.url.rstrip('/')}/card.html#card={entry.card_id}", "name": rules.title}
    return made


def _notes(data: BoardData, entry: Entry, division: Division) -> str:
    card, figure = entry.card, data.standings[entry.card_id].figure
    settings = settings_of(card)
    rests_on = f"median of {figure.n} episodes" if entry.is_trading else f"n = {figure.n}"
    parts = [
        f"{division.rank_by} ({definition(card, division.rank_by).unit}), {rests_on}",
        f"agent {entry.agent}" + (f", {settings}" if settings else ""),
        f"{entry.tier} by the board",
        *(["synthetic market"] if data.board.rules.market == "synthetic" else []),
    ]
    return "; ".join(parts)
