"""Choices of a training that both its options and its code name."""

from __future__ import annotations

from typing import Literal

Algorithm = Literal["a2c", "ppo", "dqn"]
"""Algorithm of stable-baselines3."""
