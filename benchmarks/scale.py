"""The paper's full grid on paper: for a thousand models with a live test beside it, the tables of
benchmarks/README.md; and for the ten models of a lab, those of docs/scale.md.

    python benchmarks/scale.py            # print the tables
    python benchmarks/scale.py --write    # put them into both pages
    python benchmarks/scale.py --measure  # ask `ktdeval plan` for the calls and tokens of a step
    python benchmarks/scale.py --lab      # ask `ktdeval plan` for a lab's grid

Constants are in scale.yaml, with their sources. Nothing here asks a model.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import fields

from ktdeval.values import Value, from_plain, load_yaml

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
LAB_PAGE = HERE.parent / "docs" / "scale.md"
CASES = ("low", "typical", "high")
_TABLE = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


class Kept(Value):
    """Bytes that a run keeps."""

    step_bytes: float
    episode_bytes: float
    call_bytes: float
    reply_bytes_a_token: float
    card_bytes: float
    files_an_episode: int


class Computing(Value):
    """Processor seconds on one core."""

    step_s: float
    call_s: float
    card_s: float


class Board(Value):
    """Size and cost of a leaderboard."""

    stored_bytes_a_card: float
    site_bytes_a_card: float
    build_s_a_card: float


class SharedStore(Value):
    """Requests of a store."""

    requests_an_episode: int
    listed_a_request: int


class Assumed(Value):
    """Size of the undertaking, and prices."""

    models: int
    masks: int
    seeds: int
    window_days: tuple[int, ...]
    input_usd_a_million: float
    cached_usd_a_million: float
    output_usd_a_million: float
    seconds_a_call: float
    in_flight_a_worker: int
    live_days_a_year: int
    live_mode: str
    site_limit_bytes: float


class PlannedUsage(Value):
    """What `ktdeval plan` prints for one case of a lab's grid."""

    calls: float
    input_tokens: float
    output_tokens: float
    cost_usd: float  #: nothing read from a prompt cache
    cached_cost_usd: float


class Lab(Value):
    """The grid of a lab: the plan `ktd-fin` with these models."""

    models: tuple[str, ...]
    episodes: int
    steps: int
    seconds_a_call: tuple[float, ...]
    in_flight: tuple[int, ...]  #: calls at once over the whole grid
    worker_mib: float  #: most memory of a worker
    planned: dict[str, PlannedUsage]  #: by case


class Constants(Value):
    """All of scale.yaml."""

    steps: dict[str, dict[str, tuple[float, float, float, float]]]
    kept: Kept
    computing: Computing
    board: Board
    store: SharedStore
    assumed: Assumed
    lab: Lab


@dataclass(frozen=True)
class Usage:
    """Calls and tokens."""

    calls: float
    input_tokens: float
    output_tokens: float
    cache_read_tokens: float  #: of the input

    def usd(self, assumed: Assumed) -> float:
        """Return their price if no prompt is read from a cache."""
        paid = self.input_tokens * assumed.input_usd_a_million
        paid += self.output_tokens * assumed.output_usd_a_million
        return paid / 1e6

    def cached_usd(self, assumed: Assumed) -> float:
        """Return their price with the prompt cache of a provider."""
        discount = assumed.input_usd_a_million - assumed.cached_usd_a_million
        return self.usd(assumed) - self.cache_read_tokens * discount / 1e6

    def times(self, number: float) -> Usage:
        """Return the usage of so many."""
        return Usage(
            self.calls * number,
            self.input_tokens * number,
            self.output_tokens * number,
            self.cache_read_tokens * number,
        )


@dataclass(frozen=True)
class Grid:
    """Counts of the grid of all models."""

    constants: Constants

    @property
    def steps_a_mode(self) -> int:
        """Steps of all models in one mode: masks × windows × seeds."""
        assumed = self.constants.assumed
        return assumed.models * assumed.masks * assumed.seeds * sum(assumed.window_days)

    @property
    def steps(self) -> int:
        """Steps of all models in all modes."""
        return self.steps_a_mode * len(self.constants.steps)

    @property
    def episodes(self) -> int:
        """Episodes of all models."""
        assumed = self.constants.assumed
        cells = assumed.masks * len(self.constants.steps) * len(assumed.window_days)
        return assumed.models * cells * assumed.seeds

    @property
    def cards(self) -> int:
        """Cards: one a model, mask and mode."""
        assumed = self.constants.assumed
        return assumed.models * assumed.masks * len(self.constants.steps)

    def usage(self, case: str) -> Usage:
        """Return calls and tokens of the whole grid."""
        of_steps = [mode[case] for mode in self.constants.steps.values()]
        return Usage(*map(sum, zip(*of_steps, strict=True))).times(self.steps_a_mode)

    def live_day(self, case: str) -> Usage:
        """Return calls and tokens of one day of a live test of all models."""
        assumed = self.constants.assumed
        steps = assumed.models * assumed.seeds
        return Usage(*self.constants.steps[assumed.live_mode][case]).times(steps)

    def kept_bytes(self, usage: Usage) -> float:
        """Return the bytes of all run folders."""
        kept = self.constants.kept
        records = self.steps * kept.step_bytes + self.episodes * kept.episode_bytes
        calls = usage.calls * kept.call_bytes + usage.output_tokens * kept.reply_bytes_a_token
        return records + calls + self.cards * kept.card_bytes


