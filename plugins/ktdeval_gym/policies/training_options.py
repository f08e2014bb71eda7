"""Names of training choices, shared by options and code."""

from __future__ import annotations

from typing import Literal

Algorithm = Literal["a2c", "ppo", "dqn"]
"""Training algorithm in stable-baselines3."""
