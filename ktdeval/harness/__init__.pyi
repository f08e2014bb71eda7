"""Public names of the harness: messages, tools, agents and the session of a step."""

from ktdeval.harness.agent import (
    Agent as Agent,
    Decision as Decision,
    HarnessConfig as HarnessConfig,
    Lesson as Lesson,
    Observation as Observation,
    StepCounts as StepCounts,
    StepSession as StepSession,
    Submission as Submission,
    ToolResult as ToolResult,
)
from ktdeval.harness.arguments import AssetArg as AssetArg, Bounds as Bounds, DayArg as DayArg, Length as Length
from ktdeval.harness.messages import (
    MAX_TOKEN_COUNT as MAX_TOKEN_COUNT,
    CallParams as CallParams,
    FinishReason as FinishReason,
    Message as Message,
    Model as Model,
    ModelRequest as ModelRequest,
    Opaque as Opaque,
    Predictor as Predictor,
    RemoteModel as RemoteModel,
    Reply as Reply,
    ToolCall as ToolCall,
    ToolProtocol as ToolProtocol,
    ToolSpec as ToolSpec,
    Usage as Usage,
)
from ktdeval.harness.phases import decide_in_phases as decide_in_phases, research as research
from ktdeval.harness.plain_schema import in_words as in_words
from ktdeval.harness.reading import (
    as_object as as_object,
    json_object as json_object,
    label_key as label_key,
    rows_by_asset as rows_by_asset,
    shown_state as shown_state,
    table_rows as table_rows,
)
from ktdeval.harness.session import TranscriptEntry as TranscriptEntry
from ktdeval.harness.signals import (
    SIGNAL_FORM as SIGNAL_FORM,
    SIGNALS as SIGNALS,
    Signal as Signal,
    StepSignals as StepSignals,
    last_object as last_object,
    read_signals as read_signals,
    step_signals as step_signals,
)
from ktdeval.harness.stance import (
    HoldRule as HoldRule,
    Rebuild as Rebuild,
    StanceForm as StanceForm,
    StanceRule as StanceRule,
    Standing as Standing,
    Target as Target,
    stance_schema as stance_schema,
)
from ktdeval.harness.tools import (
    Refusal as Refusal,
    Tool as Tool,
    call as call,
    json_tool as json_tool,
    tool as tool,
)
from ktdeval.harness.written_calls import split_thought as split_thought
