"""Steps a second of many portfolios at once, beside a single one. Needs the extra `gym`."""

from __future__ import annotations

import time
from importlib.util import find_spec

from figures import Figure, Scale

PORTFOLIO_TASK = "blinded_fixed_candidate"
PORTFOLIO_WINDOW = "W1"
PORTFOLIO_STEPS: dict[Scale, int] = {"quick": 4, "usual": 40, "full": 42}
PORTFOLIOS = 64


def figures(scale: Scale) -> list[Figure]:
    """Return the figures; empty where Gymnasium is not installed."""
    if find_spec("gymnasium") is None:
        return []
    return [portfolio_figure(scale)]


def portfolio_figure(scale: Scale) -> Figure:
    """Return the ratio of many portfolios at once to a single one, on a task of KTD-Fin."""
    from ktdeval_gym.open_task import OpenedTask, TaskChoice  # noqa: PLC0415
    from ktdeval_gym.portfolio_vector import PortfolioVectorEnv  # noqa: PLC0415
    from ktdeval_gym.task_env import TaskEnv  # noqa: PLC0415

    opened = OpenedTask.of(TaskChoice(PORTFOLIO_TASK, windows=(PORTFOLIO_WINDOW,)))
    (window,) = opened.windows
    steps = PORTFOLIO_STEPS[scale]
    many = PortfolioVectorEnv(opened, [window] * PORTFOLIOS)
    single = TaskEnv(opened, window)
    many.reset()
    single.reset()
    actions = [many.action_space.sample() for _ in range(steps)]
    began = time.process_time()
    for action in actions:
        many.step(action)
    ours = PORTFOLIOS * steps / (time.process_time() - began)

    began = time.process_time()
    for action in actions:
        single.step(action[0])
    rate = steps / (time.process_time() - began)

    return Figure(
        group="gym",
        name="steps a second of portfolios at once",
        unit="steps/s",
        ours=ours,
        peer=rate,
        peer_name="single TaskEnv",
        ratio=ours / rate,
        direction="at_least",
        bar=5.0,
        note=f"{PORTFOLIOS} accounts of {PORTFOLIO_TASK}, {PORTFOLIO_WINDOW}, first {steps} steps; CPU time",
    )