def load() -> Constants:
    """Read scale.yaml."""
    path = HERE / "scale.yaml"
    return from_plain(load_yaml(path), Constants, path.name)


def usage_table(grid: Grid) -> str:
    """Calls, tokens and dollars in the three cases of `ktdeval plan`."""
    assumed = grid.constants.assumed
    rows = ["| | low | typical | high |", "|---|---|---|---|"]
    whole = [grid.usage(case) for case in CASES]
    live = [grid.live_day(case) for case in CASES]
    year = assumed.live_days_a_year
    parts = [
        ("grid: calls", [count(usage.calls) for usage in whole]),
        ("grid: input tokens", [count(usage.input_tokens) for usage in whole]),
        ("grid: output tokens", [count(usage.output_tokens) for usage in whole]),
        ("grid: US dollars, no cache", [count(usage.usd(assumed)) for usage in whole]),
        ("grid: US dollars, cached", [count(usage.cached_usd(assumed)) for usage in whole]),
        (
            "grid: US dollars a model, no cache",
            [count(usage.usd(assumed) / assumed.models) for usage in whole],
        ),
        (
            "grid: US dollars a model, cached",
            [count(usage.cached_usd(assumed) / assumed.models) for usage in whole],
        ),
        ("live, a day: calls", [count(usage.calls) for usage in live]),
        (
            "live, a day: tokens",
            [count(usage.input_tokens + usage.output_tokens) for usage in live],
        ),
        ("live, a day: US dollars, no cache", [count(usage.usd(assumed)) for usage in live]),
        ("live, a day: US dollars, cached", [count(usage.cached_usd(assumed)) for usage in live]),
        (
            "live, a year: US dollars, no cache",
            [count(year * usage.usd(assumed)) for usage in live],
        ),
    ]
    rows += [f"| {name} | {' | '.join(cells)} |" for name, cells in parts]
    return "\n".join(rows) + "\n"


