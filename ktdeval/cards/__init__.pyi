"""Public names of result cards: typed cards, reading, checking, showing, and what a kind of cards is made of."""

from ktdeval.cards.card import (
    Card as Card,
    Evaluation as Evaluation,
    ScoreLine as ScoreLine,
    ScoringCard as ScoringCard,
    ScoringEpisode as ScoringEpisode,
    TradingCard as TradingCard,
    TradingEpisode as TradingEpisode,
)
from ktdeval.cards.check import (
    ATTACHED as ATTACHED,
    CardKind as CardKind,
    card_files as card_files,
    card_kinds as card_kinds,
    derive_card as derive_card,
    load_card as load_card,
    load_evaluation as load_evaluation,
    parse_card as parse_card,
    validate_card as validate_card,
)
from ktdeval.cards.compare import JsonPath as JsonPath, card_difference as card_difference
from ktdeval.cards.cutoff import (
    SEEN as SEEN,
    SIDES as SIDES,
    SPANS as SPANS,
    STATES as STATES,
    Cutoff as Cutoff,
    card_cutoff as card_cutoff,
    cutoff_words as cutoff_words,
    listed_cutoff as listed_cutoff,
    parse_cutoff as parse_cutoff,
    parse_cutoff_or_state as parse_cutoff_or_state,
    recorded_cutoff as recorded_cutoff,
    sides as sides,
    window_side as window_side,
    window_words as window_words,
)
from ktdeval.cards.derive import (
    LEAST_DECIDED_PERCENT as LEAST_DECIDED_PERCENT,
    NEVER_TRADED as NEVER_TRADED,
    episode_cost as episode_cost,
    episode_tokens as episode_tokens,
    not_counted as not_counted,
    usage_cost as usage_cost,
)
from ktdeval.cards.figures import (
    NEVER_SHOWN as NEVER_SHOWN,
    SCHEME_HEADS as SCHEME_HEADS,
    is_fraction as is_fraction,
    nearest_to_median as nearest_to_median,
    price_index as price_index,
    scheme_rows as scheme_rows,
)
from ktdeval.cards.inputs import Problem as Problem, decode_strict as decode_strict
from ktdeval.cards.parts import (
    Calls as Calls,
    Count as Count,
    Counts as Counts,
    Day as Day,
    Definition as Definition,
    Drift as Drift,
    EpisodeMetric as EpisodeMetric,
    Figure as Figure,
    Finished as Finished,
    Interval as Interval,
    Line as Line,
    MaskKind as MaskKind,
    MetricLine as MetricLine,
    MissingEpisode as MissingEpisode,
    Name as Name,
    Number as Number,
    Pluggable as Pluggable,
    PriceEntry as PriceEntry,
    Sha256 as Sha256,
    Share as Share,
    SnapshotPart as SnapshotPart,
    Time as Time,
    UsageCounts as UsageCounts,
)
from ktdeval.cards.reports import (
    figure_notes as figure_notes,
    figures_differ_in as figures_differ_in,
    uncounted_tokens as uncounted_tokens,
    with_args as with_args,
)
from ktdeval.cards.schema import card_schema as card_schema, field_docs as field_docs, struct_types as struct_types
from ktdeval.cards.scoring import recorded_as as recorded_as
from ktdeval.cards.show import card_lines as card_lines, print_lines as print_lines
from ktdeval.cards.table import (
    UNDEFINED as UNDEFINED,
    Grid as Grid,
    Report as Report,
    clean as clean,
    count as count,
    dollars as dollars,
    share_of as share_of,
    tally as tally,
    word_grid as word_grid,
)
from ktdeval.cards.trading import compute_metric as compute_metric
