"""Public names of result cards: typed cards, reading, checking, showing, and what a kind of cards
is made of.
"""

from ktdeval.cards.assembly import (
    build_card as build_card,
    with_label_of_task as with_label_of_task,
)
from ktdeval.cards.card import (
    Card as Card,
    Evaluation as Evaluation,
    ScoreLine as ScoreLine,
    ScoringCard as ScoringCard,
    ScoringEpisode as ScoringEpisode,
    TradingCard as TradingCard,
    TradingEpisode as TradingEpisode,
)
from ktdeval.cards.card_reading import (
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
from ktdeval.cards.claims import account_claims as account_claims
from ktdeval.cards.fields.activity import (
    episode_tokens as episode_tokens,
    not_counted as not_counted,
)
from ktdeval.cards.fields.base_types import (
    Count as Count,
    Counts as Counts,
    Day as Day,
    Figure as Figure,
    Name as Name,
    Number as Number,
    Problem as Problem,
    Sha256 as Sha256,
    Share as Share,
    Time as Time,
    decode_strict as decode_strict,
)
from ktdeval.cards.fields.card_inputs import CardInputs as CardInputs
from ktdeval.cards.fields.coverage import MIN_DECIDED_PERCENT as MIN_DECIDED_PERCENT
from ktdeval.cards.fields.episode_parts import (
    Finished as Finished,
    MissingEpisode as MissingEpisode,
    UsageCounts as UsageCounts,
)
from ktdeval.cards.fields.episodes import plan_of as plan_of
from ktdeval.cards.fields.knowledge.cutoff import (
    SEEN as SEEN,
    SPANS as SPANS,
    STATES as STATES,
    card_cutoff as card_cutoff,
    cutoff_words as cutoff_words,
    latest_cutoff as latest_cutoff,
    recorded_cutoff as recorded_cutoff,
    sides as sides,
    window_words as window_words,
)
from ktdeval.cards.fields.knowledge.deciders import (
    foreign_reason as foreign_reason,
    is_not_isolated as is_not_isolated,
    knowledge_of as knowledge_of,
    unranked_reasons as unranked_reasons,
)
from ktdeval.cards.fields.knowledge.listed_cutoffs import (
    listed_cutoff as listed_cutoff,
    listed_days as listed_days,
    parse_cutoff as parse_cutoff,
    parse_cutoff_or_state as parse_cutoff_or_state,
)
from ktdeval.cards.fields.knowledge.rank_eligibility import (
    NEVER_TRADED as NEVER_TRADED,
    OWN_KEY_ALONE as OWN_KEY_ALONE,
    could_know_reasons as could_know_reasons,
)
from ktdeval.cards.fields.knowledge.warning_labels import hides_something as hides_something
from ktdeval.cards.fields.origin.fact_types import (
    COULD_HAVE_BROUGHT as COULD_HAVE_BROUGHT,
    COULD_LOOK_UP as COULD_LOOK_UP,
    NO_ATTACHMENT as NO_ATTACHMENT,
    SIDES as SIDES,
    CutoffEntry as CutoffEntry,
    Definition as Definition,
    Drift as Drift,
    ForeignPackage as ForeignPackage,
    Pluggable as Pluggable,
    SnapshotPart as SnapshotPart,
)
from ktdeval.cards.fields.origin.plan import (
    gather_snapshot as gather_snapshot,
    with_args as with_args,
)
from ktdeval.cards.fields.origin.provenance import made_at as made_at
from ktdeval.cards.fields.origin.recorded_facts import rests_on as rests_on
from ktdeval.cards.fields.origin.task import (
    NEVER_RANKED as NEVER_RANKED,
    TRANSPLANTED as TRANSPLANTED,
)
from ktdeval.cards.fields.replies.calls import Calls as Calls
from ktdeval.cards.fields.replies.cost import (
    PriceEntry as PriceEntry,
    card_prices as card_prices,
    episode_cost as episode_cost,
)
from ktdeval.cards.fields.replies.served import served_words as served_words
from ktdeval.cards.fields.returns.medians import (
    QUARTILES as QUARTILES,
    EpisodeMetric as EpisodeMetric,
    Interval as Interval,
    Line as Line,
    Quartiles as Quartiles,
    spread_of as spread_of,
)
from ktdeval.cards.fields.returns.metrics import (
    MetricLine as MetricLine,
    compute_metric as compute_metric,
)
from ktdeval.cards.fields.returns.rank_correlation import correlation_words as correlation_words
from ktdeval.cards.fields.scores import recorded_as as recorded_as
from ktdeval.cards.fields.units import is_fraction as is_fraction, unit_word as unit_word
from ktdeval.cards.fields.words import (
    card_words as card_words,
    label_word as label_word,
    metric_word as metric_word,
)
from ktdeval.cards.figure_intervals import (
    OVER_DAYS as OVER_DAYS,
    OVER_WINDOWS as OVER_WINDOWS,
    FigureInterval as FigureInterval,
    figure_interval as figure_interval,
)
from ktdeval.cards.json_paths import JsonPath as JsonPath
from ktdeval.cards.metric_tables import (
    NEVER_SHOWN as NEVER_SHOWN,
    PARTS as PARTS,
    SCHEME_HEADS as SCHEME_HEADS,
    episode_excess as episode_excess,
    excess_return as excess_return,
    nearest_to_median as nearest_to_median,
    price_index as price_index,
    scheme_rows as scheme_rows,
)
from ktdeval.cards.recomputation_diff import (
    card_difference as card_difference,
    value_difference as value_difference,
)
from ktdeval.cards.reports import (
    figure_notes as figure_notes,
    figures_differ_in as figures_differ_in,
    pace_notes as pace_notes,
    score_bounds_notes as score_bounds_notes,
    uncounted_tokens as uncounted_tokens,
)
from ktdeval.cards.schema import (
    card_schema as card_schema,
    field_docs as field_docs,
    struct_types as struct_types,
)
from ktdeval.cards.short_records import (
    hidden_figures as hidden_figures,
    short_record_problem as short_record_problem,
    shown_benchmark as shown_benchmark,
    shown_metric as shown_metric,
    shown_metrics as shown_metrics,
)
from ktdeval.cards.show import card_lines as card_lines, print_lines as print_lines
from ktdeval.cards.signatures import (
    SIGNED_CARD as SIGNED_CARD,
    SIGNED_REGISTRATION as SIGNED_REGISTRATION,
    SIGNED_VERDICT as SIGNED_VERDICT,
    check_envelope as check_envelope,
    check_signature as check_signature,
    parse_envelope as parse_envelope,
    sign_file as sign_file,
    signature_path as signature_path,
)
from ktdeval.cards.signing_keys import (
    PrivateKey as PrivateKey,
    PublicKey as PublicKey,
    public_key as public_key,
    read_private_key as read_private_key,
    read_public_key as read_public_key,
    read_public_keys as read_public_keys,
    write_key_pair as write_key_pair,
)
from ktdeval.cards.system import (
    System as System,
    check_match as check_match,
    is_seed as is_seed,
    no_match as no_match,
    split_patterns as split_patterns,
    system_labels as system_labels,
)
from ktdeval.cards.table_types import (
    UNDEFINED as UNDEFINED,
    Grid as Grid,
    Report as Report,
    clean as clean,
    count as count,
    dollars as dollars,
    percent as percent,
    points as points,
    share_of as share_of,
    tally as tally,
    word_grid as word_grid,
)
from ktdeval.cards.task_identity import (
    facts_besides_variant as facts_besides_variant,
    facts_of_mode as facts_of_mode,
    task_facts as task_facts,
)
from ktdeval.cards.text_wrapping import folded_texts as folded_texts
from ktdeval.masking.mask_config import MaskKind as MaskKind
