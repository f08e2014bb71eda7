"""A local Hugging Face Hub with one dataset: bars of two US stocks, one file for each in a first configuration, and both in
Parquet in a second one. Small files are behind a redirect to another path, Parquet behind one to another host, as on the hub.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pandas as pd

from vendor_answers import DAYS, VendorHandler, VendorServer, vendor_server

COMMITS = {"main": "0123456789abcdef0123456789abcdef01234567", "v1": "89abcdef0123456789abcdef0123456789abcdef"}
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123456789"
CARD: dict[str, Any] = {
    "pretty_name": "Bars",
    "configs": [
        {"config_name": "daily", "data_files": "daily/*.csv"},
        {
            "config_name": "both",
            "data_files": [{"split": "train", "path": ["all/train-*"]}, {"split": "late", "path": "all/late-*"}],
        },
    ],
}


def bars(symbol: str) -> pd.DataFrame:
    """Bars with columns of the dataset's own."""
    level = 400.0 if symbol == "AAPL" else 50.0
    prices = [level + index for index in range(len(DAYS))]
    columns = {"Day": DAYS, "Open": prices, "High": [price + 1 for price in prices], "Low": prices, "Close": prices}
    return pd.DataFrame({**columns, "Volume": 1000})


def files() -> dict[str, bytes]:
    both = pd.concat([bars(symbol).assign(Ticker=symbol) for symbol in ("AAPL", "BRK.B")])
    late = both["Day"] > "2024-02-01"
    parquet = {}
    for name, table in (("train-00000-of-00001", both[~late]), ("late-00000-of-00001", both[late])):
        buffer = io.BytesIO()
        table.to_parquet(buffer)
        parquet[f"all/{name}.parquet"] = buffer.getvalue()
    daily = {f"daily/{symbol}.csv": bars(symbol).to_csv(index=False).encode() for symbol in ("AAPL", "BRK.B")}
    old = {"daily/old/AAPL.csv": b"Day\n", "load.py": b"raise SystemExit", "README.md": b"---", "weights.pkl": b"x"}
    return {**daily, **parquet, **old}


class HubServer(VendorServer):
    """As `VendorServer`; `files` are those of the dataset, `card` its card, `keys` the tokens that came with requests."""

    files: dict[str, bytes]
    card: Any
    keys: list[str | None]
    is_private: bool


class _Handler(VendorHandler):
    def do_GET(self) -> None:
        path, server = unquote(urlsplit(self.path).path), self.server
        key = self.headers["Authorization"]
        if path.startswith(("/cdn/", "/api/resolve-cache/")):
            server.keys.append(key)
            name = path.split("@", 1)[1]
            whole = server.files[name]
            self.answer(whole[: -5 if name in server.edit("", {}, {}) else None], headers={"Content-Length": str(len(whole))})
            return
        index = len(server.asked)
        server.asked.append((path, {}))
        name, _, rest = (
            path.removeprefix("/api").removeprefix("/datasets/").partition("/revision/" if "/revision/" in path else "/resolve/")
        )
        if index in server.faults:
            self._send({}, index)
        elif name != "org/bars" or (server.is_private and key != f"Bearer {TOKEN}"):
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
            to = f"http://localhost:{server.server_port}/cdn/@{file}" if parquet else f"/api/resolve-cache/@{file}"
            self.answer(status=302 if parquet else 307, headers={"Location": to})


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """Run a local hub."""
    with vendor_server() as server:
        server.__class__ = HubServer
        server.RequestHandlerClass = _Handler
        server.files, server.card, server.keys, server.is_private = files(), CARD, [], False
        yield server
