"""Public names of stores: keys and files, claims with leases, shared sums."""

from ktdeval.stores.claims import (
    Claim as Claim,
    ClaimBoard as ClaimBoard,
    UnitState as UnitState,
)
from ktdeval.stores.git_commands import Git as Git, git_around as git_around
from ktdeval.stores.heartbeats import Heartbeats as Heartbeats, HolderId as HolderId
from ktdeval.stores.local import LocalStore as LocalStore
from ktdeval.stores.maintenance import (
    Finding as Finding,
    check_claims as check_claims,
    check_sum as check_sum,
    compact_claims as compact_claims,
    remove_dead_beats as remove_dead_beats,
)
from ktdeval.stores.shared_sum_log import OpenGrant as OpenGrant, SumState as SumState
from ktdeval.stores.shared_sums import Grant as Grant, SharedSum as SharedSum
from ktdeval.stores.store import (
    BadKey as BadKey,
    MissingKey as MissingKey,
    NoConditionalWrites as NoConditionalWrites,
    Stat as Stat,
    Store as Store,
    StoreUnavailable as StoreUnavailable,
    open_store as open_store,
)
