"""The one module that plugins import: every public name of the library and the suite, loaded only when used.

A manifest that needs `Spec` and `hookimpl` to say what it offers must not pay for pandas, so each name is resolved at its first
use (PEP 562). The list of names is frozen by a test: adding one is a decision, removing one breaks somebody's plugin.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ktdeval.attribution.cohorts import cohort_exposures as cohort_exposures, compare_ranks as compare_ranks
    from ktdeval.attribution.decompose import (
        Attribution as Attribution,
        attribute as attribute,
        attribution_problem as attribution_problem,
    )
    from ktdeval.attribution.factors import (
        FACTORS as FACTORS,
        FactorDefinition as FactorDefinition,
        FactorTable as FactorTable,
        factor_values as factor_values,
        standardise as standardise,
    )
    from ktdeval.attribution.fit import Fit as Fit, fit_factors as fit_factors
    from ktdeval.cards.aggregate import derived_fields as derived_fields
    from ktdeval.cards.check import load_card as load_card, parse_card as parse_card, validate_card as validate_card
    from ktdeval.config import RunConfig as RunConfig
    from ktdeval.errors import (
        CardError as CardError,
        ConfigError as ConfigError,
        DataError as DataError,
        EpisodeFailure as EpisodeFailure,
        InvariantError as InvariantError,
        KtdevalError as KtdevalError,
        LeakError as LeakError,
        LookAheadError as LookAheadError,
        ModelError as ModelError,
        PluginError as PluginError,
        ProviderError as ProviderError,
        StoreError as StoreError,
        UsageError as UsageError,
        VerificationError as VerificationError,
    )
    from ktdeval.fields import build as build, near_matches as near_matches, option as option, to_mapping as to_mapping
    from ktdeval.harness.agent import (
        Agent as Agent,
        Decision as Decision,
        Desk as Desk,
        Observation as Observation,
        Submission as Submission,
        ToolResult as ToolResult,
    )
    from ktdeval.harness.config import HarnessConfig as HarnessConfig
    from ktdeval.harness.messages import (
        CallParams as CallParams,
        FinishReason as FinishReason,
        Message as Message,
        Model as Model,
        ModelRequest as ModelRequest,
        Reply as Reply,
        ToolCall as ToolCall,
        ToolProtocol as ToolProtocol,
        ToolSpec as ToolSpec,
        Usage as Usage,
    )
    from ktdeval.harness.provider import RemoteModel as RemoteModel
    from ktdeval.harness.tools import (
        AssetArg as AssetArg,
        Bounds as Bounds,
        DayArg as DayArg,
        Length as Length,
        Refusal as Refusal,
        Tool as Tool,
        call as call,
        json_tool as json_tool,
        tool as tool,
    )
    from ktdeval.hookspecs import Spec as Spec, hookimpl as hookimpl
    from ktdeval.jsonio import (
        JsonValue as JsonValue,
        content_hash as content_hash,
        dumps_canonical as dumps_canonical,
        dumps_pretty as dumps_pretty,
        file_sha256 as file_sha256,
        loads_strict as loads_strict,
        sha256_hex as sha256_hex,
        write_atomic as write_atomic,
    )
    from ktdeval.market.assemble import assemble as assemble
    from ktdeval.market.calendar import sessions as sessions, window_rows as window_rows
    from ktdeval.market.codes import (
        DAILY_LIMIT_PCT as DAILY_LIMIT_PCT,
        Board as Board,
        board_of as board_of,
        parse_code as parse_code,
    )
    from ktdeval.market.quality import Finding as Finding, RawMarket as RawMarket
    from ktdeval.market.snapshot import (
        BoolArray as BoolArray,
        DayArray as DayArray,
        FloatArray as FloatArray,
        MarketSnapshot as MarketSnapshot,
        MarketView as MarketView,
        SnapshotMeta as SnapshotMeta,
    )
    from ktdeval.market.storage import load_snapshot as load_snapshot, save_snapshot as save_snapshot, with_id as with_id
    from ktdeval.masking.lens import MASK_KINDS as MASK_KINDS, Lens as Lens, MaskConfig as MaskConfig
    from ktdeval.masking.payload import (
        AssetName as AssetName,
        AssetRef as AssetRef,
        DayRef as DayRef,
        Exact as Exact,
        IndexLevel as IndexLevel,
        Payload as Payload,
        Price as Price,
        SectorRef as SectorRef,
        Shares as Shares,
    )
    from ktdeval.masking.rationale import (
        LEAK_CATEGORIES as LEAK_CATEGORIES,
        LEAKS_REMOVED_BY as LEAKS_REMOVED_BY,
        Mention as Mention,
        RationaleLinter as RationaleLinter,
    )
    from ktdeval.masking.rationale_similarity import (
        Encoder as Encoder,
        NgramEncoder as NgramEncoder,
        SimilarityLinter as SimilarityLinter,
    )
    from ktdeval.masking.render import render_json as render_json
    from ktdeval.registry import Plugins as Plugins, load_plugins as load_plugins
    from ktdeval.runner.backend import EpisodeOutcome as EpisodeOutcome, Runner as Runner
    from ktdeval.runner.data_source import open_snapshot as open_snapshot
    from ktdeval.runner.events import (
        CallDelayed as CallDelayed,
        EpisodeFailed as EpisodeFailed,
        EpisodeFinished as EpisodeFinished,
        EpisodeStarted as EpisodeStarted,
        Event as Event,
        SampleFinished as SampleFinished,
        StepFinished as StepFinished,
    )
    from ktdeval.runner.ledger_file import load_ledger as load_ledger
    from ktdeval.runner.redaction import redact_secrets as redact_secrets
    from ktdeval.runner.run import RunResult as RunResult, evaluate as evaluate
    from ktdeval.runner.score import open_recorded_snapshot as open_recorded_snapshot, rescore as rescore
    from ktdeval.runner.scoring import (
        AnswerRecord as AnswerRecord,
        Bench as Bench,
        Exam as Exam,
        Sample as Sample,
        Score as Score,
        ScoreDefinition as ScoreDefinition,
        ScoringTask as ScoringTask,
        Subject as Subject,
    )
    from ktdeval.runner.spec import EpisodeSpec as EpisodeSpec, Window as Window
    from ktdeval.runner.store import RunFolder as RunFolder, pack_lines as pack_lines
    from ktdeval.runner.subjects import describe_any as describe_any
    from ktdeval.runner.task import Scene as Scene, Task as Task
    from ktdeval.runner.trials import Trials as Trials, count_trials as count_trials
    from ktdeval.runner.verify import Verification as Verification, verify_card as verify_card
    from ktdeval.seeds import derive_seed as derive_seed
    from ktdeval.stats.bootstrap import (
        Bootstrap as Bootstrap,
        Resampling as Resampling,
        episode_intervals as episode_intervals,
        episode_resampling as episode_resampling,
    )
    from ktdeval.stats.calibration import Forecast as Forecast, judged_orders as judged_orders
    from ktdeval.stats.calibration_terms import brier_terms as brier_terms, reliability_points as reliability_points
    from ktdeval.stats.envelope import (
        Envelope as Envelope,
        EnvelopeSettings as EnvelopeSettings,
        random_envelope as random_envelope,
    )
    from ktdeval.stats.factorial import MASK_FACTORS as MASK_FACTORS, mask_contrasts as mask_contrasts
    from ktdeval.stats.hac import newey_west_mean as newey_west_mean, t_of_mean as t_of_mean
    from ktdeval.stats.intervals import Interval as Interval
    from ktdeval.stats.ladder import (
        MODE_PIECES as MODE_PIECES,
        MODE_PRECEDENCE as MODE_PRECEDENCE,
        order_averaged as order_averaged,
    )
    from ktdeval.stats.ledoit_wolf import SharpeDifference as SharpeDifference, sharpe_difference as sharpe_difference
    from ktdeval.stats.luck import deflated_sharpe_ratio as deflated_sharpe_ratio
    from ktdeval.stats.metric import Metric as Metric, MetricValue as MetricValue, Range as Range, RuleSet as RuleSet
    from ktdeval.stats.model_confidence_set import (
        ConfidenceSet as ConfidenceSet,
        Ties as Ties,
        model_confidence_set as model_confidence_set,
        tie_groups as tie_groups,
    )
    from ktdeval.stats.multiple import benjamini_hochberg as benjamini_hochberg, holm as holm
    from ktdeval.stats.overlap import (
        blocks_of as blocks_of,
        effective_count as effective_count,
        mean_with_interval as mean_with_interval,
        overlap_correlation as overlap_correlation,
    )
    from ktdeval.stats.paired import (
        RankNull as RankNull,
        Shift as Shift,
        SignedRank as SignedRank,
        SignFlip as SignFlip,
        correlated_null as correlated_null,
        hodges_lehmann as hodges_lehmann,
        sign_flip as sign_flip,
        signed_rank as signed_rank,
    )
    from ktdeval.stats.panel import (
        DIAGNOSTICS as DIAGNOSTICS,
        PANEL_FAMILIES as PANEL_FAMILIES,
        benchmark_levels as benchmark_levels,
        panel_metric as panel_metric,
    )
    from ktdeval.stats.power import (
        Spread as Spread,
        estimate_spread as estimate_spread,
        normal_effect as normal_effect,
        pairs_needed as pairs_needed,
        smallest_p as smallest_p,
        wilcoxon_effect as wilcoxon_effect,
        wilcoxon_power as wilcoxon_power,
        window_sd_of as window_sd_of,
        windows_needed as windows_needed,
    )
    from ktdeval.stats.proportions import (
        clopper_pearson_upper as clopper_pearson_upper,
        poisson_binomial as poisson_binomial,
        wilson as wilson,
    )
    from ktdeval.stats.variance import Components as Components, variance_components as variance_components
    from ktdeval.task_files import task_specs as task_specs
    from ktdeval.trading.config import TradingConfig as TradingConfig
    from ktdeval.trading.executor import execute as execute
    from ktdeval.trading.ledger import Ledger as Ledger, StepRecord as StepRecord
    from ktdeval.trading.tape import Tape as Tape, TradingDay as TradingDay
    from ktdeval.trading.types import (
        Account as Account,
        Action as Action,
        Order as Order,
        Outcome as Outcome,
        Position as Position,
        Provenance as Provenance,
        Side as Side,
    )
    from ktdeval.yamlio import load_yaml as load_yaml

# Module -> the names it gives; the type checker reads the imports above, a test holds the two equal.
# fmt: off
_MODULES: dict[str, tuple[str, ...]] = {
    "ktdeval.attribution.decompose": ("Attribution", "attribute", "attribution_problem"),
    "ktdeval.attribution.cohorts": ("cohort_exposures", "compare_ranks"),
    "ktdeval.attribution.factors": ("FACTORS", "FactorDefinition", "FactorTable", "factor_values", "standardise"),
    "ktdeval.attribution.fit": ("Fit", "fit_factors"),
    "ktdeval.cards.aggregate": ("derived_fields",),
    "ktdeval.cards.check": ("load_card", "parse_card", "validate_card"),
    "ktdeval.config": ("RunConfig",),
    "ktdeval.errors": (
        "CardError", "ConfigError", "DataError", "EpisodeFailure", "InvariantError", "KtdevalError", "LeakError",
        "LookAheadError", "ModelError", "PluginError", "ProviderError", "StoreError", "UsageError", "VerificationError",
    ),
    "ktdeval.fields": ("build", "near_matches", "option", "to_mapping"),
    "ktdeval.harness.agent": ("Agent", "Decision", "Desk", "Observation", "Submission", "ToolResult"),
    "ktdeval.harness.config": ("HarnessConfig",),
    "ktdeval.harness.messages": (
        "CallParams", "FinishReason", "Message", "Model", "ModelRequest", "Reply", "ToolCall", "ToolProtocol", "ToolSpec",
        "Usage",
    ),
    "ktdeval.harness.provider": ("RemoteModel",),
    "ktdeval.harness.tools": ("AssetArg", "Bounds", "DayArg", "Length", "Refusal", "Tool", "call", "json_tool", "tool"),
    "ktdeval.hookspecs": ("Spec", "hookimpl"),
    "ktdeval.jsonio": (
        "JsonValue", "content_hash", "dumps_canonical", "dumps_pretty", "file_sha256", "loads_strict", "sha256_hex",
        "write_atomic",
    ),
    "ktdeval.market.assemble": ("assemble",),
    "ktdeval.market.calendar": ("sessions", "window_rows"),
    "ktdeval.market.codes": ("Board", "DAILY_LIMIT_PCT", "board_of", "parse_code"),
    "ktdeval.market.quality": ("Finding", "RawMarket"),
    "ktdeval.market.snapshot": ("BoolArray", "DayArray", "FloatArray", "MarketSnapshot", "MarketView", "SnapshotMeta"),
    "ktdeval.market.storage": ("load_snapshot", "save_snapshot", "with_id"),
    "ktdeval.masking.lens": ("Lens", "MASK_KINDS", "MaskConfig"),
    "ktdeval.masking.payload": (
        "AssetName", "AssetRef", "DayRef", "Exact", "IndexLevel", "Payload", "Price", "SectorRef", "Shares",
    ),
    "ktdeval.masking.rationale": ("LEAKS_REMOVED_BY", "LEAK_CATEGORIES", "Mention", "RationaleLinter"),
    "ktdeval.masking.rationale_similarity": ("Encoder", "NgramEncoder", "SimilarityLinter"),
    "ktdeval.masking.render": ("render_json",),
    "ktdeval.registry": ("Plugins", "load_plugins"),
    "ktdeval.runner.backend": ("EpisodeOutcome", "Runner"),
    "ktdeval.runner.data_source": ("open_snapshot",),
    "ktdeval.runner.events": (
        "CallDelayed", "EpisodeFailed", "EpisodeFinished", "EpisodeStarted", "Event", "SampleFinished", "StepFinished",
    ),
    "ktdeval.runner.ledger_file": ("load_ledger",),
    "ktdeval.runner.redaction": ("redact_secrets",),
    "ktdeval.runner.run": ("RunResult", "evaluate"),
    "ktdeval.runner.score": ("open_recorded_snapshot", "rescore"),
    "ktdeval.runner.scoring": ("AnswerRecord", "Bench", "Exam", "Sample", "Score", "ScoreDefinition", "ScoringTask", "Subject"),
    "ktdeval.runner.spec": ("EpisodeSpec", "Window"),
    "ktdeval.runner.store": ("RunFolder", "pack_lines"),
    "ktdeval.runner.subjects": ("describe_any",),
    "ktdeval.runner.task": ("Scene", "Task"),
    "ktdeval.runner.trials": ("Trials", "count_trials"),
    "ktdeval.runner.verify": ("Verification", "verify_card"),
    "ktdeval.seeds": ("derive_seed",),
    "ktdeval.stats.bootstrap": ("Bootstrap", "Resampling", "episode_intervals", "episode_resampling"),
    "ktdeval.stats.calibration": ("Forecast", "judged_orders"),
    "ktdeval.stats.calibration_terms": ("brier_terms", "reliability_points"),
    "ktdeval.stats.envelope": ("Envelope", "EnvelopeSettings", "random_envelope"),
    "ktdeval.stats.factorial": ("MASK_FACTORS", "mask_contrasts"),
    "ktdeval.stats.hac": ("newey_west_mean", "t_of_mean"),
    "ktdeval.stats.intervals": ("Interval",),
    "ktdeval.stats.ladder": ("MODE_PIECES", "MODE_PRECEDENCE", "order_averaged"),
    "ktdeval.stats.ledoit_wolf": ("SharpeDifference", "sharpe_difference"),
    "ktdeval.stats.luck": ("deflated_sharpe_ratio",),
    "ktdeval.stats.metric": ("Metric", "MetricValue", "Range", "RuleSet"),
    "ktdeval.stats.model_confidence_set": ("ConfidenceSet", "Ties", "model_confidence_set", "tie_groups"),
    "ktdeval.stats.multiple": ("benjamini_hochberg", "holm"),
    "ktdeval.stats.overlap": ("blocks_of", "effective_count", "mean_with_interval", "overlap_correlation"),
    "ktdeval.stats.paired": (
        "RankNull", "Shift", "SignFlip", "SignedRank", "correlated_null", "hodges_lehmann", "sign_flip", "signed_rank",
    ),
    "ktdeval.stats.panel": ("DIAGNOSTICS", "PANEL_FAMILIES", "benchmark_levels", "panel_metric"),
    "ktdeval.stats.proportions": ("clopper_pearson_upper", "poisson_binomial", "wilson"),
    "ktdeval.stats.power": (
        "Spread", "estimate_spread", "normal_effect", "pairs_needed", "smallest_p", "wilcoxon_effect", "wilcoxon_power",
        "window_sd_of", "windows_needed",
    ),
    "ktdeval.stats.variance": ("Components", "variance_components"),
    "ktdeval.task_files": ("task_specs",),
    "ktdeval.trading.config": ("TradingConfig",),
    "ktdeval.trading.executor": ("execute",),
    "ktdeval.trading.ledger": ("Ledger", "StepRecord"),
    "ktdeval.trading.tape": ("Tape", "TradingDay"),
    "ktdeval.trading.types": ("Account", "Action", "Order", "Outcome", "Position", "Provenance", "Side"),
    "ktdeval.yamlio": ("load_yaml",),
}
# fmt: on
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        from ktdeval.fields import near_matches  # noqa: PLC0415 - only on the way to an error

        raise AttributeError(f"ktdeval.api has no name {name!r}{near_matches(name, _MODULE_OF)}")
    value = getattr(import_module(module), name)
    globals()[name] = value  # The next use is an ordinary lookup.
    return value


def __dir__() -> list[str]:
    return list(__all__)
