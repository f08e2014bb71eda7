"""Datasets of the Hugging Face Hub: their tables at one commit, read as by `import long`; no other file is read, and no code run.

Source: https://huggingface.co/docs/hub/api, and /docs/hub/datasets-manual-configuration for the configurations of a card.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from ktdeval.api import assemble
from ktdeval.errors import DataError, ModelError, UsageError
from ktdeval.fields import build_params
from ktdeval.jsonio import content_hash, file_sha256, make_folder, sha256_hex, write_atomic
from ktdeval.market import MarketSnapshot
from ktdeval_data.columns import SUFFIXES
from ktdeval_data.fetch.vendor import Answer, Answers, Request, vendors
from ktdeval_data.fetch.web import Web
from ktdeval_data.long_table import read_long
from ktdeval_data.params import FetchHubParams

_MOST_BYTES = 2**31  #: of a file
_ALL = ({"config_name": "default", "data_files": "**"},)  #: if a card names no files
_MALFORMED = (LookupError, TypeError, AttributeError)


class Hub(Web):
    """Files of a dataset: their names, or one of them, stored in a folder. Private datasets need a token in HF_TOKEN."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        """Read the token from the environment, if there is one. Raises UsageError: the address is not a plain URL."""
        super().__init__("hf", endpoint)
        token = os.environ.get("HF_TOKEN", "").strip()
        self._folder, self.secrets = folder, (token,) if token else ()

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.secrets[0]}"} if self.secrets else {}

    def call(self, request: Request) -> Answer:
        """Make a call; as of `Transport`."""
        name, commit, path, to = (request.params.get(each, "") for each in ("dataset", "revision", "path", "to"))
        if request.api == "files":
            reply = self._fetch(f"{self._endpoint}/api/datasets/{name}/revision/{quote(commit, safe='')}", None, f"hf {name}")
            try:
                paths, card = [each["rfilename"] for each in reply["siblings"]], reply.get("cardData") or {}
                return Answer(("commit", "configs", "paths"), [[reply["sha"], card.get("configs"), paths]])
            except _MALFORMED:
                raise ModelError("bad_response", f"hf {name}: the answer lists no files") from None
        url = f"{self._endpoint}/datasets/{name}/resolve/{commit}/{quote(path)}"
        content = self._content(url, None, f"hf {name}/{path}", _MOST_BYTES)
        make_folder((self._folder / to).parent)
        write_atomic(self._folder / to, content)
        return Answer(("sha256",), [[sha256_hex(content)]])


def pinned(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a query with its revision resolved to a commit, for a recipe. Raises as of `make_hub`."""
    _, (commit, *_) = _listed(build_params(FetchHubParams, query, "data provider hf"))
    return {**query, "revision": commit}


def make_hub(params: FetchHubParams) -> MarketSnapshot:
    """Return a snapshot from a dataset. Raises UsageError: the dataset, configuration or split is unknown; DataError: the hub
    refuses or does not answer, there are no tables, or as of `read_long` and `assemble`; StoreError: files can't be kept.
    """
    answers, (commit, configs, paths) = _listed(params)
    chosen, folder = _tables(params, configs, paths), content_hash([params.bars, commit, params.config, params.split])[:20]
    names = [re.sub(r"[^\w.-]", "_", path.rpartition("/")[2]) for path in chosen]  # a table of one code may have it there alone
    for number, (path, name) in enumerate(zip(chosen, names, strict=True)):
        to = f"{folder}/{name if names.count(name) == 1 else f'{number}-{name}'}"
        answer = answers.ask(Request("file", {"dataset": params.bars, "revision": commit, "path": path, "to": to}))
        file = Path(str(params.answers)) / to
        if not file.is_file() or [file_sha256(file)] != answer.rows[0]:
            raise DataError(f"{file}: not the file that was fetched; delete {params.answers} to fetch it again")
    source = f"Hugging Face dataset {', '.join(filter(None, (f'{params.bars} at {commit}', params.config, params.split)))}"
    own = {"bars": str(Path(str(params.answers)) / folder), "name": params.name or params.bars.partition("/")[2]}
    return assemble(read_long(replace(params, source=params.source or source, **own)), params.repair)  # type: ignore[arg-type]


def _listed(params: FetchHubParams) -> tuple[Answers, Any]:
    """Return the store of answers, and the dataset's commit, configurations and paths."""
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", params.bars) or params.answers is None:
        raise UsageError(f"hf: expected ORG/NAME, with --answers DIR or by `ktdeval data fetch hf`, was {params.bars!r}")
    vendor, folder = vendors()["hf"], Path(params.answers)
    connect = partial(Hub, params.endpoint or vendor.endpoint or "", folder)
    answers = Answers("hf", folder, connect, params.per_minute or vendor.per_minute, partial(click.echo, err=True))
    return answers, answers.ask(Request("files", {"dataset": params.bars, "revision": params.revision})).rows[0]


def _tables(params: FetchHubParams, configs: Any, paths: list[str]) -> list[str]:
    """Paths of the tables of a configuration and split; all if the card names no files."""
    try:
        files = {each["config_name"]: each.get("data_files") or f"{each['data_dir']}/**" for each in configs or _ALL}
        data_files = _one_of(files, "config", params)
        by_split = data_files if isinstance(data_files[0], dict) else [{"split": "train", "path": data_files}]
        patterns = _one_of({each["split"]: each["path"] for each in by_split}, "split", params)
        patterns = [patterns] if isinstance(patterns, str) else patterns
        tables = sorted(path for path in paths if path.endswith(SUFFIXES) and any(_fits(path, each) for each in patterns))
    except _MALFORMED:
        raise DataError(f"hf {params.bars}: its card does not say which files its configurations have") from None
    if not tables:
        raise DataError(f"hf {params.bars}: no {', '.join(SUFFIXES)} file there; others are not read")
    return tables


def _one_of(entries: Mapping[str, Any], what: str, params: FetchHubParams) -> Any:
    name = getattr(params, what) or (next(iter(entries)) if len(entries) == 1 else "default")
    if name not in entries:
        raise UsageError(f"hf {params.bars}: has the {what}s {', '.join(entries)}; say --{what} NAME")
    return entries[name]


def _fits(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern; only `**` crosses folders."""
    level = "**" in pattern or path.count("/") == pattern.count("/")
    return level and (fnmatchcase(path, pattern) or fnmatchcase(path, pattern.replace("**/", "")))
