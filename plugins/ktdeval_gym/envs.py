"""Importing this module registers ktdeval's environments with Gymnasium.

    import gymnasium
    import ktdeval_gym.envs
    env = gymnasium.make("ktdeval/Trading-v0", task="investorbench_msft_history")

Without the import, Gymnasium can resolve the module by itself:
`gymnasium.make("ktdeval_gym.envs:ktdeval/Trading-v0", …)`. Since version 1.0, Gymnasium ignores
package entry points, so one of the two forms is needed.
"""

from __future__ import annotations

from ktdeval.values import import_problem, install_command

try:
    import gymnasium
except ImportError as error:
    problem = import_problem(error, "gymnasium")
    raise ModuleNotFoundError(
        f"environments: {problem}: {install_command('gym')}", name="gymnasium"
    ) from error

from ktdeval_gym.gymnasium_makers import (
    make_broker,
    make_ktdfin,
    make_ktdfin_vector,
    make_trading,
    make_trading_vector,
)

__all__ = [
    "ENVIRONMENTS",
    "make_broker",
    "make_ktdfin",
    "make_ktdfin_vector",
    "make_trading",
    "make_trading_vector",
]

ENVIRONMENTS = {
    "ktdeval/Broker-v0": (make_broker, None),
    "ktdeval/KtdFin-v0": (make_ktdfin, make_ktdfin_vector),
    "ktdeval/Trading-v0": (make_trading, make_trading_vector),
}
"""Functions that make a single environment and a vector environment, keyed by environment name."""

for _name, (_make, _make_vector) in ENVIRONMENTS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_make, vector_entry_point=_make_vector)
