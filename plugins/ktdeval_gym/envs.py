"""Register ktdeval's environments with Gymnasium; importing this does it.

    import gymnasium
    import ktdeval_gym.envs
    env = gymnasium.make("ktdeval/Trading-v0", task="investorbench_msft_history")

Without the import: `gymnasium.make("ktdeval_gym.envs:ktdeval/Trading-v0", …)`, the form that Gymnasium
resolves by itself. Since 1.0 it reads no entry points of packages, so one of the two is needed.
"""

from __future__ import annotations

from ktdeval.values import install_command

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"environments need gymnasium: {install_command('gym')}", name="gymnasium"
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

ENVIRONMENTS = ("ktdeval/Broker-v0", "ktdeval/KtdFin-v0", "ktdeval/Trading-v0")


def _register() -> None:
    known = gymnasium.registry
    if ENVIRONMENTS[0] not in known:
        gymnasium.register(ENVIRONMENTS[0], entry_point=make_broker)
    if ENVIRONMENTS[1] not in known:
        gymnasium.register(
            ENVIRONMENTS[1], entry_point=make_ktdfin, vector_entry_point=make_ktdfin_vector
        )
    if ENVIRONMENTS[2] not in known:
        gymnasium.register(
            ENVIRONMENTS[2], entry_point=make_trading, vector_entry_point=make_trading_vector
        )


_register()
