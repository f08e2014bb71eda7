"""The one module that plugins import: every public name of the library and the suite, loaded only when used.

A manifest that needs `Spec` and `hookimpl` to say what it offers must not pay for pandas, so each name is resolved at its first
use (PEP 562). The list of names is frozen by a test: adding one is a decision, removing one breaks somebody's plugin.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ktdeval.attribution.factors import (
        FACTORS as FACTORS,
        FactorDefinition as FactorDefinition,
        FactorTable as FactorTable,
        factor_values as factor_values,
        standardise as standardise,
    )
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
        ToolSpec as ToolSpec,
        Usage as Usage,
    )
    from ktdeval.harness.tools import (
        AssetArg as AssetArg,
        Bounds as Bounds,
        DayArg as DayArg,
        Length as Length,
        Tool as Tool,
        tool as tool,
    )
    from ktdeval.hookspecs import Spec as Spec, hookimpl as hookimpl
    from ktdeval.jsonio import (
        JsonValue as JsonValue,
        content_hash as content_hash,
        dumps_canonical as dumps_canonical,
        loads_strict as loads_strict,
        sha256_hex as sha256_hex,
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
    from ktdeval.market.storage import load_snapshot as load_snapshot, save_snapshot as save_snapshot
    from ktdeval.masking.lens import MASK_KINDS as MASK_KINDS, Lens as Lens, MaskConfig as MaskConfig
    from ktdeval.masking.payload import (
        AssetName as AssetName,
        AssetRef as AssetRef,
        DayRef as DayRef,
        IndexLevel as IndexLevel,
        Payload as Payload,
        Price as Price,
        SectorRef as SectorRef,
        Shares as Shares,
    )
    from ktdeval.masking.render import render_json as render_json
    from ktdeval.runner.backend import EpisodeOutcome as EpisodeOutcome, Runner as Runner
    from ktdeval.runner.events import (
        EpisodeFailed as EpisodeFailed,
        EpisodeFinished as EpisodeFinished,
        EpisodeStarted as EpisodeStarted,
        Event as Event,
        StepFinished as StepFinished,
    )
    from ktdeval.runner.spec import EpisodeSpec as EpisodeSpec, Window as Window
    from ktdeval.runner.task import Scene as Scene, Task as Task
    from ktdeval.seeds import derive_seed as derive_seed
    from ktdeval.stats.metric import Metric as Metric, MetricValue as MetricValue, RuleSet as RuleSet
    from ktdeval.stats.panel import panel_metric as panel_metric
    from ktdeval.task_files import task_specs as task_specs
    from ktdeval.trading.config import TradingConfig as TradingConfig
    from ktdeval.trading.ledger import Ledger as Ledger, StepRecord as StepRecord
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
_MODULES: dict[str, tuple[str, ...]] = {
    "ktdeval.attribution.factors": ("FACTORS", "FactorDefinition", "FactorTable", "factor_values", "standardise"),
    "ktdeval.errors": (
        "CardError",
        "ConfigError",
        "DataError",
        "EpisodeFailure",
        "InvariantError",
        "KtdevalError",
        "LeakError",
        "LookAheadError",
        "ModelError",
        "PluginError",
        "StoreError",
        "UsageError",
        "VerificationError",
    ),
    "ktdeval.fields": ("build", "near_matches", "option", "to_mapping"),
    "ktdeval.harness.agent": ("Agent", "Decision", "Desk", "Observation", "Submission", "ToolResult"),
    "ktdeval.harness.config": ("HarnessConfig",),
    "ktdeval.harness.messages": (
        "CallParams",
        "FinishReason",
        "Message",
        "Model",
        "ModelRequest",
        "Reply",
        "ToolCall",
        "ToolSpec",
        "Usage",
    ),
    "ktdeval.harness.tools": ("AssetArg", "Bounds", "DayArg", "Length", "Tool", "tool"),
    "ktdeval.hookspecs": ("Spec", "hookimpl"),
    "ktdeval.jsonio": ("JsonValue", "content_hash", "dumps_canonical", "loads_strict", "sha256_hex"),
    "ktdeval.market.assemble": ("assemble",),
    "ktdeval.market.calendar": ("sessions", "window_rows"),
    "ktdeval.market.codes": ("Board", "DAILY_LIMIT_PCT", "board_of", "parse_code"),
    "ktdeval.market.quality": ("Finding", "RawMarket"),
    "ktdeval.market.snapshot": ("BoolArray", "DayArray", "FloatArray", "MarketSnapshot", "MarketView", "SnapshotMeta"),
    "ktdeval.market.storage": ("load_snapshot", "save_snapshot"),
    "ktdeval.masking.lens": ("Lens", "MASK_KINDS", "MaskConfig"),
    "ktdeval.masking.payload": ("AssetName", "AssetRef", "DayRef", "IndexLevel", "Payload", "Price", "SectorRef", "Shares"),
    "ktdeval.masking.render": ("render_json",),
    "ktdeval.runner.backend": ("EpisodeOutcome", "Runner"),
    "ktdeval.runner.events": ("EpisodeFailed", "EpisodeFinished", "EpisodeStarted", "Event", "StepFinished"),
    "ktdeval.runner.spec": ("EpisodeSpec", "Window"),
    "ktdeval.runner.task": ("Scene", "Task"),
    "ktdeval.seeds": ("derive_seed",),
    "ktdeval.stats.metric": ("Metric", "MetricValue", "RuleSet"),
    "ktdeval.stats.panel": ("panel_metric",),
    "ktdeval.task_files": ("task_specs",),
    "ktdeval.trading.config": ("TradingConfig",),
    "ktdeval.trading.ledger": ("Ledger", "StepRecord"),
    "ktdeval.trading.types": ("Account", "Action", "Order", "Outcome", "Position", "Provenance", "Side"),
    "ktdeval.yamlio": ("load_yaml",),
}
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
