"""Read the tables of a dataset on the Hugging Face Hub at a fixed commit, in the same way as `make
long` reads files. No other files are read, and no dataset code is run.

Source: https://huggingface.co/docs/hub/api, and /docs/hub/datasets-manual-configuration for the
configurations on a dataset card.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from ktdeval.api import assemble
from ktdeval.errors import DataError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.values import (
    JsonValue,
    build_params,
    content_hash,
    file_sha256,
    make_folder,
    sha256_hex,
    write_atomic,
)
from ktdeval_data.fetch.http_vendors import WebVendor
from ktdeval_data.fetch.hub_datasets import (
    advice_on,
    known_datasets,
    licence_of,
    with_mapping,
)
from ktdeval_data.fetch.vendor_requests import AnswerFolder, VendorAnswer, VendorRequest, vendors
from ktdeval_data.long_table import read_long
from ktdeval_data.params import FetchHubParams
from ktdeval_tables.vendor_tables import SUFFIXES

_MAX_BYTES = 2**31  #: maximum file size
#: name of the configuration if the card lists none
_ALL = ({"config_name": "default", "data_files": "**"},)
#: errors caused by JSON with an unexpected form
_MALFORMED = (LookupError, TypeError, AttributeError)


# a tuple: rows of responses are tuples for all vendors
class _FileListing(NamedTuple):
    """Response to a request for a dataset's file list."""

    commit: str
    configs: JsonValue  #: configurations on the dataset card; checked where they are used
    paths: list[str]
    #: licence on the card; checked where it is used, and absent from responses without a licence
    licence: JsonValue = None


class Hub(WebVendor):
    """Lists a dataset's files, or downloads one of them into a folder. Private datasets need a
    token in HF_TOKEN.
    """

    def __init__(self, endpoint: str, folder: Path) -> None:
        """Read the token from the environment, if it is set. Raises UsageError if the address is
        not a plain URL.
        """
        super().__init__("hf", endpoint)
        self._folder = folder
        self.secrets = ()
        token = os.environ.get("HF_TOKEN", "").strip()
        if token:
            self.secrets = (token,)

    def _headers(self) -> Mapping[str, str]:
        if not self.secrets:
            return {}
        return {"Authorization": f"Bearer {self.secrets[0]}"}

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call, as `Transport.call`."""
        if request.api == "files":
            return self._list_files(request.params["dataset"], request.params.get("revision", ""))
        return self._download(request.params)

    def _list_files(self, name: str, revision: str) -> VendorAnswer:
        url = f"{self._endpoint}/api/datasets/{name}/revision/{quote(revision, safe='')}"
        reply = self._fetch(url, None, f"hf {name}")
        try:
            paths = [each["rfilename"] for each in reply["siblings"]]
            card = reply.get("cardData") or {}
            licence = card.get("license_name") or card.get("license")
            row = [reply["sha"], card.get("configs"), paths, licence]
        except _MALFORMED:
            raise self._explain_malformed(
                f"hf {name}", "the answer lists no files", reply
            ) from None

        return VendorAnswer(_FileListing._fields, [row])

    def _download(self, params: Mapping[str, str]) -> VendorAnswer:
        """Write a file into the folder; the response contains the file's hash."""
        name = params["dataset"]
        path = params["path"]
        url = f"{self._endpoint}/datasets/{name}/resolve/{params['revision']}/{quote(path)}"
        content = self._content(url, None, f"hf {name}/{path}", _MAX_BYTES)

        file = self._folder / params["to"]
        make_folder(file.parent)
        write_atomic(file, content)
        return VendorAnswer(("sha256",), [[sha256_hex(content)]])


