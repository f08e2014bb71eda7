"""No policy earns by looking: a thousand random ones whose commands depend on what is shown, against twins that saw another day.
Without statistics, bar by bar: test_qfinzero_pmb_binding.py.
"""

from __future__ import annotations

import numpy as np

from qfinzero_adaptive import EXPERTS, gaps, p_value, random_policy, significant, taking_back, walk

POLICIES = 1_000
ROUNDS = ((4, 150, range(20)), (12, 20, range(100, 110)))
"""Days, how many of the policies go on, and seeds of the walks that they are shared out to."""


def earning(tried: int = POLICIES, fresh_days: int = 60) -> tuple[list[str], float]:
    """(policies that earn more than their twins, p-value of all that were left together): those that were best twice are tried
    again on days that they were not chosen by.
    """
    policies = {f"policy {seed}": random_policy(seed) for seed in range(tried)}
    for days, left, seeds in ROUNDS:
        walks = [walk(seed, days) for seed in seeds]
        gaps_of = {name: gaps(walks[index % len(walks)], policy) for index, (name, policy) in enumerate(policies.items())}
        best = sorted(gaps_of, key=lambda name: gaps_of[name].mean() / (gaps_of[name].std() + 50))[-left:]
        policies = {name: policies[name] for name in best}
    fresh = walk(1_000, fresh_days)
    last = {name: gaps(fresh, policy) for name, policy in policies.items()}
    return significant({name: p_value(gap) for name, gap in last.items()}), p_value(np.mean(list(last.values()), axis=0))


def test_no_policy_earns_more_than_its_command_blind_twin() -> None:
    kinds = set[str]().union(*(random_policy(seed).kinds for seed in range(POLICIES)))
    assert kinds == {"bracket", "cancel", "modify", "place", "stop", "switch"}
    names, together = earning()
    assert (names, together > 0.01) == ([], True)


def test_the_same_policies_earn_on_a_broker_that_lets_orders_be_taken_back() -> None:
    with taking_back():
        assert earning(60)[1] < 0.001  # fewer are enough to find it


def test_the_check_finds_each_way_of_taking_an_order_back() -> None:
    """Policies made for it earn nothing more than their twins, and all are found out on a broker that lets orders be taken back."""
    on = walk(1, 60)
    assert significant({name: p_value(gaps(on, policy)) for name, policy in EXPERTS.items()}) == []
    with taking_back():
        assert sorted(significant({name: p_value(gaps(on, policy)) for name, policy in EXPERTS.items()})) == sorted(EXPERTS)
