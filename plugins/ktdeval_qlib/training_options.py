"""Choices of a training that both its options and its code name."""

from __future__ import annotations

from typing import Literal

Label = Literal["qlib", "open"]
"""Return to predict: close to close as Qlib publishes it, or open to open as fills are made."""

Device = Literal["cpu", "cuda"]
"""Where networks are trained."""
