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
    join_parts as join_parts,
)
from ktdeval.harness.call_params import (
    DEFAULT_PARAMS as DEFAULT_PARAMS,
    NATIVE_PROTOCOLS as NATIVE_PROTOCOLS,
    TRANSPORT as TRANSPORT,
    without_transport as without_transport,
)
from ktdeval.harness.chat_messages import (
    LOOKED_UP as LOOKED_UP,
    MAX_TOKEN_COUNT as MAX_TOKEN_COUNT,
    NO_TOOL as NO_TOOL,
    THOUGHTS_REFUSED as THOUGHTS_REFUSED,
    UNPARSED_CALL as UNPARSED_CALL,
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
    as_remote as as_remote,
    with_distinct_ids as with_distinct_ids,
)
from ktdeval.harness.external.external_acts import (
    BROUGHT as BROUGHT,
    Act as Act,
    ExternalRecord as ExternalRecord,
    Isolation as Isolation,
    KeptFiles as KeptFiles,
    Outside as Outside,
    ShownKind as ShownKind,
    ShownPart as ShownPart,
)
from ktdeval.harness.external.external_session import (
    MAX_REFUSED as MAX_REFUSED,
    ExternalSession as ExternalSession,
    ExternalStep as ExternalStep,
    RefusedAct as RefusedAct,
    act_outside as act_outside,
)
from ktdeval.harness.external.known_texts import KnownTexts as KnownTexts
from ktdeval.harness.external.own_settings import (
    APPLIED as APPLIED,
    NOT_APPLIED as NOT_APPLIED,
    OwnSettings as OwnSettings,
    settings_note as settings_note,
)
from ktdeval.harness.procedures import (
    END as END,
    TEXTS_OF_ONE_SUBMISSION as TEXTS_OF_ONE_SUBMISSION,
    one_submission as one_submission,
    told_at_a_desk as told_at_a_desk,
    two_phases as two_phases,
)
from ktdeval.harness.steps.research_then_submit import (
    decide_in_phases as decide_in_phases,
    offered_tools as offered_tools,
    research as research,
)
from ktdeval.harness.steps.step_session import TranscriptEntry as TranscriptEntry
from ktdeval.harness.streaming import Listener as Listener, ReplyPiece as ReplyPiece
from ktdeval.harness.submissions.analyst_signals import (
    ROLE_HEADING as ROLE_HEADING,
    SIGNAL_FORM as SIGNAL_FORM,
    SIGNALS as SIGNALS,
    Signal as Signal,
    StepSignals as StepSignals,
    last_object as last_object,
    read_signals as read_signals,
    step_signals as step_signals,
)
from ktdeval.harness.submissions.feedback import in_words as in_words
from ktdeval.harness.submissions.minimal_submission import smallest_value as smallest_value
from ktdeval.harness.submissions.stance_form import (
    HoldRule as HoldRule,
    Rebuild as Rebuild,
    StanceForm as StanceForm,
    StanceRule as StanceRule,
    Standing as Standing,
    Target as Target,
    stance_schema as stance_schema,
)
from ktdeval.harness.submissions.submission_form import (
    SUBMIT_TOOL as SUBMIT_TOOL,
    SubmissionForm as SubmissionForm,
)
from ktdeval.harness.tools.arguments import (
    AssetArg as AssetArg,
    Bounds as Bounds,
    DayArg as DayArg,
    Length as Length,
)
from ktdeval.harness.tools.forced_tool_calls import (
    ask_forced as ask_forced,
    ask_in_words as ask_in_words,
)
from ktdeval.harness.tools.reading import (
    is_no_arguments as is_no_arguments,
    json_object as json_object,
    label_key as label_key,
    side_word as side_word,
    submission_object as submission_object,
    with_side_words as with_side_words,
)
from ktdeval.harness.tools.tool_definition import (
    Refusal as Refusal,
    Tool as Tool,
    call as call,
    json_tool as json_tool,
    tool as tool,
)
from ktdeval.harness.tools.written_calls import (
    holds_marked_call as holds_marked_call,
    read_blocks as read_blocks,
    read_envelope as read_envelope,
    split_thought as split_thought,
)
from ktdeval.harness.traits import (
    AgentTraits as AgentTraits,
    ModelTraits as ModelTraits,
    agent_traits as agent_traits,
    model_traits as model_traits,
)
from ktdeval.observation.state_reading import shown_state as shown_state
from ktdeval.observation.state_rows import (
    as_object as as_object,
    rows_by_asset as rows_by_asset,
    table_rows as table_rows,
)