def pin_query(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the query to store in a recipe, with its revision resolved to a commit and with the
    options from our mapping. Raises the same errors as `make_hub`.
    """
    params = with_mapping(build_params(FetchHubParams, query, "data provider hf"))
    listing = _list_files(_open_answers(params), params)
    known = known_datasets().get(params.bars)
    mapped = {} if known is None else {name: getattr(params, name) for name in known.options}
    return {**query, **mapped, "revision": listing.commit}


def make_hub(params: FetchHubParams) -> MarketSnapshot:
    """Return a snapshot of a dataset.

    The licence is printed before any file is requested, and becomes a note in the snapshot. Raises
    UsageError if the configuration or split is unknown, or if the licence is missing; DataError if
    the hub refuses or does not respond, or if the tables are missing; StoreError if files can't be
    written; and the errors of `read_long` and `assemble`.
    """
    params = with_mapping(params)
    answers = _open_answers(params)
    listing = _list_files(answers, params)
    licence = licence_of(params, listing.licence)
    tables = _table_paths(params, listing.configs, listing.paths)
    click.echo(f"hf {params.bars} at {listing.commit[:12]}: {licence}", err=True)
    folder = content_hash([params.bars, listing.commit, params.config, params.split])[:20]
    # Files keep their names, since a single-asset table may state its code only in the file name.
    names = [re.sub(r"[^\w.-]", "_", path.rpartition("/")[2]) for path in tables]

    for number, (path, name) in enumerate(zip(tables, names, strict=True)):
        to = f"{folder}/{name}"
        if names.count(name) > 1:
            to = f"{folder}/{number}-{name}"

        query = {"dataset": params.bars, "revision": listing.commit, "path": path, "to": to}
        answer = answers.ask(VendorRequest("file", query))
        file = Path(str(params.answers)) / to
        if not file.is_file() or [file_sha256(file)] != answer.rows[0]:
            raise DataError(
                f"{file}: not the file that was fetched; delete {params.answers} to fetch it again"
            )

    parts = [f"{params.bars} at {listing.commit}"]
    parts += [part for part in (params.config, params.split) if part]
    source = f"Hugging Face dataset {', '.join(parts)}"
    local = replace(
        params,
        source=params.source or source,
        bars=str(Path(str(params.answers)) / folder),
        name=params.name or params.bars.partition("/")[2],
    )
    raw = read_long(local)
    known = known_datasets().get(params.bars)
    notes = (licence,) if known is None else (licence, known.note)
    return assemble(replace(raw, notes=(*notes, *raw.notes)), params.repair)


def _open_answers(params: FetchHubParams) -> AnswerFolder:
    """Open the folder that keeps the hub's responses."""
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", params.bars) or params.answers is None:
        raise UsageError(
            "hf: expected ORG/NAME, with --answers DIR or --out DIR of `ktdeval data make`, was"
            f" {params.bars!r}"
        )

    vendor = vendors()["hf"]
    folder = Path(params.answers)
    connect = partial(Hub, params.endpoint or vendor.endpoint or "", folder)
    per_minute = params.per_minute or vendor.per_minute
    return AnswerFolder("hf", folder, connect, per_minute, partial(click.echo, err=True))


def _list_files(answers: AnswerFolder, params: FetchHubParams) -> _FileListing:
    query = {"dataset": params.bars, "revision": params.revision}
    try:
        row: Any = answers.ask(VendorRequest("files", query)).rows[0]
    except DataError as error:
        if re.search(r": HTTP 40[134] ", str(error)):
            raise DataError(f"{error}{advice_on(params.bars)}") from None
        raise

    return _FileListing(*row)


def _table_paths(params: FetchHubParams, configs: JsonValue, paths: list[str]) -> list[str]:
    """Return the paths of the tables in a configuration and split, or of all tables if the card
    lists no files.
    """
    try:
        patterns = [params.files] if params.files else _patterns(params, configs or _ALL)
        tables = [path for path in paths if path.endswith(SUFFIXES)]
        tables = sorted(path for path in tables if _fits_any(path, patterns))
    except _MALFORMED:
        raise DataError(
            f"hf {params.bars}: its card does not list the files of its configurations"
        ) from None

    if not tables:
        raise DataError(
            f"hf {params.bars}: no {', '.join(SUFFIXES)} file there; others are not read"
        )

    return tables


def _patterns(params: FetchHubParams, configs: Any) -> list[str]:
    """Return the file patterns that a card gives for the chosen configuration and split.

    A configuration has `data_files`, or a folder `data_dir`. `data_files` holds either patterns,
    which then form the split `train`, or objects with a split and its patterns. Raises one of
    `_MALFORMED` if the card is malformed.
    """
    files = {}
    for config in configs:
        files[config["config_name"]] = config.get("data_files") or f"{config['data_dir']}/**"

    data_files = _one_of(files, "config", params)
    if not isinstance(data_files[0], dict):
        data_files = [{"split": "train", "path": data_files}]

    splits = {each["split"]: each["path"] for each in data_files}
    patterns: str | list[str] = _one_of(splits, "split", params)
    if isinstance(patterns, str):
        return [patterns]
    return patterns


def _one_of(entries: Mapping[str, Any], what: str, params: FetchHubParams) -> Any:
    """Return the entry chosen with the option `what`; by default the only entry, or the one named
    `default`.
    """
    name = getattr(params, what)
    if not name:
        name = next(iter(entries)) if len(entries) == 1 else "default"
    if name not in entries:
        raise UsageError(
            f"hf {params.bars}: has the {what}s {', '.join(entries)}; give --{what} NAME"
        )
    return entries[name]


def _fits_any(path: str, patterns: list[str]) -> bool:
    return any(_is_path_match(path, pattern) for pattern in patterns)


def _is_path_match(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern. Only `**` matches across folders."""
    level = "**" in pattern or path.count("/") == pattern.count("/")
    return level and (fnmatchcase(path, pattern) or fnmatchcase(path, pattern.replace("**/", "")))
