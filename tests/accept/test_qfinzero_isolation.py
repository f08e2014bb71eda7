"""Workspaces over one dataset know nothing of each other: side by side, in threads, and whatever is
done to what they answered.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.values import dumps_canonical
from ktdeval_qfinzero.benchmark.template_slots import SlotWording
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.rows import EventRelease, EventRow
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.timestamps import moment_text
from support.qfinzero.qfinzero_fuzz import Maker
from support.qfinzero.qfinzero_memory import MemoryCalendars
from support.qfinzero.qfinzero_scenario import day, in_process, played
from support.qfinzero.qfinzero_synthetic import small_market
from support.qfinzero.qfinzero_world import at, small_dataset
from support.tables import beside

Call = tuple[str, Any]
WORLD = small_dataset()
NESTED = EventRow(
    "econ_nested",
    "macro_calendar",
    "Values in values",
    at("2025-01-06T15:00:00Z"),
    at("2024-12-02T00:00:00Z"),
    "high",
    expected={"bands": [1.0, {"low": 0.5}]},
    releases=(EventRelease(at("2025-01-06T15:00:00Z"), {"actual": {"core": [1, 2]}}),),
)


def alone(dataset: Dataset, calls: list[Call]) -> tuple[list[str], tuple[str, ...]]:
    """Bytes of all answers, and the broker's log."""
    workspace = Workspace(dataset)
    return [
        dumps_canonical(answer) for *_, answer in played(calls, in_process(workspace))
    ], workspace.broker.log.to_lines()


def made_up_calls(seed: int, count: int) -> list[Call]:
    """Another client's: an account, a session, then whatever comes."""
    random = Random(seed)
    maker = Maker(random)
    begun = {
        "account_id": "acct-000001",
        "start_ts": "2025-01-07",
        "end_ts": "2025-01-31",
        "frequency": "1d",
    }
    calls: list[Call] = [
        ("PMB.account.create", {"account_type": random.choice(("MARGIN", "CASH"))})
    ]
    calls += [("PMB.session.create", {**begun, "universe": {"stocks": ["AVLN", "BRKT"]}})]
    names = [operation.name for operation in catalogue().operations] + [
        "PMB.order.place",
        "PMB.session.step",
    ] * 8
    chosen = random.choices(names, k=count)

    return calls + [(name, maker.arguments(catalogue().find(name))) for name in chosen]


# ---- side by side


@pytest.mark.exhaustive
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.randoms(use_true_random=True))
@settings(max_examples=6, derandomize=True)
def test_two_clients_in_any_order_get_what_each_gets_alone(
    one: int, other: int, random: Random
) -> None:
    calls = [made_up_calls(one, 60), made_up_calls(other, 60)]
    workspaces = [Workspace(WORLD), Workspace(WORLD)]
    got: list[list[str]] = [[], []]
    turns = [0] * len(calls[0]) + [1] * len(calls[1])
    random.shuffle(turns)

    for turn in turns:
        got[turn].append(
            dumps_canonical(catalogue().answer(workspaces[turn], *calls[turn][len(got[turn])]))
        )

    assert Workspace(WORLD).clock.as_of_ns == WORLD.info.default_as_of_ns

    for number in (0, 1):
        assert (got[number], workspaces[number].broker.log.to_lines()) == alone(
            WORLD, calls[number]
        )


# ---- what becomes of answers


def spoil(value: Any) -> None:
    """Change an answer in all its parts."""
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)

        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            spoil(item)

        value.append("spoilt")


def test_client_changes_to_answers_and_arguments_do_not_affect_others() -> None:
    """Tools in the process hand out and take objects, not texts."""
    calendars = WORLD.calendars

    assert isinstance(calendars, MemoryCalendars)

    dataset = replace(WORLD, calendars=MemoryCalendars([*calendars.rows, NESTED]))
    window = {"mode": "window", "start_utc": "2025-01-01", "end_utc": "2025-02-01", "view": "full"}
    more: list[Call] = [
        ("ESP.events.query", window),
        ("ESP.events.get", {"event_id": "econ_nested"}),
        ("ESP.events.stream", {}),
    ]
    calls = [*more, *day(), *more, *made_up_calls(7, 100)]
    expected = alone(dataset, calls)
    workspace = Workspace(dataset)
    got = []

    for name, arguments in calls:
        own = deepcopy(arguments)
        answer = catalogue().answer(workspace, name, own)
        got.append(dumps_canonical(answer))
        spoil(answer)
        spoil(own)

    assert (got, workspace.broker.log.to_lines()) == expected
    assert alone(dataset, calls) == expected


# ---- in threads


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The reduced synthetic market in files, with so little room in its caches that threads drive
    each other's data out.
    """
    market = small_market()
    folder = tmp_path_factory.mktemp("filed") / "market"
    save_dataset(folder, market.prices, market.events, market.news, market.info)

    return open_dataset(folder, cache_bytes=400_000)


def busy_calls(dataset: Dataset, seed: int) -> list[Call]:
    """Reads all over the files, and trading in between."""
    random = Random(seed)
    choice = random.choice
    tickers = [
        row.symbol
        for row in dataset.prices.symbols(dataset.info.default_as_of_ns)
        if row.asset_class == "stock"
    ]
    start = {
        "start_ts": moment_text(dataset.info.default_as_of_ns),
        "end_ts": "2024-12-31",
        "universe": {"stocks": tickers[:4]},
    }
    calls: list[Call] = [
        ("PMB.account.create", {}),
        ("PMB.session.create", {"account_id": "acct-000001", **start}),
    ]

    for _ in range(12):
        facts = {
            "ticker": choice(tickers),
            "last": choice(("2024-11-20", "2024-12-17", "2024-12-23")),
            "stock": choice(tickers[:4]),
            "ticks": choice((1, 20)),
        }
        wording = SlotWording(np.random.default_rng(0), {}, facts)
        possible = map(tuple, wording.fill(beside(__file__)["busy"]))
        calls += random.sample(list(possible), 4)

    return calls


@contextmanager
def switching_often() -> Iterator[None]:
    """Threads take turns every few instructions."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    try:
        yield
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.exhaustive
def test_threads_over_one_dataset_of_files_get_what_each_gets_alone(filed: Dataset) -> None:
    scripts = [busy_calls(filed, seed) for seed in range(2)]
    expected = [alone(filed, script) for script in scripts]
    begin = threading.Barrier(len(scripts))

    def client(script: list[Call]) -> Any:
        begin.wait()
        return alone(filed, script)

    with switching_often(), ThreadPoolExecutor(len(scripts)) as pool:
        started = [pool.submit(client, script) for script in scripts]
        got = [each.result() for each in started]

    assert [mine == whole for mine, whole in zip(got, expected, strict=True)] == [True] * len(
        scripts
    )
