"""Parameters of the models `rl/policy` and `gym/actions`."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.values import option


@dataclass(frozen=True)
class PolicyParams:
    """Parameters of `rl/policy`. The last two are filled in from the file and recorded."""

    policy: str = option(help="file of the policy, as `ktdeval train rl` writes it")
    sha256: str | None = option(
        None, help="SHA-256 that the file must have; recorded with each run"
    )
    trained: str | None = option(
        None, help="days of training that the file must state, FIRST:LAST; recorded with each run"
    )


@dataclass(frozen=True)
class ActionsParams:
    """Parameters of `gym/actions`."""

    file: str = option(help="recorded actions, as an environment with `out` writes them")
    sha256: str | None = option(
        None, help="SHA-256 that the file must have; recorded with each run"
    )
