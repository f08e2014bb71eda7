"""Datasets of the Hugging Face Hub, from a local server that answers like it: bars of two US
stocks, one file for each in a first configuration, and both in Parquet in a second one. Small files
are behind a redirect to another path, Parquet behind one to another host, as on the hub.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pytest

from ktdeval.cli.main import main
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.testing import Terminal, on_each_row
from ktdeval_data.fetch.hub import _is_path_match, _table_paths
from ktdeval_data.params import FetchHubParams
from support.market.vendor_answers import (
    DAYS,
    VendorHandler,
    VendorServer,
    fetch_words,
    logged,
    recipe_words,
    texts_in,
    vendor_server,
)

COMMITS = {
    "main": "0123456789abcdef0123456789abcdef01234567",
    "v1": "89abcdef0123456789abcdef0123456789abcdef",
}
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123456789"
CARD: dict[str, Any] = {
    "pretty_name": "Bars",
    "license": "cc-by-4.0",
    "configs": [
        {"config_name": "daily", "data_files": "daily/*.csv"},
        {
            "config_name": "both",
            "data_files": [
                {"split": "train", "path": ["all/train-*"]},
                {"split": "late", "path": "all/late-*"},
            ],
        },
    ],
}


def bars(symbol: str) -> pd.DataFrame:
    """Bars with columns of the dataset's own."""
    prices = (400.0 if symbol == "AAPL" else 50.0) + np.arange(len(DAYS))
    columns = {"Day": DAYS, "Open": prices, "High": prices + 1, "Low": prices, "Close": prices}
    return pd.DataFrame({**columns, "Volume": 1000})


def parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer)
    return buffer.getvalue()


def files() -> dict[str, bytes]:
    tables = {symbol: bars(symbol) for symbol in ("AAPL", "BRK.B")}
    both = pd.concat([table.assign(Ticker=symbol) for symbol, table in tables.items()])
    late = both["Day"] > "2024-02-01"
    daily = {
        f"daily/{symbol}.csv": table.to_csv(index=False).encode()
        for symbol, table in tables.items()
    }

    return {
        **daily,
        "all/train-00000-of-00001.parquet": parquet(both[~late]),
        "all/late-00000-of-00001.parquet": parquet(both[late]),
        "daily/old/AAPL.csv": b"Day\n",
        "load.py": b"raise SystemExit",
        "README.md": b"---",
        "weights.pkl": b"x",
    }


class HubServer(VendorServer):
    """As `VendorServer`; `files` are those of the dataset, `card` its card, `keys` the tokens that
    came with requests.
    """

    files: dict[str, bytes]
    card: Any
    keys: list[str | None]
    is_private: bool


class _Handler(VendorHandler):
    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        server = self.server
        key = self.headers["Authorization"]

        if path.startswith(("/cdn/", "/api/resolve-cache/")):
            server.keys.append(key)
            name = path.split("@", 1)[1]
            whole = server.files[name]
            self.answer(
                whole[: -5 if name in server.edit("", {}, {}) else None],
                headers={"Content-Length": str(len(whole))},
            )
            return

        index = len(server.asked)
        server.asked.append((path, {}))
        name, _, rest = (
            path.removeprefix("/api")
            .removeprefix("/datasets/")
            .partition("/revision/" if "/revision/" in path else "/resolve/")
        )

        if index in server.faults:
            self._send({}, index)
        elif name not in NAMES or (server.is_private and key != f"Bearer {TOKEN}"):
            server.faults[index] = (401, {})
            self._send({}, index)
        elif path.startswith("/api/"):
            siblings = [{"rfilename": each} for each in server.files]
            sha = COMMITS.get(rest, rest)
            reply = {"id": name, "sha": sha, "cardData": server.card, "siblings": siblings}
            self.answer(json.dumps(reply).encode())
        else:
            commit, _, file = rest.partition("/")
            assert commit in COMMITS.values()
            parquet = file.endswith(".parquet")
            to = (
                f"http://localhost:{server.server_port}/cdn/@{file}"
                if parquet
                else f"/api/resolve-cache/@{file}"
            )
            self.answer(status=302 if parquet else 307, headers={"Location": to})


# ---- tests


CHREAM = "Chream/a-share-finance-data"
NAMES = ("org/bars", "cedwyh/jinjing-shared-data", CHREAM)
LONG = ("--venue", "us_equity", "--map", "date=Day")
BOTH = ("--config", "both", "--split", "train", *LONG, "--map", "code=Ticker")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with vendor_server() as running:
        running.__class__ = HubServer
        running.RequestHandlerClass = _Handler
        running.files, running.card, running.keys, running.is_private = files(), CARD, [], False
        running.edit = lambda api, params, reply: ()
        yield running