def load_table(grid: Grid) -> str:
    """What computing, stores and board have to bear in the typical case."""
    constants = grid.constants
    assumed = constants.assumed
    usage = grid.usage("typical")
    waiting_s = usage.calls * assumed.seconds_a_call / assumed.in_flight_a_worker
    computing = constants.computing
    rows = [
        ("episodes", count(grid.episodes)),
        ("steps", count(grid.steps)),
        ("cards", count(grid.cards)),
        ("processor: steps", f"{grid.steps * computing.step_s / 3600:,.0f} core hours"),
        ("processor: calls", f"{usage.calls * computing.call_s / 3600:,.0f} core hours"),
        ("processor: cards", f"{grid.cards * computing.card_s / 3600:,.1f} core hours"),
        (
            f"waiting for replies, {assumed.in_flight_a_worker} calls in flight",
            f"{waiting_s / 86400:,.0f} days",
        ),
        ("calls in flight to end in a week", count(usage.calls * assumed.seconds_a_call / 604800)),
        ("input tokens a minute, ended in a week", count(usage.input_tokens / 10080)),
        ("kept by runs", size(grid.kept_bytes(usage))),
        ("kept by runs, a model", size(grid.kept_bytes(usage) / assumed.models)),
        ("files of episodes", count(grid.episodes * constants.kept.files_an_episode)),
        ("requests of a shared store", count(grid.episodes * constants.store.requests_an_episode)),
        (
            "requests to list what is done, one grid of all models",
            count(grid.episodes / constants.store.listed_a_request),
        ),
        (
            "requests to list what is done, one grid a model",
            count(grid.episodes / assumed.models / constants.store.listed_a_request),
        ),
        ("board: stored", size(grid.cards * constants.board.stored_bytes_a_card)),
        ("board: site", size(grid.cards * constants.board.site_bytes_a_card)),
        ("board: build", f"{grid.cards * constants.board.build_s_a_card / 60:,.0f} core minutes"),
        (
            "board: cards until the site has 1 GB",
            count(assumed.site_limit_bytes / constants.board.site_bytes_a_card),
        ),
    ]
    lines = ["| | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows)]
    return "\n".join(lines) + "\n"


def lab_table(constants: Constants) -> str:
    """Calls, tokens, dollars and hours of a lab's grid in the three cases of `ktdeval plan`."""
    lab = constants.lab
    cases = [lab.planned[case] for case in CASES]
    rows = [
        ("calls", [count(each.calls) for each in cases]),
        ("input tokens", [count(each.input_tokens) for each in cases]),
        ("output tokens", [count(each.output_tokens) for each in cases]),
        ("US dollars, no cache", [count(each.cost_usd) for each in cases]),
        ("US dollars, cached", [count(each.cached_cost_usd) for each in cases]),
    ]
    for seconds in lab.seconds_a_call:
        for at_once in lab.in_flight:
            label = f"hours at {seconds:g} s a call, {at_once} at once"
            hours = [each.calls * seconds / at_once / 3600 for each in cases]
            rows.append((label, [f"{each:,.1f}" for each in hours]))

    lines = ["| | low | typical | high |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows]
    return "\n".join(lines) + "\n"


def lab_machine_table(constants: Constants) -> str:
    """What the machine of a lab's grid has to bear in the typical case."""
    lab = constants.lab
    usage = lab.planned["typical"]
    computing = constants.computing
    cards = len(lab.models) * constants.assumed.masks * len(constants.steps)
    core_s = lab.steps * computing.step_s + usage.calls * computing.call_s
    core_s += cards * computing.card_s
    kept = constants.kept
    kept_bytes = lab.steps * kept.step_bytes + lab.episodes * kept.episode_bytes
    kept_bytes += usage.calls * kept.call_bytes
    kept_bytes += usage.output_tokens * kept.reply_bytes_a_token + cards * kept.card_bytes
    rows = [
        ("episodes", f"{lab.episodes:,}"),
        ("decisions", f"{lab.steps:,}"),
        ("cards", f"{cards:,}"),
        ("processor, all episodes and cards", f"{core_s / 3600:,.1f} core hours"),
        ("memory of a worker", f"{lab.worker_mib:,.0f} MiB"),
        ("disk", size(kept_bytes)),
    ]
    lines = ["| | |", "|---|--:|", *(f"| {name} | {figure} |" for name, figure in rows)]
    return "\n".join(lines) + "\n"


def count(number: float) -> str:
    """Two or three digits of a number, with a word for its size."""
    for unit, name in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"

    digits = max(0, len(str(int(number))) - 3)
    return f"{max(1, round(number, -digits)):,.0f}"


def size(number: float) -> str:
    """Bytes with a decimal unit."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number / 1e3:.3g} kB"


def pages() -> dict[Path, str]:
    """Return each page with its tables computed again."""
    constants = load()
    grid = Grid(constants)
    tables = {
        "usage": usage_table(grid),
        "load": load_table(grid),
        "lab": lab_table(constants),
        "lab_machine": lab_machine_table(constants),
    }
    made = {}
    for path in (PAGE, LAB_PAGE):
        made[path] = _TABLE.sub(
            lambda match: match[1] + "\n" + tables[match[2]] + "\n" + match[4],
            path.read_text(encoding="utf-8"),
        )

    return made


def measured_steps() -> dict[str, dict[str, list[float]]]:
    """Calls, input, output and cached tokens of a step by mode and case, as `ktdeval plan` counts
    them.
    """
    modes = list(load().steps)
    tasks = ",".join(f"blinded_{mode}" for mode in modes)
    words = [sys.executable, "-m", "ktdeval", "plan", "--model", "openai/gpt-4.1"]
    words += ["--tasks", tasks, "--windows", "W1", "--json"]
    planned = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, dict[str, list[float]]] = {}
    for task in json.loads(planned.stdout)["tasks"]:
        cases = {}
        for case in CASES:
            left = task["left"][case]
            names = ("calls", "input_tokens", "output_tokens", "cache_read_tokens")
            totals = [left[name] for name in names]
            cases[case] = [round(total / task["steps"], 1) for total in totals]

        found[task["task"].removeprefix("blinded_")] = cases

    return found


def lab_command(lab: Lab) -> list[str]:
    """Return the command that plans a lab's grid."""
    return ["plan", "ktd-fin", "--models", ",".join(lab.models)]


def planned_lab() -> dict[str, dict[str, float]]:
    """Calls, tokens and dollars of a lab's grid by case, as `ktdeval plan` counts them."""
    words = [sys.executable, "-m", "ktdeval", *lab_command(load().lab), "--json"]
    planned = subprocess.run(words, check=True, capture_output=True, text=True)
    total = json.loads(planned.stdout)["total"]
    names = [field.name for field in fields(PlannedUsage)]
    return {case: {name: total["left"][case][name] for name in names} for case in CASES}


def main() -> None:
    """Print the tables, write them, or measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables into their pages")
    parser.add_argument("--lab", action="store_true", help="a lab's grid by ktdeval plan")
    parser.add_argument("--measure", action="store_true", help="calls and tokens by ktdeval plan")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured_steps(), indent=1))
    elif options.lab:
        print(json.dumps(planned_lab(), indent=1))
    elif options.write:
        for path, text in pages().items():
            path.write_text(text, encoding="utf-8")
    else:
        constants = load()
        grid = Grid(constants)
        print(usage_table(grid))
        print(load_table(grid))
        print(lab_table(constants))
        print(lab_machine_table(constants))


if __name__ == "__main__":
    main()
