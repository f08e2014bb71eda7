"""Public names of model calls: addresses, errors of HTTP as typed errors, and which of them are tried again."""

from ktdeval.calls.http_errors import (
    Caller as Caller,
    ContentFiltered as ContentFiltered,
    Refusal as Refusal,
    bad_response as bad_response,
    check_base_url as check_base_url,
    error_of as error_of,
    http_error as http_error,
    json_reply as json_reply,
    network_error as network_error,
    one_line as one_line,
    read_refusal as read_refusal,
    refusal_of as refusal_of,
    retry_after_s as retry_after_s,
)
from ktdeval.calls.retry import RetryPolicy as RetryPolicy, is_retryable as is_retryable