def fetch(out: Path, server: HubServer, *more: str, name: str = "org/bars") -> list[str]:
    return fetch_words(f"hf {name}", out, "--endpoint", server.endpoint, *more)


def recipe(out: Path, file: Path, server: HubServer) -> list[str]:
    return recipe_words(file, out, f"endpoint={server.endpoint}")


@pytest.mark.slow
def test_a_dataset_gives_a_market_that_resumes_and_has_a_recipe(
    tmp_path: Path, server: HubServer, waits: list[float], terminal: Terminal
) -> None:
    server.faults = {2: (429, {"Retry-After": "7"})}
    assert main(fetch(tmp_path / "m", server, "--config", "daily", *LONG)) == 0
    assert int(max(waits)) in (7, 8)

    events = [(line["api"], line["event"]) for line in logged(tmp_path / "m")]
    assert events == [
        *[("files", "answered")] * 2,
        ("file", "rate_limited"),
        *[("file", "answered")] * 2,
    ]

    snapshot = load_snapshot(tmp_path / "m")
    # codes are the files' names
    assert (snapshot.codes, tuple(map(str, snapshot.days))) == (("AAPL", "BRK.B"), DAYS)
    assert (snapshot.close[2, 0], snapshot.venues[1], snapshot.meta.name) == (
        402.0,
        "us_equity",
        "bars",
    )
    assert snapshot.meta.source == f"Hugging Face dataset org/bars at {COMMITS['main']}, daily"

    # Interrupted and resumed: equal, and nothing that was answered is asked again.
    whole = len(server.asked) - 1
    server.asked.clear()
    server.faults = {3: (403, {})}
    error = terminal.error(*fetch(tmp_path / "n", server, "--config", "daily", *LONG))

    assert "hf org/bars/daily/BRK.B.csv: HTTP 403 Forbidden" in error
    assert "run the same command again to continue" in error
    assert main(fetch(tmp_path / "n", server, "--config", "daily", *LONG)) == 0
    assert load_snapshot(tmp_path / "n").id == snapshot.id
    assert len(server.asked) == whole + 1

    # A recipe has the commit, makes it again though the branch went on, and names what was revised.
    text = (tmp_path / "m" / "recipe.yaml").read_text()
    assert f"revision: {COMMITS['main']}" in text

    server.faults = {}
    server.asked.clear()

    assert main(recipe(tmp_path / "again", tmp_path / "m" / "recipe.yaml", server)) == 0
    assert not any("main" in path for path, _ in server.asked)
    assert (tmp_path / "again" / "recipe.yaml").read_text() == text

    server.files["daily/BRK.B.csv"] = server.files["daily/BRK.B.csv"].replace(
        b"53.0,54.0", b"53.0,54.5"
    )

    assert f"bars.parquet: high differs, first on {DAYS[3]}, of BRK.B;" in terminal.error(
        *recipe(tmp_path / "later", tmp_path / "m" / "recipe.yaml", server)
    )


