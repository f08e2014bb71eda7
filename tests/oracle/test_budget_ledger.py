"""A budget of two models against a ledger in a dozen lines: whatever is reserved, settled, held,
released and added from earlier sessions, in any order; and which of these the plays have met.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st

from ktdeval.calls.budget import Budget, Reservation, max_request_tokens
from ktdeval.calls.costs.prices import Price
from ktdeval.calls.records.record import Spent
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import BudgetError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Usage
from support.searching import examples

PRICES = (Price(input=2.0, output=10.0), Price(input=0.4, output=3.0))
MOVES = 40
Reach = Counter[tuple[str, str]]


@dataclass
class Accounts:
    """What has been spent, may have been and may be, in US dollars and tokens."""

    limits: tuple[float, int]
    spent: list[float]
    possibly: list[float]
    reserved: dict[int, list[float]] = field(default_factory=dict)  #: by number of the call
    stretch: float = 1.0  #: by how much a reply has exceeded its bound

    def sums(self, *, with_reserved: bool) -> list[float]:
        lines = [self.spent, self.possibly]
        if with_reserved:
            lines += self.reserved.values()
        return [sum(line[unit] for line in lines) for unit in (0, 1)]

    def fits(self, most: list[float], *, with_reserved: bool) -> bool:
        used = self.sums(with_reserved=with_reserved)
        return all(used[unit] + most[unit] <= self.limits[unit] for unit in (0, 1))

    def most(self, price: Price, bound: tuple[int, int]) -> list[float]:
        reads, writes = (-int(-part * self.stretch // 1) for part in bound)
        return [(reads * price.input + writes * price.output) / 1e6, reads + writes]


def asked(chance: random.Random) -> ModelRequest:
    params = CallParams(max_output_tokens=chance.choice((50, 200, 1_000)))
    return ModelRequest((Message("user", "x" * chance.choice((1, 400))),), params=params)


def refuse_to_wait() -> None:
    """Fail instead of waiting for ever: nobody ends a call meanwhile."""
    raise AssertionError(
        "a call waits that the ledger has room for, or that no call makes room for"
    )


def play(seed: int) -> Reach:
    chance = random.Random(seed)
    reach: Reach = Counter()
    limits = (chance.choice((0.01, 0.05)), chance.choice((5_000, 20_000)))
    earlier = chance.choice((0.0, 0.002))
    accounts = Accounts(limits, [earlier, 300], [0.001, 0])
    spent = Spent(earlier, 0.001, input_tokens=100, output_tokens=200)
    budgets = [Budget(limits, PRICES[0], spent, StopSignal())]
    second = chance.choice((0.0, 0.003))
    budgets.append(budgets[0].beside(PRICES[1], second))
    accounts.spent[0] += second
    reach["beside", "earlier dollars" if second and earlier else "none"] += 1
    calls: dict[int, tuple[int, Reservation]] = {}

    for number in range(MOVES):
        model = chance.randrange(2)
        if calls and chance.random() < 0.5:
            ended = chance.choice(list(calls))
            end_call(chance, budgets, accounts, calls.pop(ended), ended, reach)
            continue

        request = asked(chance)
        most = accounts.most(PRICES[model], max_request_tokens(request))
        if accounts.fits(most, with_reserved=True):
            calls[number] = model, budgets[model].reserve(request, refuse_to_wait)
            accounts.reserved[number] = most
            reach["reserve", f"model {model}"] += 1
        elif not calls:
            with pytest.raises(BudgetError) as refused:
                budgets[model].reserve(request, refuse_to_wait)
            named = "max-cost" if "--max-cost" in str(refused.value) else "max-tokens"
            reach["refuse", named] += 1
        # else the call would wait for the others

    return reach


def end_call(
    chance: random.Random,
    budgets: list[Budget],
    accounts: Accounts,
    call: tuple[int, Reservation],
    number: int,
    reach: Reach,
) -> None:
    """End a call in one of the ways in which calls end."""
    model, reservation = call
    price = PRICES[model]
    most = accounts.reserved.pop(number)
    # a reservation may be ended through either model's budget
    budget = budgets[chance.choice((model, 1 - model))]
    way = chance.choice(("settle", "settle", "hold", "release", "beyond its bound"))
    reach[way, f"model {model}"] += 1
    if way == "release":
        assert budget.release(reservation) == 0.0
    elif way == "hold":
        assert budget.hold(reservation) == pytest.approx(most[0])
        accounts.possibly = [accounts.possibly[unit] + most[unit] for unit in (0, 1)]
    else:
        reads, writes = reservation.bound
        usage = Usage(chance.randint(1, reads), chance.randint(0, writes))
        if way == "beyond its bound" and chance.random() < 0.3:
            usage = Usage(reads, int(writes * 1.5))
        cost = (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6
        assert budget.settle(reservation, usage) == pytest.approx(cost)
        accounts.spent[0] += cost
        accounts.spent[1] += usage.input_tokens + usage.output_tokens
        accounts.stretch = max(accounts.stretch, usage.output_tokens / writes)


WAYS = ("reserve", "settle", "hold", "release", "beyond its bound")


def test_a_budget_makes_the_calls_that_its_ledger_has_room_for() -> None:
    reach: Reach = Counter()

    @examples(300)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        reach.update(play(seed))

    check()
    expected = {(way, f"model {model}") for way in WAYS for model in (0, 1)}
    expected |= {("refuse", "max-cost"), ("refuse", "max-tokens"), ("beside", "earlier dollars")}
    assert expected <= reach.keys(), f"never met: {sorted(expected - reach.keys())}"
