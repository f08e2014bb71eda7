"""Claims in reasons, judged by what was shown: figures, comparisons, directions, warnings,
research.

Example:
    from ktdeval_rationale.claims import ArguedOrder, judge_reason
"""

from ktdeval_rationale.claims.agreement import ClaimVerdict
from ktdeval_rationale.claims.argued_direction import ArguedOrder, DirectionClaim
from ktdeval_rationale.claims.comparison_claims import ComparisonClaim
from ktdeval_rationale.claims.figure_claims import FigureClaim
from ktdeval_rationale.claims.heeded_warnings import WarningOutcome, heeded_warnings
from ktdeval_rationale.claims.reason_scores import ReasonScores, judge_by_facts, judge_reason
from ktdeval_rationale.claims.research_traces import traced_results
from ktdeval_rationale.claims.shown_facts import ShownFacts

__all__ = (
    "ArguedOrder",
    "ClaimVerdict",
    "ComparisonClaim",
    "DirectionClaim",
    "FigureClaim",
    "ReasonScores",
    "ShownFacts",
    "WarningOutcome",
    "heeded_warnings",
    "judge_by_facts",
    "judge_reason",
    "traced_results",
)
