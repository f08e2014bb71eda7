"""Public names of model calls: addresses, records of calls, errors of HTTP as typed errors, and
which of them are tried again.
"""

from ktdeval.calls.base_urls import (
    check_base_url as check_base_url,
    why_unreachable as why_unreachable,
)
from ktdeval.calls.batches.batch_api import (
    CANCELLED as CANCELLED,
    EXPIRED as EXPIRED,
    Batches as Batches,
    BatchId as BatchId,
    BatchResults as BatchResults,
    BatchState as BatchState,
    BatchTag as BatchTag,
    Result as Result,
)
from ktdeval.calls.batches.episode_rounds import EpisodeRounds as EpisodeRounds
from ktdeval.calls.batches.submitted_batches import BATCHES as BATCHES
from ktdeval.calls.budget import (
    Allowance as Allowance,
    BudgetAmount as BudgetAmount,
    Drawing as Drawing,
)
from ktdeval.calls.costs.packaged_prices import (
    PRICE_PACKAGE as PRICE_PACKAGE,
    Package as Package,
    installed_version as installed_version,
)
from ktdeval.calls.costs.prices import (
    Price as Price,
    PriceTable as PriceTable,
    find_price as find_price,
    fitting_pattern as fitting_pattern,
    read_price_table as read_price_table,
)
from ktdeval.calls.costs.prompt_cache import (
    CachedTokens as CachedTokens,
    PromptBlock as PromptBlock,
    PromptCache as PromptCache,
    PromptCacheRules as PromptCacheRules,
    common_prefix as common_prefix,
)
from ktdeval.calls.costs.prompt_size import (
    USUAL_TOKENS as USUAL_TOKENS,
    prompt_bytes as prompt_bytes,
)
from ktdeval.calls.failures.context_refusals import (
    Context as Context,
    ContextExceeded as ContextExceeded,
)
from ktdeval.calls.failures.http_errors import (
    Caller as Caller,
    ContentFiltered as ContentFiltered,
    bad_response as bad_response,
    code_status as code_status,
    error_of as error_of,
    failure_kind as failure_kind,
    http_error as http_error,
    is_reply as is_reply,
    is_reply_limit as is_reply_limit,
    json_object as json_object,
    json_reply as json_reply,
    network_error as network_error,
    not_json as not_json,
    one_line as one_line,
    quote_server_text as quote_server_text,
    refused_body as refused_body,
)
from ktdeval.calls.failures.outages import OUTAGES as OUTAGES, is_outage as is_outage
from ktdeval.calls.failures.provider_errors import (
    ProviderRefusal as ProviderRefusal,
    read_refusal as read_refusal,
    refusal_of as refusal_of,
    retry_after_s as retry_after_s,
)
from ktdeval.calls.failures.retry import (
    OtherServer as OtherServer,
    RetryPolicy as RetryPolicy,
    first_contacts as first_contacts,
    is_retryable as is_retryable,
    wait_text as wait_text,
)
from ktdeval.calls.records.call_counts import CallCounter as CallCounter
from ktdeval.calls.records.call_log import read_calls as read_calls
from ktdeval.calls.records.record import (
    ANSWERED as ANSWERED,
    BATCHED as BATCHED,
    CACHED as CACHED,
    CallRecord as CallRecord,
)
from ktdeval.calls.served_model_name import (
    bare_model as bare_model,
    is_other_model as is_other_model,
    served_model as served_model,
    served_text as served_text,
)
from ktdeval.calls.stop_flag import Fence as Fence, StopSignal as StopSignal, no_fence as no_fence
