"""Types of what only a server takes and answers (`types.yaml`): workspaces, errors, and the broker's log."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ktdeval_qfinzero.errors import Code
from ktdeval_qfinzero.schemas import load_types

__getattr__ = load_types({"ErrorCode": Literal[Code, "internal"]}, Path(__file__).with_name("types.yaml"))
