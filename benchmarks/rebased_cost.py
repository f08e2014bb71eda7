"""What the rebased tasks cost strategies that remember nothing: the table of
`identifiability_tables.md`.

    python benchmarks/rebased_cost.py [--data FOLDER] [--windows W1,…] [--rules momentum,…]

Each rule trades the plain task and the rebased one under one mask key. Returns are means over
windows, with the least and the largest difference of a window; decisions count as changed where
the set of (stock, side, weight to three digits) differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from informed_traders import INITIAL_MINOR, opened
from played_episodes import PLUGINS, market_of

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.trading.ledger import StepRecord

RULES = ("momentum", "reversal", "low_volatility", "equal_weight")
MODES = ("open_research", "fixed_candidate")
DAYS_A_YEAR = 252


def played(market: MarketSnapshot, name: str, rule: str, window: str) -> list[StepRecord]:
    """Records of an episode of a rule."""
    episode = opened(market, name, PLUGINS.make_model(f"builtin/{rule}", {}), window, 0)
    return [episode.run_step(step).step for step in range(episode.total_steps)]


def decided(step: StepRecord) -> frozenset[tuple[str | None, str, float]]:
    """A step's orders, as far as they are compared."""
    return frozenset(
        (order.code, order.side, round(order.target_weight or 0.0, 3)) for order in step.orders
    )


def figures(steps: Sequence[StepRecord]) -> tuple[float, float, float]:
    """Return, turnover a year and mean share of cash, of an episode."""
    traded = sum(order.notional_minor / step.nav_minor for step in steps for order in step.orders)
    cash = float(np.mean([step.cash_minor / step.nav_minor for step in steps]))
    return steps[-1].nav_minor / INITIAL_MINOR - 1.0, traded * DAYS_A_YEAR / len(steps), cash


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="synthetic", help="a snapshot's folder")
    parser.add_argument("--windows", default=",".join(f"W{number}" for number in range(1, 11)))
    parser.add_argument("--rules", default=",".join(RULES))
    options = parser.parse_args()
    market = market_of(options.data)
    print("| rule | return, % | difference | turnover a year | cash, % | decisions changed, % |")
    print("|---|---|---|---|---|---|")
    for mode in MODES:
        for rule in options.rules.split(","):
            print(cost_line(market, mode, rule, options.windows.split(",")), flush=True)


def cost_line(market: MarketSnapshot, mode: str, rule: str, windows: Sequence[str]) -> str:
    """One rule in one mode, the plain task against the rebased one."""
    found = []
    changed = []
    for window in windows:
        plain, rebased = (
            played(market, f"blinded_{task}", rule, window) for task in (mode, f"rebased_{mode}")
        )
        found.append((figures(plain), figures(rebased)))
        changed += [decided(one) != decided(two) for one, two in zip(plain, rebased, strict=True)]

    (before, turnover, cash), (after, other_turnover, other_cash) = np.mean(found, axis=0)
    differences = [100 * (two[0] - one[0]) for one, two in found]
    return (
        f"| {mode}: {rule} | {100 * before:.2f} → {100 * after:.2f} |"
        f" {np.mean(differences):+.2f} ({min(differences):.1f}…{max(differences):.1f}) |"
        f" {turnover:.1f} → {other_turnover:.1f} | {100 * cash:.1f} → {100 * other_cash:.1f} |"
        f" {100 * np.mean(changed):.1f} |"
    )


if __name__ == "__main__":
    main()
