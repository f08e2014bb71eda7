"""Parameters of models, in a separate module so that listing them imports nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.values.options.config_options import option


@dataclass(frozen=True)
class TopParams:
    """Portfolio of a model that predicts; KTD-Fin's (Appendix H) by default; its threshold, which
    the paper leaves blank, is ours.
    """

    positions: int = option(
        20,
        help="number of names held (in a smaller market: all of them); never more than the task"
        " allows",
        minimum=1,
        maximum=1000,
    )
    threshold: float = option(
        0.5,
        help=(
            "margin by which a name must beat the holding that it replaces, in standard"
            " deviations of the day's predictions"
        ),
        minimum=0.0,
        maximum=100.0,
    )
    invested: float = option(
        0.98,
        help="share of NAV to invest; the rest covers costs and gaps at the open",
        minimum=0.01,
        maximum=1.0,
    )
    trim_above: float = option(
        1.5,
        help="a holding is cut back when it exceeds this multiple of its target weight",
        minimum=1.01,
    )
