"""Public names of the statistics: metrics, intervals, tests."""

from ktdeval.stats.anytime import (
    Sequence as Sequence,
    asymptotic_sequence as asymptotic_sequence,
    expected_half_width as expected_half_width,
    mixture_variance as mixture_variance,
    symmetric_sequence as symmetric_sequence,
)
from ktdeval.stats.bootstrap import (
    MIN_DAYS as MIN_DAYS,
    Bootstrap as Bootstrap,
    block_days as block_days,
    episode_intervals as episode_intervals,
    stationary_indices as stationary_indices,
)
from ktdeval.stats.calibration import (
    Forecast as Forecast,
    brier_terms as brier_terms,
    filled_orders as filled_orders,
    judged_orders as judged_orders,
    next_return as next_return,
    reliability_points as reliability_points,
)
from ktdeval.stats.confidence_set import (
    ExcessIntervals as ExcessIntervals,
    TieGroups as TieGroups,
    benjamini_hochberg as benjamini_hochberg,
    excess_intervals as excess_intervals,
    holm as holm,
    tie_groups as tie_groups,
)
from ktdeval.stats.data_limits import (
    MIN_RETURNS as MIN_RETURNS,
    annualisation_problem as annualisation_problem,
    dominance_words as dominance_words,
    dominant_return as dominant_return,
    yearly_return_problem as yearly_return_problem,
)
from ktdeval.stats.distributions import (
    chi_square_above as chi_square_above,
    normal_effect as normal_effect,
    normal_probability as normal_probability,
    normal_quantile as normal_quantile,
    student_probability as student_probability,
    student_quantile as student_quantile,
)
from ktdeval.stats.factorial_effects import (
    INDEPENDENT as INDEPENDENT,
    LENGTH_RATIO as LENGTH_RATIO,
    MASK_FACTORS as MASK_FACTORS,
    MODE_PIECES as MODE_PIECES,
    MeanEstimate as MeanEstimate,
    Variant as Variant,
    blocks_of as blocks_of,
    effective_count as effective_count,
    estimate_mean as estimate_mean,
    ladder_contributions as ladder_contributions,
    left_out_windows as left_out_windows,
    mask_contrasts as mask_contrasts,
    mean_with_interval as mean_with_interval,
    overlap_correlation as overlap_correlation,
    shared_days as shared_days,
    variant_order as variant_order,
    window_means as window_means,
)
from ktdeval.stats.intervals import (
    MIN_RESAMPLED as MIN_RESAMPLED,
    Interval as Interval,
    clopper_pearson_upper as clopper_pearson_upper,
    ends_of_difference as ends_of_difference,
    no_interval as no_interval,
    poisson_binomial as poisson_binomial,
    studentised_mean as studentised_mean,
    wilson as wilson,
)
from ktdeval.stats.metric import (
    NEVER as NEVER,
    FunctionMetric as FunctionMetric,
    Metric as Metric,
    MetricValue as MetricValue,
    Range as Range,
    RecordedTranscript as RecordedTranscript,
    RuleSet as RuleSet,
    is_never as is_never,
    never_in as never_in,
)
from ktdeval.stats.metric_panel import panel_metric as panel_metric
from ktdeval.stats.paired import (
    EXACT_UP_TO as EXACT_UP_TO,
    NULL_DRAWS as NULL_DRAWS,
    RankNull as RankNull,
    Shift as Shift,
    SignedRank as SignedRank,
    SignFlip as SignFlip,
    correlated_normals as correlated_normals,
    correlated_null as correlated_null,
    hodges_lehmann as hodges_lehmann,
    level_sizes as level_sizes,
    overlap_null as overlap_null,
    positive_rank_sums as positive_rank_sums,
    rank_null as rank_null,
    sign_flip as sign_flip,
    signed_rank as signed_rank,
)
from ktdeval.stats.panel_names import DIAGNOSTICS as DIAGNOSTICS, PANEL_FAMILIES as PANEL_FAMILIES
from ktdeval.stats.performance_metrics import (
    benchmark_levels as benchmark_levels,
    benchmark_problem as benchmark_problem,
)
from ktdeval.stats.random_traders import (
    EnvelopeSettings as EnvelopeSettings,
    TraderEnvelope as TraderEnvelope,
    envelope_problem as envelope_problem,
    random_envelope as random_envelope,
    rank_among as rank_among,
)
from ktdeval.stats.resampling import Resampling as Resampling
from ktdeval.stats.return_paths import (
    Drawdown as Drawdown,
    MonthReturn as MonthReturn,
    Rolling as Rolling,
    YearReturn as YearReturn,
    beta as beta,
    cagr as cagr,
    calmar as calmar,
    hit_rate as hit_rate,
    monthly_returns as monthly_returns,
    rolling_beta as rolling_beta,
    rolling_sharpe as rolling_sharpe,
    underwater as underwater,
    worst_drawdowns as worst_drawdowns,
    yearly_returns as yearly_returns,
)
from ktdeval.stats.sequential import (
    Look as Look,
    NormalBoundaries as NormalBoundaries,
    SequentialTest as SequentialTest,
    SignStatistic as SignStatistic,
    SpendingFunction as SpendingFunction,
    alpha_spent as alpha_spent,
    looks_that_can_stop as looks_that_can_stop,
    normal_boundaries as normal_boundaries,
    sequential_signs as sequential_signs,
    stopping_probabilities as stopping_probabilities,
)
from ktdeval.stats.series import (
    NO_VARIANCE as NO_VARIANCE,
    TRADING_DAYS as TRADING_DAYS,
    Same as Same,
    automatic_lags as automatic_lags,
    beta_to as beta_to,
    day_rows as day_rows,
    has_no_variance as has_no_variance,
    information_ratio as information_ratio,
    least_squares as least_squares,
    level_problem as level_problem,
    max_drawdown as max_drawdown,
    mean as mean,
    newey_west_mean as newey_west_mean,
    sharpe as sharpe,
    simple_returns as simple_returns,
    sortino as sortino,
    standard_deviation as standard_deviation,
    total_return as total_return,
    volatility as volatility,
)
from ktdeval.stats.sharpe_significance import (
    SharpeMoments as SharpeMoments,
    deflated_sharpe_ratio as deflated_sharpe_ratio,
    expected_best_sharpe as expected_best_sharpe,
    minimum_track_record as minimum_track_record,
    probabilistic_sharpe as probabilistic_sharpe,
    shape_of as shape_of,
)
