"""Public names for models of rules: a request read, a portfolio rebalanced, a reply written."""

from ktdeval.keyless.conversation import SUBMIT as SUBMIT, Call as Call, Conversation as Conversation, Row as Row
from ktdeval.keyless.model import KeylessModel as KeylessModel, buyable as buyable
from ktdeval.keyless.params import TopParams as TopParams
from ktdeval.keyless.portfolio import (
    Intent as Intent,
    Ranking as Ranking,
    Sizing as Sizing,
    is_affordable as is_affordable,
    rebalance as rebalance,
    sell_short as sell_short,
)
from ktdeval.keyless.predicted import TopModel as TopModel, replaced as replaced
