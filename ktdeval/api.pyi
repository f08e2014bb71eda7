"""Names that an author of a plugin needs."""

from ktdeval.errors import (
    ConfigError as ConfigError,
    DataError as DataError,
    KtdevalError as KtdevalError,
    ModelError as ModelError,
    PluginError as PluginError,
    UsageError as UsageError,
)
from ktdeval.harness.agent import (
    Agent as Agent,
    Decision as Decision,
    HarnessConfig as HarnessConfig,
    Observation as Observation,
    StepSession as StepSession,
)
from ktdeval.harness.chat_messages import (
    CallParams as CallParams,
    Message as Message,
    Model as Model,
    ModelRequest as ModelRequest,
    RemoteModel as RemoteModel,
    Reply as Reply,
    ToolCall as ToolCall,
    ToolSpec as ToolSpec,
)
from ktdeval.harness.tools.arguments import (
    AssetArg as AssetArg,
    Bounds as Bounds,
    DayArg as DayArg,
    Length as Length,
)
from ktdeval.harness.tools.tool_definition import (
    Refusal as Refusal,
    Tool as Tool,
    tool as tool,
)
from ktdeval.harness.traits import AgentTraits as AgentTraits, ModelTraits as ModelTraits
from ktdeval.hookspecs import Spec as Spec, hookimpl as hookimpl
from ktdeval.market.snapshots.snapshot import MarketSnapshot as MarketSnapshot
from ktdeval.masking.lens import Lens as Lens
from ktdeval.masking.payload_types import (
    AssetRef as AssetRef,
    DayRef as DayRef,
    Payload as Payload,
    Price as Price,
    Shares as Shares,
)
from ktdeval.registry.task_files import task_specs as task_specs
from ktdeval.stats.intervals import Interval as Interval
from ktdeval.stats.metric import Metric as Metric, MetricValue as MetricValue, metric as metric
from ktdeval.task_api.episode_spec import EpisodeSpec as EpisodeSpec, Window as Window
from ktdeval.task_api.events import Event as Event
from ktdeval.task_api.qa import QATask as QATask
from ktdeval.task_api.scoring import (
    AnswerRecord as AnswerRecord,
    Environment as Environment,
    Sample as Sample,
    SampleSet as SampleSet,
    Score as Score,
    ScoreDefinition as ScoreDefinition,
    ScoringTask as ScoringTask,
)
from ktdeval.task_api.trading_task import Scene as Scene, Task as Task
from ktdeval.task_api.traits import TaskTraits as TaskTraits
from ktdeval.trading.ledger import Ledger as Ledger
from ktdeval.trading.types import Order as Order, TradingConfig as TradingConfig
from ktdeval.values.options.config_options import option as option
from ktdeval.values.seeds import derive_seed as derive_seed
from ktdeval_raw_markets.assembly import assemble as assemble
from ktdeval_raw_markets.sources.raw_tables import RawMarket as RawMarket
