"""Option for `compare power` that selects published designs and figures instead of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.cli import flag

Published = Literal["designs", "deepfund-3"]


@dataclass(frozen=True, kw_only=True)
class PublishedOptions:
    """Published designs or figures to report on, instead of a plan."""

    published: Published | None = flag(
        None,
        help=(
            "instead of a plan: the effects that the designs of the five papers can detect, or "
            "the evidence in the figures of DeepFund's Table 3"
        ),
    )
