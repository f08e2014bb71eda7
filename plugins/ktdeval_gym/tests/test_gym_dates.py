"""A reward is dated by the day on which it was earned, as everywhere else. Skipped if the extra
`gym` is not installed.
"""

from __future__ import annotations

import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

import ktdeval_gym.envs  # noqa: E402, F401 - registers the environments

WINDOW = "2020-10-02:2020-10-08"
DAYS = ["day_+1", "day_+2", "day_+3", "day_+4", "day_+5"]


def test_info_names_the_day_that_earned_the_reward_and_reset_the_base_day() -> None:
    env = gymnasium.make("ktdeval/Trading-v0", windows=WINDOW)
    _, info = env.reset(seed=0)
    assert info["day"] == "day_+0"

    days = []
    is_over = False
    while not is_over:
        _, _, is_ruined, is_last, info = env.step(env.action_space.sample())
        days.append(info["day"])
        is_over = is_ruined or is_last

    assert days == DAYS
    env.close()
