"""Public names for models of rules: a request read, a portfolio rebalanced, a reply written."""

from ktdeval.keyless.mask_invariant_order import (
    Row as Row,
    places_of as places_of,
    standing as standing,
)
from ktdeval.keyless.params import TopParams as TopParams
from ktdeval.keyless.predicted import TopModel as TopModel, choose_replaced as choose_replaced
from ktdeval.keyless.ranking_orders import (
    Certain as Certain,
    Intent as Intent,
    Ranking as Ranking,
    Sizing as Sizing,
    equal_first as equal_first,
    holdable as holdable,
    is_affordable as is_affordable,
    largest_weight as largest_weight,
    rebalance as rebalance,
    sell_short as sell_short,
    worth as worth,
)
from ktdeval.keyless.request_and_reply import (
    SUBMIT as SUBMIT,
    Call as Call,
    Conversation as Conversation,
)
from ktdeval.keyless.rule_based_model import (
    NO_ACCOUNT as NO_ACCOUNT,
    KeylessModel as KeylessModel,
    buyable as buyable,
    is_offered as is_offered,
    table_columns as table_columns,
)