@pytest.mark.exhaustive
def test_dataset_configuration_is_selectable_and_only_the_hub_gets_a_token(
    tmp_path: Path,
    server: HubServer,
    monkeypatch: pytest.MonkeyPatch,
    waits: list[float],
    terminal: Terminal,
) -> None:
    server.is_private = True
    assert "hf org/bars: HTTP 401 Unauthorized" in terminal.error(
        *fetch(tmp_path / "m", server, *BOTH)
    )

    monkeypatch.setenv("HF_TOKEN", TOKEN)
    outcomes = [terminal.call(*fetch(tmp_path / "m", server, *BOTH, "--revision", "v1"))]
    snapshot = load_snapshot(tmp_path / "m")

    assert tuple(map(str, snapshot.days)) == DAYS[:6]
    assert snapshot.meta.source == f"Hugging Face dataset org/bars at {COMMITS['v1']}, both, train"
    assert server.keys == [None]  # Parquet lies at another host

    outcomes.append(terminal.call(*fetch(tmp_path / "n", server, "--config", "daily", *LONG)))
    assert server.keys[1:] == [f"Bearer {TOKEN}"] * 2

    assert [code for code, *_ in outcomes] == [0, 0]
    assert TOKEN not in texts_in(tmp_path) + str(outcomes)

    # A file that was cut is asked for again; one that was changed since is named.
    short = ["daily/AAPL.csv"]
    server.edit = lambda api, params, reply: [short.pop()] if short else ()

    assert main(fetch(tmp_path / "o", server, "--config", "daily", *LONG)) == 0
    assert load_snapshot(tmp_path / "o").id == load_snapshot(tmp_path / "n").id

    file = next((tmp_path / "o.answers").rglob("AAPL.csv"))
    file.write_text("Day,Close\n")

    assert (
        f"{file}: not the file that was fetched; delete {tmp_path / 'o.answers'} to fetch it again"
        in terminal.error(*fetch(tmp_path / "o", server, "--config", "daily", *LONG))
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "**",
        "*.csv",
        "x/*",
        "x/**",
        "**/*.csv",
        "x/**/b-*",
        "x/?-1.csv",
        "x*/a.csv",
        "x/b-[0-9].csv",
        "**/y/*",
    ],
)
def test_patterns_of_a_card_are_read_as_datasets_reads_them(tmp_path: Path, pattern: str) -> None:
    from datasets.data_files import resolve_pattern

    paths = ["a.csv", "x/a.csv", "x/y/a.csv", "x/b-1.csv", "xy/a.csv", "x/y/b-2.parquet"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()

    theirs = {
        str(Path(path).relative_to(tmp_path.resolve()))
        for path in resolve_pattern(pattern, str(tmp_path))
    }

    assert {path for path in paths if _is_path_match(path, pattern)} == theirs


@pytest.mark.parametrize(
    "configs",
    [
        [{"config_name": "only", "data_files": [{"split": "train", "path": "x/*.csv"}]}],
        [{"config_name": "only", "data_files": [{"split": "train", "path": ["x/*.csv"]}]}],
        [{"config_name": "only", "data_files": ["x/*.csv"]}],
        [{"config_name": "only", "data_files": "x/*.csv"}],
        [{"config_name": "only", "data_dir": "x"}],
    ],
)
def test_sole_configuration_and_split_of_a_card_need_no_name(
    configs: list[Any],
) -> None:
    paths = ["x/b.csv", "README.md", "y/c.csv", "x/a.csv", "x/load.py"]
    assert _table_paths(FetchHubParams(bars="org/bars"), configs, paths) == ["x/a.csv", "x/b.csv"]


@on_each_row(
    "more, configs, words",
    (
        "--venue us_equity --map date=Day",
        None,
        "hf org/bars: has the configs daily, both; give --config NAME",
    ),
    (
        "--config both --venue us_equity --map date=Day",
        None,
        "hf org/bars: has the splits train, late; give --split NAME",
    ),
    ("--config daily --split test", None, "hf org/bars: has the splits train; give --split NAME"),
    (
        "--config x",
        [{"config_name": "x", "data_files": "*.pkl"}],
        "hf org/bars: no .parquet, .csv, .csv.gz file there",
    ),
    (
        "--config x",
        [{"config_name": "x", "data_files": [{"split": "a"}]}],
        "its card does not list the files of its",
    ),
    (
        "--config x",
        [{"config_name": "x", "data_dir": "all/sub"}],
        "hf org/bars: no .parquet, .csv, .csv.gz file there",
    ),
    ("--config x", "x", "its card does not list the files of its configurations"),
)
def test_what_can_not_be_read_is_one_line(
    tmp_path: Path, server: HubServer, terminal: Terminal, more: str, configs: object, words: str
) -> None:
    server.card = {**CARD, "configs": configs} if configs else server.card
    assert words in terminal.refusal(*fetch(tmp_path / "m", server, *more.split()))
    assert not any("load.py" in path or ".pkl" in path for path, _ in server.asked)


@pytest.mark.slow
def test_a_dataset_without_a_card_is_all_its_tables(tmp_path: Path, server: HubServer) -> None:
    server.card = None
    server.files = {
        f"{year}/part.csv": content
        for year, content in zip((2023, 2024), halves(server), strict=True)
    }
    own = ("--licence", "CC0", *LONG, "--map", "code=Ticker")

    assert main(fetch(tmp_path / "m", server, *own)) == 0
    assert load_snapshot(tmp_path / "m").codes == ("AAPL",)


@pytest.mark.parametrize("name", ["bars", "../etc/passwd", "a/b/c", "org/bars@main"])
def test_a_name_that_is_none_of_a_dataset_is_refused_and_not_asked_for(
    tmp_path: Path, server: HubServer, terminal: Terminal, name: str
) -> None:
    error = terminal.error(*fetch(tmp_path / "n", server, name=name))
    assert (
        "hf: expected ORG/NAME, with --answers DIR or --out DIR of `ktdeval data make`, was"
        f" '{name}'" in error
    )
    assert len(server.asked) == 0


def halves(server: HubServer) -> list[bytes]:
    """One table in two files of the same name."""
    head, *rows = server.files["daily/AAPL.csv"].decode().splitlines()
    named = [f"{row},AAPL" for row in rows]
    return ["\n".join([f"{head},Ticker", *part, ""]).encode() for part in (named[:4], named[4:])]


# ---- licences, and datasets with a mapping


@pytest.mark.exhaustive
def test_licence_is_printed_before_download_and_kept_with_the_snapshot(
    tmp_path: Path, server: HubServer, terminal: Terminal
) -> None:
    daily = ("--config", "daily", *LONG)
    _, _, err = terminal.call(*fetch(tmp_path / "m", server, *daily))
    stated = "licence cc-by-4.0, as its card states"

    assert f"hf org/bars at {COMMITS['main'][:12]}: {stated}" in err
    assert stated in load_snapshot(tmp_path / "m").meta.notes
    assert "not 'CC0'; leave out --licence" in terminal.error(
        *fetch(tmp_path / "n", server, *daily, "--licence", "CC0")
    )

    server.card = {"configs": CARD["configs"]}
    asked = len(server.asked)

    assert "its card states no licence" in terminal.error(*fetch(tmp_path / "o", server, *daily))
    assert all("/revision/" in path for path, _ in server.asked[asked:])  # no file

    own = ("--licence", "with its owner's consent")
    assert main(fetch(tmp_path / "o", server, *daily, *own)) == 0

    notes = load_snapshot(tmp_path / "o").meta.notes
    assert "licence with its owner's consent, as the user states; its card states none" in notes
    assert "licence: with its owner's consent" in (tmp_path / "o" / "recipe.yaml").read_text()


@pytest.mark.exhaustive
def test_a_dataset_with_a_mapping_needs_no_option_but_the_licence(
    tmp_path: Path, server: HubServer, terminal: Terminal
) -> None:
    """Two datasets in the columns and files that their cards name, on eight days."""
    server.card = None
    adjusted = a_shares("600519").assign(adj_close=lambda table: table["close"], market="CN")
    server.files = {"cn_unified.parquet": parquet(adjusted), "us_unified.parquet": b"not read"}
    licence = ("--licence", "asked for")
    one = fetch(tmp_path / "one", server, *licence, name="cedwyh/jinjing-shared-data")

    assert main(one) == 0

    snapshot = load_snapshot(tmp_path / "one")
    assert (snapshot.codes, snapshot.close[2, 0]) == (("600519.SH",), 12.0)
    assert any("does not state the unit of volume" in note for note in snapshot.meta.notes)

    text = (tmp_path / "one" / "recipe.yaml").read_text()
    assert "files: cn_unified.parquet" in text  # a recipe does not need the mapping
    assert f"revision: {COMMITS['main']}" in text

    tables = {}

    for code in ("600519", "000001"):
        table = a_shares(code).rename(columns=CHINESE)
        table["股票代码"] = int(code)  # as programs write codes that are numbers
        table["成交额"] = table["收盘"] * table["成交量"] * 100  # volumes are lots of 100 shares
        tables[f"daily_kline/{code}.csv"] = table.to_csv(index=False).encode()

    server.files = {**tables, "trade_cal.csv": b"not read"}
    two = fetch(tmp_path / "two", server, *licence, name=CHREAM)

    assert main(two) == 0

    snapshot = load_snapshot(tmp_path / "two")
    assert snapshot.codes == ("000001.SZ", "600519.SH")
    assert (snapshot.volume[0] == 100_000).all()
    assert not any("trade_cal" in path for path, _ in server.asked)

    # an option of the user's precedes that of the mapping
    own = fetch(tmp_path / "three", server, *licence, "--map", "close=收市", name=CHREAM)

    assert "no column '收市'" in terminal.error(*own)


def test_an_unknown_dataset_names_what_to_check(
    tmp_path: Path, server: HubServer, terminal: Terminal
) -> None:
    error = terminal.error(*fetch(tmp_path / "m", server, name="org/brs"))
    assert "hf org/brs: HTTP 401 Unauthorized" in error
    assert "no public dataset org/brs" in error
    assert "cedwyh/jinjing-shared-data" in error


CHINESE = {
    "date": "日期",
    "symbol": "股票代码",
    "open": "开盘",
    "high": "最高",
    "low": "最低",
    "close": "收盘",
    "volume": "成交量",
}


def a_shares(code: str) -> pd.DataFrame:
    """Bars of an A-share in the columns of a table of many codes."""
    prices = [10.0 + index for index in range(len(DAYS))]
    columns = dict.fromkeys(("open", "high", "low", "close"), prices)
    return pd.DataFrame({"date": DAYS, "symbol": code, **columns, "volume": 1000})
