"""No policy earns by looking: a thousand random ones whose commands depend on what is shown, against twins that saw another day."""

from __future__ import annotations

import numpy as np

from qfinzero_adaptive import EXPERTS, gaps, p_value, random_policy, significant, taking_back, walk

POLICIES, BEST = 1_000, 20


def test_no_policy_earns_more_than_its_command_blind_twin() -> None:
    walks = [walk(seed, 4) for seed in range(20)]
    policies = {f"policy {seed}": random_policy(seed) for seed in range(POLICIES)}
    found = {name: gaps(walks[place % len(walks)], policy) for place, (name, policy) in enumerate(policies.items())}
    kinds = sorted(set().union(*(policy.kinds for policy in policies.values())))
    assert kinds == ["bracket", "cancel", "modify", "place", "stop", "switch"]
    means = {name: float(gap.mean()) for name, gap in found.items()}
    pooled = {kind: np.array([means[name] for name, policy in policies.items() if kind in policy.kinds]) for kind in kinds}
    assert all((values != 0).mean() > 0.1 for values in pooled.values()), "enough of what they do takes effect"
    assert significant({kind: p_value(values) for kind, values in pooled.items()}) == []
    # The best are tried again on days that they were not chosen by.
    fresh = walk(1_000, 24)
    best = sorted(means, key=lambda name: means[name])[-BEST:]
    assert significant({name: p_value(gaps(fresh, policies[name])) for name in best}) == []


def test_the_check_finds_each_way_of_taking_an_order_back() -> None:
    """Policies made for it earn nothing more than their twins, and all are found out on a broker that lets orders be taken back."""
    on = walk(1, 60)
    assert significant({name: p_value(gaps(on, policy)) for name, policy in EXPERTS.items()}) == []
    with taking_back():
        assert sorted(significant({name: p_value(gaps(on, policy)) for name, policy in EXPERTS.items()})) == sorted(EXPERTS)
