"""Markets and orders that are written by hand, and the runs of a scripted trader in them.

Through the door that users take: files, `ktdeval data make long`, `ktdeval.evaluate`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from outside import command
from pandas.tseries.offsets import CustomBusinessDay

import ktdeval

Scene = Mapping[str, Any]
CORNERS = Path(__file__).with_name("corners")
REASON = "an order of the scene"


def read_scene(name: str, folder: Path = CORNERS) -> Scene:
    """Read a market and the orders in it; every cell stays text."""
    text = (folder / f"{name}.yaml").read_text(encoding="utf-8")
    scene = dict(yaml.load(text, Loader=yaml.BaseLoader))
    scene["look_up"] = yaml.safe_load(text).get("look_up")
    like = scene.pop("like", None)
    if like is None:
        return scene
    return {**read_scene(like, folder), **scene}


def make_market(scene: Scene, folder: Path) -> Path:
    """Write the tables of a scene, import them, and return the folder of the market."""
    folder.mkdir()
    provider = scene.get("provider", "long")

    if provider == "long":
        options = _write_tables(scene, folder)
    else:
        options = _write_closes(scene, folder)

    market = folder / "market"
    done = command("data", "make", provider, *options, "--out", market, cwd=folder)
    assert done.code == 0, done

    return market


def _write_closes(scene: Scene, folder: Path) -> list[str]:
    """Write a file an asset, as InvestorBench publishes them."""
    files = folder / "files"
    files.mkdir()

    for code, text in scene["closes"].items():
        cells = text.split()
        begin = float(cells[0])
        history = [_earlier_close(begin, day) for day in range(int(scene["history"]))]
        days = {}
        for day, close in zip(_all_days(scene), history + cells, strict=True):
            if close != "-":
                days[day] = {"prices": float(close), "news": [], "10k": [], "10q": []}

        (files / f"{code}.json").write_text(json.dumps(days), encoding="utf-8")

    return ["--folder", str(files)]


def _write_tables(scene: Scene, folder: Path) -> list[str]:
    """Write a table of each kind; return the options that name them."""
    options: list[str] = []

    for name, table in _tables(scene).items():
        rows = list(table)
        if not rows:
            continue

        path = folder / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        options += [f"--{name}", str(path)]

    for name, value in scene["import"].items():
        options += [f"--{name}", value]

    return options


def _tables(scene: Scene) -> dict[str, Iterable[dict[str, str]]]:
    days = _all_days(scene)
    levels = scene.get("benchmark", [])
    if levels:
        levels = [levels[0]] * int(scene["history"]) + levels

    return {
        "bars": _bars(scene),
        "benchmark": [
            {"date": day, "code": scene["import"]["benchmark-code"], "close": level}
            for day, level in zip(days, levels, strict=False)
        ],
        "members": [
            {"code": code, "in_date": days[0], "out_date": scene["members"].get(code, "")}
            for code in scene["assets"]
            if "members" in scene
        ],
        "industry": scene.get("industry", []),
        "fx": scene.get("fx", []),
        "entities": scene.get("entities", []),
        "documents": [
            {"published_at": day, "source": "desk", "kind": "news", "assets": assets}
            | {"title": title, "text": text}
            for day, assets, title, text in scene.get("documents", [])
        ],
    }


def _bars(scene: Scene) -> Iterator[dict[str, str]]:
    """Yield the bars of every asset: those of the history move a hundredth up and down in turn."""
    for code, asset in scene["assets"].items():
        cells = asset["prices"].split()
        begin = float(cells[0].split("/")[0])
        history = [_earlier_day(begin, day) for day in range(int(scene["history"]))]
        volumes = scene.get("volumes", {}).get(code, {})
        factor = "1"

        for day, cell in zip(_all_days(scene), history + cells, strict=True):
            factor = asset.get("factor", {}).get(day, factor)
            if cell == "-":
                continue

            first, last = cell.split("/")
            low, high = sorted([first, last], key=float)
            yield {
                "date": day,
                "code": code,
                "open": first,
                "high": high,
                "low": low,
                "close": last,
                "volume": volumes.get(day, scene.get("volume", "10000000")),
                "factor": factor,
            }


def _earlier_day(begin: float, day: int) -> str:
    return f"{begin:.2f}/{_earlier_close(begin, day)}"


def _earlier_close(begin: float, day: int) -> str:
    return f"{begin * (1 + (-1) ** day / 100):.2f}"


def _all_days(scene: Scene) -> list[str]:
    n_earlier = int(scene["history"])
    open_days = CustomBusinessDay(holidays=scene["holidays"])
    earlier = pd.date_range(
        end=pd.Timestamp(scene["days"][0]) - open_days, periods=n_earlier, freq=open_days
    )
    return [*earlier.strftime("%Y-%m-%d"), *scene["days"]]


def write_script(scene: Scene, labels: Mapping[str, str], path: Path) -> Path:
    """Write the orders of a scene as answers of `builtin/script`, with the labels of a mask, which
    it looks up first where a step does not show them.
    """
    look_up = []
    if labels and scene["look_up"]:
        look_up = [scene["look_up"]]

    steps = [
        {"step": step, "replies": [*look_up, {"submit": submission(orders, labels)}]}
        for step, orders in enumerate(scene["orders"])
    ]
    path.write_text(yaml.safe_dump({"steps": steps}), encoding="utf-8")
    return path


def submission(orders: Iterable[str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return orders such as `BUY 600001.SH 300` as a model submits them.

    A number with a point, or 0, is the weight to reach; another one, or one with `sh`, the shares
    to trade; `@` is before the price of a limit. Without a size it is a decision on the asset.
    """
    submitted = []
    form = "orders"

    for order in orders:
        if order.count(" ") == 1:
            form = "decisions"
            decision, code = order.split()
            taken = {"stock_id": labels.get(code, code), "decision": decision}
            submitted.append({**taken, "confidence": 0.6, "reason": REASON})
            continue

        side, code, size, *limit = order.split()
        fields: dict[str, Any] = {
            "stock_id": labels.get(code, code),
            "side": side,
            "confidence": 0.6,
            "reason": REASON,
        }
        if size.endswith("sh"):
            fields["shares"] = float(size.removesuffix("sh"))
        elif "." in size or size == "0":
            fields["target_weight"] = float(size)
        else:
            fields["shares"] = int(size)
        if limit:
            fields["limit"] = float(limit[0].removeprefix("@"))
        submitted.append(fields)

    return {form: submitted, "overall_reason": REASON}


def play(scene: Scene, market: Path, run: str, out: Path) -> Any:
    """Play the orders of a scene and return the evaluation: `run` is one of its `runs`."""
    labels = {}
    if run == "blinded":
        labels = scene["labels"]

    task = scene["runs"][run]
    if task.endswith(".yaml"):
        task = str(CORNERS / task)

    script = write_script(scene, labels, market.with_name(f"{run}-orders.yaml"))
    return evaluate_script(scene, market, task, script, out)


def evaluate_script(scene: Scene, market: Path, task: str, script: Path, out: Path) -> Any:
    """Run a task on the market of a scene with a model that says what a script has."""
    return ktdeval.evaluate(
        "builtin/script",
        task,
        data=str(market),
        out=str(out),
        model_args={"file": str(script)},
        mask_key=scene["mask_key"],
        quiet=True,
        **scene["options"],
    )
